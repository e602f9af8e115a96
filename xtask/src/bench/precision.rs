//! Encoding in f32, bf16 and int8: speed beside other engines, nearness to f32, and the accuracy of retrieval.

use std::fs;

use serde_json::Value;

use super::report::{Native, verdict};
use super::turns::Turns;
use super::{FOLDER, encoder_of, json, measure_peer, number};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, ENCODERS_VENV, SQUAD, built, python_of, venv_python};
use crate::process::{self, command, output};

/// Least cosine of a vector with the one in f32, by precision.
const LEAST_COSINE: [(&str, f64); 2] = [("bf16", 0.9999), ("int8", 0.998)];

/// The precisions of `dpr`, by the names that `precision_bench` prints.
const OURS: [&str; 3] = ["f32", "bf16", "int8"];

/// Engines of the environment of the benches; the vectors of the first are what those of the others are held against.
const PEERS: [&str; 2] = ["onnxruntime", "onnxruntime-int8"];

/// Engines of the environment of encoders.
const ENCODERS: [&str; 4] = ["litert", "litert-int8", "ctranslate2-int8", "openvino"];

/// It computes bf16 products without instructions for them where the processor has none, and is left out there.
const ENCODER_IN_BF16: &str = "openvino-bf16";

/// What is asked: a precision, an engine, and the least of its passages a second.
const TARGETS: [(&str, &str, f64); 4] = [
    ("bf16", ENCODER_IN_BF16, 1.25),
    ("int8", "onnxruntime-int8", 1.2),
    ("int8", "ctranslate2-int8", 1.2),
    ("int8", "litert-int8", 1.0),
];

/// The engine and the precision whose questions take turns, and the most of the engine's time that is asked for.
const QUESTIONS: (&str, &str, f64) = ("int8", "litert-int8", 0.9);

/// Turns of 40 questions each.
const TURNS: usize = 60;

pub(super) fn run(rounds: usize) -> Outcome {
    process::build_benches(&["precision_bench"])?;
    speeds(rounds)?;
    questions()?;
    for line in output(&mut command(built("precision_bench"), &[DEMO_MODEL, SQUAD, "1"]))?.lines() {
        println!("{line}");
        let measured = json(line, "precision_bench")?;
        let least = measured["least_cosine"].as_f64().unwrap_or(f64::NAN);
        for (name, limit) in LEAST_COSINE.into_iter().filter(|(name, _)| measured["precision"] == *name) {
            println!("bench: {name} least cosine {least:.6} (at least {limit}: {})", verdict(least >= limit));
        }
    }
    Ok(())
}

/// All engines in turns, so that a busy minute on the machine meets them all.
fn speeds(rounds: usize) -> Outcome {
    let mut ours = OURS.map(Native::new);
    let encoders = ENCODERS.into_iter().chain(has_bf16_products().then_some(ENCODER_IN_BF16));
    let mut peers: Vec<_> =
        PEERS.into_iter().chain(encoders).map(|name| (Native::new(name), f64::NAN)).collect();
    let reference = format!("{FOLDER}/{}.json", PEERS[0]);
    for round in 1..=rounds {
        println!("bench: round {round} of {rounds}");
        let printed = output(&mut command(built("precision_bench"), &[DEMO_MODEL, SQUAD, "1", "--speeds"]))?;
        for own in &mut ours {
            let mut lines = printed.lines().map(|line| json(line, "precision_bench"));
            let is_own =
                |line: &Outcome<_>| line.as_ref().is_ok_and(|line: &Value| line["precision"] == own.name);
            let measured = lines.find(is_own).unwrap_or_else(|| {
                Err(Failure::new(format!("precision_bench printed nothing of {}: {printed}", own.name)))
            })?;
            own.add(number(&measured, "passages_per_second")?, number(&measured, "question_ms")?, None);
            println!("bench: dpr {}", own.last());
        }
        for (peer, least_cosine) in &mut peers {
            let python = if PEERS.contains(&peer.name) { venv_python() } else { python_of(ENCODERS_VENV) };
            let like = ["--like", reference.as_str()];
            let is_reference = peer.name == PEERS[0];
            let printed = measure_peer(peer, &python, if is_reference { &[] } else { &like })?;
            let answer = json(&printed, peer.name)?;
            println!("bench: {}, {}", peer.last(), answer["way"].as_str().unwrap_or_default());
            if is_reference {
                fs::write(&reference, &printed)
                    .map_err(|e| Failure::new(format!("cannot write {reference}: {e}")))?;
                *least_cosine = 1.0;
            } else {
                *least_cosine = number(&answer, "least_cosine")?;
            }
        }
    }
    print(&ours, &peers, rounds);
    Ok(())
}

/// Prints medians, ratios and targets. `peers` come with the least cosine of their vectors with f32.
fn print(ours: &[Native], peers: &[(Native, f64)], rounds: usize) {
    println!(
        "\n2,067 SQuAD paragraphs with titles, 2 threads; a 16-token question, 1 thread; medians of {rounds} turns"
    );
    println!("{:<20} {:>12} {:>12} {:>14}", "engine", "passages/s", "question", "least cosine");
    for own in ours {
        let (passages, question) = own.medians();
        println!("{:<20} {passages:>12.1} {question:>9.2} ms", format!("dpr {}", own.name));
    }
    for (peer, least_cosine) in peers {
        let (passages, question) = peer.medians();
        println!("{:<20} {passages:>12.1} {question:>9.2} ms {least_cosine:>14.5}", peer.name);
    }
    println!(
        "LiteRT has models of 16 and 160 tokens: passages are cut or padded to that, and cut ones not compared"
    );
    println!(
        "dpr and CTranslate2 encode a text a thread, the others that or one text by both threads (see above)"
    );
    for (precision, engine, least_speed) in TARGETS {
        let own = ours.iter().find(|own| own.name == precision).map(Native::medians);
        let peer = peers.iter().find(|(peer, _)| peer.name == engine).map(|(peer, _)| peer.medians());
        let (Some(own), Some(peer)) = (own, peer) else {
            println!("{precision} over {engine}: not measured, this processor has no bf16 products");
            continue;
        };
        let speed = own.0 / peer.0;
        println!(
            "{precision}: passages/s over {engine} {speed:.2}, at least {least_speed}: {}",
            verdict(speed >= least_speed)
        );
    }
}

/// Compares a question on one thread, of `dpr` and of the engine that is fastest with one.
fn questions() -> Outcome {
    let (precision, engine, most) = QUESTIONS;
    let mut ours = command(built("precision_bench"), &[DEMO_MODEL, SQUAD, "--turns", precision]);
    let mut peer = encoder_of(engine, &python_of(ENCODERS_VENV));
    let turns = Turns::of([("precision_bench", &mut ours), (engine, peer.arg("--turns"))], TURNS)?;
    let ([ours, peer], ratio) = (turns.medians(), turns.ratio());
    println!(
        "a 16-token question, 1 thread, {TURNS} turns of 40: dpr {precision} {ours:.2} ms, {engine} {peer:.2} ms; median \
         ratio of a turn {ratio:.2}, at most {most}: {}",
        verdict(ratio <= most)
    );
    Ok(())
}

/// Returns whether the processor multiplies bf16 numbers.
fn has_bf16_products() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512bf16");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}
