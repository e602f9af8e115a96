//! The vectors of the index bench in a Milvus server on this machine: what a passage takes, from which the sizes of a
//! cluster are computed.

use std::path::Path;

use super::index::{Vectors, vectors};
use super::service::Service;
use super::{json, number};
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, built, bytes_in};
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
    let server = Service::start(&python, &["tests/python/milvus_server.py", "--fresh", "--data", DATA])?;
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
    let written = bytes_in(Path::new(&vectors)) as f64 / blocks as f64;
    println!("`dpr encode` wrote {written:.0} bytes a passage, vectors and texts");
    println!("{:>6} {:>10} {:>9} {:>9}", "ef", "recall@20", "p50, ms", "p99, ms");
    for row in said["graph"].as_array().into_iter().flatten() {
        let of = |name: &str| number(row, name);
        println!("{:>6} {:>10.4} {:>9.2} {:>9.2}", of("ef")?, of("recall")?, of("p50")?, of("p99")?);
    }
    Ok(())
}
