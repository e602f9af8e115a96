//! Directories that somebody else made: a file of theirs that is a device, a pipe, or has no end is refused at once.

use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use dpr_index::vectors::VectorSet;
use dpr_index::{IndexReader, IndexWriter, copy_index, verify};
use fs_err as fs;

use crate::{build, new};

/// A use of an index directory, and where it may write.
type Use = fn(&Path, &Path) -> Result<(), String>;

/// Puts something else in the place of a file.
type Replace = fn(&Path);

fn device(path: &Path) {
    std::os::unix::fs::symlink("/dev/zero", path).unwrap();
}

fn pipe(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// A file of holes.
fn holes(path: &Path) {
    fs::File::create(path).unwrap().set_len(1 << 30).unwrap();
}

/// Runs what must end soon, and returns what it says.
fn soon(what: impl FnOnce() -> Result<(), String> + Send + 'static) -> Result<(), String> {
    let (said, hear) = mpsc::channel();
    std::thread::spawn(move || said.send(what()));
    hear.recv_timeout(Duration::from_secs(10)).expect("it does not end")
}

/// The most memory that this process has had, in bytes.
#[cfg(target_os = "linux")]
fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn the_pointer_the_manifest_and_the_log_of_an_index_are_not_read_without_end() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    build(&dir);
    IndexWriter::open(&dir, "a test").unwrap().put(vec![new("a")]).unwrap();
    #[cfg(target_os = "linux")]
    let before = peak_memory();
    for (name, limit) in
        [("current", "512 bytes"), ("v-1/manifest.json", "16777216 bytes"), ("updates-1.log", "")]
    {
        let (path, aside) = (dir.join(name), root.path().join("aside"));
        fs::rename(&path, &aside).unwrap();
        for (at, replace) in [device as Replace, pipe, holes].into_iter().enumerate() {
            replace(&path);
            let uses: [Use; 4] = [
                |dir, out| copy_index(dir, out).map(drop).map_err(|error| error.to_string()),
                |dir, _| {
                    let verified = verify(dir).map_err(|error| error.to_string())?;
                    verified.problems.first().map_or(Ok(()), |problem| Err(problem.to_string()))
                },
                |dir, _| IndexReader::open(dir).map(drop).map_err(|error| error.to_string()),
                |dir, _| IndexWriter::open(dir, "a test").map(drop).map_err(|error| error.to_string()),
            ];
            for take in uses {
                let (dir, out) = (dir.clone(), root.path().join("restored"));
                let error = soon(move || take(&dir, &out)).unwrap_err();
                assert!(error.contains(path.to_str().unwrap()), "{name} {at}: {error}");
                let expected = match (at, limit) {
                    (2, "") => "does not begin as a log",
                    (2, limit) => limit,
                    _ => "not a plain file",
                };
                assert!(error.contains(expected), "{name} {at}: {error}");
                assert!(limit.is_empty() || error.contains("in its place"), "{name} {at}: {error}");
            }
            fs::remove_file(&path).unwrap();
        }
        fs::rename(&aside, &path).unwrap();
    }
    #[cfg(target_os = "linux")]
    assert!(peak_memory() - before < 256 << 20, "{} bytes more", peak_memory() - before);
    assert_eq!(IndexReader::open(&dir).unwrap().snapshot().changes(), 1);
}

#[test]
fn the_marker_of_a_compaction_that_is_a_device_is_none() {
    let root = tempfile::tempdir().unwrap();
    build(root.path());
    let writer = IndexWriter::open(root.path(), "a test").unwrap();
    writer.put(vec![new("a")]).unwrap();
    device(&root.path().join("compacting"));
    let compacted = soon(move || {
        let manifest = writer.compact(1, &std::sync::Arc::default(), &dpr_files::progress::Silent);
        manifest.map(drop).map_err(|error| error.to_string())
    });
    assert_eq!(compacted, Ok(()));
    assert!(fs::symlink_metadata(root.path().join("compacting")).is_err());
}

#[test]
fn the_manifest_of_vectors_is_not_read_without_end() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("manifest.json");
    for replace in [device as Replace, pipe, holes] {
        replace(&path);
        let dir = root.path().to_path_buf();
        let error = soon(move || VectorSet::read(&[dir]).map(drop).map_err(|error| error.to_string()));
        let error = error.unwrap_err();
        assert!(error.contains(path.to_str().unwrap()) && error.contains("in its place"), "{error}");
        fs::remove_file(&path).unwrap();
    }
}
