//! Training step: the loss of one batch and the gradients of all encoders, in memory that the chunk size bounds.
//!
//! The method is GradCache (Gao et al. 2021): every passage of the batch takes part in every question's loss, but an
//! encoder need not hold the tape of the whole batch for that. Texts are encoded in chunks; the loss is computed from
//! the vectors alone, with its gradient at every vector; then each chunk is carried through its encoder again, on a
//! tape, and the gradient at its vectors is carried back. The sum over the chunks is the gradient of the whole batch.
//! Dropout draws from a seed of the chunk, so that the second pass repeats the first. Chunks whose tapes fit into
//! [`StepOptions::tape_tokens`] keep them and are not encoded twice.
//!
//! On the CPU the chunks are shared out over threads; each encoder copy has a tape of its own.

use std::thread;

use burn::tensor::{FloatDType, Gradients, Tensor, TensorData};
use dpr_core::encoder::{Dropout, Encoder};
use dpr_core::random::SplitMix;

use super::batch::Batch;
use super::chunks::{Chunk, share_out};
use super::encoders::{DualEncoder, TrainDevice, TrainedEncoder, numbers};
use super::error::TrainError;
use super::gradient::{Gradient, norm};
use super::objective::{BatchVectors, Objective, Targets};
use super::options::{Precision, StepOptions};

/// Loss scaling: in half precision the gradients at the vectors are multiplied so that the greatest is this, and the
/// gradients of the parameters are divided again. Without it small gradients would vanish, and far larger ones would
/// overflow (Micikevicius et al. 2018).
const GREATEST_GRADIENT: f32 = 16.0;

/// The number of times that half precision starts again with gradients a hundredth the size, when a gradient
/// overflowed.
const SMALLER: usize = 2;

/// Dropout of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepNoise {
    /// Share of the numbers that is left out; 0 for none.
    pub dropout: f32,
    /// Seed of the step; each step has another one.
    pub seed: u64,
}

/// Loss and gradients of one batch.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// The loss.
    pub loss: f64,
    /// Questions whose positive scored best.
    pub correct: usize,
    /// The gradient of each encoder.
    pub gradients: Vec<Gradient>,
}

/// The vectors or their gradients, row-major `[rows, dim]`, of questions and of passages.
pub(super) type BySide = [Vec<f32>; 2];

/// Computes the loss of `batch` and its gradients, multiplied by `scale`.
///
/// # Errors
/// [`TrainError::Batch`] for a batch that does not fit together, [`TrainError::Device`] when the device fails, and
/// [`TrainError::NotFinite`] for a loss that is not a number.
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
    let loss = Pairs { objective, targets: &batch.targets, unit_length: model.has_unit_length() };
    let inputs = Inputs::of_texts([&batch.questions, &batch.passages]);
    step_by(model, inputs, &loss, options, noise, scale, device)
}

/// The texts of a batch, and what is computed of them.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    /// Token ids of questions and of passages.
    pub(super) texts: [&'a [Vec<u32>]; 2],
    /// Token types of the passages; none where all are 0.
    pub(super) types: &'a [Vec<u8>],
    pub(super) outputs: Outputs,
}

/// The output of an encoder for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outputs {
    /// Its vector.
    Vectors,
    /// The scores of each of its tokens one after another, which are a vector as long as those of the longest text.
    Tokens,
}

impl<'a> Inputs<'a> {
    /// Returns texts whose vectors are wanted and whose tokens are all of type 0.
    pub(super) fn of_texts(texts: [&'a [Vec<u32>]; 2]) -> Self {
        Self { texts, types: &[], outputs: Outputs::Vectors }
    }

    /// Returns the size of the vectors that are computed.
    fn dim(&self, model: &DualEncoder) -> usize {
        let longest = || self.texts.iter().flat_map(|texts| texts.iter()).map(Vec::len).max().unwrap_or(0);
        match self.outputs {
            Outputs::Vectors => model.question().dim(),
            Outputs::Tokens => model.question().dim() * longest(),
        }
    }
}

/// A loss over the vectors of a batch.
pub(super) trait Loss: Sync {
    /// Returns the loss of `vectors`, each `dim` long, the number of questions that are right, and the gradient of
    /// the loss at every vector.
    fn gradients(&self, vectors: BySide, dim: usize, device: &TrainDevice)
    -> Result<LossOutcome, TrainError>;
}

/// The result of [`Loss::gradients`].
pub(super) struct LossOutcome {
    pub(super) loss: f64,
    pub(super) correct: usize,
    pub(super) gradients: BySide,
}

/// Computes a step as [`step`] does, of any inputs and by any loss.
pub(super) fn step_by(
    model: &DualEncoder,
    inputs: Inputs<'_>,
    loss: &dyn Loss,
    options: &StepOptions,
    noise: StepNoise,
    scale: f32,
    device: &TrainDevice,
) -> Result<StepOutcome, TrainError> {
    let threads = threads(options, device);
    let (texts, dim) = (inputs.texts, inputs.dim(model));
    let shares = share_out(texts, options, threads);
    let nets = model.encoders.iter().map(|encoder| match options.precision {
        Precision::Bf16 if !device.gpu => encoder.net().with_products_in(FloatDType::BF16),
        Precision::F32 | Precision::F16 | Precision::Bf16 => encoder.net().clone(),
    });
    let pass = Pass { model, nets: nets.collect(), inputs, options, noise, device, threads };
    let pass = &pass;
    let mut factor = 1.0;
    let mut left = SMALLER;
    let (outcome, mut gradients) = loop {
        let workers = on_threads(shares.iter().map(|chunks| || Worker::new(pass, chunks)))?;
        let mut vectors: BySide = texts.map(|texts| vec![0f32; texts.len() * dim]);
        for worker in &workers {
            for (chunk, values) in worker.chunks.iter().zip(&worker.vectors) {
                let width = (values.len() / chunk.rows.len()).max(1);
                for (row, values) in chunk.rows.iter().zip(values.chunks_exact(width)) {
                    let kept = width.min(dim);
                    vectors[chunk.side][row * dim..][..kept].copy_from_slice(&values[..kept]);
                }
            }
        }
        let mut outcome = loss.gradients(vectors, dim, device)?;
        if !outcome.loss.is_finite() {
            return Err(TrainError::NotFinite { loss: outcome.loss });
        }
        let vector_gradients = || outcome.gradients.iter().flatten();
        let raised = match options.precision {
            // bf16 has the range of f32: nothing need be raised.
            Precision::F32 | Precision::Bf16 => 1.0,
            Precision::F16 => {
                let greatest = vector_gradients().fold(0f32, |most, value| most.max(value.abs()));
                if greatest > 0.0 { factor * GREATEST_GRADIENT / greatest } else { 1.0 }
            }
        };
        outcome.gradients.iter_mut().flatten().for_each(|value| *value *= raised);

        let vector_gradients = &outcome.gradients;
        let parts = on_threads(workers.into_iter().map(|worker| || worker.backward(vector_gradients, dim)))?;
        let mut gradients: Vec<Gradient> = Vec::new();
        for part in parts {
            if gradients.is_empty() {
                gradients = part;
                continue;
            }
            for (sum, part) in gradients.iter_mut().zip(part) {
                sum.add(part)?;
            }
        }
        if options.precision == Precision::F16 && left > 0 && !norm(&gradients)?.is_finite() {
            (factor, left) = (factor / 100.0, left - 1);
            continue;
        }
        gradients.iter_mut().for_each(|gradient| gradient.scale(scale / raised));
        break (outcome, gradients);
    };
    // A parameter that the batch did not reach has a gradient of zeros, one that is frozen has none.
    for (gradient, encoder) in gradients.iter_mut().zip(&model.encoders) {
        gradient.fill(encoder, device);
    }
    Ok(StepOutcome { loss: outcome.loss, correct: outcome.correct, gradients })
}

/// Returns the number of threads that encode; a GPU is driven by one.
pub(super) fn threads(options: &StepOptions, device: &TrainDevice) -> usize {
    match (device.gpu, options.threads) {
        (true, _) => 1,
        (false, 0) => thread::available_parallelism().map_or(1, usize::from),
        (false, threads) => threads,
    }
}

/// Runs the tasks, each on a thread, and returns their results in order. A panic of the tensor library becomes an
/// error.
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

/// The paper's loss over the vectors of questions and passages.
struct Pairs<'a> {
    objective: &'a Objective,
    targets: &'a Targets,
    unit_length: bool,
}

impl Loss for Pairs<'_> {
    fn gradients(
        &self,
        [questions, passages]: BySide,
        dim: usize,
        device: &TrainDevice,
    ) -> Result<LossOutcome, TrainError> {
        let (questions, passages) = (leaf(questions, dim, device), leaf(passages, dim, device));
        let vectors = BatchVectors {
            questions: questions.clone(),
            passages: passages.clone(),
            unit_length: self.unit_length,
        };
        let (scores, loss) = self.objective.of_batch(&vectors, self.targets, &device.taped);
        let correct = Objective::correct(&numbers(scores.inner())?, self.targets);
        let (loss, mut gradients) = backward(loss)?;
        let gradients = [gradient_at(&questions, &mut gradients)?, gradient_at(&passages, &mut gradients)?];
        Ok(LossOutcome { loss, correct, gradients })
    }
}

/// Returns the vectors on a tape of their own, `[rows, dim]`.
pub(super) fn leaf(values: Vec<f32>, dim: usize, device: &TrainDevice) -> Tensor<2> {
    let shape = [values.len() / dim, dim];
    Tensor::from_data(TensorData::new(values, shape), &device.taped).require_grad()
}

/// Runs the backward pass of `loss` and returns its value and the gradients.
pub(super) fn backward(loss: Tensor<1>) -> Result<(f64, Gradients), TrainError> {
    let value = numbers(loss.clone().inner())?.first().copied().unwrap_or(f32::NAN);
    Ok((f64::from(value), loss.backward()))
}

/// Returns the gradient at a [`leaf`]; zeros where the loss does not depend on it.
pub(super) fn gradient_at(leaf: &Tensor<2>, gradients: &mut Gradients) -> Result<Vec<f32>, TrainError> {
    match leaf.grad_remove(gradients) {
        Some(gradient) => numbers(gradient),
        None => Ok(vec![0.0; leaf.dims().iter().product()]),
    }
}

/// Context of a step that all its threads share.
struct Pass<'a> {
    model: &'a DualEncoder,
    /// The modules of the model's encoders. In bf16 on the CPU their matrices are cast once for the whole step: the
    /// gradients at these leaves are in f32 and count as those of the weights in f32.
    nets: Vec<Encoder>,
    inputs: Inputs<'a>,
    options: &'a StepOptions,
    noise: StepNoise,
    device: &'a TrainDevice,
    threads: usize,
}

/// One thread's chunks between the first and the second pass.
struct Worker<'a> {
    pass: &'a Pass<'a>,
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

impl<'a> Pass<'a> {
    fn encoder(&self, chunk: &Chunk) -> &'a TrainedEncoder {
        if chunk.side == 0 { self.model.question() } else { self.model.passage() }
    }

    fn net(&self, chunk: &Chunk) -> &Encoder {
        &self.nets[chunk.side.min(self.nets.len() - 1)]
    }

    fn forward(&self, chunk: &Chunk) -> Tape {
        let encoder = self.encoder(chunk);
        let leaves = self.net(chunk).leaves(&encoder.trained);
        let vectors = self.vectors(encoder, &leaves, chunk, true);
        Tape { leaves, vectors }
    }

    /// Returns what the encoder makes of a chunk's texts, `[rows, numbers]`.
    fn vectors(&self, encoder: &TrainedEncoder, net: &Encoder, chunk: &Chunk, taped: bool) -> Tensor<2> {
        let texts = self.inputs.texts[chunk.side];
        let types = |row: usize| self.inputs.types.get(row).map_or(&[][..], Vec::as_slice);
        let row = |row: &usize| (texts[*row].as_slice(), if chunk.side == 1 { types(*row) } else { &[] });
        let rows: Vec<_> = chunk.rows.iter().map(row).collect();
        let device = if taped { &self.device.taped } else { &self.device.plain };
        let seed = SplitMix::keyed(&[self.noise.seed, chunk.number as u64]).bits();
        let mut dropout = Dropout::new(self.noise.dropout, seed, &self.device.plain, self.device.gpu);
        let batch = encoder.typed_batch(&rows, self.device);
        // On a GPU the cast is on the tape: what comes back is the gradient of the weights in f32.
        let narrow = match self.options.precision {
            Precision::F16 => Some(net.with_products_in(FloatDType::F16)),
            Precision::Bf16 if self.device.gpu => Some(net.with_products_in(FloatDType::BF16)),
            Precision::F32 | Precision::Bf16 => None,
        };
        let net = narrow.as_ref().unwrap_or(net);
        match self.inputs.outputs {
            Outputs::Vectors => net.forward_with(&batch, &encoder.config, device, &mut dropout),
            Outputs::Tokens => {
                let states = net.hidden(&batch, &encoder.config, device, &mut dropout);
                let scores = net.token_scores(states);
                let [rows, tokens, numbers] = scores.dims();
                scores.reshape([rows, tokens * numbers])
            }
        }
    }
}

impl<'a> Worker<'a> {
    fn new(pass: &'a Pass<'a>, chunks: &'a [Chunk]) -> Result<Self, TrainError> {
        let mut worker = Self { pass, chunks, vectors: Vec::new(), tapes: Vec::new() };
        let mut room = pass.options.tape_tokens / pass.threads.max(1);
        let mut computed = Vec::new();
        for chunk in chunks {
            let fits = chunk.tokens <= room;
            let (vectors, tape) = if fits {
                room -= chunk.tokens;
                let tape = pass.forward(chunk);
                (tape.vectors.clone().inner(), Some(tape))
            } else {
                let encoder = pass.encoder(chunk);
                (pass.vectors(encoder, pass.net(chunk), chunk, false), None)
            };
            computed.push(vectors);
            worker.tapes.push(tape);
        }
        // Read when all are queued: a GPU then computes without a pause.
        worker.vectors = computed.into_iter().map(numbers).collect::<Result<_, _>>()?;
        Ok(worker)
    }

    /// Returns the sum of the gradients of the worker's chunks, one an encoder: on a GPU it stays there.
    fn backward(mut self, vector_gradients: &BySide, dim: usize) -> Result<Vec<Gradient>, TrainError> {
        let count = |encoder: &TrainedEncoder| encoder.parameters.len();
        let mut sums: Vec<Vec<Option<Tensor<1>>>> =
            self.pass.model.encoders.iter().map(|encoder| vec![None; count(encoder)]).collect();
        let last = self.pass.model.encoders.len() - 1;
        let tapes = std::mem::take(&mut self.tapes);
        for (chunk, tape) in self.chunks.iter().zip(tapes) {
            let Tape { leaves, vectors } = match tape {
                Some(tape) => tape,
                None => self.pass.forward(chunk),
            };
            let [_, width] = vectors.dims();
            let mut gradient = Vec::with_capacity(chunk.rows.len() * width);
            for (number, row) in chunk.rows.iter().enumerate() {
                gradient.extend(&vector_gradients[chunk.side][row * dim..][..width.min(dim)]);
                gradient.resize((number + 1) * width, 0.0);
            }
            let gradient = TensorData::new(gradient, [chunk.rows.len(), width]);
            let gradient = Tensor::<2>::from_data(gradient, &self.pass.device.taped);
            let mut gradients = (vectors * gradient).sum().backward();
            let found = leaves.take_gradients(&mut gradients);
            for (sum, found) in sums[chunk.side.min(last)].iter_mut().zip(found) {
                *sum = match (sum.take(), found) {
                    (Some(sum), Some(found)) => Some(sum + found),
                    (sum, found) => sum.or(found),
                };
            }
        }
        sums.into_iter().map(|sums| Gradient::gathered(sums, self.pass.device.gpu)).collect()
    }
}
