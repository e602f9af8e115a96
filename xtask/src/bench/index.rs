//! Search of vectors beside faiss, hnswlib and usearch: the same vectors and questions, one thread a question.

use std::fs;

use serde_json::Value;

use super::report::verdict;
use super::{FOLDER, json, number};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, built, venv_python};
use crate::process::{self, command, output};
use crate::wikipedia::{Wikipedia, encode};

/// Blocks of Wikipedia whose vectors are searched.
const BLOCKS: usize = 60_000;
/// In a quick run.
const QUICK_BLOCKS: usize = 5_000;
/// Recall at which graphs are compared.
const RECALL: f64 = 0.99;
const PEERS: [&str; 3] = ["faiss", "hnswlib", "usearch"];
/// Least ratio of our exact search to faiss's, one question at a time and all at once.
const EXACT: [(&str, f64); 2] = [("single", 1.0), ("batch", 0.9)];
/// Least ratio of our exact search in fewer bits to that in f32, and least recall.
const STORED: [(&str, f64, f64); 3] = [("int8", 2.0, 0.999), ("f16", 1.3, 0.999), ("binary", 4.0, 0.98)];
/// Least ratio of our exact search in 8 bits to faiss's in f32, one question at a time and in batches of 64.
const INT8: [(&str, f64); 2] = [("single", 4.0), ("batch", 2.5)];
/// Most of our build time over hnswlib's.
const BUILD: f64 = 1.2;

pub(super) fn run(is_quick: bool) -> Outcome {
    let Some(Vectors { folder, vectors, questions, blocks }) = vectors(is_quick)? else { return Ok(()) };
    process::build_benches(&["index_bench"])?;
    let program = built("index_bench");
    let ours =
        json(&output(&mut command(program, &[&vectors, DEMO_MODEL, &questions, &folder]))?, "index_bench")?;
    let mut peers = Vec::new();
    for peer in PEERS {
        let mut python = command(venv_python(), &["tests/bench/index_peer.py", peer, &folder]);
        python.env("PYTHONDONTWRITEBYTECODE", "1");
        peers.push(json(&output(&mut python)?, peer)?);
    }

    println!("\n{blocks} vectors of 768 numbers, 1,000 questions of NQ dev, the best 20 by inner product");
    println!("{:<10} {:>14} {:>14}", "exact", "questions/s", "in a batch");
    for engine in std::iter::once(&ours).chain(&peers).filter(|engine| engine["exact"].is_object()) {
        let [single, batch] = EXACT.map(|(key, _)| engine["exact"][key].as_f64().unwrap_or(f64::NAN));
        println!("{:<10} {single:>14.0} {batch:>14.0}", name(engine));
    }
    let mut stored = Vec::new();
    for (storage, ..) in STORED {
        let found = &ours[storage];
        let (speed, recall) = (number(found, "single")?, number(found, "recall")?);
        let (batch, batch_recall) = (number(found, "batch")?, number(found, "batch_recall")?);
        println!(
            "{:<10} {speed:>14.0} {batch:>14.0}   recall@20 {recall:.4}, in a batch {batch_recall:.4}",
            format!("dpr, {storage}")
        );
        stored.push((speed, recall));
    }
    println!(
        "\n{:<10} {:>9} {:>6} {:>10} {:>14} {:>14}",
        "graph", "build, s", "ef", "recall@20", "questions/s", "bytes/vector"
    );
    let mut best = 0f64;
    for engine in std::iter::once(&ours).chain(&peers) {
        let graph = &engine["hnsw"];
        let bytes = number(graph, "bytes")? / blocks as f64;
        let (ef, speed, recall) = at_recall(graph).unwrap_or((f64::NAN, f64::NAN, f64::NAN));
        println!(
            "{:<10} {:>9.1} {ef:>6.0} {recall:>10.4} {speed:>14.0} {bytes:>14.0}",
            name(engine),
            number(graph, "build_seconds")?
        );
        if name(engine) != "dpr" {
            best = best.max(speed);
        }
    }
    for (key, least) in EXACT {
        let ratio = number(&ours["exact"], key)? / number(&peers[0]["exact"], key)?;
        println!("exact, {key}: {ratio:.2} times faiss, at least {least}  {}", verdict(ratio >= least));
    }
    for ((storage, least, least_recall), (speed, recall)) in STORED.into_iter().zip(stored) {
        let ratio = speed / number(&ours["exact"], "single")?;
        println!(
            "exact, {storage}: {ratio:.2} times f32, at least {least}, recall@20 at least {least_recall}  {}",
            verdict(ratio >= least && recall >= least_recall)
        );
    }
    for (key, least) in INT8 {
        let ratio = number(&ours["int8"], key)? / number(&peers[0]["exact"], key)?;
        println!(
            "exact, int8, {key}: {ratio:.2} times faiss in f32, at least {least}  {}",
            verdict(ratio >= least)
        );
    }
    let filtered = &ours["hnsw"]["filtered"];
    println!(
        "graph, where a filter allows one row of a hundred: {:.0} questions/s, recall@20 {:.4}",
        number(filtered, "single")?,
        number(filtered, "recall")?
    );
    let ratio = at_recall(&ours["hnsw"]).map_or(f64::NAN, |(_, speed, _)| speed / best);
    println!(
        "graph: {ratio:.2} times the fastest peer at recall {RECALL}, at least 1.0  {}",
        verdict(ratio >= 1.0)
    );
    let ratio = number(&ours["hnsw"], "build_seconds")? / number(&peers[1]["hnsw"], "build_seconds")?;
    println!("build: {ratio:.2} times hnswlib's seconds, at most {BUILD}  {}", verdict(ratio <= BUILD));
    Ok(())
}

/// Vectors of Wikipedia's blocks by the starter model, in a folder for what is made of them.
pub(crate) struct Vectors {
    pub(crate) folder: String,
    pub(crate) vectors: String,
    pub(crate) questions: String,
    pub(crate) blocks: usize,
}

/// Encodes the blocks, unless that was done; `None` where Wikipedia is not at hand.
pub(crate) fn vectors(is_quick: bool) -> Outcome<Option<Vectors>> {
    let Some(data) = Wikipedia::find() else { return Ok(None) };
    let blocks = if is_quick { QUICK_BLOCKS } else { BLOCKS };
    let folder = format!("{FOLDER}/index-{blocks}");
    fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("cannot make {folder}: {error}")))?;
    let [corpus, vectors] = ["corpus.tsv", "vectors"].map(|name| format!("{folder}/{name}"));
    data.drawn_blocks(0..blocks, &corpus)?;
    encode(&format!("index-{blocks}"), DEMO_MODEL, &corpus, &vectors, &[])?;
    Ok(Some(Vectors { folder, vectors, questions: data.questions("nq-dev.tsv"), blocks }))
}

fn name(engine: &Value) -> &str {
    engine["engine"].as_str().unwrap_or_default()
}

/// The least effort with the recall: (ef, questions/s, recall).
fn at_recall(graph: &Value) -> Option<(f64, f64, f64)> {
    let efforts = graph["efforts"]
        .as_array()?
        .iter()
        .filter_map(|effort| Some((effort[0].as_f64()?, effort[1].as_f64()?, effort[2].as_f64()?)));
    efforts.into_iter().find(|(_, _, recall)| *recall >= RECALL)
}
