//! Run directory: `config.toml`, `metrics.jsonl`, the curves, `checkpoints/` and the best model.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::checkpoint;
use super::config::Settings;
use super::error::TrainError;
use super::scores::Scores;
use dpr_eval::{Series, series_svg};
use dpr_files::atomic::write_file;
use dpr_files::{DirLock, refuse_foreign};

const CONFIG: &str = "config.toml";
const METRICS: &str = "metrics.jsonl";
const CHECKPOINTS: &str = "checkpoints";
const BEST: &str = "best";
const LOSS_PLOT: &str = "loss.svg";
const DEV_PLOT: &str = "dev.svg";

/// One line of `metrics.jsonl`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Metric {
    /// A step was taken.
    Step(StepMetric),
    /// A step was skipped: its numbers did not fit half precision.
    Skipped(SkippedMetric),
    /// The dev questions were measured.
    Dev(DevMetric),
}

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepMetric {
    /// The step, from 1.
    pub step: usize,
    /// The epoch, from 1.
    pub epoch: usize,
    /// The loss of its batches before it was taken.
    pub loss: f64,
    /// Share of the questions whose positive scored best in the batch.
    pub accuracy: f64,
    /// Norm of the gradient before clipping.
    pub gradient: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Questions a second, over this step.
    pub questions_per_second: f64,
}

/// A step that changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SkippedMetric {
    /// The step, from 1.
    pub step: usize,
    /// The epoch, from 1.
    pub epoch: usize,
    /// Steps that were skipped one after another, with this one.
    pub in_a_row: usize,
}

/// Scores on the dev questions, with their step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DevMetric {
    /// Steps taken before.
    pub step: usize,
    /// The scores that were measured.
    #[serde(flatten)]
    pub scores: Scores,
}

impl Metric {
    fn step(&self) -> usize {
        match self {
            Self::Step(metric) => metric.step,
            Self::Skipped(metric) => metric.step,
            Self::Dev(metric) => metric.step,
        }
    }
}

/// A run's directory, locked.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    metrics: Vec<Metric>,
    _lock: DirLock,
}

impl RunDir {
    /// Refuses a directory that holds a run or anything else, and one that cannot be made or written to. Call it before
    /// data and model are read. Nothing is left of it.
    ///
    /// # Errors
    /// [`TrainError::Exists`], or [`TrainError::InUse`] while it goes on; [`TrainError::LeftOver`] for what a run left
    /// whose settings are gone; [`TrainError::File`] and an I/O error name the directory.
    pub fn check_new(path: &Path) -> Result<(), TrainError> {
        if Self::is_begun(path) {
            return Err(match DirLock::acquire(path)? {
                Some(_) => TrainError::Exists { dir: path.into() },
                None => TrainError::InUse { dir: path.into() },
            });
        }
        refuse_foreign(path, is_of_a_run)?;
        refuse_left_over(path)?;
        let first = path.ancestors().find(|dir| dir.exists()).filter(|dir| !dir.as_os_str().is_empty());
        dpr_files::atomic::check_writable(first.unwrap_or(Path::new(".")))?;
        Ok(())
    }

    /// Returns whether a run was begun in a directory.
    pub fn is_begun(path: &Path) -> bool {
        path.join(CONFIG).exists()
    }

    /// Refuses to go on in a directory that holds no run, or one of other settings. Call it before data and model are
    /// read.
    ///
    /// # Errors
    /// [`TrainError::NothingToResume`], [`TrainError::OtherRun`] or [`TrainError::OtherConfig`].
    pub fn check_begun<C: Settings>(path: &Path, config: &C) -> Result<(), TrainError> {
        Self::check_same(path, &Self::config(path)?, config)
    }

    /// Refuses other settings than those that the run in `path` was begun with.
    ///
    /// # Errors
    /// [`TrainError::OtherConfig`] names a setting that differs.
    pub fn check_same<C: Settings>(path: &Path, begun: &C, config: &C) -> Result<(), TrainError> {
        let config = config.written_as(begun);
        if *begun == config {
            return Ok(());
        }
        let difference = difference(&begun.to_toml()?, &config.to_toml()?);
        Err(TrainError::OtherConfig { dir: path.into(), difference })
    }

    /// Begins a run in a directory that holds none.
    ///
    /// # Errors
    /// As [`RunDir::check_new`].
    pub fn begin(path: &Path, config: &impl Settings) -> Result<Self, TrainError> {
        refuse_foreign(path, is_of_a_run)?;
        fs_err::create_dir_all(path)?;
        let dir = Self::lock(path)?;
        if Self::is_begun(path) {
            return Err(TrainError::Exists { dir: path.into() });
        }
        refuse_left_over(path)?;
        let text = config.to_toml()?;
        write_file(&path.join(CONFIG), |out| out.write_all(text.as_bytes()))?;
        Ok(dir)
    }

    /// Continues a run that was begun with the same settings.
    ///
    /// # Errors
    /// As [`RunDir::check_begun`], [`TrainError::InUse`], or an I/O error.
    pub fn resume<C: Settings>(path: &Path, config: &C) -> Result<Self, TrainError> {
        Self::check_begun(path, config)?;
        Self::lock(path)
    }

    fn lock(path: &Path) -> Result<Self, TrainError> {
        match DirLock::acquire(path)? {
            Some(lock) => {
                dpr_files::atomic::remove_unfinished(path)?;
                let checkpoints = path.join(CHECKPOINTS);
                if checkpoints.is_dir() {
                    dpr_files::atomic::remove_unfinished(&checkpoints)?;
                }
                Ok(Self { path: path.into(), metrics: Vec::new(), _lock: lock })
            }
            None => Err(TrainError::InUse { dir: path.into() }),
        }
    }

    /// Reads the settings that the run in `path` was begun with.
    ///
    /// # Errors
    /// [`TrainError::NothingToResume`] when there is none, [`TrainError::OtherRun`] when they are damaged, or of what
    /// another command trains.
    pub fn config<C: Settings>(path: &Path) -> Result<C, TrainError> {
        if !Self::is_begun(path) {
            return Err(TrainError::NothingToResume { dir: path.into() });
        }
        C::read(&path.join(CONFIG)).map_err(|error| match error {
            TrainError::Config { reason, .. } => TrainError::OtherRun { dir: path.into(), reason },
            other => other,
        })
    }

    /// Returns the directory of the checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join(CHECKPOINTS)
    }

    /// Returns the directory of the best model.
    pub fn best(&self) -> PathBuf {
        self.path.join(BEST)
    }

    /// Removes the records after `step`, from which the run continues.
    ///
    /// # Errors
    /// An I/O error that names the path. A last line that was cut short is dropped.
    pub fn rewind(&mut self, step: usize) -> Result<(), TrainError> {
        let path = self.path.join(METRICS);
        let text = if path.exists() { fs_err::read_to_string(&path)? } else { String::new() };
        let metrics = text.lines().filter_map(|line| serde_json::from_str::<Metric>(line).ok());
        self.metrics = metrics.filter(|metric| metric.step() <= step).collect();
        let lines: Vec<String> = self
            .metrics
            .iter()
            .map(serde_json::to_string)
            .collect::<Result<_, _>>()
            .map_err(std::io::Error::other)?;
        write_file(&path, |out| lines.iter().try_for_each(|line| writeln!(out, "{line}")))?;
        Ok(())
    }

    /// Adds a line to `metrics.jsonl`.
    ///
    /// # Errors
    /// An I/O error that names the path.
    pub fn record(&mut self, metric: Metric) -> Result<(), TrainError> {
        let line = serde_json::to_string(&metric).map_err(std::io::Error::other)?;
        let mut file = fs_err::OpenOptions::new().create(true).append(true).open(self.path.join(METRICS))?;
        writeln!(file, "{line}")?;
        self.metrics.push(metric);
        Ok(())
    }

    /// Returns the recorded metrics, in order.
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    /// Draws `loss.svg` and, where dev questions were measured, `dev.svg`.
    ///
    /// # Errors
    /// An I/O error that names the path.
    pub fn draw(&self) -> Result<(), TrainError> {
        let steps: Vec<(f64, f64)> = self
            .metrics
            .iter()
            .filter_map(|metric| match metric {
                Metric::Step(metric) => Some((metric.step as f64, metric.loss)),
                Metric::Dev(_) | Metric::Skipped(_) => None,
            })
            .collect();
        let dev: Vec<(f64, Scores)> = self
            .metrics
            .iter()
            .filter_map(|metric| match metric {
                Metric::Dev(metric) => Some((metric.step as f64, metric.scores)),
                Metric::Step(_) | Metric::Skipped(_) => None,
            })
            .collect();
        let series = |name: &str, points| Series { name: name.into(), points };
        let losses = vec![
            series("training, mean of neighbouring steps", smooth(&steps)),
            series("dev", dev.iter().map(|(step, scores)| (*step, scores.loss())).collect()),
        ];
        self.plot(LOSS_PLOT, "Loss", "Loss", losses)?;
        let mut shares: Vec<Series> = Vec::new();
        for (step, scores) in &dev {
            for (place, (name, share)) in scores.shares().into_iter().enumerate() {
                if shares.len() <= place {
                    shares.push(series(name, Vec::new()));
                }
                shares[place].points.push((*step, share * 100.0));
            }
        }
        self.plot(DEV_PLOT, "On the dev questions", "%", shares)
    }

    fn plot(&self, file: &str, title: &str, unit: &str, mut series: Vec<Series>) -> Result<(), TrainError> {
        series.retain(|series| !series.points.is_empty());
        if series.is_empty() {
            return Ok(());
        }
        let svg = series_svg(title, "Steps", unit, &series).map_err(std::io::Error::other)?;
        Ok(write_file(&self.path.join(file), |out| out.write_all(svg.as_bytes()))?)
    }
}

/// Refuses a directory that holds what a run has made. Where its settings are gone, a new one would mix with it.
fn refuse_left_over(path: &Path) -> Result<(), TrainError> {
    let mut parts = Vec::new();
    if !checkpoint::list(&path.join(CHECKPOINTS))?.is_empty() {
        parts.push(format!("{CHECKPOINTS}/"));
    }
    let made = [(METRICS, METRICS.to_owned()), (BEST, format!("{BEST}/"))];
    parts.extend(made.into_iter().filter(|(name, _)| path.join(name).exists()).map(|(_, part)| part));
    if parts.is_empty() { Ok(()) } else { Err(TrainError::LeftOver { dir: path.into(), parts }) }
}

/// Returns whether a run writes a file or a directory of this name.
fn is_of_a_run(name: &str) -> bool {
    [CONFIG, METRICS, CHECKPOINTS, BEST, LOSS_PLOT, DEV_PLOT].contains(&name)
}

/// Returns the first setting that differs, as `seed = 1, not seed = 2`; one that may be left out also as
/// `without dtype, not dtype = "q4"`.
fn difference(begun: &str, now: &str) -> String {
    let (begun, now) = (settings(begun), settings(now));
    let found = |settings: &[(String, String)], name: &str| {
        settings.iter().find(|(known, _)| known == name).map(|(_, line)| line.clone())
    };
    for (name, line) in &begun {
        match found(&now, name) {
            Some(other) if other == *line => {}
            Some(other) => return format!("{line}, not {other}"),
            None => return format!("{line}, not without it"),
        }
    }
    let more = now.iter().find(|(name, _)| found(&begun, name).is_none());
    more.map_or("in another order".to_owned(), |(_, line)| {
        format!("without {}, not {line}", line.split(" = ").next().unwrap_or_default())
    })
}

/// Returns the lines of a configuration that set something, with the section and the name that each sets. Sections of
/// one name, as those of several training files, are told apart by their number.
fn settings(text: &str) -> Vec<(String, String)> {
    let mut sections: HashMap<&str, usize> = HashMap::new();
    let (mut section, mut number) = ("", 0);
    let mut settings = Vec::new();
    for line in text.lines() {
        match line.split_once(" = ") {
            Some((name, _)) => settings.push((format!("{section} {number} {name}"), line.to_owned())),
            None if line.starts_with('[') => {
                let seen = sections.entry(line).or_default();
                (section, number) = (line, *seen);
                *seen += 1;
            }
            None => {}
        }
    }
    settings
}

/// Returns at most 60 points, each the mean of the same number of steps.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |group: &[(f64, f64)]| {
        let sum = group.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / group.len() as f64, sum.1 / group.len() as f64)
    };
    points.chunks(points.len().div_ceil(60).max(1)).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::super::config::{DataFile, TrainConfig};
    use super::*;

    #[test]
    fn the_first_setting_that_differs_is_named_also_where_one_is_left_out() {
        let plain = "[model]\nstart = \"m\"\n\n[run]\nseed = 1\n";
        let seed = "[model]\nstart = \"m\"\n\n[run]\nseed = 2\n";
        let q4 = "[model]\nstart = \"m\"\ndtype = \"q4\"\n\n[run]\nseed = 1\n";
        let q8 = "[model]\nstart = \"m\"\nmax = 32\ndtype = \"q8\"\n\n[run]\nseed = 1\n";
        assert_eq!(difference(plain, seed), "seed = 1, not seed = 2");
        assert_eq!(difference(plain, q4), "without dtype, not dtype = \"q4\"");
        assert_eq!(difference(q4, plain), "dtype = \"q4\", not without it");
        assert_eq!(difference(q4, q8), "dtype = \"q4\", not dtype = \"q8\"");
    }

    #[test]
    fn the_setting_that_differs_is_named_where_there_are_several_training_files() {
        let of = |files: &[(&str, f64)], seed: u64| {
            let mut config = TrainConfig::default();
            let file = |(path, weight): &(&str, f64)| DataFile { path: PathBuf::from(path), weight: *weight };
            config.data.train = files.iter().map(file).collect();
            config.run.seed = seed;
            config.to_toml().unwrap()
        };
        let begun = of(&[("a.json", 1.0), ("b.json", 1.0)], 1);
        let differs = |files: &[(&str, f64)], seed: u64| difference(&begun, &of(files, seed));
        assert_eq!(differs(&[("a.json", 1.0), ("b.json", 1.0)], 2), "seed = 1, not seed = 2");
        assert_eq!(
            differs(&[("a.json", 1.0), ("c.json", 1.0)], 1),
            "path = \"b.json\", not path = \"c.json\""
        );
        assert_eq!(differs(&[("a.json", 1.0), ("b.json", 0.5)], 1), "weight = 1.0, not weight = 0.5");
        assert_eq!(differs(&[("a.json", 1.0)], 1), "path = \"b.json\", not without it");
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_when_a_run_goes_on() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("run");
        let config = TrainConfig::default();
        drop(RunDir::begin(&path, &config).unwrap());
        let whole = path.join(CHECKPOINTS).join("step-0000005");
        let unfinished = format!("{}x", dpr_files::atomic::STAGING_PREFIX);
        let left = [&path, &path.join(CHECKPOINTS)].map(|dir| dir.join(&unfinished));
        for dir in left.iter().chain([&whole]) {
            fs_err::create_dir_all(dir).unwrap();
            fs_err::write(dir.join("state.json"), "{}").unwrap();
        }
        drop(RunDir::resume(&path, &config).unwrap());
        assert!(left.iter().all(|dir| !dir.exists()), "{left:?}");
        assert!(whole.join("state.json").exists(), "a whole checkpoint stays");
    }

    #[test]
    fn a_run_begins_only_where_nothing_else_is() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        for name in ["model", "begun/checkpoints"] {
            fs_err::create_dir_all(at(name)).unwrap();
        }
        for name in ["model/model.json", "taken"] {
            fs_err::write(at(name), "").unwrap();
        }
        for name in ["new", "new/deep", "begun"] {
            RunDir::check_new(&at(name)).unwrap();
        }
        assert!(!at("new").exists(), "nothing is made before the run begins");
        let refused = |name: &str| RunDir::check_new(&at(name)).unwrap_err().to_string();
        assert!(refused("model").contains("holds `model.json`"), "{}", refused("model"));
        // Parts of a run without its config.toml are refused, since a new run would mix with them.
        let (checkpoint, best) = ("checkpoints/step-0000005/state.json", "best/model.json");
        let cases: [(&[&str], &str); 4] = [
            (&[checkpoint], "`checkpoints/`"),
            (&[best], "`best/`"),
            (&[METRICS], "`metrics.jsonl`"),
            (&[best, METRICS, checkpoint], "`checkpoints/`, `metrics.jsonl`, `best/`"),
        ];
        for (made, named) in cases {
            for path in made.iter().map(|made| at("left").join(made)) {
                fs_err::create_dir_all(path.parent().unwrap()).unwrap();
                fs_err::write(path, "{}").unwrap();
            }
            let begun = RunDir::begin(&at("left"), &TrainConfig::default()).unwrap_err().to_string();
            let expected = format!("holds parts of another run ({named}), whose config.toml is gone");
            for error in [refused("left"), begun] {
                assert!(error.contains(&expected), "{made:?}: {error}");
            }
            assert!(!RunDir::is_begun(&at("left")));
            fs_err::remove_dir_all(at("left")).unwrap();
        }
        for name in ["taken", "taken/deep"] {
            assert!(refused(name).contains("taken"), "{}", refused(name));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_run_does_not_begin_where_nothing_can_be_written() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let parent = root.path().join("read-only");
        fs_err::create_dir(&parent).unwrap();
        fs_err::set_permissions(&parent, std::fs::Permissions::from_mode(0o555)).unwrap();
        if fs_err::write(parent.join("probe"), "").is_ok() {
            eprintln!("skipped: root writes everywhere");
            return;
        }
        let error = RunDir::check_new(&parent.join("run")).unwrap_err().to_string();
        assert!(error.contains("read-only"), "{error}");
    }
}
