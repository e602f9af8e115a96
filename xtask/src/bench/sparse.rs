//! BM25 beside plain tantivy and bm25s: the same passages, terms and questions.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::report::{median, verdict};

use super::{FOLDER, json};
use crate::failure::{Failure, Outcome};
use crate::paths::{SQUAD, built, dpr, venv_python};
use crate::process::{self, command, output};
use crate::wikipedia::Wikipedia;

/// Least ratio of our questions/s to plain tantivy's.
const SPEED_TARGET: f64 = 0.7;
/// Least ratio of our questions/s to those of bm25s, the fastest peer that is exact.
const PEER_TARGET: f64 = 1.2;
/// Most of our build time over plain tantivy's.
const BUILD_TARGET: f64 = 1.3;
/// Most points that top-20 and top-100 may differ from bm25s.
const ACCURACY_TARGET: f64 = 0.5;
/// Questions that accuracy is compared on.
const LIMIT: &str = "2000";

pub(super) fn run(rounds: usize) -> Outcome {
    let Some(data) = Wikipedia::find() else { return Ok(()) };
    process::build_benches(&["sparse_bench"])?;
    let folder = Path::new(FOLDER).join("sparse");
    fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("cannot make {FOLDER}: {error}")))?;
    let [work, index] = [&folder, &folder.join("index")].map(|path| path.to_string_lossy().into_owned());
    let passages = data.blocks()?;
    output(&mut command(dpr(), &["index", "--passages", &passages, "--out", &index, "--sparse", "english"]))?;
    for name in ["nq-dev", "trivia-dev"] {
        let questions = data.questions(&format!("{name}.tsv"));
        let program = built("sparse_bench");
        let rounds = if name == "nq-dev" { rounds.to_string() } else { "1".to_owned() };
        let arguments = [&passages, &questions, &work, &rounds].map(String::as_str);
        let measured = json(&output(&mut command(program, &arguments))?, "sparse_bench")?;
        let script = "tests/python/sparse_reference.py";
        let arguments = [script, SQUAD, "--tsv", &passages, &questions, "--limit", LIMIT];
        let peer = json(&output(&mut command(venv_python(), &arguments))?, "bm25s")?;
        let eval =
            ["eval", "retrieval", "--index", &index, "--questions", &questions, "--limit", LIMIT, "--json"];
        let accuracy = json(&output(&mut command(dpr(), &eval))?, "dpr eval")?;
        print(name, &measured, &peer)?;
        let script = ["tests/python/sparse_peers.py", &passages, &questions];
        print_optional(&json(&output(&mut command(venv_python(), &script))?, "the optional peers")?);
        print_accuracy(&accuracy["methods"][0]["top_k"], &peer["top_k"])?;
    }
    Ok(())
}

fn middle(engine: &Value, key: &str) -> Outcome<f64> {
    let values =
        engine[key].as_array().map(|values| values.iter().filter_map(Value::as_f64).collect::<Vec<_>>());
    values.and_then(|values| median(&values)).ok_or_else(|| Failure::new(format!("no `{key}` in {engine}")))
}

fn print(name: &str, measured: &Value, peer: &Value) -> Outcome {
    println!(
        "\n{} Wikipedia blocks, {name}: {} questions, top-100; indexed with two threads (bm25s: one), searched with one",
        measured["passages"], measured["questions"]
    );
    println!("{:<18} {:>10} {:>14} {:>10}", "engine", "index, s", "questions/s", "MB");
    let mut figures = Vec::new();
    for (name, engine) in [
        ("dpr", &measured["dpr"]),
        ("tantivy", &measured["tantivy"]),
        ("bm25s", peer),
        ("dpr, every posting", &measured["every_posting"]),
    ] {
        // A second way to search the same index has neither.
        let build = middle(engine, "build_seconds").ok();
        let speed = middle(engine, "questions_per_second")?;
        let megabytes = engine["bytes"].as_f64().filter(|bytes| *bytes > 0.0).map(|bytes| bytes / 1e6);
        let shown = |figure: Option<f64>| figure.map_or_else(String::new, |figure| format!("{figure:.1}"));
        println!("{name:<18} {:>10} {speed:>14.0} {:>10}", shown(build), shown(megabytes));
        figures.push((build.unwrap_or(f64::NAN), speed));
    }
    if let Some(speed) = peer["questions_per_second_without_analysis"].as_f64() {
        println!("bm25s with the terms of the questions given: {speed:.0} questions/s");
    }
    let ((build, speed), (tantivy_build, tantivy_speed)) = (figures[0], figures[1]);
    let (faster, longer) = (speed / tantivy_speed, build / tantivy_build);
    println!(
        "{:<44} {faster:>6.2}  (at least {SPEED_TARGET:.2}: {})",
        "questions/s over plain tantivy",
        verdict(faster >= SPEED_TARGET)
    );
    println!(
        "{:<44} {longer:>6.2}  (at most {BUILD_TARGET:.2}: {})",
        "index time over plain tantivy",
        verdict(longer <= BUILD_TARGET)
    );
    let over_peer = speed / figures[2].1;
    println!(
        "{:<44} {over_peer:>6.2}  (at least {PEER_TARGET:.2}: {})",
        "questions/s over bm25s",
        verdict(over_peer >= PEER_TARGET)
    );
    println!("{:<44} {:>6.2}", "questions/s over scoring every posting", speed / figures[3].1);
    println!(
        "{:<44} {:>6}  (none: {})",
        "searches that find anything else than that",
        measured["differ"],
        verdict(measured["differ"] == 0)
    );
    Ok(())
}

/// Prints the peers that are installed.
fn print_optional(peers: &Value) {
    for name in ["bm25s", "bm25-turbo", "pisa"] {
        let Some(speed) = peers[name]["questions_per_second"][0].as_f64() else {
            println!("{name} is not installed: an optional peer");
            continue;
        };
        let agree = peers[name]["agree"].as_f64().map(|share| {
            let algorithm = peers[name]["algorithm"].as_str().unwrap_or_default();
            format!(", {:.1} % of its best 100 are those of bm25s ({algorithm})", share * 100.0)
        });
        println!("{name}, terms given: {speed:.0} questions/s{}", agree.unwrap_or_default());
    }
}

fn print_accuracy(ours: &Value, peer: &Value) -> Outcome {
    let missing = || Failure::new("no accuracy to compare");
    println!("answer accuracy of the first {LIMIT} questions, in % (dpr, bm25s, difference)");
    for top in ours.as_array().ok_or_else(missing)? {
        let (k, accuracy) = (top["k"].to_string(), top["accuracy"].as_f64().ok_or_else(missing)? * 100.0);
        let theirs = peer[&k].as_f64().ok_or_else(missing)? * 100.0;
        let difference = accuracy - theirs;
        let target = if ["20", "100"].contains(&k.as_str()) {
            format!("  (at most {ACCURACY_TARGET}: {})", verdict(difference.abs() <= ACCURACY_TARGET))
        } else {
            String::new()
        };
        println!("top-{k:<4} {accuracy:>7.2} {theirs:>7.2} {difference:>+7.2}{target}");
    }
    Ok(())
}
