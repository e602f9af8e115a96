//! `dpr serve` as a process, and requests to it.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A running `dpr serve`.
pub(crate) struct Server {
    child: Running,
    /// Open, as the server may write to it.
    _out: BufReader<ChildStdout>,
    pub(crate) address: String,
}

/// A process that is killed when this is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Starts the server and waits until it answers searches. The command says where it listens.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.arg("--json").stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "the server ended: {}", child.wait().unwrap());
        let line: Value = serde_json::from_str(&line).unwrap();
        let address = line["listening"].as_str().unwrap().trim_start_matches("http://").to_owned();
        Self { child: Running(child), _out: out, address }
    }

    /// Asks the server to end, as an operator does, and waits until it has.
    #[cfg(unix)]
    pub(crate) fn stop(mut self) {
        let asked = Command::new("kill").args(["-TERM", &self.child.0.id().to_string()]).status().unwrap();
        assert!(asked.success());
        let started = Instant::now();
        while self.child.0.try_wait().unwrap().is_none() {
            assert!(started.elapsed() < Duration::from_secs(30), "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(self.child.0.wait().unwrap().success());
    }
}

/// Sends one request on a connection of its own; status and body.
pub(crate) fn ask(address: &str, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes())?;
    socket.write_all(body.as_bytes())?;
    let mut reply = String::new();
    socket.read_to_string(&mut reply)?;
    let (head, body) = reply.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}
