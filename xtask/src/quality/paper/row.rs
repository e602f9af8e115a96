//! A row of a table: one training run, by what its configuration says.

use super::super::files::read;
use super::super::seeds::SEEDS;
use crate::failure::Outcome;
use crate::json::{json, number};

/// Name of the row of the model that training starts from.
pub(super) const UNTRAINED: &str = "no training";

/// Steps of a row's run, whatever the batch, unless a table says otherwise.
pub(super) const STEPS: usize = 60;
/// Questions of a batch, unless a row says otherwise.
const BATCH: usize = 32;

/// One row of a table, which is one training run.
pub(super) struct Row {
    /// Its name in the table.
    pub(super) name: String,
    /// The name of its run; rows of two tables may have one run in common.
    pub(super) run: String,
    /// Model directory that training starts from.
    pub(super) start: String,
    /// Training files.
    pub(super) data: Vec<String>,
    pub(super) batch: usize,
    /// Steps of the optimiser; 0 for one epoch.
    pub(super) steps: usize,
    /// Seed of its negatives, batches and dropout.
    pub(super) seed: &'static str,
    /// Sections `[data]` and `[objective]` of the configuration.
    pub(super) settings: String,
    /// The paper's figures for this row, from its lowest rank on.
    pub(super) paper: &'static str,
}

impl Row {
    /// The row of the model that training starts from.
    pub(super) fn untrained(start: &str) -> Self {
        Row {
            name: UNTRAINED.to_owned(),
            run: String::new(),
            start: start.to_owned(),
            data: Vec::new(),
            batch: BATCH,
            steps: STEPS,
            seed: SEEDS[0],
            settings: String::new(),
            paper: "",
        }
    }

    /// A row that is trained from `start` on the questions of `data`.
    pub(super) fn trained(
        start: &str,
        name: String,
        run: String,
        data: Vec<String>,
        settings: String,
    ) -> Self {
        Self { name, run, data, settings, ..Self::untrained(start) }
    }

    /// Returns the same row once for each seed, each with a run of its own.
    pub(super) fn of_seeds(self) -> Vec<Self> {
        let of_seed = |seed: &&'static str| {
            let run = if *seed == SEEDS[0] { self.run.clone() } else { format!("{}-seed-{seed}", self.run) };
            let (name, start, data) = (self.name.clone(), self.start.clone(), self.data.clone());
            Self { name, run, start, data, seed, settings: self.settings.clone(), ..self }
        };
        SEEDS.iter().map(of_seed).collect()
    }

    /// Returns the configuration of the row's run: what all rows have in common, and its own.
    pub(super) fn config(&self, common: &str) -> String {
        // Steps end a run before so many epochs do.
        let epochs = if self.steps == 0 { 1 } else { 1000 };
        let warm_up = if self.steps == 0 { 50 } else { self.steps / 10 };
        let run = format!("batch_size = {}\nmax_steps = {}\nepochs = {epochs}", self.batch, self.steps);
        let files = self.data.iter().map(|path| format!("[[data.train]]\npath = {path:?}\n"));
        let common = common.replace("[run]\n", &format!("[run]\n{run}\n"));
        let common = common.replace("[optimiser]\n", &format!("[optimiser]\nwarm_up = {warm_up}\n"));
        format!("{common}\n{}\n{}", self.settings, files.collect::<String>())
    }

    /// Returns the name that the row's vectors and results have in their paths.
    pub(super) fn key(&self) -> String {
        if self.run.is_empty() { key_of(&self.start) } else { self.run.clone() }
    }
}

/// Returns the sections of a configuration that differ from row to row. The dev files are none: nothing is chosen.
pub(super) fn settings(
    kind: &str,
    count: usize,
    in_batch: bool,
    similarity: &str,
    loss: &str,
    temperature: &str,
) -> String {
    format!(
        "[objective]\nsimilarity = \"{similarity}\"\nloss = \"{loss}\"\ntemperature = {temperature}\n\n\
         [data]\nnegatives = \"{kind}\"\nnegatives_per_question = {}\nin_batch = {in_batch}\n",
        count.max(1)
    )
}

pub(super) fn run_of(kind: &str, count: usize, in_batch: bool, batch: usize) -> String {
    let scope = if in_batch { "in-batch" } else { "alone" };
    format!("{kind}-{count}-{scope}-{batch}")
}

/// Returns a name without what a path may not hold.
pub(super) fn key_of(name: &str) -> String {
    let key = |sign: char| if sign.is_ascii_alphanumeric() { sign.to_ascii_lowercase() } else { '-' };
    name.rsplit_once("paper/").map_or(name, |(_, end)| end).chars().map(key).collect()
}

/// Returns the seconds that the steps of a run took, by its `metrics.jsonl`.
pub(super) fn seconds(run: &str, batch: usize) -> Outcome<f64> {
    let path = format!("{run}/metrics.jsonl");
    let text = read(&path)?;
    let mut seconds = 0.0;
    for line in text.lines() {
        let metric = json(line, &path)?;
        if metric["kind"] == "step" {
            seconds += batch as f64 / number(&metric, "questions_per_second")?;
        }
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_its_run_is_called_and_what_it_sees() {
        assert_eq!(run_of("hard", 1, true, 32), "hard-1-in-batch-32");
        assert_eq!(Row::untrained("target/quality/paper/ict/best").key(), "ict-best");
        assert_eq!(key_of("SQuAD style"), "squad-style");
        let row = Row {
            batch: 8,
            settings: settings("gold", 0, true, "l2", "triplet", "1.0"),
            ..Row::untrained("")
        };
        let text = row.config("[optimiser]\nlearning_rate = 2e-5\n\n[run]\ncheckpoint_every = 50\n");
        assert!(
            text.contains("warm_up = 6\n") && text.contains("batch_size = 8\nmax_steps = 60\n"),
            "{text}"
        );
        assert!(
            text.contains("similarity = \"l2\"") && text.contains("negatives_per_question = 1\n"),
            "{text}"
        );
        let row = Row { run: "set-nq".to_owned(), ..row };
        let runs: Vec<_> = row.of_seeds().iter().map(|row| (row.key(), row.seed)).collect();
        let expected = [("set-nq", "12345"), ("set-nq-seed-1", "1"), ("set-nq-seed-2", "2")];
        assert_eq!(runs, expected.map(|(run, seed)| (run.to_owned(), seed)));
    }
}
