//! Private search on the command line: options, the device's key, and the client's part of blurred search.

use std::cell::Cell;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use dpr_core::Embedding;
use dpr_core::private::blur::{DeviceKey, Level};
use dpr_core::private::rerank::Reranker;
use dpr_files::atomic::write_new_secret;
use dpr_index::private::{BlurDir, candidates};
use dpr_index::search::{Backend, Hit};
use dpr_index::{CancelToken, FileError};

use super::CliError;

/// Bytes of a device's key.
const KEY: usize = 32;

/// Buckets that a question is taken to be about, where nothing else is said.
const DEFAULT_PROBES: usize = 4;

/// The degree to which a question is shown to the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Privacy {
    /// The vector.
    #[default]
    Plain,
    /// Few coordinates with noise; candidates are ranked by the vector here.
    Blurred,
    /// Nothing: the index is a static site, which is searched here.
    Local,
    /// Which buckets of a static site are fetched, some of them decoys; they are searched here.
    Bucket,
    /// Nothing but when it was asked: passages are ranked and texts fetched under encryption (experimental).
    Encrypted,
}

impl Privacy {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Blurred => "blurred",
            Self::Local => "local",
            Self::Bucket => "bucket",
            Self::Encrypted => "encrypted",
        }
    }
}

/// Options of private search.
#[derive(Debug, clap::Args)]
pub(super) struct PrivacyArgs {
    /// How much is shown of the question: plain (its vector), blurred (few coordinates with noise; needs --blur), local
    /// (nothing: --index is a folder or dpr-static.json of `dpr index export-static`, searched as a page does), bucket
    /// (which buckets of such a site are read, some of them decoys), or encrypted (nothing of it; needs --server;
    /// experimental until it has been reviewed)
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    privacy: Privacy,
    /// Blur directory, as `dpr index blur` wrote it
    #[arg(long, value_name = "DIR")]
    blur: Option<PathBuf>,
    /// Blurred: light, medium or strong; without it medium
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Option<Level>,
    /// Blurred and bucket: file of this device's secret key, made when it is not there, so that the same question is
    /// blurred alike, or has the same decoys, each time; without it the key is forgotten at the end
    #[arg(long, value_name = "FILE")]
    device_key: Option<PathBuf>,
    /// Bucket: buckets that the question is about, 1, 2, 4 or 8; without it 4
    #[arg(long, value_name = "N")]
    probes: Option<usize>,
    /// Bucket: buckets that it is not about, a multiple of --probes; without it as many as --probes
    #[arg(long, value_name = "N")]
    decoys: Option<usize>,
    /// Encrypted: the version of the private tables, the only one that is taken
    #[arg(long, value_name = "SHA256")]
    expect_version: Option<String>,
}

fn level(text: &str) -> Result<Level, String> {
    let level = Level::ALL.into_iter().find(|level| level.name() == text);
    level.ok_or_else(|| "give light, medium or strong".to_owned())
}

/// Opens a blur directory of an index that was built by a model with this fingerprint, with vectors of so many numbers.
pub(super) fn open_blur(path: &Path, (model, dim): (&str, usize)) -> Result<BlurDir, CliError> {
    let dir = BlurDir::open(path).map_err(|error| -> CliError {
        match error {
            FileError::NewerFormat { .. } => error.into(),
            error => format!("{error}: make it with `dpr index blur`").into(),
        }
    })?;
    if !dir.is_of(model, dim) {
        let path = path.display();
        return Err(
            format!("{path} is of another model than the index: make one with `dpr index blur`").into()
        );
    }
    Ok(dir)
}

/// Blurred search, ready for questions.
pub(super) struct BlurredSearch {
    dir: BlurDir,
    level: Level,
    count: usize,
    key: DeviceKey,
    model: String,
    /// Passages of the index when it was opened.
    passages: usize,
    /// A note was printed that fewer were found than asked for.
    has_noted: Cell<bool>,
}

impl PrivacyArgs {
    /// Returns how much is shown of the question.
    ///
    /// # Errors
    /// An option of another mode than that of the search, which may show more than the one that was meant.
    pub(super) fn mode(&self) -> Result<Privacy, CliError> {
        let mode = self.privacy;
        let options: [(&str, bool, &[Privacy]); 6] = [
            ("--blur", self.blur.is_some(), &[Privacy::Blurred]),
            ("--level", self.level.is_some(), &[Privacy::Blurred]),
            ("--device-key", self.device_key.is_some(), &[Privacy::Blurred, Privacy::Bucket]),
            ("--probes", self.probes.is_some(), &[Privacy::Bucket]),
            ("--decoys", self.decoys.is_some(), &[Privacy::Bucket]),
            ("--expect-version", self.expect_version.is_some(), &[Privacy::Encrypted]),
        ];
        match options.into_iter().find(|(_, is_given, modes)| *is_given && !modes.contains(&mode)) {
            None => Ok(mode),
            Some((option, _, modes)) => {
                let modes: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
                let (modes, mode) = (modes.join(" or --privacy "), mode.name());
                Err(format!(
                    "{option} is for --privacy {modes}, and this search is {mode}: nothing was searched"
                )
                .into())
            }
        }
    }

    /// Returns the version of the private tables that is taken, any if none is named.
    pub(super) fn expect_version(&self) -> Option<&str> {
        self.expect_version.as_deref()
    }

    /// Returns the numbers of buckets that are probed and of decoys.
    pub(super) fn buckets(&self) -> (usize, usize) {
        let probes = self.probes.unwrap_or(DEFAULT_PROBES);
        (probes, self.decoys.unwrap_or(probes))
    }

    /// Returns this device's key: that of the file, else one for this run.
    pub(super) fn key(&self) -> Result<DeviceKey, CliError> {
        match &self.device_key {
            Some(file) => kept_key(file),
            None => new_key(),
        }
        .map(DeviceKey::new)
    }

    /// Opens what blurred search needs to ask `backend`. There is no plainer search in its place.
    pub(super) fn open(&self, backend: &dyn Backend) -> Result<BlurredSearch, CliError> {
        let path =
            self.blur.as_deref().ok_or("--privacy blurred needs --blur, which `dpr index blur` writes")?;
        let index = backend.describe();
        let dir = open_blur(path, (&index.model, index.dim))?;
        let path = path.display();
        let level = self.level.unwrap_or(Level::Medium);
        let Some(entry) = dir.level(level) else {
            let offered: Vec<&str> = dir.manifest().levels.keys().map(|level| level.name()).collect();
            let offered = match offered.as_slice() {
                [] => "nor another: `dpr index blur` says why".to_owned(),
                levels => format!("only {}", levels.join(" and ")),
            };
            return Err(format!("{path} does not offer the level {level}, {offered}").into());
        };
        let count = entry.candidates;
        let key = self.key()?;
        let (model, passages) = (index.model, index.count);
        Ok(BlurredSearch { dir, level, count, key, model, passages, has_noted: Cell::new(false) })
    }
}

impl BlurredSearch {
    /// Returns the `k` best of the candidates that `backend` has for a question, by the question's own vector. The
    /// backend is shown nothing but what [`Blur::apply`](dpr_core::private::blur::Blur::apply) returns.
    pub(super) fn search(
        &self,
        backend: &dyn Backend,
        vector: &Embedding,
        tokens: &[u32],
        k: usize,
    ) -> Result<Vec<Hit>, CliError> {
        let (projection, vector) = (self.dir.projection(), vector.as_slice());
        let sent = self.level.blur().apply(projection, vector, &self.key, &self.model, tokens)?;
        let found = candidates(backend, projection, &sent, self.count, &CancelToken::never())?;
        let best =
            Reranker::new(projection, vector).rank(found.iter().map(|found| found.code.as_slice()), k)?;
        if best.len() < k.min(self.passages) && !self.has_noted.replace(true) {
            let offered = self.dir.manifest().levels.iter().map(|(level, entry)| (*level, entry.candidates));
            let said = too_few((best.len(), k), (self.level, self.count), self.passages, offered);
            tracing::warn!("{said}");
        }
        Ok(best.into_iter().map(|(at, score)| Hit { score, ..found[at].hit.clone() }).collect())
    }
}

/// Returns why fewer passages were found than asked for, and what helps: a level with more candidates, of those that
/// are offered.
fn too_few(
    (found, k): (usize, usize),
    (level, count): (Level, usize),
    passages: usize,
    offered: impl Iterator<Item = (Level, usize)>,
) -> String {
    let more: Vec<String> = offered
        .filter(|(_, candidates)| *candidates > count)
        .map(|(level, candidates)| format!("--level {level} ({candidates} candidates)"))
        .collect();
    let helps = match more.as_slice() {
        [] => "no level of the blur directory has more: give a smaller --k".to_owned(),
        more => format!("give {}, or a smaller --k", more.join(" or ")),
    };
    format!(
        "{found} of --k {k} passages were found: the level {level} asks for {count} candidates of the index's \
         {passages} passages; {helps}"
    )
}

fn new_key() -> Result<[u8; KEY], CliError> {
    let mut bytes = [0; KEY];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(bytes)
}

/// Reads the key of `file`, or makes one that only the user can read. Of several processes that make one at once all
/// have the key of the first.
fn kept_key(file: &Path) -> Result<[u8; KEY], CliError> {
    if !file.exists() {
        let bytes = new_key()?;
        let written = write_new_secret(file, &bytes);
        if written.map_err(|error| format!("the device key {}: {error}", file.display()))? {
            return Ok(bytes);
        }
    }
    let mut bytes = Vec::new();
    let open = fs_err::File::open(file)?;
    open.take(KEY as u64 + 1).read_to_end(&mut bytes)?;
    let got = bytes.len();
    let bytes: [u8; KEY] = bytes.try_into().map_err(|_| {
        let file = file.display();
        let more = if got > KEY { " or more" } else { "" };
        format!("{file} has {got}{more} bytes, a device key has {KEY}: give another file, or remove it to make a new key")
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_candidates_are_told_with_the_levels_that_have_more() {
        let offered = [(Level::Light, 50), (Level::Medium, 50), (Level::Strong, 200)];
        let said = |level| too_few((level, 300), (Level::Light, level), 1000, offered.into_iter());
        let few = said(50);
        assert!(few.contains("50 of --k 300 passages were found: the level light asks for 50"), "{few}");
        assert!(few.ends_with("give --level strong (200 candidates), or a smaller --k"), "{few}");
        assert!(said(200).ends_with("no level of the blur directory has more: give a smaller --k"));
    }

    #[test]
    fn a_key_is_made_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        kept_key(&file).unwrap();
        let bytes = fs_err::read(&file).unwrap();
        assert_eq!(bytes.len(), KEY);
        assert_ne!(bytes, [0; KEY]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs_err::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        }
        kept_key(&file).unwrap();
        assert_eq!(fs_err::read(&file).unwrap(), bytes);
        for wrong in [0, 31, 33, 5000] {
            fs_err::write(&file, vec![1; wrong]).unwrap();
            let error = kept_key(&file).unwrap_err().to_string();
            assert!(error.contains("a device key has 32"), "{wrong}: {error}");
        }
        assert!(kept_key(dir.path()).is_err());
    }

    #[test]
    fn processes_that_make_a_key_at_once_have_the_same() {
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let file = dir.path().join(round.to_string());
            let begin = std::sync::Barrier::new(8);
            let made = || {
                begin.wait();
                kept_key(&file).map_err(|error| error.to_string())
            };
            let keys: Vec<[u8; KEY]> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(made)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
            });
            assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
        }
        assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 20, "no file but the keys is left");
    }
}
