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
    /// `true` if the dev questions are still to be measured after this step.
    #[serde(default)]
    pub unmeasured: bool,
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

/// Returns the directory of the checkpoint of a step.
pub(super) fn path(dir: &Path, step: usize) -> PathBuf {
    dir.join(format!("step-{step:07}"))
}

/// Writes a checkpoint into `dir` and removes the oldest beyond `keep`.
///
/// # Errors
/// [`TrainError::WriteCheckpoint`], and [`TrainError::Device`] when a GPU cannot be read; older checkpoints are then
/// unchanged.
pub(super) fn save(
    dir: &Path,
    model: &DualEncoder,
    optimisers: &[AdamW],
    position: &Position,
    origin: &str,
    keep: usize,
) -> Result<PathBuf, TrainError> {
    let path = path(dir, position.step);
    // What is on a GPU is read before a file is begun.
    let mut parts = Vec::new();
    for (encoder, optimiser) in model.encoders.iter().zip(optimisers) {
        let [first, second] = optimiser.moments()?;
        parts.push((encoder, [encoder.current()?, first, second]));
    }
    let write = || -> std::io::Result<()> {
        let staged = StagedDir::beside(&path)?;
        let mut files = BTreeMap::new();
        for (number, (encoder, parts)) in parts.iter().enumerate() {
            let mut tensors = Vec::new();
            for (place, parameter) in encoder.parameters.iter().enumerate() {
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
    remove_old(dir, keep)?;
    Ok(path)
}

/// Removes the oldest checkpoints beyond `keep`.
///
/// # Errors
/// An I/O error that names the path.
pub(super) fn remove_old(dir: &Path, keep: usize) -> Result<(), TrainError> {
    let old = list(dir)?;
    for old in &old[..old.len().saturating_sub(keep.max(1))] {
        fs_err::remove_dir_all(old)?;
    }
    Ok(())
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
        let mut parts: [Vec<Vec<f32>>; PARTS.len()] = Default::default();
        for parameter in &encoder.parameters {
            for (part, lists) in PARTS.iter().zip(&mut parts) {
                let key = format!("{part}/{}", parameter.name);
                match tensors.remove(&key) {
                    Some(values) if values.len() == parameter.length() => lists.push(values),
                    _ => return Err(bad(format!("{name} does not fit the model: {key}"))),
                }
            }
        }
        let [weights, first, second] = parts;
        encoder.weights = weights;
        encoder.upload(device);
        optimiser.set_moments([first, second]);
    }
    Ok(state.position)
}

const PARTS: [&str; 3] = ["weights", "first", "second"];

fn file_name(encoder: usize) -> String {
    format!("encoder-{encoder}.safetensors")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use burn::tensor::{Tensor, TensorData};
    use dpr_core::DeviceChoice;
    use dpr_core::random::SplitMix;

    use super::super::encoders::TrainedEncoder;
    use super::super::gradient::{Gradient, norm};
    use super::super::optimiser::{OptimiserOptions, Update};
    use super::*;

    /// The parameter that is not trained: positions.
    const FROZEN: usize = 1;

    /// One encoder of the fixtures, of which a parameter is frozen.
    fn dual(device: &TrainDevice) -> DualEncoder {
        let dir = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/dpr-tiny/question"));
        let mut encoder = TrainedEncoder::load(dir, 16, device).unwrap();
        encoder.trained[FROZEN] = false;
        DualEncoder { encoders: vec![encoder], max_question_tokens: 16, max_passage_tokens: 16 }
    }

    /// Returns gradients of the step, the same ones for every device.
    fn gradient(model: &DualEncoder, step: usize, device: &TrainDevice) -> Gradient {
        let encoder = model.question();
        let lists = encoder.parameters.iter().zip(&encoder.trained).enumerate().map(
            |(place, (parameter, trained))| {
                let mut random = SplitMix::keyed(&[step as u64, place as u64]);
                let count = if *trained { parameter.length() } else { 0 };
                (0..count).map(|_| random.normal() as f32).collect::<Vec<_>>()
            },
        );
        if !device.gpu {
            return Gradient::Host(lists.collect());
        }
        let tensor = |values: Vec<f32>| {
            let shape = [values.len()];
            (shape != [0]).then(|| Tensor::from_data(TensorData::new(values, shape), &device.plain))
        };
        Gradient::Device(lists.map(tensor).collect())
    }

    /// Takes step `number`.
    fn step(model: &mut DualEncoder, optimisers: &mut [AdamW], number: usize, device: &TrainDevice) {
        let options = OptimiserOptions { weight_decay: 0.1, ..OptimiserOptions::default() };
        let update = Update { options: &options, rate: 1e-2, taken: number, scale: 0.5 };
        let gradient = gradient(model, number, device);
        optimisers[0].step(&mut model.encoders[0], gradient, &update, device).unwrap();
    }

    /// Returns weights and moments, one after another.
    fn state(model: &DualEncoder, optimisers: &[AdamW]) -> Vec<f32> {
        let moments = optimisers[0].moments().unwrap().map(|lists| lists.concat());
        [model.question().current().unwrap().concat(), moments.concat()].concat()
    }

    /// Checks numbers to a hundred-thousandth of each, or of a hundredth.
    fn assert_near(got: &[f32], expected: &[f32]) {
        assert_eq!(got.len(), expected.len());
        let is_far = |(got, expected): (&f32, &f32)| (got - expected).abs() > 1e-5 * expected.abs().max(1e-2);
        let far = got.iter().zip(expected).position(is_far);
        assert_eq!(far, None, "{:?}", far.map(|place| (got[place], expected[place])));
    }

    #[test]
    fn steps_on_a_gpu_are_those_of_the_host_and_their_checkpoint_goes_on_anywhere() {
        let gpu = TrainDevice::open(DeviceChoice::Wgpu);
        if let (Err(error), None) = (&gpu, std::env::var_os("CI")) {
            eprintln!("skipped: {error}");
            return;
        }
        let gpu = gpu.unwrap();
        let host = TrainDevice::open(DeviceChoice::Flex).unwrap();
        let start = |device: &TrainDevice| {
            let model = dual(device);
            let optimisers = vec![AdamW::new(&model.question().parameters)];
            (model, optimisers)
        };
        let ((mut there, mut there_moments), (mut here, mut here_moments)) = (start(&gpu), start(&host));
        let before = state(&there, &there_moments);
        for number in 0..3 {
            step(&mut there, &mut there_moments, number, &gpu);
            step(&mut here, &mut here_moments, number, &host);
        }
        let stepped = state(&there, &there_moments);
        assert_near(&stepped, &state(&here, &here_moments));
        let lengths: Vec<usize> = there.question().parameters.iter().map(|p| p.length()).collect();
        let start_of: usize = lengths[..FROZEN].iter().sum();
        let frozen = start_of..start_of + lengths[FROZEN];
        assert_eq!(stepped[frozen.clone()], before[frozen], "a frozen parameter stays");
        let weights: usize = lengths.iter().sum();
        let changed = stepped[..weights].iter().zip(&before).filter(|(a, b)| a != b).count();
        assert_eq!(changed, weights - lengths[FROZEN], "every other one is changed");

        let dir = tempfile::tempdir().unwrap();
        let position = Position { step: 3, ..Position::default() };
        let path = save(dir.path(), &there, &there_moments, &position, "o", 1).unwrap();
        for device in [&gpu, &host] {
            let (mut model, mut optimisers) = start(device);
            assert_eq!(load(&path, &mut model, &mut optimisers, "o", device).unwrap(), position);
            assert_eq!(state(&model, &optimisers), stepped, "{}", device.name);
            step(&mut model, &mut optimisers, 3, device);
            let (mut other, mut moments) = start(&host);
            load(&path, &mut other, &mut moments, "o", &host).unwrap();
            step(&mut other, &mut moments, 3, &host);
            assert_near(&state(&model, &optimisers), &state(&other, &moments));
        }
        // A gradient of fewer parameters is refused, and nothing is changed.
        let options = OptimiserOptions::default();
        let update = Update { options: &options, rate: 1e-2, taken: 4, scale: 1.0 };
        for wrong in [Gradient::Device(Vec::new()), Gradient::Host(vec![vec![1.0]; lengths.len()])] {
            let error = there_moments[0].step(&mut there.encoders[0], wrong, &update, &gpu).unwrap_err();
            assert!(matches!(error, TrainError::Batch { .. }), "{error}");
        }
        assert_eq!(state(&there, &there_moments), stepped);
        // Sums, scaling, zeros for what was not reached, and the norm are those of the host.
        let [of_gpu, of_host] = [&gpu, &host].map(|device| {
            let mut sum = gradient(&here, 5, device);
            sum.add(gradient(&here, 6, device)).unwrap();
            sum.scale(0.5);
            match &mut sum {
                Gradient::Device(tensors) => tensors[0] = None,
                Gradient::Host(lists) => lists[0].clear(),
            }
            sum.fill(here.question(), device);
            let norm = norm(std::slice::from_ref(&sum)).unwrap();
            (sum.into_host().unwrap(), norm)
        });
        assert_near(&of_gpu.0.concat(), &of_host.0.concat());
        assert!((of_gpu.1 / of_host.1 - 1.0).abs() < 1e-5, "{} {}", of_gpu.1, of_host.1);
        assert!(of_host.0[0].iter().all(|value| *value == 0.0) && of_host.0[FROZEN].is_empty());
        // What is on the host follows when it is asked for.
        assert_ne!(there.question().weights, there.question().current().unwrap().as_ref());
        there.encoders[0].download().unwrap();
        assert_eq!(there.question().weights, there.question().current().unwrap().as_ref());
    }
}
