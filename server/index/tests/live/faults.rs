//! Disks that fail and processes without descriptors: what was acknowledged is there afterwards, and what failed is not
//! acknowledged.
//!
//! System calls fail by a small library before the C library's (`shim.c`), which the C compiler makes where there is
//! one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use dpr_files::progress::Silent;
use dpr_index::{IndexReader, IndexWriter, verify};
use fs_err as fs;

use crate::shim::library;
use crate::{build, new};

/// Updates that a child tries.
const UPDATES: usize = 8;

/// Compiles the library, once for all tests; `None` where there is no C compiler.
fn shim() -> Option<&'static Path> {
    static SHIM: OnceLock<Option<PathBuf>> = OnceLock::new();
    SHIM.get_or_init(|| library("shim.c")).as_deref()
}

/// Runs one of the ignored tests below in a process of its own, over the index in `dir`, and returns what it says.
fn child(test: &str, dir: &Path, variables: &[(&str, &str)]) -> Vec<String> {
    // Descriptors are few, so that they are soon used up.
    let output = Command::new("sh")
        .args(["-c", "ulimit -Sn 64; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env("DPR_FAULT_DIR", dir)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{variables:?}:\n{said}\n{errors}");
    said.lines().filter_map(|line| Some(line.strip_prefix("| ")?.to_owned())).collect()
}

/// What a child said of its updates.
struct Said {
    /// Ids that were acknowledged.
    acknowledged: BTreeSet<String>,
    /// Ids that were refused, with the errors, in order.
    refused: Vec<(String, String)>,
    /// Whether nothing failed at all.
    is_clean: bool,
}

fn said(lines: &[String]) -> Said {
    let (mut acknowledged, mut refused) = (BTreeSet::new(), Vec::new());
    for line in lines {
        match line.split_once(' ').unwrap() {
            ("ack", id) => drop(acknowledged.insert(id.to_owned())),
            ("no", rest) => {
                let (id, error) = rest.split_once(' ').unwrap();
                refused.push((id.to_owned(), error.to_owned()));
            }
            _ => {}
        }
    }
    let is_clean = !lines.iter().any(|line| line.starts_with("failed") || line.starts_with("no"));
    Said { acknowledged, refused, is_clean }
}

/// Opens the index as the next process does, without faults, and compares it with what was acknowledged.
fn check(dir: &Path, said: &Said, fault: &str) {
    // A writer repairs what a torn commit mark left.
    drop(IndexWriter::open(dir, "a test").unwrap_or_else(|error| panic!("{fault}: {error}")));
    let verified = verify(dir).unwrap();
    assert!(verified.problems.is_empty(), "{fault}: {:?}", verified.problems);
    let snapshot = IndexReader::open(dir).unwrap().snapshot();
    let there: BTreeSet<String> = snapshot.passages().map(|live| live.unwrap().0.id).collect();
    let lost: Vec<_> = said.acknowledged.difference(&there).collect();
    assert!(lost.is_empty(), "{fault}: {lost:?} were acknowledged and are gone");
    let built: BTreeSet<String> = (0..10).map(|row| format!("p{row}")).collect();
    assert!(built.is_subset(&there), "{fault}");
}

fn put(writer: &IndexWriter, id: &str) {
    match writer.put(vec![new(id)]) {
        Ok(_) => println!("| ack {id}"),
        Err(error) => println!("| no {id} {error}"),
    }
}

#[test]
#[ignore = "a process whose disk fails"]
fn the_writer_whose_disk_fails() {
    let Some(dir) = std::env::var_os("DPR_FAULT_DIR") else { return };
    println!();
    let writer = match IndexWriter::open(dir.as_ref(), "a test") {
        Ok(writer) => writer,
        Err(error) => return println!("| failed to open: {error}"),
    };
    for number in 0..UPDATES {
        if number == UPDATES / 2 {
            match writer.compact(1, &Arc::default(), &Silent) {
                Ok(_) => println!("| compacted ."),
                Err(error) => println!("| failed to compact: {error}"),
            }
        }
        put(&writer, &format!("n{number}"));
    }
    // What a server asks its health by.
    if let Some(reason) = writer.live().health().log_broken {
        println!("| broken {reason}");
    }
}

/// Fails one call after the other, until none is left to fail, and returns the number of runs in which something
/// failed.
fn fail_each(shim: &Path, variable: &str, forever: bool, look: impl Fn(&Said, &[String])) -> usize {
    let (mut failed, mut clean) = (0, 0);
    for at in 1..300 {
        let root = tempfile::tempdir().unwrap();
        build(root.path());
        let at_text = at.to_string();
        let mut variables = vec![("LD_PRELOAD", shim.to_str().unwrap()), (variable, at_text.as_str())];
        variables.extend(forever.then_some(("DPR_FAIL_ON", "1")));
        let lines = child("faults::the_writer_whose_disk_fails", root.path(), &variables);
        let said = said(&lines);
        check(root.path(), &said, &format!("{variable} {at}, forever: {forever}"));
        look(&said, &lines);
        if !said.is_clean {
            (failed, clean) = (failed + 1, 0);
            continue;
        }
        // Some calls may fail without harm, as the note in the lock's file; many in a row were never made.
        assert_eq!(said.acknowledged.len(), UPDATES);
        clean += 1;
        if clean == 6 {
            return failed;
        }
    }
    panic!("a writer syncs and writes without end");
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_and_a_restart_has_what_was() {
    let Some(shim) = shim() else { return };
    for forever in [false, true] {
        let runs = fail_each(shim, "DPR_FAIL_SYNC", forever, |said, lines| {
            // Once it is not known what is on the disk, no later update is taken and each is told why, until a new
            // version has a log of its own.
            let mut is_broken = false;
            for line in lines {
                match line.split(' ').next().unwrap() {
                    "no" => is_broken = true,
                    "compacted" => is_broken = false,
                    "ack" => assert!(!is_broken, "{lines:?}"),
                    "broken" => assert!(is_broken && line.contains("Input/output error"), "{lines:?}"),
                    _ => {}
                }
            }
            for (_, error) in &said.refused {
                assert!(error.contains("Input/output error") && error.contains("start again"), "{error}");
            }
            assert_eq!(lines.iter().any(|line| line.starts_with("broken")), is_broken, "{lines:?}");
        });
        assert!(runs > 2 * UPDATES, "{runs} runs failed");
    }
}

#[test]
fn a_full_disk_at_any_write_loses_nothing() {
    let Some(shim) = shim() else { return };
    for forever in [false, true] {
        let runs = fail_each(shim, "DPR_FAIL_WRITE", forever, |said, lines| {
            for (_, error) in &said.refused {
                assert!(error.contains("No space left on device"), "{error}");
            }
            if forever && let Some((first, _)) = said.refused.first() {
                assert!(said.acknowledged.iter().all(|id| id < first), "{lines:?}");
            }
        });
        assert!(runs > 2 * UPDATES, "{runs} runs failed");
    }
}

#[test]
#[ignore = "a process without descriptors"]
fn the_writer_without_descriptors() {
    let Some(dir) = std::env::var_os("DPR_FAULT_DIR") else { return };
    println!();
    let free: usize = std::env::var("DPR_FREE").unwrap().parse().unwrap();
    let writer = IndexWriter::open(dir.as_ref(), "a test").unwrap();
    put(&writer, "n0");
    let mut held = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        held.push(file);
    }
    held.truncate(held.len() - free);
    if let Err(error) = writer.compact(1, &Arc::default(), &Silent) {
        println!("| failed to compact: {error}");
    }
    put(&writer, "n1");
    drop(held);
    put(&writer, "n2");
}

#[test]
fn a_compaction_that_runs_out_of_descriptors_at_any_point_loses_nothing() {
    for free in 0..40 {
        let root = tempfile::tempdir().unwrap();
        build(root.path());
        let free_text = free.to_string();
        let lines = child("faults::the_writer_without_descriptors", root.path(), &[("DPR_FREE", &free_text)]);
        let said = said(&lines);
        check(root.path(), &said, &format!("{free} descriptors"));
        if said.is_clean {
            assert!(free > 1, "it never ran out");
            assert_eq!(said.acknowledged.len(), 3);
            return;
        }
    }
    panic!("40 descriptors are not enough for a compaction");
}

#[test]
#[ignore = "a process that builds an index"]
fn the_builder() {
    let Some(dir) = std::env::var_os("DPR_FAULT_DIR") else { return };
    build(dir.as_ref());
}

#[test]
fn the_names_of_new_directories_are_synced_up_to_the_first_that_was_there() {
    let Some(shim) = shim() else { return };
    let root = tempfile::tempdir().unwrap();
    let (dir, log) = (root.path().join("a/b/index"), root.path().join("log"));
    let variables = [("LD_PRELOAD", shim.to_str().unwrap()), ("DPR_SYNC_LOG", log.to_str().unwrap())];
    child("faults::the_builder", &dir, &variables);
    let synced: BTreeSet<String> = fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    let root = root.path().canonicalize().unwrap();
    for name in ["", "a", "a/b", "a/b/index"] {
        let dir = root.join(name);
        let dir = dir.to_str().unwrap().trim_end_matches('/');
        assert!(synced.contains(dir), "{dir} is not among {synced:?}");
    }
}
