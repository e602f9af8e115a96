//! An index that changes while it is searched: what is found, what others see, what is refused.

mod corpus;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use corpus::{Numbers, clusters, embedding, random_rows, set, write_vectors};
use dpr_core::random::SplitMix;
use dpr_core::{Embedding, EmbeddingError};
use dpr_server::data::Passage;
use dpr_server::index::{
    Compaction, Follower, HnswParams, IndexDir, IndexError, IndexKind, IndexOptions, LoadedIndex,
    LoadedSparse, NewPassage, Put, Snapshot, Updater, VectorIndex as _, build_index, copy_index, tune,
    verify,
};
use dpr_server::progress::Silent;
use dpr_server::search::{Filter, Searcher};
use dpr_server::sparse::{Analyzer, Scoring, SparseOptions, WordIndex};
use dpr_server::vectors::VectorSet;

const DIM: usize = 16;

fn build(dir: &Path, count: usize, kind: IndexKind) {
    let options = IndexOptions { kind, ..IndexOptions::default() };
    build_index(&set(random_rows(count, DIM), DIM), dir, &options, &Silent).unwrap();
}

fn new(id: &str, vector: &[f32]) -> NewPassage {
    let passage = Passage { id: id.into(), title: String::new(), text: format!("New {id}.") };
    NewPassage { passage, vector: embedding(vector) }
}

fn compact(updater: &Updater) {
    updater.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
}

/// What is live: ids in the order of the rows, with their vectors.
fn live(snapshot: &Snapshot) -> Vec<(String, Vec<f32>)> {
    snapshot.passages().map(|(passage, vector)| (passage.id.clone(), vector.to_vec())).collect()
}

/// Holds a snapshot against what should be in it, found by comparing every vector with the question.
fn check(snapshot: &Snapshot, expected: &[(String, Vec<f32>)], question: &Embedding, least: f64) {
    assert_eq!(live(snapshot), expected);
    assert_eq!(snapshot.len(), expected.len());
    let plain = LoadedPlainly::new(expected);
    let (mut same, mut all) = (0, 0);
    for k in [1, 20, expected.len() + 5] {
        let found = snapshot.search(question, k).unwrap();
        assert_eq!(found.len(), k.min(expected.len()));
        let truth = plain.search(question, k);
        let ids: Vec<_> =
            found.iter().map(|hit| (snapshot.passage(hit.row).id.clone(), hit.score.to_bits())).collect();
        all += truth.len();
        same += truth.iter().filter(|hit| ids.contains(hit)).count();
        if least == 1.0 {
            assert_eq!(ids, truth, "the same passages in the same order with the same scores, to the bit");
        }
    }
    assert!(same as f64 >= least * all as f64, "{same} of {all}");
}

/// Exact search over passages, for comparison.
struct LoadedPlainly {
    ids: Vec<String>,
    index: LoadedIndex,
}

impl LoadedPlainly {
    fn new(expected: &[(String, Vec<f32>)]) -> Self {
        let rows = expected.iter().flat_map(|(_, vector)| vector.clone()).collect();
        let dir = tempfile::tempdir().unwrap();
        build_index(&set(rows, expected[0].1.len()), dir.path(), &IndexOptions::default(), &Silent).unwrap();
        let ids = expected.iter().map(|(id, _)| id.clone()).collect();
        Self { ids, index: LoadedIndex::open(dir.path()).unwrap() }
    }

    fn search(&self, question: &Embedding, k: usize) -> Vec<(String, u32)> {
        let found = self.index.index.search(question, k).unwrap();
        found.into_iter().map(|hit| (self.ids[hit.row].clone(), hit.score.to_bits())).collect()
    }
}

#[test]
fn searches_find_what_is_live_and_so_do_a_follower_a_restart_and_a_new_version() {
    for (kind, least) in [(IndexKind::Exact, 1.0), (IndexKind::Hnsw, 0.95)] {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 900, kind);
        let mut follower = Follower::open(root.path()).unwrap();
        let mut updater = Updater::open(root.path(), "a test").unwrap();
        let (mut random, mut numbers) = (SplitMix::new(3), Numbers::new(9));
        let mut vector = || (0..DIM).map(|_| numbers.next()).collect::<Vec<f32>>();
        let mut expected = live(&updater.live().snapshot());
        for round in 0..12 {
            let before = updater.live().snapshot();
            let count = before.len();
            // New ids, ids of the index as built, ids that were added before.
            let put: BTreeMap<String, Vec<f32>> = (0..30)
                .map(|_| {
                    let family = ["p", "n", "m"][random.below(3)];
                    (format!("{family}{}", random.below(60)), vector())
                })
                .collect();
            let known = put.keys().filter(|id| expected.iter().any(|(other, _)| other == *id)).count();
            let done = updater.put(put.iter().map(|(id, vector)| new(id, vector)).collect()).unwrap();
            assert_eq!(done, Put { added: put.len() - known, replaced: known });
            expected.retain(|(id, _)| !put.contains_key(id));
            expected.extend(put);
            let gone: Vec<String> =
                (0..10).map(|_| expected.remove(random.below(expected.len())).0).collect();
            assert_eq!(updater.delete(gone).unwrap(), 10);
            assert_eq!(before.len(), count, "a snapshot stays as it was");

            let question = embedding(&vector());
            check(&updater.live().snapshot(), &expected, &question, least);
            assert!(follower.refresh().unwrap() && !follower.refresh().unwrap());
            check(&follower.live().snapshot(), &expected, &question, least);
            match round % 4 {
                1 => {
                    drop(updater);
                    updater = Updater::open(root.path(), "a test").unwrap();
                    check(&updater.live().snapshot(), &expected, &question, least);
                }
                3 => {
                    compact(&updater);
                    let snapshot = updater.live().snapshot();
                    assert_eq!((snapshot.changes(), snapshot.added(), snapshot.removed()), (0, 0, 0));
                    check(&snapshot, &expected, &question, least);
                    assert_eq!(snapshot.base().manifest.kind, kind);
                }
                _ => {}
            }
        }
        assert!(verify(root.path()).unwrap().problems.is_empty());
    }
}

#[test]
fn a_filter_finds_what_was_added_and_not_what_is_gone() {
    for kind in [IndexKind::Exact, IndexKind::Hnsw] {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 2000, kind);
        let updater = Updater::open(root.path(), "a test").unwrap();
        updater.put(vec![new("a", &[0.5; DIM]), new("p7", &[0.25; DIM]), new("b", &[0.5; DIM])]).unwrap();
        updater.delete(vec!["b".into(), "p8".into()]).unwrap();
        let searcher = Searcher::of(updater.live().snapshot());
        let find = |ids: &[&str]| {
            let filter = Filter { ids: ids.iter().map(ToString::to_string).collect(), ..Filter::default() };
            let wanted = filter.rows(searcher.snapshot());
            let mut found: Vec<_> = searcher
                .search_among(&embedding(&[1.0; DIM]), 10, &wanted)
                .map(|hits| hits.into_iter().map(|hit| (hit.id, hit.text)).collect())
                .unwrap_or_default();
            found.sort();
            found
        };
        let pair = |id: &str, text: &str| (id.to_owned(), text.to_owned());
        let expected = [pair("a", "New a."), pair("p7", "New p7."), pair("p9", "Text 9.")];
        assert_eq!(find(&["a", "b", "p7", "p8", "p9"]), expected, "{kind}");
        assert_eq!(find(&["p7"]), [pair("p7", "New p7.")], "the new one alone");
        assert!(find(&["p8", "b"]).is_empty());
    }
}

#[test]
fn what_cannot_be_changed_is_refused_and_nothing_of_it_is_done() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 50, IndexKind::Exact);
    let updater = Updater::open(root.path(), "a test").unwrap();
    let good = vec![0.5; DIM];
    for values in [vec![0.0; DIM], vec![f32::NAN; DIM]] {
        // A vector that nothing can be found by is no `Embedding`.
        assert!(matches!(
            Embedding::new(values, DIM),
            Err(EmbeddingError::Zero | EmbeddingError::NotFinite { .. })
        ));
    }
    let blank = |id: &str, text: &str| {
        let passage = Passage { id: id.into(), title: String::new(), text: text.into() };
        NewPassage { passage, vector: embedding(&good) }
    };
    let puts = [
        (vec![], "nothing to do"),
        (
            vec![new("a", &good), new("b", &good[1..])],
            "the passage `b`: the vector has 15 numbers, expected 16",
        ),
        (vec![new("a", &[1e30; DIM])], "inner products overflow"),
        (vec![new("a", &good), new("b", &good), new("a", &good)], "`a` is at row 0 and again at row 2"),
        (vec![new("a", &good), blank(" ", "text")], "the passage at 1 has a blank id"),
        (vec![blank("a", "\n")], "the passage at 0 has a blank text"),
    ];
    for (passages, expected) in puts {
        let message = updater.put(passages).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let deletes = [
        (vec![], "nothing to do"),
        (vec!["p1", "nobody", "p2", "a"], "no passage has the id `nobody`, `a`: nothing was deleted"),
        (vec!["p1", "p1"], "`p1` is at row 0 and again at row 1"),
    ];
    for (ids, expected) in deletes {
        let message = updater.delete(ids.into_iter().map(str::to_owned).collect()).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let snapshot = updater.live().snapshot();
    assert_eq!((snapshot.len(), snapshot.changes()), (50, 0));
    let question = embedding(&good);
    assert!(matches!(snapshot.search(&question, 0), Err(IndexError::K)));
    assert!(matches!(snapshot.search(&embedding(&good[1..]), 1), Err(IndexError::Dimension { .. })));
    assert_eq!(snapshot.search(&question, 10_000).unwrap().len(), 50, "k above the count gives all");
    updater.delete(vec!["p1".into()]).unwrap();
    let message = updater.delete(vec!["p1".into()]).unwrap_err().to_string();
    assert!(message.contains("no passage has the id `p1`"), "deleted before: {message}");
}

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 20, IndexKind::Exact);
    let updater = Updater::open(root.path(), "a server").unwrap();
    let second = [
        Updater::open(root.path(), "another").map(drop),
        build_index(&set(random_rows(5, DIM), DIM), root.path(), &IndexOptions::default(), &Silent).map(drop),
        copy_index(root.path(), root.path()).map(drop),
    ];
    for error in second.map(Result::unwrap_err) {
        assert!(matches!(error, IndexError::Busy { .. }), "{error}");
        assert!(error.to_string().contains("a server (process "), "{error}");
    }
    drop(updater);
    Updater::open(root.path(), "another").unwrap();
    let none = Updater::open(&root.path().join("none"), "x").unwrap_err();
    assert!(matches!(none, IndexError::NotAnIndex { .. }), "{none}");
    assert!(!root.path().join("none").exists());
}

#[test]
fn who_does_not_look_at_updates_refuses_an_index_that_has_some() {
    let root = tempfile::tempdir().unwrap();
    let sparse = Some(SparseOptions { analyzer: Analyzer::English, threads: 1 });
    let options = IndexOptions { sparse, ..IndexOptions::default() };
    build_index(&set(random_rows(30, DIM), DIM), root.path(), &options, &Silent).unwrap();
    let updater = Updater::open(root.path(), "a test").unwrap();
    assert!(LoadedIndex::open(root.path()).is_ok() && LoadedSparse::open(root.path()).is_ok());
    updater.delete(vec!["p3".into(), "p4".into()]).unwrap();
    for error in [
        LoadedIndex::open(root.path()).map(drop).unwrap_err(),
        LoadedSparse::open(root.path()).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, IndexError::HasUpdates { changes: 2, .. }), "{error}");
        assert!(error.to_string().contains("dpr index compact --index"), "{error}");
    }
    compact(&updater);
    assert_eq!(LoadedIndex::open(root.path()).unwrap().passages().len(), 28);
    assert_eq!(LoadedSparse::open(root.path()).unwrap().passages.len(), 28, "words are built anew too");
}

#[test]
fn snapshots_and_tuned_versions_hold_the_updates() {
    let root = tempfile::tempdir().unwrap();
    let [dir, backup] = ["index", "backup"].map(|name| root.path().join(name));
    build(&dir, 400, IndexKind::Hnsw);
    let updater = Updater::open(&dir, "a test").unwrap();
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
        assert_eq!(live(&Follower::open(dir).unwrap().live().snapshot()), expected);
        // Both can be written to on their own.
        let updater = Updater::open(dir, "a test").unwrap();
        updater.delete(vec!["a".into()]).unwrap();
        assert_eq!(updater.live().snapshot().len(), expected.len() - 1);
    }
    copy_index(&backup, &dir).unwrap();
    assert_eq!(live(&Follower::open(&dir).unwrap().live().snapshot()).len(), expected.len() - 1);
}

#[test]
fn a_follower_takes_new_versions_and_refuses_another_model_once() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 30, IndexKind::Exact);
    let mut follower = Follower::open(root.path()).unwrap();
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
    assert!(matches!(error, IndexError::OtherModel { .. }), "{error}");
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
    let updater = Updater::open(root.path(), "a test").unwrap();
    assert!(updater.compact(1, &Arc::default(), &Silent).unwrap().is_none(), "nothing changed");
    updater.delete((0..5).map(|i| format!("p{i}")).collect()).unwrap();
    let question = embedding(&[0.5; DIM]);
    assert!(updater.live().snapshot().search(&question, 3).unwrap().is_empty());
    let error = updater.compact(1, &Arc::default(), &Silent).unwrap_err();
    assert!(matches!(error, IndexError::NothingLeft { .. }), "{error}");
    updater.put(vec![new("p3", &[0.5; DIM])]).unwrap();
    assert_eq!(updater.live().snapshot().search(&question, 3).unwrap().len(), 1);
    compact(&updater);
    assert_eq!(live(&Follower::open(root.path()).unwrap().live().snapshot()).len(), 1);
}

#[test]
fn a_compaction_that_is_stopped_leaves_the_index_and_its_updates() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 300, IndexKind::Hnsw);
    let updater = Updater::open(root.path(), "a test").unwrap();
    updater.delete(vec!["p3".into()]).unwrap();
    let stop = Arc::new(AtomicBool::new(true));
    assert!(matches!(updater.compact(1, &stop, &Silent), Err(IndexError::Interrupted)));
    updater.delete(vec!["p4".into()]).unwrap();
    assert_eq!(live(&Follower::open(root.path()).unwrap().live().snapshot()).len(), 298);
    let mut names: Vec<_> = fs_err::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".lock", "current", "updates-1.log", "v-1"]);
}

#[test]
fn compaction_is_due_by_share_or_by_number() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 2000, IndexKind::Exact);
    let updater = Updater::open(root.path(), "a test").unwrap();
    let due = |policy: Compaction| policy.is_due(&updater.live().snapshot());
    updater.delete((0..150).map(|i| format!("p{i}")).collect()).unwrap();
    assert!(!due(Compaction::default()));
    assert!(due(Compaction { rows: 149, ..Compaction::default() }));
    assert!(due(Compaction { share: 0.05, ..Compaction::default() }));
    updater.delete((150..201).map(|i| format!("p{i}")).collect()).unwrap();
    assert!(due(Compaction::default()));
}

#[test]
fn words_of_added_passages_score_as_those_of_passages_built_in() {
    let root = tempfile::tempdir().unwrap();
    let sparse = Some(SparseOptions { analyzer: Analyzer::English, threads: 1 });
    let mut corpus = set(random_rows(80, DIM), DIM);
    for (number, passage) in corpus.passages.iter_mut().enumerate() {
        passage.title = format!("Cats {}", number % 7);
        passage.text =
            format!("{} sleeping whiskers {}", "purr ".repeat(number % 5), "milk ".repeat(number % 3));
    }
    let options = IndexOptions { sparse, ..IndexOptions::default() };
    build_index(&corpus, root.path(), &options, &Silent).unwrap();
    let updater = Updater::open(root.path(), "a test").unwrap();
    let words = |question: &str, k: usize, scoring: Scoring| -> Vec<(String, f32)> {
        let snapshot = updater.live().snapshot();
        let found = WordIndex::search_batch(snapshot.as_ref(), &[question], k, scoring).unwrap().remove(0);
        found.into_iter().map(|hit| (snapshot.passage(hit.row).id.clone(), hit.score)).collect()
    };
    // Twins of three passages, one of which takes the place of its own; and a word that no other passage has.
    let twin = |id: &str, of: usize| {
        let passage = Passage { id: id.into(), ..corpus.passages[of].clone() };
        NewPassage { passage, vector: embedding(&[0.5; DIM]) }
    };
    updater.put(vec![twin("a", 4), twin("b", 11), twin("p20", 20)]).unwrap();
    updater.put(vec![new("zebra", &[0.5; DIM])]).unwrap();
    for scoring in [Scoring::PAPER, Scoring::TfIdf] {
        let found: BTreeMap<_, _> = words("purring cats with milk", 100, scoring).into_iter().collect();
        for (one, other) in [("a", "p4"), ("b", "p11")] {
            assert_eq!(found[one].to_bits(), found[other].to_bits(), "{one} is the twin of {other}");
        }
        assert_eq!(found.len(), 82);
        assert_eq!(words("zebra", 5, scoring)[0].0, "zebra");
        assert_eq!(words("zebra milk", 5, scoring)[0].0, "zebra", "a rare word weighs more");
    }
    let best = words("purring milk", 3, Scoring::PAPER);
    let gone: Vec<String> = best.iter().map(|(id, _)| id.clone()).collect();
    updater.delete(gone.clone()).unwrap();
    for k in [1, 3, 100] {
        let found = words("purring milk", k, Scoring::PAPER);
        assert!(found.iter().all(|(id, _)| !gone.contains(id)), "{found:?}");
        assert_eq!(found.len(), k.min(found.len()).max(1));
    }
    let before: Vec<String> = words("zebra", 5, Scoring::PAPER).into_iter().map(|hit| hit.0).collect();
    compact(&updater);
    let after: Vec<String> = words("zebra", 5, Scoring::PAPER).into_iter().map(|hit| hit.0).collect();
    assert_eq!((before.as_slice(), after.as_slice()), (&["zebra".to_owned()][..], &["zebra".to_owned()][..]));
}

#[test]
fn commands_that_cannot_be_done_say_why_and_change_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    build(&dir, 30, IndexKind::Exact);
    let good = set(random_rows(3, DIM), DIM);
    let other = VectorSet { model_fingerprint: "cd".repeat(32), ..good.clone() };
    let short = set(random_rows(3, DIM - 1), DIM - 1);
    for (name, set) in [("good", good), ("other", other), ("short", short)] {
        write_vectors(&root.path().join(name), &set);
    }
    fs_err::write(root.path().join("ids.txt"), "p1\nnobody\n").unwrap();
    let dpr = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dpr"));
        command.args(["index"]).args(arguments).current_dir(root.path()).env_remove("DPR_INDEX");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let cases: [(&[&str], i32, &str); 8] = [
        (
            &["add", "--index", "index", "--vectors", "other"],
            1,
            "of model cdcdcdcdcdcd…, the index of model abababababab…",
        ),
        (&["add", "--index", "index", "--vectors", "short"], 1, "has 15 numbers, expected 16"),
        (&["add", "--index", "nowhere", "--vectors", "good"], 1, "nowhere is not an index"),
        (&["add", "--index", "index"], 2, "--vectors"),
        (&["add", "--index", "index", "--passages", "x.tsv"], 2, "--model"),
        (
            &["delete", "--index", "index", "p1", "nobody"],
            1,
            "no passage has the id `nobody`: nothing was deleted",
        ),
        (&["delete", "--index", "index", "--ids", "ids.txt"], 1, "no passage has the id `nobody`"),
        (&["delete", "--index", "index"], 2, "ID"),
    ];
    for (arguments, status, says) in cases {
        let (code, _, errors) = dpr(arguments);
        assert_eq!(code, Some(status), "{arguments:?}: {errors}");
        assert!(errors.contains(says), "{arguments:?}: {errors}");
    }
    assert_eq!(Follower::open(&dir).unwrap().live().snapshot().changes(), 0);
    let (_, said, _) = dpr(&["add", "--index", "index", "--vectors", "good", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["added"], &said["replaced"], &said["changes"]), (&0.into(), &3.into(), &3.into()));
    fs_err::write(root.path().join("ids.txt"), "p1\np5\n").unwrap();
    let (_, said, _) = dpr(&["delete", "--index", "index", "--ids", "ids.txt"]);
    assert!(said.contains("2 passages deleted; 28 passages, 5 changes since it was built"), "{said}");
    let (_, said, _) = dpr(&["verify", "--index", "index"]);
    assert!(said.contains("5 changes since: all as they were written"), "{said}");
    let (_, said, _) = dpr(&["compact", "--index", "index"]);
    assert!(said.contains("v-2 of 28 passages"), "{said}");
    let (_, said, _) = dpr(&["compact", "--index", "index"]);
    assert!(said.contains("nothing changed since it was built"), "{said}");
}

/// The log of the version in use.
fn log(dir: &Path) -> PathBuf {
    dir.join(format!("updates-{}.log", IndexDir::new(dir).current_version().unwrap()))
}

#[test]
fn each_of_500_damages_to_the_log_is_found_and_an_unfinished_write_is_none() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    build(&dir, 40, IndexKind::Exact);
    let updater = Updater::open(&dir, "a test").unwrap();
    for i in 0..20 {
        updater.put(vec![new(&format!("n{i}"), &[i as f32 + 0.5; DIM])]).unwrap();
        updater.delete(vec![format!("p{i}")]).unwrap();
    }
    let expected = live(&updater.live().snapshot());
    drop(updater);
    let log = log(&dir);
    let whole = fs_err::read(&log).unwrap();
    let mut random = SplitMix::new(11);
    for number in 0..500 {
        let mut bytes = whole.clone();
        if number % 4 == 0 {
            bytes.truncate(random.below(bytes.len()));
        } else {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        fs_err::write(&log, &bytes).unwrap();
        let error = Follower::open(&dir).map(drop).expect_err("it is served");
        assert!(error.to_string().contains("updates-1.log"), "{number}: {error}");
        if number % 10 == 0 {
            assert_eq!(verify(&dir).unwrap().problems.len(), 1);
        }
    }
    // What a killed writer left beyond what it acknowledged.
    let frame = 1536..1536 + 16 + u32::from_le_bytes(whole[1536..1540].try_into().unwrap()) as usize;
    for tail in [vec![7], vec![0; 100], whole[1536..1600].to_vec(), whole[frame].to_vec()] {
        fs_err::write(&log, [&whole[..], &tail].concat()).unwrap();
        assert_eq!(live(&Follower::open(&dir).unwrap().live().snapshot()), expected);
        let updater = Updater::open(&dir, "a test").unwrap();
        assert_eq!(live(&updater.live().snapshot()), expected);
        drop(updater);
        assert_eq!(fs_err::metadata(&log).unwrap().len(), whole.len() as u64, "it is cut off");
        fs_err::write(&log, &whole).unwrap();
    }
    // A commit mark that was torn: readers say so, a writer repairs it, and nothing is lost.
    for mark in [512, 1024] {
        let mut bytes = whole.clone();
        bytes[mark] ^= 1;
        fs_err::write(&log, bytes).unwrap();
        assert!(matches!(Follower::open(&dir), Err(IndexError::CommitMark { .. })));
        drop(Updater::open(&dir, "a test").unwrap());
        assert_eq!(live(&Follower::open(&dir).unwrap().live().snapshot()), expected);
        fs_err::write(&log, &whole).unwrap();
    }
    fs_err::remove_file(&log).unwrap();
    assert!(matches!(Follower::open(&dir), Err(IndexError::MissingFile { .. })));
    assert!(matches!(LoadedIndex::open(&dir), Err(IndexError::MissingFile { .. })));
    assert!(matches!(Updater::open(&dir, "a test"), Err(IndexError::MissingFile { .. })));

    let other = root.path().join("other");
    build(&other, 41, IndexKind::Exact);
    drop(Updater::open(&other, "a test").unwrap());
    fs_err::copy(other.join("updates-1.log"), &log).unwrap();
    assert!(matches!(Follower::open(&dir), Err(IndexError::OtherLog { .. })));
}

/// Passages by their texts, each with the moment after which nobody may find it.
#[derive(Default)]
struct Gone(RwLock<Vec<String>>);

#[test]
fn while_a_tenth_is_replaced_eight_clients_find_what_is_there_and_nothing_that_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let (count, dim) = (4000, 32);
    let mut corpus = set(clusters(count, dim, 1), dim);
    corpus.passages.iter_mut().for_each(|passage| passage.text = format!("{} as built", passage.id));
    let options =
        IndexOptions { kind: IndexKind::Hnsw, hnsw: HnswParams::default(), ..IndexOptions::default() };
    build_index(&corpus, root.path(), &options, &Silent).unwrap();
    let updater = Updater::open(root.path(), "a test").unwrap();
    let (gone, stop) = (Gone::default(), AtomicBool::new(false));
    let fresh = clusters(count / 10, dim, 2);
    let totals = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8)
            .map(|client| {
                let (updater, gone, stop) = (&updater, &gone, &stop);
                let questions = clusters(200, dim, 10 + client);
                scope.spawn(move || {
                    let (mut searches, mut found, mut all) = (0, 0, 0);
                    while !stop.load(Ordering::Relaxed) || searches < 20 {
                        let question = embedding(&questions[searches % 200 * dim..][..dim]);
                        let gone_before = gone.0.read().unwrap().len();
                        let snapshot = updater.live().snapshot();
                        let hits = snapshot.search(&question, 20).unwrap();
                        assert_eq!(hits.len(), 20);
                        {
                            let gone = gone.0.read().unwrap();
                            for hit in &hits {
                                let text = &snapshot.passage(hit.row).text;
                                assert!(!gone[..gone_before].contains(text), "{text} was found");
                            }
                        }
                        searches += 1;
                        let truth = best(&snapshot, &question, 20);
                        let least = truth[truth.len() - 1];
                        found += hits.iter().filter(|hit| hit.score >= least).count();
                        all += truth.len();
                    }
                    (searches, found, all)
                })
            })
            .collect();
        // A tenth of the corpus: half of it under the ids that were there, half deleted and added under others.
        for (batch, rows) in fresh.chunks(10 * dim).enumerate() {
            let passage = |i: usize| {
                let number = batch * 10 + i;
                let id = if i < 5 { format!("p{}", number * 10) } else { format!("q{number}") };
                let text = format!("{id} fresh");
                NewPassage {
                    passage: Passage { id, title: String::new(), text },
                    vector: embedding(&rows[i * dim..][..dim]),
                }
            };
            let ids: Vec<String> = (0..10).map(|i| format!("p{}", (batch * 10 + i) * 10)).collect();
            updater.put((0..10).map(passage).collect()).unwrap();
            updater.delete(ids[5..].to_vec()).unwrap();
            gone.0.write().unwrap().extend(ids.iter().map(|id| format!("{id} as built")));
            if batch == 20 {
                compact(&updater);
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        clients
            .into_iter()
            .map(|client| client.join().unwrap())
            .fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2))
    });
    let recall = totals.1 as f64 / totals.2 as f64;
    println!("{} searches, recall@20 {recall:.4}", totals.0);
    assert!(recall >= 0.98, "recall@20 {recall}");
    let snapshot = updater.live().snapshot();
    assert_eq!((snapshot.len(), gone.0.read().unwrap().len()), (count, count / 10));
}

/// The best `k` scores by comparing every vector, greatest first.
fn best(snapshot: &Snapshot, question: &Embedding, k: usize) -> Vec<f32> {
    let score = |vector: &[f32]| dpr_core::kernel::scan::inner_product(question.as_slice(), vector);
    let mut scores: Vec<f32> = snapshot.passages().map(|(_, vector)| score(vector)).collect();
    scores.sort_unstable_by(|a, b| b.total_cmp(a));
    scores.truncate(k);
    scores
}

#[test]
fn writers_on_many_threads_each_get_their_own_answer() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 100, IndexKind::Exact);
    let updater = Updater::open(root.path(), "a test").unwrap();
    let done = AtomicBool::new(false);
    let versions = std::thread::scope(|scope| {
        // New versions are put in use all the while.
        let compacting = scope.spawn(|| {
            let mut versions = 0;
            while !done.load(Ordering::Relaxed) {
                versions += usize::from(updater.compact(1, &Arc::default(), &Silent).unwrap().is_some());
            }
            versions
        });
        let writers = (0..8).map(|thread| {
            let updater = &updater;
            scope.spawn(move || {
                for i in 0..25 {
                    let id = format!("t{thread}-{i}");
                    let put = updater.put(vec![new(&id, &[0.5; DIM])]).unwrap();
                    assert_eq!(put, Put { added: 1, replaced: 0 });
                    let snapshot = updater.live().snapshot();
                    assert!(
                        snapshot.passages().any(|(passage, _)| passage.id == id),
                        "acknowledged, so there"
                    );
                    // All threads delete the same passages: one of them does, the others are told.
                    let _ = updater.delete(vec![format!("p{i}")]);
                    updater.delete(vec![format!("p{i}")]).unwrap_err();
                }
            })
        });
        let ended: Vec<_> = writers.collect::<Vec<_>>().into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(Result::unwrap);
        compacting.join().unwrap()
    });
    assert!(versions > 0);
    assert_eq!(updater.live().snapshot().len(), 100 - 25 + 200);
    let expected = live(&updater.live().snapshot());
    assert_eq!(live(&Follower::open(root.path()).unwrap().live().snapshot()), expected);
}
