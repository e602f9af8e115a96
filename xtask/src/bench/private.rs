//! Encrypted search by size: bytes, processor time, memory, and whether the texts are right.

use std::fs;
use std::path::Path;

use super::report::verdict;
use super::{FOLDER, json};
use crate::failure::{Failure, Outcome};
use crate::paths::built;
use crate::process::{self, command, output};
use crate::wikipedia::Wikipedia;

/// Limits at a number of passages: bytes up, down and once, milliseconds of the server and of the page.
const LIMITS: [(u64, &str, f64); 6] = [
    (100_000, "up_bytes", 1.1e6),
    (100_000, "down_bytes", 0.15e6),
    (100_000, "once_bytes", 5.5e6),
    (100_000, "server_ms", 30.0),
    (100_000, "client_search_ms", 150.0),
    (1_000_000, "server_ms", 200.0),
];

pub(super) fn run(is_quick: bool) -> Outcome {
    let Some(data) = Wikipedia::find() else { return Ok(()) };
    process::build_benches(&["private_bench"])?;
    let folder = Path::new(FOLDER).join("private");
    fs::create_dir_all(&folder).map_err(|error| Failure::new(format!("cannot make {FOLDER}: {error}")))?;
    let (passages, folder) = (data.blocks()?, folder.to_string_lossy().into_owned());
    let counts: &[&str] = if is_quick { &["2067", "22000"] } else { &["2067", "22000", "100000", "1000000"] };
    let mut lines = String::new();
    for count in counts {
        let arguments = [passages.as_str(), &folder, count];
        let mut measured = json(&output(&mut command(built("private_bench"), &arguments))?, "private_bench")?;
        let number = |name: &str| measured[name].as_f64().unwrap_or(f64::INFINITY);
        let server = number("server_rank_ms") + number("server_fetch_ms");
        measured["server_ms"] = server.into();
        println!("{measured}");
        lines.push_str(&format!("{measured}\n"));
        for (_, name, limit) in LIMITS.iter().filter(|(passages, ..)| measured["passages"] == *passages) {
            let found = measured[name].as_f64().unwrap_or(f64::INFINITY);
            println!("bench: {name} {found} (at most {limit}): {}", verdict(found <= *limit));
        }
        if measured["texts_right"] != measured["texts"] {
            return Err(Failure::new(format!(
                "{} of {} texts are right",
                measured["texts_right"], measured["texts"]
            )));
        }
    }
    let file = format!("{folder}/measured.jsonl");
    fs::write(&file, lines).map_err(|error| Failure::new(format!("cannot write {file}: {error}")))?;
    process::run(&mut command(built("private_bench"), &["--plot", &file, &folder]))?;
    println!("bench: {folder}/traffic.svg and server.svg show this beside what others publish");
    Ok(())
}
