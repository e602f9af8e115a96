//! `dpr serve` with keys, TLS, and an address of its own for metrics, as processes.

use crate::support::common;
use crate::support::server::Running;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Bench, fail, succeed};
use serde_json::Value;

/// A running `dpr serve`; killed when dropped. Its log goes to a file.
struct Server {
    _child: Running,
    told: Value,
}

impl Server {
    fn start(bench: &Bench, arguments: &[&str]) -> Self {
        let mut command = serve(bench, arguments);
        let log = fs_err::File::create(bench.path("log")).unwrap();
        let mut child =
            command.arg("--json").stdout(Stdio::piped()).stderr(log.into_parts().0).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = || fs_err::read_to_string(bench.path("log")).unwrap();
        let told = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}: {}", log()));
        Self { _child: Running(child), told }
    }

    /// The status of a request to the address that the server told under this name.
    fn get(&self, name: &str, path: &str, key: &str) -> u16 {
        let address = self.told[name].as_str().unwrap().trim_start_matches("http://");
        let mut socket = TcpStream::connect(address).unwrap();
        let head = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx-api-key: {key}\r\n\r\n"
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        reply.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

fn serve(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.dpr(&["serve", "--index", "index"]);
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    for name in ["DPR_UPDATE_TOKEN", "DPR_KEYS", "DPR_KEYS_FILE"] {
        command.env_remove(name);
    }
    command.args(arguments);
    command
}

/// Makes a key, and returns it with its entry.
fn new_key(bench: &Bench, name: &str, scopes: &str) -> (String, String) {
    let said = succeed(&mut bench.dpr(&["keys", "new", "--name", name, "--scope", scopes]));
    let key = said.split_whitespace().find(|word| word.starts_with("dpr_")).unwrap().to_owned();
    (key, said[said.find("[[key]]").unwrap()..].to_owned())
}

fn write(path: &Path, text: &str) {
    fs_err::write(path, text).unwrap();
}

#[test]
fn keys_of_the_command_open_what_their_file_says_while_it_says_so() {
    let bench = Bench::new();
    bench.corpus(20);
    bench.index();
    let (reader, entry) = new_key(&bench, "reader", "search");
    let (operator, other) = new_key(&bench, "operator", "search,admin");
    assert!(!entry.contains(&reader) && reader != operator);
    let file = bench.path("keys.toml");
    write(&file, &(entry.clone() + &other));
    let server = Server::start(&bench, &["--keys", "keys.toml", "--metrics-listen", "127.0.0.1:0"]);
    let index = |key: &str| server.get("listening", "/v1/index", key);
    assert_eq!([index(""), index(&reader), index(&operator)], [401, 200, 200]);
    let metrics = |key: &str| server.get("metrics", "/metrics", key);
    assert_eq!([metrics(""), metrics(&reader), metrics(&operator)], [401, 403, 200]);
    assert_eq!(server.get("metrics", "/readyz", ""), 200);
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(server.get("listening", path, &operator), 404, "{path}");
    }
    // No model was given, so that none is handed out.
    assert_eq!(server.get("listening", "/v1/model", &reader), 404);
    write(&file, &other);
    let started = Instant::now();
    while index(&reader) != 401 {
        assert!(started.elapsed() < Duration::from_secs(30), "the file is read again");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(index(&operator), 200);
    let log = fs_err::read_to_string(bench.path("log")).unwrap();
    assert!(
        log.contains("was read again") && !log.contains(&reader[4..]) && !log.contains(&operator[4..]),
        "{log}"
    );
}

#[test]
fn a_server_that_others_reach_needs_keys_or_is_told_that_it_is_public() {
    let bench = Bench::new();
    bench.corpus(20);
    bench.index();
    let error = fail(&mut serve(&bench, &["--listen", "0.0.0.0:0"]));
    assert!(
        error.contains("--public") && error.contains("--keys") && error.contains("127.0.0.1:"),
        "{error}"
    );
    let error = fail(&mut serve(&bench, &["--metrics-listen", "0.0.0.0:0"]));
    assert!(error.contains("--public"), "{error}");
    let error = fail(&mut serve(&bench, &["--listen", "0.0.0.0:0", "--public", "--allow-updates"]));
    assert!(error.contains("--allow-updates") && error.contains("DPR_UPDATE_TOKEN"), "{error}");
    let error = fail(&mut serve(&bench, &["--allow-updates", "--trust-forwarded", "1"]));
    assert!(error.contains("--trust-forwarded 1") && error.contains("DPR_UPDATE_TOKEN"), "{error}");
    let mut command = serve(&bench, &["--listen", "0.0.0.0:0", "--public", "--allow-updates"]);
    let error = fail(command.env("DPR_UPDATE_TOKEN", "fifteen-letters"));
    assert!(error.contains("fewer than 16 characters") && !error.contains("fifteen-letters"), "{error}");
    // What is wrong with keys and certificates is told before anything listens.
    let error = fail(serve(&bench, &[]).env("DPR_KEYS", "[[key]]\nname = \"dpr_marked"));
    assert!(error.contains("line 2") && !error.contains("marked"), "{error}");
    write(&bench.path("cert.pem"), "nothing");
    let error = fail(&mut serve(&bench, &["--tls-cert", "cert.pem", "--tls-key", "cert.pem"]));
    assert!(error.contains("cert.pem holds no certificate"), "{error}");
    let error = fail(&mut serve(&bench, &["--rate", "0"]));
    assert!(error.contains("--rate 0"), "{error}");
    let error = fail(&mut serve(&bench, &["--rate", "-1"]));
    assert!(
        error.contains("--rate -1 is out of range") && error.contains("above 0.000001 and up to"),
        "{error}"
    );
    assert!(!error.contains("--burst"), "only what was given is told of: {error}");
    let error = fail(&mut serve(&bench, &["--rate", "5", "--burst", "0"]));
    assert!(error.contains("--burst 0") && error.contains("at least 1"), "{error}");
    let server = Server::start(&bench, &["--listen", "0.0.0.0:0", "--public"]);
    assert!(server.told["listening"].as_str().unwrap().starts_with("http://0.0.0.0:"));
}

#[test]
fn log_lines_may_be_json() {
    let bench = Bench::new();
    bench.corpus(20);
    bench.index();
    let mut command = serve(&bench, &["--log-format", "json", "--rate", "0"]);
    let said = command.env("DPR_UPDATE_TOKEN", "Birnenmus").output().unwrap();
    let log = String::from_utf8(said.stderr).unwrap();
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(line["level"], "WARN");
    assert!(
        line["message"].as_str().unwrap().contains("DPR_UPDATE_TOKEN") && !log.contains("Birnenmus"),
        "{log}"
    );
}

#[test]
fn metrics_are_not_at_the_address_of_the_searches() {
    let bench = Bench::new();
    bench.corpus(3);
    bench.index();
    // A port that is free, as nobody listens there any more.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = fail(&mut serve(&bench, &["--listen", &free, "--metrics-listen", &free]));
    assert!(error.contains(&format!("--metrics-listen {free} is the address of --listen")), "{error}");
}
