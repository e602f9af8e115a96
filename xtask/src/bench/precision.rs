//! Encoding in f32, bf16 and int8: speed, nearness to f32, and the accuracy of retrieval.

use super::json;
use super::report::verdict;
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, SQUAD, built};
use crate::process::{self, command, output};

/// Least cosine of a vector with the one in f32, by precision.
const LEAST_COSINE: [(&str, f64); 2] = [("bf16", 0.9999), ("int8", 0.998)];

pub(super) fn run(rounds: usize) -> Outcome {
    process::build_benches(&["precision_bench"])?;
    let rounds = rounds.to_string();
    let arguments = [DEMO_MODEL, SQUAD, rounds.as_str()];
    let printed = output(&mut command(built("precision_bench"), &arguments))?;
    for line in printed.lines() {
        println!("{line}");
        let measured = json(line, "precision_bench")?;
        let least = measured["least_cosine"].as_f64().unwrap_or(f64::NAN);
        for (name, limit) in LEAST_COSINE.into_iter().filter(|(name, _)| measured["precision"] == *name) {
            println!("bench: {name} least cosine {least:.6} (at least {limit}: {})", verdict(least >= limit));
        }
    }
    Ok(())
}
