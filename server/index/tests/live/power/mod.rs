//! Power failures: whatever a process had done when the power went, and whatever of what it had not synced reached the
//! disk, the index opens afterwards, and all that was acknowledged is in it.
//!
//! A process builds, changes and compacts an index under a shim that records what it does to its files (`record.c`).
//! Then the power fails after each step of the [record](Record), in several ways each time ([`Loss`]), and what the
//! [disk](Disk) holds is opened.

mod disk;
mod record;

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use dpr_core::random::SplitMix;
use dpr_core::{Embedding, Precision};
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::sparse::{Analyzer, SparseOptions};
use dpr_index::vectors::{Shard, VectorSet, VectorsSpec, VectorsWriter};
use dpr_index::{
    IndexKind, IndexOptions, IndexReader, IndexWriter, NewPassage, OpenError, Snapshot, build_index, verify,
};

use crate::DIM;
use crate::shim::library;
use disk::{Disk, Survives, Tree};
use record::{Event, Inode, Record};

/// The beginning of a log, before its first frame.
const LOG_HEAD: usize = 3 * 512;

/// Losses at each step in which each change is there or not by chance.
const CHANCES: usize = 1;

/// The latest changes that are lost, or left, one by one; older ones were so at the steps before.
const LATEST: usize = 8;

/// Passages, each in one of its revisions.
type Contents = BTreeMap<String, u64>;

fn vector(id: &str, revision: u64) -> Vec<f32> {
    let seed = id.bytes().fold(revision, |seed, byte| seed.wrapping_mul(31) ^ u64::from(byte));
    let mut random = SplitMix::new(seed);
    (0..DIM).map(|_| random.normal() as f32).collect()
}

/// A passage whose text and vector tell its revision. Some are longer than a sector of the disk.
fn new(id: &str, revision: u64) -> NewPassage {
    let text = format!("{id} r{revision} {}", "word ".repeat(revision as usize % 5 * 150));
    let passage = Passage::new(id, "", text);
    NewPassage { passage, vector: Embedding::new(vector(id, revision), DIM).unwrap() }
}

/// A change as the process says it: `put a=1 b=2`, `delete a`, `build a=1 b=2`, or one that changes no passage.
fn apply(contents: &mut Contents, change: &str) {
    let (what, passages) = change.split_once(' ').unwrap_or((change, ""));
    if what == "build" {
        contents.clear();
    }
    for passage in passages.split(' ').filter(|passage| !passage.is_empty()) {
        match passage.split_once('=') {
            Some((id, revision)) => drop(contents.insert(id.to_owned(), revision.parse().unwrap())),
            None => drop(contents.remove(passage)),
        }
    }
}

/// Says a change, makes it, and says that it is acknowledged.
fn act(change: &str, make: impl FnOnce()) {
    let say = |line: String| std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    say(format!("try {change}\n"));
    make();
    say("ack\n".to_owned());
}

fn put(writer: &IndexWriter, passages: &[(&str, u64)]) {
    let said: Vec<String> = passages.iter().map(|(id, revision)| format!("{id}={revision}")).collect();
    act(&format!("put {}", said.join(" ")), || {
        writer.put(passages.iter().map(|(id, revision)| new(id, *revision)).collect()).unwrap();
    });
}

fn delete(writer: &IndexWriter, ids: &[&str]) {
    act(&format!("delete {}", ids.join(" ")), || {
        writer.delete(ids.iter().map(|id| (*id).to_owned()).collect()).unwrap();
    });
}

fn compact(writer: &IndexWriter) {
    act("compact", || drop(writer.compact(1, &Arc::default(), &Silent).unwrap().unwrap()));
}

/// Writes vectors as `dpr encode` does, and builds an index whose vectors are a hard link to them.
fn encode_and_build(root: &Path, revision: u64) {
    let ids: Vec<String> = (0..6).map(|row| format!("p{row}")).collect();
    let passages: Vec<Passage> = ids.iter().map(|id| new(id, revision).passage).collect();
    let said: Vec<String> = ids.iter().map(|id| format!("{id}={revision}")).collect();
    let vectors = root.join("vectors");
    let spec = VectorsSpec {
        model_fingerprint: "ab".repeat(32),
        dim: DIM,
        corpus_sha256: revision.to_string(),
        shard: Shard::WHOLE,
        part_size: 4,
        precision: Precision::F32,
    };
    act("encode", || {
        VectorsWriter::clear(&vectors).unwrap();
        let writer = VectorsWriter::open(&vectors, spec, &passages).unwrap();
        for part in writer.missing_parts() {
            let rows: Vec<f32> = ids[part.clone()].iter().flat_map(|id| vector(id, revision)).collect();
            writer.write_part(&part, &rows).unwrap();
        }
        writer.finish().unwrap();
    });
    act(&format!("build {}", said.join(" ")), || {
        let set = VectorSet::read(&[vectors]).unwrap();
        let sparse = Some(SparseOptions { analyzer: Analyzer::English, threads: 1 });
        let options = IndexOptions { kind: IndexKind::Exact, sparse, ..IndexOptions::default() };
        drop(build_index(&set, &root.join("index"), &options, &Silent).unwrap());
    });
}

#[test]
#[ignore = "the process that the tests of power failures record"]
fn the_process_that_is_recorded() {
    let Some(root) = std::env::var_os("DPR_RECORD_ROOT") else { return };
    let (root, index) = (Path::new(&root), Path::new(&root).join("index"));
    std::io::stdout().lock().write_all(b"\n").unwrap();
    encode_and_build(root, 1);
    let writer = IndexWriter::open(&index, "a test").unwrap();
    put(&writer, &[("a", 1), ("p1", 2)]);
    put(&writer, &[("b", 4)]);
    delete(&writer, &["p0", "a"]);
    compact(&writer);
    put(&writer, &[("a", 3), ("c", 2), ("d", 9)]);
    drop(writer);
    let writer = IndexWriter::open(&index, "a test").unwrap();
    delete(&writer, &["p2"]);
    compact(&writer);
    put(&writer, &[("e", 1)]);
    put(&writer, &[("b", 5)]);
    drop(writer);
    encode_and_build(root, 2);
    let writer = IndexWriter::open(&index, "a test").unwrap();
    put(&writer, &[("f", 4)]);
}

/// Runs that process; `None` where there is no C compiler.
fn record() -> Option<Record> {
    let shim = library("power/record.c")?;
    let dir = tempfile::tempdir().unwrap();
    let (root, log) = (dir.path().join("root"), dir.path().join("record"));
    fs_err::create_dir(&root).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "power::the_process_that_is_recorded", "--ignored", "--nocapture"])
        .args(["--test-threads=1"])
        .envs([("LD_PRELOAD", shim.as_os_str()), ("DPR_RECORD", log.as_os_str())])
        .env("DPR_RECORD_ROOT", OsStr::new(&root.canonicalize().unwrap()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(Record::read(&log))
}

/// What a power failure leaves of the changes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    /// Nothing.
    All,
    /// All of them.
    None,
    /// Names, and nothing of what was written: a file that was renamed before it was synced is empty.
    Contents,
    /// What was written, and no names.
    Names,
    /// The one change of this number.
    AllBut(usize),
    /// All changes but the one of this number.
    Only(usize),
    /// Each change, and each sector of it, by chance.
    Chance(u64),
}

/// Decides for one change after the other.
struct Decides {
    loss: Loss,
    random: SplitMix,
}

impl Decides {
    fn is_there(&mut self, number: usize, is_name: bool) -> bool {
        match self.loss {
            Loss::All => false,
            Loss::None => true,
            Loss::Contents => is_name,
            Loss::Names => !is_name,
            Loss::AllBut(one) => one == number,
            Loss::Only(one) => one != number,
            Loss::Chance(_) => self.random.below(2) == 0,
        }
    }
}

impl Survives for Decides {
    fn names(&mut self, number: usize) -> bool {
        self.is_there(number, true)
    }

    fn sector(&mut self, number: usize, _: usize) -> bool {
        self.is_there(number, false)
    }
}

/// What was acknowledged when the power went, and the change that was being made.
#[derive(Clone, Debug, Default)]
struct Said {
    acknowledged: Contents,
    /// `true` once an index was built, and once vectors were written.
    is_built: bool,
    is_encoded: bool,
    trying: Option<String>,
}

impl Said {
    fn hear(&mut self, line: &str) {
        if let Some(change) = line.strip_prefix("try ") {
            self.trying = Some(change.to_owned());
        } else if line == "ack" {
            let change = self.trying.take().unwrap();
            apply(&mut self.acknowledged, &change);
            self.is_built |= change.starts_with("build");
            self.is_encoded |= change == "encode";
        }
    }

    /// Returns what may be found: all that was acknowledged, with or without the change that was being made.
    fn possible(&self) -> [Contents; 2] {
        let mut after = self.acknowledged.clone();
        apply(&mut after, self.trying.as_deref().unwrap_or_default());
        [self.acknowledged.clone(), after]
    }
}

/// Returns the passages of an index, each of which must be whole: its vector that of its text.
fn contents(snapshot: &Snapshot) -> Result<Contents, String> {
    let mut contents = Contents::new();
    for live in snapshot.passages() {
        let (passage, found) = live.map_err(|error| error.to_string())?;
        let words: Vec<&str> = passage.text.splitn(3, ' ').collect();
        let revision: u64 = words[1].strip_prefix('r').and_then(|text| text.parse().ok()).unwrap_or(0);
        if passage != new(&passage.id, revision).passage || found != vector(&passage.id, revision) {
            return Err(format!("{passage:?} is half-written"));
        }
        contents.insert(passage.id, revision);
    }
    Ok(contents)
}

/// Opens what is on the disk after a power failure, as a server does that only searches and then as one that writes.
fn check(dir: &Path, said: &Said) -> Result<(), String> {
    let (index, possible) = (dir.join("index"), said.possible());
    if said.is_encoded && said.trying.as_deref() != Some("encode") {
        VectorSet::read(&[dir.join("vectors")]).map_err(|error| format!("the vectors: {error}"))?;
    }
    let served = match IndexReader::open(&index) {
        Ok(reader) => Some(contents(&reader.snapshot())?),
        Err(OpenError::NotAnIndex { .. }) if !said.is_built => return Ok(()),
        // A commit mark was being written: the next writer writes it anew.
        Err(OpenError::CommitMark { .. }) => None,
        Err(error) => return Err(format!("searching: {error}")),
    };
    let is_possible = |found: &Contents| match said.is_built {
        true => possible.contains(found),
        false => *found == possible[1],
    };
    if let Some(found) = served.filter(|found| !is_possible(found)) {
        return Err(format!("{found:?} is searched, and {possible:?} was written"));
    }
    let writer = IndexWriter::open(&index, "a test").map_err(|error| format!("writing: {error}"))?;
    let mut found = contents(&writer.live().snapshot())?;
    if !is_possible(&found) {
        return Err(format!("a writer finds {found:?}, and {possible:?} was written"));
    }
    writer.put(vec![new("after", 1)]).map_err(|error| format!("putting: {error}"))?;
    drop(writer);
    found.insert("after".to_owned(), 1);
    let verified = verify(&index).map_err(|error| format!("checking: {error}"))?;
    if !verified.problems.is_empty() {
        return Err(format!("checking: {:?}", verified.problems));
    }
    let reader = IndexReader::open(&index).map_err(|error| format!("searching again: {error}"))?;
    match contents(&reader.snapshot())? == found {
        true => Ok(()),
        false => Err("what was put afterwards is not there".to_owned()),
    }
}

/// What came of power failures after each step of a record.
#[derive(Debug, Default)]
struct Outcome {
    losses: usize,
    opened: usize,
    problem: Option<String>,
}

/// Lets the power fail after each step, up to the first problem. A sync for which `is_lost` returns `true` is not made.
fn fail_after_each_step(record: &Record, is_lost: &dyn Fn(&Disk, Inode) -> bool) -> Outcome {
    let (mut disk, mut said, mut outcome) = (Disk::new(record.root), Said::default(), Outcome::default());
    let mut seen = HashSet::new();
    for (step, event) in record.events.iter().enumerate() {
        match event {
            Event::Said(line) => said.hear(line),
            Event::Sync(inode) if is_lost(&disk, *inode) => continue,
            event => disk.apply(event),
        }
        let (names, writes) = disk.pending();
        let latest = |numbers: &[usize]| numbers[numbers.len().saturating_sub(LATEST)..].to_vec();
        let pending: Vec<usize> = latest(&names).into_iter().chain(latest(&writes)).collect();
        let losses = [Loss::All, Loss::None, Loss::Contents, Loss::Names].into_iter();
        let losses = losses.chain(pending.iter().map(|number| Loss::AllBut(*number)));
        let losses = losses.chain(pending.iter().map(|number| Loss::Only(*number)));
        for loss in losses.chain((0..CHANCES).map(|chance| Loss::Chance((step * CHANCES + chance) as u64))) {
            let seed = if let Loss::Chance(seed) = loss { seed } else { 0 };
            let tree = disk.after_power_loss(&mut Decides { loss, random: SplitMix::new(seed) });
            outcome.losses += 1;
            if !seen.insert((disk::digest(&tree), said.possible(), said.is_built, said.is_encoded)) {
                continue;
            }
            outcome.opened += 1;
            if let Err(problem) = open(&tree, &said) {
                outcome.problem = Some(format!("step {step} ({loss:?}), {:?}: {problem}", said.trying));
                return outcome;
            }
        }
    }
    outcome
}

fn open(tree: &Tree, said: &Said) -> Result<(), String> {
    // In memory where the system has a folder for that: what is synced to find out takes no time then.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let dir = tempfile::tempdir_in(dir).unwrap();
    disk::write(tree, dir.path());
    check(dir.path(), said)
}

#[test]
fn after_a_power_failure_at_any_step_all_that_was_acknowledged_is_there_and_nothing_half_written() {
    let Some(record) = record() else { return };
    let outcome = fail_after_each_step(&record, &|_, _| false);
    let syncs = record.events.iter().filter(|event| matches!(event, Event::Sync(_))).count();
    println!(
        "{} steps, {syncs} of them syncs: {} power failures, {} states of the disk opened",
        record.events.len(),
        outcome.losses,
        outcome.opened
    );
    assert_eq!(outcome.problem, None);
    assert!(syncs > 100 && outcome.opened > 200, "{outcome:?}");
}

/// Returns whether a sync of this file is left out.
type LeftOut<'a> = dyn Fn(&Disk, Inode) -> bool + 'a;

/// Without a kind of sync the same failures lose something: the test above would see it.
#[test]
fn a_sync_that_is_left_out_is_found_by_its_power_failures() {
    let Some(record) = record() else { return };
    let under = |disk: &Disk, inode: Inode, start: &str, end: &str| {
        disk.path(inode).is_some_and(|path| path.starts_with(start) && path.ends_with(end))
    };
    let controls: [(&str, &LeftOut<'_>); 5] = [
        ("the frames of the log, before their mark", &|disk, inode| {
            under(disk, inode, "/index/updates-", ".log") && disk.is_pending(inode, LOG_HEAD)
        }),
        ("the mark of the log", &|disk, inode| {
            under(disk, inode, "/index/updates-", ".log") && !disk.is_pending(inode, LOG_HEAD)
        }),
        ("the files of a version", &|disk, inode| {
            under(disk, inode, "/index/.unfinished-", ".jsonl")
                || under(disk, inode, "/index/.unfinished-", ".json")
        }),
        ("the pointer and the logs, before they are renamed", &|disk, inode| {
            disk.path(inode).is_some_and(|path| {
                path.strip_prefix("/index/.unfinished-").is_some_and(|name| !name.contains('/'))
                    && !disk.is_folder(inode)
            })
        }),
        ("the names of the index directory", &|disk, inode| under(disk, inode, "/index", "/index")),
    ];
    for (what, is_lost) in controls {
        let outcome = fail_after_each_step(&record, is_lost);
        println!("without the sync of {what}: {:?}", outcome.problem);
        assert!(outcome.problem.is_some(), "without the sync of {what} nothing is lost");
    }
}
