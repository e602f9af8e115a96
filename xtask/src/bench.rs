//! `cargo xtask bench`: speed beside the engines people use today, same weights, same texts, same machine, one run.

mod against;
mod encoders;
mod first_visit;
mod gpu;
mod homes;
mod hybrid;
mod index;
mod load;
mod million;
mod milvus;
mod precision;
mod private;
mod report;
mod service;
mod sparse;
mod train;
mod turns;

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::json::{json, number};
use crate::npm::{MODULES, sizes};
use crate::parts::{Part as _, parts};
use crate::paths::{DEMO_MODEL, MINILM, SQUAD, built, dpr, venv_python};
use crate::process::{self, command, output};
use crate::stamp::Stamp;
use crate::{demo_data, npm, setup};
pub(crate) use index::{Vectors, vectors};
pub(crate) use report::verdict;
use report::{Native, median};

const FOLDER: &str = "target/bench";
const ROUNDS: usize = 3;
/// Most bytes the 8-bit question encoder may take on the wire, compressed.
const QUESTION_ENCODER_LIMIT: u64 = 24_000_000;
/// The peers, in the order they take turns.
const PEERS: [&str; 3] = ["sentence-transformers", "onnxruntime", "onnxruntime-int8"];

parts!(
    "bench":
    Native "native",
    Precision "precision",
    Train "train",
    Browser "browser",
    Litert "litert",
    FirstVisit "first-visit",
    Sizes "sizes",
    Sparse "sparse",
    Hybrid "hybrid",
    Index "index",
    Million "million",
    Load "load",
    Milvus "milvus",
    Homes "homes",
    Private "private",
    Gpu "gpu",
);

/// The options of a run.
#[derive(Debug)]
struct Settings<'a> {
    is_quick: bool,
    parts: Vec<Part>,
    /// The program of another build, to measure beside this one in the place of the parts.
    against: Option<&'a str>,
}

fn settings(arguments: &[String]) -> Outcome<Settings<'_>> {
    let (mut is_quick, mut skipped, mut only, mut against) = (false, Vec::new(), Vec::new(), None);
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(flag) = rest.next() {
        let list = match flag {
            "--quick" => {
                is_quick = true;
                continue;
            }
            "--against" => {
                against = Some(rest.next().ok_or_else(usage)?);
                continue;
            }
            "--skip" => &mut skipped,
            "--only" => &mut only,
            _ => return Err(usage()),
        };
        list.push(Part::named(rest.next())?);
    }
    // What a software driver computes on says nothing, and a build of its own takes minutes: only where it is asked for.
    let runs = |part: &Part| {
        !skipped.contains(part) && (only.contains(part) || (only.is_empty() && *part != Part::Gpu))
    };
    let parts: Vec<_> = Part::ALL.iter().copied().filter(runs).collect();
    if against.is_some() && !(only.is_empty() && skipped.is_empty()) {
        return Err(Failure::new("--against measures work of its own, and none of the parts")
            .fix("leave out --only and --skip, or --against"));
    }
    if parts.is_empty() {
        return Err(Failure::new("--only and --skip leave no part to run")
            .fix("leave out --skip for the parts that --only names"));
    }
    Ok(Settings { is_quick, parts, against })
}

/// Runs the parts that `--skip` leaves, or only those that `--only` names; `--quick` measures each engine once
/// instead of in three turns, and hybrid ranking among fewer passages. `--against` compares with another build instead.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let Settings { is_quick, parts, against } = settings(arguments)?;
    let rounds = if is_quick { 1 } else { ROUNDS };
    let has_encoders =
        against.is_none() && parts.iter().any(|part| [Part::Precision, Part::Litert].contains(part));
    setup::run(if has_encoders { setup::Scope::Encoders } else { setup::Scope::All })?;
    // The measurements on a GPU make their own models and texts.
    if against.is_some() || parts != [Part::Gpu] {
        demo_data::build()?;
    }
    if let Some(other) = against {
        return against::run(other, is_quick, rounds);
    }
    if parts.iter().any(|part| [Part::Browser, Part::Litert, Part::FirstVisit, Part::Sizes].contains(part)) {
        npm::build()?;
    }
    if parts
        .iter()
        .any(|part| [Part::Native, Part::Precision, Part::Browser, Part::FirstVisit].contains(part))
    {
        export_onnx().map_err(|failure| failure.during("ONNX export"))?;
    }
    if has_encoders {
        encoders::export().map_err(|failure| failure.during("conversion for the encoders beside ours"))?;
    }
    for part in parts {
        println!("\n=== {} ===", part.name());
        match part {
            Part::Native => native(rounds)?,
            Part::Precision => precision::run(rounds)?,
            Part::Train => train::run(rounds)?,
            Part::Browser => process::run(&mut command("node", &["tests/browser/bench/run.mjs"]))?,
            Part::Litert => encoders::in_the_page()?,
            Part::FirstVisit => first_visit::run(rounds)?,
            Part::Sizes => module_sizes()?,
            Part::Sparse => sparse::run(rounds)?,
            Part::Hybrid => hybrid::run(is_quick)?,
            Part::Index => index::run(is_quick)?,
            Part::Million => million::run(is_quick)?,
            Part::Load => load::run(is_quick)?,
            Part::Milvus => milvus::run(is_quick)?,
            Part::Private => private::run(is_quick)?,
            Part::Homes => homes::run(is_quick)?,
            Part::Gpu => gpu::run()?,
        }
    }
    Ok(())
}

fn usage() -> Failure {
    Failure::new("bench takes --quick, --against DPR, --skip PART and --only PART")
}

/// The starter model as ONNX, fp32 and int8, for the native and the browser peers.
fn export_onnx() -> Outcome {
    /// The versions of the packages that write it.
    const PACKAGES: &str = "tests/python/requirements/bench.txt";
    let script = "tests/bench/export_onnx.py";
    let stamp = Stamp::of("onnx", &[script, PACKAGES, &format!("{MINILM}/checked.sha256")], &[])?;
    if stamp.is_fresh(&[&format!("{FOLDER}/model.onnx"), &format!("{FOLDER}/model.int8.onnx")]) {
        return Ok(());
    }
    stamp.clear();
    println!("bench: exporting the starter model to ONNX");
    output(&mut command(venv_python(), &[script, MINILM, FOLDER]))?;
    stamp.write()
}

/// dpr and its peers in turns, so that a busy minute on the machine meets them all.
fn native(rounds: usize) -> Outcome {
    process::build_benches(&["encode_question"])?;
    let mut ours = Native::new("dpr");
    let mut peers = PEERS.map(Native::new);
    for round in 1..=rounds {
        ours.add(encode_corpus()?, question_latency()?, None);
        println!("bench: round {round} of {rounds}: {}", ours.last());
        for peer in &mut peers {
            measure_peer(peer, &venv_python(), &[])?;
            println!("bench: round {round} of {rounds}: {}", peer.last());
        }
    }
    report::print_native(&ours, &peers);
    Ok(())
}

/// Passages a second of `dpr encode` over the corpus, loading not counted.
fn encode_corpus() -> Outcome<f64> {
    let out = format!("{FOLDER}/vectors");
    let _ = fs::remove_dir_all(&out);
    let arguments = [
        "encode",
        "--model",
        DEMO_MODEL,
        "--passages",
        SQUAD,
        "--out",
        &out,
        "--threads",
        "2",
        "--device",
        "cpu",
        "--json",
    ];
    let answer = json(&output(&mut command(dpr(), &arguments))?, "dpr encode")?;
    number(&answer, "passages_per_second")
}

/// Median milliseconds from a 16-token question to its vector, on one thread.
fn question_latency() -> Outcome<f64> {
    let program = built("encode_question");
    let answer = json(&output(&mut command(program, &[DEMO_MODEL]))?, "encode_question")?;
    number(&answer, "median_ms")
}

/// Adds passages a second with two threads and milliseconds a question with one and with two, by `encode_bench.py`;
/// returns what it printed.
fn measure_peer(peer: &mut Native, python: &Path, further: &[&str]) -> Outcome<String> {
    let printed = output(encoder_of(peer.name, python).args(further))?;
    let answer = json(&printed, peer.name)?;
    let latency = &answer["question_ms"];
    peer.add(number(&answer, "passages_per_second")?, number(latency, "1")?, Some(number(latency, "2")?));
    Ok(printed)
}

/// Returns the command that measures an engine in Python.
fn encoder_of(engine: &str, python: &Path) -> std::process::Command {
    let script = "tests/bench/encode_bench.py";
    let arguments = [script, engine, SQUAD, "--model", MINILM, "--onnx", FOLDER, "--threads", "2"];
    let mut python = command(python, &arguments);
    python
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("HF_HUB_OFFLINE", "1")
        .env("TOKENIZERS_PARALLELISM", "false");
    python
}

fn module_sizes() -> Outcome {
    println!("{:<34} {:>10} {:>10} {:>10}", "download", "raw MB", "gzip MB", "limit MB");
    let modules =
        MODULES.iter().map(|module| (format!("{} module", module.name), module.wasm(), Some(module.limit)));
    let encoders = [("8-bit", "q8", Some(QUESTION_ENCODER_LIMIT)), ("4-bit", "q4", None)];
    let encoders = encoders.map(|(bits, dtype, limit)| {
        let file = format!("{DEMO_MODEL}/web/question_encoder.{dtype}.safetensors");
        (format!("{bits} question encoder"), file, limit)
    });
    for (name, file, limit) in modules.chain(encoders) {
        let (raw, packed) = sizes(Path::new(&file))?;
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let limit = limit.map_or_else(String::new, |limit| {
            format!(" {:>10.2}  {}", megabytes(limit), report::verdict(packed <= limit))
        });
        println!("{name:<34} {:>10.2} {:>10.2}{limit}", megabytes(raw), megabytes(packed));
    }
    Ok(())
}

/// Medians need at least one value, which every engine has after the first round.
fn middle(values: &[f64]) -> f64 {
    median(values).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_without_a_part_and_parts_beside_another_build_are_refused() {
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let refused = |line: &str| settings(&words(line)).unwrap_err().to_string();
        assert_eq!(settings(&words("--only sizes --quick")).unwrap().parts, [Part::Sizes]);
        assert_eq!(settings(&words("--against other/dpr")).unwrap().against, Some("other/dpr"));
        assert!(refused("--only sizes --skip sizes").contains("leave no part"));
        for line in ["--against other/dpr --only index", "--skip load --against other/dpr"] {
            assert!(refused(line).contains("leave out --only and --skip"), "{line}");
        }
    }
}
