//! Encrypted search from the command line to a server and back, as processes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dpr_core::random::SplitMix;
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
        ("/v1/encrypted/rank?q=w31", "{}", "unexpected_query"),
    ] {
        let (status, answer) = ask(&server.address, "POST", path, body).unwrap();
        assert!(status >= 400 && answer.contains(code), "{path}: {status} {answer}");
    }
    let (status, _) = ask(&server.address, "GET", "/v1/encrypted/files/00/rank.i8", "").unwrap();
    assert_eq!(status, 404, "the server's own tables are not handed out");
}

#[test]
fn an_index_without_private_tables_is_refused_with_the_command_that_makes_them() {
    let bench = Bench::new();
    bench.corpus(3);
    bench.index();
    let serve = ["serve", "--model", "model", "--index", "index", "--device", "cpu", "--encrypted"];
    let error = fail(bench.dpr(&serve).args(["--listen", "127.0.0.1:0"]));
    assert!(error.contains("no private tables") && error.contains("dpr index private --index"), "{error}");
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
    assert!(error.contains("ask the operator of this one"), "the server's fix: {error}");
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
fn compaction_makes_tables_of_the_new_version_and_a_server_takes_them_into_use() {
    let bench = bench(300);
    let server = serve(&bench, &["--encrypted"]);
    let url = format!("http://{}", server.address);
    let search = || {
        let mut command = bench.dpr(&["search", "--model", "model", "--device", "cpu", "--k", "2"]);
        command.args(["--server", &url, "--privacy", "encrypted", "--json", "w31 w38 w45"]);
        command
    };
    let version = || ask(&server.address, "GET", "/v1/encrypted", "").unwrap().1;
    let found = |answer: &Value| answer["hits"][0]["id"].as_str().unwrap().to_owned();
    let (best, first) = (found(&json(&mut search())), version());
    succeed(&mut bench.dpr(&["index", "delete", "--index", "index", &best]));
    succeed(&mut bench.dpr(&["index", "compact", "--index", "index"]));
    let end = Instant::now() + Duration::from_secs(60);
    let now = loop {
        // The server follows the index first, and then the tables. A search that began before shows the old ones.
        let follows = version() != first;
        let output = search().output().unwrap();
        if follows && output.status.success() {
            break found(&serde_json::from_slice(&output.stdout).unwrap());
        }
        assert!(Instant::now() < end, "{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(200));
    };
    assert_ne!(now, best, "what was deleted is not found");
}

#[test]
fn what_changes_is_known_to_the_next_search_and_after_a_restart() {
    let bench = bench(60);
    // The best passage is ahead by 0.57, about ten times the noise of a score.
    let search = |server: &Server, more: &[&str]| {
        let mut command = bench.dpr(&["search", "--model", "model", "--device", "cpu", "--k", "3", "--json"]);
        let url = format!("http://{}", server.address);
        command.args(["--server", &url, "--privacy", "encrypted", "w261"]).args(more);
        command
    };
    let hits = |answer: &Value| -> Vec<(String, String)> {
        let hit =
            |hit: &Value| (hit["id"].as_str().unwrap().to_owned(), hit["text"].as_str().unwrap().to_owned());
        answer["hits"].as_array().unwrap().iter().map(hit).collect()
    };
    let server = serve(&bench, &["--encrypted", "--allow-updates"]);
    let first = json(&mut search(&server, &[]));
    let before = hits(&first);
    let best = &before[0].0;
    let (status, answer) =
        ask(&server.address, "DELETE", "/v1/passages", &format!(r#"{{"ids": ["{best}"]}}"#)).unwrap();
    assert_eq!(status, 200, "{answer}");
    // What has its title and text is in its place.
    let added =
        serde_json::json!([{ "id": "added", "title": first["hits"][0]["title"], "text": before[0].1 }]);
    let added = serde_json::json!({ "model": first["model"], "passages": added }).to_string();
    let (status, answer) = ask(&server.address, "POST", "/v1/passages", &added).unwrap();
    assert_eq!(status, 200, "{answer}");
    let changed = hits(&json(&mut search(&server, &[])));
    let ids: Vec<&String> = changed.iter().map(|hit| &hit.0).collect();
    assert!(!ids.contains(&best), "{ids:?}");
    assert!(changed[0] == ("added".to_owned(), before[0].1.clone()), "{changed:?}");
    // Whoever takes one version alone is told that there is more.
    let (_, described) = ask(&server.address, "GET", "/v1/encrypted", "").unwrap();
    let version = dpr_core::model::sha256_hex(&described.as_bytes()[described.find('{').unwrap()..]);
    let error = fail(&mut search(&server, &["--expect-version", &version]));
    assert!(error.contains("2 changes since"), "{error}");
    drop(server);
    let again = serve(&bench, &["--encrypted"]);
    let found = hits(&json(&mut search(&again, &[])));
    assert!(found.contains(&changed[0]) && !found.iter().any(|hit| &hit.0 == best), "{found:?}");
}

#[test]
fn more_changes_than_a_delta_takes_are_told_with_the_commands_that_help() {
    let bench = bench(2100);
    let ids: String = (0..2001).map(|at| format!("p{at}\n")).collect();
    bench.write("gone.txt", ids);
    succeed(&mut bench.dpr(&["index", "delete", "--index", "index", "--ids", "gone.txt"]));
    let private = ["index", "private", "--index", "index"];
    let error = fail(&mut bench.dpr(&private));
    for expected in ["2001 passages", "`dpr index compact --index index` first"] {
        assert!(error.contains(expected), "{error}");
    }
    // A server starts, as it may compact the index itself, and does not offer what it refuses.
    let modes = |server: &Server| {
        let (status, answer) = ask(&server.address, "GET", "/v1/private", "").unwrap();
        assert_eq!(status, 200, "{answer}");
        let body: Value = serde_json::from_str(&answer[answer.find('{').unwrap()..]).unwrap();
        body["modes"].clone()
    };
    assert_eq!(modes(&serve(&bench, &["--encrypted"])), serde_json::json!(["plain"]));
    succeed(&mut bench.dpr(&["index", "compact", "--index", "index"]));
    succeed(&mut bench.dpr(&private));
    assert_eq!(modes(&serve(&bench, &["--encrypted"])), serde_json::json!(["plain", "encrypted"]));
}

#[test]
fn a_passage_that_private_tables_cannot_hold_is_not_added() {
    let bench = bench(40);
    let mut random = SplitMix::new(3);
    let text: String = (0..120_000).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
    bench.write("long.tsv", format!("id\ttext\ttitle\nlong\t{text}\tLong\n"));
    let add = ["index", "add", "--index", "index", "--model", "model", "--passages", "long.tsv"];
    let error = fail(bench.dpr(&add).args(["--device", "cpu"]));
    assert!(error.contains("passage `long`") && error.contains("split it or delete it"), "{error}");
    let server = serve(&bench, &["--encrypted", "--allow-updates"]);
    let described = ask(&server.address, "GET", "/v1/encrypted", "").unwrap().1;
    let manifest: Value = serde_json::from_str(&described[described.find('{').unwrap()..]).unwrap();
    let long = serde_json::json!([{ "id": "long", "text": text }]);
    let body = serde_json::json!({ "model": manifest["model_fingerprint"], "passages": long }).to_string();
    let (status, answer) = ask(&server.address, "POST", "/v1/passages", &body).unwrap();
    assert_eq!(status, 422, "{answer}");
    assert!(answer.contains("invalid_passage") && answer.contains("split it or delete it"), "{answer}");
}
