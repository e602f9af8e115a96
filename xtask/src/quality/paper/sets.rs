//! Sets of questions: an encoder for each and one for all, each tested on every set (paper Table 2 and §5.2).

use std::path::Path;

use serde_json::Value;

use super::super::files::read;
use super::super::seeds::{SEEDS, spread};
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

/// What the encoders of a line of the table found, by their seeds and then by the sets that they are tested on. The
/// start is one encoder.
type OfSeeds = Vec<Vec<Tested>>;

impl Work<'_> {
    /// Trained on one set, tested on another (paper §5.2, "cross-dataset generalization").
    pub(in crate::quality) fn cross_data(&self) -> Outcome {
        println!(
            "top-20, in %, of the questions that any block answers; gold paragraphs for {SQUAD_STYLE}: the mean over \
             {} seeds, from the least to the greatest",
            SEEDS.len()
        );
        let names: Vec<_> = SETS.iter().map(|set| set.name).chain([SQUAD_STYLE]).collect();
        let header = || {
            println!("| trained on | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
        };
        header();
        let lines = self.set_rows()?;
        let mut tested: Vec<OfSeeds> = Vec::new();
        for rows in &lines {
            let of_line = self.tested_with_seeds(rows)?;
            if tested.is_empty() {
                let counted: Vec<_> = of_line[0].iter().map(|tested| tested.counted.to_string()).collect();
                println!("| questions | {} |", counted.join(" | "));
            }
            let cells: Vec<_> = (0..names.len()).map(|set| accuracy(&of_line, set)).collect();
            println!("| {} | {} |", rows[0].name, cells.join(" | "));
            tested.push(of_line);
        }
        println!(
            "\nthe mean, in points above the encoder that the tested set itself trained with the same seed; from the \
             least to the greatest bound of the seeds' 95 % intervals (paired bootstrap)"
        );
        header();
        for (position, of_line) in tested.iter().enumerate() {
            let mut cells = Vec::new();
            for set in 0..names.len() {
                // The first line is the start; then come the sets in their order.
                let own = set + 1;
                let is_own = position == own;
                cells.push(if is_own { "0".to_owned() } else { points(&tested[own], of_line, set)? });
            }
            println!("| {} | {} |", lines[position][0].name, cells.join(" | "));
        }
        Ok(())
    }

    /// One encoder for all sets beside one for each (Table 2).
    pub(in crate::quality) fn multi(&self) -> Outcome {
        let lines = self.set_rows()?;
        let Some((multi, singles)) = lines.split_last() else { return Ok(()) };
        let of_multi = self.tested_with_seeds(multi)?;
        println!(
            "top-20, in %, of the questions that any block answers: the mean over {} seeds, from the least to the \
             greatest; differences of the same seed, and the least and the greatest bound of their 95 % intervals\n",
            SEEDS.len()
        );
        println!(
            "| tested on | questions | trained on it alone | trained on all | all above alone | paper, alone | \
             paper, on four |\n|---|---|---|---|---|---|---|"
        );
        for (number, set) in SETS.iter().enumerate() {
            // The first line is the start.
            let of_single = self.tested_with_seeds(&singles[number + 1])?;
            let (one, four) = set.paper;
            let [single, multi] = [&of_single, &of_multi].map(|tested| accuracy(tested, number));
            let (name, counted) = (set.name, of_multi[0][number].counted);
            let above = points(&of_single, &of_multi, number)?;
            println!("| {name} | {counted} | {single} | {multi} | {above} | {one} | {four} |");
        }
        Ok(())
    }

    /// What the encoders of a line find of each set's tests.
    fn tested_with_seeds(&self, rows: &[Row]) -> Outcome<OfSeeds> {
        rows.iter().map(|row| self.tested(row)).collect()
    }

    /// The lines of the table: the start, one a set, and one of all sets, each but the start once for each seed.
    fn set_rows(&self) -> Outcome<Vec<Vec<Row>>> {
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
            let run = format!("set-{}", key_of(name));
            Row::trained(&start, name.to_owned(), run, data, settings).of_seeds()
        };
        let mut rows = vec![vec![Row::untrained(&start)]];
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

/// Returns the mean accuracy on a set, in %, with the least and the greatest where there are several seeds.
fn accuracy(line: &OfSeeds, set: usize) -> String {
    let all: Vec<f64> = line.iter().map(|tested| tested[set].accuracy * 100.0).collect();
    let (mean, least, most) = spread(&all);
    if all.len() == 1 { format!("{mean:.1}") } else { format!("{mean:.1} ({least:.1} to {most:.1})") }
}

/// Returns by how many points of top-20 `other` is above `base` on a set: the mean of the seeds, with the least lower
/// and the greatest upper bound of their 95 % intervals, so that what another seed and what other questions would
/// change are both in it.
fn points(base: &OfSeeds, other: &OfSeeds, set: usize) -> Outcome<String> {
    let of_seed = |seed: usize| difference(&base[seed % base.len()][set], &other[seed % other.len()][set]);
    let differences = (0..base.len().max(other.len())).map(of_seed).collect::<Outcome<Vec<_>>>()?;
    Ok(points_text(&differences))
}

fn points_text(differences: &[[f64; 3]]) -> String {
    let of = |place: usize| spread(&differences.iter().map(|figures| figures[place]).collect::<Vec<_>>());
    let ((mean, ..), (_, low, _), (_, _, high)) = (of(0), of(1), of(2));
    format!("{mean:+.1} ({low:+.1} to {high:+.1})")
}

/// Returns by how many points of top-20 `other` is above `base`, with the two bounds of the 95 % interval of the paired
/// bootstrap. It is over whole articles where the questions name their paragraphs. The questions that no block answers
/// are resampled too: both rankings fail them.
fn difference(base: &Tested, other: &Tested) -> Outcome<[f64; 3]> {
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
    Ok([difference?, low?, high?].map(|share| share * of_counted))
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

    #[test]
    fn seeds_are_averaged_and_their_intervals_joined() {
        let tested = |accuracy| {
            let metrics = serde_json::json!({"questions": 10});
            vec![Tested::new((accuracy, 8), &metrics, "results")]
        };
        assert_eq!(accuracy(&vec![tested(0.25)], 0), "25.0");
        assert_eq!(accuracy(&vec![tested(0.25), tested(0.3), tested(0.2)], 0), "25.0 (20.0 to 30.0)");
        let text = points_text(&[[1.0, -0.5, 2.0], [3.0, 1.0, 6.5], [-1.0, -2.5, 0.5]]);
        assert_eq!(text, "+1.0 (-2.5 to +6.5)");
    }
}
