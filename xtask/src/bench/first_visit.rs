//! The first visit of a page: bytes, and seconds to the first passage found, beside transformers.js and
//! onnxruntime-web.

use std::fs;
use std::path::Path;

use super::FOLDER;
use crate::failure::{Failure, Outcome};
use crate::paths::{MINILM, SQUAD, dpr};
use crate::process::{self, command};
use crate::stamp::Stamp;

/// The peers, with a lock file: nothing but this bench needs them.
const PEERS: &str = "tests/browser/bench/peers";
const RUN: &str = "tests/browser/bench/first-visit/run.mjs";

/// Installs the peers, makes a model and an index whose vectors the peers' model makes too, and visits in turns.
pub(super) fn run(rounds: usize) -> Outcome {
    install_peers()?;
    let (model, index) = data()?;
    let onnx = format!("{FOLDER}/model.int8.onnx");
    let rounds = rounds.to_string();
    let arguments = [
        RUN,
        "--model",
        &model,
        "--index",
        &index,
        "--onnx",
        &onnx,
        "--tokenizer",
        MINILM,
        "--rounds",
        &rounds,
    ];
    let mut node = command("node", &arguments);
    let program = dpr();
    node.env("DPR_BIN", &program);
    process::run(&mut node)
}

pub(super) fn install_peers() -> Outcome {
    let lock = format!("{PEERS}/package-lock.json");
    let stamp = Stamp::of("bench-peers", &[&lock], &[])?;
    if stamp.is_fresh(&[&format!("{PEERS}/node_modules")]) {
        return Ok(());
    }
    stamp.clear();
    println!("bench: npm ci in {PEERS}");
    let mut npm = command("npm", &["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    process::output(npm.current_dir(PEERS)).map_err(|failure| {
        failure.fix("check that npm reaches its registry (`npm ping`), then run this again")
    })?;
    stamp.write()
}

/// The starter model as it is, without the demo's projection, and an index of the demo's corpus by it.
fn data() -> Outcome<(String, String)> {
    let folder = format!("{FOLDER}/first-visit");
    let [model, vectors, index] = ["model", "vectors", "index"].map(|name| format!("{folder}/{name}"));
    let weights = format!("{MINILM}/checked.sha256");
    let inputs = [weights.as_str(), SQUAD, "core/src", "server/encode/src", "server/index/src"];
    let stamp = Stamp::of("bench-first-visit", &inputs, &["q8,q4"])?;
    if stamp.is_fresh(&[&model, &index]) {
        return Ok((model, index));
    }
    stamp.clear();
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {folder}: {e}"));
    if Path::new(&folder).exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    let import = ["import", "--question", MINILM, "--out", &model, "--pooling", "mean", "--normalize"];
    let encode = ["encode", "--model", &model, "--passages", SQUAD, "--out", &vectors];
    let steps: [&[&str]; 4] = [
        &import,
        &["export-web", "--model", &model, "--dtype", "q8,q4"],
        &encode,
        &["index", "--vectors", &vectors, "--out", &index],
    ];
    for step in steps {
        process::run(&mut command(dpr(), step))?;
    }
    stamp.write()?;
    Ok((model, index))
}
