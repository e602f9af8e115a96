//! Training speed on made-up token ids, to hold against another library's on the same lengths.
//!
//! ```text
//! cargo run --release --bin train_throughput -- MODEL_DIR f32|bf16 [BATCH] [PASSAGE_TOKENS] [STEPS] [THREADS] \
//!     [CHUNK_TOKENS] [TAPE_TOKENS]
//! ```
//!
//! Prints `{"questions_per_second", "peak_mib"}`: the median over the steps, the first of which does not count.

use std::path::Path;
use std::time::Instant;

use dpr_core::DeviceChoice;
use dpr_core::random::SplitMix;
use dpr_encode::model::ModelDir;
use dpr_train::{
    AdamW, Batch, DualEncoder, Objective, OptimiserOptions, Precision, Sharing, StepNoise, StepOptions,
    Targets, TrainDevice, Update, keep_freed_memory, norm, peak_memory, step,
};

/// As long as questions are, special tokens included.
const QUESTION_TOKENS: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    keep_freed_memory();
    let mut arguments = std::env::args().skip(1);
    let model = arguments.next().ok_or("give a model directory")?;
    let precision = match arguments.next().as_deref() {
        Some("f32") => Precision::F32,
        Some("bf16") => Precision::Bf16,
        _ => return Err("give a precision, f32 or bf16, after the model directory".into()),
    };
    let mut number = |default: usize| arguments.next().map_or(Ok(default), |text| text.parse());
    let (questions, tokens, steps) = (number(16)?, number(156)?, number(5)?);
    let threads = number(2)?;
    let options = StepOptions {
        chunk_rows: 64,
        chunk_tokens: number(1024)?,
        tape_tokens: number(16384)?,
        threads,
        precision,
    };
    let device = TrainDevice::open(DeviceChoice::Flex)?;
    let model = ModelDir::open(Path::new(&model))?;
    let mut model = DualEncoder::load(&model, Sharing::Keep, Some(64), Some(512), &device)?;
    let mut optimisers: Vec<AdamW> =
        model.encoders.iter().map(|encoder| AdamW::new(&encoder.parameters)).collect();
    let vocabulary = model.question().config.vocab_size - 1000;
    let mut random = SplitMix::new(1);
    let mut rows = |count: usize, length: usize| -> Vec<Vec<u32>> {
        (0..count).map(|_| (0..length).map(|_| 1000 + random.below(vocabulary) as u32).collect()).collect()
    };
    let targets = Targets { positive: (0..questions).collect(), ..Targets::default() };
    let batch =
        Batch { questions: rows(questions, QUESTION_TOKENS), passages: rows(questions * 2, tokens), targets };
    let optimiser = OptimiserOptions { warm_up: 0, learning_rate: 2e-5, ..OptimiserOptions::default() };
    let objective = Objective { temperature: 0.05, ..Objective::default() };
    let mut times = Vec::new();
    for taken in 0..=steps {
        let started = Instant::now();
        let noise = StepNoise { dropout: 0.1, seed: taken as u64 };
        let outcome = step(&model, &batch, &objective, &options, noise, 1.0, &device)?;
        let computed = started.elapsed().as_secs_f64();
        let length = norm(&outcome.gradients)?;
        let scale = if length > 2.0 { 2.0 / length } else { 1.0 };
        let update = Update { options: &optimiser, rate: 2e-5, taken, scale };
        let encoders = model.encoders.iter_mut().zip(&mut optimisers).zip(outcome.gradients);
        for ((encoder, moments), gradient) in encoders {
            moments.step(encoder, gradient, &update, &device)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        eprintln!(
            "step {taken}: loss {:.4}, {seconds:.2} s, of which gradients {computed:.2} s",
            outcome.loss
        );
        if taken > 0 {
            times.push(seconds);
        }
    }
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or(f64::NAN);
    let answer = serde_json::json!({
        "questions_per_second": questions as f64 / median,
        "peak_mib": peak_memory().unwrap_or(0) >> 20,
    });
    println!("{answer}");
    Ok(())
}
