//! `cargo xtask quality`: what training makes of the encoders, and what servers can make of questions, in tables.
//! Hours of work on two cores: what was done is kept under `target/quality`, and a run that was stopped goes on.

mod distill;
mod files;
mod korean;
mod paper;
mod privacy;
mod questions;
mod reader;
mod rounds;
mod seeds;
mod small;

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::json::{json, number};
use crate::parts::{Part as _, parts};
use crate::paths::{DEMO_MODEL, SQUAD, dpr, venv_python};
use crate::process::{self, command, output};
use crate::wikipedia::{Wikipedia, encode};
use crate::{demo_data, setup};
use files::{FROM_RANDOM, clear, note, read, with_lines, write};

const FOLDER: &str = "target/quality";
/// Blocks of Wikipedia among the paragraphs of SQuAD dev.
const BLOCKS: usize = 20_000;
/// Questions of SQuAD dev's first 10 articles: weights are tuned on these, and the table is over the other 38.
const TUNED_ON: &str = "2015";

/// Name of the starter model in tables. Its makers trained it on SQuAD 2.0, NQ and TriviaQA besides much else, so that
/// nothing measured on these is measured on tasks it never saw.
const STARTER: &str = "as-downloaded";

parts!(
    "quality":
    Training "training",
    Rounds "rounds",
    Taught "taught",
    Distant "distant",
    Ict "ict",
    Distill "distill",
    Small "small",
    Korean "korean",
    Privacy "privacy",
    PrivacyLarge "privacy-large",
    Reader "reader",
    Questions "questions",
    Table3 "table3",
    Table5 "table5",
    Table6 "table6",
    Figure1 "figure1",
    Figure1Ict "figure1-ict",
    CrossData "crossdata",
    Multi "multi",
    Precision "precision",
);

/// Returns the parts that `--only` names, or all, and the rows of Figure 1 that `--questions` names.
fn parsed(arguments: &[String]) -> Outcome<(Vec<Part>, Vec<&'static str>)> {
    let (mut parts, mut sizes) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(flag) = rest.next() {
        match flag {
            "--only" => parts.push(Part::named(rest.next())?),
            "--questions" => sizes.push(paper::size_named(rest.next())?),
            _ => return Err(Failure::new("quality takes --only PART and --questions N")),
        }
    }
    let has_rows_of_questions = |part: &Part| matches!(part, Part::Figure1 | Part::Figure1Ict);
    if !sizes.is_empty() && (parts.is_empty() || !parts.iter().all(has_rows_of_questions)) {
        let failure = Failure::new("--questions names rows of figure1 and figure1-ict, and of no other part");
        return Err(failure.fix("name these with --only, and no other part"));
    }
    if parts.is_empty() {
        parts.extend(Part::ALL);
    }
    Ok((parts, sizes))
}

/// Runs the parts that `--only` names, or all.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let (parts, sizes) = parsed(arguments)?;
    setup::run(setup::Scope::All)?;
    demo_data::build()?;
    let Some(data) = Wikipedia::find() else { return Ok(()) };
    for part in parts {
        println!("\n=== {} ===", part.name());
        // The paper's tables have runs in common, and so have rounds with a teacher and without.
        let folder = match part {
            Part::Table3
            | Part::Table5
            | Part::Table6
            | Part::Figure1
            | Part::Figure1Ict
            | Part::CrossData
            | Part::Multi
            | Part::Precision => "paper",
            Part::Taught => Part::Rounds.name(),
            _ => part.name(),
        };
        let work = Work::new(folder, &data, &sizes)?;
        match part {
            Part::Training => work.training()?,
            Part::Rounds => work.rounds()?,
            Part::Taught => work.taught_round()?,
            Part::Distant => work.distant()?,
            Part::Ict => work.ict()?,
            Part::Distill => work.distill()?,
            Part::Small => work.small()?,
            Part::Privacy => work.privacy()?,
            Part::PrivacyLarge => work.privacy_large()?,
            Part::Reader => work.reader()?,
            Part::Korean => work.korean()?,
            Part::Questions => work.made_questions()?,
            Part::Table3 => work.table3()?,
            Part::Table5 => work.table5()?,
            Part::Table6 => work.table6()?,
            Part::Figure1 => work.figure1()?,
            Part::Figure1Ict => work.figure1_ict()?,
            Part::CrossData => work.cross_data()?,
            Part::Multi => work.multi()?,
            Part::Precision => work.precision()?,
        }
    }
    Ok(())
}

/// One part's folder, and the data it reads.
struct Work<'a> {
    part: &'a str,
    data: &'a Wikipedia,
    /// The rows of Figure 1 to train, by their numbers of questions; all where there is none.
    sizes: &'a [&'static str],
}

impl<'a> Work<'a> {
    fn new(part: &'a str, data: &'a Wikipedia, sizes: &'a [&'static str]) -> Outcome<Self> {
        let folder = format!("{FOLDER}/{part}");
        fs::create_dir_all(&folder).map_err(|e| Failure::new(format!("cannot make {folder}: {e}")))?;
        Ok(Self { part, data, sizes })
    }

    fn path(&self, name: &str) -> String {
        format!("{FOLDER}/{}/{name}", self.part)
    }

    /// Trained on questions of two other sets with their paragraphs, tested on SQuAD dev.
    fn training(&self) -> Outcome {
        self.hold_out(&self.mine_of_squad_sets("gold")?, &[])?;
        let corpus = self.path("corpus.tsv");
        self.data.mix(SQUAD, 0..BLOCKS, &corpus)?;
        let mut models = vec![(STARTER.to_owned(), DEMO_MODEL.to_owned())];
        for (name, data, warm_up, epochs) in [("1000", "some", "10", "2"), ("all", "all", "50", "1")] {
            models.extend(self.train_seeds(name, data, &["--warm-up", warm_up, "--epochs", epochs])?);
        }
        println!("\nthe weights of hybrid are tuned on the first {TUNED_ON} questions of SQuAD dev");
        let tuned_on = ["--questions", SQUAD, "--limit", TUNED_ON];
        let options = ["--questions", SQUAD, "--skip", TUNED_ON];
        self.rank(&models, &corpus, "english", &tuned_on, &options, Some(SQUAD))?;
        self.over_seeds(&["1000", "all"])
    }

    /// Mines the questions of new Wikipedia articles and of Amazon reviews from blocks of their own paragraphs; the
    /// names of the training files. Positives are `gold` or `distant`.
    fn mine_of_squad_sets(&self, positives: &str) -> Outcome<Vec<String>> {
        let mine = |set: &str| -> Outcome<String> {
            let squad = self.data.squad(set);
            let name = match positives {
                "gold" => format!("{set}.json.gz"),
                _ => format!("{set}-{positives}.json.gz"),
            };
            let [passages, blocks, words] =
                ["tsv", "blocks.tsv", "words"].map(|end| self.path(&format!("{set}.{end}")));
            let to =
                ["data", "convert", "--input", &squad, "--to", "psgs-tsv", "--lossy", "--out", &passages];
            once(&passages, &to)?;
            once(&blocks, &["data", "split", "--input", &passages, "--out", &blocks])?;
            once(&words, &["index", "--passages", &blocks, "--sparse", "english", "--out", &words])?;
            let mined = self.path(&name);
            let from = ["--index", &words, "--questions", &squad, "--positives", positives];
            once(&mined, &[&["data", "mine"], &from[..], &["--out", &mined]].concat())?;
            Ok(name)
        };
        ["new-wiki-v1.0", "amazon-v1.0"].into_iter().map(mine).collect()
    }

    /// Trained on questions whose passages BM25 found by their answers, tested on NQ test.
    fn distant(&self) -> Outcome {
        let blocks = self.data.blocks()?;
        let words = self.path("words");
        once(&words, &["index", "--passages", &blocks, "--sparse", "english", "--out", &words])?;
        let sets = ["nq-dev.tsv", "trivia-dev.tsv", "wq-train.json", "trec-train.tsv"];
        let mined: Vec<String> = sets.iter().map(|set| format!("{set}.json.gz")).collect();
        for (set, mined) in sets.iter().zip(&mined) {
            let (questions, out) = (self.data.questions(set), self.path(mined));
            once(&out, &["data", "mine", "--index", &words, "--questions", &questions, "--out", &out])?;
        }
        self.hold_out(&mined, &[])?;
        let mut models = vec![(STARTER.to_owned(), DEMO_MODEL.to_owned())];
        models.extend(self.train_seeds("trained", "all", &["--warm-up", "50", "--epochs", "1"])?);
        println!("\nNQ test among all blocks; the weight of hybrid is tuned on WebQuestions dev");
        let (test, tuning) = (self.data.questions("nq-test.tsv"), self.data.questions("wq-dev.json"));
        let options = ["--questions", &test, "--answerable"];
        self.rank(&models, &blocks, "english", &["--questions", &tuning], &options, None)?;
        self.over_seeds(&["trained"])
    }

    /// Ranks `corpus` by words of this language, by each model's vectors and by both, and compares; where `articles` is
    /// the SQuAD json of the questions, with intervals over whole articles.
    fn rank(
        &self,
        models: &[(String, String)],
        corpus: &str,
        language: &str,
        tuned_on: &[&str],
        options: &[&str],
        articles: Option<&str>,
    ) -> Outcome {
        let mut rankings = Vec::new();
        for (name, model) in models {
            let index = self.index(name, model, corpus, &["--sparse", language])?;
            let lambda = self.tune(model, &index, tuned_on)?;
            let results = self.path(&format!("results-{name}"));
            println!("\n{name}: hybrid with the weight {lambda}");
            let more = ["--lambda", &lambda, "--out", &results];
            eval(model, &index, "bm25,dense,hybrid", &[options, &more].concat())?;
            if rankings.is_empty() {
                rankings.push(format!("BM25={results}/bm25.json.gz"));
            }
            rankings.push(format!("dense, {name}={results}/dense.json.gz"));
            rankings.push(format!("BM25 + dense, {name}={results}/hybrid.json.gz"));
        }
        self.compare(&rankings, articles)
    }

    /// Trained on sentences and their blocks, from the starter model and from nothing; tested on SQuAD dev's
    /// paragraphs.
    fn ict(&self) -> Outcome {
        let blocks = self.data.blocks()?;
        for (file, limit) in [("starter", "4000"), ("random", "8000")] {
            let out = self.path(&format!("{file}.json.gz"));
            once(&out, &["data", "ict", "--passages", &blocks, "--limit", limit, "--out", &out])?;
        }
        let dev = self.path("dev.json.gz");
        let held_out = ["--limit", "500", "--seed", "7", "--out", &dev];
        once(&dev, &[&["data", "ict", "--passages", SQUAD], &held_out[..]].concat())?;
        let random = self.path("random.toml");
        write(&random, &with_lines("configs/ict.toml", &[FROM_RANDOM])?)?;
        self.train_by("from-starter", "configs/ict.toml", &["starter"], &["--warm-up", "10"])?;
        self.train_by("at-random", &random, &["random"], &["--learning-rate", "1e-9", "--max-steps", "1"])?;
        self.train_by("from-random", &random, &["random"], &["--warm-up", "20", "--learning-rate", "5e-4"])?;
        for (name, model) in [
            ("starter", DEMO_MODEL.to_owned()),
            ("from-starter", self.path("from-starter/best")),
            ("random", self.path("at-random/best")),
            ("from-random", self.path("from-random/best")),
        ] {
            let index = self.index(name, &model, SQUAD, &[])?;
            println!("\n{name}:");
            eval(&model, &index, "dense", &["--questions", SQUAD])?;
        }
        Ok(())
    }

    /// Joins training files, and holds some of their questions out; also writes a file of as many as each of `sizes`
    /// says.
    fn hold_out(&self, files: &[String], sizes: &[&str]) -> Outcome {
        if held_out(sizes).iter().all(|name| Path::new(&self.path(name)).exists()) {
            return Ok(());
        }
        let files: Vec<String> = files.iter().map(|file| self.path(file)).collect();
        let mut python = command(venv_python(), &["tests/bench/hold_out.py", "--out", &self.path("")]);
        process::run(python.args(files).arg("--first").args(sizes))
    }

    /// Trains a run by a configuration, or goes on with it; one that was begun with other settings is begun anew.
    fn train_by(&self, run: &str, config: &str, data: &[&str], more: &[&str]) -> Outcome {
        let dev = self.path("dev.json.gz");
        let files: Vec<String> = data.iter().map(|file| self.path(&format!("{file}.json.gz"))).collect();
        let mut arguments = vec!["train", "--config", config, "--model", DEMO_MODEL, "--dev", &dev];
        files.iter().for_each(|file| arguments.extend(["--data", file]));
        arguments.extend(more);
        train_or_go_on(&self.path(run), config, &arguments)
    }

    /// An index of the vectors that `model` makes of `corpus`.
    fn index(&self, name: &str, model: &str, corpus: &str, more: &[&str]) -> Outcome<String> {
        let [vectors, index] = ["vectors", "index"].map(|kind| self.path(&format!("{kind}-{name}")));
        encode(&format!("quality-{}-{name}", self.part), model, corpus, &vectors, &[])?;
        output(&mut command(dpr(), &[&["index", "--vectors", &vectors, "--out", &index], more].concat()))?;
        Ok(index)
    }

    /// The weight of dense scores that finds most.
    fn tune(&self, model: &str, index: &str, questions: &[&str]) -> Outcome<String> {
        let mut tune = command(dpr(), &["eval", "tune-hybrid", "--model", model, "--index", index, "--json"]);
        let tuned = output(tune.args(questions))?;
        Ok(number(&json(&tuned, "dpr eval tune-hybrid")?, "best_lambda")?.to_string())
    }

    fn compare(&self, rankings: &[String], articles: Option<&str>) -> Outcome {
        let plot = self.path("accuracy.svg");
        let mut compare = command(dpr(), &["eval", "compare", "--plot", &plot]);
        if let Some(questions) = articles {
            compare.args(["--cluster", "article", "--questions", questions]);
        }
        println!();
        process::run(compare.args(rankings))
    }
}

/// Runs `dpr` unless what it writes is there.
fn once(out: &str, arguments: &[&str]) -> Outcome {
    if is_there(out, arguments) {
        return Ok(());
    }
    process::run(&mut command(dpr(), arguments))
}

/// Returns whether what `dpr` writes with these arguments is there. It writes a file or a model whole or not at all; an
/// index has its folder from the beginning, and names its version in `current` at the end.
fn is_there(out: &str, arguments: &[&str]) -> bool {
    let out = Path::new(out);
    match arguments.first() {
        Some(&"index") => out.join("current").exists(),
        _ => out.exists(),
    }
}

/// Returns the names of the files that `hold_out.py` writes where it is asked for these sizes.
fn held_out(sizes: &[&str]) -> Vec<String> {
    let fixed = ["all", "some", "dev"].map(|name| format!("{name}.json.gz"));
    fixed.into_iter().chain(sizes.iter().map(|size| format!("first-{size}.json.gz"))).collect()
}

/// Trains a run of the starter by a configuration, or goes on with it; one that was begun with other settings or
/// another starter is begun anew.
fn train_or_go_on(run: &str, config: &str, arguments: &[&str]) -> Outcome {
    let model = read(&format!("{DEMO_MODEL}/model.json"))?;
    let asked = format!("{}\n{}{model}", arguments.join(" "), read(config)?);
    note(&format!("{run}.settings"), &asked, || clear(run))?;
    go_on(run, arguments)
}

/// Begins a training run, or goes on with it.
fn go_on(run: &str, arguments: &[&str]) -> Outcome {
    let task = arguments.first().copied().unwrap_or_default();
    let is_begun =
        ["config.toml", "rounds.json"].iter().any(|settings| Path::new(run).join(settings).exists());
    match is_begun {
        true => process::run(&mut command(dpr(), &[task, "--resume", "--out", run])),
        false => process::run(command(dpr(), arguments).args(["--device", "cpu", "--out", run])),
    }
}

fn eval(model: &str, index: &str, methods: &str, more: &[&str]) -> Outcome {
    let arguments = ["eval", "retrieval", "--model", model, "--index", index, "--methods", methods];
    process::run(command(dpr(), &arguments).args(more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_questions_are_those_of_figure_1_alone() {
        let parsed = |line: &str| parsed(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let (parts, sizes) =
            parsed("--only figure1 --questions 250 --only figure1-ict --questions all").unwrap();
        assert_eq!((parts, sizes), (vec![Part::Figure1, Part::Figure1Ict], vec!["250", "all"]));
        for line in ["--questions 250", "--only figure1 --only privacy --questions 250"] {
            let refused = parsed(line).unwrap_err().to_string();
            assert!(refused.contains("figure1 and figure1-ict, and of no other part"), "{line}: {refused}");
        }
    }

    #[test]
    fn an_index_that_was_begun_is_built_again_and_one_that_is_whole_is_not() {
        let folder = std::env::temp_dir().join(format!("dpr-begun-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(".lock"), "").unwrap();
        let out = folder.to_str().unwrap();
        let index = ["index", "--passages", "blocks.tsv", "--out", out];
        assert!(!is_there(out, &index));
        assert!(is_there(out, &["import", "--out", out]), "a model is written whole or not at all");
        fs::write(folder.join("current"), "v-1").unwrap();
        assert!(is_there(out, &index));
        fs::remove_dir_all(&folder).unwrap();
        assert!(!is_there(out, &index));
    }

    #[test]
    fn questions_are_held_out_again_where_a_size_is_asked_for_that_has_no_file() {
        assert_eq!(held_out(&[]), ["all.json.gz", "some.json.gz", "dev.json.gz"]);
        assert_eq!(held_out(&["250", "1000"])[3..], ["first-250.json.gz", "first-1000.json.gz"]);
    }

    /// Writes 12 articles of 3 blocks with 5 questions each, and holds 40 of them out; prints how many articles are on
    /// both sides, and the questions on each.
    const HELD_OUT: &str = r#"
import gzip, json, subprocess, sys
script, folder = sys.argv[1:]
items = [
    {
        "question": f"{article} {block} {number}?",
        "positive_ctxs": [{"title": f"Article {article}", "text": f"block {block} of {article}"}],
        "hard_negative_ctxs": [{}],
    }
    for article in range(12) for block in range(3) for number in range(5)
]
with gzip.open(f"{folder}/items.json.gz", "wt") as out:
    json.dump(items, out)
hold_out = [sys.executable, script, "--dev", "40", "--out", folder, f"{folder}/items.json.gz", "--first"]
subprocess.run([*hold_out, "10", "20"], check=True, stdout=subprocess.DEVNULL)
sides = [json.load(gzip.open(f"{folder}/{name}.json.gz")) for name in ("dev", "all")]
first, more = (json.load(gzip.open(f"{folder}/first-{size}.json.gz")) for size in (10, 20))
assert first == more[:10] and more == sides[1][:20]
too_many = subprocess.run([*hold_out, "136"], capture_output=True, text=True)
assert too_many.returncode == 2 and "more than the 135 questions" in too_many.stderr, too_many.stderr
articles = [{item["positive_ctxs"][0]["title"] for item in side} for side in sides]
print(len(articles[0] & articles[1]), *map(len, sides))
"#;

    #[test]
    fn an_article_is_held_out_whole() {
        let folder = std::env::temp_dir().join(format!("dpr-hold-out-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/bench/hold_out.py");
        let python =
            std::process::Command::new("python3").args(["-c", HELD_OUT]).arg(script).arg(&folder).output();
        let _ = fs::remove_dir_all(&folder);
        let python = python.unwrap();
        let said = String::from_utf8_lossy(&python.stdout);
        assert_eq!(said.trim(), "0 45 135", "{}", String::from_utf8_lossy(&python.stderr));
    }

    #[test]
    fn a_model_that_its_makers_trained_on_the_test_sets_is_not_called_zero_shot() {
        for file in ["README.md", "docs/benchmarks.md", "docs/introduction.md", "docs/korean.md"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
            let text = fs::read_to_string(path).unwrap();
            for line in text.lines().filter(|line| line.contains("zero-shot")) {
                assert!(line.contains("not zero-shot"), "{file}: {line}");
            }
        }
        assert_eq!(STARTER, "as-downloaded");
    }
}
