//! Whole runs: killed and resumed, given bad input, and long enough to learn.

use crate::support::common;
use crate::support::run;
use crate::support::squad;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Bench, error_of, fail, fixtures, json, succeed};
use run::{losses, metrics};
use serde_json::{Value, json};

const SETTINGS: &str = "
[model]
start = \"model\"
max_question_tokens = 32
max_passage_tokens = 64
[data]
dev_questions = 100
[[data.train]]
path = \"train.json\"
[optimiser]
learning_rate = 1e-3
warm_up = 10
[run]
batch_size = 8
epochs = 3
checkpoint_every = 5
[compute]
chunk_rows = 4
tape_tokens = 500
threads = 2
";

/// A model, `train.json` with 96 questions, `dev.json` with 40, and `train.toml`.
fn prepared() -> Bench {
    let bench = Bench::new();
    bench.write("train.json", json!(squad::items(0..6, 16)).to_string());
    bench.write("dev.json", json!(squad::items(40..42, 20)).to_string());
    bench.write("train.toml", SETTINGS);
    bench
}

fn train(bench: &Bench, out: &str, more: &[&str]) -> Command {
    let mut command = bench.dpr(&["train", "--config", "train.toml", "--device", "flex", "--out", out]);
    command.args(more);
    command
}

fn resume(bench: &Bench, out: &str) -> Command {
    bench.dpr(&["train", "--resume", "--device", "flex", "--out", out])
}

fn kill_after(bench: &Bench, out: &str, steps: usize) {
    run::kill_after(train(bench, out, &[]), &bench.path(out), steps);
}

#[test]
fn a_killed_run_goes_on_as_if_nothing_had_been() {
    let bench = prepared();
    succeed(&mut train(&bench, "whole", &[]));
    let whole = losses(&bench.path("whole"));
    assert_eq!(whole.len(), 36, "12 batches in each of 3 epochs");
    // Before the first checkpoint, between two, and in the second epoch.
    for (number, steps) in [3, 8, 17].into_iter().enumerate() {
        let out = format!("killed-{number}");
        kill_after(&bench, &out, steps);
        succeed(&mut resume(&bench, &out));
        let resumed = losses(&bench.path(&out));
        assert_eq!(resumed.len(), whole.len());
        let furthest = whole.iter().zip(&resumed).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        println!("killed after {steps} steps: losses within {furthest:.1e}");
        assert!(furthest <= 1e-6, "killed after {steps} steps: {whole:?}\n{resumed:?}");
    }
    let same = ["question_encoder", "passage_encoder"].map(|dir| {
        let weights = |run: &str| {
            fs_err::read(bench.path(run).join("best").join(dir).join("model.safetensors")).unwrap()
        };
        weights("whole") == weights("killed-1")
    });
    assert_eq!(same, [true, true], "the same weights to the bit");
}

#[test]
fn a_run_that_was_begun_on_a_gpu_goes_on_on_the_cpu() {
    let bench = prepared();
    kill_after(&bench, "run", 7);
    // On a GPU no number of threads is written down.
    let path = bench.path("run/config.toml");
    let settings = fs_err::read_to_string(&path).unwrap().replace("threads = 2", "threads = 0");
    fs_err::write(&path, &settings).unwrap();
    succeed(&mut resume(&bench, "run"));
    assert_eq!(losses(&bench.path("run")).len(), 36);
    assert_eq!(fs_err::read_to_string(&path).unwrap(), settings);
    let other = fail(resume(&bench, "run").args(["--threads", "3"]));
    assert!(other.contains("threads = 0, not threads = 3"), "{other}");
}

#[test]
fn the_model_of_the_environment_is_one_for_settings_that_name_none() {
    let bench = prepared();
    let once = ["--epochs", "1", "--max-steps", "1"];
    let start = |run: &str| {
        let settings = fs_err::read_to_string(bench.path(run).join("config.toml")).unwrap();
        settings.lines().find(|line| line.starts_with("start = ")).unwrap().to_owned()
    };
    succeed(train(&bench, "run", &once).env("DPR_MODEL", "nowhere"));
    assert_eq!(start("run"), "start = \"model\"");
    succeed(resume(&bench, "run").env("DPR_MODEL", "nowhere"));
    let flag = fail(train(&bench, "bad", &["--model", "elsewhere"]).env("DPR_MODEL", "model"));
    assert!(flag.contains("elsewhere"), "{flag}");
    bench.write("train.toml", SETTINGS.replace("start = \"model\"\n", ""));
    succeed(train(&bench, "named", &once).env("DPR_MODEL", "./model"));
    assert_eq!(start("named"), "start = \"./model\"");
    let none = fail(train(&bench, "bad", &once).env("DPR_MODEL", ""));
    assert!(none.contains("model.start is not given"), "{none}");
}

#[test]
fn a_run_does_not_go_on_with_other_dev_questions() {
    let bench = prepared();
    let more = ["--dev", "dev.json", "--max-steps", "6"];
    succeed(&mut train(&bench, "run", &more));
    // The same passages, asked for in other words.
    let dev = fs_err::read_to_string(bench.path("dev.json")).unwrap();
    let mut items: Value = serde_json::from_str(&dev).unwrap();
    items[0]["question"] = json!("in other words?");
    bench.write("dev.json", items.to_string());
    let error = fail(&mut resume(&bench, "run"));
    assert!(error.contains("other training data or dev questions"), "{error}");
    bench.write("dev.json", dev);
    succeed(&mut resume(&bench, "run"));
}

#[test]
fn a_run_whose_best_model_is_lost_warns_of_it_when_it_goes_on() {
    let bench = prepared();
    succeed(&mut train(&bench, "run", &["--dev", "dev.json", "--max-steps", "6"]));
    // The best model is of a step whose checkpoint is gone.
    let path = bench.path("run/checkpoints/step-0000006/state.json");
    let mut state: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    state["position"]["best"]["step"] = json!(1);
    fs_err::write(&path, state.to_string()).unwrap();
    fs_err::remove_dir_all(bench.path("run/best")).unwrap();
    let output = resume(&bench, "run").output().unwrap();
    let (error, said) = (error_of(&output), String::from_utf8_lossy(&output.stderr));
    assert!(error.contains("step-0000001, which holds the best weights"), "{error}");
    assert!(said.contains("unless a later model is better, the run ends with this error"), "{said}");
}

#[test]
fn a_run_directory_holds_all_there_is_to_know_and_a_model_that_encodes() {
    let bench = prepared();
    let report = json(&mut train(&bench, "run", &["--dev", "dev.json", "--epochs", "1", "--json"]));
    assert_eq!((&report["steps"], &report["at_start"]["questions"]), (&json!(12), &json!(40)));
    let run = bench.path("run");
    let text = fs_err::read_to_string(run.join("config.toml")).unwrap();
    for setting in ["epochs = 1", "dropout = 0.1", "clip = 2.0", "dev = [\"dev.json\"]"] {
        assert!(text.contains(setting), "no {setting} in {text}");
    }
    let measured: Vec<_> = metrics(&run).into_iter().filter(|metric| metric["kind"] == "dev").collect();
    assert_eq!(measured.iter().map(|m| m["step"].as_u64().unwrap()).collect::<Vec<_>>(), [0, 12]);
    for plot in ["loss.svg", "dev.svg"] {
        assert!(fs_err::read_to_string(run.join(plot)).unwrap().contains("Steps"), "{plot}");
    }
    bench.corpus(5);
    let encode = ["encode", "--model", "run/best", "--passages", "corpus.tsv", "--out", "vectors"];
    succeed(&mut bench.dpr(&encode));
    let again = fail(&mut train(&bench, "run", &[]));
    assert!(again.contains("holds a run") && again.contains("--resume"), "{again}");
    let other = fail(resume(&bench, "run").args(["--batch-size", "4"]));
    assert!(other.contains("batch_size = 8, not batch_size = 4"), "{other}");
}

#[test]
fn a_model_trained_with_nested_vectors_is_cut_without_being_told_and_another_is_not() {
    let bench = prepared();
    bench.corpus(5);
    let encode = |model: &str, dim: &str| {
        let passages = ["--passages", "corpus.tsv", "--device", "cpu", "--json"];
        let mut command = bench.dpr(&["encode", "--model", model, "--dim", dim]);
        command.args(passages).args(["--out", &format!("vectors-{dim}")]);
        command
    };
    let once = ["--epochs", "1", "--max-steps", "2"];
    succeed(train(&bench, "nested", &once).args(["--matryoshka", "16,8"]));
    let best = |name: &str| {
        let text = fs_err::read_to_string(bench.path("nested/best").join(name)).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    assert_eq!(best("model.json")["matryoshka"], true);
    assert_eq!(json(&mut encode("nested/best", "8"))["dim"], 8);
    let resumed = fail(resume(&bench, "nested").args(["--matryoshka", "16"]));
    assert!(resumed.contains("matryoshka = [16, 8]"), "{resumed}");

    succeed(&mut train(&bench, "whole", &once));
    let refused = fail(&mut encode("whole/best", "8"));
    assert!(refused.contains("does not say that it was trained for vectors of fewer numbers"), "{refused}");

    for (more, expected) in [
        (&["--matryoshka", "32"][..], "sizes must be less than 32"),
        (&["--matryoshka", "8,16"], "each size must be less than the one before"),
        (&["--matryoshka", "8", "--similarity", "l2"], "objective.similarity is l2"),
        (&["--matryoshka", "8", "--task", "reader"], "--matryoshka is of retrieval"),
    ] {
        let error = fail(&mut train(&bench, "refused", more));
        assert!(error.contains(expected), "{more:?}: {error}");
        assert!(!bench.path("refused").exists(), "{more:?} leaves nothing behind");
    }
    let mut import = bench.dpr(&["import", "--out", "projected", "--project", "40", "--question"]);
    succeed(import.arg(fixtures().join("dpr-tiny/question")));
    let error = fail(&mut train(&bench, "refused", &["--matryoshka", "8", "--model", "projected"]));
    assert!(error.contains("without --project"), "{error}");
}

#[test]
fn a_shared_model_trains_as_two_encoders_whose_frozen_embeddings_stay() {
    let bench = prepared();
    let mut import = bench.dpr(&["import", "--out", "shared", "--question"]);
    succeed(import.arg(fixtures().join("dpr-tiny/question")));
    let options = "encoders = \"separate\"\nfreeze_embeddings = true\nmax_question_tokens = 32";
    bench.write("train.toml", SETTINGS.replace("max_question_tokens = 32", options));
    succeed(&mut train(&bench, "run", &["--model", "shared", "--epochs", "1", "--seed", "7"]));
    let weights = |dir: &str| {
        let bytes = fs_err::read(bench.path(dir).join("model.safetensors")).unwrap();
        dpr_core::TensorMap::from_safetensors([("model.safetensors", bytes.as_slice())]).unwrap()
    };
    let [mut start, mut question, mut passage] =
        ["shared/question_encoder", "run/best/question_encoder", "run/best/passage_encoder"].map(weights);
    let names: Vec<(String, Vec<usize>)> =
        start.names().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect();
    for (name, shape) in names {
        let [start, question, passage] =
            [&mut start, &mut question, &mut passage].map(|map| map.take_f32(&name, &shape).unwrap());
        let is_frozen = name.starts_with("embeddings.");
        assert_eq!((start == question, start == passage), (is_frozen, is_frozen), "{name}");
        assert!(is_frozen || question != passage, "{name} is trained apart");
    }
}

#[test]
fn adding_up_two_batches_takes_half_the_steps_and_resumes_as_well() {
    let bench = prepared();
    bench.write("train.toml", SETTINGS.replace("batch_size = 8", "batch_size = 8\naccumulate = 2"));
    succeed(&mut train(&bench, "whole", &[]));
    let whole = losses(&bench.path("whole"));
    assert_eq!(whole.len(), 18, "6 steps in each of 3 epochs");
    kill_after(&bench, "killed", 8);
    succeed(&mut resume(&bench, "killed"));
    assert_eq!(losses(&bench.path("killed")), whole);
}

#[test]
fn a_run_in_bf16_learns_as_one_in_f32_and_goes_on_to_the_bit() {
    let bench = prepared();
    // Long enough that what is learnt shows beside the noise of dropout.
    let settings = SETTINGS.replace("epochs = 3", "epochs = 8");
    bench.write("train.toml", &settings);
    succeed(&mut train(&bench, "single", &[]));
    succeed(&mut train(&bench, "flagged", &["--precision", "bf16"]));
    bench.write("train.toml", format!("{settings}precision = \"bf16\"\n"));
    succeed(&mut train(&bench, "whole", &[]));
    assert_eq!(losses(&bench.path("flagged")), losses(&bench.path("whole")));
    let (single, whole) = (losses(&bench.path("single")), losses(&bench.path("whole")));
    assert_ne!(single, whole, "the products are in bf16");
    let (first, last) = (whole[0], whole[whole.len() - 6..].iter().sum::<f64>() / 6.0);
    let last_of_single = single[single.len() - 6..].iter().sum::<f64>() / 6.0;
    assert!((first - single[0]).abs() < 0.02 * single[0], "{first} and {}", single[0]);
    assert!(last < 0.8 * first && (last - last_of_single).abs() < 0.1 * first, "{last} and {last_of_single}");
    kill_after(&bench, "killed", 8);
    succeed(&mut resume(&bench, "killed"));
    assert_eq!(losses(&bench.path("killed")), whole);

    let refused = train(&bench, "half", &["--precision", "int8"]).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("int8") && error.contains("f32, f16 or bf16"), "{error}");
    let by_flag = fail(&mut train(&bench, "half", &["--precision", "f16"]));
    bench.write("train.toml", format!("{settings}precision = \"f16\"\n"));
    for error in [by_flag, fail(&mut train(&bench, "half", &[]))] {
        assert!(error.contains("compute.precision") && error.contains("say f32 or bf16"), "{error}");
    }
    assert!(!bench.path("half").exists());
}

#[test]
fn a_dry_run_says_what_a_run_takes_and_writes_nothing() {
    let bench = prepared();
    let command = ["train", "--config", "train.toml", "--dev", "train.json", "--device", "flex", "--dry-run"];
    let found = json(bench.dpr(&command).arg("--json"));
    assert_eq!((&found["steps_per_epoch"], &found["steps"]), (&json!(12), &json!(36)));
    assert!(found["loss"].as_f64().unwrap() > 0.0 && found["batch_texts"] == 24);
    let notes = found["notes"].to_string();
    assert!(notes.contains("96 of 96 dev questions are training questions"), "{notes}");
    let left: Vec<_> = fs_err::read_dir(bench.path(".")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 4, "{left:?}");
}

#[test]
fn a_model_that_compares_by_distance_is_not_trained_to_compare_otherwise_without_a_note() {
    let bench = prepared();
    let mut import = bench.dpr(&["import", "--similarity", "l2", "--out", "distance", "--question"]);
    succeed(import.arg(fixtures().join("dpr-tiny/question")));
    let notes = |more: &[&str]| {
        let mut command = train(&bench, "run", &["--dry-run", "--json"]);
        json(command.args(more))["notes"].to_string()
    };
    let lost = notes(&["--model", "distance"]);
    assert!(lost.contains("compares by l2, and objective.similarity is dot"), "{lost}");
    let gained = notes(&["--similarity", "l2"]);
    assert!(gained.contains("compares by dot, and objective.similarity is l2"), "{gained}");
    for kept in [notes(&["--model", "distance", "--similarity", "l2"]), notes(&["--similarity", "cosine"])] {
        assert!(!kept.contains("objective.similarity"), "{kept}");
    }
}

#[test]
fn bad_input_is_named_with_what_to_do() {
    let bench = prepared();
    let whole = squad::items(0..1, 16);
    let with = |change: fn(&mut Value)| {
        let mut items = whole.clone();
        change(&mut items[2]);
        bench.write("bad.json", json!(items).to_string());
        fail(&mut train(&bench, "bad", &["--data", "bad.json"]))
    };
    let message = with(|item| item["positive_ctxs"] = json!([]));
    assert!(message.contains("item 3") && message.contains("no positive passage"), "{message}");
    let message = with(|item| item["hard_negative_ctxs"] = json!([]));
    assert!(message.contains("item 3") && message.contains("dpr data mine"), "{message}");
    let message = fail(&mut train(&bench, "bad", &["--batch-size", "1000"]));
    assert!(message.contains("a batch takes 1000 questions, the training data has 96"), "{message}");
    let message = fail(&mut train(&bench, "bad", &["--model", "nowhere"]));
    assert!(message.contains("nowhere is not a model directory"), "{message}");
    bench.write("long.toml", SETTINGS.replace("max_passage_tokens = 64", "max_passage_tokens = 192"));
    let message = fail(&mut bench.dpr(&["train", "--config", "long.toml", "--out", "bad"]));
    assert!(message.contains("max_passage_tokens is 192; the encoder takes from 4 to 128"), "{message}");
    bench.write("typo.toml", "[run]\nbatchsize = 4\n");
    let message = fail(&mut bench.dpr(&["train", "--config", "typo.toml", "--out", "bad"]));
    assert!(message.contains("typo.toml") && message.contains("batchsize"), "{message}");
    let message = fail(&mut resume(&bench, "bad"));
    assert!(message.contains("holds no run to resume"), "{message}");
    bench.write("gold.toml", SETTINGS.replace("[data]\n", "[data]\nnegatives = \"gold\"\n"));
    let gold = ["train", "--config", "gold.toml", "--negatives", "7", "--out", "bad"];
    let message = fail(&mut bench.dpr(&gold));
    assert!(message.contains("--negatives has no effect beside negatives = \"gold\""), "{message}");
}

#[test]
fn a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_checkpoint() {
    let bench = prepared();
    let message = fail(&mut train(
        &bench,
        "run",
        &["--learning-rate", "1e30", "--warm-up", "6", "--checkpoint-every", "1"],
    ));
    assert!(message.contains("at step") && message.contains("on the questions"), "{message}");
    let kept = message.split("checkpoint is ").nth(1).unwrap();
    assert!(bench.path(kept).join("state.json").exists(), "{message}");
}

#[test]
fn a_damaged_checkpoint_is_refused_and_the_one_before_serves() {
    let bench = prepared();
    kill_after(&bench, "run", 13);
    let checkpoints = bench.path("run/checkpoints");
    let mut names: Vec<_> = fs_err::read_dir(&checkpoints)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("step-"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 2, "{names:?}");
    let newest = checkpoints.join(&names[1]);
    let file = newest.join("encoder-1.safetensors");
    let bytes = fs_err::read(&file).unwrap();
    fs_err::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let message = fail(&mut resume(&bench, "run"));
    assert!(message.contains(&names[1]) && message.contains("cut short"), "{message}");
    fs_err::remove_dir_all(newest).unwrap();
    let data = fs_err::read_to_string(bench.path("train.json")).unwrap();
    bench.write("train.json", data.replacen("question\":\"W", "question\":\"So w", 1));
    let message = fail(&mut resume(&bench, "run"));
    assert!(message.contains("other training data"), "{message}");
    bench.write("train.json", data);
    succeed(&mut resume(&bench, "run"));
    assert_eq!(losses(&bench.path("run")).len(), 36);
}

#[cfg(unix)]
#[test]
fn a_full_disk_during_a_checkpoint_leaves_the_one_before() {
    let bench = prepared();
    succeed(&mut train(&bench, "whole", &[]));
    kill_after(&bench, "run", 8);
    // No file may grow beyond 300 KiB: a checkpoint needs more, as on a disk that is full.
    let mut limited = Command::new("sh");
    let line = format!(
        "trap '' XFSZ; ulimit -f 300; exec {} train --resume --device flex --out run",
        env!("CARGO_BIN_EXE_dpr")
    );
    limited.args(["-c", &line]).current_dir(bench.path("."));
    let message = fail(&mut limited);
    assert!(message.contains("cannot write checkpoint") && message.contains("step-0000010"), "{message}");
    assert!(bench.path("run/checkpoints/step-0000005/state.json").exists());
    assert!(!bench.path("run/checkpoints/step-0000010").exists());
    succeed(&mut resume(&bench, "run"));
    assert_eq!(losses(&bench.path("run")), losses(&bench.path("whole")));
}

#[test]
fn two_runs_in_one_directory_do_not_meet() {
    let bench = prepared();
    let mut first = train(&bench, "run", &[]).stderr(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while !bench.path("run/config.toml").exists() && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let second = train(&bench, "run", &[]).output().unwrap();
    let is_running = first.try_wait().unwrap().is_none();
    first.kill().unwrap();
    first.wait().unwrap();
    let message = error_of(&second);
    assert!(!is_running || message.contains("in use by another run"), "{message}");
}

#[test]
fn training_finds_more_for_questions_it_has_not_seen() {
    let bench = Bench::new();
    let encoder = fixtures().join("dpr-tiny/question");
    let mut import = bench.dpr(&["import", "--pooling", "mean", "--out", "shared", "--question"]);
    succeed(import.arg(encoder));
    // Every tenth question is held out; its paragraph is seen with other questions.
    let (held_out, seen): (Vec<_>, Vec<_>) =
        squad::items(0..48, 100).into_iter().enumerate().partition(|(number, _)| number % 10 == 0);
    let without_numbers =
        |items: Vec<(usize, Value)>| items.into_iter().map(|(_, item)| item).collect::<Value>();
    bench.write("train.json", without_numbers(seen).to_string());
    bench.write("dev.json", without_numbers(held_out).to_string());
    let settings = SETTINGS
        .replace("dev_questions = 100", "dev_questions = 1000")
        .replace("max_passage_tokens = 64", "max_passage_tokens = 128")
        .replace("checkpoint_every = 5", "dropout = 0.0");
    bench.write("train.toml", settings.replace("chunk_rows = 4\ntape_tokens = 500\n", ""));
    let settings = ["--model", "shared", "--dev", "dev.json", "--batch-size", "32", "--epochs", "6"];
    let report =
        json(train(&bench, "run", &settings).args(["--learning-rate", "3e-3", "--warm-up", "20", "--json"]));
    let (start, best) = (&report["at_start"], &report["best"]["scores"]);
    println!("at the start {start}, trained {best}");
    let of = |scores: &Value, name: &str| scores[name].as_f64().unwrap();
    let (before, after, questions) = (of(start, "top5"), of(best, "top5"), of(start, "questions"));
    let share = (before + after) / 2.0;
    let standard_error = (2.0 * share * (1.0 - share) / questions).sqrt();
    assert!(
        after - before > 4.0 * standard_error,
        "top-5 {before} -> {after}, standard error {standard_error}"
    );
    assert!(of(best, "average_rank") < 0.65 * of(start, "average_rank"), "{start} {best}");
}
