//! `cargo xtask bench --against DPR`: this `dpr` beside another build of it, on the same work, in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::index::{Vectors, vectors};
use super::report::median;
use super::{FOLDER, json, load, number};
use crate::failure::{Failure, Outcome};
use crate::paths::{MINILM, SQUAD, absolute, dpr};
use crate::process::{command, output};
use crate::server::Server;
use crate::wikipedia::Wikipedia;

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

    /// Returns the questions a second that a method ranks, encoding not counted.
    fn rank(&self, index: &str, method: &str, questions: &str) -> Outcome<f64> {
        let model = self.path("model");
        let eval =
            ["eval", "retrieval", "--index", index, "--questions", questions, "--limit", "2000", "--json"];
        let more = ["--methods", method, "--model", &model];
        let said = self.run(&[&eval[..], &more[..if method == "bm25" { 2 } else { 4 }]].concat())?;
        number(&json(&said, "dpr eval retrieval")?["methods"][0], "questions_per_second")
    }
}

/// A measure: its name, whether less is better, and the values of both builds.
type Row = (&'static str, bool, [Vec<f64>; 2]);

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
    let mut rows: Vec<Row> = vec![
        ("encode, passages/s", false, Default::default()),
        ("index, s", true, Default::default()),
        ("dense search, questions/s", false, Default::default()),
        ("sparse index, s", true, Default::default()),
        ("BM25, questions/s", false, Default::default()),
        ("load, 16 connections, answers/s", false, Default::default()),
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
            let said = load::load(&wrk, &server, &folder, "16", "10")?;
            let answers =
                (number(&said, "requests")? - number(&said, "refused")?) / number(&said, "seconds")?;
            drop(server);
            let values = [
                build.encode()?,
                made,
                build.rank(&graph, "dense", &questions)?,
                sparse,
                build.rank(&words, "bm25", &questions)?,
                answers,
            ];
            rows.iter_mut().zip(values).for_each(|(row, value)| row.2[at].push(value));
            println!("bench: round {round} of {rounds}, {}: {values:.1?}", ["before", "now"][at]);
        }
    }
    println!(
        "\n2,067 paragraphs encoded; {blocks} vectors in a graph, 2,000 questions of NQ dev; all Wikipedia blocks by words; \
         medians of {rounds} turns"
    );
    println!("{:<34} {:>10} {:>10} {:>8}", "", "before", "now", "better");
    for (name, is_less, [before, now]) in &rows {
        let [before, now] = [before, now].map(|values| median(values).unwrap_or(f64::NAN));
        let ratio = if *is_less { before / now } else { now / before };
        println!("{name:<34} {before:>10.1} {now:>10.1} {ratio:>8.2}");
    }
    Ok(())
}
