//! Run directory: `config.toml`, `metrics.jsonl`, the curves, `checkpoints/` and the best model.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::config::Settings;
use super::error::TrainError;
use super::scores::Scores;
use dpr_eval::{Series, series_svg};
use dpr_files::DirLock;
use dpr_files::atomic::write_file;

const CONFIG: &str = "config.toml";
const METRICS: &str = "metrics.jsonl";

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
    /// Refuses a directory that holds a run. Call it before data and model are read.
    ///
    /// # Errors
    /// [`TrainError::Exists`], or [`TrainError::InUse`] while it goes on.
    pub fn refuse_existing(path: &Path) -> Result<(), TrainError> {
        match path.join(CONFIG).exists() {
            false => Ok(()),
            true if DirLock::acquire(path)?.is_none() => Err(TrainError::InUse { dir: path.into() }),
            true => Err(TrainError::Exists { dir: path.into() }),
        }
    }

    /// Begins a run in a directory that holds none.
    ///
    /// # Errors
    /// [`TrainError::Exists`], [`TrainError::InUse`], or an I/O error.
    pub fn begin(path: &Path, config: &impl Settings) -> Result<Self, TrainError> {
        fs_err::create_dir_all(path)?;
        let dir = Self::lock(path)?;
        if path.join(CONFIG).exists() {
            return Err(TrainError::Exists { dir: path.into() });
        }
        let text = config.to_toml()?;
        write_file(&path.join(CONFIG), |out| out.write_all(text.as_bytes()))?;
        Ok(dir)
    }

    /// Continues a run that was begun with the same settings.
    ///
    /// # Errors
    /// [`TrainError::NothingToResume`], [`TrainError::OtherConfig`], [`TrainError::InUse`], or an I/O error.
    pub fn resume<C: Settings>(path: &Path, config: &C) -> Result<Self, TrainError> {
        let begun: C = Self::config(path)?;
        if begun != *config {
            let difference = difference(&begun.to_toml()?, &config.to_toml()?);
            return Err(TrainError::OtherConfig { dir: path.into(), difference });
        }
        Self::lock(path)
    }

    fn lock(path: &Path) -> Result<Self, TrainError> {
        match DirLock::acquire(path)? {
            Some(lock) => {
                dpr_files::atomic::remove_unfinished(path)?;
                Ok(Self { path: path.into(), metrics: Vec::new(), _lock: lock })
            }
            None => Err(TrainError::InUse { dir: path.into() }),
        }
    }

    /// Reads the settings that the run in `path` was begun with.
    ///
    /// # Errors
    /// [`TrainError::NothingToResume`] when there is none, [`TrainError::Config`] when they are damaged.
    pub fn config<C: Settings>(path: &Path) -> Result<C, TrainError> {
        match path.join(CONFIG) {
            config if config.exists() => C::read(&config),
            _ => Err(TrainError::NothingToResume { dir: path.into() }),
        }
    }

    /// Returns the directory of the checkpoints.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// Returns the directory of the best model.
    pub fn best(&self) -> PathBuf {
        self.path.join("best")
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
        self.plot("loss.svg", "Loss", "Loss", losses)?;
        let mut shares: Vec<Series> = Vec::new();
        for (step, scores) in &dev {
            for (place, (name, share)) in scores.shares().into_iter().enumerate() {
                if shares.len() <= place {
                    shares.push(series(name, Vec::new()));
                }
                shares[place].points.push((*step, share * 100.0));
            }
        }
        self.plot("dev.svg", "On the dev questions", "%", shares)
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

/// Returns the first setting that differs, as `seed = 1, not seed = 2`.
fn difference(begun: &str, now: &str) -> String {
    let pairs = begun.lines().zip(now.lines());
    let first = pairs.into_iter().find(|(begun, now)| begun != now);
    first.map_or("another number of them".to_owned(), |(begun, now)| format!("{begun}, not {now}"))
}

/// Returns at most 60 points, each the mean of the same number of steps.
fn smooth(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mean = |group: &[(f64, f64)]| {
        let sum = group.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / group.len() as f64, sum.1 / group.len() as f64)
    };
    points.chunks(points.len().div_ceil(60).max(1)).map(mean).collect()
}
