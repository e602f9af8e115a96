//! Reading and re-ranking on the command line: the passages of a search, given to the reader or the cross-encoder of
//! the library.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support::common;

use common::{Bench, fail, fixtures, json, succeed};
use dpr_core::{DeviceChoice, ReadOptions};
use dpr_encode::model::{CrossEncoderDir, ReaderDir};
use serde_json::Value;

/// Passages of words that the fixtures' tokenizers have, and signs that no single byte holds.
const PASSAGES: &str = "id\ttext\ttitle
r1\tThe Rhine rises in the Alps and flows north to the sea. Ships have carried wine, stone and timber on it.\tRhine
r2\tIts castles draw visitors from every country of the world.\tRhine
c1\tCats sleep for most of the day, and hunt at dawn and at dusk.\tCat
c2\tMice and birds are about when cats hunt at dusk.\tCat
b1\tBread is made of flour, water, salt and yeast; the dough rests, rises, and is baked.\tBread
k1\t한강은 서울을 지나 서쪽 바다로 흐른다.\t한강
";

const QUESTIONS: [&str; 4] =
    ["where does the rhine rise", "when do cats hunt", "what is bread made of", "한강은 어디로 흐르나"];

/// An index of vectors and words, `reader` and `reranker`.
fn prepared() -> Bench {
    let bench = Bench::new();
    bench.write("passages.tsv", PASSAGES);
    for (flag, fixture, out) in
        [("--reader", "readers/dpr", "reader"), ("--cross-encoder", "cross-encoders/bert", "reranker")]
    {
        let said = succeed(bench.dpr(&["import", flag]).arg(fixtures().join(fixture)).args(["--out", out]));
        assert!(said.contains("pairs to"), "{said}");
    }
    let encode =
        ["encode", "--model", "model", "--passages", "passages.tsv", "--out", "vectors", "--device", "cpu"];
    succeed(&mut bench.dpr(&encode));
    succeed(&mut bench.dpr(&["index", "--vectors", "vectors", "--out", "index", "--sparse", "english"]));
    bench
}

/// `dpr COMMAND` of dense search on the CPU.
fn dense(bench: &Bench, command: &str, more: &[&str]) -> std::process::Command {
    let mut command = bench.dpr(&[command, "--model", "model", "--index", "index", "--device", "cpu"]);
    command.args(more);
    command
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap()
}

#[test]
fn answers_are_those_of_the_library_in_the_passages_of_the_search() {
    let bench = prepared();
    let reader = ReaderDir::open(&bench.path("reader")).unwrap().reader(DeviceChoice::Cpu).unwrap();
    for question in QUESTIONS {
        let hits = json(&mut dense(&bench, "search", &["--k", "4", "--json", question]))["hits"].clone();
        let hits = hits.as_array().unwrap();
        let passages: Vec<_> = hits.iter().map(|hit| (text(hit, "title"), text(hit, "text"))).collect();
        let options = ReadOptions { spans: 2, max_answer_tokens: 5 };
        let expected = reader.read(question, &passages, 3, options).unwrap();
        let asked =
            ["--reader", "reader", "--depth", "4", "--spans", "2", "--max-answer-tokens", "5", question];
        let report = json(dense(&bench, "answer", &asked).arg("--json"));
        let answers = report["answers"].as_array().unwrap();
        assert_eq!((answers.len(), expected.len()), (3, 3));
        for (got, expected) in answers.iter().zip(&expected) {
            let passage = &got["passage"];
            assert_eq!(
                (text(got, "answer"), &passage["id"]),
                (expected.text.as_str(), &hits[expected.passage]["id"])
            );
            assert_eq!(passage["rank"], expected.passage + 1);
            assert_eq!(passage["score"], hits[expected.passage]["score"]);
            let place = got["start"].as_u64().unwrap() as usize..got["end"].as_u64().unwrap() as usize;
            let letters: Vec<char> = text(passage, "text").chars().collect();
            assert_eq!(letters[place].iter().collect::<String>(), expected.text);
            for (field, value) in [("score", expected.score), ("selection", expected.selection)] {
                assert!((got[field].as_f64().unwrap() - value).abs() < 1e-6, "{got}");
            }
        }
        let table = succeed(&mut dense(&bench, "answer", &asked));
        assert!(table.contains(&format!(">>{}<<", expected[0].text)), "{table}");
    }

    bench.write("questions.txt", QUESTIONS.join("\n"));
    let lines =
        succeed(&mut dense(&bench, "answer", &["--reader", "reader", "--questions", "questions.txt"]));
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), QUESTIONS.len());
    for (question, line) in QUESTIONS.iter().zip(&lines) {
        let single = json(&mut dense(&bench, "answer", &["--reader", "reader", "--json", question]));
        let of = |report: &Value| -> Vec<String> {
            report["answers"]
                .as_array()
                .unwrap()
                .iter()
                .map(|answer| text(answer, "answer").to_owned())
                .collect()
        };
        assert_eq!((text(line, "question"), of(line)), (*question, of(&single)));
    }
    // By words, without a model, and where nothing is found.
    let words = ["answer", "--index", "index", "--method", "bm25", "--reader", "reader", "--device", "cpu"];
    let report = json(bench.dpr(&words).args(["--json", "cats"]));
    assert!(report["answers"].as_array().unwrap().iter().all(|answer| answer["passage"]["title"] == "Cat"));
    let nothing = succeed(bench.dpr(&words).arg("zebra"));
    assert!(nothing.contains("no passage shares a word"), "{nothing}");
}

#[test]
fn a_reader_is_measured_by_depth_over_the_results_of_a_search() {
    let bench = prepared();
    bench.write("asked.txt", QUESTIONS[..2].join("\n"));
    let words = ["--index", "index", "--method", "bm25", "--reader", "reader", "--device", "cpu"];
    let asked = ["--depth", "2", "--top", "1", "--questions", "asked.txt"];
    let lines = succeed(bench.dpr(&["answer"]).args(words).args(asked));
    // What it answers from two passages is taken for the truth.
    let truth: String = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| format!("{}\t[\"{}\"]\n", text(&line, "question"), text(&line["answers"][0], "answer")))
        .collect();
    bench.write("questions.tsv", truth);
    let eval = ["eval", "retrieval", "--index", "index", "--questions", "questions.tsv", "--out", "results"];
    succeed(bench.dpr(&eval).args(["--methods", "bm25"]));
    let measure =
        ["eval", "answers", "--reader", "reader", "--results", "results/bm25.json.gz", "--device", "cpu"];
    let report = json(bench.dpr(&measure).args(["--k", "1,2", "--json"]));
    let report = &report["results"][0];
    let depths = report["depths"].as_array().unwrap();
    assert_eq!((&report["questions"], depths.len()), (&2.into(), 2));
    let at = |depth: usize, field: &str| depths[depth][field].as_f64().unwrap();
    assert_eq!(
        (at(1, "exact_match"), at(1, "f1"), at(1, "oracle"), at(1, "retrieved")),
        (1.0, 1.0, 1.0, 1.0)
    );
    assert_eq!(at(1, "selection_accuracy"), 1.0);
    assert!(at(0, "exact_match") <= at(0, "oracle") && at(0, "oracle") <= 1.0);
    // By default as deep as the results are.
    let table = succeed(bench.dpr(&measure).args(["--limit", "1"]));
    assert!(table.contains("1 question, read on cpu") && table.contains("oracle"), "{table}");

    // Several searches side by side, by patterns, with a picture; a pattern that matches anything from its beginning.
    let ctx = r#"{"id": "1", "title": "", "text": "Cats sleep.", "score": 1.0, "has_answer": true}"#;
    for (name, pattern) in [("any", "."), ("none", "x{9}"), ("invalid", "(")] {
        let line = format!(r#"[{{"question": "who?", "answers": ["{pattern}"], "ctxs": [{ctx}]}}]"#);
        bench.write(&format!("{name}.json"), line);
    }
    let measure =
        ["eval", "answers", "--reader", "reader", "--device", "cpu", "--patterns", "--plot", "em.svg"];
    let named =
        ["--results", "a=any.json", "--results", "b=none.json", "--results", "invalid.json", "--json"];
    let report = json(bench.dpr(&measure).args(named));
    let exact: Vec<_> = report["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| (text(of, "name"), of["depths"][0]["exact_match"].as_f64().unwrap()))
        .collect();
    assert_eq!(exact, [("a", 1.0), ("b", 0.0), ("invalid.json", 0.0)]);
    let plot = fs_err::read_to_string(bench.path("em.svg")).unwrap();
    assert!(plot.contains("Exact match") && plot.contains("invalid.json"), "{plot}");
    let named = ["--results", "any.json", "--plot", "em.png"];
    let refused = fail(bench.dpr(&measure[..6]).args(named));
    assert!(refused.contains("em.png") && refused.contains(".svg"), "{refused}");

    // The paragraph that a question was asked about, which is read as the library reads it.
    let reader = ReaderDir::open(&bench.path("reader")).unwrap().reader(DeviceChoice::Cpu).unwrap();
    let read =
        reader.read(QUESTIONS[0], &[("The Rhine", "The Rhine rises.")], 1, ReadOptions::default()).unwrap();
    let squad = serde_json::json!({"data": [{"title": "The_Rhine", "paragraphs": [{"context": "The Rhine rises.",
        "qas": [{"id": "q", "question": QUESTIONS[0], "answers": [{"text": read[0].text, "answer_start": 0}]}]}]}]});
    bench.write("squad.json", squad.to_string());
    let gold = ["eval", "answers", "--reader", "reader", "--device", "cpu", "--json", "--questions"];
    let report = json(bench.dpr(&gold).arg("squad.json"));
    assert_eq!(report["results"][0]["depths"][0]["exact_match"], 1.0, "{report}");
    let without = fail(bench.dpr(&gold).arg("questions.tsv"));
    assert!(without.contains("has no gold passage"), "{without}");

    let unanswered = fail(
        bench
            .dpr(&["eval", "answers", "--reader", "reader", "--results"])
            .arg(bench.write("unanswered.json", r#"[{"question": "who?", "answers": [], "ctxs": []}]"#)),
    );
    assert!(unanswered.contains("\"who?\" lists no answers"), "{unanswered}");
}

#[test]
fn what_searches_find_is_read_as_their_result_files_are() {
    let bench = prepared();
    bench
        .write("questions.tsv", "when do cats hunt\t['dusk', 'dawn']\nwhere does the rhine rise\t['Alps']\n");
    let searched =
        ["--model", "model", "--index", "index", "--device", "cpu", "--questions", "questions.tsv"];
    let eval = ["eval", "retrieval", "--methods", "bm25,dense,hybrid", "--out", "results"];
    succeed(bench.dpr(&eval).args(searched));
    let depths = ["--reader", "reader", "--k", "1,3", "--json"];
    let read = ["eval", "answers", "--retrieve", "bm25,dense,hybrid,dense", "--plot", "em.svg"];
    let found = json(bench.dpr(&read).args(searched).args(depths))["results"].clone();
    let files = ["bm25", "dense", "hybrid"].map(|name| format!("{name}=results/{name}.json.gz"));
    let files = files.iter().flat_map(|file| ["--results", file.as_str()]);
    let measured = json(bench.dpr(&["eval", "answers", "--device", "cpu"]).args(files).args(depths));
    for (of, file) in found.as_array().unwrap().iter().zip(measured["results"].as_array().unwrap()) {
        assert_eq!((&of["name"], &of["questions"]), (&file["name"], &2.into()));
        assert_eq!(of["depths"], file["depths"]);
    }
    assert_eq!(found.as_array().unwrap().len(), 3, "a method given twice is read once");
    assert!(fs_err::read_to_string(bench.path("em.svg")).unwrap().contains("hybrid"));

    // Answers that are regular expressions, as they are in CuratedTREC's four columns.
    bench.write("trec.tsv", "1\tDATE\twhen do cats hunt\td(awn|usk)\n");
    let trec = ["eval", "answers", "--retrieve", "bm25", "--index", "index", "--questions", "trec.tsv"];
    let trec = json(bench.dpr(&trec).args(["--reader", "reader", "--json", "--device", "cpu"]));
    assert_eq!(trec["results"][0]["depths"][0]["retrieved"], 1.0, "{trec}");

    for (status, more, words) in [
        (2, &["--retrieve", "bm25", "--questions", "questions.tsv"][..], "--index"),
        (2, &["--retrieve", "bm25", "--index", "index"], "--questions"),
        (2, &["--retrieve", "bm25", "--index", "index", "--results", "a.json"], "--results"),
        (1, &["--retrieve", "dense", "--questions", "questions.tsv", "--index", "index"], "--model"),
        (1, &["--retrieve", "bm25", "--index", "index", "--questions", "none.tsv"], "none.tsv"),
    ] {
        let refused = bench.dpr(&["eval", "answers", "--reader", "reader"]).args(more).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(status), "{more:?}: {said}");
        assert!(said.contains(words), "{more:?}: {said}");
    }
}

#[test]
fn a_search_is_reranked_by_the_scores_of_the_library() {
    let bench = prepared();
    let model = CrossEncoderDir::open(&bench.path("reranker")).unwrap();
    let model = model.cross_encoder(DeviceChoice::Cpu).unwrap();
    for question in QUESTIONS {
        let plain = json(&mut dense(&bench, "search", &["--k", "6", "--json", question]))["hits"].clone();
        let plain = plain.as_array().unwrap();
        let passages: Vec<_> = plain.iter().map(|hit| (text(hit, "title"), text(hit, "text"))).collect();
        let scores = model.score(question, &passages[..4]).unwrap();
        let mut expected: Vec<_> =
            plain.iter().zip(&scores).map(|(hit, score)| (text(hit, "id"), *score)).collect();
        expected.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut ids: Vec<_> = expected.iter().map(|(id, _)| *id).collect();
        ids.extend(plain[4..].iter().map(|hit| text(hit, "id")));
        let rerank = ["--rerank", "reranker", "--depth", "4", "--k", "6", "--json", question];
        let hits = json(&mut dense(&bench, "search", &rerank))["hits"].clone();
        let hits = hits.as_array().unwrap();
        assert_eq!(hits.iter().map(|hit| text(hit, "id")).collect::<Vec<_>>(), ids, "{question}");
        assert!((hits[0]["score"].as_f64().unwrap() - f64::from(expected[0].1)).abs() < 1e-5);
        let few =
            json(&mut dense(&bench, "search", &["--rerank", "reranker", "--k", "1", "--json", question]));
        assert_eq!(few["hits"].as_array().unwrap().len(), 1);
    }
    bench.write("questions.tsv", "when do cats hunt\t['dusk']\nwhere does the rhine rise\t['Alps']\n");
    let eval = ["eval", "retrieval", "--index", "index", "--questions", "questions.tsv", "--methods", "bm25"];
    let more = ["--rerank", "reranker", "--depth", "3", "--device", "cpu", "--out", "results"];
    let report = json(bench.dpr(&eval).args(more).arg("--json"));
    let methods = report["methods"].as_array().unwrap();
    assert_eq!(
        (methods.len(), &methods[0]["reranked"], &methods[1]["reranked"]),
        (2, &Value::Null, &3.into())
    );
    assert!(bench.path("results/bm25-rerank.json.gz").exists() && bench.path("results/bm25.run.gz").exists());
}

#[test]
fn what_is_given_for_a_reader_is_named_with_what_helps() {
    let bench = prepared();
    let answer =
        |reader: &str, question: &str| fail(&mut dense(&bench, "answer", &["--reader", reader, question]));
    for (reader, expected) in [("model", "holds encoders"), ("reranker", "holds a cross-encoder")] {
        let message = answer(reader, "who");
        assert!(
            message.contains(expected) && message.contains("`dpr import --reader DIR` makes one"),
            "{message}"
        );
    }
    assert!(answer("nowhere", "who").contains("is not a model directory"));
    assert!(answer("reader", " ").contains("the question is empty"));
    let long = answer("reader", &"castles ".repeat(60));
    assert!(
        long.contains("shorten the question: or import the reader with a greater --max-tokens"),
        "{long}"
    );

    let search = bench.dpr(&["search", "--model", "reader", "--index", "index", "who"]).output().unwrap();
    let message = common::error_of(&search);
    assert!(message.contains("holds a reader") && message.contains("dpr import --question"), "{message}");
    for (flag, fixture, expected) in [
        ("--question", "readers/dpr", "import it with --reader in place of --question"),
        ("--reader", "dpr-tiny/question", "supported readers are DPRReader"),
        ("--cross-encoder", "readers/bert", "supported cross-encoders are"),
    ] {
        let message =
            fail(bench.dpr(&["import", flag]).arg(fixtures().join(fixture)).args(["--out", "other"]));
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn answers_that_nobody_reads_on_end_the_work_with_status_0_and_without_an_error() {
    let bench = prepared();
    // The last question is too long for the reader, so that work which goes on to it ends with status 1. The answers to
    // those before it are more than a pipe holds.
    let questions: String = (0..448).map(|at| format!("{}\n", QUESTIONS[at % 3])).collect();
    bench.write("many.txt", questions + &"castles ".repeat(60));
    let answer = || dense(&bench, "answer", &["--reader", "reader", "--questions", "many.txt"]);
    let whole = answer().output().unwrap();
    assert!(whole.stdout.len() > 100_000, "only {} bytes", whole.stdout.len());
    assert!(common::error_of(&whole).contains("shorten the question"));

    let mut child = answer().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"answers\""), "{line}");
    let ended = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(0) && !stderr.contains("error"), "{:?} {stderr}", ended.status);
}
