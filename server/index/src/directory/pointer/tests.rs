//! Tests of publishing: what is refused, what is left alone, what is withdrawn.

use super::*;
use crate::vectors::VectorSet;
use crate::{
    BuildError, IndexOptions, IndexReader, IndexWriter, NewPassage, VectorIndex as _, build_index, copy_index,
};
use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_files::progress::Silent;

fn build(dir: &Path) -> Result<(), BuildError> {
    let passage = Passage::new("a", "", "Text.");
    let set = VectorSet::new("ab".repeat(32), 2, vec![passage], vec![1.0, 0.5]);
    build_index(&set, dir, &IndexOptions::default(), &Silent).map(drop)
}

#[test]
fn foreign_names_are_refused_by_the_first_build_and_left_alone_by_those_after_it() {
    let root = tempfile::tempdir().unwrap();
    let foreign = root.path().join("notes.txt");
    fs::write(&foreign, "mine").unwrap();
    let error = build(root.path()).unwrap_err();
    assert!(
        matches!(&error, BuildError::File(FileError::Foreign { name, .. }) if name == "notes.txt"),
        "{error}"
    );
    fs::remove_file(&foreign).unwrap();
    build(root.path()).unwrap();
    for name in ["lost+found", ".nfs000000000000001d00000001", ".DS_Store", "v-x", "updates-.log"] {
        fs::write(root.path().join(name), "theirs").unwrap();
    }
    for version in 2..5 {
        build(root.path()).unwrap();
        assert_eq!(IndexDir::new(root.path()).current_version().unwrap(), version);
    }
    for name in ["lost+found", ".nfs000000000000001d00000001", ".DS_Store", "v-x", "updates-.log"] {
        assert_eq!(fs::read_to_string(root.path().join(name)).unwrap(), "theirs");
    }
    assert!(!IndexDir::new(root.path()).version_path(2).exists(), "old versions are removed");
}

#[cfg(unix)]
#[test]
fn nobody_may_write_to_a_file_of_a_published_version() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    build(root.path()).unwrap();
    let mut files = 0;
    for entry in fs::read_dir(root.path().join("v-1")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o222, 0, "{}", path.display());
        files += 1;
    }
    assert!(files >= 4, "{files} files");
}

#[test]
fn without_the_lock_nothing_is_published() {
    let root = tempfile::tempdir().unwrap();
    build(root.path()).unwrap();
    let publisher = IndexDir::new(root.path()).publisher().unwrap();
    let staged = publisher.stage().unwrap();
    fs::write(staged.path().join(MANIFEST), "{}").unwrap();
    publisher.place(staged).unwrap();
    if cfg!(unix) {
        fs::remove_file(root.path().join(DirLock::NAME)).unwrap();
        let error = publisher.switch(b"{}", None).unwrap_err();
        assert!(matches!(error, FileError::LockLost { .. }), "{error}");
        assert!(!IndexDir::new(root.path()).version_path(2).exists(), "it is withdrawn");
    }
    assert_eq!(IndexDir::new(root.path()).current_version().unwrap(), 1);
}

#[test]
fn what_was_placed_stays_where_the_pointer_cannot_be_read() {
    let root = tempfile::tempdir().unwrap();
    build(root.path()).unwrap();
    let dir = IndexDir::new(root.path());
    let publisher = dir.publisher().unwrap();
    let staged = publisher.stage().unwrap();
    fs::write(staged.path().join(MANIFEST), "{}").unwrap();
    publisher.place(staged).unwrap();
    // As where no descriptor is left to read it: it may name the new version by now.
    let pointer = fs::read(root.path().join(CURRENT)).unwrap();
    fs::write(root.path().join(CURRENT), "no pointer").unwrap();
    publisher.withdraw();
    assert!(dir.version_path(2).exists());
    fs::write(root.path().join(CURRENT), pointer).unwrap();
    publisher.withdraw();
    assert!(!dir.version_path(2).exists());
}

#[test]
fn what_a_killed_process_placed_and_did_not_put_in_use_is_removed_by_the_next() {
    let root = tempfile::tempdir().unwrap();
    build(root.path()).unwrap();
    let dir = IndexDir::new(root.path());
    let place = || {
        let publisher = dir.publisher().unwrap();
        let staged = publisher.stage().unwrap();
        fs::write(staged.path().join(MANIFEST), "{}").unwrap();
        publisher.place(staged).unwrap();
        fs::write(dir.log_path(publisher.next()), "no updates").unwrap();
        fs::create_dir(root.path().join(format!("private-{}", publisher.next()))).unwrap();
        publisher.next()
    };
    fs::create_dir(root.path().join("private-1")).unwrap();
    fs::write(root.path().join("private-x"), "theirs").unwrap();
    assert_eq!([(); 3].map(|()| place()), [2; 3], "each removes what the one before left");
    // Without a pointer nobody knows which were in use.
    let pointer = fs::read(root.path().join(CURRENT)).unwrap();
    fs::remove_dir_all(root.path().join("private-1")).unwrap();
    fs::remove_dir_all(root.path().join("private-2")).unwrap();
    fs::remove_file(root.path().join("private-x")).unwrap();
    fs::remove_file(root.path().join(CURRENT)).unwrap();
    assert_eq!(place(), 3);
    assert!(dir.version_path(1).exists() && dir.version_path(2).exists());
    fs::write(root.path().join(CURRENT), pointer).unwrap();
    build(root.path()).unwrap();
    let mut left = dir.names().unwrap();
    left.sort();
    assert_eq!(left, [".lock", "current", "v-1", "v-2"]);
    assert_eq!(dir.current_version().unwrap(), 2);
}

#[test]
fn where_the_pointer_cannot_be_read_a_build_and_a_restore_keep_every_version_and_its_updates() {
    let root = tempfile::tempdir().unwrap();
    let snapshot = root.path().join("snapshot");
    build(&snapshot).unwrap();
    for (at, is_missing, is_restored) in
        [(0, false, false), (1, true, false), (2, false, true), (3, true, true)]
    {
        let path = root.path().join(format!("index-{at}"));
        build(&path).unwrap();
        let writer = IndexWriter::open(&path, "a test").unwrap();
        let vector = Embedding::new(vec![0.5, 0.5], 2).unwrap();
        writer.put(vec![NewPassage { passage: Passage::new("b", "", "Another."), vector }]).unwrap();
        drop(writer);
        // Placed by a process that was killed, and with a greater number than the version in use.
        fs::create_dir(path.join("v-2")).unwrap();
        let current = path.join(CURRENT);
        let pointer = fs::read(&current).unwrap();
        match is_missing {
            true => fs::remove_file(&current).unwrap(),
            false => fs::write(&current, "no pointer").unwrap(),
        }
        match is_restored {
            true => drop(copy_index(&snapshot, &path).unwrap()),
            false => build(&path).unwrap(),
        }
        let dir = IndexDir::new(&path);
        assert_eq!(dir.current_version().unwrap(), 3);
        assert!(dir.version_path(1).exists() && dir.version_path(2).exists() && dir.log_path(1).exists());
        fs::write(&current, pointer).unwrap();
        assert_eq!(IndexReader::open(&path).unwrap().snapshot().len(), 2, "what was acknowledged is found");
        // Where the pointer is known, the version before it is kept alone.
        build(&path).unwrap();
        build(&path).unwrap();
        assert!(!dir.version_path(1).exists() && !dir.log_path(1).exists());
    }
}

#[test]
fn an_index_that_lost_its_pointer_is_built_anew_beside_its_private_tables() {
    let root = tempfile::tempdir().unwrap();
    build(root.path()).unwrap();
    let tables = root.path().join("private-1");
    fs::create_dir(&tables).unwrap();
    fs::remove_file(root.path().join(CURRENT)).unwrap();
    build(root.path()).unwrap();
    assert_eq!(IndexDir::new(root.path()).current_version().unwrap(), 2);
    // Tables of a removed version stay: the next tables take their parameters.
    build(root.path()).unwrap();
    assert!(tables.exists() && !root.path().join("v-1").exists());
}

#[test]
fn after_the_greatest_number_there_is_no_version() {
    let root = tempfile::tempdir().unwrap();
    let last = root.path().join(format!("v-{}", u64::MAX));
    fs::create_dir(&last).unwrap();
    let error = build(root.path()).unwrap_err();
    assert!(error.to_string().contains("it has version 18446744073709551615, after which"), "{error}");
    assert!(last.exists() && !root.path().join("v-0").exists());
}

#[test]
fn a_number_with_a_sign_or_zeros_before_it_is_no_version() {
    let root = tempfile::tempdir().unwrap();
    build(root.path()).unwrap();
    for name in ["v-007", "v-+7", "updates-07.log", "private-+9"] {
        fs::create_dir(root.path().join(name)).unwrap();
    }
    for version in 2..4 {
        build(root.path()).unwrap();
        assert_eq!(IndexDir::new(root.path()).current_version().unwrap(), version);
    }
    for name in ["v-007", "v-+7", "updates-07.log", "private-+9"] {
        assert!(root.path().join(name).exists(), "{name}");
    }
    assert_eq!(
        ["v-7", "v-0", "v-07", "v-+7", "v--7", "v-"].map(parse_version),
        [Some(7), Some(0), None, None, None, None]
    );
}

#[test]
fn a_pointer_is_read_only_as_it_was_written() {
    for has_log in [false, true] {
        let pointer = Pointer { version: 12, manifest_sha256: "ab".repeat(32), has_log };
        let text = pointer.text();
        assert_eq!(Pointer::parse(text.as_bytes()), Some(pointer));
        let bad = [text.trim(), &text.replace("v-12", "v-012"), &text.replace("ab", "AB")];
        for bad in bad.into_iter().chain(["", "v-1\n", "v-x 00\n", &text.replace('\n', " update\n")]) {
            assert_eq!(Pointer::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }
}
