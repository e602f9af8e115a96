//! A service that a Python program starts and ends: its first line is `ready PORT`, and `kill` and `start` on its input
//! are answered. Its process ends with its input, that is with this program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock};

use dpr_files::lock;

/// A running service.
pub(crate) struct PythonServer {
    pub(crate) port: u16,
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Where to look if it does not start.
    logs: &'static str,
    is_down: bool,
}

impl PythonServer {
    /// Starts `tests/python/SCRIPT` and waits until the service answers.
    pub(crate) fn start(python: &Path, script: &str, arguments: &[&str], logs: &'static str) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.ancestors().find(|folder| folder.join("Cargo.lock").is_file()).unwrap();
        let mut child = Command::new(python)
            .arg(root.join("tests/python").join(script))
            .args(arguments)
            .current_dir(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not run: {error}", python.display()));
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut server =
            Self { port: 0, _child: child, input, output: BufReader::new(output), logs, is_down: false };
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
        self.port = port.unwrap_or_else(|| panic!("the service did not start: {line:?}, see {}", self.logs));
    }

    /// Ends all processes of the service with SIGKILL.
    pub(crate) fn kill(&mut self) {
        writeln!(self.input, "kill").unwrap();
        assert_eq!(self.line().trim(), "killed");
        self.is_down = true;
    }

    /// Starts it again on the same port with the same data, and waits until it answers. `settings` are what the program
    /// takes: `KEY=VALUE`, with spaces between.
    pub(crate) fn start_again(&mut self, settings: &str) {
        writeln!(self.input, "start {settings}").unwrap();
        self.wait_ready();
        self.is_down = false;
    }

    /// Starts it again if a test that failed has left it killed.
    pub(crate) fn heal(&mut self) {
        if self.is_down {
            self.start_again("");
        }
    }
}

/// A server that is started once, when a test first asks for it, and lent to one test at a time.
pub(crate) struct Once<S>(OnceLock<Option<Mutex<S>>>);

impl<S> Once<S> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The server; `None`, and a line that says so, where the environment variable does not name a Python that has the
    /// package (`cargo xtask test` sets it).
    pub(crate) fn get(
        &'static self,
        variable: &str,
        package: &str,
        start: impl FnOnce(&Path) -> S,
    ) -> Option<MutexGuard<'static, S>> {
        let server = self.0.get_or_init(|| {
            let python = std::env::var_os(variable);
            if python.is_none() {
                eprintln!("skipped: {variable} names no Python with the package {package}");
            }
            python.map(|python| Mutex::new(start(Path::new(&python))))
        });
        server.as_ref().map(lock)
    }
}
