//! Blur directories on disk: `blur.json` and `projection.f16`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dpr_core::model::{FileEntry, sha256_hex};
use dpr_core::private::blur::{Blur, Level};
use dpr_core::private::projection::Projection;
use dpr_files::atomic::StagedDir;
use dpr_files::{Error as FileError, digest, plain};
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::calibrate::Calibration;
use crate::limits::MAX_CANDIDATES;

/// The newest format of blur directories, and the only one.
pub const BLUR_FORMAT: u32 = 1;

/// The name of the projection's file.
pub const PROJECTION: &str = "projection.f16";

/// The name of the manifest's file.
const MANIFEST: &str = "blur.json";

/// Most bytes of a manifest.
const MAX_MANIFEST: u64 = 1 << 20;

/// A level as a blur directory offers it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelEntry {
    /// The level's own numbers; others are refused.
    #[serde(flatten)]
    pub blur: Blur,
    /// Candidates that a search returns.
    pub candidates: usize,
    /// Mean share of exact search's 20 best among them, when it was measured.
    pub recall: f64,
}

/// `blur.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlurManifest {
    /// At most [`BLUR_FORMAT`].
    pub format_version: u32,
    /// Fingerprint of the model whose vectors are projected.
    pub model_fingerprint: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// Directions of the projection.
    pub rank: usize,
    /// The projection's file.
    pub projection: FileEntry,
    /// Passages of the index that was calibrated on.
    pub passages: usize,
    /// Questions that it was calibrated with.
    pub questions: usize,
    /// `questions`, or `passages` where vectors of passages stood in for questions.
    pub calibrated_on: String,
    /// The levels that are offered. One for which no number of candidates was enough is left out.
    pub levels: BTreeMap<Level, LevelEntry>,
    /// The program that made it, as `dpr 0.1.0`.
    pub created_by: String,
}

/// A blur directory, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct BlurDir {
    path: PathBuf,
    manifest: BlurManifest,
    projection: Arc<Projection>,
}

impl BlurDir {
    /// Reads a blur directory and checks everything in it.
    ///
    /// # Errors
    /// [`FileError`]: a missing or damaged file, a newer format, or a manifest that makes no sense.
    pub fn open(dir: &Path) -> Result<Self, FileError> {
        let path = dir.join(MANIFEST);
        let bytes = plain::read(&path, MAX_MANIFEST).map_err(FileError::read(&path))?;
        let manifest: BlurManifest =
            serde_json::from_slice(&bytes).map_err(|e| FileError::corrupt(&path, e.to_string()))?;
        if manifest.format_version > BLUR_FORMAT {
            let (found, supported) = (manifest.format_version, BLUR_FORMAT);
            return Err(FileError::NewerFormat { path, found, supported });
        }
        manifest.check().map_err(|reason| FileError::corrupt(&path, reason))?;
        let path = dir.join(PROJECTION);
        let bytes = read_entry(&path, &manifest.projection)?;
        let projection =
            Projection::from_bytes(&bytes).map_err(|e| FileError::corrupt(&path, e.to_string()))?;
        if (projection.dim(), projection.rank()) != (manifest.dim, manifest.rank) {
            let reason =
                format!("{} rows of {}, not those of {MANIFEST}", projection.rank(), projection.dim());
            return Err(FileError::corrupt(&path, reason));
        }
        Ok(Self { path: dir.to_path_buf(), manifest, projection: Arc::new(projection) })
    }

    /// Checks that a blur directory can be written to `dir`, before long work: nothing else is there, and the directory
    /// around it, which is made where it is missing, can be written to.
    ///
    /// # Errors
    /// As [`BlurDir::write`].
    pub fn check_target(dir: &Path) -> Result<(), FileError> {
        refuse_other(dir)?;
        // Dropped, it is removed.
        StagedDir::beside(dir).map(drop).map_err(FileError::write)
    }

    /// Writes a blur directory, whole or not at all; one that is there is replaced, and nothing else is.
    ///
    /// # Errors
    /// [`FileError::Foreign`] for a directory with other files, [`FileError::Write`]; what was there is as it was.
    pub fn write(dir: &Path, manifest: BlurManifest, projection: Projection) -> Result<Self, FileError> {
        refuse_other(dir)?;
        let staged = StagedDir::beside(dir).map_err(FileError::write)?;
        let json = serde_json::to_vec_pretty(&manifest).map_err(|e| FileError::write(e.into()))?;
        fs::write(staged.path().join(PROJECTION), projection.to_bytes()).map_err(FileError::write)?;
        fs::write(staged.path().join(MANIFEST), json).map_err(FileError::write)?;
        staged.replace().map_err(FileError::write)?;
        Ok(Self { path: dir.to_path_buf(), manifest, projection: Arc::new(projection) })
    }

    /// Returns where it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the manifest.
    pub fn manifest(&self) -> &BlurManifest {
        &self.manifest
    }

    /// Returns the projection.
    pub fn projection(&self) -> &Arc<Projection> {
        &self.projection
    }

    /// Returns a level if it is offered.
    pub fn level(&self, level: Level) -> Option<&LevelEntry> {
        self.manifest.levels.get(&level)
    }

    /// Returns `true` if vectors of this model and of so many numbers are projected by it.
    pub fn is_of(&self, model: &str, dim: usize) -> bool {
        self.manifest.model_fingerprint.eq_ignore_ascii_case(model) && self.manifest.dim == dim
    }
}

impl BlurManifest {
    /// Makes the manifest of a projection: the levels for which some number of candidates was enough.
    pub fn new(
        model: &str,
        projection: &Projection,
        passages: usize,
        (questions, calibrated_on): (usize, &str),
        calibrations: &[Calibration],
    ) -> Self {
        let entry = |calibration: &Calibration| {
            let (candidates, recall) = calibration.enough()?;
            let level = calibration.level;
            Some((level, LevelEntry { blur: level.blur(), candidates, recall }))
        };
        let bytes = projection.to_bytes();
        Self {
            format_version: BLUR_FORMAT,
            model_fingerprint: model.to_owned(),
            dim: projection.dim(),
            rank: projection.rank(),
            projection: FileEntry { bytes: bytes.len() as u64, sha256: sha256_hex(&bytes) },
            passages,
            questions,
            calibrated_on: calibrated_on.to_owned(),
            levels: calibrations.iter().filter_map(entry).collect(),
            created_by: format!("dpr {}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Returns what makes no sense.
    fn check(&self) -> Result<(), String> {
        if self.format_version == 0 {
            return Err("format 0".to_owned());
        }
        for (level, entry) in &self.levels {
            let LevelEntry { blur, candidates, recall } = *entry;
            if blur != level.blur() {
                let Blur { dims, noise } = level.blur();
                return Err(format!("the level {level} is not {dims} numbers with noise {noise}"));
            }
            if blur.dims > self.rank {
                return Err(format!("the level {level} needs {} directions of {}", blur.dims, self.rank));
            }
            if !(1..=MAX_CANDIDATES).contains(&candidates) {
                return Err(format!("{candidates} candidates, 1 to {MAX_CANDIDATES} are possible"));
            }
            if !(0.0..=1.0).contains(&recall) {
                return Err(format!("the recall {recall} is not a share"));
            }
        }
        Ok(())
    }
}

/// Refuses a path at which something else than a blur directory is: it would be replaced.
fn refuse_other(dir: &Path) -> Result<(), FileError> {
    if !fs::exists(dir).map_err(FileError::write)? {
        return Ok(());
    }
    for entry in fs::read_dir(dir).map_err(FileError::write)? {
        let name = entry.map_err(FileError::write)?.file_name().to_string_lossy().into_owned();
        if ![MANIFEST, PROJECTION].contains(&name.as_str()) {
            return Err(FileError::Foreign { path: dir.to_path_buf(), name });
        }
    }
    Ok(())
}

/// Reads a file whose size and digest are known.
fn read_entry(path: &Path, entry: &FileEntry) -> Result<Vec<u8>, FileError> {
    digest::check_size(path, entry)?;
    let bytes = plain::read(path, entry.bytes).map_err(FileError::read(path))?;
    let found = FileEntry { bytes: bytes.len() as u64, sha256: sha256_hex(&bytes) };
    digest::check(path, entry, &found)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use dpr_core::project::orthonormal;
    use serde_json::{Value, json};

    use super::*;

    fn written(dir: &Path) -> BlurDir {
        let projection = Projection::new(vec![0.0; 128], &orthonormal(96, 128, 3)).unwrap();
        let calibrations = [
            Calibration { level: Level::Light, recall: [0.5, 0.9, 0.991, 1.0, 1.0] },
            Calibration { level: Level::Medium, recall: [0.5, 0.9, 0.95, 0.985, 1.0] },
            Calibration { level: Level::Strong, recall: [0.1, 0.2, 0.3, 0.4, 0.5] },
        ];
        let manifest =
            BlurManifest::new(&"ab".repeat(32), &projection, 500, (40, "questions"), &calibrations);
        BlurDir::write(dir, manifest, projection).unwrap()
    }

    #[test]
    fn a_directory_is_read_as_it_was_written_with_the_levels_that_find_enough() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("blur");
        let blur = written(&dir);
        assert_eq!(BlurDir::open(&dir).unwrap(), blur);
        assert_eq!(blur.level(Level::Light).map(|level| level.candidates), Some(200));
        assert_eq!(blur.level(Level::Medium).map(|level| level.candidates), Some(400));
        assert_eq!(blur.level(Level::Strong), None, "800 candidates are not enough");
        assert!(blur.is_of(&"AB".repeat(32), 128) && !blur.is_of(&"ab".repeat(32), 127));
        assert!(!blur.is_of(&"cd".repeat(32), 128));
        // Again in the same place.
        assert_eq!(written(&dir), blur);
    }

    #[test]
    fn nothing_but_a_blur_directory_is_replaced() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("index");
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("current"), "1").unwrap();
        let projection = Projection::new(vec![0.0; 4], &orthonormal(4, 4, 3)).unwrap();
        let write = |dir: &Path| {
            let manifest = BlurManifest::new("m", &projection, 1, (1, "questions"), &[]);
            BlurDir::write(dir, manifest, projection.clone()).map(drop)
        };
        for refused in [write(&dir), BlurDir::check_target(&dir)] {
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("holds `current`"), "{refused}");
        }
        assert_eq!(fs::read_to_string(dir.join("current")).unwrap(), "1");
        assert!(write(&dir.join("current")).is_err() && BlurDir::check_target(&dir.join("current")).is_err());
        assert_eq!(fs::read_to_string(dir.join("current")).unwrap(), "1");
        fs::create_dir(root.path().join("empty")).unwrap();
        for path in [root.path().join("new"), root.path().join("empty")] {
            BlurDir::check_target(&path).unwrap();
            write(&path).unwrap();
            BlurDir::check_target(&path).unwrap();
        }
    }

    #[test]
    fn a_directory_that_was_changed_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("blur");
        written(&dir);
        let (manifest, projection) = (dir.join(MANIFEST), dir.join(PROJECTION));
        let (json, bytes) = (fs::read(&manifest).unwrap(), fs::read(&projection).unwrap());
        let refused = |what: &str| BlurDir::open(&dir).expect_err(what).to_string();

        let changes: [(&str, Value, &str); 10] = [
            ("/format_version", json!(2), "format version 2"),
            ("/format_version", json!(0), "format 0"),
            ("/dim", json!(127), "96 rows of 128"),
            ("/rank", json!(97), "96 rows of 128"),
            ("/rank", json!(95), "needs 96 directions of 95"),
            ("/levels/medium/candidates", json!(1001), "1001 candidates"),
            ("/levels/medium/candidates", json!(0), "0 candidates"),
            ("/levels/medium/noise", json!(0.1), "not 64 numbers with noise 0.3"),
            ("/levels/light/dims", json!(128), "not 96 numbers"),
            ("/levels/light/recall", json!(2), "not a share"),
        ];
        for (place, value, says) in changes {
            let mut changed: Value = serde_json::from_slice(&json).unwrap();
            *changed.pointer_mut(place).unwrap() = value;
            fs::write(&manifest, changed.to_string()).unwrap();
            let error = refused(place);
            assert!(error.contains(says), "{place}: {error}");
        }
        for cut in [0, 10, json.len() - 2] {
            fs::write(&manifest, &json[..cut]).unwrap();
            assert!(refused("a cut manifest").contains("damaged"));
        }
        fs::write(&manifest, vec![b' '; (MAX_MANIFEST + 1) as usize]).unwrap();
        assert!(refused("a long manifest").contains(&format!("{MAX_MANIFEST} bytes")));
        fs::write(&manifest, &json).unwrap();

        fs::write(&projection, &bytes[..bytes.len() - 1]).unwrap();
        assert!(refused("a cut projection").contains("bytes, expected"));
        let mut flipped = bytes.clone();
        flipped[1000] ^= 1;
        fs::write(&projection, &flipped).unwrap();
        assert!(refused("a flipped bit").contains("checksum"));
        fs::remove_file(&projection).unwrap();
        assert!(refused("no projection").contains("missing"));
    }
}
