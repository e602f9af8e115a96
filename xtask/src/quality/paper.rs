//! The paper's tables on data at hand: what negatives, positives, losses and numbers of questions make of an encoder
//! (Karpukhin et al. 2020, §5 and appendix). One row is one training run, kept under `target/quality/paper`.

mod precision;
mod row;
mod sets;

use std::fs;
use std::path::Path;

use super::files::{FROM_RANDOM, UNSCALED, cells, measured, note, read, with_lines, write};
use super::{Work, eval, go_on, once};
use crate::failure::{Failure, Outcome};
use crate::paths::{MINILM, SQUAD, dpr, venv_python};
use crate::process::{self, command};
use row::{Row, STEPS, UNTRAINED, key_of, run_of, seconds, settings};

/// Blocks of Wikipedia among the paragraphs of SQuAD dev: fewer than elsewhere, as each row's model encodes them anew.
const BLOCKS: usize = 5_000;
/// Questions of training in each row of tables 3 and 6.
const QUESTIONS: &str = "1000";
/// Numbers of training questions of Figure 1 that are not all.
const SIZES: [&str; 4] = ["250", "1000", "4000", "10000"];
/// The number of training questions of Figure 1 that is all of them.
const ALL: &str = "all";
/// Steps of a run of Figure 1, of 32 questions each: the same questions are seen again where they are few. More
/// questions than these steps take are seen once.
const LEAST_STEPS: usize = 125;

/// A row of Table 3: the kind of negatives, how many, whether the batch's other passages count, the batch, and the
/// paper's top-5, top-20 and top-100.
type Negatives = (&'static str, &'static str, usize, bool, usize, &'static str);

const TABLE_3: [Negatives; 9] = [
    ("random", "random", 7, false, 32, "47.0 64.3 77.8"),
    ("BM25", "hard", 7, false, 32, "50.0 63.3 74.8"),
    ("gold", "gold", 7, false, 32, "42.6 63.1 78.3"),
    ("gold", "gold", 0, true, 8, "51.1 69.1 80.8"),
    ("gold", "gold", 0, true, 32, "52.1 70.8 82.1"),
    ("gold", "gold", 0, true, 128, "55.8 73.0 83.1"),
    ("gold + 1 BM25", "hard", 1, true, 32, "65.0 77.3 84.4"),
    ("gold + 2 BM25", "hard", 2, true, 32, "64.5 76.4 84.0"),
    ("gold + 1 BM25", "hard", 1, true, 128, "65.8 78.0 84.9"),
];

/// A row of Table 6: similarity, loss, temperature, and the paper's top-1, top-5, top-20 and top-100. The paper has no
/// row of the cosine.
const TABLE_6: [(&str, &str, &str, &str); 5] = [
    ("dot", "nll", "1.0", "44.9 66.8 78.1 85.0"),
    ("dot", "triplet", "1.0", "41.6 65.0 77.2 84.5"),
    ("l2", "nll", "1.0", "43.5 64.7 76.1 83.1"),
    ("l2", "triplet", "1.0", "42.2 66.0 78.1 84.9"),
    ("cosine", "nll", "0.05", "-"),
];

/// Returns the numbers of training questions of Figure 1, each a row.
fn sizes() -> impl Iterator<Item = &'static str> {
    SIZES.into_iter().chain([ALL])
}

/// Returns the row of Figure 1 that a flag's value names by its number of training questions.
///
/// # Errors
/// [`Failure`] lists the rows.
pub(super) fn size_named(name: Option<&str>) -> Outcome<&'static str> {
    let name = name.unwrap_or_default();
    sizes().find(|size| *size == name).ok_or_else(|| {
        let fix = format!("name one of {}", sizes().collect::<Vec<_>>().join(", "));
        Failure::new(format!("figure1 has no row of {name:?} questions")).fix(fix)
    })
}

impl Work<'_> {
    /// Negatives: none of the batch's or all of them, random, gold or BM25's, one or two (Table 3).
    pub(super) fn table3(&self) -> Outcome {
        let start = self.start()?;
        let mut rows = vec![Row::untrained(&start)];
        for (name, kind, count, in_batch, batch, paper) in TABLE_3 {
            let settings = settings(kind, count, in_batch, "dot", "nll", "1.0");
            let scope = if in_batch { "and the batch's" } else { "alone" };
            let seen = match (kind, in_batch) {
                ("gold", true) => batch - 1,
                (_, true) => batch * (1 + count) - 1,
                (_, false) => count,
            };
            let name = format!("{name}, {seen} negatives, {scope}");
            let run = run_of(kind, count, in_batch, batch);
            let row = Row::trained(&start, name, run, self.thousand(), settings);
            rows.push(Row { batch, paper, ..row });
        }
        println!(
            "{QUESTIONS} questions, {STEPS} steps; the paper's figures are top-5, top-20 and top-100 on NQ dev"
        );
        self.table("table3", &rows, UNTRAINED)
    }

    /// Gold positives beside positives that BM25 found by the answer (Table 5).
    pub(super) fn table5(&self) -> Outcome {
        let start = self.start()?;
        let distant = self.mine_of_squad_sets("distant")?;
        let [gold, found] = ["same-gold.json.gz", "same-distant.json.gz"].map(|name| self.path(name));
        if !Path::new(&found).exists() {
            let mut python =
                command(venv_python(), &["tests/bench/same_questions.py", &self.path("all.json.gz")]);
            python.args(distant.iter().map(|file| self.path(file)));
            process::run(python.args(["--most", QUESTIONS, "--out", &gold, &found]))?;
        }
        let settings = settings("hard", 1, true, "dot", "nll", "1.0");
        let row = |name: &str, file: &str, paper| {
            let run = format!("{name}-positives");
            let row = Row::trained(&start, name.to_owned(), run, vec![file.to_owned()], settings.clone());
            Row { paper, ..row }
        };
        println!("the same questions; the paper's figures are top-1, top-5, top-20 and top-100 on NQ dev");
        let gold = row("gold", &gold, "44.9 66.8 78.1 85.0");
        let distant = row("distant", &found, "43.9 65.3 77.1 84.4");
        self.table("table5", &[Row::untrained(&start), gold, distant], UNTRAINED)
    }

    /// Similarity and loss (Table 6).
    pub(super) fn table6(&self) -> Outcome {
        let start = self.start()?;
        let mut rows = vec![Row::untrained(&start)];
        for (similarity, loss, temperature, paper) in TABLE_6 {
            let plain = run_of("hard", 1, true, 32);
            let is_plain = (similarity, loss) == ("dot", "nll");
            let run = if is_plain { plain } else { format!("{similarity}-{loss}") };
            let settings = settings("hard", 1, true, similarity, loss, temperature);
            let row = Row::trained(&start, format!("{similarity}, {loss}"), run, self.thousand(), settings);
            rows.push(Row { paper, ..row });
        }
        println!(
            "{QUESTIONS} questions, {STEPS} steps; the paper's figures are top-1, top-5, top-20 and top-100 on NQ dev"
        );
        self.table("table6", &rows, UNTRAINED)
    }

    /// Sample efficiency of the starter: by the number of training questions, beside BM25 (Figure 1).
    pub(super) fn figure1(&self) -> Outcome {
        self.sample_efficiency("starter", "starter", &self.start()?)
    }

    /// Sample efficiency of an encoder that never saw a question: random weights and the inverse cloze task.
    pub(super) fn figure1_ict(&self) -> Outcome {
        self.sample_efficiency("never saw a question", "unasked", &self.unasked_start()?)
    }

    /// Trains on more and more questions from the model `start`; `run` begins the names of the runs.
    fn sample_efficiency(&self, name: &str, run: &str, start: &str) -> Outcome {
        println!(
            "{LEAST_STEPS} steps of 32 questions, the same ones again where they are fewer, and more where there are more; \
             in the paper, 1,000 questions were enough to pass BM25 on NQ dev"
        );
        let mut rows = vec![Row { name: format!("{name}, 0 questions"), ..Row::untrained(start) }];
        for size in sizes().filter(|size| self.sizes.is_empty() || self.sizes.contains(size)) {
            let file = match size {
                ALL => self.path("all.json.gz"),
                size => self.path(&format!("first-{size}.json.gz")),
            };
            let seen_once = size.parse::<usize>().map_or(true, |questions| questions / 32 > LEAST_STEPS);
            let settings = settings("hard", 1, true, "dot", "nll", "1.0");
            let (row_name, run) = (format!("{name}, {size} questions"), format!("{run}-{size}"));
            let row = Row::trained(start, row_name, run, vec![file], settings);
            rows.push(Row { steps: if seen_once { 0 } else { LEAST_STEPS }, ..row });
        }
        // The plot of some rows is not that of all.
        let of_rows: String = self.sizes.iter().map(|size| format!("-{size}")).collect();
        self.table(&format!("figure1-{}{of_rows}", key_of(name)), &rows, "BM25")
    }

    /// The starter model without scaling, as the paper compares, and the corpus; the model directory.
    fn start(&self) -> Outcome<String> {
        self.hold_out(&self.mine_of_squad_sets("gold")?, &SIZES)?;
        let corpus = self.corpus();
        if !Path::new(&corpus).exists() {
            self.data.mix(SQUAD, 0..BLOCKS, &corpus)?;
        }
        let start = self.path("start");
        let import =
            ["import", "--question", MINILM, "--pooling", "mean", "--normalize", "false", "--out", &start];
        once(&start, &import)?;
        Ok(start)
    }

    /// An encoder of random weights that the inverse cloze task trained: it saw no question of anybody.
    fn unasked_start(&self) -> Outcome<String> {
        let (blocks, sentences) = (self.data.blocks()?, self.path("ict.json.gz"));
        once(&sentences, &["data", "ict", "--passages", &blocks, "--limit", "8000", "--out", &sentences])?;
        let (config, start) = (self.path("ict.toml"), self.start()?);
        let text = with_lines("configs/ict.toml", &[FROM_RANDOM, UNSCALED])?;
        write(&config, &text)?;
        let (run, done) = (self.path("ict"), self.path("ict.done"));
        let arguments = ["train", "--config", &config, "--model", &start, "--data", &sentences];
        let arguments = [&arguments[..], &["--warm-up", "20", "--learning-rate", "5e-4"]].concat();
        let asked = format!("{}\n{text}{}", arguments.join(" "), read(&format!("{start}/model.json"))?);
        // The rows that start from it go with it.
        note(&self.path("ict.settings"), &asked, || self.remove(is_of_ict))?;
        if !Path::new(&done).exists() {
            go_on(&run, &arguments)?;
            write(&done, "")?;
        }
        Ok(format!("{run}/best"))
    }

    /// The training file of tables 3 and 6.
    fn thousand(&self) -> Vec<String> {
        vec![self.path(&format!("first-{QUESTIONS}.json.gz"))]
    }

    fn corpus(&self) -> String {
        self.path("corpus.tsv")
    }

    /// Trains a row's model, or goes on with it; its directory, and the seconds that its steps took.
    fn train_row(&self, row: &Row) -> Outcome<(String, f64)> {
        if row.run.is_empty() {
            return Ok((row.start.clone(), 0.0));
        }
        let (run, config) = (self.path(&row.run), self.path(&format!("{}.toml", row.run)));
        let finished = self.path(&format!("{}.seconds", row.run));
        let settings = row.config(&read("configs/experiments.toml")?);
        note(&config, &settings, || self.forget(row))?;
        if !Path::new(&finished).exists() {
            let arguments = ["train", "--config", &config, "--model", &row.start, "--seed", row.seed];
            go_on(&run, &arguments)?;
            write(&finished, &seconds(&run, row.batch)?.to_string())?;
        }
        let text = read(&finished)?;
        let seconds = text.trim().parse().map_err(|error| Failure::new(format!("{finished}: {error}")))?;
        Ok((format!("{run}/best"), seconds))
    }

    /// Removes what a row's run and its measurements left.
    fn forget(&self, row: &Row) -> Outcome {
        let results = format!("results-{}", row.run);
        let on_others = format!("{results}-on-");
        let own = [row.run.clone(), format!("{}.seconds", row.run), results];
        self.remove(|name| own.iter().any(|own| own == name) || name.starts_with(&on_others))
    }

    /// Removes the files and folders whose names are `own` ones.
    fn remove(&self, own: impl Fn(&str) -> bool) -> Outcome {
        let folder = self.path("");
        let failed = |error: std::io::Error| Failure::new(format!("cannot clear {folder}: {error}"));
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let is_own = own(&path.file_name().unwrap_or_default().to_string_lossy());
            match (is_own, path.is_dir()) {
                (false, _) => Ok(()),
                (true, true) => fs::remove_dir_all(&path),
                (true, false) => fs::remove_file(&path),
            }
            .map_err(failed)?;
        }
        Ok(())
    }

    /// Asks SQuAD dev's questions of a row's model; the folder of the results.
    fn measure(&self, row: &Row, model: &str) -> Outcome<String> {
        let key = row.key();
        let results = self.path(&format!("results-{key}"));
        if !Path::new(&format!("{results}/metrics.json")).exists() {
            let index = self.index(&key, model, &self.corpus(), &["--sparse", "english"])?;
            eval(model, &index, "bm25,dense", &["--questions", SQUAD, "--out", &results])?;
        }
        Ok(results)
    }

    /// Trains each row, asks SQuAD dev's questions and prints the row as soon as it is measured; then how sure the
    /// differences from the row `against` are.
    fn table(&self, title: &str, rows: &[Row], against: &str) -> Outcome {
        println!(
            "\n| | top-1 | top-5 | top-20 | top-100 | paper | minutes of training |\n|---|---|---|---|---|---|---|"
        );
        let mut rankings = Vec::new();
        for row in rows {
            let (model, seconds) = self.train_row(row)?;
            let results = self.measure(row, &model)?;
            if rankings.is_empty() {
                println!("| BM25 | {} | | |", cells(&measured(&results)?, "bm25"));
                rankings.push(format!("BM25={results}/bm25.json.gz"));
            }
            let minutes = if seconds > 0.0 { format!("{:.1}", seconds / 60.0) } else { String::new() };
            println!(
                "| {} | {} | {} | {minutes} |",
                row.name,
                cells(&measured(&results)?, "dense"),
                row.paper
            );
            rankings.push(format!("{}={results}/dense.json.gz", row.name));
        }
        // What the others are compared with comes first.
        if let Some(place) = rankings.iter().position(|ranking| ranking.starts_with(&format!("{against}="))) {
            rankings.swap(0, place);
        }
        let plot = self.path(&format!("{title}.svg"));
        let mut compare = command(dpr(), &["eval", "compare", "--plot", &plot, "--examples", "2"]);
        println!();
        process::run(compare.args(["--cluster", "article", "--questions", SQUAD]).args(rankings))
    }
}

/// Returns whether a name is that of the run of the inverse cloze task, or of what was made with its model: rows of
/// Figure 1 and their results.
fn is_of_ict(name: &str) -> bool {
    ["ict", "ict.done"].contains(&name)
        || ["unasked-", "results-unasked-", "results-ict-best"].iter().any(|own| name.starts_with(own))
}

#[cfg(test)]
mod tests {
    use super::{is_of_ict, size_named};

    #[test]
    fn what_the_inverse_cloze_task_made_goes_with_its_run_and_its_data_stay() {
        for name in [
            "ict",
            "ict.done",
            "unasked-250",
            "unasked-250.seconds",
            "results-unasked-all",
            "results-ict-best",
        ] {
            assert!(is_of_ict(name), "{name}");
        }
        for name in ["ict.json.gz", "ict.settings", "ict.toml", "start", "starter-250", "results-starter-250"]
        {
            assert!(!is_of_ict(name), "{name}");
        }
    }

    #[test]
    fn a_number_of_questions_that_figure_1_has_not_is_an_error_that_lists_the_rows() {
        assert_eq!(size_named(Some("4000")).unwrap(), "4000");
        let all = size_named(Some("17236")).unwrap_err().to_string();
        assert!(
            all.contains("\"17236\"") && all.contains("name one of 250, 1000, 4000, 10000, all"),
            "{all}"
        );
    }
}
