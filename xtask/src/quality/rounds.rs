//! Rounds of training on mined negatives: each round's model beside the starter, on SQuAD dev and on questions whose
//! passages no round trained on.

use std::path::Path;

use super::files::{clear, note, read};
use super::seeds::SEEDS;
use super::{BLOCKS, STARTER, TUNED_ON, Work, eval, go_on};
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, SQUAD, venv_python};
use crate::process::{self, command};

const ROUNDS: &str = "2";
const CONFIG: &str = "configs/rounds-cpu.toml";

/// Blocks of Wikipedia among the paragraphs that negatives are mined from; none of them is among those that are tested.
const MINED_BLOCKS: usize = 10_000;

impl Work<'_> {
    /// Trains on new-wiki and amazon with negatives that the model before ranks high, and tests on SQuAD dev, NQ test and
    /// WebQuestions dev.
    pub(super) fn rounds(&self) -> Outcome {
        let mined = self.mine_of_squad_sets("gold")?;
        self.hold_out(&mined, &[])?;
        let models = self.train_rounds()?;

        let corpus = self.path("corpus.tsv");
        self.data.mix(SQUAD, 0..BLOCKS, &corpus)?;
        println!("\nSQuAD dev; the weights of hybrid are tuned on its first {TUNED_ON} questions");
        let tuned_on = ["--questions", SQUAD, "--limit", TUNED_ON];
        let options = ["--questions", SQUAD, "--skip", TUNED_ON];
        self.rank(&models, &corpus, "english", &tuned_on, &options, Some(SQUAD))?;

        let drawn = self.path("drawn.tsv");
        if !Path::new(&drawn).exists() {
            self.data.drawn_blocks(0..BLOCKS, &drawn)?;
        }
        self.not_trained_on(&models, &drawn)
    }

    /// Trains all rounds, or goes on with them. Returns names and models, the starter first.
    fn train_rounds(&self) -> Outcome<Vec<(String, String)>> {
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
        let model = read(&format!("{DEMO_MODEL}/model.json"))?;
        note(
            &format!("{run}.settings"),
            &format!("{}\n{}{model}", arguments.join(" "), read(CONFIG)?),
            || clear(&run),
        )?;
        go_on(&run, &arguments)?;
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
