//! `dpr serve` as processes: one that changes its index, one that follows, clients that never see a failure.

use crate::support::common;
use crate::support::server::Running;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{Bench, fail, json, succeed};
use serde_json::{Value, json as value};

/// A running `dpr serve`; killed when dropped.
struct Server {
    child: Running,
    address: String,
}

impl Server {
    /// Starts a server on a free port and waits until it answers.
    fn start(mut command: Command) -> Self {
        command.args(["--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            panic!("{said}");
        }
        let line: Value = serde_json::from_str(&line).unwrap();
        let address = line["listening"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { child: Running(child), address }
    }

    /// One request; status and body.
    fn send(&self, method: &str, path: &str, body: &Value, token: &str) -> (u16, Value) {
        self.send_as(&format!("host: localhost\r\nauthorization: Bearer {token}"), method, path, body)
    }

    /// One request with these headers.
    fn send_as(&self, headers: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send_text(headers, method, path, &body)
    }

    /// One request with these headers and this body.
    fn send_text(&self, headers: &str, method: &str, path: &str, body: &str) -> (u16, Value) {
        let mut socket = TcpStream::connect(&self.address).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\n{headers}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body.as_bytes())).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// The most memory it has had, in bytes.
    #[cfg(target_os = "linux")]
    fn peak_memory(&self) -> usize {
        let status = fs_err::read_to_string(format!("/proc/{}/status", self.child.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    fn index(&self) -> Value {
        self.send("GET", "/v1/index", &Value::Null, "").1
    }

    /// Waits until the index is as `wanted` says.
    fn wait_for(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let index = self.index();
            if wanted(&index) {
                return index;
            }
            assert!(started.elapsed() < Duration::from_secs(20), "{index}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn serve(bench: &Bench, more: &[&str]) -> Command {
    let mut command = bench.dpr(&["serve", "--model", "model", "--index", "index", "--device", "cpu"]);
    command.args(more);
    command
}

/// The vector and the text of a passage of the corpus, as the index has them.
fn passage(bench: &Bench, id: &str) -> (Vec<f32>, String) {
    use dpr_index::IndexReader;
    let snapshot = IndexReader::open(&bench.path("index")).unwrap().live().snapshot();
    let found = snapshot.passages().map(Result::unwrap).find(|(passage, _)| passage.id == id).unwrap();
    (found.1.to_vec(), found.0.text)
}

#[test]
fn a_server_encodes_what_it_is_sent_and_has_it_after_a_kill() {
    let bench = Bench::new();
    bench.corpus(60);
    bench.index();
    let model = json(&mut bench.dpr(&["index", "verify", "--index", "index", "--json"]));
    assert_eq!(model["changes"], 0);
    let mut command = serve(&bench, &["--allow-updates"]);
    command.env("DPR_UPDATE_TOKEN", "s3cret");
    let server = Server::start(command);
    let fingerprint = server.index()["model"].clone();
    let (vector, text) = passage(&bench, "p7");
    // The text of a passage that is there, under another id: the server's vector of it is that of `dpr encode`.
    let put = value!({"model": fingerprint, "passages": [
        {"id": "twin", "title": "Title 0", "text": text}, {"id": "p9", "title": "", "text": "w1 w2 w3 anew"}
    ]});
    assert_eq!(server.send("POST", "/v1/passages", &put, "wrong").0, 401);
    assert_eq!(
        server.send("POST", "/v1/passages", &put, "s3cret"),
        (200, value!({"added": 1, "replaced": 1}))
    );
    assert_eq!(server.send("DELETE", "/v1/passages", &value!({"ids": ["p0"]}), "s3cret").0, 200);
    let asked = value!({"vector": vector, "k": 100, "model": fingerprint});
    let (status, found) = server.send("POST", "/v1/search", &asked, "");
    assert_eq!(status, 200);
    let hits = found["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 60);
    let score = |id: &str| hits.iter().find(|hit| hit["id"] == id).map(|hit| hit["score"].as_f64().unwrap());
    assert!((score("twin").unwrap() - score("p7").unwrap()).abs() < 1e-3);
    assert!(score("p0").is_none() && hits.iter().any(|hit| hit["text"] == "w1 w2 w3 anew"));

    // Others may not write meanwhile, and are told who does.
    for arguments in [&["delete", "--index", "index", "p1"][..], &["compact", "--index", "index"]] {
        let error = fail(bench.dpr(&["index"]).args(arguments));
        assert!(error.contains("a server (dpr serve --allow-updates) (process "), "{error}");
    }
    drop(server);
    let server = Server::start(serve(&bench, &["--allow-updates"]));
    let index = server.index();
    assert_eq!((&index["count"], &index["changes"]), (&value!(60), &value!(3)));
    assert_eq!(
        server.send("POST", "/v1/search", &asked, "").1["hits"],
        found["hits"],
        "killed, and as it was"
    );
    drop(server);
    assert_eq!(json(&mut bench.dpr(&["index", "verify", "--index", "index", "--json"]))["changes"], 3);
    let error = fail(serve(&bench, &["--allow-updates"]).env("DPR_UPDATE_TOKEN", " "));
    assert!(error.contains("DPR_UPDATE_TOKEN is blank"), "{error}");
}

#[test]
fn a_server_that_others_reach_takes_updates_with_a_token_only() {
    let bench = Bench::new();
    bench.corpus(60);
    bench.index();
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let error =
            fail(serve(&bench, &["--allow-updates", "--listen", listen]).env_remove("DPR_UPDATE_TOKEN"));
        assert!(error.contains("DPR_UPDATE_TOKEN") && error.contains("--listen 127.0.0.1:"), "{error}");
    }
    let server = Server::start(serve(&bench, &["--allow-updates", "--allow-origin", "*"]));
    let deletion = value!({"ids": ["p0"]});
    let evil = "host: evil.example\r\norigin: http://evil.example";
    assert_eq!(server.send_as(evil, "DELETE", "/v1/passages", &deletion).0, 421);
    let page = "host: localhost\r\norigin: http://evil.example";
    assert_eq!(server.send_as(page, "DELETE", "/v1/passages", &deletion).0, 403);
    assert_eq!(server.send("DELETE", "/v1/passages", &deletion, "").0, 200);
}

/// `before`, as often `element` as 2 MiB hold, and `after`.
#[cfg(target_os = "linux")]
fn bomb(before: &str, element: &str, after: &str) -> String {
    let count = ((2 << 20) - before.len() - after.len()) / (element.len() + 1);
    format!("{before}{}{after}", vec![element; count].join(","))
}

#[test]
#[cfg(target_os = "linux")]
fn no_body_makes_a_server_take_much_more_memory_than_it_has_bytes() {
    let bench = Bench::new();
    bench.corpus(60);
    bench.index();
    let server = Server::start(serve(&bench, &["--allow-updates"]));
    let model = server.index()["model"].as_str().unwrap().to_owned();
    let field = |name: &str| format!(r#"{{"vector":[1],"model":"{model}","{name}":["#);
    let bombs = [
        ("POST", "/v1/search", bomb(r#"{"vectors":["#, "[]", "]}")),
        ("POST", "/v1/search", bomb(r#"{"vectors":["#, r#""""#, "]}")),
        ("POST", "/v1/search", bomb(r#"{"vectors":["#, "[0]", "]}")),
        ("POST", "/v1/search", bomb(r#"{"vector":["#, "0", "]}")),
        ("POST", "/v1/search", bomb(&field("k"), r#"{"":0}"#, "]}")),
        ("POST", "/v1/search", bomb(&field("filter"), r#"{"":0}"#, "]}")),
        ("POST", "/v1/search", bomb(&field("other"), r#"{"":0}"#, "]}")),
        ("POST", "/v1/search", bomb(r#"{"vector":[1],"model":["#, r#"{"":0}"#, "]}")),
        (
            "POST",
            "/v1/search",
            bomb(&format!(r#"{{"vector":[1],"model":"{model}","filter":{{"ids":["#), r#""""#, "]}}"),
        ),
        (
            "POST",
            "/v1/passages",
            bomb(r#"{"model":"m","passages":["#, r#"{"id":"","text":"","vector":[]}"#, "]}"),
        ),
        ("POST", "/v1/passages", bomb(r#"{"model":"m","passages":["#, r#"{"id":"","text":""}"#, "]}")),
        ("DELETE", "/v1/passages", bomb(r#"{"ids":["#, r#""""#, "]}")),
    ];
    let before = server.peak_memory();
    for (method, path, body) in &bombs {
        let one = || server.send_text("host: localhost", method, path, body);
        let (status, said) = one();
        assert!((400..430).contains(&status), "{status} {said}");
        std::thread::scope(|scope| [0; 4].map(|_| scope.spawn(one)).map(|sent| sent.join().unwrap()));
        let grown = (server.peak_memory() - before) >> 20;
        println!("{status}, {grown} MiB more: {}...", &body[..60]);
        assert!(grown < 64, "{grown} MiB for {method} {path} {}...", &body[..60]);
    }
}

#[test]
fn words_of_what_is_added_are_found_at_once_and_of_what_is_deleted_no_more() {
    let bench = Bench::new();
    bench.corpus(60);
    succeed(&mut bench.encode("vectors", &[]));
    succeed(&mut bench.dpr(&["index", "--vectors", "vectors", "--out", "index", "--sparse", "english"]));
    let server = Server::start(serve(&bench, &["--allow-updates", "--allow-text"]));
    let fingerprint = server.index()["model"].clone();
    let put =
        value!({"model": fingerprint, "passages": [{"id": "new", "title": "", "text": "zebra w7 stripes"}]});
    let ask = |method: &str| -> Vec<String> {
        let asked = value!({"question": "zebra w7", "method": method, "k": 100});
        let (status, found) = server.send("POST", "/v1/search/text", &asked, "");
        assert_eq!(status, 200, "{found}");
        found["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
    };
    let before = ask("bm25");
    assert_eq!(server.send("POST", "/v1/passages", &put, "").0, 200);
    assert_eq!(ask("bm25")[0], "new");
    assert_eq!(ask("hybrid").len(), 61);
    assert_eq!(server.send("DELETE", "/v1/passages", &value!({"ids": [before[0]]}), "").0, 200);
    for method in ["bm25", "tfidf", "hybrid", "dense"] {
        assert!(!ask(method).contains(&before[0]), "{method}");
    }
    let found = ask("bm25");
    drop(server);
    let search = ["search", "--index", "index", "--method", "bm25", "--json", "--k", "100", "zebra w7"];
    let hits = json(&mut bench.dpr(&search));
    let ids: Vec<&str> =
        hits["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap()).collect();
    assert_eq!(ids, found, "the command line sees the updates too");
}

#[test]
fn a_server_builds_a_new_version_by_itself() {
    let bench = Bench::new();
    bench.corpus(200);
    bench.index();
    let server = Server::start(serve(&bench, &["--allow-updates", "--compact-rows", "20"]));
    let ids: Vec<String> = (0..21).map(|i| format!("p{i}")).collect();
    assert_eq!(server.send("DELETE", "/v1/passages", &value!({"ids": ids}), "").0, 200);
    let index = server.wait_for(|index| index["number"] == 2);
    let figures = ["count", "added", "removed", "changes"].map(|name| index[name].as_u64().unwrap());
    assert_eq!(figures, [179, 0, 0, 0]);
}

/// Sets a flag when it is dropped.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn clients_of_a_server_that_follows_see_no_failure_while_commands_change_the_index() {
    let bench = Bench::new();
    bench.corpus(300);
    bench.index();
    let server = Server::start(serve(&bench, &[]));
    let fingerprint = server.index()["model"].clone();
    let body = value!({"ids": ["p0"]});
    assert_eq!(server.send("DELETE", "/v1/passages", &body, "").0, 403, "it does not take updates");
    let (vector, text) = passage(&bench, "p7");
    let asked = value!({"vector": vector, "k": 20, "model": fingerprint});
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let (status, found) = server.send("POST", "/v1/search", &asked, "");
                    assert_eq!((status, found["hits"].as_array().unwrap().len()), (200, 20));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Where an assertion fails too: the clients would go on for ever.
        let stop = StopOnDrop(&stop);
        let dpr = |arguments: &[&str]| succeed(bench.dpr(&["index"]).args(arguments));
        let said = dpr(&["delete", "--index", "index", "p7", "p8"]);
        assert!(said.contains("2 passages deleted; 298 passages, 2 changes"), "{said}");
        server.wait_for(|index| index["count"] == 298 && index["removed"] == 2);
        bench.write("new.tsv", format!("id\ttext\ttitle\nnew\t{text}\tTitle 0\np9\tother\tTitle 0\n"));
        let add = ["add", "--index", "index", "--passages", "new.tsv", "--model", "model", "--device", "cpu"];
        let said = dpr(&add);
        assert!(said.contains("1 passage added, 1 replaced; 299 passages"), "{said}");
        server.wait_for(|index| index["count"] == 299 && index["added"] == 2);
        let found = server.send("POST", "/v1/search", &asked, "").1;
        let ids: Vec<&str> =
            found["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap()).collect();
        assert!(ids.contains(&"new") && !ids.contains(&"p7"), "{ids:?}");
        let search = [
            "search", "--model", "model", "--index", "index", "--device", "cpu", "--json", "--k", "400", "w1",
        ];
        let hits = json(&mut bench.dpr(&search))["hits"].as_array().unwrap().len();
        assert_eq!(hits, 299, "the command line sees the updates too");
        dpr(&["compact", "--index", "index"]);
        server.wait_for(|index| index["number"] == 2 && index["changes"] == 0 && index["count"] == 299);
        // A build from the start.
        dpr(&["--vectors", "vectors", "--out", "index", "--kind", "hnsw"]);
        server.wait_for(|index| index["number"] == 3 && index["kind"] == "hnsw" && index["count"] == 300);
        drop(stop);
    });
    println!("{} searches answered", answered.load(Ordering::Relaxed));
    let metrics = {
        let mut socket = TcpStream::connect(&server.address).unwrap();
        socket.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        reply
    };
    assert!(metrics.contains("dpr_index_version 3") && !metrics.contains(r#"status="500""#), "{metrics}");
}

#[test]
fn a_mapped_file_that_is_cut_off_ends_the_server_with_its_name_and_not_with_wrong_answers() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = Bench::new();
    bench.corpus(300);
    bench.index();
    let mut server = Server::start(serve(&bench, &[]));
    let (vector, _) = passage(&bench, "p7");
    let asked = value!({"vector": vector, "k": 5, "model": server.index()["model"].clone()}).to_string();
    let (status, _) = server.send_text("host: localhost", "POST", "/v1/search", &asked);
    assert_eq!(status, 200);

    let vectors = bench.path("index/v-1/vectors.f32");
    fs_err::set_permissions(&vectors, std::fs::Permissions::from_mode(0o644)).unwrap();
    fs_err::OpenOptions::new().write(true).open(&vectors).unwrap().set_len(0).unwrap();
    let mut socket = TcpStream::connect(&server.address).unwrap();
    let head = format!(
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{asked}",
        asked.len()
    );
    socket.write_all(head.as_bytes()).unwrap();
    let mut reply = String::new();
    // The connection is closed or reset.
    let _ = socket.read_to_string(&mut reply);
    assert!(reply.is_empty(), "{reply}");
    let ended = server.child.0.wait().unwrap();
    let mut errors = String::new();
    server.child.0.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!(ended.code(), Some(74), "{ended}: {errors}");
    assert!(errors.contains("v-1/vectors.f32") && errors.contains("dpr index verify"), "{errors}");
}

#[test]
fn without_automatic_compaction_updates_are_refused_once_the_delta_is_full() {
    let bench = Bench::new();
    bench.corpus(60);
    bench.index();
    let options = ["--allow-updates", "--compact", "off", "--max-delta-rows", "3"];
    let server = Server::start(serve(&bench, &options));
    let model = server.index()["model"].clone();
    let put = |ids: &[&str]| {
        let passages: Vec<Value> =
            ids.iter().map(|id| value!({"id": id, "title": "", "text": "w1 w2"})).collect();
        server.send("POST", "/v1/passages", &value!({"model": model, "passages": passages}), "")
    };
    assert_eq!(put(&["a", "b", "c"]).0, 200);
    let (status, body) = put(&["d"]);
    assert_eq!((status, body["error"]["code"].as_str()), (429, Some("overloaded")), "{body}");
    assert_eq!(server.send("DELETE", "/v1/passages", &value!({"ids": ["a"]}), "").0, 200);
    drop(server);
    succeed(&mut bench.dpr(&["index", "compact", "--index", "index"]));
    let server = Server::start(serve(&bench, &options));
    let index = server.index();
    assert_eq!((&index["count"], &index["number"]), (&value!(62), &value!(2)));
}
