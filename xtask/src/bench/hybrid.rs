//! Words, vectors and both: the questions of SQuAD dev over its paragraphs among blocks of Wikipedia.

use std::fs;

use super::{FOLDER, json, number};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, SQUAD, dpr};
use crate::process::{self, command, output};
use crate::wikipedia::{Wikipedia, encode};

/// Blocks of Wikipedia among the paragraphs.
const BLOCKS: usize = 20_000;
/// In a quick run.
const QUICK_BLOCKS: usize = 500;
/// Questions of the first 10 of SQuAD dev's 48 articles: the weight is tuned on these and tested on the others.
const TUNED_ON: &str = "2015";

pub(super) fn run(is_quick: bool) -> Outcome {
    let Some(data) = Wikipedia::find() else { return Ok(()) };
    let blocks = if is_quick { QUICK_BLOCKS } else { BLOCKS };
    let folder = format!("{FOLDER}/hybrid-{blocks}");
    fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("cannot make {folder}: {error}")))?;
    let [corpus, vectors, index, results] =
        ["corpus.tsv", "vectors", "index", "results"].map(|name| format!("{folder}/{name}"));
    data.mix(SQUAD, 0..blocks, &corpus)?;
    encode(&format!("hybrid-{blocks}"), DEMO_MODEL, &corpus, &vectors, &[])?;
    output(&mut command(dpr(), &["index", "--vectors", &vectors, "--out", &index, "--sparse", "english"]))?;

    let eval = |task: &str, more: &[&str]| {
        let mut eval = command(dpr(), &["eval", task, "--model", DEMO_MODEL, "--index", &index]);
        eval.args(["--questions", SQUAD]).args(more);
        eval
    };
    let tuned = output(&mut eval("tune-hybrid", &["--limit", TUNED_ON, "--json"]))?;
    let lambda = number(&json(&tuned, "dpr eval tune-hybrid")?, "best_lambda")?.to_string();
    println!("\nthe weight {lambda} is tuned on the first {TUNED_ON} questions; over the others:");
    let all = ["--skip", TUNED_ON, "--methods", "bm25,tfidf,dense,hybrid", "--lambda", &lambda];
    process::run(eval("retrieval", &all).args(["--out", &results]))?;
    println!();
    let [words, both] = ["bm25", "hybrid"].map(|method| format!("{method}={results}/{method}.json.gz"));
    let articles = ["--cluster", "article", "--questions", SQUAD];
    process::run(command(dpr(), &["eval", "compare", &words, &both]).args(articles))
}
