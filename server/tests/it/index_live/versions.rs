//! Versions: snapshots, followers, compactions.

use super::*;

#[test]
fn snapshots_and_tuned_versions_hold_the_updates() {
    let root = tempfile::tempdir().unwrap();
    let [dir, backup] = ["index", "backup"].map(|name| root.path().join(name));
    build(&dir, 400, IndexKind::Hnsw);
    let updater = IndexWriter::open(&dir, "a test").unwrap();
    updater.put(vec![new("a", &[0.5; DIM]), new("p7", &[0.25; DIM])]).unwrap();
    updater.delete(vec!["p8".into()]).unwrap();
    let expected = live(&updater.live().snapshot());
    // A snapshot is taken while the writer is at work.
    copy_index(&dir, &backup).unwrap();
    drop(updater);
    tune(&dir, 0.9, 10, 50).unwrap();
    assert_eq!(IndexDir::new(&dir).current_version().unwrap(), 2);
    for dir in [&dir, &backup] {
        let verified = verify(dir).unwrap();
        assert!(verified.problems.is_empty(), "{:?}", verified.problems);
        assert_eq!(verified.changes, 3);
        assert_eq!(live(&IndexReader::open(dir).unwrap().live().snapshot()), expected);
        // Both can be written to on their own.
        let updater = IndexWriter::open(dir, "a test").unwrap();
        updater.delete(vec!["a".into()]).unwrap();
        assert_eq!(updater.live().snapshot().len(), expected.len() - 1);
    }
    copy_index(&backup, &dir).unwrap();
    assert_eq!(live(&IndexReader::open(&dir).unwrap().live().snapshot()).len(), expected.len() - 1);
}

#[test]
fn a_follower_takes_new_versions_and_refuses_another_model_once() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 30, IndexKind::Exact);
    let follower = IndexReader::open(root.path()).unwrap();
    let held = follower.live().snapshot();
    assert!(!follower.refresh().unwrap());
    build(root.path(), 40, IndexKind::Hnsw);
    assert!(follower.refresh().unwrap());
    let snapshot = follower.live().snapshot();
    assert_eq!((snapshot.len(), snapshot.base().number(), held.len()), (40, 2, 30));

    let mut other = set(random_rows(10, DIM), DIM);
    other.model_fingerprint = "cd".repeat(32);
    build_index(&other, root.path(), &IndexOptions::default(), &Silent).unwrap();
    let error = follower.refresh().unwrap_err();
    assert!(matches!(error, OpenError::OtherModel { .. }), "{error}");
    assert!(!follower.refresh().unwrap(), "it is told of once");
    assert_eq!(follower.live().snapshot().len(), 40, "what was in use stays");
    build(root.path(), 50, IndexKind::Exact);
    assert!(follower.refresh().unwrap());
    assert_eq!(follower.live().snapshot().len(), 50);
}

#[test]
fn an_index_can_be_emptied_and_filled_but_not_compacted_in_between() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 5, IndexKind::Exact);
    let updater = IndexWriter::open(root.path(), "a test").unwrap();
    assert!(updater.compact(1, &Arc::default(), &Silent).unwrap().is_none(), "nothing changed");
    updater.delete((0..5).map(|i| format!("p{i}")).collect()).unwrap();
    let question = embedding(&[0.5; DIM]);
    assert!(updater.live().snapshot().search(&question, 3).unwrap().is_empty());
    let error = updater.compact(1, &Arc::default(), &Silent).unwrap_err();
    assert!(matches!(error, CompactError::NothingLeft { .. }), "{error}");
    updater.put(vec![new("p3", &[0.5; DIM])]).unwrap();
    assert_eq!(updater.live().snapshot().search(&question, 3).unwrap().len(), 1);
    compact(&updater);
    assert_eq!(live(&IndexReader::open(root.path()).unwrap().live().snapshot()).len(), 1);
}

#[test]
fn a_compaction_that_is_stopped_leaves_the_index_and_its_updates() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 300, IndexKind::Hnsw);
    let updater = IndexWriter::open(root.path(), "a test").unwrap();
    updater.delete(vec!["p3".into()]).unwrap();
    let stop = Arc::new(AtomicBool::new(true));
    assert!(matches!(updater.compact(1, &stop, &Silent), Err(CompactError::Build(BuildError::Interrupted))));
    updater.delete(vec!["p4".into()]).unwrap();
    assert_eq!(live(&IndexReader::open(root.path()).unwrap().live().snapshot()).len(), 298);
    let mut names: Vec<_> = fs_err::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".lock", "current", "updates-1.log", "v-1"]);
}

#[test]
fn compaction_is_due_by_share_or_by_number() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 2000, IndexKind::Exact);
    let updater = IndexWriter::open(root.path(), "a test").unwrap();
    let due = |policy: CompactionPolicy| policy.is_due(&updater.live().snapshot());
    updater.delete((0..150).map(|i| format!("p{i}")).collect()).unwrap();
    assert!(!due(CompactionPolicy::default()));
    assert!(due(CompactionPolicy { rows: 149, ..CompactionPolicy::default() }));
    assert!(due(CompactionPolicy { share: 0.05, ..CompactionPolicy::default() }));
    updater.delete((150..201).map(|i| format!("p{i}")).collect()).unwrap();
    assert!(due(CompactionPolicy::default()));
}
