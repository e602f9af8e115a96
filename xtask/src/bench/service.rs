//! A server that benches run beside them, from its Python package.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::process::command;

/// Time between two looks at the memory of a server.
const BETWEEN_SAMPLES: Duration = Duration::from_millis(200);

/// A server, which ends with its input.
pub(super) struct Service {
    child: Child,
    pub(super) port: String,
    pid: String,
}

impl Service {
    /// Starts a script that says `ready PORT PID`.
    pub(super) fn start(python: &Path, script: &[&str]) -> Outcome<Self> {
        let failed = |what: String| Failure::new(format!("{}: {what}", script.join(" ")));
        let mut child = command(python, script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|error| failed(error.to_string()))?;
        }
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["ready", port, pid] => Ok(Self { port: (*port).to_owned(), pid: (*pid).to_owned(), child }),
            _ => Err(failed("the server did not start".to_owned())),
        }
    }

    /// Bytes in memory of the server and its children, where what they share counts once; not a number where the system
    /// does not say.
    pub(super) fn memory(&self) -> f64 {
        let mut bytes = proportional(&self.pid);
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for name in processes.filter_map(|entry| entry.file_name().into_string().ok()) {
            let stat = fs::read_to_string(format!("/proc/{name}/stat")).unwrap_or_default();
            // After the name of the program, which may hold anything, come its state and its parent.
            let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
            if parent == Some(&self.pid) {
                let child = proportional(&name);
                // One that has just ended.
                bytes += if child.is_nan() { 0.0 } else { child };
            }
        }
        bytes
    }

    /// Returns the most memory that the server and its children have while `work` runs, and what it returned. A child
    /// that ends with a connection is not there any more when `work` is done.
    pub(super) fn most_memory<T>(&self, work: impl FnOnce() -> T) -> (f64, T) {
        std::thread::scope(|scope| {
            let (running, ended) = mpsc::channel::<()>();
            let sampling = scope.spawn(move || {
                let mut most = self.memory();
                while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(BETWEEN_SAMPLES) {
                    // Not a number is less than any.
                    most = self.memory().max(most);
                }
                most
            });
            let done = work();
            drop(running);
            (sampling.join().unwrap_or(f64::NAN), done)
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(mut input) = self.child.stdin.take() {
            let _ = input.write_all(b"stop\n");
        }
        let _ = self.child.wait();
    }
}

/// Bytes of a process in memory, with its share of what others map too.
fn proportional(pid: &str) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Pss:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0)
}
