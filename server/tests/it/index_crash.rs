//! Killed at any moment, an index is whole, and every change that was acknowledged is in it.

use crate::support::corpus;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use corpus::{Numbers, embedding, set, write_vectors};
use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{
    CompactError, HnswParams, IndexDir, IndexKind, IndexOptions, IndexReader, IndexWriter, NewPassage,
    VectorIndex as _, build_index, copy_index, verify,
};

const DIM: usize = 8;

/// Returns a share of all kills, of 200 unless `DPR_KILLS` says more: 120 are of a process that writes all the time,
/// 80 of `dpr` commands.
fn kills(of_200: usize) -> usize {
    let all = std::env::var("DPR_KILLS").map_or(200, |kills| kills.parse().expect("DPR_KILLS is a number"));
    all * of_200 / 200
}

/// Kills of a process that writes all the time.
const WRITERS: usize = 120;

/// Lines that a writer says before it is killed, less than these: two of each change.
const LINES: usize = 40;

/// How long a line of a writer is waited for: it ends by itself after 30 seconds.
const PATIENCE: Duration = Duration::from_secs(20);

/// Kills of `dpr` commands.
const COMMANDS: usize = 80;

/// What is in an index: passages by their ids, each in one of its revisions.
type Contents = BTreeMap<String, u64>;

/// A vector that tells the revision.
fn vector(id: &str, revision: u64) -> Vec<f32> {
    let seed =
        id.bytes().fold(revision + 1, |seed, byte| seed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
    let mut numbers = Numbers::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..DIM).map(|_| numbers.next()).collect()
}

fn passage(id: &str, revision: u64) -> Passage {
    Passage::new(id, "", format!("{id} r{revision}"))
}

fn vectors(contents: &Contents) -> VectorSet {
    let rows: Vec<f32> = contents.iter().flat_map(|(id, revision)| vector(id, *revision)).collect();
    let passages = contents.iter().map(|(id, revision)| passage(id, *revision)).collect();
    VectorSet { passages, ..set(rows, DIM) }
}

fn build(dir: &Path, contents: &Contents) {
    let hnsw = HnswParams { m: 4, ef_construction: 16, ef_search: 16 };
    let options = IndexOptions { kind: IndexKind::Hnsw, hnsw, ..IndexOptions::default() };
    build_index(&vectors(contents), dir, &options, &Silent).unwrap();
}

/// Reads an index as a server does, and checks that every passage is whole.
fn contents(dir: &Path) -> Contents {
    let snapshot = IndexReader::open(dir).unwrap().live().snapshot();
    let mut contents = Contents::new();
    for (passage, found) in snapshot.passages().map(Result::unwrap) {
        let revision = passage.text.strip_prefix(&format!("{} r", passage.id)).unwrap().parse().unwrap();
        assert_eq!(found, vector(&passage.id, revision), "{}", passage.text);
        assert!(contents.insert(passage.id.clone(), revision).is_none(), "{} is there twice", passage.id);
    }
    let hits = snapshot.search(&embedding(&[0.5; DIM]), 10).unwrap();
    assert_eq!(hits.len(), contents.len().min(10));
    assert!(hits.iter().all(|hit| contents.contains_key(&snapshot.passage(hit.row).unwrap().id)));
    contents
}

fn assert_whole(dir: &Path) {
    let verified = verify(dir).unwrap();
    assert!(verified.problems.is_empty(), "{:?}", verified.problems);
}

/// A change as the writer says it: `put p1=7 p2=7` or `delete p1 p2`.
fn apply(contents: &mut Contents, change: &str) {
    let (what, passages) = change.split_once(' ').unwrap();
    for passage in passages.split(' ') {
        match passage.split_once('=') {
            Some((id, revision)) => contents.insert(id.to_owned(), revision.parse().unwrap()),
            None => contents.remove(passage),
        };
    }
    assert!(["put", "delete"].contains(&what), "{change}");
}

fn say(line: String) {
    let mut out = std::io::stdout().lock();
    out.write_all(line.as_bytes()).and_then(|()| out.flush()).unwrap();
}

/// Writes without end and says what, before and after, while another thread compacts and takes snapshots.
#[test]
#[ignore = "the process that `killed_writers_lose_nothing_that_they_acknowledged` kills"]
fn the_writer_that_is_killed() {
    let Some(root) = std::env::var_os("DPR_CRASH_DIR") else { return };
    let (dir, backup) = (Path::new(&root).join("index"), Path::new(&root).join("backup"));
    let mut random = SplitMix::new(std::env::var("DPR_CRASH_SEED").unwrap().parse().unwrap());
    let updater = Arc::new(IndexWriter::open(&dir, "the writer").unwrap());
    let (compacting, mut pauses) = (Arc::clone(&updater), SplitMix::new(random.bits()));
    std::thread::spawn(move || {
        for round in 0.. {
            std::thread::sleep(Duration::from_micros(pauses.below(8000) as u64));
            match compacting.compact(1, &Arc::default(), &Silent) {
                Ok(_) => say("compacted\n".into()),
                Err(CompactError::NothingLeft { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            if round % 3 == 0 {
                copy_index(&dir, &backup).unwrap();
            }
        }
    });
    say("\n".into());
    let started = Instant::now();
    for revision in 1000 * u64::from(std::process::id()).. {
        // Whoever should have killed it is gone.
        assert!(started.elapsed() < Duration::from_secs(30));
        if random.below(3) > 0 {
            let mut ids: Vec<String> =
                (0..1 + random.below(4)).map(|_| format!("p{}", random.below(300))).collect();
            ids.sort();
            ids.dedup();
            let said: Vec<String> = ids.iter().map(|id| format!("{id}={revision}")).collect();
            say(format!("try put {}\n", said.join(" ")));
            let new = |id: &String| NewPassage {
                passage: passage(id, revision),
                vector: embedding(&vector(id, revision)),
            };
            updater.put(ids.iter().map(new).collect()).unwrap();
        } else {
            let snapshot = updater.live().snapshot();
            let skip = random.below(snapshot.len());
            let some =
                snapshot.passages().map(Result::unwrap).skip(skip).step_by(7).take(1 + random.below(3));
            let ids: Vec<String> = some.map(|(passage, _)| passage.id.clone()).collect();
            say(format!("try delete {}\n", ids.join(" ")));
            updater.delete(ids).unwrap();
        }
        say("ack\n".into());
    }
}

fn kill_after(child: &mut Child, wait: Duration) -> bool {
    std::thread::sleep(wait);
    child.kill().unwrap();
    child.wait().unwrap().signal() == Some(9)
}

#[test]
fn killed_writers_lose_nothing_that_they_acknowledged() {
    let root = tempfile::tempdir().unwrap();
    let (dir, backup) = (root.path().join("index"), root.path().join("backup"));
    let mut expected: Contents = (0..200).map(|i| (format!("p{i}"), 0)).collect();
    build(&dir, &expected);
    let mut random = SplitMix::new(41);
    let (mut acknowledged, mut kept, mut lost) = (0, 0, 0);
    let writers = kills(WRITERS);
    for round in 0..writers {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "index_crash::the_writer_that_is_killed", "--ignored", "--nocapture"])
            .env("DPR_CRASH_DIR", root.path())
            .env("DPR_CRASH_SEED", round.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let (told, lines) = mpsc::channel();
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            for line in said.lines().map(Result::unwrap) {
                text += &format!("{line}\n");
                // Fails once the writer was killed, when nobody listens any more.
                let _ = told.send(line.starts_with("compacted"));
            }
            text
        });
        // The moment of the kill depends on the number of lines and not on the clock, so that a slow machine gets as far
        // as a fast one. A third of the writers have compacted at least once.
        let (least, compacts) = (random.below(LINES), random.below(3) == 0);
        let (mut count, mut has_compacted) = (0, false);
        while count < least || (compacts && !has_compacted) {
            let Ok(is_compaction) = lines.recv_timeout(PATIENCE) else { break };
            (count, has_compacted) = (count + 1, has_compacted || is_compaction);
        }
        let killed = kill_after(&mut child, Duration::from_micros(random.below(10_000) as u64));
        let said = reader.join().unwrap();
        assert!(killed, "round {round}: the writer ended by itself:\n{said}");
        let mut pending = None;
        for line in said.lines() {
            match (line.strip_prefix("try "), line) {
                (Some(change), _) => pending = Some(change.to_owned()),
                (None, "ack") => {
                    apply(&mut expected, &pending.take().unwrap());
                    acknowledged += 1;
                }
                _ => {}
            }
        }
        assert_whole(&dir);
        let found = contents(&dir);
        if found != expected {
            let mut after = expected.clone();
            apply(&mut after, &pending.expect("nothing was being written"));
            assert_eq!(
                found, after,
                "round {round}: neither without nor with the change that was being written"
            );
            (expected, kept) = (after, kept + 1);
        } else if pending.is_some() {
            lost += 1;
        }
        if IndexDir::new(&backup).current_version().is_ok() {
            assert_whole(&backup);
            contents(&backup);
        }
    }
    let version = IndexDir::new(&dir).current_version().unwrap();
    println!(
        "{writers} kills, {acknowledged} acknowledged changes all there, {version} versions; of the changes under way \
         {kept} are there and {lost} are not"
    );
    assert!(acknowledged > 100 && version > 20, "{acknowledged} changes, {version} versions");
}

#[test]
fn killed_commands_leave_the_index_as_it_was_or_as_it_should_be() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    let mut random = SplitMix::new(43);
    let sets: Vec<Contents> = (0..6)
        .map(|number| (0..40).map(|i| (format!("p{}", i * (number + 1)), number * 100 + 1)).collect())
        .collect();
    for (number, contents) in sets.iter().enumerate() {
        write_vectors(&root.path().join(format!("v{number}")), &vectors(contents));
    }
    let mut expected: Contents = (0..300).map(|i| (format!("p{i}"), 0)).collect();
    build(&dir, &expected);
    let (commands, mut kills, mut rounds, mut changed) = (kills(COMMANDS), 0, 0, 0);
    while kills < commands {
        assert!(rounds < 10 * commands, "{kills} kills in {rounds} rounds: the commands end too soon");
        let (number, mut after) = (random.below(sets.len()), expected.clone());
        let (vectors, backup) = (format!("v{number}"), format!("backup-{rounds}"));
        let mut gone = Vec::new();
        let arguments: Vec<&str> = match rounds % 5 {
            0 => {
                after.extend(sets[number].clone());
                vec!["add", "--index", "index", "--vectors", &vectors]
            }
            1 => {
                gone.extend(expected.keys().skip(random.below(20)).step_by(5).take(3).cloned());
                after.retain(|id, _| !gone.contains(id));
                let ids = gone.iter().map(String::as_str);
                ["delete", "--index", "index"].into_iter().chain(ids).collect()
            }
            2 => vec!["compact", "--index", "index"],
            3 => vec!["snapshot", "--index", "index", "--out", &backup],
            _ => {
                after = sets[number].clone();
                vec![
                    "--vectors",
                    &vectors,
                    "--out",
                    "index",
                    "--kind",
                    "hnsw",
                    "--m",
                    "4",
                    "--ef-construction",
                    "16",
                ]
            }
        };
        let mut child = Command::new(env!("CARGO_BIN_EXE_dpr"))
            .arg("index")
            .args(&arguments)
            .current_dir(root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let killed = kill_after(&mut child, Duration::from_micros(random.below(45_000) as u64));
        let done = !killed && child.wait().unwrap().success();
        assert!(killed || done, "{arguments:?} failed");
        assert_whole(&dir);
        let found = contents(&dir);
        assert!(found == after || (killed && found == expected), "{arguments:?}, killed: {killed}");
        changed += usize::from(killed && found == after && after != expected);
        let backup = root.path().join(backup);
        if IndexDir::new(&backup).current_version().is_ok() {
            assert_whole(&backup);
            assert_eq!(contents(&backup), found);
        } else {
            assert!(rounds % 5 != 3 || killed, "a snapshot that ended is there");
        }
        (expected, kills, rounds) = (found, kills + usize::from(killed), rounds + 1);
    }
    println!("{kills} kills in {rounds} commands, {changed} after their change was in use");
}

#[test]
fn a_full_disk_refuses_an_update_and_keeps_what_was_there() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    let expected: Contents = (0..20).map(|i| (format!("p{i}"), 0)).collect();
    build(&dir, &expected);
    let large: Contents = (0..3000).map(|i| (format!("q{i}"), 1)).collect();
    write_vectors(&root.path().join("large"), &vectors(&large));
    // Files may grow to 64 KiB only, and the signal that would tell so is ignored: writing fails as on a full disk.
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" index add --index index --vectors large";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_dpr")])
        .current_dir(root.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("cannot write the index under") && errors.contains("updates-1.log"), "{errors}");
    // Batches are whole or not there.
    assert_whole(&dir);
    let found = contents(&dir);
    assert!(found.len() == 20 || found.len() == 1020, "{} passages", found.len());
    let updater = IndexWriter::open(&dir, "a test").unwrap();
    updater.delete(vec!["p3".into()]).unwrap();
    drop(updater);
    assert_eq!(contents(&dir).len(), found.len() - 1);
}
