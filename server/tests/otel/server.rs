//! A server of three passages, as a process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, build_index};
use serde_json::Value;

/// Fingerprint of the model that made the vectors.
const MODEL: &str = "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";

/// A running `dpr serve`; killed when dropped.
pub(crate) struct Server {
    child: Child,
    address: String,
    dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    pub(crate) fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let passage = |n: usize| Passage::new(format!("p{n}"), "Zebrafinken", format!("Zebrafinken {n}"));
        let rows = vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
        let set = VectorSet::new(MODEL, 2, (0..3).map(passage).collect(), rows);
        build_index(&set, &dir.path().join("index"), &IndexOptions::default(), &Silent).unwrap();
        let log = fs_err::File::create(dir.path().join("log")).unwrap();
        let mut command = serve(dir.path());
        command.args(["--json", "--log-format", "json", "--recall-sample", "0"]).args(arguments);
        command.env("DPR_LOG", "debug").envs(variables.iter().copied());
        let mut child = command.stdout(Stdio::piped()).stderr(log.into_parts().0).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            panic!("{line}: {}", fs_err::read_to_string(dir.path().join("log")).unwrap())
        });
        let address = told["listening"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { child, address, dir }
    }

    /// The status of a search.
    pub(crate) fn search(&self, headers: &[(&str, &str)]) -> u16 {
        let body = serde_json::json!({"vector": [0.5, 1.0], "k": 2, "model": MODEL}).to_string();
        self.ask("POST /v1/search", headers, &body)
    }

    pub(crate) fn get(&self, path: &str, headers: &[(&str, &str)]) -> u16 {
        self.ask(&format!("GET {path}"), headers, "")
    }

    fn ask(&self, what: &str, headers: &[(&str, &str)], body: &str) -> u16 {
        let mut head = format!("{what} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let length = body.len();
        head.push_str(&format!("content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"));
        let mut socket = TcpStream::connect(&self.address).unwrap();
        socket.write_all(head.as_bytes()).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        reply.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn log(&self) -> String {
        fs_err::read_to_string(self.dir.path().join("log")).unwrap()
    }

    /// Ends the server as an operator does. Returns its log.
    pub(crate) fn end(mut self) -> String {
        let told = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.log());
        self.log()
    }
}

/// The exit status and the error of a server that does not start.
pub(crate) fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let output = serve(dir.path()).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn serve(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dpr"));
    command.args(["serve", "--index", "index", "--listen", "127.0.0.1:0"]).current_dir(dir);
    let of_others = |name: &str| ["DPR_", "OTEL_"].iter().any(|prefix| name.starts_with(prefix));
    for (name, _) in std::env::vars().filter(|(name, _)| of_others(name)) {
        command.env_remove(name);
    }
    command.env("NO_PROXY", "127.0.0.1");
    command
}
