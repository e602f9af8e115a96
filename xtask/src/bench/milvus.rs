//! The vectors of the index bench in a Milvus server on this machine: what a passage takes, from which the sizes of a
//! cluster are computed.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Stdio};

use super::index::{Vectors, vectors};
use super::report::memory_of;
use super::{json, number};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, built};
use crate::process::{self, command, output};
use crate::setup::python::milvus_python;

const DATA: &str = "target/milvus/bench";

pub(super) fn run(is_quick: bool) -> Outcome {
    let Some(python) = milvus_python() else {
        println!("milvus: there is no package of its server for this processor");
        return Ok(());
    };
    let Some(Vectors { vectors, questions, blocks, .. }) = vectors(is_quick)? else { return Ok(()) };
    process::build_benches(&["milvus_bench"])?;
    let server = Server::start(&python)?;
    let before = server.memory();
    let program = built("milvus_bench");
    let address = format!("milvus://127.0.0.1:{}/bench", server.port);
    let said =
        json(&output(&mut command(program, &[&vectors, DEMO_MODEL, &questions, &address]))?, "milvus_bench")?;
    let seconds = number(&said, "load_seconds")?;
    let (memory, disk) = (server.memory() - before, bytes_in(Path::new(DATA).join("data").as_path()));
    println!(
        "\nMilvus 2.3.5 on this machine: {blocks} vectors of 768 numbers with their texts, written and indexed in {seconds:.1} s, \
         {:.0} passages/s",
        blocks as f64 / seconds
    );
    println!(
        "its memory grew by {:.0} bytes a passage, its disk holds {:.0}",
        memory / blocks as f64,
        disk as f64 / blocks as f64
    );
    println!("{:>6} {:>10} {:>9} {:>9}", "ef", "recall@20", "p50, ms", "p99, ms");
    for row in said["graph"].as_array().into_iter().flatten() {
        let of = |name: &str| number(row, name);
        println!("{:>6} {:>10.4} {:>9.2} {:>9.2}", of("ef")?, of("recall")?, of("p50")?, of("p99")?);
    }
    Ok(())
}

/// The server, which ends with its input.
struct Server {
    child: Child,
    port: String,
    pid: String,
}

impl Server {
    fn start(python: &Path) -> Outcome<Self> {
        let failed = |what: String| Failure::new(format!("the Milvus server: {what}"));
        let mut child = command(python, &["tests/python/milvus_server.py", "--fresh", "--data", DATA])
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
            _ => Err(failed(format!("it did not start, see {DATA}/logs"))),
        }
    }

    /// Bytes in memory.
    fn memory(&self) -> f64 {
        memory_of(&self.pid, "VmRSS")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut input) = self.child.stdin.take() {
            let _ = input.write_all(b"stop\n");
        }
        let _ = self.child.wait();
    }
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
