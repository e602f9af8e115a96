//! `cargo xtask bench --against DPR`: this `dpr` beside another build of it, on the same work, in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use super::index::{Vectors, vectors};
use super::report::median;
use super::{FOLDER, json, load, number};
use crate::failure::{Failure, Outcome};
use crate::paths::{MINILM, SQUAD, absolute, dpr};
use crate::process::{command, output};
use crate::server::Server;
use crate::wikipedia::Wikipedia;

/// The connections of each load.
const CONNECTIONS: [&str; 3] = ["1", "16", "64"];

/// A build of `dpr`, with a folder for what it makes.
struct Build {
    program: PathBuf,
    folder: PathBuf,
}

impl Build {
    fn new(name: &str, program: PathBuf) -> Outcome<Self> {
        let folder = Path::new(FOLDER).join("against").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)
            .map_err(|error| Failure::new(format!("cannot make {}: {error}", folder.display())))?;
        let build = Self { program, folder };
        // Each imports for itself: the formats of models may differ.
        let model = build.path("model");
        let import = ["import", "--question", MINILM, "--project", "768", "--pooling", "mean", "--normalize"];
        build.run(&[&import[..], &["--out", &model]].concat())?;
        Ok(build)
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).to_string_lossy().into_owned()
    }

    fn run(&self, arguments: &[&str]) -> Outcome<String> {
        output(&mut command(&self.program, arguments))
    }

    /// Returns the seconds that the program takes to write `out`, anew.
    fn seconds(&self, arguments: &[&str], out: &str) -> Outcome<f64> {
        let _ = fs::remove_dir_all(out);
        let begin = Instant::now();
        self.run(&[arguments, &["--out", out]].concat())?;
        Ok(begin.elapsed().as_secs_f64())
    }

    /// Returns the passages a second of encoding the demo's corpus, loading not counted.
    fn encode(&self) -> Outcome<f64> {
        let (model, out) = (self.path("model"), self.path("vectors"));
        let _ = fs::remove_dir_all(&out);
        let encode = ["encode", "--model", &model, "--passages", SQUAD, "--out", &out, "--threads", "2"];
        let said = self.run(&[&encode[..], &["--device", "cpu", "--json"]].concat())?;
        number(&json(&said, "dpr encode")?, "passages_per_second")
    }

    /// Returns the questions a second that a method ranks, encoding not counted, and how good its rankings are.
    fn rank(&self, index: &str, method: &str, questions: &str) -> Outcome<(f64, String)> {
        let model = self.path("model");
        let eval =
            ["eval", "retrieval", "--index", index, "--questions", questions, "--limit", "2000", "--json"];
        let more = ["--methods", method, "--model", &model, "--against-exact"];
        let said = self.run(&[&eval[..], &more[..if method == "bm25" { 2 } else { 5 }]].concat())?;
        let said = json(&said, "dpr eval retrieval")?;
        Ok((number(&said["methods"][0], "questions_per_second")?, quality(&said)))
    }
}

/// Returns the recall against exact search and the answer accuracy in the first 20 that `dpr eval retrieval --json`
/// measured, as far as it says them.
fn quality(said: &Value) -> String {
    let (recall, top) = (&said["recall_against_exact"], said["methods"][0]["top_k"].as_array());
    let accuracy = top.into_iter().flatten().find(|top| top["k"] == 20);
    let accuracy = accuracy.and_then(|top| top["accuracy"].as_f64());
    let recall = recall["mean"].as_f64().map(|mean| format!("recall@{} {mean:.4}", recall["k"]));
    let accuracy = accuracy.map(|accuracy| format!("top-20 {:.2} %", accuracy * 100.0));
    recall.into_iter().chain(accuracy).collect::<Vec<_>>().join(", ")
}

/// A measure of both builds.
struct Row {
    name: &'static str,
    is_less_better: bool,
    values: [Vec<f64>; 2],
    /// How good the answers of the latest turn were; empty where there are none to judge.
    quality: [String; 2],
}

impl Row {
    fn new(name: &'static str, is_less_better: bool) -> Self {
        Self { name, is_less_better, values: Default::default(), quality: Default::default() }
    }

    /// Returns its line: medians, how many times better `now` is, and the quality, which belongs to the ratio.
    fn line(&self) -> String {
        let [before, now] = self.values.each_ref().map(|values| median(values).unwrap_or(f64::NAN));
        let ratio = if self.is_less_better { before / now } else { now / before };
        let [of_before, of_now] = &self.quality;
        let quality = match of_before == of_now {
            true => of_now.clone(),
            false => format!("before {of_before}; now {of_now}"),
        };
        let line = format!("{:<34} {before:>10.1} {now:>10.1} {ratio:>8.2}  {quality}", self.name);
        line.trim_end().to_owned()
    }
}

/// Measures both builds and prints a table.
pub(super) fn run(other: &str, is_quick: bool, rounds: usize) -> Outcome {
    let other = absolute(other);
    if !other.is_file() {
        return Err(Failure::new(format!("{} is no program", other.display()))
            .fix("build the other version with `cargo build --release` and name its `dpr`"));
    }
    let Some(data) = Wikipedia::find() else { return Ok(()) };
    let Some(Vectors { folder, vectors, questions, blocks }) = vectors(is_quick)? else { return Ok(()) };
    let blocks_of_words = data.blocks()?;
    let wrk = load::prepare(&vectors, &questions, &folder)?;
    let builds = [Build::new("before", other)?, Build::new("now", dpr())?];
    let mut rows = [
        Row::new("encode, passages/s", false),
        Row::new("index, s", true),
        Row::new("dense search, questions/s", false),
        Row::new("sparse index, s", true),
        Row::new("BM25, questions/s", false),
        Row::new("load, 1 connection, answers/s", false),
        Row::new("load, 16 connections, answers/s", false),
        Row::new("load, 64 connections, answers/s", false),
        Row::new("load, 16 connections, p99 in ms", true),
    ];
    for round in 1..=rounds {
        for (at, build) in builds.iter().enumerate() {
            let (graph, words) = (build.path("graph"), build.path("words"));
            let made = build.seconds(&["index", "--vectors", &vectors, "--kind", "hnsw"], &graph)?;
            let sparse = ["index", "--passages", &blocks_of_words, "--sparse", "english"];
            let sparse = build.seconds(&sparse, &words)?;
            let server = Server::start_program(
                &build.program,
                &["--model", &build.path("model"), "--index", &graph],
                &[],
            )?;
            load::load(&wrk, &server, &folder, "16", "2")?;
            let mut answers = [0.0; CONNECTIONS.len()];
            let (mut late, mut refused) = (f64::NAN, 0.0);
            for (connections, answers) in CONNECTIONS.into_iter().zip(&mut answers) {
                let said = load::load(&wrk, &server, &folder, connections, "10")?;
                let (requests, refusals) = (number(&said, "requests")?, number(&said, "refused")?);
                *answers = (requests - refusals) / number(&said, "seconds")?;
                refused = refusals / requests.max(1.0);
                if connections == "16" && refused <= load::REFUSALS {
                    late = number(&said, "p99")?;
                }
            }
            drop(server);
            let encoded = build.encode()?;
            let (dense, of_dense) = build.rank(&graph, "dense", &questions)?;
            let (bm25, of_bm25) = build.rank(&words, "bm25", &questions)?;
            let [single, some, many] = answers;
            let values = [encoded, made, dense, sparse, bm25, single, some, many, late];
            // The load is on the graph of the dense search.
            let dense = of_dense.as_str();
            let of_many = format!("{dense}, {:.0} % of all requests refused", refused * 100.0);
            let qualities = ["", "", dense, "", of_bm25.as_str(), dense, dense, &of_many, dense];
            for (row, (value, quality)) in rows.iter_mut().zip(values.into_iter().zip(qualities)) {
                row.values[at].push(value);
                row.quality[at] = quality.to_owned();
            }
            println!("bench: round {round} of {rounds}, {}: {values:.1?}", ["before", "now"][at]);
        }
    }
    println!(
        "\n2,067 paragraphs encoded; {blocks} vectors in a graph, 2,000 questions of NQ dev; all Wikipedia blocks by words; \
         load by wrk on the same processors; medians of {rounds} turns"
    );
    println!("{:<34} {:>10} {:>10} {:>8}  with", "", "before", "now", "better");
    rows.iter().for_each(|row| println!("{}", row.line()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_stands_beside_the_quality_of_both_builds() {
        let said = serde_json::json!({
            "methods": [{ "top_k": [{ "k": 1, "accuracy": 0.5 }, { "k": 20, "accuracy": 0.953 }] }],
            "recall_against_exact": { "k": 20, "mean": 0.9912 },
        });
        assert_eq!(quality(&said), "recall@20 0.9912, top-20 95.30 %");
        assert_eq!(quality(&serde_json::json!({})), "");
        let mut row = Row::new("dense search, questions/s", false);
        row.values = [vec![100.0], vec![200.0]];
        row.quality = ["recall@20 0.9912".to_owned(), "recall@20 0.9700".to_owned()];
        let line = row.line();
        assert!(line.ends_with("2.00  before recall@20 0.9912; now recall@20 0.9700"), "{line}");
        row.quality[0] = row.quality[1].clone();
        let line = row.line();
        assert!(line.ends_with("2.00  recall@20 0.9700"), "{line}");
    }
}
