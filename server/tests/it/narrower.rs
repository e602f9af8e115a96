//! Narrower vectors of one model (Matryoshka): `dpr encode --dim`, and everything that searches what it made.

use crate::support::common;
use crate::support::server::{Server, ask};

use common::{Bench, fail, fixtures, json, succeed};
use serde_json::{Value, json as value};

const DIM: usize = 8;

/// The tiny DPR model imported as `name`.
fn import(bench: &Bench, name: &str, options: &[&str]) -> Value {
    let encoders = fixtures().join("dpr-tiny");
    let mut command = bench.dpr(&["import", "--out", name, "--json"]);
    command.arg("--question").arg(encoders.join("question")).arg("--passage").arg(encoders.join("ctx"));
    json(command.args(options))
}

/// With the model as `whole`, the same of `DIM` numbers as `narrow`, and passages encoded and indexed by the former.
fn bench() -> (Bench, Value) {
    let bench = Bench::new();
    import(&bench, "whole", &["--matryoshka"]);
    let narrow = import(&bench, "narrow", &["--matryoshka", "--dim", "8"]);
    assert_eq!(narrow["dim"], DIM);
    bench.corpus(60);
    for (model, out, dim) in [("whole", "vectors", Some("8")), ("narrow", "narrow-vectors", None)] {
        let mut command =
            bench.dpr(&["encode", "--model", model, "--passages", "corpus.tsv", "--device", "cpu"]);
        command.args(["--json", "--out", out]).args(dim.iter().flat_map(|dim| ["--dim", dim]));
        let summary = json(&mut command);
        assert_eq!((&summary["model"], &summary["dim"]), (&narrow["fingerprint"], &value!(DIM)));
    }
    succeed(&mut bench.dpr(&["index", "--vectors", "vectors", "--out", "index"]));
    (bench, narrow)
}

fn search(bench: &Bench, model: &str) -> Value {
    json(
        &mut bench
            .dpr(&["search", "--model", model, "--index", "index", "--device", "cpu", "--json", "w31 w38"]),
    )
}

#[test]
fn an_index_of_fewer_numbers_is_searched_measured_and_changed_with_the_whole_model() {
    let (bench, narrow) = bench();
    let rows = |name: &str| fs_err::read(bench.path(name).join("vectors.f32")).unwrap();
    assert_eq!(rows("vectors").len(), 60 * DIM * 4);
    assert!(rows("vectors") == rows("narrow-vectors"), "either model makes these vectors");

    let answer = search(&bench, "whole");
    assert_eq!(answer["model"], narrow["fingerprint"]);
    assert_eq!(answer, search(&bench, "narrow"));
    bench.write("questions.tsv", "w31 w38\t['w31']\n");
    let eval = |model: &str| {
        let mut command = bench.dpr(&["eval", "retrieval", "--model", model, "--index", "index", "--json"]);
        json(command.args(["--device", "cpu", "--k", "5", "--questions", "questions.tsv"]))
    };
    assert_eq!(eval("whole")["methods"][0]["top_k"], eval("narrow")["methods"][0]["top_k"]);

    bench.write("new.tsv", "id\ttext\ttitle\nnew\tw31 w38\tNew\n");
    let add =
        ["index", "add", "--index", "index", "--passages", "new.tsv", "--device", "cpu", "--json", "--model"];
    let added = json(bench.dpr(&add).arg("whole"));
    assert_eq!((&added["added"], &added["count"]), (&value!(1), &value!(61)));
    let replaced = json(bench.dpr(&add).arg("narrow"));
    assert_eq!((&replaced["replaced"], &replaced["count"]), (&value!(1), &value!(61)));
    assert_eq!(search(&bench, "whole"), search(&bench, "narrow"));

    // The other way round too: `narrow` has all weights.
    let encode =
        ["encode", "--model", "whole", "--passages", "corpus.tsv", "--device", "cpu", "--out", "wide"];
    succeed(&mut bench.dpr(&encode));
    succeed(&mut bench.dpr(&["index", "--vectors", "wide", "--out", "wide-index"]));
    let wide = ["search", "--index", "wide-index", "--device", "cpu", "--json", "w31 w38", "--model"];
    assert_eq!(json(bench.dpr(&wide).arg("narrow")), json(bench.dpr(&wide).arg("whole")));
}

#[test]
fn a_server_with_the_whole_model_describes_and_encodes_by_the_narrower_one() {
    let (bench, narrow) = bench();
    let mut command = bench.dpr(&["serve", "--model", "whole", "--index", "index", "--device", "cpu"]);
    let server = Server::start(command.args(["--listen", "127.0.0.1:0", "--allow-text", "--allow-updates"]));
    let send = |method, path: &str, body: &Value| {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, answer) = ask(&server.address, method, path, &body).unwrap();
        (status, serde_json::from_str::<Value>(&answer).unwrap_or_default())
    };
    let (_, model) = send("GET", "/v1/model", &Value::Null);
    assert_eq!((&model["dim"], &model["fingerprint"]), (&value!(DIM), &narrow["fingerprint"]));
    let file = &narrow["files"]["question_encoder/config.json"];
    for field in ["bytes", "sha256"] {
        assert_eq!(model["encoder"]["config"][field], file[field], "a page encodes by this configuration");
    }
    let (_, config) = send("GET", model["encoder"]["config"]["url"].as_str().unwrap(), &Value::Null);
    assert_eq!(config["dpr"]["truncate"], DIM);
    let ids = |answer: &Value| -> Vec<Value> {
        answer["hits"].as_array().unwrap().iter().map(|hit| hit["id"].clone()).collect()
    };
    let (status, found) =
        send("POST", "/v1/search/text", &value!({"question": "w31 w38", "method": "dense", "k": 10}));
    assert_eq!(status, 200, "{found}");
    assert_eq!(ids(&found), ids(&search(&bench, "narrow")));
    let vector = |dim: usize| value!({"vector": vec![0.5; dim], "k": 3, "model": narrow["fingerprint"]});
    assert_eq!(send("POST", "/v1/search", &vector(DIM)).0, 200);
    assert_eq!(send("POST", "/v1/search", &vector(32)).0, 422);
    let passage = value!({"model": narrow["fingerprint"], "passages": [{"id": "new", "title": "New", "text": "w31 w38"}]});
    let (status, put) = send("POST", "/v1/passages", &passage);
    assert_eq!((status, &put["added"]), (200, &value!(1)), "{put}");
}

#[test]
fn a_model_that_was_not_trained_for_it_and_an_index_of_another_model_are_refused() {
    let (bench, _) = bench();
    let encode = |model: &str, dim: &str| {
        let passages = ["encode", "--model", model, "--passages", "corpus.tsv", "--device", "cpu"];
        let error = fail(bench.dpr(&passages).args(["--out", "none", "--dim", dim]));
        assert!(!bench.path("none").exists(), "nothing is left behind");
        error
    };
    let error = encode("model", "8");
    assert!(
        error.contains("first 8 of its 32 numbers") && error.contains("dpr import --matryoshka"),
        "{error}"
    );
    assert!(encode("whole", "33").contains("32 numbers, and 33 were asked for"));

    bench.import("dpr-tiny-projected", "other");
    for command in [&["search", "who?"][..], &["index", "add", "--passages", "corpus.tsv"]] {
        let error =
            fail(bench.dpr(command).args(["--model", "other", "--index", "index", "--device", "cpu"]));
        for part in ["(8 dims)", "other is model", "dpr encode"] {
            assert!(error.contains(part), "no {part:?} in: {error}");
        }
    }
}

#[test]
fn a_projection_to_fewer_numbers_than_the_vectors_have_is_warned_of() {
    let bench = Bench::new();
    let warned = |dim: &str| {
        let mut command = bench.dpr(&["import", "--out", dim, "--project", dim, "--question"]);
        let output = command.arg(fixtures().join("dpr-tiny/question")).output().unwrap();
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let told = warned("16");
    assert!(told.contains("--project is 16") && told.contains("have 32 numbers"), "{told}");
    assert!(told.contains("give --project 32 or more"), "{told}");
    for wide in ["32", "48"] {
        let told = warned(wide);
        assert!(!told.contains("--project"), "{told}");
    }
}
