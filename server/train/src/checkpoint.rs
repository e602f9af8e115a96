//! Checkpoints: weights, moments and the position of the run, each directory whole or absent.
//!
//! Random numbers need no state of their own: every draw is made from the seed, the epoch and the step.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dpr_core::model::{FileEntry, sha256_hex};
use serde::{Deserialize, Serialize};

use super::encoders::{DualEncoder, TrainDevice};
use super::error::TrainError;
use super::optimiser::AdamW;
use super::scores::Scores;
use super::tensor_file;
use dpr_files::atomic::StagedDir;

/// The format that this version writes and reads.
const FORMAT: u32 = 1;
const STATE: &str = "state.json";

/// The progress of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// Steps taken.
    pub step: usize,
    /// Epochs finished.
    pub epoch: usize,
    /// Batches of the next epoch that were used.
    pub batch: usize,
    /// The best measurement so far.
    pub best: Option<Best>,
    /// Steps that were skipped because they did not fit half precision.
    #[serde(default)]
    pub skipped: usize,
    /// The last of these that followed one another.
    #[serde(default)]
    pub skipped_in_a_row: usize,
}

/// The best measurement on the dev files, with its step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Best {
    /// After this step.
    pub step: usize,
    /// The scores that were measured.
    pub scores: Scores,
}

#[derive(Serialize, Deserialize)]
struct State {
    format_version: u32,
    /// See [`super::Prepared::origin`].
    origin: String,
    position: Position,
    files: BTreeMap<String, FileEntry>,
}

/// Returns the checkpoints in a directory, the oldest first.
///
/// # Errors
/// An I/O error that names the path.
pub(super) fn list(dir: &Path) -> Result<Vec<PathBuf>, TrainError> {
    let mut found = Vec::new();
    if dir.is_dir() {
        for entry in fs_err::read_dir(dir)? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if let Some(step) = name.strip_prefix("step-").and_then(|step| step.parse::<usize>().ok()) {
                found.push((step, path));
            }
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Writes a checkpoint into `dir` and removes the oldest beyond `keep`.
///
/// # Errors
/// [`TrainError::WriteCheckpoint`]; older checkpoints are then unchanged.
pub(super) fn save(
    dir: &Path,
    model: &DualEncoder,
    optimisers: &[AdamW],
    position: &Position,
    origin: &str,
    keep: usize,
) -> Result<PathBuf, TrainError> {
    let path = dir.join(format!("step-{:07}", position.step));
    let write = || -> std::io::Result<()> {
        let staged = StagedDir::beside(&path)?;
        let mut files = BTreeMap::new();
        for (number, (encoder, optimiser)) in model.encoders.iter().zip(optimisers).enumerate() {
            let mut tensors = Vec::new();
            for (place, parameter) in encoder.parameters.iter().enumerate() {
                let parts = [&encoder.weights, &optimiser.first, &optimiser.second];
                for (part, lists) in PARTS.iter().zip(parts) {
                    let values = lists[place].clone();
                    tensors.push((format!("{part}/{}", parameter.name), vec![values.len()], values));
                }
            }
            let name = file_name(number);
            let file = staged.path().join(&name);
            tensor_file::write(&file, &tensors)?;
            files.insert(name, dpr_files::digest::of_file(&file)?);
        }
        let state =
            State { format_version: FORMAT, origin: origin.to_owned(), position: position.clone(), files };
        fs_err::write(staged.path().join(STATE), serde_json::to_vec_pretty(&state)?)?;
        staged.replace()
    };
    write().map_err(|source| TrainError::WriteCheckpoint { path: path.clone(), source })?;
    let old = list(dir)?;
    for old in &old[..old.len().saturating_sub(keep.max(1))] {
        fs_err::remove_dir_all(old)?;
    }
    Ok(path)
}

/// Reads a checkpoint into the encoders and optimisers that it was made from.
///
/// # Errors
/// [`TrainError::Checkpoint`] when a file is missing, cut short or changed, [`TrainError::OtherOrigin`] when the run
/// was begun with other data or another model.
pub(super) fn load(
    path: &Path,
    model: &mut DualEncoder,
    optimisers: &mut [AdamW],
    origin: &str,
    device: &TrainDevice,
) -> Result<Position, TrainError> {
    let bad = |reason: String| TrainError::Checkpoint { path: path.into(), reason };
    let read = |name: &str| fs_err::read(path.join(name)).map_err(|e| bad(e.to_string()));
    let state: State = serde_json::from_slice(&read(STATE)?).map_err(|e| bad(format!("{STATE}: {e}")))?;
    if state.format_version != FORMAT {
        return Err(bad(format!("it has format {}, this version reads {FORMAT}", state.format_version)));
    }
    if state.origin != origin {
        return Err(TrainError::OtherOrigin { path: path.into() });
    }
    if state.files.len() != model.encoders.len() {
        let (has, needs) = (state.files.len(), model.encoders.len());
        return Err(bad(format!("it holds {has} encoders, the model has {needs}")));
    }
    for (number, (encoder, optimiser)) in model.encoders.iter_mut().zip(optimisers).enumerate() {
        let name = file_name(number);
        let bytes = read(&name)?;
        let entry = state.files.get(&name).ok_or_else(|| bad(format!("{STATE} does not name {name}")))?;
        if bytes.len() as u64 != entry.bytes || sha256_hex(&bytes) != entry.sha256 {
            return Err(bad(format!("{name} is not the file that was written: cut short, or changed")));
        }
        let mut tensors = tensor_file::parse(&bytes).map_err(|e| bad(format!("{name}: {e}")))?;
        for (place, parameter) in encoder.parameters.iter().enumerate() {
            let parts = [&mut encoder.weights, &mut optimiser.first, &mut optimiser.second];
            for (part, lists) in PARTS.iter().zip(parts) {
                let key = format!("{part}/{}", parameter.name);
                match tensors.remove(&key) {
                    Some(values) if values.len() == parameter.length() => lists[place] = values,
                    _ => return Err(bad(format!("{name} does not fit the model: {key}"))),
                }
            }
        }
        encoder.upload(device);
    }
    Ok(state.position)
}

const PARTS: [&str; 3] = ["weights", "first", "second"];

fn file_name(encoder: usize) -> String {
    format!("encoder-{encoder}.safetensors")
}
