//! Training speed and memory beside PyTorch, in single precision and in bf16: the same model, batch and lengths, in
//! turns.

use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, MINILM, built, venv_python};
use crate::process::{self, command, output};

use super::report::verdict;
use super::{json, middle, number};

/// Questions, tokens of a passage, steps that count, threads.
const SIZES: [&str; 4] = ["16", "156", "5", "2"];

/// Precisions, and the least share of PyTorch's questions a second in each.
const LEAST: [(&str, f64); 2] = [("f32", 1.9), ("bf16", 1.25)];

/// Questions a second of each round, and the most memory, in MiB.
#[derive(Default)]
struct Measured {
    speeds: Vec<f64>,
    peak: f64,
}

impl Measured {
    fn add(&mut self, name: &str, program: &mut std::process::Command) -> Outcome {
        let answer = json(&output(program)?, name)?;
        let speed = number(&answer, "questions_per_second")?;
        println!("bench: {name} trains on {speed:.2} questions/s");
        self.speeds.push(speed);
        self.peak = number(&answer, "peak_mib")?.max(self.peak);
        Ok(())
    }
}

pub(super) fn run(rounds: usize) -> Outcome {
    process::build_benches(&["train_throughput"])?;
    let program = built("train_throughput");
    let mut all: [[Measured; 2]; LEAST.len()] = Default::default();
    for round in 1..=rounds {
        println!("bench: round {round} of {rounds}");
        for ((precision, _), [ours, theirs]) in LEAST.iter().zip(&mut all) {
            let mut own = command(&program, &[DEMO_MODEL, precision]);
            ours.add(&format!("dpr, {precision},"), own.args(SIZES))?;
            let mut python = command(venv_python(), &["tests/bench/train_peer.py", MINILM, precision]);
            python.args(SIZES).env("PYTHONDONTWRITEBYTECODE", "1").env("HF_HUB_OFFLINE", "1");
            theirs.add(&format!("PyTorch, {precision},"), &mut python)?;
        }
    }
    println!("{:<16} {:>14} {:>12}", "training", "questions/s", "peak MiB");
    for ((precision, _), measured) in LEAST.iter().zip(&all) {
        for (engine, Measured { speeds, peak }) in ["dpr", "PyTorch"].iter().zip(measured) {
            println!("{:<16} {:>14.2} {peak:>12.0}", format!("{engine}, {precision}"), middle(speeds));
        }
    }
    for ((precision, least), [ours, theirs]) in LEAST.iter().zip(&all) {
        let ratio = middle(&ours.speeds) / middle(&theirs.speeds);
        println!("{precision}: ratio {ratio:.2}, at least {least}  {}", verdict(ratio >= *least));
    }
    Ok(())
}
