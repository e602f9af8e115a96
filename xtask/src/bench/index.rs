//! Search of vectors beside faiss, hnswlib, usearch, SymphonyQG and VSAG: the same vectors and questions, one thread a
//! question.

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
/// Recall targets at which graphs are compared: the number of rows that are asked for, and the least recall.
const RECALLS: [(usize, f64); 2] = [(20, 0.99), (10, 0.95)];
/// Least ratio of our graph to the fastest peer's at each of them.
const GRAPH: f64 = 1.2;
const PEERS: [&str; 5] = ["faiss", "hnswlib", "usearch", "symphonyqg", "vsag"];
/// Least ratio of our exact search to faiss's, one question at a time and all at once.
const EXACT: [(&str, f64); 2] = [("single", 1.0), ("batch", 0.9)];
/// Least ratio of our exact search in fewer bits to that in f32, and least recall.
const STORED: [(&str, f64, f64); 3] = [("int8", 2.0, 0.999), ("f16", 1.3, 0.999), ("binary", 4.0, 0.98)];
/// Least ratio of our exact search in 8 bits to faiss's in f32, one question at a time and in batches of 64.
const INT8: [(&str, f64); 2] = [("single", 4.0), ("batch", 2.5)];
/// Most of our build time over that of the fastest peer, and over hnswlib's, with the same M.
const BUILD: [(Option<&str>, f64); 2] = [(None, 1.0), (Some("hnswlib"), 1.2)];

pub(super) fn run(is_quick: bool) -> Outcome {
    let Some(Vectors { folder, vectors, questions, blocks }) = vectors(is_quick)? else { return Ok(()) };
    process::build_benches(&["index_bench"])?;
    let program = built("index_bench");
    let ours =
        json(&output(&mut command(program, &[&vectors, DEMO_MODEL, &questions, &folder]))?, "index_bench")?;
    let mut peers = Vec::new();
    for engine in PEERS {
        peers.push(peer(engine, &folder, &[])?);
    }

    println!("\n{blocks} vectors of 768 numbers, 1,000 questions of NQ dev, by inner product");
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
    print_graphs(std::iter::once(&ours).chain(&peers), blocks)?;
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
    println!("of dpr, bytes are with the passages' texts and build is with the writing of all files");
    print_ratios(&ours, &peers, GRAPH);
    if let Some((_, graph)) = fastest(&ours, RECALLS[0].0, RECALLS[0].1) {
        let filtered = &graph["filtered"];
        println!(
            "graph, where a filter allows one row of a hundred: {:.0} questions/s, recall@20 {:.4}",
            number(filtered, "single")?,
            number(filtered, "recall")?
        );
        for (peer, most) in BUILD {
            let same = peers.iter().filter(|engine| peer.is_none_or(|peer| name(engine) == peer));
            let same = same.flat_map(graphs).filter(|other| other["m"] == graph["m"]);
            let theirs = same.filter_map(|graph| graph["build_seconds"].as_f64()).fold(f64::NAN, f64::min);
            let (ratio, peer) =
                (number(graph, "build_seconds")? / theirs, peer.unwrap_or("the quickest peer"));
            println!("build: {ratio:.2} times {peer}'s seconds, at most {most}  {}", verdict(ratio <= most));
        }
    }
    Ok(())
}

/// Returns what a Python engine's graphs measure, of the vectors in a folder.
pub(super) fn peer(engine: &str, folder: &str, more: &[&str]) -> Outcome<Value> {
    let mut python = command(venv_python(), &["tests/bench/index_peer.py", engine, folder]);
    json(&output(python.args(more).env("PYTHONDONTWRITEBYTECODE", "1"))?, engine)
}

/// Prints a line for each graph of the engines, of so many vectors.
pub(super) fn print_graphs<'a>(engines: impl Iterator<Item = &'a Value>, vectors: usize) -> Outcome {
    print!("\n{:<10} {:>3} {:>9} {:>12}", "graph", "M", "build, s", "bytes/vector");
    for (k, least) in RECALLS {
        print!(" {:>28}", format!("recall@{k} {least}: ef, questions/s"));
    }
    println!();
    for engine in engines {
        for graph in graphs(engine) {
            print!(
                "{:<10} {:>3} {:>9.1} {:>12.0}",
                name(engine),
                number(graph, "m")?,
                number(graph, "build_seconds")?,
                number(graph, "bytes")? / vectors as f64
            );
            for (k, least) in RECALLS {
                match at_recall(graph, k, least) {
                    Some((ef, speed)) => print!(" {ef:>15.0} {speed:>12.0}"),
                    None => print!(" {:>28}", "not reached"),
                }
            }
            println!();
        }
    }
    Ok(())
}

/// Prints how our fastest graph compares with the fastest peer's, at each recall.
pub(super) fn print_ratios(ours: &Value, peers: &[Value], least_ratio: f64) {
    for (k, least) in RECALLS {
        let fastest = |engine: &Value| fastest(engine, k, least).map_or(0.0, |(speed, _)| speed);
        let best = peers.iter().max_by(|a, b| fastest(a).total_cmp(&fastest(b)));
        let Some((peer, speed)) = best.map(|peer| (name(peer), fastest(peer))).filter(|best| best.1 > 0.0)
        else {
            println!("graph, recall@{k} {least}: no peer reaches it");
            continue;
        };
        let ratio = fastest(ours) / speed;
        println!(
            "graph, recall@{k} {least}: {ratio:.2} times {peer}, the fastest peer, at least {least_ratio}  {}",
            verdict(ratio >= least_ratio)
        );
    }
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

fn graphs(engine: &Value) -> impl Iterator<Item = &Value> {
    engine["graphs"].as_array().into_iter().flatten()
}

/// Returns the speed of the engine's fastest graph with the recall, and the graph.
fn fastest(engine: &Value, k: usize, least: f64) -> Option<(f64, &Value)> {
    let speeds = graphs(engine).filter_map(|graph| Some((at_recall(graph, k, least)?.1, graph)));
    speeds.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Returns the `ef` and the questions a second at which a graph that is asked for `k` rows has the recall `least`:
/// interpolated, linear in the recall and in the logarithms of both, between the measured settings of `ef` below and
/// above it.
fn at_recall(graph: &Value, k: usize, least: f64) -> Option<(f64, f64)> {
    let measured = graph["efforts"][k.to_string()]
        .as_array()?
        .iter()
        .filter_map(|figures| Some((figures[0].as_f64()?, figures[1].as_f64()?, figures[2].as_f64()?)));
    let mut below: Option<(f64, f64, f64)> = None;
    for (ef, speed, recall) in measured {
        if recall >= least {
            let Some((ef_below, speed_below, recall_below)) = below else { return Some((ef, speed)) };
            let part = (least - recall_below) / (recall - recall_below);
            let between = |from: f64, to: f64| (from.ln() + part * (to.ln() - from.ln())).exp();
            return Some((between(ef_below, ef), between(speed_below, speed)));
        }
        below = Some((ef, speed, recall));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_speed_at_a_recall_lies_between_the_efforts_beside_it() {
        let efforts = serde_json::json!({
            "20": [[10, 4000.0, 0.9], [40, 1000.0, 1.0]], "10": [[10, 4200.0, 0.96], [40, 1100.0, 1.0]],
        });
        let graph = serde_json::json!({ "efforts": efforts });
        let (ef, speed) = at_recall(&graph, 20, 0.95).unwrap();
        assert!((ef - 20.0).abs() < 1e-9 && (speed - 2000.0).abs() < 1e-9, "{ef} {speed}");
        assert_eq!(at_recall(&graph, 10, 0.95), Some((10.0, 4200.0)));
        assert_eq!(at_recall(&graph, 20, 1.1), None);
        assert_eq!(at_recall(&graph, 5, 0.5), None);
    }
}
