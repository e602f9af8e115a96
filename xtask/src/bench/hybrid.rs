//! Words, vectors and both: the questions of SQuAD dev over its paragraphs among blocks of Wikipedia.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};

use super::wikipedia::Wikipedia;
use super::{FOLDER, json, number};
use crate::demo_data::ENCODING;
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, SQUAD, dpr};
use crate::process::{self, command, output};
use crate::stamp::Stamp;

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
    mix(&data, blocks, &corpus)?;
    encode(&format!("hybrid-{blocks}"), &corpus, &vectors)?;
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
    process::run(&mut command(dpr(), &["eval", "compare", &words, &both]))
}

/// Writes `corpus`: the paragraphs of SQuAD dev, then the first blocks of Wikipedia.
fn mix(data: &Wikipedia, blocks: usize, corpus: &str) -> Outcome {
    let convert = ["data", "convert", "--input", SQUAD, "--out", corpus, "--to", "psgs-tsv", "--lossy"];
    output(&mut command(dpr(), &convert))?;
    let wikipedia = data.blocks()?;
    let append = || -> io::Result<()> {
        let mut text = String::new();
        for line in BufReader::new(File::open(&wikipedia)?).lines().skip(1).take(blocks) {
            text.push_str(&line?);
            text.push('\n');
        }
        io::Write::write_all(&mut File::options().append(true).open(corpus)?, text.as_bytes())
    };
    append().map_err(|error| Failure::new(format!("cannot add {wikipedia} to {corpus}: {error}")))
}

/// Minutes of work, so what an earlier run encoded of the same corpus in the same way is kept.
fn encode(name: &str, corpus: &str, vectors: &str) -> Outcome {
    let arguments = ["encode", "--model", DEMO_MODEL, "--passages", corpus, "--out", vectors];
    let model = format!("{DEMO_MODEL}/model.json");
    let mut inputs = vec![model.as_str(), corpus];
    inputs.extend(ENCODING);
    // Written before the work: `dpr encode` goes on where it was, and is quick where all is done.
    let stamp = Stamp::of(name, &inputs, &[&arguments.join(" ")])?;
    if !stamp.is_fresh(&[]) {
        let _ = fs::remove_dir_all(vectors);
        stamp.write()?;
    }
    process::run(&mut command(dpr(), &arguments))
}
