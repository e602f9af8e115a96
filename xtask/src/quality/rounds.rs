//! Rounds of training on mined negatives: each round's model beside the starter, on SQuAD dev and on questions whose
//! passages no round trained on.

use std::path::Path;

use super::seeds::SEEDS;
use super::{BLOCKS, STARTER, TUNED_ON, Work, eval, train_or_go_on};
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, SQUAD, venv_python};
use crate::process::{self, command};

const ROUNDS: &str = "2";
const CONFIG: &str = "configs/rounds-cpu.toml";

/// Settings of the cross-encoder that teaches the second round.
const TEACHER: &str = "configs/rounds-teacher-cpu.toml";

/// Questions that the cross-encoder is tested on: it reads 20 passages of each.
const READ: &str = "500";

/// Blocks of Wikipedia among the paragraphs that negatives are mined from; none of them is among those that are tested.
const MINED_BLOCKS: usize = 10_000;

impl Work<'_> {
    /// Trains on new-wiki and amazon with negatives that the model before ranks high, and tests on SQuAD dev, NQ test and
    /// WebQuestions dev.
    pub(super) fn rounds(&self) -> Outcome {
        let models = self.train_rounds()?;
        self.rank_on_squad(&models)?;
        let drawn = self.path("drawn.tsv");
        if !Path::new(&drawn).exists() {
            self.data.drawn_blocks(0..BLOCKS, &drawn)?;
        }
        self.not_trained_on(&models, &drawn)
    }

    /// Trains the second round again, from the first round's model and on the same negatives, with a cross-encoder as its
    /// teacher, which learned from the negatives of the first round.
    pub(super) fn taught_round(&self) -> Outcome {
        let mut models = self.train_rounds()?;
        let [run, dev, reranker, taught] =
            ["rounds", "dev.json.gz", "reranker", "round-2-taught"].map(|name| self.path(name));
        let [first, second] = ["1", "2"].map(|round| format!("{run}/{round}/train.json.gz"));
        let data = ["--dev", &dev, "--seed", SEEDS[0], "--data"];
        let train = ["train", "--config", TEACHER, "--model", DEMO_MODEL];
        train_or_go_on(&reranker, TEACHER, &[&train[..], &data, &[&first]].concat())?;
        let (start, teacher) = (format!("{run}/1/run/best"), format!("{reranker}/best"));
        let train = ["train", "--config", CONFIG, "--model", &start, "--teacher", &teacher];
        train_or_go_on(&taught, CONFIG, &[&train[..], &data, &[&second]].concat())?;
        models.push(("round-2-taught".to_owned(), format!("{taught}/best")));
        self.rank_on_squad(&models)?;

        println!("\nthe teacher, which re-ranks the first 20 passages of the first round's model:");
        let read = ["--questions", SQUAD, "--skip", TUNED_ON, "--limit", READ];
        let rerank = ["--rerank", &teacher, "--depth", "20"];
        eval(&start, &self.path("index-round-1"), "dense", &[&read[..], &rerank].concat())
    }

    /// Ranks SQuAD dev with each model.
    fn rank_on_squad(&self, models: &[(String, String)]) -> Outcome {
        let corpus = self.path("corpus.tsv");
        self.data.mix(SQUAD, 0..BLOCKS, &corpus)?;
        println!("\nSQuAD dev; the weights of hybrid are tuned on its first {TUNED_ON} questions");
        let tuned_on = ["--questions", SQUAD, "--limit", TUNED_ON];
        let options = ["--questions", SQUAD, "--skip", TUNED_ON];
        self.rank(models, &corpus, "english", &tuned_on, &options, Some(SQUAD))
    }

    /// Trains all rounds, or goes on with them. Returns names and models, the starter first.
    fn train_rounds(&self) -> Outcome<Vec<(String, String)>> {
        let mined = self.mine_of_squad_sets("gold")?;
        self.hold_out(&mined, &[])?;
        let [asked, passages, all, dev, run] =
            ["asked.json", "mined-from.tsv", "all.json.gz", "dev.json.gz", "rounds"]
                .map(|name| self.path(name));
        if !Path::new(&asked).exists() {
            let mut python =
                command(venv_python(), &["tests/bench/asked.py", &all, "--out", &asked, "--squad"]);
            process::run(python.args(["new-wiki-v1.0", "amazon-v1.0"].map(|set| self.data.squad(set))))?;
        }
        if !Path::new(&passages).exists() {
            self.data.mix(&asked, BLOCKS..BLOCKS + MINED_BLOCKS, &passages)?;
        }
        let train = ["train", "--rounds", ROUNDS, "--config", CONFIG, "--model", DEMO_MODEL];
        let mine = ["--passages", &passages, "--questions", &asked, "--positives", "gold"];
        let arguments = [&train[..], &mine, &["--dev", &dev, "--seed", SEEDS[0]]].concat();
        train_or_go_on(&run, CONFIG, &arguments)?;
        let of_rounds = (1..).map(|round| (format!("round-{round}"), format!("{run}/{round}/run/best")));
        let of_rounds = of_rounds.take_while(|(_, model)| Path::new(model).exists());
        Ok([(STARTER.to_owned(), DEMO_MODEL.to_owned())].into_iter().chain(of_rounds).collect())
    }

    /// Asks questions of two sets that no round trained on among blocks that none mined from, of the starter and of the
    /// last round.
    fn not_trained_on(&self, models: &[(String, String)], blocks: &str) -> Outcome {
        for (set, file) in [("NQ test", "nq-test.tsv"), ("WebQuestions dev", "wq-dev.json")] {
            println!(
                "\n{set}, among {BLOCKS} blocks drawn at random, the questions that any of them answers:"
            );
            let questions = self.data.questions(file);
            let mut rankings = Vec::new();
            for (name, model) in models.first().into_iter().chain(models.last()) {
                let index = self.index(&format!("{name}-drawn"), model, blocks, &[])?;
                let results = self.path(&format!("results-{name}-on-{file}"));
                println!("\n{name}:");
                let options = ["--questions", &questions, "--answerable", "--out", &results];
                eval(model, &index, "dense", &options)?;
                rankings.push(format!("dense, {name}={results}/dense.json.gz"));
            }
            self.compare(&rankings, None)?;
        }
        Ok(())
    }
}
