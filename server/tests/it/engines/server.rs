//! The real Milvus server, from its Python package, for as long as this test program runs.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use dpr_milvus::MilvusAddress;

/// A running server. It ends with its input, that is with this program.
pub(crate) struct Server {
    port: u16,
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// The server, for one test at a time; `None`, and a line that says so, where the variable `DPR_MILVUS_PYTHON` does
    /// not name a Python that has it (`cargo xtask test` sets it).
    pub(crate) fn get() -> Option<MutexGuard<'static, Self>> {
        static SERVER: OnceLock<Option<Mutex<Server>>> = OnceLock::new();
        let server = SERVER.get_or_init(|| match std::env::var_os("DPR_MILVUS_PYTHON") {
            None => {
                eprintln!("skipped: DPR_MILVUS_PYTHON names no Python with the package milvus");
                None
            }
            Some(python) => Some(Mutex::new(Self::start(Path::new(&python)))),
        });
        server.as_ref().map(|server| server.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn start(python: &Path) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut child = Command::new(python)
            .arg(root.join("tests/python/milvus_server.py"))
            .args(["--fresh", "--data"])
            .arg(root.join("target/milvus/test"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the Python of DPR_MILVUS_PYTHON runs");
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut server = Self { port: 0, _child: child, input, output: BufReader::new(output) };
        server.wait_ready();
        server
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    fn wait_ready(&mut self) {
        let line = self.line();
        let port = line.strip_prefix("ready ").and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        self.port =
            port.unwrap_or_else(|| panic!("Milvus did not start: {line:?}, see target/milvus/test/logs"));
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        writeln!(self.input, "kill").unwrap();
        assert_eq!(self.line().trim(), "killed");
    }

    /// Starts it again on the same port with the same data, and waits until it answers.
    pub(crate) fn start_again(&mut self) {
        self.start_with("");
    }

    /// As [`Server::start_again`], with settings of its `milvus.yaml`: `KEY=VALUE`, with spaces between.
    pub(crate) fn start_with(&mut self, settings: &str) {
        writeln!(self.input, "start {settings}").unwrap();
        self.wait_ready();
    }

    /// A collection of it.
    pub(crate) fn address(&self, collection: &str) -> MilvusAddress {
        format!("milvus://127.0.0.1:{}/{collection}", self.port).parse().unwrap()
    }
}
