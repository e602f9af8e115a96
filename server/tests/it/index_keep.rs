//! Keeping an index: what is damaged is found before it is served, snapshots bring it back, a kill leaves it whole.

use crate::support::corpus;
use crate::support::files::overwrite;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use corpus::{embedding, random_rows, set, squad_rows};
use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::search::Filter;
use dpr_index::sparse::{Analyzer, SparseOptions};
use dpr_index::{
    HnswParams, IndexDir, IndexKind, IndexOptions, IndexReader, IndexWriter, LoadedIndex, LoadedSparse,
    NewPassage, build_index, build_sparse_index, copy_index, recall_against_exact, tune, verify,
};

const SPARSE: SparseOptions = SparseOptions { analyzer: Analyzer::English, threads: 1 };

/// An index of `count` passages with a graph and words.
fn index(dir: &Path, count: usize) {
    let hnsw = HnswParams { m: 4, ef_construction: 16, ef_search: 16 };
    let options =
        IndexOptions { kind: IndexKind::Hnsw, hnsw, sparse: Some(SPARSE), ..IndexOptions::default() };
    build_index(&set(random_rows(count, 8), 8), dir, &options, &Silent).unwrap();
}

/// The files that are read when the index is opened.
fn files(dir: &Path) -> Vec<PathBuf> {
    let number = IndexDir::new(dir).current_version().unwrap();
    let version = dir.join(format!("v-{number}"));
    let mut files = vec![dir.join("current"), dir.join(format!("updates-{number}.log"))];
    for folder in [version.clone(), version.join("sparse")] {
        let entries = fs_err::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|path| path.is_file()));
    }
    files.sort();
    files
}

fn dpr(arguments: &[&str], root: &Path) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_dpr")).args(arguments).current_dir(root).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn each_of_500_damages_is_found_before_it_is_served() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    index(&dir, 60);
    let updater = IndexWriter::open(&dir, "a test").unwrap();
    let ids = (0..10).map(|i| format!("p{}", i * 3)).collect();
    updater.delete(ids).unwrap();
    let vector = embedding(&[0.25; 8]);
    let passage = Passage::new("new", "", "A new one.");
    updater.put(vec![NewPassage { passage, vector }]).unwrap();
    drop(updater);
    let files = files(&dir);
    assert!(files.len() > 9, "{files:?}");
    let mut random = SplitMix::new(500);
    for number in 0..500 {
        let file = &files[number % files.len()];
        let whole = fs_err::read(file).unwrap();
        let mut bytes = whole.clone();
        let what = match random.below(4) {
            0 if !bytes.is_empty() => {
                bytes.truncate(random.below(bytes.len()));
                "cut short"
            }
            // What is behind the end of a log is what a killed writer did not acknowledge: no damage.
            1 if file.extension() != Some("log".as_ref()) => {
                bytes.push(random.bits() as u8);
                "made longer"
            }
            _ if !bytes.is_empty() => {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
                "a bit flipped"
            }
            _ => {
                bytes.push(0);
                "made longer"
            }
        };
        overwrite(file, &bytes).unwrap();
        assert!(IndexReader::open(&dir).is_err(), "{number}: {} {what} is served", file.display());
        let found = verify(&dir).map(|verified| verified.problems);
        assert!(found.is_err() || !found.unwrap().is_empty(), "{number}: {} {what}", file.display());
        overwrite(file, whole).unwrap();
    }
    for file in &files {
        let aside = root.path().join("aside");
        fs_err::rename(file, &aside).unwrap();
        assert!(IndexReader::open(&dir).is_err(), "served without {}", file.display());
        fs_err::rename(&aside, file).unwrap();
    }
    assert!(verify(&dir).unwrap().problems.is_empty());
    assert_eq!(IndexReader::open(&dir).unwrap().live().snapshot().changes(), 11);
}

#[test]
fn verify_names_every_file_that_is_wrong_and_snapshots_bring_them_back() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    index(&dir, 60);
    let (status, said, _) = dpr(&["index", "verify", "--index", "index"], root.path());
    assert_eq!(status, Some(0));
    assert!(said.contains("60 passages, hnsw") && said.contains("all as they were written"), "{said}");
    let (status, _, errors) = dpr(&["index", "snapshot", "--index", "index", "--out", "backup"], root.path());
    assert_eq!(status, Some(0), "{errors}");

    let version = dir.join("v-1");
    overwrite(version.join("vectors.f32"), b"short").unwrap();
    fs_err::remove_file(version.join("graph.hnsw")).unwrap();
    fs_err::write(version.join("stray"), b"").unwrap();
    let (status, said, errors) = dpr(&["index", "verify", "--index", "index"], root.path());
    assert_eq!(status, Some(1));
    for name in ["vectors.f32", "graph.hnsw", "stray"] {
        assert!(said.contains(name), "no {name} in {said}");
    }
    assert!(errors.contains("3 of ") && errors.contains("restore a snapshot"), "{errors}");

    let (status, _, errors) =
        dpr(&["index", "restore", "--snapshot", "backup", "--out", "index"], root.path());
    assert_eq!(status, Some(0), "{errors}");
    assert_eq!(IndexDir::new(&dir).current_version().unwrap(), 2);
    let [restored, backup] = [&dir, &root.path().join("backup")].map(|dir| LoadedIndex::open(dir).unwrap());
    assert_eq!(restored.version(), backup.version(), "the same to the byte");
    assert!(verify(&dir).unwrap().problems.is_empty());
}

#[test]
fn snapshots_and_restores_count_the_passages_that_are_searched() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    index(&dir, 60);
    let updater = IndexWriter::open(&dir, "a test").unwrap();
    updater.delete(vec!["p1".into(), "p2".into()]).unwrap();
    drop(updater);
    for arguments in [
        ["index", "snapshot", "--index", "index", "--out", "backup"],
        ["index", "restore", "--snapshot", "backup", "--out", "index"],
    ] {
        let (status, said, errors) = dpr(&arguments, root.path());
        assert_eq!(status, Some(0), "{errors}");
        assert!(said.contains(": 58 passages, hnsw, "), "{said}");
    }
}

#[test]
fn verify_tells_a_file_that_it_cannot_read_from_a_damaged_one() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    index(&dir, 20);
    // A link to itself: permissions are no obstacle where tests are run by root.
    let unread = dir.join("v-1/vectors.f32");
    fs_err::remove_file(&unread).unwrap();
    std::os::unix::fs::symlink(&unread, &unread).unwrap();
    let (status, said, errors) = dpr(&["index", "verify", "--index", "index"], root.path());
    assert_eq!(status, Some(1));
    assert!(said.contains("vectors.f32") && said.contains("symbolic links"), "no reason in {said}");
    assert!(errors.contains("1 of ") && errors.contains("files cannot be read"), "{errors}");
    assert!(
        errors.contains("let this user read them") && !errors.contains("as they were written"),
        "{errors}"
    );
    // A device is known not to be what was written.
    let damaged = dir.join("v-1/graph.hnsw");
    fs_err::remove_file(&damaged).unwrap();
    std::os::unix::fs::symlink("/dev/null", &damaged).unwrap();
    let (_, _, errors) = dpr(&["index", "verify", "--index", "index"], root.path());
    assert!(errors.contains("files are not as they were written: restore a snapshot"), "{errors}");
    assert!(errors.contains("; 1 of ") && errors.contains("files cannot be read"), "{errors}");
}

#[test]
fn a_snapshot_that_cannot_be_used_leaves_what_is_there() {
    let root = tempfile::tempdir().unwrap();
    let [dir, backup] = ["index", "backup"].map(|name| root.path().join(name));
    index(&dir, 40);
    copy_index(&dir, &backup).unwrap();
    let before = LoadedIndex::open(&dir).unwrap().version().to_owned();
    let (status, _, errors) = dpr(&["index", "snapshot", "--index", "index", "--out", "backup"], root.path());
    assert_eq!(status, Some(1));
    assert!(errors.contains("backup holds an index"), "{errors}");
    // Nor does a snapshot go where an index is that cannot be read.
    let damaged = root.path().join("damaged");
    index(&damaged, 20);
    overwrite(damaged.join("current"), "v-1\n").unwrap();
    let (status, _, errors) =
        dpr(&["index", "snapshot", "--index", "index", "--out", "damaged"], root.path());
    assert_eq!(status, Some(1));
    assert!(errors.contains("damaged holds an index") && errors.contains("`dpr index restore`"), "{errors}");
    assert!(!damaged.join("v-2").exists() && fs_err::read(damaged.join("current")).unwrap() == b"v-1\n");

    let damaged = backup.join("v-1/passages.jsonl");
    let mut bytes = fs_err::read(&damaged).unwrap();
    bytes[10] ^= 1;
    overwrite(&damaged, bytes).unwrap();
    let (status, _, errors) =
        dpr(&["index", "restore", "--snapshot", "backup", "--out", "index"], root.path());
    assert_eq!(status, Some(1));
    assert!(errors.contains("passages.jsonl"), "{errors}");
    let (_, _, errors) = dpr(&["index", "restore", "--snapshot", "nowhere", "--out", "index"], root.path());
    assert!(errors.contains("nowhere"), "{errors}");
    let foreign = root.path().join("foreign");
    fs_err::create_dir(&foreign).unwrap();
    fs_err::write(foreign.join("letter.txt"), "dear").unwrap();
    let (status, _, errors) =
        dpr(&["index", "snapshot", "--index", "index", "--out", "foreign"], root.path());
    assert_eq!(status, Some(1));
    assert!(errors.contains("letter.txt"), "{errors}");
    assert_eq!(LoadedIndex::open(&dir).unwrap().version(), before);
    assert_eq!(fs_err::read_dir(&dir).unwrap().count(), 3, "the lock, the pointer and the version");
}

#[test]
fn a_kill_while_restoring_leaves_an_index_that_is_whole() {
    let root = tempfile::tempdir().unwrap();
    let [dir, backup] = ["index", "backup"].map(|name| root.path().join(name));
    index(&dir, 20);
    index(&backup, 3000);
    let counts = [20, 3000];
    let mut random = SplitMix::new(7);
    let mut seen = [0, 0];
    for _ in 0..40 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dpr"))
            .args(["index", "restore", "--snapshot", "backup", "--out", "index"])
            .current_dir(root.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(random.below(40_000) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let verified = verify(&dir).unwrap();
        assert!(verified.problems.is_empty(), "{:?}", verified.problems);
        seen[counts.iter().position(|count| *count == verified.manifest.count).unwrap()] += 1;
    }
    println!("{} times the old index, {} times the new", seen[0], seen[1]);
    copy_index(&backup, &dir).unwrap();
    assert_eq!(LoadedIndex::open(&dir).unwrap().manifest.count, 3000);
}

#[test]
fn an_index_of_words_alone_is_verified_and_copied() {
    let root = tempfile::tempdir().unwrap();
    let [dir, backup] = ["index", "backup"].map(|name| root.path().join(name));
    let passages = set(random_rows(30, 4), 4).passages;
    build_sparse_index(&passages, &dir, SPARSE, &IndexOptions::default().stop, &Silent).unwrap();
    copy_index(&dir, &backup).unwrap();
    assert_eq!(verify(&backup).unwrap().manifest.kind, IndexKind::Sparse);
    assert_eq!(LoadedSparse::open(&backup).unwrap().passages.read_all().unwrap(), passages);
}

/// Lists one more file in the manifest of an index's first version, and makes `current` vouch for that.
fn list(dir: &Path, name: &str, content: &[u8]) {
    let path = dir.join("v-1/manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    let sha256 = dpr_core::model::sha256_hex(content);
    manifest["files"][name] = serde_json::json!({ "bytes": content.len(), "sha256": sha256 });
    overwrite(&path, manifest.to_string()).unwrap();
    let sha256 = dpr_core::model::sha256_hex(manifest.to_string().as_bytes());
    fs_err::write(dir.join("current"), format!("v-1 {sha256}\n")).unwrap();
}

#[test]
fn a_snapshot_of_somebody_else_writes_nothing_outside_the_directory_it_is_restored_to() {
    let root = tempfile::tempdir().unwrap();
    let [dir, victim] = ["index", "victim"].map(|name| root.path().join(name));
    index(&dir, 60);
    fs_err::create_dir(&victim).unwrap();
    let absolute = victim.join("pwned").to_str().unwrap().to_owned();
    let names = [
        "../../pwned",
        "sparse/../../../pwned",
        &absolute,
        "..",
        ".",
        "",
        "sparse/",
        "other/pwned",
        "sparse/a/b",
    ];
    for (at, name) in names.into_iter().chain(["..\\..\\pwned"]).enumerate() {
        let bundle = root.path().join(format!("bundle-{at}"));
        let snapshot = bundle.join("snapshot");
        copy_index(&dir, &snapshot).unwrap();
        fs_err::write(bundle.join("pwned"), "pwned").unwrap();
        list(&snapshot, name, b"pwned");
        let error = copy_index(&snapshot, &victim.join("index")).unwrap_err().to_string();
        assert!(error.contains("manifest.json") && error.contains(&format!("{name:?}")), "{name:?}: {error}");
        assert_eq!(fs_err::read_dir(&victim).unwrap().count(), 0, "{name:?} was written");
        for refused in [verify(&snapshot).map(drop), IndexReader::open(&snapshot).map(drop)] {
            assert!(refused.unwrap_err().to_string().contains("manifest.json"), "{name:?}");
        }
    }
    let snapshot = root.path().join("bundle-0/snapshot");
    let arguments = ["index", "restore", "--snapshot", snapshot.to_str().unwrap(), "--out", "victim/index"];
    let (status, _, errors) = dpr(&arguments, root.path());
    assert_eq!(status, Some(1));
    assert!(errors.contains("../../pwned") && errors.contains("manifest.json"), "{errors}");
}

#[test]
fn a_file_of_a_snapshot_that_is_a_device_is_not_read() {
    let root = tempfile::tempdir().unwrap();
    let [dir, snapshot] = ["index", "snapshot"].map(|name| root.path().join(name));
    index(&dir, 60);
    copy_index(&dir, &snapshot).unwrap();
    let file = snapshot.join("v-1/passages.jsonl");
    fs_err::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &file).unwrap();
    let error = copy_index(&snapshot, &root.path().join("restored")).unwrap_err().to_string();
    assert!(error.contains("passages.jsonl") && error.contains("not a plain file"), "{error}");
}

#[test]
fn a_pointer_that_is_a_device_is_neither_restored_nor_read_without_end() {
    let root = tempfile::tempdir().unwrap();
    let [dir, snapshot] = ["index", "snapshot"].map(|name| root.path().join(name));
    index(&dir, 60);
    copy_index(&dir, &snapshot).unwrap();
    fs_err::remove_file(snapshot.join("current")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", snapshot.join("current")).unwrap();
    // In 4 GB of addresses, so that reading it ends.
    let script = "ulimit -v 4000000; exec \"$0\" index restore --snapshot snapshot --out restored";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_dpr")])
        .current_dir(root.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("snapshot/current is not a plain file"), "{errors}");
    assert!(errors.contains("put the file that was written in its place"), "{errors}");
}

#[test]
fn a_lock_that_is_a_link_is_neither_followed_nor_written_through() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    index(&dir, 60);
    let [precious, missing] = ["precious", "missing"].map(|name| root.path().join(name));
    fs_err::write(&precious, "keep").unwrap();
    let lock = dir.join(".lock");
    for target in [&precious, &missing] {
        let _ = fs_err::remove_file(&lock);
        std::os::unix::fs::symlink(target, &lock).unwrap();
        let error = IndexWriter::open(&dir, "a test").map(drop).unwrap_err().to_string();
        assert!(error.contains(".lock") && error.contains("not a plain file"), "{error}");
        for arguments in
            [&["index", "compact", "--index", "index"][..], &["index", "delete", "--index", "index", "p1"]]
        {
            let (status, _, errors) = dpr(arguments, root.path());
            assert_eq!(status, Some(1), "{errors}");
            assert!(errors.contains(".lock"), "{errors}");
        }
    }
    assert_eq!(fs_err::read_to_string(&precious).unwrap(), "keep");
    assert!(!missing.exists());
    fs_err::remove_file(&lock).unwrap();
    assert_eq!(IndexWriter::open(&dir, "a test").unwrap().delete(vec!["p1".into()]).unwrap(), 1);
}

#[test]
fn tuning_finds_the_smallest_effort_that_is_enough_and_stores_it() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    let hnsw = HnswParams { m: 6, ef_construction: 60, ef_search: 900 };
    let options = IndexOptions { kind: IndexKind::Hnsw, hnsw, ..IndexOptions::default() };
    build_index(&set(squad_rows(64), 64), &dir, &options, &Silent).unwrap();
    let tuned = tune(&dir, 0.98, 20, 500).unwrap();
    println!("{tuned:?}");
    assert!(tuned.recall >= 0.98 && (30..900).contains(&tuned.ef_search), "{tuned:?}");
    let below = tuned.tried.iter().filter(|(ef, _)| *ef < tuned.ef_search);
    assert!(below.clone().all(|(_, recall)| *recall < 0.98), "{tuned:?}");
    assert!(below.into_iter().any(|(ef, _)| *ef + 1 == tuned.ef_search) || tuned.ef_search == 30);
    let index = LoadedIndex::open(&dir).unwrap();
    assert_eq!(index.manifest.hnsw.unwrap().ef_search, tuned.ef_search);
    assert_eq!(recall_against_exact(&index, 20, 500).unwrap(), tuned.recall);
    assert!(verify(&dir).unwrap().problems.is_empty());

    let (status, said, errors) =
        dpr(&["index", "tune", "--index", "index", "--recall", "0.9", "--questions", "100"], root.path());
    assert_eq!(status, Some(0), "{errors}");
    assert!(said.contains("ef_search is"), "{said}");
    let (status, _, errors) = dpr(&["index", "tune", "--index", "index", "--recall", "1.5"], root.path());
    assert_eq!(status, Some(2));
    assert!(errors.contains("1.5"), "{errors}");
    let exact = root.path().join("exact");
    build_index(&set(random_rows(30, 4), 4), &exact, &IndexOptions::default(), &Silent).unwrap();
    let (status, _, errors) = dpr(&["index", "tune", "--index", "exact"], root.path());
    assert_eq!(status, Some(1));
    assert!(errors.contains("no graph") && errors.contains("--kind hnsw"), "{errors}");
}

/// Copies a fixture to where it may be changed.
fn fixture(name: &str, dir: &Path) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name).join("index");
    for entry in walkdir::WalkDir::new(&fixture) {
        let entry = entry.unwrap();
        let to = dir.join(entry.path().strip_prefix(&fixture).unwrap());
        match entry.file_type().is_dir() {
            true => fs_err::create_dir_all(to).unwrap(),
            false => drop(fs_err::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Asks an index of 40 passages of five subjects, of which a vector and a word find what they should.
fn ask(dir: &Path, format: u32) {
    let follower = IndexReader::open(dir).unwrap();
    let snapshot = follower.live().snapshot();
    let index = snapshot.base();
    assert_eq!((index.manifest.format_version, index.manifest.count), (format, 40));
    let matrix = index.matrix().unwrap();
    let question = corpus::embedding(matrix.row(7));
    let plain = |row: usize| -> f64 {
        matrix.row(row).iter().zip(matrix.row(7)).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let mut expected: Vec<usize> = (0..40).collect();
    expected.sort_by(|a, b| plain(*b).total_cmp(&plain(*a)));
    let found: Vec<usize> = index.index.search(&question, 5).unwrap().iter().map(|found| found.row).collect();
    assert_eq!(found, expected[..5]);
    assert_eq!(index.passage(7).unwrap().id, "yeast-1");
    assert_eq!(index.passages().row_of("yeast-1").unwrap(), Some(7));
    assert_eq!(index.passages().row_of("yeast-9").unwrap(), None);
    let yeast = Filter { titles: ["Yeast".to_owned()].into(), ..Filter::default() };
    let words =
        index.sparse().unwrap().unwrap().search("carbon dioxide", 40, dpr_index::sparse::Scoring::PAPER);
    assert_eq!(words.unwrap().len(), 8, "all that speak of yeast");
    assert_eq!(yeast.rows(&snapshot).unwrap().len(), 8);
}

#[test]
fn an_index_of_the_first_format_is_served_and_upgraded() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    fixture("index-format-1", &dir);
    ask(&dir, 1);
    fs_err::create_dir(dir.join("private-1")).unwrap();
    let (status, said, errors) = dpr(&["index", "upgrade", "--index", "index"], root.path());
    assert_eq!((status, said.trim()), (Some(0), "index: format 1, now 3"), "{errors}");
    assert!(errors.contains("the new version has no private tables"), "{errors}");
    ask(&dir, 3);
    assert!(verify(&dir).unwrap().problems.is_empty());
    let (status, said, _) = dpr(&["index", "upgrade", "--index", "index"], root.path());
    assert_eq!((status, said.trim()), (Some(0), "index is in format 3, the newest for what it holds"));
    assert_eq!(IndexDir::new(&dir).current_version().unwrap(), 2, "nothing to do, nothing done");
    // A damaged one is not.
    overwrite(dir.join("v-2/graph.hnsw"), b"no graph").unwrap();
    let (status, _, errors) = dpr(&["index", "upgrade", "--index", "index"], root.path());
    assert_eq!(status, Some(1));
    assert!(errors.contains("graph.hnsw"), "{errors}");
}

#[test]
fn an_index_of_the_second_format_is_served_changed_and_upgraded_with_its_updates() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    fixture("index-format-2", &dir);
    let ids = || -> Vec<String> {
        let live = IndexReader::open(&dir).unwrap().live().snapshot();
        live.passages().map(|live| live.unwrap().0.id).collect()
    };
    let before = ids();
    assert!(before.len() == 40 && !before.contains(&"vulkan-0".to_owned()));
    assert_eq!(before[38..], ["yeast-1", "baltic-0"]);
    ask(&dir, 2);
    assert_eq!(IndexWriter::open(&dir, "a test").unwrap().delete(vec!["chess-3".into()]).unwrap(), 1);
    let (status, said, errors) = dpr(&["index", "upgrade", "--index", "index"], root.path());
    assert_eq!((status, said.trim()), (Some(0), "index: format 2, now 3"), "{errors}");
    ask(&dir, 3);
    let verified = verify(&dir).unwrap();
    assert_eq!((verified.changes, verified.problems.len()), (4, 0));
    assert_eq!(ids(), before.into_iter().filter(|id| id != "chess-3").collect::<Vec<_>>());
    let copy = root.path().join("copy");
    copy_index(&dir, &copy).unwrap();
    assert_eq!(verify(&copy).unwrap().changes, 4);
}
