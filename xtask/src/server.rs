//! A `dpr serve` that a task talks to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::json::json;
use crate::paths::dpr;
use crate::process::{command, memory_of};

/// A running server; it ends with this value.
pub(crate) struct Server {
    child: Child,
    /// `http://` and the address.
    pub(crate) url: String,
}

/// An answer, read to its end.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Head and body, as they came.
    pub(crate) text: String,
    pub(crate) took: Duration,
}

impl Answer {
    /// Returns the body.
    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }
}

impl Server {
    /// Starts `dpr serve` with these arguments, on a free port of this machine, and waits until it answers searches.
    pub(crate) fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Outcome<Self> {
        Self::start_program(&dpr(), arguments, environment)
    }

    /// As [`Server::start`], of this `dpr`.
    pub(crate) fn start_program(
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Outcome<Self> {
        let fixed = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let failed = |what: String| Failure::new(format!("dpr serve: {what}"));
        let mut command = command(program, &[&fixed, arguments].concat());
        command.envs(environment.iter().copied()).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let mut server = Self { child, url: String::new() };
        let mut line = String::new();
        if let Some(out) = server.child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        }
        server.url = json(&line, "dpr serve")?["listening"].as_str().unwrap_or_default().to_owned();
        Ok(server)
    }

    /// Returns the address it listens on.
    pub(crate) fn address(&self) -> Outcome<SocketAddr> {
        let address = self.url.trim_start_matches("http://");
        address.parse().map_err(|error| Failure::new(format!("`{address}` is no address: {error}")))
    }

    /// Returns the number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Bytes in memory that are its own: those of mapped files come and go as the system likes.
    pub(crate) fn memory(&self) -> f64 {
        memory_of(&self.child.id().to_string(), "RssAnon")
    }

    /// Returns the most bytes in memory that it has while `work` runs, mapped files among them, beyond those it had
    /// before.
    pub(crate) fn growth<T>(&self, work: impl FnOnce() -> T) -> (f64, T) {
        let process = self.child.id().to_string();
        // The kernel's peak begins anew.
        let _ = std::fs::write(format!("/proc/{process}/clear_refs"), "5");
        let before = memory_of(&process, "VmHWM");
        let done = work();
        (memory_of(&process, "VmHWM") - before, done)
    }

    /// Sends a request and reads its answer; `Err` if the server closes without one or takes longer than a minute.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Outcome<Answer> {
        let begin = Instant::now();
        let failed = |error: std::io::Error| Failure::new(format!("{method} {path}: {error}"));
        let mut socket = self.send(method, path, headers, body)?;
        let mut bytes = Vec::new();
        let read = socket.read_to_end(&mut bytes);
        if bytes.is_empty() {
            read.map_err(failed)?;
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| Failure::new(format!("{method} {path}: no answer")))?;
        Ok(Answer { status, text, took: begin.elapsed() })
    }

    /// Sends a request, waits this long and leaves without its answer.
    pub(crate) fn leave(&self, method: &str, path: &str, body: &[u8], after: Duration) -> Outcome {
        let mut socket = self.send(method, path, &[], body)?;
        let _ = socket.set_read_timeout(Some(after));
        let _ = socket.read(&mut [0]);
        Ok(())
    }

    fn send(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Outcome<TcpStream> {
        let mut socket = self.connect()?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|line| line.to_ascii_lowercase().starts_with("host:")) {
            head.push_str(&format!("host: {}\r\n", self.url.trim_start_matches("http://")));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len()));
        }
        for line in headers {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.push_str("\r\n");
        // A server that refuses a body answers before it has read it, and closes.
        let _ = socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(body));
        Ok(socket)
    }

    /// Opens a connection on which nothing was sent.
    pub(crate) fn connect(&self) -> Outcome<TcpStream> {
        let failed = |error: std::io::Error| Failure::new(format!("{}: {error}", self.url));
        let socket = TcpStream::connect(self.address()?).map_err(failed)?;
        socket.set_read_timeout(Some(Duration::from_secs(60))).map_err(failed)?;
        Ok(socket)
    }

    /// Returns the JSON that a path answers with.
    pub(crate) fn json(&self, path: &str) -> Outcome<Value> {
        json(self.ask("GET", path, &[], &[])?.body(), path)
    }

    /// Returns the status that `/healthz` answers with within five seconds, 0 without an answer.
    pub(crate) fn health(&self) -> u16 {
        let ask = || -> Option<u16> {
            let mut socket = self.connect().ok()?;
            socket.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            let host = self.url.trim_start_matches("http://");
            let request = format!("GET /healthz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            socket.write_all(request.as_bytes()).ok()?;
            let mut head = [0; 12];
            socket.read_exact(&mut head).ok()?;
            std::str::from_utf8(head.get(9..)?).ok()?.parse().ok()
        };
        ask().unwrap_or(0)
    }

    /// Waits until it ends by itself, at most this long.
    pub(crate) fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let begin = Instant::now();
        while begin.elapsed() < within {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
