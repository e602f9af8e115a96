//! A question encoder of 8 MB: the starter's with fewer layers, units and tokens, distilled from it, beside it.

use std::path::Path;

use super::files::{clear, measured, note, read, write};
use super::{Work, eval, go_on, once};
use crate::bench::{Vectors, vectors};
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, SQUAD, dpr, venv_python};
use crate::process::{self, command};

/// Layers of the student, of the starter's six, the units of its feed-forward layers, of 1,536, and its tokens, of
/// 30,522.
const LAYERS: &str = "4";
const UNITS: &str = "768";
const TOKENS: &str = "26000";
/// The run of the first step, in which no weight is rounded.
const UNROUNDED: &str = "unrounded";
/// Tokens of a question.
const QUESTION_TOKENS: &str = "64";
/// Training question sets, without their answers. No test question is among them.
const QUESTIONS: [&str; 4] = ["nq-dev.tsv", "trivia-dev.tsv", "wq-train.json", "trec-train.tsv"];
/// Blocks from which rules make training questions. One sentence of every training block is a training text too.
const MADE_OF: &str = "20000";
/// Blocks of the test corpus, none of which is a training block.
const UNSEEN: usize = 20_000;

impl Work<'_> {
    /// The student beside its teacher on two corpora that it was not trained on: SQuAD dev's paragraphs, and blocks of
    /// Wikipedia with the questions of NQ test.
    pub(super) fn small(&self) -> Outcome {
        let Some(Vectors { folder, vectors, blocks, .. }) = vectors(false)? else { return Ok(()) };
        let student = self.small_student(&format!("{folder}/corpus.tsv"), &vectors)?;

        let unseen = self.path("unseen.tsv");
        self.data.drawn_blocks(blocks..blocks + UNSEEN, &unseen)?;
        let nq_test = self.data.questions("nq-test.tsv");
        let (squad, unseen) =
            (self.index("squad", DEMO_MODEL, SQUAD, &[])?, self.index("unseen", DEMO_MODEL, &unseen, &[])?);
        let asked = [
            ("SQuAD dev, its paragraphs", "squad", squad, &["--questions", SQUAD][..]),
            ("NQ test, unseen blocks", "unseen", unseen, &["--questions", &nq_test, "--answerable"]),
        ];
        let mut table = vec![
            "| | top-1 | top-5 | top-20 | top-100 | of the teacher's, top-1 and top-20 |".to_owned(),
            "|---|---|---|---|---|---|".to_owned(),
        ];
        for (title, name, index, questions) in &asked {
            let mut tops: Vec<Vec<f64>> = Vec::new();
            for (who, model) in [("teacher", DEMO_MODEL), ("student", &student)] {
                let results = self.path(&format!("results-{name}-{who}"));
                eval(model, index, "dense", &[questions, &["--out", &results][..]].concat())?;
                let top = measured(&results)?.into_iter().find(|(method, _)| method == "dense");
                let top: Vec<f64> =
                    top.into_iter().flat_map(|(_, top)| top).map(|(_, share)| share).collect();
                let share =
                    |place: usize| 100.0 * top[place] / tops.first().map_or(top[place], |best| best[place]);
                let cells: Vec<String> = top.iter().map(|share| format!("{:.1}", share * 100.0)).collect();
                table.push(format!(
                    "| {title}: {who} | {} | {:.1} %, {:.1} % |",
                    cells.join(" | "),
                    share(0),
                    share(2)
                ));
                tops.push(top);
            }
        }
        println!();
        table.iter().for_each(|line| println!("{line}"));
        println!(
            "\nthe page's files of the student, without its last step and with it, and what they find among SQuAD \
             dev's paragraphs:"
        );
        for (model, dtypes) in [(&self.path(&format!("{UNROUNDED}/best")), "q4"), (&student, "q8,q4")] {
            process::run(&mut command(dpr(), &["export-web", "--model", model, "--dtype", dtypes]))?;
            let weights =
                ["tests/bench/web_weights.py", "--model", model, "--vectors", "data/vectors", "--squad"];
            process::run(command(venv_python(), &weights).arg(SQUAD))?;
        }
        // What a server offers to pages: `cargo xtask demo --with-small` takes the directory.
        process::run(&mut command(dpr(), &["export-web", "--model", &student, "--dtype", "q4"]))
    }

    /// Trains the student, or goes on with it; its model directory. It learns from published questions, and from
    /// sentences and made questions of the blocks in `corpus`, which the teacher gave `vectors`: first with weights as
    /// they are, then rounded to 4 bits in every step, each time from other sentences of the same blocks.
    fn small_student(&self, corpus: &str, vectors: &str) -> Outcome<String> {
        let mut texts: Vec<String> = QUESTIONS.map(|set| self.data.questions(set)).into();
        texts.extend(["new-wiki-v1.0", "amazon-v1.0"].map(|set| self.data.squad(set)));
        let start = self.path(&format!("start-{LAYERS}-{UNITS}-{TOKENS}"));
        let mut shrink = vec!["shrink", "--model", DEMO_MODEL, "--layers", LAYERS, "--units", UNITS];
        shrink.extend(["--max-tokens", QUESTION_TOKENS, "--keep-tokens", corpus, "--most-tokens", TOKENS]);
        shrink.extend(["--out", &start]);
        texts.iter().for_each(|file| shrink.extend(["--keep-tokens", file]));
        once(&start, &shrink)?;
        let made = self.path("made.json.gz");
        once(&made, &["data", "questions", "--passages", corpus, "--limit", MADE_OF, "--out", &made])?;
        let sentences = |seed| self.sentences(corpus, seed);
        let of = |more: [String; 2]| [&texts[..], &more].concat();
        let [first, last] = ["configs/distill-small.toml", "configs/distill-q4.toml"]
            .map(|config| ["--config", config, "--vectors", vectors]);
        let unrounded = self.taught(UNROUNDED, &start, &first, &of([sentences("1")?, made.clone()]))?;
        self.taught("rounded", &unrounded, &last, &of([made, sentences("2")?]))
    }

    /// Distils the starter into `start` as the run `name`, or goes on with it; the best model. `settings` begin with the
    /// configuration's file.
    fn taught(&self, name: &str, start: &str, settings: &[&str], texts: &[String]) -> Outcome<String> {
        let (run, dev) = (self.path(name), self.data.questions("wq-dev.json"));
        let mut distill = vec!["distill", "--teacher", DEMO_MODEL, "--model", start, "--dev", &dev];
        distill.extend(["--precision", "bf16"]);
        distill.extend(settings);
        texts.iter().for_each(|file| distill.extend(["--questions", file]));
        let text = read(settings[1])?;
        let [settings, done] = ["settings", "done"].map(|what| self.path(&format!("{name}.{what}")));
        // The manifest has the fingerprint of what the run before this one made.
        let asked = format!("{}\n{text}{}", distill.join(" "), read(&format!("{start}/model.json"))?);
        note(&settings, &asked, || {
            clear(&run)?;
            clear(&done)
        })?;
        // Resuming encodes all training texts with the teacher again, even in a finished run.
        if !Path::new(&done).exists() {
            go_on(&run, &distill)?;
            write(&done, "")?;
        }
        Ok(format!("{run}/best"))
    }
}
