//! Encrypted search from the command line to a server and back, as processes.

use std::collections::BTreeMap;
use std::process::Output;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::common::{Bench, fail, json, succeed};
use crate::support::server::{Server, ask};

/// A bench with an index of so many passages and its private tables.
fn bench(passages: usize) -> Bench {
    let bench = Bench::new();
    bench.corpus(passages);
    bench.index();
    let built = json(&mut bench.dpr(&["index", "private", "--index", "index", "--json"]));
    assert_eq!((built["passages"].as_u64(), built["dims"].as_u64()), (Some(passages as u64), Some(32)));
    bench
}

fn serve(bench: &Bench, more: &[&str]) -> Server {
    let mut command = bench.dpr(&["serve", "--model", "model", "--index", "index", "--device", "cpu"]);
    Server::start(command.args(["--listen", "127.0.0.1:0"]).args(more))
}

fn texts(bench: &Bench) -> BTreeMap<String, String> {
    let corpus = fs_err::read_to_string(bench.path("corpus.tsv")).unwrap();
    let row = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        (fields.next().unwrap(), fields.next().unwrap())
    };
    corpus.lines().skip(1).map(row).collect()
}

#[test]
fn an_encrypted_search_brings_the_texts_of_the_best_passages() {
    let bench = bench(300);
    let server = serve(&bench, &["--encrypted"]);
    let url = format!("http://{}", server.address);
    let texts = texts(&bench);
    for question in ["w31 w38 w45", "w620", "what is w5"] {
        let common = ["search", "--model", "model", "--device", "cpu", "--json"];
        let ask_server = ["--server", &url, "--privacy", "encrypted", "--k", "5", question];
        let encrypted = json(bench.dpr(&common).args(ask_server));
        let plain = json(bench.dpr(&common).args(["--index", "index", "--k", "300", question]));
        let hits = |answer: &Value| answer["hits"].as_array().unwrap().clone();
        let scores: BTreeMap<String, f64> = hits(&plain)
            .iter()
            .map(|hit| (hit["id"].as_str().unwrap().to_owned(), hit["score"].as_f64().unwrap()))
            .collect();
        let greatest = scores.values().copied().fold(f64::MIN, f64::max);
        let spread = greatest - scores.values().copied().fold(f64::MAX, f64::min);
        let found = hits(&encrypted);
        assert_eq!((found.len(), encrypted["model"].clone()), (5, plain["model"].clone()));
        for hit in found {
            let id = hit["id"].as_str().unwrap();
            assert_eq!(hit["text"].as_str().unwrap(), texts[id], "{id}");
            assert!(greatest - scores[id] < 0.5 * spread, "{question}: {id} is none of the best");
        }
    }
    // The plain search is offered beside it, and the tables are described.
    let (status, described) = ask(&server.address, "GET", "/v1/encrypted", "").unwrap();
    assert_eq!(status, 200, "{described}");
    let manifest: Value = serde_json::from_str(&described[described.find('{').unwrap()..]).unwrap();
    assert_eq!(manifest["rank"]["set"], 1);
    for (path, body, code) in [
        ("/v1/encrypted/rank", "{}", "invalid_ciphertext"),
        ("/v1/encrypted/fetch", "{}", "invalid_ciphertext"),
        ("/v1/encrypted/rank?q=w31", "{}", "text_search_disabled"),
    ] {
        let (status, answer) = ask(&server.address, "POST", path, body).unwrap();
        assert!(status >= 400 && answer.contains(code), "{path}: {status} {answer}");
    }
    let (status, _) = ask(&server.address, "GET", "/v1/encrypted/files/00/rank.i8", "").unwrap();
    assert_eq!(status, 404, "the server's own tables are not handed out");
}

#[test]
fn what_is_not_offered_is_an_error_and_never_a_plainer_search() {
    let bench = bench(40);
    let server = serve(&bench, &[]);
    let url = format!("http://{}", server.address);
    let search = |more: &[&str]| {
        let mut command = bench.dpr(&["search", "--model", "model", "--device", "cpu"]);
        command.args(["--privacy", "encrypted"]).args(more);
        fail(&mut command)
    };
    let error = search(&["--server", &url, "w31"]);
    assert!(error.contains("404") && error.contains("no encrypted search"), "{error}");
    let error = search(&["--index", "index", "w31"]);
    assert!(error.contains("--server") && error.contains("nothing was searched"), "{error}");
    for (more, named) in [
        (["--title", "Title 1"], "--title"),
        (["--method", "bm25"], "--method"),
        (["--k", "11"], "11"),
        (["--k", "0"], "k"),
    ] {
        let error = search(&[&["--server", &url, "w31"], more.as_slice()].concat());
        assert!(error.contains(named), "{more:?}: {error}");
    }
    let error = fail(&mut bench.dpr(&["search", "--model", "model", "--server", &url, "w31"]));
    assert!(error.contains("--privacy encrypted"), "{error}");
}

#[test]
fn tables_of_a_newer_version_are_taken_into_use_without_a_restart() {
    let bench = bench(300);
    let server = serve(&bench, &["--encrypted"]);
    let url = format!("http://{}", server.address);
    let search = || {
        let mut command = bench.dpr(&["search", "--model", "model", "--device", "cpu", "--k", "2"]);
        command.args(["--server", &url, "--privacy", "encrypted", "--json", "w31 w38 w45"]);
        command
    };
    let found = |answer: &Value| answer["hits"][0]["id"].as_str().unwrap().to_owned();
    let best = found(&json(&mut search()));
    succeed(&mut bench.dpr(&["index", "delete", "--index", "index", &best]));
    succeed(&mut bench.dpr(&["index", "compact", "--index", "index"]));
    let until = |wanted: &dyn Fn(&Output) -> bool| {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let output = search().output().unwrap();
            if wanted(&output) {
                return output;
            }
            assert!(Instant::now() < end, "{}", String::from_utf8_lossy(&output.stderr));
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    until(&|output| String::from_utf8_lossy(&output.stderr).contains("503"));
    succeed(&mut bench.dpr(&["index", "private", "--index", "index"]));
    let now = until(&|output| output.status.success());
    let now = found(&serde_json::from_slice(&now.stdout).unwrap());
    assert_ne!(now, best, "what was deleted is not found");
}

#[test]
fn tables_of_an_index_that_has_changed_are_not_searched() {
    let bench = bench(40);
    let server = serve(&bench, &["--encrypted", "--allow-updates"]);
    let url = format!("http://{}", server.address);
    let search = || {
        let mut command = bench.dpr(&["search", "--model", "model", "--device", "cpu", "--k", "2"]);
        command.args(["--server", &url, "--privacy", "encrypted", "w31"]);
        command
    };
    succeed(&mut search());
    let (status, answer) = ask(&server.address, "DELETE", "/v1/passages", r#"{"ids": ["p1"]}"#).unwrap();
    assert_eq!(status, 200, "{answer}");
    let error = fail(&mut search());
    assert!(error.contains("503") && error.contains("changed"), "{error}");
    drop(server);
    let mut again = bench.dpr(&["serve", "--index", "index", "--listen", "127.0.0.1:0", "--encrypted"]);
    let error = fail(&mut again);
    assert!(error.contains("dpr index compact") && error.contains("dpr index private"), "{error}");
}
