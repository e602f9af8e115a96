//! Training of readers and rerankers: one step equals PyTorch's, runs are killed and resumed, and what they write is
//! read.

use crate::support::common;
use crate::support::golden;
use crate::support::reader::ReaderStep;
use crate::support::run;
use crate::support::squad;

use std::process::Command;

use common::{Bench, fail, fixtures, json, succeed};
use dpr_core::random::SplitMix;
use dpr_encode::model::{ReaderOptions, import_reader};
use dpr_train::{
    PairBatch, PairKind, PairModel, PairModelOptions, PairTask, Precision, RankLoss, Ranking, StepNoise,
    StepOptions, TrainDevice, reader_step, reranker_step,
};
use golden::{difference, lists};
use run::{losses, metrics};
use serde_json::{Value, json};

const STILL: StepNoise = StepNoise { dropout: 0.0, seed: 0 };

const SETTINGS: &str = "
task = \"reader\"
[model]
start = \"model\"
max_tokens = 128
[data]
negatives_per_question = 2
[[data.train]]
path = \"train.json\"
[optimiser]
learning_rate = 1e-3
warm_up = 5
[run]
batch_size = 8
epochs = 2
checkpoint_every = 5
[compute]
chunk_rows = 4
tape_tokens = 1000
threads = 2
";

fn whole() -> StepOptions {
    let most = 1 << 20;
    StepOptions {
        chunk_rows: 1000,
        chunk_tokens: most,
        tape_tokens: most,
        threads: 1,
        ..StepOptions::default()
    }
}

/// The reader of the fixtures, and the batch that PyTorch took.
fn fixture(step: &ReaderStep, device: &TrainDevice) -> (PairModel, PairBatch) {
    let dir = tempfile::tempdir().unwrap();
    let start = dir.path().join("reader");
    import_reader(&fixtures().join("readers/dpr"), &start, &ReaderOptions::default()).unwrap();
    let max_tokens = Some(step.max_tokens);
    let options = PairModelOptions { start, max_tokens, ..PairModelOptions::default() };
    let model = PairModel::start(PairTask::Reader, &options, 1, device).unwrap();
    assert!(model.drawn.is_empty(), "{:?}", model.drawn);
    let batch = PairBatch {
        ids: step.questions.iter().flat_map(|question| question.ids.clone()).collect(),
        types: Vec::new(),
        passages: step.questions.iter().map(|question| question.ids.len()).collect(),
        spans: step.questions.iter().map(|question| question.spans()).collect(),
        taught: Vec::new(),
    };
    (model, batch)
}

#[test]
fn inputs_and_marked_answers_are_those_of_the_reference() {
    let step = ReaderStep::read();
    let (start, _) = fixture(&step, &golden::device());
    let PairKind::Reader(config) = &start.kind else { panic!("a reader") };
    let tokenizer = &start.model.question().tokenizer;
    for question in &step.questions {
        let inputs = question
            .passages
            .iter()
            .map(|(title, text)| config.input(tokenizer, &question.question, title, text).unwrap());
        let inputs: Vec<_> = inputs.collect();
        assert!(inputs.iter().map(|input| input.ids()).eq(question.ids.iter().map(Vec::as_slice)));
        let spans = tokenizer.answer_spans(&inputs[0], &question.answers, 10).unwrap();
        assert_eq!(spans, question.spans(), "{}", question.question);
    }
}

#[test]
fn a_reader_s_loss_and_gradients_equal_pytorch_s() {
    let (device, step) = (golden::device(), ReaderStep::read());
    let (start, batch) = fixture(&step, &device);
    let outcome = reader_step(&start.model, &batch, &whole(), STILL, 1.0, &device).unwrap();
    let apart = (outcome.loss - step.loss).abs();
    assert!(apart <= 1e-5, "loss {}, PyTorch {}", outcome.loss, step.loss);
    let encoder = start.model.question();
    let (mut compared, mut worst) = (0, (0.0, String::new()));
    let all: f64 =
        encoder.parameters.iter().filter_map(|p| Some(golden::length(&step.gradient(&p.name)?))).sum();
    for (parameter, values) in encoder.parameters.iter().zip(&lists(&outcome.gradients)[0]) {
        let got = parameter.reorder(values, true);
        let part = parameter.name.strip_prefix("dense.0.");
        let expected = match part {
            Some(part) => [
                step.gradient(&format!("qa_outputs.{part}")).unwrap(),
                step.gradient(&format!("qa_classifier.{part}")).unwrap(),
            ]
            .concat(),
            None => step.gradient(&parameter.name).unwrap(),
        };
        assert_eq!(got.len(), expected.len(), "{}", parameter.name);
        let length = golden::length(&expected);
        let off: Vec<f32> = got.iter().zip(&expected).map(|(a, b)| a - b).collect();
        // Adding one number to all keys changes no probability, nor does one to all starts: rounding is left.
        if length < 1e-6 * all {
            assert!(golden::length(&off) < 1e-5 * all, "{} should be 0", parameter.name);
            continue;
        }
        let off = golden::length(&off) / length;
        assert!(off <= 1e-4, "gradient of {} is off by {off}", parameter.name);
        if off > worst.0 {
            worst = (off, parameter.name.clone());
        }
        compared += 1;
    }
    println!(
        "loss differs by {apart:.1e}; {compared} gradients, the worst off by {:.1e} ({})",
        worst.0, worst.1
    );
    assert!(compared > 30, "{compared}");
}

#[test]
fn chunks_encoded_twice_give_the_gradients_of_the_whole_batch() {
    let (device, step) = (golden::device(), ReaderStep::read());
    let (start, batch) = fixture(&step, &device);
    let expected = reader_step(&start.model, &batch, &whole(), STILL, 1.0, &device).unwrap();
    let noise = StepNoise { dropout: 0.1, seed: 7 };
    let chunks = |tape_tokens| StepOptions { chunk_rows: 2, tape_tokens, threads: 2, ..whole() };
    let of = |tape_tokens, noise| {
        reader_step(&start.model, &batch, &chunks(tape_tokens), noise, 1.0, &device).unwrap()
    };
    for tape_tokens in [0, 100, 1 << 20] {
        let outcome = of(tape_tokens, STILL);
        assert!((outcome.loss - expected.loss).abs() <= 1e-5, "{} {}", outcome.loss, expected.loss);
        assert!(difference(&lists(&outcome.gradients), &lists(&expected.gradients)) <= 1e-5);
        // With dropout the pass that is run again leaves out the same.
        let (kept, again) = (of(1 << 20, noise), of(tape_tokens, noise));
        assert!(difference(&lists(&again.gradients), &lists(&kept.gradients)) <= 1e-5);
    }
    assert!((of(0, noise).loss - expected.loss).abs() > 1e-4, "dropout leaves something out");
}

#[test]
fn a_reader_s_gradient_in_bf16_is_near_that_in_f32() {
    let (device, step) = (golden::device(), ReaderStep::read());
    let (start, batch) = fixture(&step, &device);
    let of = |precision| {
        let options = StepOptions { precision, ..whole() };
        reader_step(&start.model, &batch, &options, STILL, 1.0, &device).unwrap()
    };
    let (single, narrow) = (of(Precision::F32), of(Precision::Bf16));
    assert!((narrow.loss - single.loss).abs() < 0.01 * single.loss, "{} and {}", narrow.loss, single.loss);
    let off = difference(&lists(&narrow.gradients), &lists(&single.gradients));
    println!("loss {} and {}, gradients {off:.1e} apart", single.loss, narrow.loss);
    assert!(off > 0.0 && off < 0.05, "{off}");
}

#[test]
fn a_reranker_s_gradient_is_the_change_of_its_loss() {
    let device = golden::device();
    let bench = Bench::new();
    let options =
        PairModelOptions { start: bench.path("model"), max_tokens: Some(64), ..PairModelOptions::default() };
    let mut random = SplitMix::new(5);
    let ids: Vec<Vec<u32>> =
        (0..5).map(|row| (0..6 + row * 3).map(|_| 5 + random.below(90) as u32).collect()).collect();
    let types = ids.iter().map(|ids| (0..ids.len()).map(|at| u8::from(at > 3)).collect()).collect();
    let plain = PairBatch { ids, types, passages: vec![3, 2], ..PairBatch::default() };
    // Of the second question the teacher has read nothing.
    let taught = PairBatch { taught: vec![vec![0.5, 2.0, -1.0], Vec::new()], ..plain.clone() };
    for (loss, batch) in [
        (RankLoss::Listwise, &plain),
        (RankLoss::Binary, &plain),
        (RankLoss::Listwise, &taught),
        (RankLoss::Binary, &taught),
    ] {
        let ranking = Ranking { loss, teacher_weight: 0.5 };
        let mut start = PairModel::start(PairTask::Reranker, &options, 1, &device).unwrap();
        assert_eq!(start.drawn.len(), 4, "pooler and classifier: {:?}", start.drawn);
        // Heads as they are drawn make gradients that rounding hides.
        let encoder = &mut start.model.encoders[0];
        let heads = encoder.parameters.iter().map(|p| p.name.starts_with("dense.0"));
        for (weights, is_head) in encoder.weights.iter_mut().zip(heads.collect::<Vec<_>>()) {
            if is_head {
                weights.iter_mut().for_each(|weight| *weight *= 50.0);
            }
        }
        encoder.upload(&device);
        let step = |start: &PairModel| {
            reranker_step(&start.model, batch, ranking, &whole(), STILL, 1.0, &device).unwrap()
        };
        let gradients = step(&start).gradients.remove(0).into_host().unwrap();
        // Along the gradient, the loss changes by its length squared.
        let squared: f64 = gradients.iter().flatten().map(|g| f64::from(*g).powi(2)).sum();
        let mut moved = |by: f64| {
            let encoder = &mut start.model.encoders[0];
            let before = encoder.weights.clone();
            for (weights, gradient) in encoder.weights.iter_mut().zip(&gradients) {
                weights
                    .iter_mut()
                    .zip(gradient)
                    .for_each(|(weight, g)| *weight += (by * f64::from(*g)) as f32);
            }
            encoder.upload(&device);
            let found = step(&start).loss;
            start.model.encoders[0].weights = before;
            found
        };
        let by = 1e-2 / squared.sqrt();
        let change = (moved(by) - moved(-by)) / (2.0 * by);
        assert!((change / squared - 1.0).abs() < 1e-2, "{ranking:?}: {change}, not {squared}");
    }
}

/// A model, `train.json` with 800 questions, `dev.json` with 40, and `train.toml`.
fn prepared() -> Bench {
    let bench = Bench::new();
    bench.write("train.json", json!(squad::items(0..20, 40)).to_string());
    bench.write("dev.json", json!(squad::items(40..42, 20)).to_string());
    bench.write("train.toml", SETTINGS);
    bench
}

fn train(bench: &Bench, out: &str, more: &[&str]) -> Command {
    let mut command = bench.dpr(&["train", "--config", "train.toml", "--device", "flex", "--out", out]);
    command.args(more);
    command
}

fn weights(bench: &Bench, dir: &str) -> Vec<u8> {
    fs_err::read(bench.path(dir).join("model.safetensors")).unwrap()
}

#[test]
fn a_killed_run_of_a_reader_goes_on_as_if_nothing_had_been() {
    let bench = prepared();
    let report = json(&mut train(&bench, "whole", &["--json"]));
    let whole = losses(&bench.path("whole"));
    assert!(whole.len() >= 20 && report["steps"] == whole.len(), "{} steps", whole.len());
    for (number, steps) in [3, 12].into_iter().enumerate() {
        let out = format!("killed-{number}");
        run::kill_after(train(&bench, &out, &[]), &bench.path(&out), steps);
        succeed(&mut bench.dpr(&["train", "--resume", "--device", "flex", "--out", &out]));
        assert_eq!(losses(&bench.path(&out)), whole, "killed after {steps} steps");
        assert!(weights(&bench, &format!("{out}/best/reader")) == weights(&bench, "whole/best/reader"));
    }
}

#[test]
fn a_trained_reader_reads_and_its_frozen_embeddings_are_those_of_the_start() {
    let bench = prepared();
    let frozen = SETTINGS.replace("max_tokens = 128", "max_tokens = 128\nfreeze_embeddings = true");
    bench.write("train.toml", frozen);
    let settings = ["--dev", "dev.json", "--epochs", "4", "--learning-rate", "3e-3", "--json"];
    let report = json(&mut train(&bench, "run", &settings));
    let measured = metrics(&bench.path("run")).into_iter().filter(|metric| metric["kind"] == "dev");
    let loss: Vec<f64> = measured.map(|metric| metric["loss"].as_f64().unwrap()).collect();
    assert_eq!(loss.len(), 5, "at the start and after each epoch: {report}");
    // 0.11 lower were measured: the encoder is tiny, and its embeddings stay random.
    assert!(loss[4] < loss[0] - 0.05, "it does not learn where answers are: {loss:?}");
    assert!(report["best"]["scores"]["exact_match"].is_number(), "{report}");

    let tensors = |dir: &str| {
        let bytes = weights(&bench, dir);
        dpr_core::TensorMap::from_safetensors([("model.safetensors", bytes.as_slice())]).unwrap()
    };
    let (mut start, mut reader) = (tensors("model/passage_encoder"), tensors("run/best/reader"));
    let names: Vec<(String, Vec<usize>)> =
        reader.names().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect();
    assert!(names.iter().any(|(name, shape)| name == "qa_classifier.weight" && shape[0] == 1), "{names:?}");
    for (name, shape) in &names {
        if !start.contains(name) {
            continue;
        }
        let same = start.take_f32(name, shape).unwrap() == reader.take_f32(name, shape).unwrap();
        assert_eq!(same, name.starts_with("embeddings."), "{name}");
    }

    bench.write("passages.tsv", "id\ttext\ttitle\n1\tThe Rhine rises in the Alps.\tRhine\n");
    succeed(&mut bench.dpr(&[
        "index",
        "--passages",
        "passages.tsv",
        "--sparse",
        "english",
        "--out",
        "words",
    ]));
    let ask = [
        "answer",
        "--reader",
        "run/best",
        "--index",
        "words",
        "--method",
        "bm25",
        "--json",
        "where rises the rhine",
    ];
    let answered = json(&mut bench.dpr(&ask));
    let found = answered["answers"][0]["answer"].as_str().unwrap();
    assert!("The Rhine rises in the Alps.".contains(found) && !found.is_empty(), "{answered}");

    // A trained reader is a start too, with its own layers.
    let more =
        ["--model", "run/best", "--max-steps", "1", "--learning-rate", "1e-9", "--warm-up", "0", "--json"];
    succeed(&mut train(&bench, "again", &more));
    let again = metrics(&bench.path("again"));
    assert!(again[0]["loss"].as_f64().unwrap() < metrics(&bench.path("run"))[1]["loss"].as_f64().unwrap());
}

#[test]
fn a_reranker_trains_from_results_and_paragraphs_and_re_ranks() {
    let bench = prepared();
    // Results of a search: the positive is what holds the answer.
    let results: Vec<Value> = squad::items(0..4, 20)
        .into_iter()
        .map(|item| {
            let ctx = |passage: &Value, has_answer: bool| {
                json!({"id": passage["text"], "title": passage["title"], "text": passage["text"], "score": 1.0,
                    "has_answer": has_answer})
            };
            let (right, wrong) = (&item["positive_ctxs"][0], &item["hard_negative_ctxs"][0]);
            json!({"question": item["question"], "answers": item["answers"], "ctxs": [ctx(wrong, false), ctx(right, true)]})
        })
        .collect();
    bench.write("results.json", json!(results).to_string());
    let corpus = format!("{}/../web-demo/corpus/squad-dev-v1.1.json.gz", env!("CARGO_MANIFEST_DIR"));
    let settings = SETTINGS.replace("task = \"reader\"\n", "").replace("\"train.json\"", "\"results.json\"");
    bench.write("train.toml", settings.replace("max_tokens = 128", "max_tokens = 48"));
    let more =
        ["--task", "reranker", "--dev", "dev.json", "--max-steps", "6", "--json", "--data", "results.json"];
    for (out, data) in [("run", "results.json"), ("paragraphs", corpus.as_str())] {
        let more = [&more[..8], &[data]].concat();
        let report = json(&mut train(&bench, out, &more));
        assert_eq!(report["steps"], 6);
        let scores = &report["best"]["scores"];
        assert_eq!(scores["questions"], 40, "{report}");
        assert!(scores["reciprocal_rank"].as_f64().unwrap() >= scores["first"].as_f64().unwrap(), "{report}");
    }
    let text = fs_err::read_to_string(bench.path("run/config.toml")).unwrap();
    assert!(text.contains("task = \"reranker\""), "{text}");
    bench
        .write("passages.tsv", "id\ttext\ttitle\n1\tThe Rhine rises.\tRhine\n2\tThe Rhine is long.\tRhine\n");
    succeed(&mut bench.dpr(&[
        "index",
        "--passages",
        "passages.tsv",
        "--sparse",
        "english",
        "--out",
        "words",
    ]));
    let search =
        ["search", "--index", "words", "--method", "bm25", "--rerank", "run/best", "--json", "rhine"];
    let found = json(&mut bench.dpr(&search));
    assert_eq!(found["hits"].as_array().unwrap().len(), 2, "{found}");
}

#[test]
fn a_reranker_learns_the_selection_of_a_reader_and_the_scores_of_a_cross_encoder() {
    let bench = prepared();
    succeed(bench.dpr(&["import", "--out", "reader", "--reader"]).arg(fixtures().join("readers/dpr")));
    let classifier = fixtures().join("cross-encoders/bert");
    succeed(bench.dpr(&["import", "--out", "cross-encoder", "--cross-encoder"]).arg(classifier));
    let reranker = |out: &str, more: &[&str]| {
        let mut command =
            train(&bench, out, &["--task", "reranker", "--max-steps", "4", "--max-tokens", "48"]);
        command.args(more);
        command
    };
    succeed(&mut reranker("labels", &[]));
    for (out, teacher) in [("of-reader", "reader"), ("of-cross-encoder", "cross-encoder")] {
        succeed(&mut reranker(out, &["--teacher", teacher]));
        assert_ne!(losses(&bench.path(out)), losses(&bench.path("labels")));
    }
    assert_ne!(losses(&bench.path("of-reader")), losses(&bench.path("of-cross-encoder")));
    let settings = fs_err::read_to_string(bench.path("of-reader/config.toml")).unwrap();
    assert!(
        settings.contains("teacher = \"reader\"") && settings.contains("teacher_weight = 0.5"),
        "{settings}"
    );
    // A run does not go on with another teacher, though it has the first one's name.
    fs_err::rename(bench.path("reader"), bench.path("first")).unwrap();
    fs_err::rename(bench.path("cross-encoder"), bench.path("reader")).unwrap();
    let error = fail(&mut bench.dpr(&["train", "--resume", "--out", "of-reader", "--device", "flex"]));
    assert!(error.contains("another starting model"), "{error}");

    succeed(bench.dpr(&["import", "--out", "spans", "--reader"]).arg(fixtures().join("readers/bert")));
    for (teacher, expected) in [
        ("model", "model.teacher is model, which holds encoders; a teacher is a cross-encoder"),
        ("spans", "model.teacher is spans, a reader that chooses passages by their spans"),
        ("nowhere", "nowhere is not a model directory"),
    ] {
        let error = fail(&mut reranker("bad", &["--teacher", teacher]));
        assert!(error.contains(expected), "{error}");
    }
    let error = fail(&mut train(&bench, "bad", &["--teacher", "reader"]));
    assert!(error.contains("a reader learns from answers alone"), "{error}");
}

#[test]
fn bad_input_is_named_with_what_to_do() {
    let bench = prepared();
    let whole = squad::items(0..2, 16);
    let with = |change: fn(&mut Value)| {
        let mut items = whole.clone();
        change(&mut items[2]);
        bench.write("bad.json", json!(items).to_string());
        fail(&mut train(&bench, "bad", &["--data", "bad.json"]))
    };
    let message = with(|item| item["positive_ctxs"] = json!([]));
    assert!(message.contains("item 3") && message.contains("no positive passage"), "{message}");
    let message = with(|item| item["answers"] = json!([]));
    assert!(message.contains("item 3") && message.contains("no answers"), "{message}");
    let message = with(|item| item["answers"] = json!([" "]));
    assert!(
        message.contains("bad.json: item 3") && message.contains("empty after normalisation"),
        "{message}"
    );
    bench.write("questions.tsv", "who?\t['me']\n");
    let message = fail(&mut train(&bench, "bad", &["--data", "questions.tsv"]));
    assert!(
        message.contains("questions.tsv is of the format qa-tsv") && message.contains("SQuAD"),
        "{message}"
    );
    let message = fail(&mut train(&bench, "bad", &["--max-tokens", "500"]));
    assert!(message.contains("model.max_tokens is 500") && message.contains("from 8 to 128"), "{message}");
    let message = fail(&mut train(&bench, "bad", &["--temperature", "0.5"]));
    assert!(message.contains("--temperature is of retrieval"), "{message}");
    let message = fail(&mut train(&bench, "bad", &["--max-tokens", "12"]));
    assert!(message.contains("a batch takes 8 questions"), "no answer fits: {message}");
    assert!(message.contains("have none in which an answer stands within 12 tokens"), "{message}");
    let ctx = json!({"id": "1", "title": "", "text": "you", "score": 1.0, "has_answer": false});
    bench.write("none.json", json!([{"question": "who?", "answers": ["me"], "ctxs": [ctx]}]).to_string());
    let message = fail(&mut train(&bench, "bad", &["--data", "none.json"]));
    let reason = "0 of the training data's 1 can be trained on (1 have no passage with an answer); give more";
    assert!(message.contains(reason), "{message}");
    bench.write("task.toml", SETTINGS.replace("\"reader\"", "\"rerankr\""));
    let message = fail(&mut bench.dpr(&["train", "--config", "task.toml", "--out", "bad"]));
    assert!(message.contains("task.toml") && message.contains("`reranker`"), "{message}");
    let mut import = bench.dpr(&["import", "--pooling", "mean", "--out", "mpnet", "--question"]);
    succeed(import.arg(fixtures().join("mpnet-tiny")));
    let message = fail(&mut train(&bench, "bad", &["--model", "mpnet"]));
    assert!(message.contains("whose encoder is of type \"mpnet\""), "{message}");
    bench.write("typo.toml", "task = \"reader\"\n[data]\nnegatives = 3\n");
    let message = fail(&mut bench.dpr(&["train", "--config", "typo.toml", "--out", "bad"]));
    assert!(message.contains("typo.toml") && message.contains("negatives"), "{message}");
    assert!(!bench.path("bad/config.toml").exists(), "nothing was begun");
}

#[test]
fn a_dry_run_says_what_a_run_of_a_reader_takes() {
    let bench = prepared();
    let command = ["train", "--config", "train.toml", "--dev", "train.json", "--device", "flex", "--dry-run"];
    let found = json(bench.dpr(&command).arg("--json"));
    assert!(found["loss"].as_f64().unwrap() > 0.0 && found["batch_texts"].as_u64().unwrap() > 8, "{found}");
    let notes = found["notes"].to_string();
    for note in [
        "are training questions too",
        "are drawn: qa_outputs.weight",
        "are left out",
        "fewer than 2 negatives",
    ] {
        assert!(notes.contains(note), "no {note} in {notes}");
    }
    assert!(!bench.path("run").exists());
}
