//! A small question encoder learns from a large one, and asks its indexes.

use crate::support::common;
use crate::support::run;
use crate::support::squad;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use common::{Bench, fail, fixtures, json, succeed};
use dpr_core::device::Device;
use dpr_core::{EncoderBytes, TextEncoder};
use dpr_train::{DistillConfig, PairConfig, Settings, Sharing, TrainConfig};
use run::{kill_after, losses};
use serde_json::{Value, json};

const SETTINGS: &str = "
[model]
teacher = \"teacher\"
start = \"student\"
[data]
questions = [\"questions.txt\"]
dev_questions = 40
[optimiser]
learning_rate = 1e-3
warm_up = 5
[run]
batch_size = 16
epochs = 3
checkpoint_every = 5
[compute]
threads = 2
";

/// A teacher and a student of another family, whose vectors have 48 numbers, and 400 questions.
fn prepared() -> Bench {
    let bench = Bench::new();
    bench.import("dpr-tiny-projected", "teacher");
    let mut import = bench.dpr(&["import", "--project", "48", "--out", "student", "--pooling", "mean"]);
    succeed(import.arg("--question").arg(fixtures().join("mpnet-tiny")));
    let questions: Vec<String> = squad::items(0..8, 50)
        .iter()
        .map(|item| item["question"].as_str().unwrap().replace('\t', " "))
        .collect();
    bench.write("questions.txt", questions.join("\n"));
    bench.write("distill.toml", SETTINGS);
    bench
}

fn distill(bench: &Bench, out: &str, more: &[&str]) -> Command {
    let mut command = bench.dpr(&["distill", "--config", "distill.toml", "--device", "flex", "--out", out]);
    command.args(more);
    command
}

/// Vectors of 60 passages by the teacher, and an index of them.
fn index(bench: &Bench) {
    bench.corpus(60);
    let encode = ["encode", "--model", "teacher", "--passages", "corpus.tsv", "--out", "vectors"];
    succeed(&mut bench.dpr(&encode));
    succeed(&mut bench.dpr(&["index", "--vectors", "vectors", "--out", "index", "--kind", "exact"]));
}

#[test]
fn a_student_comes_nearer_to_its_teacher_and_asks_its_index() {
    let bench = prepared();
    index(&bench);
    bench.write("distill.toml", SETTINGS.replace("[data]", "fit_projection = false\n[data]"));
    let report = json(&mut distill(&bench, "run", &["--vectors", "vectors", "--epochs", "8", "--json"]));
    let (start, best) = (&report["at_start"], &report["best"]["scores"]);
    println!("at the start {start}, distilled {best}");
    let of = |scores: &Value, name: &str| scores[name].as_f64().unwrap();
    assert_eq!(start["questions"], 40, "a tenth of them");
    let apart = |scores: &Value| 1.0 - of(scores, "cosine");
    assert!(apart(best) < 0.2 * apart(start), "{start} {best}");
    assert!(of(best, "loss") < 0.2 * of(start, "loss"), "{start} {best}");
    assert!(of(best, "shared") > of(start, "shared") + 0.2, "{start} {best}");

    let manifest = |model: &str| -> Value {
        serde_json::from_slice(&fs_err::read(bench.path(model).join("model.json")).unwrap()).unwrap()
    };
    let (teacher, student) = (manifest("teacher"), manifest("run/best"));
    assert_eq!(student["space"], teacher["fingerprint"]);
    assert_ne!(student["fingerprint"], teacher["fingerprint"]);
    assert_eq!((&student["family"], &student["shared"]), (&json!("mpnet"), &json!(false)));
    // It asks the teacher's index, and what it encodes is the teacher's to the bit.
    let search = ["search", "--model", "run/best", "--index", "index", "who is first?", "--json"];
    assert!(!json(&mut bench.dpr(&search)).to_string().is_empty());
    let encode = ["encode", "--model", "run/best", "--passages", "corpus.tsv", "--out", "again"];
    succeed(&mut bench.dpr(&encode));
    let bytes = |dir: &str| fs_err::read(bench.path(dir).join("vectors.f32")).unwrap();
    assert!(bytes("vectors") == bytes("again"));
}

#[test]
fn a_student_can_start_as_a_part_of_its_teacher() {
    let bench = prepared();
    let shrink = ["shrink", "--model", "teacher", "--layers", "1", "--units", "40", "--out", "part"];
    let tokens = ["--keep-tokens", "questions.txt", "--most-tokens", "150", "--max-tokens", "24", "--json"];
    let part = json(bench.dpr(&shrink).args(tokens));
    assert_eq!((&part["dim"], &part["max_question_tokens"]), (&json!(48), &json!(24)));
    let config = fs_err::read(bench.path("part/question_encoder/config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!((&config["num_hidden_layers"], &config["max_position_embeddings"]), (&json!(1), &json!(24)));
    assert_eq!(config["intermediate_size"], 40);
    assert!(config["vocab_size"].as_u64().unwrap() <= 150, "{config}");
    bench.write("distill.toml", SETTINGS.replace("[data]", "fit_projection = false\n[data]"));
    let report = json(&mut distill(&bench, "run", &["--model", "part", "--epochs", "8", "--json"]));
    let cosine = |scores: &Value| scores["cosine"].as_f64().unwrap();
    let (start, best) = (cosine(&report["at_start"]), cosine(&report["best"]["scores"]));
    println!("a layer of the teacher's: cosine {start} at the start, {best} distilled");
    assert!(1.0 - best < 0.5 * (1.0 - start), "{report}");
    // A page downloads it, and it is asked for the teacher's passages.
    succeed(&mut bench.dpr(&["export-web", "--model", "run/best", "--dtype", "q4"]));
    index(&bench);
    json(&mut bench.dpr(&["search", "--model", "run/best", "--index", "index", "who is first?", "--json"]));
    // Nothing but a model directory is replaced, and not the one that is read.
    for (out, why) in [("questions.txt", "it is a file"), ("vectors", "it holds `"), ("teacher", "is read")] {
        let shrink = ["shrink", "--model", "teacher", "--layers", "1", "--force", "--out", out];
        let message = fail(&mut bench.dpr(&shrink));
        assert!(message.contains(why) && message.contains("another --out"), "{message}");
    }
    assert!(bench.path("questions.txt").is_file() && bench.path("vectors/manifest.json").is_file());
    succeed(&mut bench.dpr(&["shrink", "--model", "teacher", "--layers", "1", "--force", "--out", "part"]));
    let more = ["shrink", "--model", "teacher", "--layers", "9", "--out", "more"];
    let message = fail(&mut bench.dpr(&more));
    assert!(message.contains("9 are to be kept: name a number from 1 to 2"), "{message}");
    assert!(!bench.path("more").exists());
}

#[test]
fn weights_in_4_bits_are_calibrated_by_questions_of_a_file() {
    let bench = prepared();
    let export = |more: &[&str]| bench.dpr(&[&["export-web", "--model", "teacher"], more].concat());
    let weights = || fs_err::read(bench.path("teacher/web/question_encoder.q4.safetensors")).unwrap();
    succeed(&mut export(&["--dtype", "q8,q4"]));
    let plain = weights();
    let said = succeed(&mut export(&["--dtype", "q8,q4", "--calibrate", "questions.txt"]));
    assert!(said.contains("(calibrated with "), "{said}");
    let calibrated = weights();
    assert!(plain != calibrated && plain.len() == calibrated.len());
    // What is refused leaves the export as it was.
    let message = fail(&mut export(&["--dtype", "f16,q8", "--calibrate", "questions.txt"]));
    assert!(message.contains("--dtype is f16,q8: add q4"), "{message}");
    bench.write("none.txt", "");
    let message = fail(&mut export(&["--dtype", "q4", "--calibrate", "none.txt"]));
    assert!(message.contains("none.txt"), "{message}");
    bench.write("one.txt", "who is it?\n");
    let message = fail(&mut export(&["--dtype", "q4", "--calibrate", "one.txt"]));
    assert!(
        message.contains("tokens, and its widest layer") && message.contains("more questions"),
        "{message}"
    );
    let message = fail(&mut export(&["--dtype", "q4", "--calibrate", "missing.txt"]));
    assert!(message.contains("missing.txt"), "{message}");
    assert!(weights() == calibrated);
}

/// Returns the vectors that a page with the weights of this format gives the questions of the bench.
fn page_vectors(bench: &Bench, model: &str, dtype: &str) -> Vec<Vec<f32>> {
    succeed(&mut bench.dpr(&["export-web", "--model", model, "--dtype", dtype]));
    let read = |path: &str| fs_err::read(bench.path(model).join(path)).unwrap();
    let (config, tokenizer) = (read("question_encoder/config.json"), read("question_encoder/tokenizer.json"));
    let web: Value = serde_json::from_slice(&read("web/web.json")).unwrap();
    let weights = read(web["weights"][dtype]["path"].as_str().unwrap());
    let weights = [("weights", weights.as_slice())];
    let files = EncoderBytes { config: &config, tokenizer: &tokenizer, weights: &weights };
    let encoder = TextEncoder::load(&files, None, &Device::Kernel).unwrap();
    let questions = fs_err::read_to_string(bench.path("questions.txt")).unwrap();
    questions.lines().map(|text| encoder.encode_question(text).unwrap().as_slice().to_vec()).collect()
}

#[test]
fn a_student_that_is_trained_in_4_bits_is_nearer_to_its_teacher_in_4_bits() {
    let bench = prepared();
    // Nothing but the rounding is between the student and its teacher.
    succeed(&mut bench.dpr(&["shrink", "--model", "teacher", "--out", "whole"]));
    bench.write("distill.toml", SETTINGS.replace("[data]", "fit_projection = false\n[data]"));
    let more = ["--model", "whole", "--epochs", "8", "--dtype", "q4", "--json"];
    let report = json(&mut distill(&bench, "run", &more));
    let teacher = page_vectors(&bench, "teacher", "q8");
    let apart = |model: &str| {
        let page = page_vectors(&bench, model, "q4");
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        let cosine = |(a, b): (&Vec<f32>, &Vec<f32>)| product(a, b) / (product(a, a) * product(b, b)).sqrt();
        1.0 - page.iter().zip(&teacher).map(cosine).sum::<f64>() / page.len() as f64
    };
    let (rounded, trained) = (apart("whole"), apart("run/best"));
    println!("1 less the cosine in 4 bits: {rounded} before, {trained} trained");
    assert!(trained < 0.3 * rounded, "{trained} {rounded}");
    // The run measures the student as it is rounded.
    let at_start = 1.0 - report["at_start"]["cosine"].as_f64().unwrap();
    assert!((at_start / rounded - 1.0).abs() < 0.3, "{at_start} {rounded}");
}

#[test]
fn the_last_layer_is_fitted_before_the_first_step() {
    let bench = prepared();
    let start = |fit: &str| {
        let out = format!("run-{fit}");
        let settings = SETTINGS.replace("[data]", &format!("fit_projection = {fit}\n[data]"));
        bench.write("distill.toml", settings);
        let report = json(&mut distill(&bench, &out, &["--max-steps", "1", "--json"]));
        report["at_start"]["cosine"].as_f64().unwrap()
    };
    let (fitted, given) = (start("true"), start("false"));
    assert!(fitted > given + 0.2, "{fitted} {given}");
}

#[test]
fn the_last_layer_is_fitted_to_questions_as_they_are_cut_in_training() {
    let bench = prepared();
    // One encoder serves both sides, and its tokenizer cuts at the larger limit.
    let at_start = |passage_limit: &str| {
        let (student, out) = (format!("student-{passage_limit}"), format!("run-{passage_limit}"));
        let mut import = bench.dpr(&["import", "--project", "48", "--pooling", "mean", "--out", &student]);
        import.args(["--max-question-tokens", "6", "--max-passage-tokens", passage_limit]);
        succeed(import.arg("--question").arg(fixtures().join("mpnet-tiny")));
        let more = ["--model", student.as_str(), "--max-steps", "1", "--json"];
        json(&mut distill(&bench, &out, &more))["at_start"]["cosine"].as_f64().unwrap()
    };
    let (same, larger) = (at_start("6"), at_start("64"));
    assert!((same - larger).abs() < 1e-6, "{same} {larger}");
}

#[test]
fn a_killed_distillation_goes_on_as_if_nothing_had_been() {
    for more in [&[][..], &["--dtype", "q4"]] {
        let bench = prepared();
        succeed(&mut distill(&bench, "whole", more));
        kill_after(distill(&bench, "killed", more), &bench.path("killed"), 7);
        succeed(&mut bench.dpr(&["distill", "--resume", "--device", "flex", "--out", "killed"]));
        let (whole, resumed) = (losses(&bench.path("whole")), losses(&bench.path("killed")));
        assert_eq!(whole.len(), 66, "22 batches in each of 3 epochs");
        assert_eq!(whole, resumed, "{more:?}");
    }
}

#[test]
fn a_distillation_does_not_go_on_among_other_passages() {
    let bench = prepared();
    index(&bench);
    kill_after(distill(&bench, "run", &["--vectors", "vectors"]), &bench.path("run"), 7);
    // As many passages, with other texts.
    fs_err::remove_dir_all(bench.path("vectors")).unwrap();
    let corpus = fs_err::read_to_string(bench.path("corpus.tsv")).unwrap();
    bench.write("other.tsv", corpus.replace(" w1", " v1"));
    let encode = ["encode", "--model", "teacher", "--passages", "other.tsv", "--out", "vectors"];
    succeed(&mut bench.dpr(&encode));
    let message = fail(&mut bench.dpr(&["distill", "--resume", "--device", "flex", "--out", "run"]));
    assert!(message.contains("other training data"), "{message}");
}

#[test]
fn a_distillation_does_not_go_on_with_other_dev_questions() {
    let bench = prepared();
    let questions = fs_err::read_to_string(bench.path("questions.txt")).unwrap();
    let (dev, train): (Vec<_>, Vec<_>) = questions.lines().partition(|line| line.len() % 5 == 0);
    bench.write("dev.txt", dev.join("\n"));
    bench.write("questions.txt", train.join("\n"));
    succeed(&mut distill(&bench, "run", &["--dev", "dev.txt", "--max-steps", "2"]));
    bench.write("dev.txt", dev[1..].join("\n"));
    let resume = ["distill", "--resume", "--device", "flex", "--out", "run"];
    let message = fail(&mut bench.dpr(&resume));
    assert!(message.contains("other training data or dev questions"), "{message}");
    bench.write("dev.txt", dev.join("\n"));
    succeed(&mut bench.dpr(&resume));
}

#[test]
fn a_distillation_goes_on_on_the_cpu_and_with_the_student_that_it_began_with() {
    let bench = prepared();
    succeed(distill(&bench, "run", &["--max-steps", "2"]).env("DPR_MODEL", "nowhere"));
    // On a GPU no number of threads is written down.
    let path = bench.path("run/config.toml");
    let settings = fs_err::read_to_string(&path).unwrap();
    assert!(settings.contains("start = \"student\"") && settings.contains("threads = 2"), "{settings}");
    fs_err::write(&path, settings.replace("threads = 2", "threads = 0")).unwrap();
    let resume = ["distill", "--resume", "--device", "flex", "--out", "run"];
    succeed(bench.dpr(&resume).env("DPR_MODEL", "nowhere"));
}

#[test]
fn questions_are_taken_out_of_training_data() {
    let bench = prepared();
    let passage = json!({ "title": "", "text": "a text", "passage_id": "1" });
    let item = |question: &str| json!({ "question": question, "answers": [], "positive_ctxs": [passage], "negative_ctxs": [], "hard_negative_ctxs": [] });
    let questions = fs_err::read_to_string(bench.path("questions.txt")).unwrap();
    bench.write("training.json", json!(questions.lines().map(item).collect::<Vec<_>>()).to_string());
    let report = |out: &str, more: &[&str]| {
        let more = [more, &["--max-steps", "2", "--json"]].concat();
        json(&mut distill(&bench, out, &more))["at_start"].clone()
    };
    assert_eq!(report("plain", &[]), report("training", &["--questions", "training.json"]));
}

#[test]
fn bad_input_is_named_with_what_to_do() {
    let bench = prepared();
    let message = fail(&mut distill(&bench, "bad", &["--model", "model"]));
    assert!(message.contains("vectors of 32 numbers, the teacher of 48"), "{message}");
    assert!(message.contains("--project 48"), "{message}");
    let mut import = bench.dpr(&["import", "--project", "48", "--out", "scaled", "--pooling", "mean"]);
    succeed(import.args(["--normalize", "true", "--question"]).arg(fixtures().join("mpnet-tiny")));
    let message = fail(&mut distill(&bench, "bad", &["--model", "scaled"]));
    let lengths = "scaled, whose vectors are scaled to length 1; those of the teacher are not";
    assert!(message.contains(lengths) && message.contains("--normalize false"), "{message}");
    bench.corpus(5);
    succeed(&mut bench.encode("other", &[]));
    let message = fail(&mut distill(&bench, "bad", &["--vectors", "other"]));
    assert!(message.contains("vectors of another model") && message.contains("dpr encode"), "{message}");
    let message = fail(&mut distill(&bench, "bad", &["--batch-size", "1000"]));
    assert!(message.contains("a batch takes 1000 questions, the training data has 360"), "{message}");
    bench.write("empty.txt", "");
    let message = fail(&mut distill(&bench, "bad", &["--questions", "empty.txt"]));
    assert!(message.contains("empty.txt"), "{message}");
    bench.write("distill.toml", SETTINGS.replace("[data]", "[objective]\ndistance = 0.0\n[data]"));
    let message = fail(&mut distill(&bench, "bad", &[]));
    assert!(message.contains("objective.distance is 0"), "{message}");
    assert!(!bench.path("bad").exists());
}

#[test]
fn a_directory_that_cannot_be_written_to_or_gone_on_with_is_named_before_the_teacher_encodes() {
    let bench = prepared();
    let early = |command: &mut Command| {
        let message = fail(command);
        assert!(!message.contains("encoding"), "{message}");
        message
    };
    let message = early(&mut distill(&bench, "teacher", &[]));
    assert!(message.contains("teacher holds `") && message.contains("does not belong there"), "{message}");
    let message = early(&mut distill(&bench, "questions.txt", &[]));
    assert!(message.contains("questions.txt"), "{message}");
    succeed(&mut distill(&bench, "run", &["--max-steps", "1"]));
    let other = ["distill", "--resume", "--device", "flex", "--out", "run", "--dtype", "q4"];
    let message = early(&mut bench.dpr(&other));
    assert!(message.contains("without dtype, not dtype = \"q4\""), "{message}");
    let message = early(&mut bench.dpr(&["train", "--resume", "--device", "flex", "--out", "run"]));
    assert!(message.contains("not of this command"), "{message}");
}

/// Returns the names of the settings in which two configurations differ.
fn differences<C: Settings>(one: &C, other: &C) -> BTreeSet<String> {
    let table = |config: &C| config.to_toml().unwrap().parse::<toml::Table>().unwrap();
    let (one, other) = (table(one), table(other));
    let names = |table: &toml::Table, section: &str| -> BTreeSet<String> {
        let settings = table.get(section).and_then(toml::Value::as_table);
        settings.into_iter().flatten().map(|(name, _)| name.clone()).collect()
    };
    let mut differing = BTreeSet::new();
    for section in one.keys() {
        for name in names(&one, section).union(&names(&other, section)) {
            if one[section].get(name) != other.get(section).and_then(|settings| settings.get(name)) {
                differing.insert(name.clone());
            }
        }
    }
    differing
}

/// Asserts that the comment at the beginning of a file names these settings.
fn named_in_the_head(text: &str, settings: &[&str]) {
    let head: String = text.lines().take_while(|line| line.starts_with('#')).collect();
    for setting in settings {
        assert!(head.contains(setting), "the head does not say that {setting} has another default: {head}");
    }
}

#[test]
fn the_files_of_configs_say_every_default() {
    let read = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs").join(name);
        let text = fs_err::read_to_string(&path).unwrap();
        (path, text)
    };
    let all_said = |text: &str, defaults: &str| {
        let said: toml::Table = text.parse().unwrap();
        for (section, settings) in defaults.parse::<toml::Table>().unwrap() {
            for name in settings.as_table().unwrap().keys().filter(|name| *name != "train") {
                assert!(said[&section].get(name).is_some(), "[{section}] does not say {name}");
            }
        }
    };
    let (path, text) = read("nq-paper.toml");
    let paper = TrainConfig::read(&path).unwrap();
    all_said(&text, &TrainConfig::default().to_toml().unwrap());
    let other = [
        "checkpoint_every",
        "dev_questions",
        "bucket",
        "encoders",
        "max_passage_tokens",
        "max_question_tokens",
    ];
    assert_eq!(differences(&paper, &TrainConfig::default()), BTreeSet::from(other.map(str::to_owned)));
    named_in_the_head(&text, &other);
    // Settings of the paper that differ from the defaults.
    assert_eq!((paper.data.bucket, paper.model.encoders), (1, Sharing::Separate));
    assert_eq!((paper.model.max_question_tokens, paper.model.max_passage_tokens), (Some(256), Some(256)));

    let (path, text) = read("distill.toml");
    all_said(&text, &DistillConfig::default().to_toml().unwrap());
    assert_eq!(DistillConfig::read(&path).unwrap(), DistillConfig::default());
    // What a section leaves out has the default of a distillation, and not that of the section's type.
    let small = DistillConfig::read(&read("distill-small.toml").0).unwrap();
    let own = ["checkpoint_every", "epochs", "learning_rate"];
    assert_eq!(differences(&small, &DistillConfig::default()), BTreeSet::from(own.map(str::to_owned)));
    let q4 = DistillConfig::read(&read("distill-q4.toml").0).unwrap();
    let own = ["checkpoint_every", "dtype", "epochs", "fit_projection", "learning_rate"];
    assert_eq!(differences(&q4, &DistillConfig::default()), BTreeSet::from(own.map(str::to_owned)));
    let (path, text) = read("reader-paper.toml");
    all_said(&text, &PairConfig::default().to_toml().unwrap().replace("task = \"reader\"", ""));
    let paper = PairConfig::read(&path).unwrap();
    let own = ["bucket", "max_tokens"];
    assert_eq!(differences(&paper, &PairConfig::default()), BTreeSet::from(own.map(str::to_owned)));
    named_in_the_head(&text, &own);
    let small = PairConfig::read(&read("reader-cpu.toml").0).unwrap();
    assert_eq!((small.run.batch_size, small.optimiser.clip), (16, PairConfig::default().optimiser.clip));
    for name in ["reranker-cpu.toml", "rounds-teacher-cpu.toml"] {
        PairConfig::read(&read(name).0).unwrap();
    }
    for name in ["small-cpu.toml", "rounds-cpu.toml", "ict.toml", "korean-cpu.toml", "korean-cloze.toml"] {
        let (path, text) = read(name);
        TrainConfig::read(&path).unwrap();
        assert!(!text.contains("is as in nq-paper.toml"), "{name}: nq-paper.toml is not what is left out");
    }
}

#[test]
fn a_run_whose_best_model_is_worse_than_its_start_says_so_when_it_goes_on() {
    let bench = prepared();
    succeed(&mut distill(&bench, "run", &["--max-steps", "2"]));
    let path = bench.path("run/metrics.jsonl");
    let metrics = fs_err::read_to_string(&path).unwrap();
    let (first, rest) = metrics.split_once('\n').unwrap();
    let mut first: Value = serde_json::from_str(first).unwrap();
    assert_eq!((&first["kind"], &first["step"]), (&json!("dev"), &json!(0)));
    first["cosine"] = json!(1.0);
    fs_err::write(&path, format!("{first}\n{rest}")).unwrap();
    let mut resume = bench.dpr(&["distill", "--resume", "--device", "flex", "--out", "run"]);
    let output = resume.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("cosine to the teacher was 1.0000 at the start and is"), "{told}");
}
