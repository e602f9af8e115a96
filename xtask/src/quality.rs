//! `cargo xtask quality`: what training makes of the encoders, in tables. Hours of work on two cores: what was done is kept
//! under `target/quality`, and a run that was stopped goes on.

use std::fs;
use std::path::Path;

use crate::bench::{json, number};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, MPNET, SQUAD, dpr, venv_python};
use crate::process::{self, command, output};
use crate::wikipedia::{Wikipedia, encode};
use crate::{demo_data, setup};

const FOLDER: &str = "target/quality";
/// Blocks of Wikipedia among the paragraphs of SQuAD dev.
const BLOCKS: usize = 20_000;
/// Blocks that NQ test is asked among.
const NQ_BLOCKS: usize = 20_000;
/// Blocks beside the paragraphs that the large teacher encodes.
const TEACHER_BLOCKS: usize = 4_000;
/// Questions of SQuAD dev's first 10 articles: weights are tuned on these, and the table is over the other 38.
const TUNED_ON: &str = "2015";

/// Each draws one sentence of every passage, for the student.
const SENTENCE_SEEDS: [&str; 4] = ["1", "2", "3", "4"];

/// All parts, in the order they run.
const PARTS: [&str; 4] = ["training", "distant", "ict", "distill"];

/// Runs the parts that `--only` names, or all.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let mut parts = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(flag) = rest.next() {
        match (flag, rest.next().filter(|part| PARTS.contains(part))) {
            ("--only", Some(part)) => parts.push(part),
            _ => {
                let parts = PARTS.join(", ");
                return Err(Failure::new(format!("quality takes --only PART, PART one of {parts}")));
            }
        }
    }
    if parts.is_empty() {
        parts.extend(PARTS);
    }
    setup::run(setup::Scope::All)?;
    demo_data::build()?;
    let Some(data) = Wikipedia::find() else { return Ok(()) };
    for part in parts {
        println!("\n=== {part} ===");
        let work = Work::new(part, &data)?;
        match part {
            "training" => work.training()?,
            "distant" => work.distant()?,
            "ict" => work.ict()?,
            _ => work.distill()?,
        }
    }
    Ok(())
}

/// One part's folder, and the data it reads.
struct Work<'a> {
    part: &'a str,
    data: &'a Wikipedia,
}

impl<'a> Work<'a> {
    fn new(part: &'a str, data: &'a Wikipedia) -> Outcome<Self> {
        let folder = format!("{FOLDER}/{part}");
        fs::create_dir_all(&folder).map_err(|e| Failure::new(format!("cannot make {folder}: {e}")))?;
        Ok(Self { part, data })
    }

    fn path(&self, name: &str) -> String {
        format!("{FOLDER}/{}/{name}", self.part)
    }

    /// Trained on questions of two other sets with their paragraphs, tested on SQuAD dev.
    fn training(&self) -> Outcome {
        for set in ["new-wiki-v1.0", "amazon-v1.0"] {
            let squad = self.data.squad(set);
            let [passages, blocks, words, mined] =
                ["tsv", "blocks.tsv", "words", "json.gz"].map(|end| self.path(&format!("{set}.{end}")));
            let to =
                ["data", "convert", "--input", &squad, "--to", "psgs-tsv", "--lossy", "--out", &passages];
            once(&passages, &to)?;
            once(&blocks, &["data", "split", "--input", &passages, "--out", &blocks])?;
            once(&words, &["index", "--passages", &blocks, "--sparse", "english", "--out", &words])?;
            let mine =
                ["data", "mine", "--index", &words, "--questions", &squad, "--positives", "gold", "--out"];
            once(&mined, &[&mine[..], &[&mined]].concat())?;
        }
        self.hold_out(&["new-wiki-v1.0.json.gz", "amazon-v1.0.json.gz"])?;
        self.train("trained-1000", "small-cpu", &["some"], &["--warm-up", "10", "--epochs", "2"])?;
        self.train("trained-all", "small-cpu", &["all"], &["--warm-up", "50", "--epochs", "1"])?;

        let corpus = self.path("corpus.tsv");
        self.data.mix(BLOCKS, &corpus)?;
        let models = [
            ("zero-shot", DEMO_MODEL.to_owned()),
            ("1000", self.path("trained-1000/best")),
            ("all", self.path("trained-all/best")),
        ];
        println!("\nthe weights of hybrid are tuned on the first {TUNED_ON} questions of SQuAD dev");
        let tuned_on = ["--questions", SQUAD, "--limit", TUNED_ON];
        self.rank(&models, &corpus, &tuned_on, &["--questions", SQUAD, "--skip", TUNED_ON])
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
        self.hold_out(&mined.iter().map(String::as_str).collect::<Vec<_>>())?;
        self.train("trained", "small-cpu", &["all"], &["--warm-up", "50", "--epochs", "1"])?;

        let corpus = self.path("corpus.tsv");
        self.data.first_blocks(NQ_BLOCKS, &corpus)?;
        println!(
            "\nNQ test among the first {NQ_BLOCKS} blocks; the weight of hybrid is tuned on WebQuestions dev"
        );
        let (test, tuning) = (self.data.questions("nq-test.tsv"), self.data.questions("wq-dev.json"));
        let models = [("zero-shot", DEMO_MODEL.to_owned()), ("trained", self.path("trained/best"))];
        self.rank(&models, &corpus, &["--questions", &tuning], &["--questions", &test])
    }

    /// Ranks `corpus` by words, by each model's vectors and by both, and compares.
    fn rank(&self, models: &[(&str, String)], corpus: &str, tuned_on: &[&str], asked: &[&str]) -> Outcome {
        let mut rankings = Vec::new();
        for (name, model) in models {
            let index = self.index(name, model, corpus, &["--sparse", "english"])?;
            let lambda = self.tune(model, &index, tuned_on)?;
            let results = self.path(&format!("results-{name}"));
            println!("\n{name}: hybrid with the weight {lambda}");
            let more = ["--lambda", &lambda, "--out", &results];
            eval(model, &index, "bm25,dense,hybrid", &[asked, &more].concat())?;
            if rankings.is_empty() {
                rankings.push(format!("BM25={results}/bm25.json.gz"));
            }
            rankings.push(format!("dense, {name}={results}/dense.json.gz"));
            rankings.push(format!("BM25 + dense, {name}={results}/hybrid.json.gz"));
        }
        self.compare(&rankings)
    }

    /// Trained on sentences and their blocks, from the starter model and from nothing; tested on SQuAD dev's paragraphs.
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
        let config = fs::read_to_string("configs/ict.toml").unwrap_or_default();
        let config = config.replace("weights = \"given\"", "weights = \"random\"");
        fs::write(&random, config).map_err(|e| Failure::new(format!("cannot write {random}: {e}")))?;
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

    /// A small question encoder beside its teacher, over the teacher's passages.
    fn distill(&self) -> Outcome {
        let teacher = self.path("teacher");
        let import = ["import", "--question", MPNET, "--pooling", "mean", "--normalize", "--out", &teacher];
        once(&teacher, &import)?;
        let corpus = self.path("corpus.tsv");
        self.data.mix(TEACHER_BLOCKS, &corpus)?;
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
        for file in questions.chain(self.sentences(&corpus)?) {
            arguments.extend(["--questions".to_owned(), file]);
        }
        let (dev, vectors) = (self.data.questions("nq-test.tsv"), self.path("vectors-teacher"));
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
        self.compare(&rankings)
    }

    /// Files of sentences of `corpus`, to learn from as from questions: what is asked later is about the same things.
    fn sentences(&self, corpus: &str) -> Outcome<Vec<String>> {
        let file = |seed: &str| -> Outcome<String> {
            let out = self.path(&format!("sentences-{seed}.json.gz"));
            once(&out, &["data", "ict", "--passages", corpus, "--seed", seed, "--out", &out])?;
            Ok(out)
        };
        SENTENCE_SEEDS.iter().map(|seed| file(seed)).collect()
    }

    /// Joins training files, and holds some of their questions out.
    fn hold_out(&self, files: &[&str]) -> Outcome {
        if Path::new(&self.path("all.json.gz")).exists() {
            return Ok(());
        }
        let files: Vec<String> = files.iter().map(|file| self.path(file)).collect();
        let mut python = command(venv_python(), &["tests/bench/hold_out.py", "--out", &self.path("")]);
        process::run(python.args(files))
    }

    fn train(&self, run: &str, config: &str, data: &[&str], more: &[&str]) -> Outcome {
        self.train_by(run, &format!("configs/{config}.toml"), data, more)
    }

    fn train_by(&self, run: &str, config: &str, data: &[&str], more: &[&str]) -> Outcome {
        let dev = self.path("dev.json.gz");
        let files: Vec<String> = data.iter().map(|file| self.path(&format!("{file}.json.gz"))).collect();
        let mut arguments = vec!["train", "--config", config, "--model", DEMO_MODEL, "--dev", &dev];
        files.iter().for_each(|file| arguments.extend(["--data", file]));
        arguments.extend(more);
        go_on(&self.path(run), &arguments)
    }

    /// An index of the vectors that `model` makes of `corpus`.
    fn index(&self, name: &str, model: &str, corpus: &str, more: &[&str]) -> Outcome<String> {
        let [vectors, index] = ["vectors", "index"].map(|kind| self.path(&format!("{kind}-{name}")));
        encode(&format!("quality-{}-{name}", self.part), model, corpus, &vectors)?;
        output(&mut command(dpr(), &[&["index", "--vectors", &vectors, "--out", &index], more].concat()))?;
        Ok(index)
    }

    /// The weight of dense scores that finds most.
    fn tune(&self, model: &str, index: &str, questions: &[&str]) -> Outcome<String> {
        let mut tune = command(dpr(), &["eval", "tune-hybrid", "--model", model, "--index", index, "--json"]);
        let tuned = output(tune.args(questions))?;
        Ok(number(&json(&tuned, "dpr eval tune-hybrid")?, "best_lambda")?.to_string())
    }

    fn compare(&self, rankings: &[String]) -> Outcome {
        let plot = self.path("accuracy.svg");
        println!();
        process::run(command(dpr(), &["eval", "compare", "--plot", &plot]).args(rankings))
    }
}

/// Runs `dpr` unless what it writes, whole or not at all, is there.
fn once(out: &str, arguments: &[&str]) -> Outcome {
    if Path::new(out).exists() {
        return Ok(());
    }
    process::run(&mut command(dpr(), arguments))
}

/// Begins a training run, or goes on with it.
fn go_on(run: &str, arguments: &[&str]) -> Outcome {
    let task = arguments.first().copied().unwrap_or_default();
    match Path::new(run).join("config.toml").exists() {
        true => process::run(&mut command(dpr(), &[task, "--resume", "--out", run])),
        false => process::run(command(dpr(), arguments).args(["--device", "cpu", "--out", run])),
    }
}

fn eval(model: &str, index: &str, methods: &str, more: &[&str]) -> Outcome {
    let arguments = ["eval", "retrieval", "--model", model, "--index", index, "--methods", methods];
    process::run(command(dpr(), &arguments).args(more))
}
