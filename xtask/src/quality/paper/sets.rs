//! Sets of questions: an encoder for each and one for all, each tested on every set (paper Table 2 and §5.2).

use std::path::Path;

use serde_json::Value;

use super::super::files::read;
use super::super::{Work, eval, once};
use super::row::{Row, key_of, settings};
use crate::failure::{Failure, Outcome};
use crate::json::{json, number};
use crate::paths::{SQUAD, dpr};
use crate::process::{command, output};

/// Blocks among which questions that name no paragraph are asked.
const ASKED_BLOCKS: usize = 20_000;

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

/// What a row's model found of a set's tests: top-20 of the questions that count, how many they are of all, whether
/// they name their paragraphs, and the ranking.
struct Tested {
    accuracy: f64,
    counted: u64,
    questions: u64,
    names_paragraphs: bool,
    ranking: String,
}

impl Work<'_> {
    /// Trained on one set, tested on another (paper §5.2, "cross-dataset generalization").
    pub(in crate::quality) fn cross_data(&self) -> Outcome {
        println!("top-20, in %, of the questions that any block answers; gold paragraphs for {SQUAD_STYLE}");
        let names: Vec<_> = SETS.iter().map(|set| set.name).chain([SQUAD_STYLE]).collect();
        println!("| trained on | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
        let rows = self.set_rows()?;
        let mut tested = Vec::new();
        for row in &rows {
            let of_row = self.tested(row)?;
            if tested.is_empty() {
                println!("| questions | {} |", joined(&of_row, |tested| tested.counted.to_string()));
            }
            println!(
                "| {} | {} |",
                row.name,
                joined(&of_row, |tested| format!("{:.1}", tested.accuracy * 100.0))
            );
            tested.push(of_row);
        }
        println!(
            "\nthe same in points above the encoder that the tested set itself trained, \
             and 95 % intervals (paired bootstrap)"
        );
        println!("| trained on | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
        for (position, of_row) in tested.iter().enumerate() {
            let mut cells = Vec::new();
            for (set, of_set) in of_row.iter().enumerate() {
                // The first row is the start; then come the sets in their order.
                let own = set + 1;
                let is_own = position == own;
                cells.push(if is_own { "0".to_owned() } else { points(&tested[own][set], of_set)? });
            }
            println!("| {} | {} |", rows[position].name, cells.join(" | "));
        }
        Ok(())
    }

    /// One encoder for all sets beside one for each (Table 2).
    pub(in crate::quality) fn multi(&self) -> Outcome {
        let rows = self.set_rows()?;
        let Some((multi, singles)) = rows.split_last() else { return Ok(()) };
        let of_multi = self.tested(multi)?;
        println!("top-20, in %, of the questions that any block answers\n");
        println!(
            "| tested on | questions | trained on it alone | trained on all | all above alone, 95 % | paper, alone | paper, on four |\n|---|---|---|---|---|---|---|"
        );
        for (number, set) in SETS.iter().enumerate() {
            // The first row is the start.
            let of_single = self.tested(&singles[number + 1])?;
            let (alone, all) = (&of_single[number], &of_multi[number]);
            let (one, four) = set.paper;
            let [single, multi] = [alone, all].map(|tested| tested.accuracy * 100.0);
            let (name, counted, above) = (set.name, alone.counted, points(alone, all)?);
            println!("| {name} | {counted} | {single:.1} | {multi:.1} | {above} | {one} | {four} |");
        }
        Ok(())
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
        let row = |name: &str, data: Vec<String>| {
            let settings = settings("hard", 1, true, "dot", "nll", "1.0");
            Row::trained(&start, name.to_owned(), format!("set-{}", key_of(name)), data, settings)
        };
        let mut rows = vec![Row::untrained(&start)];
        rows.extend(files.iter().map(|(name, file)| row(name, vec![file.clone()])));
        rows.push(row("all five", files.into_iter().map(|(_, file)| file).collect()));
        Ok(rows)
    }

    /// Top-20 of a row's model on each set's tests and on SQuAD dev.
    fn tested(&self, row: &Row) -> Outcome<Vec<Tested>> {
        let (model, _) = self.train_row(row)?;
        let key = row.key();
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
                let mut options = vec!["--questions", &questions, "--answerable", "--out", &results];
                options.extend(set.limit.into_iter().flat_map(|limit| ["--skip", limit]));
                eval(&model, &index, "dense", &options)?;
            }
            let path = format!("{results}/metrics.json");
            let metrics = json(&read(&path)?, &path)?;
            let top = top_20(&metrics["methods"][0]["of_answerable"]);
            let counted = top.zip(metrics["answerable"].as_u64()).ok_or_else(|| {
                Failure::new(format!("{path}: no top-20 of the questions that have an answer"))
            })?;
            found.push(Tested::new(counted, &metrics, &results));
        }
        let results = self.measure(row, &model)?;
        let path = format!("{results}/metrics.json");
        let metrics = json(&read(&path)?, &path)?;
        let methods = metrics["methods"].as_array().into_iter().flatten();
        let dense = methods.filter(|method| method["method"] == "dense").find_map(top_20);
        let counted = dense.zip(metrics["questions"].as_u64());
        let counted = counted.ok_or_else(|| Failure::new(format!("{path}: no top-20 of dense ranking")))?;
        found.push(Tested::new(counted, &metrics, &results));
        Ok(found)
    }
}

impl Tested {
    /// `counted` is the accuracy with the number of questions that it is of; `results` the folder with the ranking.
    fn new((accuracy, counted): (f64, u64), metrics: &Value, results: &str) -> Self {
        let questions = metrics["questions"].as_u64().unwrap_or(counted);
        let names_paragraphs = metrics["judged_by"] == "gold";
        Self { accuracy, counted, questions, names_paragraphs, ranking: format!("{results}/dense.json.gz") }
    }
}

/// Returns by how many points of top-20 `other` is above `base`, with the 95 % interval of the paired bootstrap. It is
/// over whole articles where the questions name their paragraphs. The questions that no block answers are resampled
/// too: both rankings fail them.
fn points(base: &Tested, other: &Tested) -> Outcome<String> {
    let mut compare = command(dpr(), &["eval", "compare", "--k", "20", "--json"]);
    if base.names_paragraphs {
        compare.args(["--cluster", "article", "--questions", SQUAD]);
    }
    let [base_file, other_file] =
        [("own", base), ("other", other)].map(|(name, tested)| format!("{name}={}", tested.ranking));
    let printed = output(compare.args([base_file, other_file]))?;
    let compared = &json(&printed, "dpr eval compare")?["comparisons"][0];
    let of_counted = 100.0 * base.questions as f64 / base.counted.max(1) as f64;
    let [difference, low, high] = ["difference", "low", "high"].map(|key| number(compared, key));
    let [difference, low, high] = [difference?, low?, high?].map(|share| share * of_counted);
    Ok(format!("{difference:+.1} ({low:+.1} to {high:+.1})"))
}

fn joined(tested: &[Tested], cell: impl Fn(&Tested) -> String) -> String {
    tested.iter().map(cell).collect::<Vec<_>>().join(" | ")
}

fn top_20(accuracy: &Value) -> Option<f64> {
    let top = accuracy["top_k"].as_array()?;
    top.iter().find(|top| top["k"] == 20)?["accuracy"].as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_within_twenty_is_read() {
        let accuracy = serde_json::json!({"top_k": [{"k": 1, "accuracy": 0.1}, {"k": 20, "accuracy": 0.25}]});
        assert_eq!(top_20(&accuracy), Some(0.25));
        assert_eq!(top_20(&Value::Null), None);
    }
}
