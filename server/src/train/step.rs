//! One batch to a loss and the gradients of all encoders, in memory that the chunk size sets.
//!
//! GradCache (Gao et al. 2021): every passage of the batch takes part in every question's loss, but an encoder need not
//! hold the tape of the whole batch for that. Texts are encoded in chunks; the loss is computed from the vectors alone, with
//! its slope at every vector; then each chunk is carried through its encoder again, on a tape, and the slope at its vectors
//! is carried back. The sum over the chunks is the gradient of the whole batch. Dropout draws from a seed of the chunk's
//! own, so that the second pass is the first. Chunks whose tapes fit into [`StepOptions::tape_tokens`] keep them and are
//! not encoded twice.
//!
//! On the CPU the chunks are shared out over threads; each encoder copy has a tape of its own.

use std::thread;

use burn::tensor::{Tensor, TensorData};
use dpr_core::encoder::{Dropout, Encoder};
use dpr_core::random::SplitMix;
use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::chunks::{Chunk, share_out};
use super::encoders::{DualEncoder, TrainDevice, TrainedEncoder, numbers};
use super::error::TrainError;
use super::objective::Objective;
use super::optimiser::Gradient;

/// How a batch is computed; what it computes is the same but for rounding and what dropout draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StepOptions {
    /// Most texts in a chunk.
    pub chunk_rows: usize,
    /// Most tokens in a chunk, padding included; a longer text is a chunk of its own.
    pub chunk_tokens: usize,
    /// Tokens whose tapes are kept from the first pass; those beyond are encoded twice.
    pub tape_tokens: usize,
    /// Threads on the CPU; 0 for one a processor.
    pub threads: usize,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self { chunk_rows: 64, chunk_tokens: 2048, tape_tokens: 8192, threads: 0 }
    }
}

/// What dropout leaves out in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepNoise {
    /// Share of the numbers; 0 for none.
    pub dropout: f32,
    /// Another one for each step.
    pub seed: u64,
}

/// What one batch gave.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// The loss.
    pub loss: f64,
    /// Questions whose positive scored best.
    pub correct: usize,
    /// The gradient of each encoder.
    pub gradients: Vec<Gradient>,
}

/// The vectors and their slopes, row-major `[rows, dim]`, of questions and of passages.
type BySide = [Vec<f32>; 2];

/// Computes the loss of `batch` and its gradients, multiplied by `scale`.
///
/// # Errors
/// [`TrainError::Batch`] for a batch that does not fit together, [`TrainError::Device`] when the device fails, and
/// [`TrainError::NotFinite`] for a loss that is no number.
pub fn step(
    model: &DualEncoder,
    batch: &Batch,
    objective: &Objective,
    options: &StepOptions,
    noise: StepNoise,
    scale: f32,
    device: &TrainDevice,
) -> Result<StepOutcome, TrainError> {
    batch.check()?;
    let threads = threads(options, device);
    let shares = share_out([&batch.questions, &batch.passages], options, threads);
    let worker = |chunks| move || Worker::new(model, batch, options, noise, device, threads, chunks);
    let workers = on_threads(shares.iter().map(|chunks| worker(chunks)))?;

    let dim = model.question().dim();
    let mut vectors: BySide =
        [vec![0f32; batch.questions.len() * dim], vec![0f32; batch.passages.len() * dim]];
    for worker in &workers {
        for (chunk, values) in worker.chunks.iter().zip(&worker.vectors) {
            for (row, values) in chunk.rows.iter().zip(values.chunks_exact(dim)) {
                vectors[chunk.side][row * dim..(row + 1) * dim].copy_from_slice(values);
            }
        }
    }
    let (loss, correct, mut slopes) = loss_and_slopes(batch, objective, vectors, dim, device)?;
    slopes.iter_mut().flatten().for_each(|slope| *slope *= scale);

    let slopes = &slopes;
    let parts = on_threads(workers.into_iter().map(|worker| || worker.backward(slopes, dim)))?;
    let mut gradients: Vec<Gradient> =
        model.encoders.iter().map(|encoder| vec![Vec::new(); encoder.parameters.len()]).collect();
    for part in parts {
        for (sum, part) in gradients.iter_mut().flatten().zip(part.into_iter().flatten()) {
            add(sum, part);
        }
    }
    // A parameter that the batch did not reach has a gradient of zeros, one that is frozen has none.
    for (gradient, encoder) in gradients.iter_mut().zip(&model.encoders) {
        for ((values, parameter), trained) in
            gradient.iter_mut().zip(&encoder.parameters).zip(&encoder.trained)
        {
            if *trained && values.is_empty() {
                *values = vec![0.0; parameter.length()];
            }
        }
    }
    Ok(StepOutcome { loss, correct, gradients })
}

fn add(sum: &mut Vec<f32>, part: Vec<f32>) {
    if sum.is_empty() {
        *sum = part;
    } else {
        sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
    }
}

/// Threads that encode: one drives a GPU.
pub(super) fn threads(options: &StepOptions, device: &TrainDevice) -> usize {
    match (device.gpu, options.threads) {
        (true, _) => 1,
        (false, 0) => thread::available_parallelism().map_or(1, usize::from),
        (false, threads) => threads,
    }
}

/// Runs the tasks, each on a thread; their results in order. A panic of the tensor library becomes an error.
pub(super) fn on_threads<T: Send>(
    tasks: impl Iterator<Item = impl FnOnce() -> Result<T, TrainError> + Send>,
) -> Result<Vec<T>, TrainError> {
    thread::scope(|scope| {
        let running: Vec<_> = tasks.map(|task| scope.spawn(task)).collect();
        let finished = running.into_iter().map(|task| {
            task.join().unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                Err(TrainError::Device { what: text.unwrap_or("the tensor library panicked").to_owned() })
            })
        });
        finished.collect()
    })
}

fn loss_and_slopes(
    batch: &Batch,
    objective: &Objective,
    [questions, passages]: BySide,
    dim: usize,
    device: &TrainDevice,
) -> Result<(f64, usize, BySide), TrainError> {
    let leaf = |values: Vec<f32>| {
        let shape = [values.len() / dim, dim];
        Tensor::<2>::from_data(TensorData::new(values, shape), &device.taped).require_grad()
    };
    let (questions, passages) = (leaf(questions), leaf(passages));
    let scores = objective.scores(questions.clone(), passages.clone());
    let loss = objective.loss(scores.clone(), &batch.targets, &device.taped);
    let correct = Objective::correct(&numbers(scores.inner())?, &batch.targets);
    let value = f64::from(numbers(loss.clone().inner())?.first().copied().unwrap_or(f32::NAN));
    if !value.is_finite() {
        return Err(TrainError::NotFinite { loss: value });
    }
    let mut gradients = loss.backward();
    let mut slope = |leaf: &Tensor<2>| match leaf.grad_remove(&mut gradients) {
        Some(slope) => numbers(slope),
        None => Ok(vec![0.0; leaf.dims().iter().product()]),
    };
    let slopes = [slope(&questions)?, slope(&passages)?];
    Ok((value, correct, slopes))
}

/// One thread's chunks between the first and the second pass.
struct Worker<'a> {
    model: &'a DualEncoder,
    batch: &'a Batch,
    noise: StepNoise,
    device: &'a TrainDevice,
    chunks: &'a [Chunk],
    /// `[rows, dim]` of each chunk.
    vectors: Vec<Vec<f32>>,
    /// The tape of each chunk that kept it.
    tapes: Vec<Option<Tape>>,
}

/// A chunk's vectors on the tape, and the parameters they come from.
struct Tape {
    leaves: Encoder,
    vectors: Tensor<2>,
}

impl<'a> Worker<'a> {
    fn new(
        model: &'a DualEncoder,
        batch: &'a Batch,
        options: &StepOptions,
        noise: StepNoise,
        device: &'a TrainDevice,
        threads: usize,
        chunks: &'a [Chunk],
    ) -> Result<Self, TrainError> {
        let mut worker = Self { model, batch, noise, device, chunks, vectors: Vec::new(), tapes: Vec::new() };
        let mut room = options.tape_tokens / threads.max(1);
        for chunk in chunks {
            let fits = chunk.tokens <= room;
            let (vectors, tape) = if fits {
                room -= chunk.tokens;
                let tape = worker.forward(chunk);
                (tape.vectors.clone().inner(), Some(tape))
            } else {
                let encoder = worker.encoder(chunk);
                (worker.pass(encoder, encoder.net(), chunk, false), None)
            };
            worker.vectors.push(numbers(vectors)?);
            worker.tapes.push(tape);
        }
        Ok(worker)
    }

    fn encoder(&self, chunk: &Chunk) -> &'a TrainedEncoder {
        if chunk.side == 0 { self.model.question() } else { self.model.passage() }
    }

    fn forward(&self, chunk: &Chunk) -> Tape {
        let encoder = self.encoder(chunk);
        let leaves = encoder.net().leaves(&encoder.trained);
        let vectors = self.pass(encoder, &leaves, chunk, true);
        Tape { leaves, vectors }
    }

    fn pass(&self, encoder: &TrainedEncoder, net: &Encoder, chunk: &Chunk, taped: bool) -> Tensor<2> {
        let texts = if chunk.side == 0 { &self.batch.questions } else { &self.batch.passages };
        let rows: Vec<Vec<u32>> = chunk.rows.iter().map(|row| texts[*row].clone()).collect();
        let device = if taped { &self.device.taped } else { &self.device.plain };
        let seed = SplitMix::keyed(&[self.noise.seed, chunk.number as u64]).bits();
        let mut dropout = Dropout::new(self.noise.dropout, seed, &self.device.plain, self.device.gpu);
        net.forward_with(&encoder.batch(&rows, self.device), &encoder.config, device, &mut dropout)
    }

    /// The sum of its chunks' gradients, a list a parameter of each encoder, empty where nothing is.
    fn backward(mut self, slopes: &BySide, dim: usize) -> Result<Vec<Gradient>, TrainError> {
        let count = |encoder: &TrainedEncoder| encoder.parameters.len();
        let mut sums: Vec<Vec<Option<Tensor<1>>>> =
            self.model.encoders.iter().map(|encoder| vec![None; count(encoder)]).collect();
        let last = self.model.encoders.len() - 1;
        let tapes = std::mem::take(&mut self.tapes);
        for (chunk, tape) in self.chunks.iter().zip(tapes) {
            let Tape { leaves, vectors } = match tape {
                Some(tape) => tape,
                None => self.forward(chunk),
            };
            let slope: Vec<f32> = chunk
                .rows
                .iter()
                .flat_map(|row| slopes[chunk.side][row * dim..(row + 1) * dim].iter().copied())
                .collect();
            let slope = TensorData::new(slope, [chunk.rows.len(), dim]);
            let slope = Tensor::<2>::from_data(slope, &self.device.taped);
            let mut gradients = (vectors * slope).sum().backward();
            let found = leaves.take_gradients(&mut gradients);
            for (sum, found) in sums[chunk.side.min(last)].iter_mut().zip(found) {
                *sum = match (sum.take(), found) {
                    (Some(sum), Some(found)) => Some(sum + found),
                    (sum, found) => sum.or(found),
                };
            }
        }
        let list = |sum: Option<Tensor<1>>| sum.map_or(Ok(Vec::new()), numbers);
        sums.into_iter().map(|sums| sums.into_iter().map(list).collect()).collect()
    }
}
