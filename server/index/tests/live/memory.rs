//! The memory of a compaction: what it allocates does not grow with the texts and the vectors of the index.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::sparse::{Analyzer, SparseOptions};
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, IndexWriter, NewPassage, Storage, build_index};

const DIM: usize = 256;

/// Passages, unless `DPR_MEMORY_PASSAGES` says another number.
const PASSAGES: usize = 30_000;

/// Bytes of a text.
const TEXT: usize = 2000;

fn passages() -> usize {
    let set = std::env::var("DPR_MEMORY_PASSAGES");
    set.map_or(PASSAGES, |number| number.parse().expect("DPR_MEMORY_PASSAGES is a number"))
}

/// Returns the memory of this process that no file stands behind, in bytes.
fn allocated() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Builds an index of texts of some twenty thousand words.
fn build(dir: &Path, sparse: Option<SparseOptions>) {
    let text = |row: usize| {
        let (mut text, mut at) = (String::with_capacity(TEXT + 8), 0);
        while text.len() < TEXT {
            text.push_str(&format!("w{} ", (row * 7919 + at * at * 31) % 20_011));
            at += 1;
        }
        text
    };
    let passages: Vec<Passage> = (0..passages())
        .map(|row| Passage::new(format!("p{row}"), format!("Title {row}"), text(row)))
        .collect();
    let rows = (0..passages.len() * DIM).map(|at| 1.0 + (at % 97) as f32).collect::<Vec<f32>>();
    let set = VectorSet::new("ab".repeat(32), DIM, passages, rows);
    build_index(
        &set,
        dir,
        &IndexOptions { storage: Storage::Int8, sparse, ..IndexOptions::default() },
        &Silent,
    )
    .unwrap();
}

#[test]
#[ignore = "a process that compacts and measures its memory"]
fn the_compaction_that_is_measured() {
    let Some(dir) = std::env::var_os("DPR_MEMORY_DIR") else { return };
    let writer = IndexWriter::open(dir.as_ref(), "a test").unwrap();
    let passage = Passage::new("new", "", "Text.");
    writer.put(vec![NewPassage { passage, vector: Embedding::new(vec![0.5; DIM], DIM).unwrap() }]).unwrap();
    let (before, peak, done) = (allocated(), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                peak.fetch_max(allocated(), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        writer.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
        done.store(true, Ordering::SeqCst);
    });
    println!("\n| {}", peak.into_inner().saturating_sub(before));
}

/// Returns the bytes that a compaction of the index in `dir` allocates at most.
fn compaction(dir: &Path) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memory::the_compaction_that_is_measured", "--ignored", "--nocapture"])
        .env("DPR_MEMORY_DIR", dir)
        // Buffers of threads that ended are given back.
        .env("MALLOC_ARENA_MAX", "2")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().find_map(|line| line.strip_prefix("| ")).unwrap().parse().unwrap()
}

#[test]
fn a_compaction_has_neither_all_texts_nor_all_quantized_vectors_in_memory() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), None);
    let (bytes, passages) = (compaction(root.path()), passages());
    let (texts, codes) = (passages * TEXT, passages * DIM);
    println!(
        "{passages} passages, {} MB of texts, {} MB of codes: a compaction allocates {:.1} MB",
        texts / 1_000_000,
        codes / 1_000_000,
        bytes as f64 / 1e6
    );
    assert!(bytes < (texts / 5) as u64, "a compaction of {texts} bytes of texts allocates {bytes} bytes");
}

/// Not bounded by a test: tantivy collects postings of up to 256 MB before it writes them.
#[test]
#[ignore = "a figure, for DPR_MEMORY_PASSAGES=200000"]
fn a_compaction_with_words_is_measured() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), Some(SparseOptions { analyzer: Analyzer::English, threads: 1 }));
    println!(
        "{} passages with words: a compaction allocates {:.1} MB",
        passages(),
        compaction(root.path()) as f64 / 1e6
    );
}
