//! Seconds of a training step of two encoders: gradients, and the update of the weights.

use std::time::Instant;

use dpr_core::random::SplitMix;
use dpr_train::{
    AdamW, Batch, DualEncoder, Objective, OptimiserOptions, Precision, Sharing, StepNoise, StepOptions,
    Targets, TrainDevice, Update, norm, peak_memory, step,
};
use serde_json::{Value, json};

use crate::made::{Size, texts};
use crate::{Arguments, Outcome, median};

/// Tokens of a question: most of Natural Questions have fewer.
const QUESTION_TOKENS: usize = 16;

/// Steps that do not count: kernels are made and tuned.
const WARM_UP: usize = 2;

pub(crate) fn run(arguments: &mut Arguments, device: &TrainDevice) -> Outcome<Value> {
    let (size, precision): (Size, Precision) = (arguments.next("SIZE")?, arguments.next("PRECISION")?);
    let (questions, tokens): (usize, usize) = (arguments.next("QUESTIONS")?, arguments.next("TOKENS")?);
    let steps: usize = arguments.next("STEPS")?;
    let options = StepOptions {
        chunk_rows: 1024,
        chunk_tokens: arguments.next("CHUNK_TOKENS")?,
        tape_tokens: arguments.next("TAPE_TOKENS")?,
        threads: 0,
        precision,
    };
    device.check(precision)?;
    let dir = tempfile::tempdir()?;
    let model = size.write(&dir.path().join("model"))?;
    let mut model = DualEncoder::load(&model, Sharing::Separate, Some(tokens), Some(tokens), device)?;
    let mut optimisers: Vec<AdamW> =
        model.encoders.iter().map(|encoder| AdamW::new(&encoder.parameters)).collect();
    let mut random = SplitMix::new(1);
    let batch = Batch {
        questions: texts(&mut random, questions, QUESTION_TOKENS.min(tokens)),
        passages: texts(&mut random, 2 * questions, tokens),
        targets: Targets { positive: (0..questions).collect(), ..Targets::default() },
    };
    let optimiser = OptimiserOptions { warm_up: 0, ..OptimiserOptions::default() };
    let objective = Objective::default();
    let (mut whole, mut updates, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    let mut first_seconds = 0.0;
    for taken in 0..steps + WARM_UP {
        let started = Instant::now();
        let noise = StepNoise { dropout: 0.1, seed: taken as u64 };
        let outcome = step(&model, &batch, &objective, &options, noise, 1.0, device)?;
        let length = norm(&outcome.gradients)?;
        wait(device)?;
        let computed = started.elapsed().as_secs_f64();
        let scale = if length > 2.0 { 2.0 / length } else { 1.0 };
        let update = Update { options: &optimiser, rate: 1e-5, taken, scale };
        let encoders = model.encoders.iter_mut().zip(&mut optimisers).zip(outcome.gradients);
        for ((encoder, moments), gradient) in encoders {
            moments.step(encoder, gradient, &update, device)?;
        }
        wait(device)?;
        let seconds = started.elapsed().as_secs_f64();
        losses.push(outcome.loss);
        eprintln!(
            "step {taken}: loss {:.4}, {seconds:.3} s, update {:.3} s",
            outcome.loss,
            seconds - computed
        );
        if taken == 0 {
            first_seconds = seconds;
        }
        if taken >= WARM_UP {
            whole.push(seconds);
            updates.push(seconds - computed);
        }
    }
    let seconds = median(whole);
    let operations = 2.0 * (questions * tokens) as f64 * size.operations(tokens)
        + (questions * QUESTION_TOKENS) as f64 * size.operations(QUESTION_TOKENS);
    Ok(json!({
        "precision": precision.name(), "questions": questions, "tokens": tokens, "first_seconds": first_seconds,
        "seconds_a_step": seconds, "seconds_of_update": median(updates),
        "questions_per_second": questions as f64 / seconds, "first_loss": losses.first(), "last_loss": losses.last(),
        // Forwards once and backwards twice that; what is encoded a second time does not count.
        "teraflops": 3.0 * operations / seconds / 1e12, "peak_host_mib": peak_memory().unwrap_or(0) >> 20,
    }))
}

/// Waits until the device has done what was queued.
fn wait(device: &TrainDevice) -> Outcome<()> {
    device.plain.sync().map_err(|error| format!("{error:?}").into())
}
