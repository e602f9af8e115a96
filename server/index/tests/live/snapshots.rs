//! Backups of an index while updates come in and new versions are built.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use dpr_files::progress::Silent;
use dpr_index::{IndexReader, IndexWriter, copy_index, verify};

use crate::{build, new};

/// Passages of one request.
const TOGETHER: usize = 3;

#[test]
fn a_snapshot_while_updates_come_in_holds_all_that_was_acknowledged_before_and_whole_requests() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    build(&dir);
    let writer = IndexWriter::open(&dir, "a test").unwrap();
    let (acknowledged, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                let request = acknowledged.load(Ordering::SeqCst);
                let ids = (0..TOGETHER).map(|part| new(&format!("n{}", request * TOGETHER + part)));
                writer.put(ids.collect()).unwrap();
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                writer.compact(1, &Arc::default(), &Silent).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
        });
        // Whatever fails below, the two threads are told to end.
        let snapshots = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for number in 0..12 {
                let before = acknowledged.load(Ordering::SeqCst);
                let backup = root.path().join(format!("backup-{number}"));
                copy_index(&dir, &backup).unwrap();
                // What was being written when the copy began may be in it.
                let after = acknowledged.load(Ordering::SeqCst) + 1;
                let verified = verify(&backup).unwrap();
                assert!(verified.problems.is_empty(), "{:?}", verified.problems);
                let snapshot = IndexReader::open(&backup).unwrap().snapshot();
                let ids: BTreeSet<String> = snapshot.passages().map(|live| live.unwrap().0.id).collect();
                let added = ids.iter().filter(|id| id.starts_with('n')).count();
                assert_eq!((added % TOGETHER, ids.len() - added), (0, 10), "whole requests");
                assert!((before..=after).contains(&(added / TOGETHER)), "{added} of {before} to {after}");
                assert!((0..added).all(|number| ids.contains(&format!("n{number}"))), "none is left out");
            }
        }));
        done.store(true, Ordering::SeqCst);
        snapshots.unwrap();
    });
    assert!(acknowledged.into_inner() > 0);
}
