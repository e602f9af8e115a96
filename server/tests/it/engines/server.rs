//! The real Milvus server, from its Python package, for as long as this test program runs.

use std::sync::MutexGuard;

use dpr_milvus::MilvusAddress;

use crate::support::python_server::{Once, PythonServer};

/// A running server.
pub(crate) struct Server(PythonServer);

impl Server {
    /// The server, for one test at a time.
    pub(crate) fn get() -> Option<MutexGuard<'static, Self>> {
        static SERVER: Once<Server> = Once::new();
        let mut server = SERVER.get("DPR_MILVUS_PYTHON", "milvus", |python| {
            let arguments = ["--fresh", "--data", "target/milvus/test"];
            Self(PythonServer::start(python, "milvus_server.py", &arguments, "target/milvus/test/logs"))
        })?;
        server.0.heal();
        Some(server)
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }

    /// Starts it again on the same port with the same data, and waits until it answers.
    pub(crate) fn start_again(&mut self) {
        self.0.start_again("");
    }

    /// As [`Server::start_again`], with settings of its `milvus.yaml`: `KEY=VALUE`, with spaces between.
    pub(crate) fn start_with(&mut self, settings: &str) {
        self.0.start_again(settings);
    }

    /// A collection of it.
    pub(crate) fn address(&self, collection: &str) -> MilvusAddress {
        format!("milvus://127.0.0.1:{}/{collection}", self.0.port).parse().unwrap()
    }
}
