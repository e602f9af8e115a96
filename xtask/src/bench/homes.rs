//! The same passages in each of their homes: a directory, PostgreSQL, Milvus. What filling, searching and changing them
//! takes, and how much memory and disk.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::index::{Vectors, vectors};
use super::service::Service;
use super::{json, number};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, built, bytes_in, venv_python};
use crate::process::{self, command, output};
use crate::setup::python::milvus_python;

/// Memory that PostgreSQL builds a graph in: more than 60,000 vectors of 32 bits and their links take.
const BUILD_MEMORY: &str = "maintenance_work_mem=512MB";

const POSTGRES_DATA: &str = "target/postgres/bench";
const MILVUS_DATA: &str = "target/milvus/bench";

pub(super) fn run(is_quick: bool) -> Outcome {
    let Some(Vectors { folder, vectors, questions, blocks }) = vectors(is_quick)? else { return Ok(()) };
    process::build_benches(&["homes_bench"])?;
    let program = || built("homes_bench");
    let fill = |home: &str| -> Outcome<f64> {
        let filled = output(&mut command(program(), &["fill", &vectors, home]))?;
        number(&json(&filled, "homes_bench")?, "seconds")
    };
    let search = |home: &str| -> Outcome<Value> {
        let searched = output(&mut command(program(), &["search", &vectors, DEMO_MODEL, &questions, home]))?;
        json(&searched, "homes_bench")
    };
    // The memory of a server is its most while it is searched and changed, as that of a directory is of the program
    // that searches it.
    let of_server = |server: &Service, home: &str| -> Outcome<((f64, Value), f64)> {
        let before = server.memory();
        let seconds = fill(home)?;
        let (most, said) = server.most_memory(|| search(home));
        Ok(((seconds, said?), most - before))
    };
    println!(
        "\n{blocks} passages with vectors of 768 numbers, HNSW with the default parameters, 1,000 questions"
    );
    println!(
        "{:<22} {:>12} {:>10} {:>9} {:>9} {:>13} {:>11} {:>13} {:>11}",
        "",
        "filled/s",
        "recall@20",
        "p50, ms",
        "p99, ms",
        "questions/s",
        "change, ms",
        "memory, MB",
        "disk, MB"
    );
    let print = |name: &str, (seconds, said): (f64, Value), memory: Option<f64>, disk: u64| -> Outcome {
        let of = |name: &str| number(&said, name);
        println!(
            "{name:<22} {:>12.0} {:>10.4} {:>9.2} {:>9.2} {:>13.0} {:>11.1} {:>13.0} {:>11.0}",
            blocks as f64 / seconds,
            of("recall")?,
            of("p50")?,
            of("p99")?,
            of("questions_per_second")?,
            of("change")?,
            memory.map_or_else(|| of("bytes"), Ok)? / 1e6,
            disk as f64 / 1e6
        );
        Ok(())
    };

    let directory = format!("{folder}/home");
    remove(&directory)?;
    let said = (fill(&directory)?, search(&directory)?);
    print("directory", said, None, bytes_in(Path::new(&directory)))?;

    for (name, options) in [("PostgreSQL, vector", ""), ("PostgreSQL, halfvec", "&type=halfvec")] {
        remove(POSTGRES_DATA)?;
        let script = ["tests/python/postgres_server.py", "--data", POSTGRES_DATA, "--set", BUILD_MEMORY];
        let server = Service::start(&venv_python(), &script)?;
        let home = format!("postgres://dpr:dpr@127.0.0.1:{}/postgres?table=passages{options}", server.port);
        let (said, memory) = of_server(&server, &home)?;
        let disk = bytes_in(&Path::new(POSTGRES_DATA).join("data"));
        print(name, said, Some(memory), disk)?;
    }

    let Some(python) = milvus_python() else {
        println!("Milvus: there is no package of its server for this processor");
        return Ok(());
    };
    let server =
        Service::start(&python, &["tests/python/milvus_server.py", "--fresh", "--data", MILVUS_DATA])?;
    let (said, memory) = of_server(&server, &format!("milvus://127.0.0.1:{}/homes", server.port))?;
    print("Milvus", said, Some(memory), bytes_in(&Path::new(MILVUS_DATA).join("data")))
}

fn remove(folder: &str) -> Outcome {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("cannot remove {folder}: {error}")))
        }
        _ => Ok(()),
    }
}
