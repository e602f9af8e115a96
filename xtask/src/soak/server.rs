//! The server that is soaked: its process, its memory, and what it logs.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::thread::JoinHandle;

use serde_json::Value;

use super::wire::Connection;
use crate::failure::{Failure, Outcome};
use crate::paths::dpr;
use crate::process::{command, output};

/// Stands in every text, key and address that the clients send.
pub(super) const SECRET: &str = "SOAKSECRET";
/// The first number of vectors that are sent as numbers: no other number begins so.
pub(super) const SECRET_NUMBER: &str = "0.73908513";
/// The beginning of the base64 of vectors that begin so: the number's four bytes, and a zero.
pub(super) const SECRET_BYTES: &str = "rzQ9P";

/// A running server.
pub(super) struct Server {
    child: Mutex<Child>,
    id: String,
    address: String,
    /// Reads the log, and returns the lines in which something secret stands, and the number of all lines.
    log: Option<JoinHandle<Leaked>>,
}

/// Lines of the log that must not be there.
#[derive(Debug, Default)]
pub(super) struct Leaked {
    pub(super) lines: usize,
    pub(super) secret: Vec<String>,
}

impl Server {
    /// Starts a server that logs everything, takes updates and compacts often.
    pub(super) fn start(model: &str, index: &str) -> Outcome<Self> {
        let failed = |what: String| Failure::new(format!("dpr serve: {what}"));
        let serve = ["serve", "--model", model, "--index", index, "--listen", "127.0.0.1:0", "--json"];
        let mut start = command(dpr(), &serve);
        start.args(["--allow-updates", "--compact-rows", "300"]);
        start.env("DPR_LOG", "trace").env("DPR_UPDATE_TOKEN", token());
        let started = start.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| failed(error.to_string()))?;
        let log = child.stderr.take().map(|stderr| std::thread::spawn(move || search(stderr)));
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        }
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let Some(url) = told["listening"].as_str() else {
            return Err(failed("it ended before it listened".to_owned()));
        };
        let address = url.trim_start_matches("http://").to_owned();
        Ok(Self { id: child.id().to_string(), child: Mutex::new(child), address, log })
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn is_alive(&self) -> bool {
        self.child.lock().is_ok_and(|mut child| matches!(child.try_wait(), Ok(None)))
    }

    /// Bytes in memory that are its own: those of mapped files come and go as the system likes.
    pub(super) fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id)).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0)
    }

    /// The number of the version in use.
    pub(super) fn version(&self) -> Option<u64> {
        let (_, body) = Connection::new(&self.address, "").ask("GET", "/v1/index", "").ok()?;
        serde_json::from_str::<Value>(&body).ok()?["number"].as_u64()
    }

    /// Ends the server, as an operator does, and returns what its log held.
    pub(super) fn end(mut self) -> Leaked {
        let _ = output(&mut command("kill", &["-TERM", &self.id]));
        if let Ok(mut child) = self.child.lock() {
            let _ = child.wait();
        }
        self.log.take().and_then(|log| log.join().ok()).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(mut child) = self.child.lock() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The key that updates need.
pub(super) fn token() -> String {
    format!("{SECRET}-key-0123456789abcdef")
}

/// Reads a log to its end.
fn search(log: impl Read) -> Leaked {
    let mut leaked = Leaked::default();
    for line in BufReader::new(log).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        leaked.lines += 1;
        // Numbers may be printed with other digits at their ends.
        if [SECRET, &SECRET_NUMBER[..8], SECRET_BYTES].iter().any(|secret| line.contains(secret)) {
            leaked.secret.push(line.chars().take(300).collect());
        }
    }
    leaked
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn secrets_in_a_log_are_found_in_any_form() {
        let number: f32 = SECRET_NUMBER.parse().unwrap();
        let sent = BASE64_STANDARD.encode([number.to_le_bytes(), [0; 4]].concat());
        assert!(sent.starts_with(SECRET_BYTES), "{sent}");
        let log = format!("fine\nPOST {SECRET}-text\nvector [{number}, 1]\nvector \"{sent}\"\nalso fine");
        let leaked = search(log.as_bytes());
        assert_eq!((leaked.lines, leaked.secret.len()), (5, 3));
    }
}
