//! `cargo xtask chaos`: hostile clients, hostile files and failing disks against a running `dpr serve`, with figures.
//!
//! Each part starts a server of its own on the demo's index, or on a copy of it, and prints what it saw beside the
//! limit.

mod clients;
mod disk;
mod files;
mod requests;
mod updates;

use std::fs;
use std::path::{Path, PathBuf};

use crate::bench::verdict;
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_INDEX, DEMO_MODEL};
use crate::server::Server;
use crate::{demo_data, setup};

const FOLDER: &str = "target/chaos";

/// The parts in the order they run, each with what it does.
const PARTS: [(&str, Part); 10] = [
    ("bomb", requests::bomb),
    ("filters", requests::filters),
    ("pages", requests::pages),
    ("hidden", requests::hidden),
    ("silent", clients::silent),
    ("slow", clients::slow),
    ("snapshot", files::snapshot),
    ("damage", files::damage),
    ("disk", disk::run),
    ("updates", updates::run),
];

type Part = fn(&mut Report) -> Outcome;

/// The findings of the parts.
#[derive(Default)]
struct Report {
    missed: Vec<String>,
}

impl Report {
    /// Prints a figure and whether it is within its limit.
    fn line(&mut self, what: &str, seen: &str, limit: &str, met: bool) {
        println!("{what:<66} {seen:>20}   {limit:<28} {}", verdict(met));
        if !met {
            self.missed.push(what.to_owned());
        }
    }
}

/// Runs the parts that `--only` names, or all; fails if a limit is passed.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
    let mut only = Vec::new();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(flag) = rest.next() {
        match (flag, rest.next().filter(|part| names.contains(part))) {
            ("--only", Some(part)) => only.push(part),
            _ => {
                return Err(Failure::new(format!(
                    "chaos takes --only PART, PART one of {}",
                    names.join(", ")
                )));
            }
        }
    }
    setup::run(setup::Scope::Demo)?;
    demo_data::build()?;
    let mut report = Report::default();
    for (name, part) in PARTS.into_iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        println!("\n=== {name} ===");
        part(&mut report).map_err(|failure| failure.during(name))?;
    }
    match report.missed.as_slice() {
        [] => Ok(()),
        missed => Err(Failure::new(format!("past their limit: {}", missed.join("; ")))),
    }
}

/// Returns an empty folder for a part's files.
fn folder(part: &str) -> Outcome<PathBuf> {
    let folder = Path::new(FOLDER).join(part);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)
        .map_err(|error| Failure::new(format!("cannot make {}: {error}", folder.display())))?;
    Ok(folder)
}

/// Copies the demo's index into a part's folder and returns the copy's path.
fn index_copy(folder: &Path) -> Outcome<String> {
    let to = folder.join("index").display().to_string();
    let copy = ["index", "snapshot", "--index", DEMO_INDEX, "--out", &to];
    crate::process::output(&mut crate::process::command(crate::paths::dpr(), &copy))?;
    Ok(to)
}

/// Starts a server on the demo's index.
fn demo(more: &[&str]) -> Outcome<Server> {
    Server::start(&[&["--model", DEMO_MODEL, "--index", DEMO_INDEX], more].concat(), &[])
}

/// Returns the body of a search for the passages nearest to one fixed vector, with `more` fields.
fn search_body(server: &Server, more: &str) -> Outcome<String> {
    let model = server.json("/v1/model")?;
    let fingerprint = model["fingerprint"].as_str().unwrap_or_default();
    let vector = vec!["0.036"; 768].join(",");
    Ok(format!("{{\"vector\":[{vector}],\"k\":10,\"model\":\"{fingerprint}\"{more}}}"))
}

/// Bytes as a person reads them.
fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}
