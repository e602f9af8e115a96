//! Rounds of training: each mines the hard negatives of the model before, and a killed one goes on.

use crate::support::common;
use crate::support::run;
use crate::support::squad;

use std::process::Command;

use common::{Bench, fail, fixtures, succeed};
use dpr_data::{TrainingItem, read_training};
use serde_json::Value;

const SETTINGS: &str = "
[model]
max_question_tokens = 32
max_passage_tokens = 64
[optimiser]
learning_rate = 1e-3
warm_up = 2
[run]
batch_size = 8
epochs = 1
checkpoint_every = 3
[compute]
threads = 2
";

/// A model, `squad.json` with 36 paragraphs and 72 questions, and `train.toml`.
fn prepared() -> Bench {
    let bench = Bench::new();
    bench.write("squad.json", squad::articles(0..3, 12).to_string());
    bench.write("train.toml", SETTINGS);
    bench
}

fn rounds(bench: &Bench, count: &str, out: &str, more: &[&str]) -> Command {
    let mut command = bench.dpr(&["train", "--config", "train.toml", "--model", "model", "--device", "flex"]);
    command.args(["--rounds", count, "--passages", "squad.json", "--questions", "squad.json"]);
    command.args(["--positives", "gold", "--out", out]).args(more);
    command
}

fn mined(bench: &Bench, path: &str) -> Vec<TrainingItem> {
    read_training(&bench.path(path)).unwrap().map(Result::unwrap).collect()
}

fn weights(bench: &Bench, run: &str) -> Vec<u8> {
    let encoder = bench.path(run).join("best/question_encoder/model.safetensors");
    fs_err::read(encoder).unwrap()
}

#[test]
fn each_round_mines_with_the_model_before_and_a_killed_one_goes_on() {
    let bench = prepared();
    let said = succeed(&mut rounds(&bench, "2", "whole", &[]));
    assert!(said.contains("after 2 rounds: whole/2/run/best"), "{said}");
    assert_ne!(weights(&bench, "whole/1/run"), weights(&bench, "whole/2/run"));
    // The same by hand.
    let first = "whole/1/run/best";
    let encode = ["encode", "--model", first, "--passages", "squad.json", "--out", "vectors"];
    succeed(bench.dpr(&encode).args(["--device", "flex"]));
    succeed(&mut bench.dpr(&["index", "--vectors", "vectors", "--sparse", "english", "--out", "index"]));
    let mine = ["data", "mine", "--index", "index", "--model", first, "--questions", "squad.json"];
    let more = ["--hard", "dense", "--positives", "gold", "--device", "flex", "--out", "by-hand.json"];
    succeed(bench.dpr(&mine).args(more));
    assert_eq!(mined(&bench, "whole/2/train.json.gz"), mined(&bench, "by-hand.json"));
    assert_ne!(mined(&bench, "whole/1/train.json.gz"), mined(&bench, "whole/2/train.json.gz"));
    for gone in ["vectors", "index"] {
        assert!(!bench.path("whole/1").join(gone).exists(), "{gone} takes space and is not needed");
    }

    // Killed within the training of either round.
    for round in ["1", "2"] {
        let out = format!("killed-{round}");
        run::kill_after(rounds(&bench, "2", &out, &[]), &bench.path(&format!("{out}/{round}/run")), 4);
        let resume = ["train", "--resume", "--device", "flex", "--out", out.as_str()];
        let other = fail(bench.dpr(&resume).args(["--batch-size", "4"]));
        assert!(other.contains("batch_size = 8, not batch_size = 4"), "{other}");
        for (flag, value, expected) in [
            ("--task", "reader", "holds rounds, which are of retrieval: leave --task reader out"),
            ("--teacher", "model", "without teacher, not teacher = \"model\""),
            ("--max-tokens", "64", "--max-tokens is of a reader or a reranker"),
        ] {
            let refused = fail(bench.dpr(&resume).args([flag, value]));
            assert!(refused.contains(expected), "{flag}: {refused}");
        }
        let path = bench.path(&out).join("rounds.json");
        let mut state: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
        assert_eq!(state["format_version"], 1);
        state["format_version"] = 2.into();
        fs_err::write(&path, state.to_string()).unwrap();
        let newer = fail(&mut bench.dpr(&resume));
        assert!(newer.contains("it has format 2, this version reads 1"), "{newer}");
        // A file without it is of the first format.
        state.as_object_mut().unwrap().remove("format_version");
        fs_err::write(&path, state.to_string()).unwrap();
        // The model of the environment is not that of the rounds.
        succeed(bench.dpr(&resume).env("DPR_MODEL", "nowhere"));
        assert_eq!(weights(&bench, &format!("{out}/2/run")), weights(&bench, "whole/2/run"), "{out}");
        let again = succeed(&mut bench.dpr(&resume));
        assert!(again.contains("after 2 rounds"), "nothing is left to do: {again}");
    }
    let again = fail(&mut rounds(&bench, "2", "whole", &[]));
    assert!(again.contains("holds a run") && again.contains("--resume"), "{again}");
}

#[test]
fn a_round_trains_on_other_files_too_and_denoises() {
    let bench = prepared();
    let mut import = bench.dpr(&["import", "--out", "reranker", "--cross-encoder"]);
    succeed(import.arg(fixtures().join("cross-encoders/bert")));
    bench.write("more.json", serde_json::json!(squad::items(10..11, 24)).to_string());
    let more = ["--data", "more.json", "--denoise", "reranker", "--max-steps", "2"];
    succeed(&mut rounds(&bench, "1", "run", &more));
    let settings = fs_err::read_to_string(bench.path("run/1/run/config.toml")).unwrap();
    assert!(settings.contains("more.json") && settings.contains("run/1/train.json.gz"), "{settings}");
    succeed(&mut rounds(&bench, "1", "plain", &["--max-steps", "2"]));
    let negatives = |run: &str| -> usize {
        mined(&bench, &format!("{run}/1/train.json.gz"))
            .iter()
            .map(|item| item.hard_negative_ctxs.len())
            .sum()
    };
    let (denoised, plain) = (negatives("run"), negatives("plain"));
    assert!(0 < denoised && denoised < plain, "{denoised} {plain}");
}

#[test]
fn a_round_mines_as_many_negatives_as_a_question_brings() {
    let bench = prepared();
    bench.write("squad.json", squad::articles(0..6, 12).to_string());
    let most = |out: &str, more: &[&str]| {
        succeed(&mut rounds(&bench, "1", out, more));
        let items = mined(&bench, &format!("{out}/1/train.json.gz"));
        items.iter().map(|item| item.hard_negative_ctxs.len()).max().unwrap()
    };
    assert_eq!(most("default", &["--max-steps", "1"]), 30);
    assert_eq!(most("more", &["--max-steps", "1", "--negatives", "40", "--batch-size", "2"]), 40);
    bench.write("train.toml", SETTINGS.replace("[run]", "[data]\nkept_negatives = 1000\n[run]"));
    assert_eq!(most("kept", &["--max-steps", "1"]), 30, "more may be kept, and none is brought");
}

#[test]
fn settings_that_the_model_the_device_or_the_data_do_not_fit_are_refused_before_the_first_step() {
    let bench = prepared();
    bench.write("empty.json", "[]");
    let refused = |more: &[&str], expected: &str| {
        let error = fail(&mut rounds(&bench, "1", "bad", more));
        assert!(error.contains(expected), "{more:?}: {error}");
        assert!(!bench.path("bad").exists(), "{more:?}: nothing was begun");
    };
    refused(&["--precision", "f16"], "compute.precision is f16");
    refused(&["--matryoshka", "32"], "sizes must be less than 32");
    // No more are mined than there are questions.
    refused(&["--batch-size", "73"], "a batch takes 73 questions, the training data has 72");
    refused(&["--dev", "empty.json"], "empty.json: no question to measure with");
    bench.write("train.toml", SETTINGS.replace("[model]\n", "[model]\nencoders = \"shared\"\n"));
    refused(&[], "model has two encoders");
    bench.write("train.toml", SETTINGS.replace("max_passage_tokens = 64", "max_passage_tokens = 192"));
    refused(&[], "model.max_passage_tokens is 192; the encoder takes from 4 to 128");
}

#[test]
fn what_a_later_step_would_refuse_is_said_before_the_first() {
    let bench = prepared();
    bench.write("bare.txt", "who signed it?\n");
    for (flag, value, expected) in [
        ("--denoise", "model", "cross-encoder"),
        ("--questions", "nowhere.json", "nowhere.json"),
        ("--questions", "bare.txt", "lists no answers: give it some, or leave it out"),
        ("--passages", "nowhere.tsv", "nowhere.tsv"),
        ("--dev", "nowhere.json", "nowhere.json"),
        ("--data", "nowhere.json", "nowhere.json"),
        ("--batch-size", "0", "run.batch_size is 0"),
        ("--task", "reranker", "--rounds is of retrieval"),
    ] {
        let mut command =
            bench.dpr(&["train", "--config", "train.toml", "--model", "model", "--rounds", "1"]);
        command.args(["--out", "bad", flag, value]);
        for (other, file) in [("--passages", "squad.json"), ("--questions", "squad.json")] {
            if other != flag {
                command.args([other, file]);
            }
        }
        let error = fail(&mut command);
        assert!(error.contains(expected), "{flag}: {error}");
        assert!(!bench.path("bad").exists(), "{flag}: nothing was begun");
    }
    let output = bench.dpr(&["train", "--rounds", "2", "--out", "bad"]).output().unwrap();
    assert!(output.status.code() == Some(2), "the corpus and the questions are missing");
    // A summary a step.
    let said = succeed(&mut rounds(&bench, "1", "json", &["--max-steps", "1", "--json"]));
    let summaries: Vec<Value> =
        serde_json::Deserializer::from_str(&said).into_iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(
        (summaries.len(), &summaries[0]["passages"], &summaries[3]["steps"]),
        (4, &36.into(), &1.into())
    );
}
