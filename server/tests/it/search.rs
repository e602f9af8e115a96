//! `dpr search` and `dpr eval` as a person runs them.

use crate::support::common;

use crate::support::corpus::{clusters, set};

use common::{Bench, fail, json, succeed};
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{HnswParams, IndexKind, IndexOptions, build_index};
use serde_json::{Value, json as value};

const SQUAD: &str = r#"{"version": "1.1", "data": [
  {"title": "Cats", "paragraphs": [
    {"context": "Cats sleep most of the day.", "qas": [
      {"id": "q0", "question": "What sleeps most of the day?", "answers": [{"text": "Cats", "answer_start": 0}]},
      {"id": "q1", "question": "Who sleeps?", "answers": [{"text": "Cats", "answer_start": 0}]}]},
    {"context": "A cat's whiskers tell it how wide a gap is.", "qas": [
      {"id": "q2", "question": "What do whiskers tell?", "answers": [{"text": "how wide", "answer_start": 27}]}]}]},
  {"title": "Dogs", "paragraphs": [
    {"context": "Dogs bark at strangers.", "qas": [
      {"id": "q3", "question": "What barks at strangers?", "answers": [{"text": "Dogs", "answer_start": 0}]}]}]}]}"#;

fn squad() -> Bench {
    let bench = Bench::new();
    bench.write("squad.json", SQUAD);
    let encode =
        ["encode", "--model", "model", "--passages", "squad.json", "--out", "vectors", "--device", "cpu"];
    succeed(&mut bench.dpr(&encode));
    for kind in ["exact", "hnsw"] {
        succeed(&mut bench.dpr(&["index", "--vectors", "vectors", "--out", kind, "--kind", kind]));
    }
    bench
}

fn search(bench: &Bench, more: &[&str]) -> std::process::Command {
    let mut command = bench.dpr(&["search", "--model", "model", "--index", "exact", "--device", "cpu"]);
    command.args(more);
    command
}

#[test]
fn one_question_gives_a_table_or_json_and_a_file_gives_lines_of_the_same() {
    let bench = squad();
    let answer = json(&mut search(&bench, &["--json", "--k", "99", "What barks at strangers?"]));
    assert_eq!(answer["question"], "What barks at strangers?");
    let hits = answer["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 3, "more than the index holds gives all");
    assert!(hits.windows(2).all(|pair| pair[0]["score"].as_f64() >= pair[1]["score"].as_f64()));
    assert!(hits.iter().any(|hit| hit["id"] == "1-0" && hit["title"] == "Dogs"));

    let table = succeed(&mut search(&bench, &["--k", "2", "What barks at strangers?"]));
    assert_eq!(table.lines().count(), 4, "{table}");
    assert!(table.contains(hits[0]["text"].as_str().unwrap()));

    let lines = succeed(&mut search(&bench, &["--questions", "squad.json", "--k", "3"]));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    let same: Vec<_> = hits.iter().map(|hit| value!({"id": hit["id"], "score": hit["score"]})).collect();
    assert_eq!(lines[3], value!({"id": "q3", "question": "What barks at strangers?", "hits": same}));
}

#[test]
fn questions_that_cannot_be_asked_are_refused() {
    let bench = squad();
    assert!(fail(&mut search(&bench, &["  "])).contains("the question is empty"));
    assert!(fail(&mut search(&bench, &["--k", "0", "who?"])).contains("k is 0"));
    assert_eq!(search(&bench, &[]).output().unwrap().status.code(), Some(2));
}

#[test]
fn an_index_of_another_model_is_refused() {
    let bench = squad();
    bench.import("dpr-tiny-projected", "other");
    let command = ["search", "--model", "other", "--index", "exact", "--device", "cpu", "who?"];
    let error = fail(&mut bench.dpr(&command));
    for name in ["model", "other"] {
        let manifest = fs_err::read(bench.path(name).join("model.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        assert!(error.contains(&manifest["fingerprint"].as_str().unwrap()[..12]), "{error}");
        assert!(error.contains(&format!("({} dims)", manifest["dim"])), "{error}");
    }
    assert!(error.contains("dpr encode, dpr index"), "{error}");
    let command = ["eval", "retrieval", "--model", "other", "--index", "exact", "--questions", "squad.json"];
    assert!(fail(&mut bench.dpr(&command)).contains("built by model"));
}

#[test]
fn retrieval_is_measured_alike_on_both_indexes() {
    let bench = squad();
    let eval = |index: &str, more: &[&str]| {
        let mut command = bench.dpr(&["eval", "retrieval", "--model", "model", "--index", index]);
        command.args(["--questions", "squad.json", "--device", "cpu", "--k", "1,3"]).args(more);
        command
    };
    let exact = json(&mut eval("exact", &["--json"]));
    assert_eq!((&exact["questions"], &exact["passages"]), (&4.into(), &3.into()));
    let figures = |report: &Value| report["methods"][0]["top_k"].clone();
    assert_eq!(
        figures(&exact)[1],
        value!({"k": 3, "accuracy": 1.0}),
        "three passages, so the third finds all"
    );
    let hnsw = json(&mut eval("hnsw", &["--json", "--against-exact"]));
    assert_eq!(figures(&hnsw), figures(&exact));
    assert_eq!(hnsw["recall_against_exact"]["mean"], 1.0);
    assert_eq!(json(&mut eval("exact", &["--json", "--limit", "2"]))["questions"], 2);
    let table = succeed(&mut eval("exact", &[]));
    assert!(table.contains("the gold passage among the first k") && table.contains("   100.00"), "{table}");
}

#[test]
fn recall_against_exact_search_is_of_a_search_for_twenty_whatever_k_is_asked_for() {
    let bench = Bench::new();
    let manifest: Value =
        serde_json::from_slice(&fs_err::read(bench.path("model/model.json")).unwrap()).unwrap();
    let dim = manifest["dim"].as_u64().unwrap() as usize;
    let model_fingerprint = manifest["fingerprint"].as_str().unwrap().to_owned();
    let vectors = VectorSet { model_fingerprint, ..set(clusters(4000, dim, 3), dim) };
    // As few links and candidates as a graph that misses some of the best twenty.
    let hnsw = HnswParams { m: 4, ef_construction: 20, ef_search: 30 };
    let options = IndexOptions { kind: IndexKind::Hnsw, hnsw, ..IndexOptions::default() };
    build_index(&vectors, &bench.path("index"), &options, &Silent).unwrap();
    let questions: String =
        (0..40).map(|at| format!("what is the text of row {}?\t['Text']\n", at * 89)).collect();
    bench.write("questions.tsv", questions);
    let recall = |more: &[&str]| {
        let mut command = bench.dpr(&["eval", "retrieval", "--model", "model", "--index", "index"]);
        command
            .args(["--questions", "questions.tsv", "--device", "cpu", "--against-exact", "--json"])
            .args(more);
        json(&mut command)["recall_against_exact"].clone()
    };
    let twenty = recall(&["--k", "1,20"]);
    assert!(twenty["mean"].as_f64().unwrap() < 1.0, "{twenty}");
    assert_eq!((recall(&[]), recall(&["--k", "1"])), (twenty.clone(), twenty));
}

#[test]
fn questions_that_nothing_is_known_of_are_not_measured() {
    let bench = squad();
    bench.write("plain.txt", "who barks?\n");
    let command = ["eval", "retrieval", "--model", "model", "--index", "exact", "--questions", "plain.txt"];
    let error = fail(&mut bench.dpr(&command));
    assert!(error.contains("no answer to look for"), "{error}");
    let error = fail(bench.dpr(&command).args(["--by", "gold"]));
    assert!(error.contains("no gold passage"), "{error}");
}

#[test]
fn the_help_says_what_scores_beyond_the_depth_are_and_that_no_steps_are_no_limit() {
    let bench = Bench::new();
    for (command, says) in [
        (&["search"][..], "the lowest logit less 1, 2"),
        (&["eval", "retrieval"], "the lowest logit less 1, 2"),
        (&["train"], "Stop after this many steps; 0: no limit"),
        (&["distill"], "Stop after this many steps; 0: no limit"),
    ] {
        let help = succeed(bench.dpr(command).arg("--help"));
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(says), "{command:?}: {help}");
    }
}
