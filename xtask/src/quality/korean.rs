//! Korean from a model that never saw it: KorQuAD split by article, a vocabulary of Korean and English under the
//! starter's layers, training on one half, and BM25, dense and hybrid ranking on the other. `docs/korean.md` walks
//! through it.

use std::path::Path;

use super::{Work, go_on, once};
use crate::failure::Outcome;
use crate::paths::{MINILM, SQUAD, venv_python};
use crate::process::{self, command};

/// Pieces of the vocabulary.
const PIECES: &str = "20000";
/// Most BM25 negatives kept of each question: the first are of its own article, where BM25 goes wrong.
const NEGATIVES: &str = "8";
/// Each draws one sentence of every paragraph, to learn from before the questions.
const SENTENCE_SEEDS: [&str; 8] = ["1", "2", "3", "4", "5", "6", "7", "8"];

impl Work<'_> {
    /// Trained on one half of KorQuAD dev's articles, tested on the other.
    pub(super) fn korean(&self) -> Outcome {
        let Some(korquad) = self.data.korquad() else { return Ok(()) };
        let split = self.path("split");
        python(&["tests/bench/split_articles.py", &korquad, "--out", &split])?;
        let [train, dev, test] = ["train", "dev", "test"].map(|part| format!("{split}/{part}.json"));

        let huggingface = self.path("starter");
        let vocabulary = ["--text", &train, "--text", SQUAD, "--size", PIECES, "--out", &huggingface];
        let vocabulary = [&["tests/bench/make_vocabulary.py", "--model", MINILM], &vocabulary[..]].concat();
        let start = self.path("model");
        if !Path::new(&start).exists() {
            python(&vocabulary)?;
            once(&start, &["import", "--question", &huggingface, "--out", &start])?;
        }

        let cloze = self.path("cloze");
        let mut learn = vec!["train", "--config", "configs/korean-cloze.toml", "--model", &start];
        let sentences = self.cloze(&train)?;
        sentences.iter().for_each(|file| learn.extend(["--data", file]));
        go_on(&cloze, &learn)?;

        let mut mined = Vec::new();
        let nearest = ["--hard-negatives", NEGATIVES];
        for (part, file, more) in [("train", &train, &nearest[..]), ("dev", &dev, &[])] {
            let (words, out) = (self.path(&format!("words-{part}")), self.path(&format!("{part}.json.gz")));
            once(&words, &["index", "--passages", file, "--sparse", "bigram", "--out", &words])?;
            let mine = ["data", "mine", "--index", &words, "--questions", file, "--positives", "gold"];
            once(&out, &[&mine[..], more, &["--out", &out]].concat())?;
            mined.push(out);
        }
        let run = self.path("trained");
        let [cloze, trained] = [cloze, run.clone()].map(|run| format!("{run}/best"));
        let learn = ["train", "--config", "configs/korean-cpu.toml", "--model", &cloze];
        go_on(&run, &[&learn[..], &["--data", &mined[0], "--dev", &mined[1]]].concat())?;

        let models = [("start", start), ("cloze", cloze), ("trained", trained)];
        println!("\nquestions of the test articles, among the paragraphs of all articles");
        let models = models.map(|(name, model)| (name.to_owned(), model));
        self.rank(&models, &korquad, "bigram", &["--questions", &dev], &["--questions", &test], Some(&test))
    }

    /// Files of sentences of the training half, one of every paragraph in each.
    fn cloze(&self, train: &str) -> Outcome<Vec<String>> {
        let file = |seed: &str| -> Outcome<String> {
            let out = self.path(&format!("sentences-{seed}.json.gz"));
            let ict = ["data", "ict", "--passages", train, "--keep", "0.3", "--seed", seed, "--out", &out];
            once(&out, &ict)?;
            Ok(out)
        };
        SENTENCE_SEEDS.iter().map(|seed| file(seed)).collect()
    }
}

fn python(arguments: &[&str]) -> Outcome {
    process::run(&mut command(venv_python(), arguments))
}
