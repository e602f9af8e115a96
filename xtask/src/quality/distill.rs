//! Distillation: a small question encoder beside its teacher, over the teacher's passages.

use super::{Work, eval, go_on, once};
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, MPNET, SQUAD};

/// Blocks beside the paragraphs that the large teacher encodes; and blocks of another collection, which its student
/// never saw a sentence of.
const TEACHER_BLOCKS: usize = 4_000;
/// Each draws one sentence of every passage, for the student.
const SENTENCE_SEEDS: [&str; 4] = ["1", "2", "3", "4"];

impl Work<'_> {
    /// A small question encoder beside its teacher, over the teacher's passages: a collection whose sentences it
    /// learned from, and one that it never saw.
    pub(super) fn distill(&self) -> Outcome {
        let teacher = self.path("teacher");
        let import = ["import", "--question", MPNET, "--pooling", "mean", "--normalize", "--out", &teacher];
        once(&teacher, &import)?;
        let corpus = self.path("corpus.tsv");
        self.data.mix(SQUAD, 0..TEACHER_BLOCKS, &corpus)?;
        let index = self.index("teacher", &teacher, &corpus, &[])?;
        let run = self.path("student");
        let questions = ["nq-dev.tsv", "trivia-dev.tsv", "wq-train.json", "trec-train.tsv"]
            .map(|set| self.data.questions(set))
            .into_iter()
            .chain(["new-wiki-v1.0", "amazon-v1.0"].map(|set| self.data.squad(set)));
        let mut arguments: Vec<String> =
            ["distill", "--config", "configs/distill.toml", "--teacher", &teacher, "--model", DEMO_MODEL]
                .map(str::to_owned)
                .into();
        // Sentences of the corpus: what is asked later is about the same things.
        let sentences = SENTENCE_SEEDS.map(|seed| self.sentences(&corpus, seed));
        for file in questions.map(Ok).chain(sentences) {
            let file = file?;
            arguments.extend(["--questions".to_owned(), file]);
        }
        // The best student is chosen by other questions than the tables report.
        let (dev, vectors) = (self.data.questions("wq-dev.json"), self.path("vectors-teacher"));
        let more = ["--dev", &dev, "--vectors", &vectors, "--learning-rate", "3e-4"];
        arguments.extend(more.map(str::to_owned));
        go_on(&run, &arguments.iter().map(String::as_str).collect::<Vec<_>>())?;
        let student = format!("{run}/best");
        let mut rankings = Vec::new();
        for (name, model) in [("teacher", &teacher), ("student", &student)] {
            let results = self.path(&format!("results-{name}"));
            println!("\n{name}'s questions, the teacher's passages:");
            eval(model, &index, "dense", &["--questions", SQUAD, "--out", &results])?;
            rankings.push(format!("{name}={results}/dense.json.gz"));
        }
        let student_index = self.index("start", DEMO_MODEL, &corpus, &[])?;
        println!("\nthe student's start, with passages of its own:");
        eval(DEMO_MODEL, &student_index, "dense", &["--questions", SQUAD])?;
        self.compare(&rankings, Some(SQUAD))?;
        self.unseen(&teacher, &student)
    }

    /// Teacher and student on blocks that the student learned no sentence of, with questions that neither training nor
    /// the choice of the student saw.
    fn unseen(&self, teacher: &str, student: &str) -> Outcome {
        let (unseen, test) = (self.path("unseen.tsv"), self.data.questions("nq-test.tsv"));
        self.data.drawn_blocks(TEACHER_BLOCKS..2 * TEACHER_BLOCKS, &unseen)?;
        let index = self.index("unseen", teacher, &unseen, &[])?;
        for (name, model) in [("teacher", teacher), ("student", student)] {
            println!("\n{name}'s questions of NQ test, blocks that the student never saw:");
            eval(model, &index, "dense", &["--questions", &test, "--answerable"])?;
        }
        Ok(())
    }

    /// Draws one sentence of each passage by the seed, to learn from as from a question; the file.
    pub(super) fn sentences(&self, passages: &str, seed: &str) -> Outcome<String> {
        let out = self.path(&format!("sentences-{seed}.json.gz"));
        once(&out, &["data", "ict", "--passages", passages, "--seed", seed, "--out", &out])?;
        Ok(out)
    }
}
