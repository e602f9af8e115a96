//! Training speed and memory beside PyTorch: the same model, batch and lengths, in turns.

use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, MINILM, built, venv_python};
use crate::process::{self, command, output};

use super::report::verdict;
use super::{json, middle, number};

/// Questions, tokens of a passage, steps that count, threads.
const SIZES: [&str; 4] = ["16", "156", "5", "2"];

/// Least share of PyTorch's questions a second.
const LEAST: f64 = 0.8;

pub(super) fn run(rounds: usize) -> Outcome {
    process::build_benches(&["train_throughput"])?;
    let program = built("train_throughput");
    let (mut ours, mut theirs) = ((Vec::new(), 0.0), (Vec::new(), 0.0));
    for round in 1..=rounds {
        let turn = |name: &str, sum: &mut (Vec<f64>, f64), program: &mut std::process::Command| {
            let answer = json(&output(program)?, name)?;
            let speed = number(&answer, "questions_per_second")?;
            println!("bench: round {round} of {rounds}: {name} trains on {speed:.2} questions/s");
            sum.0.push(speed);
            sum.1 = number(&answer, "peak_mib")?.max(sum.1);
            Outcome::Ok(())
        };
        turn("dpr", &mut ours, command(&program, &[DEMO_MODEL]).args(SIZES))?;
        let mut python = command(venv_python(), &["tests/bench/train_peer.py", MINILM]);
        python.args(SIZES).env("PYTHONDONTWRITEBYTECODE", "1").env("HF_HUB_OFFLINE", "1");
        turn("PyTorch", &mut theirs, &mut python)?;
    }
    println!("{:<12} {:>14} {:>12}", "training", "questions/s", "peak MiB");
    for (name, (speeds, peak)) in [("dpr", &ours), ("PyTorch", &theirs)] {
        println!("{name:<12} {:>14.2} {peak:>12.0}", middle(speeds));
    }
    let ratio = middle(&ours.0) / middle(&theirs.0);
    println!("ratio {ratio:.2}, at least {LEAST}  {}", verdict(ratio >= LEAST));
    Ok(())
}
