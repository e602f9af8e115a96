//! A process that is killed in the middle of an automatic compaction: the next one waits before it compacts.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dpr_core::Embedding;
use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{
    CompactionPolicy, HnswParams, IndexDir, IndexKind, IndexOptions, IndexReader, IndexWriter, NewPassage,
    build_index,
};

const DIM: usize = 32;
const PASSAGES: usize = 1500;

/// Changes of one process: with those before it, always enough for a compaction.
const CHANGES: usize = 6;

/// The time in which a process that compacts has begun to: it looks once a second.
const SOON: Duration = Duration::from_secs(4);

fn new(id: String, random: &mut SplitMix) -> NewPassage {
    let vector = (0..DIM).map(|_| random.normal() as f32).collect();
    NewPassage { passage: Passage::new(id, "", "Text."), vector: Embedding::new(vector, DIM).unwrap() }
}

/// Builds an index whose graph takes a while, so that its compaction is killed in the middle.
fn build(dir: &Path) {
    let mut random = SplitMix::new(7);
    let new: Vec<NewPassage> = (0..PASSAGES).map(|row| new(format!("p{row}"), &mut random)).collect();
    let rows = new.iter().flat_map(|new| new.vector.as_slice()).copied().collect::<Vec<f32>>();
    let passages = new.into_iter().map(|new| new.passage).collect();
    let set = VectorSet::new("ab".repeat(32), DIM, passages, rows);
    let hnsw = HnswParams { m: 32, ef_construction: 500, ef_search: 16 };
    let options = IndexOptions { kind: IndexKind::Hnsw, hnsw, ..IndexOptions::default() };
    build_index(&set, dir, &options, &Silent).unwrap();
}

#[test]
#[ignore = "the process that is killed while it compacts"]
fn the_process_that_compacts() {
    let Some(dir) = std::env::var_os("DPR_KILLED_DIR") else { return };
    let writer = Arc::new(IndexWriter::open(dir.as_ref(), "a test").unwrap());
    let from: usize = std::env::var("DPR_KILLED_FROM").unwrap().parse().unwrap();
    let mut random = SplitMix::new(from as u64);
    for number in from..from + CHANGES {
        writer.put(vec![new(format!("n{number}"), &mut random)]).unwrap();
    }
    let policy = CompactionPolicy { rows: CHANGES - 1, ..CompactionPolicy::default() };
    let _compaction = writer.compact_in_background(policy).unwrap();
    std::thread::sleep(Duration::from_secs(60));
}

/// A process that writes [`CHANGES`] passages and compacts by itself; killed when dropped.
struct Process(Child);

impl Process {
    fn start(dir: &Path, from: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "killed::the_process_that_compacts", "--ignored"]);
        command.env("DPR_KILLED_DIR", dir).env("DPR_KILLED_FROM", from.to_string());
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Returns the number of compactions in a row that were killed, as the marker says.
fn killed(dir: &Path) -> Option<u64> {
    let text = fs_err::read_to_string(dir.join("compacting")).ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Waits until something is so, and looks often.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(50), "{what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn version(dir: &Path) -> u64 {
    IndexDir::new(dir).current_version().unwrap()
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn after_a_kill_in_the_middle_of_a_compaction_the_next_process_waits_and_takes_updates_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    build(dir);
    let changes = || IndexReader::open(dir).unwrap().snapshot().changes();
    for round in 1..=2 {
        let process = Process::start(dir, round * 2 * CHANGES);
        wait_until("no compaction begins", || killed(dir) == Some(round as u64));
        drop(process);
        assert_eq!((killed(dir), version(dir)), (Some(round as u64), 1), "it was killed in the middle");

        // The next process takes updates, and waits.
        let before = changes();
        let process = Process::start(dir, (round * 2 + 1) * CHANGES);
        wait_until("it takes no updates", || changes() == before + CHANGES as u64);
        let started = Instant::now();
        while started.elapsed() < SOON {
            assert_eq!((killed(dir), version(dir)), (Some(round as u64), 1), "it compacts again at once");
            std::thread::sleep(Duration::from_millis(50));
        }
        drop(process);
        // A minute after the first kill the next one is due, two minutes after the second: a little before, it waits.
        let pause = 60 * round as u64;
        let marker = dir.join("compacting");
        fs_err::write(&marker, format!("{round} {}\n", seconds() - pause + 20)).unwrap();
        let process = Process::start(dir, (round * 2 + 10) * CHANGES);
        std::thread::sleep(SOON);
        assert_eq!((killed(dir), version(dir)), (Some(round as u64), 1), "it does not wait for its time");
        drop(process);
        fs_err::write(&marker, format!("{round} {}\n", seconds() - pause - 1)).unwrap();
    }
    // When its time has come it compacts, and all changes are in the new version.
    let count = 6 * CHANGES as u64;
    assert_eq!(changes(), count);
    let _process = Process::start(dir, 100 * CHANGES);
    wait_until("it waits for ever", || version(dir) == 2 && !dir.join("compacting").exists());
    let snapshot = IndexReader::open(dir).unwrap().snapshot();
    assert_eq!(snapshot.passages().count() as u64, PASSAGES as u64 + count + CHANGES as u64);
}
