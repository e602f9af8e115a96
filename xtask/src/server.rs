//! A `dpr serve` that a task talks to.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::failure::{Failure, Outcome};
use crate::jobs::Stop;
use crate::json::json;
use crate::paths::dpr;
use crate::process::{command, memory_of};

/// The process of a server; it ends with this value, and with the signal that ends this process.
pub(crate) struct Process {
    /// Its name in failures.
    name: &'static str,
    child: Child,
    stop: Arc<Stop>,
}

impl Process {
    /// Starts it.
    pub(crate) fn start(name: &'static str, command: &mut Command) -> Outcome<Self> {
        let stop = Stop::of_server();
        let child = stop.spawn(command.stdin(Stdio::null()).stdout(Stdio::piped()));
        let child = child.map_err(|error| Failure::new(format!("{name}: {error}")))?;
        Ok(Self { name, child, stop })
    }

    /// Waits until it listens, and returns the address that its first line names, in JSON.
    pub(crate) fn listening(&mut self) -> Outcome<String> {
        let mut line = String::new();
        if let Some(out) = self.child.stdout.take() {
            let read = BufReader::new(out).read_line(&mut line);
            read.map_err(|error| Failure::new(format!("{}: {error}", self.name)))?;
        }
        let told: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = told["listening"].as_str().map(str::to_owned);
        url.ok_or_else(|| Failure::new(format!("{}: it ended before it listened", self.name)))
    }

    /// Returns its standard error, once, where that was asked for.
    pub(crate) fn errors(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Returns the number of the process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how it ended, `None` while it runs.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().ok().flatten();
        if status.is_some() {
            self.stop.ended(self.child.id());
        }
        status
    }

    /// Waits until it ends by itself, at most this long.
    pub(crate) fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        let begin = Instant::now();
        while begin.elapsed() < within {
            if let Some(status) = self.status() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        None
    }

    /// Asks it to end, as an operator does, and ends it if it is still there after this time. Returns `false` for a
    /// process that was still there.
    pub(crate) fn end(&mut self, within: Duration) -> bool {
        self.stop.pull();
        let is_ended = self.ended(within).is_some();
        if !is_ended {
            self.kill();
        }
        is_ended
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.stop.ended(self.child.id());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A running `dpr serve`; it ends with this value.
pub(crate) struct Server {
    process: Process,
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
        let mut command = command(program, &[&fixed, arguments].concat());
        let mut process = Process::start("dpr serve", command.envs(environment.iter().copied()))?;
        let url = process.listening().map_err(|failure| failure.fix("read what it said above"))?;
        Ok(Self { process, url })
    }

    /// Returns the address it listens on.
    pub(crate) fn address(&self) -> Outcome<SocketAddr> {
        let address = self.url.trim_start_matches("http://");
        address.parse().map_err(|error| Failure::new(format!("`{address}` is no address: {error}")))
    }

    /// Returns the number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Bytes in memory that are its own: those of mapped files come and go as the system likes.
    pub(crate) fn memory(&self) -> f64 {
        memory_of(&self.id().to_string(), "RssAnon")
    }

    /// Returns the most bytes in memory that it has while `work` runs, mapped files among them, beyond those it had
    /// before.
    pub(crate) fn growth<T>(&self, work: impl FnOnce() -> T) -> (f64, T) {
        let process = self.id().to_string();
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
        status_of(&self.url, "/healthz")
    }

    /// Waits until it ends by itself, at most this long.
    pub(crate) fn ended(&mut self, within: Duration) -> Option<ExitStatus> {
        self.process.ended(within)
    }
}

/// Returns the status with which the server at `url` answers a path within five seconds, 0 without an answer.
pub(crate) fn status_of(url: &str, path: &str) -> u16 {
    const PATIENCE: Duration = Duration::from_secs(5);
    let ask = || -> Option<u16> {
        let host = url.trim_start_matches("http://");
        let mut socket = TcpStream::connect_timeout(&host.parse().ok()?, PATIENCE).ok()?;
        socket.set_read_timeout(Some(PATIENCE)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        socket.write_all(request.as_bytes()).ok()?;
        let mut head = [0; 12];
        socket.read_exact(&mut head).ok()?;
        std::str::from_utf8(head.get(9..)?).ok()?.parse().ok()
    };
    ask().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts a shell script in the place of a server.
    fn script(text: &str) -> Process {
        Process::start("a script", &mut command("sh", &["-c", text])).unwrap()
    }

    #[test]
    fn the_address_is_that_of_the_first_line_and_a_server_that_is_asked_to_end_does() {
        let mut server = script("echo '{\"listening\":\"http://127.0.0.1:1\"}'; exec sleep 60");
        assert_eq!(server.listening().unwrap(), "http://127.0.0.1:1");
        assert!(server.status().is_none());
        let begin = Instant::now();
        assert!(server.end(Duration::from_secs(30)));
        assert!(server.status().is_some_and(|status| !status.success()));
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn a_server_that_does_not_end_when_it_is_asked_to_is_killed_and_told() {
        let mut server = script("trap '' TERM; echo '{\"listening\":\"http://127.0.0.1:1\"}'; exec sleep 60");
        server.listening().unwrap();
        assert!(!server.end(Duration::from_millis(200)));
        assert!(server.status().is_some_and(|status| !status.success()));
    }

    #[test]
    fn a_server_that_ends_before_it_listens_is_named() {
        let failure = script("exit 3").listening().unwrap_err().to_string();
        assert!(failure.contains("a script: it ended before it listened"), "{failure}");
    }

    #[test]
    fn the_status_of_a_path_is_that_of_the_answer_and_0_where_nobody_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answering = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let asked = socket.read(&mut [0; 1024]).unwrap();
            socket.write_all(b"HTTP/1.1 503 Service Unavailable\r\n\r\n").unwrap();
            asked
        });
        assert_eq!(status_of(&url, "/readyz"), 503);
        assert!(answering.join().unwrap() > 0);
        assert_eq!(status_of(&url, "/readyz"), 0);
        assert_eq!(status_of("no address", "/readyz"), 0);
    }
}
