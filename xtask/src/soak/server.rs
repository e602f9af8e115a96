//! The server that is soaked: its process, its memory, and what it logs.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::wire::Connection;
use crate::failure::Outcome;
use crate::paths::dpr;
use crate::process::{command, memory_of};
use crate::server::Process;

/// Stands in every text, key and address that the clients send.
pub(super) const SECRET: &str = "SOAKSECRET";
/// The first number of vectors that are sent as numbers: no other number begins so.
pub(super) const SECRET_NUMBER: &str = "0.73908513";
/// The beginning of the base64 of vectors that begin so: the number's four bytes, and a zero.
pub(super) const SECRET_BYTES: &str = "rzQ9P";

/// Lines at the end of the log that are shown where the server does not start.
const SHOWN: usize = 12;
/// Characters of a line that are shown.
const WIDTH: usize = 300;
/// Time in which a server that is asked to end must do so.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
pub(super) struct Server {
    process: Mutex<Process>,
    id: String,
    address: String,
    /// Reads the log, and returns the lines in which something secret stands, and the number of all lines.
    log: Option<JoinHandle<Leaked>>,
}

/// Lines of the log that must not be there, and whether the server ended.
#[derive(Debug, Default)]
pub(super) struct Leaked {
    /// `false` if it was still there [`PATIENCE`] after it was asked to end.
    pub(super) is_ended: bool,
    pub(super) lines: usize,
    pub(super) secret: Vec<String>,
    /// The last lines, whatever they say.
    pub(super) last: VecDeque<String>,
}

impl Server {
    /// Starts a server that logs everything, takes updates and compacts often.
    pub(super) fn start(model: &str, index: &str) -> Outcome<Self> {
        let serve = ["serve", "--model", model, "--index", index, "--listen", "127.0.0.1:0", "--json"];
        let mut start = command(dpr(), &serve);
        start.args(["--allow-updates", "--compact-rows", "300"]);
        start.env("DPR_LOG", "trace").env("DPR_UPDATE_TOKEN", token());
        let mut process = Process::start("dpr serve", start.stderr(Stdio::piped()))?;
        let log = process.errors().map(|errors| std::thread::spawn(move || search(errors)));
        match process.listening() {
            Ok(url) => {
                let (id, address) = (process.id().to_string(), url.trim_start_matches("http://").to_owned());
                Ok(Self { process: Mutex::new(process), id, address, log })
            }
            Err(failure) => {
                // The log ends with the process.
                drop(process);
                let said = log.and_then(|log| log.join().ok()).unwrap_or_default();
                Err(failure.fix(format!("read what it said:\n    {}", said.last())))
            }
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn is_alive(&self) -> bool {
        self.process.lock().is_ok_and(|mut process| process.status().is_none())
    }

    /// Bytes in memory that are its own: those of mapped files come and go as the system likes.
    pub(super) fn memory(&self) -> f64 {
        memory_of(&self.id, "RssAnon")
    }

    /// The number of the version in use.
    pub(super) fn version(&self) -> Option<u64> {
        let (_, body) = Connection::new(&self.address, "").ask("GET", "/v1/index", "").ok()?;
        serde_json::from_str::<Value>(&body).ok()?["number"].as_u64()
    }

    /// Ends the server, as an operator does, and returns what its log held.
    pub(super) fn end(mut self) -> Leaked {
        let is_ended = self.process.lock().is_ok_and(|mut process| process.end(PATIENCE));
        let leaked = self.log.take().and_then(|log| log.join().ok()).unwrap_or_default();
        Leaked { is_ended, ..leaked }
    }
}

impl Leaked {
    /// Returns the last lines of the log, one below the other.
    fn last(&self) -> String {
        let lines: Vec<&str> = self.last.iter().map(String::as_str).collect();
        lines.join("\n    ")
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
        leaked.last.push_back(line.chars().take(WIDTH).collect());
        if leaked.last.len() > SHOWN {
            leaked.last.pop_front();
        }
        // Numbers may be printed with other digits at their ends.
        if [SECRET, &SECRET_NUMBER[..8], SECRET_BYTES].iter().any(|secret| line.contains(secret)) {
            leaked.secret.push(line.chars().take(WIDTH).collect());
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

    #[test]
    fn the_last_lines_of_a_log_are_kept_for_a_server_that_does_not_start() {
        let log: String = (0..20).map(|line| format!("line {line}\n")).collect();
        let last = search(log.as_bytes()).last();
        assert!(last.starts_with("line 8\n") && last.ends_with("line 19"), "{last}");
    }
}
