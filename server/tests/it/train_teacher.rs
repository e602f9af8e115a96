//! Encoders that learn a teacher's scores beside the labels.

use crate::support::common::{Bench, fail, fixtures, succeed};
use crate::support::run::{self, losses};
use crate::support::squad;

use std::process::Command;

const SETTINGS: &str = "
[model]
start = \"model\"
max_question_tokens = 32
max_passage_tokens = 64
[data]
negatives_per_question = 2
[[data.train]]
path = \"train.json\"
[optimiser]
learning_rate = 1e-3
warm_up = 2
[run]
batch_size = 8
epochs = 1
checkpoint_every = 1
[compute]
threads = 2
";

/// A model, a cross-encoder, a reader with a selection layer, training data and settings.
fn prepared() -> Bench {
    let bench = Bench::new();
    succeed(bench.dpr(&["import", "--out", "reader", "--reader"]).arg(fixtures().join("readers/dpr")));
    let classifier = fixtures().join("cross-encoders/bert");
    succeed(bench.dpr(&["import", "--out", "cross-encoder", "--cross-encoder"]).arg(classifier));
    bench.write("train.json", serde_json::json!(squad::items(0..6, 16)).to_string());
    bench.write("train.toml", SETTINGS);
    bench
}

fn train(bench: &Bench, out: &str, more: &[&str]) -> Command {
    let mut command = bench.dpr(&["train", "--config", "train.toml", "--device", "flex", "--out", out]);
    command.args(more);
    command
}

#[test]
fn encoders_learn_the_scores_of_a_cross_encoder_or_a_reader_and_go_on_after_a_kill() {
    let bench = prepared();
    let weights = |out: &str| {
        fs_err::read(bench.path(&format!("{out}/best/question_encoder/model.safetensors"))).unwrap()
    };
    succeed(&mut train(&bench, "labels", &[]));
    for (out, teacher) in [("of-reader", "reader"), ("of-cross-encoder", "cross-encoder")] {
        succeed(&mut train(&bench, out, &["--teacher", teacher]));
        assert_ne!(losses(&bench.path(out)), losses(&bench.path("labels")));
    }
    assert_ne!(losses(&bench.path("of-reader")), losses(&bench.path("of-cross-encoder")));
    let settings = fs_err::read_to_string(bench.path("of-reader/config.toml")).unwrap();
    for said in ["teacher = \"reader\"", "teacher_loss = \"divergence\"", "teacher_weight = 0.5"] {
        assert!(settings.contains(said), "{settings}");
    }

    let killed = train(&bench, "killed", &["--teacher", "cross-encoder"]);
    run::kill_after(killed, &bench.path("killed"), 4);
    let resume = || bench.dpr(&["train", "--resume", "--device", "flex", "--out", "killed"]);
    // A run does not go on with another teacher, though it has the first one's name.
    fs_err::rename(bench.path("cross-encoder"), bench.path("first")).unwrap();
    fs_err::rename(bench.path("reader"), bench.path("cross-encoder")).unwrap();
    let error = fail(&mut resume());
    assert!(error.contains("another teacher"), "{error}");
    fs_err::rename(bench.path("cross-encoder"), bench.path("reader")).unwrap();
    fs_err::rename(bench.path("first"), bench.path("cross-encoder")).unwrap();
    succeed(&mut resume());
    assert!(
        weights("killed") == weights("of-cross-encoder"),
        "the steps are those of a run that was not killed"
    );

    let taught = |more: &str| SETTINGS.replace("[run]", &format!("[objective]\n{more}\n[run]"));
    bench.write("train.toml", taught("teacher_loss = \"margin\""));
    succeed(&mut train(&bench, "margin", &["--teacher", "cross-encoder"]));
    assert_ne!(losses(&bench.path("margin")), losses(&bench.path("of-cross-encoder")));
    bench.write("train.toml", taught("teacher_weight = 0.0"));
    succeed(&mut train(&bench, "none", &["--teacher", "cross-encoder"]));
    assert_eq!(
        losses(&bench.path("none")),
        losses(&bench.path("labels")),
        "without a share it changes nothing"
    );
}

#[test]
fn a_teacher_that_cannot_teach_is_named_before_the_first_step() {
    let bench = prepared();
    succeed(bench.dpr(&["import", "--out", "spans", "--reader"]).arg(fixtures().join("readers/bert")));
    let refused = |teacher: &str, expected: &str| {
        for more in [&[][..], &["--dry-run"]] {
            let error = fail(train(&bench, "bad", &["--teacher", teacher]).args(more));
            assert!(error.contains(expected), "{error}");
            assert!(!bench.path("bad").exists());
        }
    };
    refused("model", "model.teacher is model, which holds encoders; a teacher is a cross-encoder");
    refused("spans", "model.teacher is spans, a reader that chooses passages by their spans");
    refused("nowhere", "nowhere is not a model directory");
    bench.write("train.toml", SETTINGS.replace("negatives_per_question = 2", "negatives = \"gold\""));
    refused("reader", "model.teacher is reader; it scores the passages that a question brings");
    for weight in ["-0.1", "1.5", "nan"] {
        bench.write(
            "train.toml",
            SETTINGS.replace("[run]", &format!("[objective]\nteacher_weight = {weight}\n[run]")),
        );
        refused("reader", "objective.teacher_weight is");
    }
}

#[test]
fn rounds_have_a_teacher_too() {
    let bench = prepared();
    bench.write("squad.json", squad::articles(0..3, 24).to_string());
    let settings = SETTINGS.replace("[[data.train]]\npath = \"train.json\"\n", "");
    bench.write("train.toml", settings);
    let rounds = |out: &str, more: &[&str]| {
        let mut command = train(&bench, out, &["--rounds", "1", "--max-steps", "2", "--positives", "gold"]);
        command.args(["--passages", "squad.json", "--questions", "squad.json"]).args(more);
        command
    };
    let error = fail(&mut rounds("bad", &["--teacher", "nowhere"]));
    assert!(error.contains("nowhere is not a model directory"), "{error}");
    assert!(!bench.path("bad").exists(), "nothing was begun");
    succeed(&mut rounds("run", &["--teacher", "cross-encoder"]));
    succeed(&mut rounds("plain", &[]));
    assert_ne!(losses(&bench.path("run/1/run")), losses(&bench.path("plain/1/run")));
}
