//! Answers: a reader trained on the gold paragraphs of two other sets, measured on SQuAD dev with the gold paragraph
//! and end to end, by the number of passages that are read.

use super::{BLOCKS, TUNED_ON, Work, eval, go_on, once};
use crate::failure::Outcome;
use crate::npm;
use crate::paths::{DEMO_MODEL, SQUAD, absolute, dpr};
use crate::process::{self, command};
use crate::setup::browsers;

/// BM25 negatives of each question, of which an epoch draws.
const NEGATIVES: &str = "30";
/// Tokens that are read of a question and a passage: more than are trained with, since paragraphs are longer than
/// blocks.
const TOKENS: &str = "384";
/// Questions that are answered end to end, and the passages that are read of each, by three methods.
const ASKED: &str = "300";
const DEPTHS: &str = "1,5,10,20,50";
/// Questions that the page answers too.
const IN_PAGE: &str = "100";
/// Arguments that differ from `configs/reader-cpu.toml`, for a training of an hour and a half on two cores: a negative a
/// question, products in bf16, and every question about twice.
const TRAINING: [&str; 12] = [
    "--negatives",
    "1",
    "--precision",
    "bf16",
    "--learning-rate",
    "1e-4",
    "--warm-up",
    "100",
    "--epochs",
    "2",
    "--max-steps",
    "2000",
];

impl Work<'_> {
    /// Trained on new-wiki and amazon, tested on SQuAD dev.
    pub(super) fn reader(&self) -> Outcome {
        let sets = ["new-wiki-v1.0", "amazon-v1.0"];
        for set in sets {
            let (squad, words) = (self.data.squad(set), self.path(&format!("{set}.words")));
            once(&words, &["index", "--passages", &squad, "--sparse", "english", "--out", &words])?;
            let mined = self.path(&format!("{set}.json.gz"));
            let mine = ["data", "mine", "--index", &words, "--questions", &squad, "--positives", "gold"];
            once(&mined, &[&mine[..], &["--hard-negatives", NEGATIVES, "--out", &mined]].concat())?;
        }
        self.hold_out(&sets.map(|set| format!("{set}.json.gz")), &[])?;
        let (all, dev, run) = (self.path("all.json.gz"), self.path("dev.json.gz"), self.path("trained"));
        let train = ["train", "--config", "configs/reader-cpu.toml", "--model", DEMO_MODEL];
        go_on(&run, &[&train[..], &["--data", &all, "--dev", &dev], &TRAINING].concat())?;
        let (trained, reader) = (format!("{run}/best/reader"), self.path("reader"));
        once(&reader, &["import", "--reader", &trained, "--max-tokens", TOKENS, "--out", &reader])?;

        println!("\nSQuAD dev, with the gold paragraph:");
        process::run(&mut command(dpr(), &["eval", "answers", "--reader", &reader, "--questions", SQUAD]))?;
        self.end_to_end(&reader)?;
        in_the_page(&reader)
    }

    /// Answers questions of SQuAD dev among its paragraphs and blocks of Wikipedia.
    fn end_to_end(&self, reader: &str) -> Outcome {
        let corpus = self.path("corpus.tsv");
        self.data.mix(SQUAD, 0..BLOCKS, &corpus)?;
        let index = self.index("starter", DEMO_MODEL, &corpus, &["--sparse", "english"])?;
        let lambda = self.tune(DEMO_MODEL, &index, &["--questions", SQUAD, "--limit", TUNED_ON])?;
        let results = self.path("results");
        let options = ["--questions", SQUAD, "--skip", TUNED_ON, "--limit", ASKED, "--by", "answer"];
        println!(
            "\n{ASKED} questions of SQuAD dev among its paragraphs and {BLOCKS} blocks; hybrid with the weight {lambda}"
        );
        let more = ["--lambda", &lambda, "--out", &results];
        eval(DEMO_MODEL, &index, "bm25,dense,hybrid", &[&options[..], &more].concat())?;
        let plot = self.path("answers.svg");
        let mut answers =
            command(dpr(), &["eval", "answers", "--reader", reader, "--depth", DEPTHS, "--plot", &plot]);
        for (name, method) in [("BM25", "bm25"), ("dense", "dense"), ("BM25 + dense", "hybrid")] {
            answers.args(["--results", &format!("{name}={results}/{method}.json.gz")]);
        }
        println!();
        process::run(&mut answers)
    }
}

/// Compares the page's answers, in f32 and in 8 bits, with those of `dpr answer`.
fn in_the_page(reader: &str) -> Outcome {
    println!("\n{IN_PAGE} questions of SQuAD dev, answered in Chromium and by dpr:");
    npm::build()?;
    let mut tests = command("npm", &["test", "--", "answers.spec.ts", "--grep", "exported by dpr"]);
    tests.current_dir("tests/browser").env("DPR_BIN", absolute(dpr())).envs(browsers::variables());
    process::run(tests.env("DPR_TRAINED_READER", absolute(reader)).env("DPR_ANSWERS", IN_PAGE))
}
