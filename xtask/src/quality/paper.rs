//! The paper's tables on data at hand: what negatives, positives, losses and numbers of questions make of an encoder
//! (Karpukhin et al. 2020, §5 and appendix). One row is one training run, kept under `target/quality/paper`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::seeds::{Accuracies, accuracies};
use super::{Work, eval, go_on, once};
use crate::failure::{Failure, Outcome};
use crate::json::{json, number};
use crate::paths::{MINILM, SQUAD, dpr, venv_python};
use crate::process::{self, command};

/// Blocks of Wikipedia among the paragraphs of SQuAD dev: fewer than elsewhere, as each row's model encodes them anew.
const BLOCKS: usize = 5_000;
/// Blocks among which questions that name no paragraph are asked.
const ASKED_BLOCKS: usize = 20_000;
/// Questions of training in each row of tables 3 and 6.
const QUESTIONS: &str = "1000";
/// Times that each of these questions is seen.
const EPOCHS: &str = "2";
/// Numbers of training questions of Figure 1 that are not all.
pub(super) const SIZES: [&str; 5] = ["250", "1000", "2000", "4000", "10000"];
/// Least number of questions that a run of Figure 1 sees, the same ones several times if need be.
const LEAST_SEEN: usize = 4_000;

/// Name of the row of the model that training starts from.
const UNTRAINED: &str = "no training";

/// One row of a table, which is one training run.
struct Row {
    /// Its name in the table.
    name: String,
    /// The name of its run; rows of two tables may have one run in common.
    run: String,
    /// Model directory that training starts from.
    start: String,
    /// Training files, with the number of times that an epoch sees each question.
    data: Vec<(String, f64)>,
    batch: usize,
    epochs: String,
    /// Sections `[data]` and `[objective]` of the configuration.
    settings: String,
    /// The paper's figures for this row, from its lowest rank on.
    paper: &'static str,
}

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

/// A set of questions: its name, its training questions, where the tests begin in the file, and the file of tests.
struct Set {
    name: &'static str,
    train: &'static str,
    /// Questions of the training file that are trained on; the tests of a set with one file are those after them.
    limit: Option<&'static str>,
    test: &'static str,
    /// The paper's top-20 of the encoder trained on this set alone, and of that trained on four (Table 2).
    paper: (&'static str, &'static str),
}

const SETS: [Set; 4] = [
    Set { name: "NQ", train: "nq-dev.tsv", limit: None, test: "nq-test.tsv", paper: ("78.4", "79.4") },
    Set {
        name: "TriviaQA",
        train: "trivia-dev.tsv",
        limit: Some("6800"),
        test: "trivia-dev.tsv",
        paper: ("79.4", "78.8"),
    },
    Set {
        name: "WebQuestions",
        train: "wq-train.json",
        limit: None,
        test: "wq-dev.json",
        paper: ("73.2", "75.0"),
    },
    Set {
        name: "CuratedTREC",
        train: "trec-train.tsv",
        limit: Some("300"),
        test: "trec-train.tsv",
        paper: ("79.8", "89.1"),
    },
];
/// The fifth set, whose questions name their paragraphs.
const SQUAD_STYLE: &str = "SQuAD style";

impl Work<'_> {
    /// Negatives: none of the batch's or all of them, random, gold or BM25's, one or two (Table 3).
    pub(super) fn table3(&self) -> Outcome {
        let start = self.start()?;
        let mut rows = vec![self.without_training(&start)];
        for (name, kind, count, in_batch, batch, paper) in TABLE_3 {
            let settings = settings(kind, count, in_batch, "dot", "nll", "1.0");
            let scope = if in_batch { "and the batch's" } else { "alone" };
            let seen = match (kind, in_batch) {
                ("gold", true) => batch - 1,
                (_, true) => batch * (1 + count) - 1,
                (_, false) => count,
            };
            rows.push(Row {
                name: format!("{name}, {seen} negatives, {scope}"),
                run: run_of(kind, count, in_batch, batch),
                data: vec![(self.path(&format!("first-{QUESTIONS}.json.gz")), 1.0)],
                start: start.clone(),
                batch,
                epochs: EPOCHS.to_owned(),
                settings,
                paper,
            });
        }
        println!(
            "{QUESTIONS} questions, {EPOCHS} epochs; the paper's figures are top-5, top-20 and top-100 on NQ dev"
        );
        self.table("table3", &rows, UNTRAINED)
    }

    /// Gold positives beside positives that BM25 found by the answer (Table 5).
    pub(super) fn table5(&self) -> Outcome {
        let start = self.start()?;
        let distant = self.mine_of_squad_sets("distant")?;
        let [gold, found, joined] =
            ["same-gold.json.gz", "same-distant.json.gz", "distant.json.gz"].map(|name| self.path(name));
        if !Path::new(&found).exists() {
            let mut python = command(venv_python(), &["tests/bench/join.py", "--out", &joined]);
            process::run(python.args(distant.iter().map(|file| self.path(file))))?;
            let of = [self.path("all.json.gz"), joined];
            let mut python =
                command(venv_python(), &["tests/bench/same_questions.py", "--most", "4000", "--out"]);
            process::run(python.args([&gold, &found]).args(of))?;
        }
        let row = |name: &str, file: &str, paper| Row {
            name: name.to_owned(),
            run: format!("{name}-positives"),
            data: vec![(file.to_owned(), 1.0)],
            start: start.clone(),
            batch: 32,
            epochs: "1".to_owned(),
            settings: settings("hard", 1, true, "dot", "nll", "1.0"),
            paper,
        };
        println!("the same questions; the paper's figures are top-1, top-5, top-20 and top-100 on NQ dev");
        let gold = row("gold", &gold, "44.9 66.8 78.1 85.0");
        let distant = row("distant", &found, "43.9 65.3 77.1 84.4");
        self.table("table5", &[self.without_training(&start), gold, distant], UNTRAINED)
    }

    /// Similarity and loss (Table 6).
    pub(super) fn table6(&self) -> Outcome {
        let start = self.start()?;
        let mut rows = vec![self.without_training(&start)];
        for (similarity, loss, temperature, paper) in TABLE_6 {
            let plain = run_of("hard", 1, true, 32);
            rows.push(Row {
                name: format!("{similarity}, {loss}"),
                run: if (similarity, loss) == ("dot", "nll") {
                    plain
                } else {
                    format!("{similarity}-{loss}")
                },
                data: vec![(self.path(&format!("first-{QUESTIONS}.json.gz")), 1.0)],
                start: start.clone(),
                batch: 32,
                epochs: EPOCHS.to_owned(),
                settings: settings("hard", 1, true, similarity, loss, temperature),
                paper,
            });
        }
        println!(
            "{QUESTIONS} questions, {EPOCHS} epochs; the paper's figures are top-1, top-5, top-20 and top-100 on NQ dev"
        );
        self.table("table6", &rows, UNTRAINED)
    }

    /// Sample efficiency: by the number of training questions, from the starter and from an encoder that never saw a
    /// question, beside BM25 (Figure 1).
    pub(super) fn figure1(&self) -> Outcome {
        let start = self.start()?;
        let unasked = self.unasked_start()?;
        println!(
            "each run sees {LEAST_SEEN} questions at least, the same ones again if need be; in the paper, 1,000 \
             questions were enough to pass BM25 on NQ dev"
        );
        for (name, start) in [("starter", start), ("never saw a question", unasked)] {
            let mut rows =
                vec![Row { name: format!("{name}, 0 questions"), ..self.without_training(&start) }];
            for size in SIZES.iter().copied().chain(["all"]) {
                let file = match size {
                    "all" => self.path("all.json.gz"),
                    size => self.path(&format!("first-{size}.json.gz")),
                };
                let questions: usize = size.parse().unwrap_or(LEAST_SEEN);
                rows.push(Row {
                    name: format!("{name}, {size} questions"),
                    run: format!("{}-{size}", if name == "starter" { "starter" } else { "unasked" }),
                    data: vec![(file, 1.0)],
                    start: start.clone(),
                    batch: 32,
                    epochs: LEAST_SEEN.div_ceil(questions).max(1).to_string(),
                    settings: settings("hard", 1, true, "dot", "nll", "1.0"),
                    paper: "",
                });
            }
            self.table(&format!("figure1-{}", key_of(name)), &rows, "BM25")?;
        }
        Ok(())
    }

    /// Trained on one set, tested on another (paper §5.2, "cross-dataset generalization").
    pub(super) fn cross_data(&self) -> Outcome {
        println!("top-20, in %, of the questions that any block answers; gold paragraphs for {SQUAD_STYLE}");
        let names: Vec<_> = SETS.iter().map(|set| set.name).chain([SQUAD_STYLE]).collect();
        println!("| trained on | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
        for row in self.set_rows()? {
            let tested = self.tested(&row)?;
            let cells: Vec<String> =
                tested.iter().map(|accuracy| format!("{:.1}", accuracy * 100.0)).collect();
            println!("| {} | {} |", row.name, cells.join(" | "));
        }
        Ok(())
    }

    /// One encoder for all sets beside one for each (Table 2).
    pub(super) fn multi(&self) -> Outcome {
        let rows = self.set_rows()?;
        let Some((multi, singles)) = rows.split_last() else { return Ok(()) };
        let of_multi = self.tested(multi)?;
        println!("top-20, in %, of the questions that any block answers\n");
        println!(
            "| tested on | trained on it alone | trained on all | paper, alone | paper, on four |\n|---|---|---|---|---|"
        );
        for (number, set) in SETS.iter().enumerate() {
            // The first row is the start.
            let alone = self.tested(&singles[number + 1])?[number];
            let (one, four) = set.paper;
            let [alone, all] = [alone, of_multi[number]].map(|accuracy| accuracy * 100.0);
            println!("| {} | {alone:.1} | {all:.1} | {one} | {four} |", set.name);
        }
        Ok(())
    }

    /// The starter model without scaling, as the paper compares, and the corpus; the model directory.
    fn start(&self) -> Outcome<String> {
        self.hold_out(&self.mine_of_squad_sets("gold")?)?;
        let corpus = self.corpus();
        if !Path::new(&corpus).exists() {
            self.data.mix(BLOCKS, &corpus)?;
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
        let text = read("configs/ict.toml")?.replace("weights = \"given\"", "weights = \"random\"");
        write(&config, &text.replace("temperature = 0.05", "temperature = 1.0"))?;
        let run = self.path("ict");
        let arguments = ["train", "--config", &config, "--model", &start, "--data", &sentences];
        go_on(&run, &[&arguments[..], &["--warm-up", "20", "--learning-rate", "5e-4"]].concat())?;
        Ok(format!("{run}/best"))
    }

    fn corpus(&self) -> String {
        self.path("corpus.tsv")
    }

    /// The row of the model that training starts from.
    fn without_training(&self, start: &str) -> Row {
        Row {
            name: UNTRAINED.to_owned(),
            run: String::new(),
            start: start.to_owned(),
            data: Vec::new(),
            batch: 0,
            epochs: String::new(),
            settings: String::new(),
            paper: "",
        }
    }

    /// Trains a row's model, or goes on with it; its directory, and the seconds that its steps took.
    fn train_row(&self, row: &Row) -> Outcome<(String, f64)> {
        if row.run.is_empty() {
            return Ok((row.start.clone(), 0.0));
        }
        let (run, config) = (self.path(&row.run), self.path(&format!("{}.toml", row.run)));
        let common = read("configs/experiments.toml")?;
        let files = row
            .data
            .iter()
            .map(|(path, weight)| format!("[[data.train]]\npath = {path:?}\nweight = {weight:?}\n"));
        write(&config, &format!("{common}\n{}\n{}", row.settings, files.collect::<String>()))?;
        let batch = row.batch.to_string();
        let steps = ["--batch-size", &batch, "--epochs", &row.epochs, "--warm-up", "10"];
        let finished = self.path(&format!("{}.seconds", row.run));
        if !Path::new(&finished).exists() {
            go_on(&run, &[&["train", "--config", &config, "--model", &row.start], &steps[..]].concat())?;
            write(&finished, &seconds(&run, row.batch)?.to_string())?;
        }
        let text = fs::read_to_string(&finished).unwrap_or_default();
        Ok((format!("{run}/best"), text.trim().parse().unwrap_or(0.0)))
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
            let key = if row.run.is_empty() { key_of(&row.start) } else { row.run.clone() };
            let results = self.path(&format!("results-{key}"));
            if !Path::new(&format!("{results}/metrics.json")).exists() {
                let index = self.index(&key, &model, &self.corpus(), &["--sparse", "english"])?;
                eval(&model, &index, "bm25,dense", &["--questions", SQUAD, "--out", &results])?;
            }
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

    /// The start, one row a set, and one of all sets.
    fn set_rows(&self) -> Outcome<Vec<Row>> {
        let start = self.start()?;
        let blocks = self.data.blocks()?;
        let words = self.path("all-words");
        once(&words, &["index", "--passages", &blocks, "--sparse", "english", "--out", &words])?;
        let mut files = Vec::new();
        for set in &SETS {
            let (questions, out) =
                (self.data.questions(set.train), self.path(&format!("{}.json.gz", set.train)));
            let mut mine = vec!["data", "mine", "--index", &words, "--questions", &questions, "--out", &out];
            mine.extend(set.limit.into_iter().flat_map(|limit| ["--limit", limit]));
            once(&out, &mine)?;
            files.push((set.name, out));
        }
        files.push((SQUAD_STYLE, self.path("first-4000.json.gz")));
        let row = |name: &str, data: Vec<(String, f64)>| Row {
            name: name.to_owned(),
            run: format!("set-{}", key_of(name)),
            data,
            start: start.clone(),
            batch: 32,
            epochs: "1".to_owned(),
            settings: settings("hard", 1, true, "dot", "nll", "1.0"),
            paper: "",
        };
        let mut rows = vec![self.without_training(&start)];
        rows.extend(files.iter().map(|(name, file)| row(name, vec![(file.clone(), 1.0)])));
        rows.push(row("all five", files.into_iter().map(|(_, file)| (file, 1.0)).collect()));
        Ok(rows)
    }

    /// Top-20 of a row's model on each set's tests, and on SQuAD dev.
    fn tested(&self, row: &Row) -> Outcome<Vec<f64>> {
        let (model, _) = self.train_row(row)?;
        let key = if row.run.is_empty() { key_of(&row.start) } else { row.run.clone() };
        let drawn = self.path("drawn.tsv");
        if !Path::new(&drawn).exists() {
            self.data.drawn_blocks(0..ASKED_BLOCKS, &drawn)?;
        }
        let mut found = Vec::new();
        for set in &SETS {
            let results = self.path(&format!("results-{key}-on-{}", key_of(set.name)));
            if !Path::new(&format!("{results}/metrics.json")).exists() {
                let index = self.index(&format!("{key}-drawn"), &model, &drawn, &[])?;
                let questions = self.data.questions(set.test);
                let mut asked = vec!["--questions", &questions, "--answerable", "--out", &results];
                asked.extend(set.limit.into_iter().flat_map(|limit| ["--skip", limit]));
                eval(&model, &index, "dense", &asked)?;
            }
            let path = format!("{results}/metrics.json");
            let metrics = json(&read(&path)?, &path)?;
            found.push(top_20(&metrics["methods"][0]["of_answerable"]).ok_or_else(|| {
                Failure::new(format!("{path}: no top-20 of the questions that have an answer"))
            })?);
        }
        let results = self.path(&format!("results-{key}"));
        if !Path::new(&format!("{results}/metrics.json")).exists() {
            let index = self.index(&key, &model, &self.corpus(), &["--sparse", "english"])?;
            eval(&model, &index, "bm25,dense", &["--questions", SQUAD, "--out", &results])?;
        }
        let dense = measured(&results)?.into_iter().find(|(method, _)| method == "dense");
        let top = dense.and_then(|(_, top)| top.into_iter().find(|(k, _)| *k == 20));
        found.extend(top.map(|(_, accuracy)| accuracy));
        Ok(found)
    }
}

/// Returns the sections of a configuration that differ from row to row. The dev files are none: nothing is chosen.
fn settings(
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

fn run_of(kind: &str, count: usize, in_batch: bool, batch: usize) -> String {
    let scope = if in_batch { "in-batch" } else { "alone" };
    format!("{kind}-{count}-{scope}-{batch}")
}

/// Returns a name without what a path may not hold.
fn key_of(name: &str) -> String {
    let key = |sign: char| if sign.is_ascii_alphanumeric() { sign.to_ascii_lowercase() } else { '-' };
    name.rsplit_once("paper/").map_or(name, |(_, end)| end).chars().map(key).collect()
}

/// Returns the seconds that the steps of a run took, by its `metrics.jsonl`.
fn seconds(run: &str, batch: usize) -> Outcome<f64> {
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

fn measured(results: &str) -> Outcome<Accuracies> {
    let path = format!("{results}/metrics.json");
    Ok(accuracies(&json(&read(&path)?, &path)?))
}

/// Returns the cells of a method's accuracies, in %.
fn cells(measured: &Accuracies, method: &str) -> String {
    let top = measured.iter().find(|(name, _)| name == method).map(|(_, top)| top.as_slice());
    let cells = top.unwrap_or_default().iter().map(|(_, accuracy)| format!("{:.1}", accuracy * 100.0));
    cells.collect::<Vec<_>>().join(" | ")
}

fn top_20(accuracy: &Value) -> Option<f64> {
    let top = accuracy["top_k"].as_array()?;
    top.iter().find(|top| top["k"] == 20)?["accuracy"].as_f64()
}

fn read(path: &str) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read {path}: {error}")))
}

fn write(path: &str, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| Failure::new(format!("cannot write {path}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_its_run_is_called_and_what_it_sees() {
        assert_eq!(run_of("hard", 1, true, 32), "hard-1-in-batch-32");
        assert_eq!(key_of("target/quality/paper/ict/best"), "ict-best");
        assert_eq!(key_of("SQuAD style"), "squad-style");
        let text = settings("gold", 0, true, "l2", "triplet", "1.0");
        assert!(
            text.contains("similarity = \"l2\"") && text.contains("negatives_per_question = 1\n"),
            "{text}"
        );
    }

    #[test]
    fn a_table_has_the_accuracies_of_its_method_and_none_of_one_that_is_not_there() {
        let top = |accuracy: f64| vec![(1, accuracy), (20, 0.956)];
        let measured = vec![("bm25".to_owned(), top(0.742)), ("dense".to_owned(), top(0.5))];
        assert_eq!(cells(&measured, "bm25"), "74.2 | 95.6");
        assert_eq!(cells(&measured, "hybrid"), "");
        let accuracy = serde_json::json!({"top_k": [{"k": 1, "accuracy": 0.1}, {"k": 20, "accuracy": 0.25}]});
        assert_eq!(top_20(&accuracy), Some(0.25));
    }
}
