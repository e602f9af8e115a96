//! The command line and the server with a table of PostgreSQL in the place of an index directory.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::postgres_server::Server;
use crate::support::common::{Bench, fail, json, succeed};

fn hits(command: &mut Command) -> Vec<(String, f64)> {
    let answer = json(command);
    let hit = |hit: &Value| (hit["id"].as_str().unwrap().to_owned(), hit["score"].as_f64().unwrap());
    answer["hits"].as_array().unwrap().iter().map(hit).collect()
}

/// The address of a table, without its password.
fn address(server: &Server, table: &str) -> String {
    server.address(table).to_string()
}

/// The binary, which finds the password in its environment.
fn dpr(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.dpr(arguments);
    command.env("PGPASSWORD", "dpr");
    command
}

#[test]
fn a_corpus_goes_into_a_table_shard_by_shard_and_is_searched_measured_and_changed_there() {
    let Some(server) = Server::get() else { return };
    let address = address(&server, "cli");
    let bench = Bench::new();
    bench.corpus(60);
    bench.write("questions.tsv", "w31 w38 w45\t['w31']\nw62 w69\t['w62']\nw7\t['no such word']\n");
    bench.index();
    for (shard, name) in [("0/2", "first"), ("1/2", "second")] {
        succeed(&mut bench.encode(name, &["--shard", shard]));
        let report = json(&mut dpr(&bench, &["index", "--vectors", name, "--index", &address, "--json"]));
        assert_eq!((&report["written"], &report["unchanged"]), (&30.into(), &0.into()));
    }
    let again = succeed(&mut dpr(&bench, &["index", "--vectors", "first", "second", "--out", &address]));
    assert!(again.contains("0 passages written, 60 were there; 60 in all"), "{again}");

    let search = |index: &str| {
        let question = ["search", "--model", "model", "--device", "cpu", "--json", "--k", "5", "w31 w38 w45"];
        hits(dpr(&bench, &question).args(["--index", index]))
    };
    let (here, there) = (search("index"), search(&address));
    assert_eq!((here.len(), there.len()), (5, 5));
    for ((id, score), (other, same)) in here.iter().zip(&there) {
        assert!(id == other && (score - same).abs() < 1e-3, "{here:?} {there:?}");
    }
    let eval = |index: &str| {
        let flags =
            ["eval", "retrieval", "--model", "model", "--device", "cpu", "--questions", "questions.tsv"];
        json(dpr(&bench, &flags).args(["--json", "--index", index]))
    };
    let (here, there) = (eval("index"), eval(&address));
    assert_eq!(here["methods"][0]["top_k"], there["methods"][0]["top_k"]);
    assert_eq!((&there["passages"], &there["index_kind"]), (&60.into(), &"postgres".into()));
    let error = fail(&mut dpr(&bench, &["search", "--index", &address, "--method", "bm25", "w31"]));
    assert!(error.contains("no words"), "{error}");

    let deleted = succeed(&mut dpr(&bench, &["index", "delete", "--index", &address, "p1", "p2"]));
    assert!(deleted.contains("2 passages deleted; 58 passages"), "{deleted}");
    let error = fail(&mut dpr(&bench, &["index", "delete", "--index", &address, "p1"]));
    assert!(error.contains("p1"), "{error}");
    let report =
        json(&mut dpr(&bench, &["index", "add", "--index", &address, "--vectors", "vectors", "--json"]));
    assert_eq!(
        (&report["added"], &report["replaced"], &report["count"]),
        (&2.into(), &58.into(), &60.into())
    );
    assert_eq!(server.texts("SELECT count(*) FROM cli"), ["60"]);
    let error = fail(&mut dpr(&bench, &["index", "compact", "--index", &address]));
    assert!(error.contains("index directories") && error.contains("PostgreSQL"), "{error}");
    let error =
        fail(&mut dpr(&bench, &["search", "--model", "model", "--index", &format!("{address}_not"), "w31"]));
    assert!(error.contains("no such table") && error.contains("dpr index --vectors"), "{error}");
    let error = fail(
        dpr(&bench, &["search", "--model", "model", "--index", &address, "w31"]).env("PGPASSWORD", "no"),
    );
    assert!(error.contains("28P01"), "{error}");
    let refused =
        dpr(&bench, &["index", "verify", "--index", "postgres://u:secret@nowhere"]).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("it names no database"), "{error}");
    assert!(error.contains("--index") && !error.contains("secret"), "{error}");
}

#[test]
fn a_server_answers_from_a_table_and_sees_what_others_change() {
    let Some(server) = Server::get() else { return };
    let address = address(&server, "served");
    let bench = Bench::new();
    bench.corpus(40);
    bench.index();
    succeed(&mut dpr(&bench, &["index", "--vectors", "vectors", "--out", &address]));
    let flags = [
        "serve",
        "--model",
        "model",
        "--listen",
        "127.0.0.1:0",
        "--json",
        "--allow-updates",
        "--device",
        "cpu",
    ];
    let error = fail(dpr(&bench, &flags).args(["--allow-text", "--index", &address]));
    assert!(error.contains("words"), "{error}");
    let mut child = dpr(&bench, &flags)
        .args(["--index", &address])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    let (url, model) = (line["listening"].as_str().unwrap(), line["model"].as_str().unwrap());
    assert_eq!(line["count"], 40);
    let send = |method: &str, path: &str, body: &Value| -> (u16, Value) {
        let mut socket = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
        let body = body.to_string();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
    };
    let dim = line["dim"].as_u64().unwrap() as usize;
    let mut vector = vec![0.0; dim];
    vector[0] = 9.0;
    let new = serde_json::json!({ "id": "new", "title": "T", "text": "Words of its own.", "vector": vector });
    let put = send("POST", "/v1/passages", &serde_json::json!({ "model": model, "passages": [new] }));
    assert_eq!(put, (200, serde_json::json!({ "added": 1, "replaced": 0 })));
    let question = serde_json::json!({ "model": model, "vector": vector, "k": 3 });
    let (status, found) = send("POST", "/v1/search", &question);
    assert_eq!((status, &found["hits"][0]["id"]), (200, &"new".into()));
    assert_eq!(found["hits"].as_array().unwrap().len(), 3);
    // A transaction of the application that owns the database.
    server.sql("UPDATE served SET text = 'Changed.' WHERE id = 'new'");
    let (_, found) = send("POST", "/v1/search", &question);
    assert_eq!(found["hits"][0]["text"], "Changed.");
    let (status, unknown) = send("DELETE", "/v1/passages", &serde_json::json!({ "ids": ["nobody"] }));
    assert_eq!((status, &unknown["error"]["code"]), (404, &"unknown_passage".into()));
    let (status, _) = send("DELETE", "/v1/passages", &serde_json::json!({ "ids": ["new"] }));
    assert_eq!(status, 200);
    let mut filtered = question.clone();
    filtered["filter"] = serde_json::json!({ "titles": ["no such title"] });
    let (status, refused) = send("POST", "/v1/search", &filtered);
    assert_eq!((status, &refused["error"]["code"]), (422, &"invalid_filter".into()));
    let (_, index) = send("GET", "/v1/index", &Value::Null);
    assert_eq!((&index["kind"], &index["count"]), (&"postgres".into(), &40.into()));
    assert!(!index.to_string().contains("127.0.0.1"), "{index}");
    child.kill().unwrap();
    child.wait().unwrap();
}
