//! What is refused, and changes nothing.

use super::*;

#[test]
fn what_cannot_be_changed_is_refused_and_nothing_of_it_is_done() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 50, IndexKind::Exact);
    let updater = IndexWriter::open(root.path(), "a test").unwrap();
    let good = vec![0.5; DIM];
    for values in [vec![0.0; DIM], vec![f32::NAN; DIM]] {
        // A vector that nothing can be found by is no `Embedding`.
        assert!(matches!(
            Embedding::new(values, DIM),
            Err(EmbeddingError::Zero | EmbeddingError::NotFinite { .. })
        ));
    }
    let blank = |id: &str, text: &str| {
        let passage = Passage::new(id, "", text);
        NewPassage { passage, vector: embedding(&good) }
    };
    let puts = [
        (vec![], "nothing to do"),
        (
            vec![new("a", &good), new("b", &good[1..])],
            "the passage `b`: the vector has 15 numbers, expected 16",
        ),
        (
            vec![new("z", &good), new("a", &[1e30; DIM])],
            "the vector of passage `a` has norm 4.00e30, must have 6.52e18 at most",
        ),
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
    assert!(matches!(snapshot.search(&question, 0), Err(QueryError::K)));
    assert!(matches!(snapshot.search(&embedding(&good[1..]), 1), Err(QueryError::Dimension { .. })));
    assert_eq!(snapshot.search(&question, 10_000).unwrap().len(), 50, "k above the count gives all");
    updater.delete(vec!["p1".into()]).unwrap();
    let message = updater.delete(vec!["p1".into()]).unwrap_err().to_string();
    assert!(message.contains("no passage has the id `p1`"), "deleted before: {message}");
}

#[test]
fn a_second_writer_is_told_who_the_first_is() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 20, IndexKind::Exact);
    let updater = IndexWriter::open(root.path(), "a server").unwrap();
    let second = [
        IndexWriter::open(root.path(), "another").map(drop).map_err(BuildError::from),
        build_index(&set(random_rows(5, DIM), DIM), root.path(), &IndexOptions::default(), &Silent).map(drop),
        copy_index(root.path(), root.path()).map(drop),
    ];
    let is_busy = |error: &FileError| matches!(error, FileError::Busy { .. });
    for error in second.map(Result::unwrap_err) {
        assert!(
            matches!(&error, BuildError::File(error) | BuildError::Open(OpenError::File(error)) if is_busy(error)),
            "{error}"
        );
        assert!(error.to_string().contains("a server (process "), "{error}");
    }
    drop(updater);
    IndexWriter::open(root.path(), "another").unwrap();
    let none = IndexWriter::open(&root.path().join("none"), "x").unwrap_err();
    assert!(matches!(none, OpenError::NotAnIndex { .. }), "{none}");
    assert!(!root.path().join("none").exists());
}

#[test]
fn who_does_not_look_at_updates_refuses_an_index_that_has_some() {
    let root = tempfile::tempdir().unwrap();
    let sparse = Some(SparseOptions { analyzer: Analyzer::English, threads: 1 });
    let options = IndexOptions { sparse, ..IndexOptions::default() };
    build_index(&set(random_rows(30, DIM), DIM), root.path(), &options, &Silent).unwrap();
    let updater = IndexWriter::open(root.path(), "a test").unwrap();
    assert!(LoadedIndex::open(root.path()).is_ok() && LoadedSparse::open(root.path()).is_ok());
    updater.delete(vec!["p3".into(), "p4".into()]).unwrap();
    for error in [
        LoadedIndex::open(root.path()).map(drop).unwrap_err(),
        LoadedSparse::open(root.path()).map(drop).unwrap_err(),
    ] {
        assert!(matches!(error, OpenError::HasUpdates { changes: 2, .. }), "{error}");
        assert!(dpr::cli::one_line(&error).contains("dpr index compact --index"), "{error}");
    }
    compact(&updater);
    assert_eq!(LoadedIndex::open(root.path()).unwrap().passages().len(), 28);
    assert_eq!(LoadedSparse::open(root.path()).unwrap().passages.len(), 28, "words are built anew too");
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
    let blank = r#"{"_id": "b", "title": "T", "text": " "}"#;
    let lines = "{\"_id\": \"a\", \"title\": \"T\", \"text\": \"A text.\"}\n".to_owned() + blank + "\n";
    fs_err::write(root.path().join("blank.jsonl"), lines).unwrap();
    let dpr = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dpr"));
        command.args(["index"]).args(arguments).current_dir(root.path()).env_remove("DPR_INDEX");
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    };
    let options = SparseOptions { analyzer: Analyzer::English, threads: 1 };
    let (words, passages) = (root.path().join("words"), set(random_rows(5, DIM), DIM).passages);
    build_sparse_index(&passages, &words, options, &Arc::default(), &Silent).unwrap();
    // The last passage is in the second batch.
    let passage =
        |id: usize, text: &str| format!("{{\"_id\": \"{id}\", \"title\": \"T\", \"text\": \"{text}\"}}\n");
    let mut lines: String = (0..1100).map(|id| passage(id, "A text.")).collect();
    lines.push_str(&passage(1100, &"words".repeat(220_000)));
    fs_err::write(root.path().join("long.jsonl"), lines).unwrap();
    let mut long = set(random_rows(1101, DIM), DIM);
    long.passages[1100].text = "words".repeat(220_000);
    write_vectors(&root.path().join("long-text"), &long);
    let cases: [(&[&str], i32, &str); 13] = [
        (
            &["add", "--index", "words", "--vectors", "good"],
            1,
            "words is of words alone, and such an index cannot be",
        ),
        (
            &["delete", "--index", "words", "p1"],
            1,
            "words alone, and such an index cannot be changed: build it again",
        ),
        (
            &["add", "--index", "index", "--vectors", "other"],
            1,
            "of model cdcdcdcdcdcd… (16 dims), the index of model abababababab… (16 dims)",
        ),
        (&["add", "--index", "index", "--vectors", "short"], 1, "has 15 numbers, expected 16"),
        (&["add", "--index", "nowhere", "--vectors", "good"], 1, "nowhere is not an index"),
        (&["add", "--index", "index"], 2, "--vectors"),
        (&["add", "--index", "index", "--passages", "x.tsv"], 2, "--model"),
        (
            &["add", "--index", "index", "--passages", "blank.jsonl", "--model", "none"],
            1,
            "blank.jsonl: passage `b`, number 2 of the file, has a blank text",
        ),
        (
            &["add", "--index", "index", "--passages", "long.jsonl", "--model", "none"],
            1,
            "the passage `1100` has a text of 1100000 bytes, an index takes 1048576 at most",
        ),
        (
            &["add", "--index", "index", "--vectors", "long-text"],
            1,
            "split it into passages; nothing was added",
        ),
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
    assert_eq!(IndexReader::open(&dir).unwrap().live().snapshot().changes(), 0);
    // The first batch is in before the second is refused.
    let mut rows = random_rows(1001, DIM);
    rows[1000 * DIM..].fill(1e30);
    write_vectors(&root.path().join("long"), &set(rows, DIM));
    build(&root.path().join("other-index"), 30, IndexKind::Exact);
    let (code, _, errors) = dpr(&["add", "--index", "other-index", "--vectors", "long"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("the first 1000 passages are in the index"), "{errors}");
    assert!(errors.contains("inner products overflow"), "{errors}");
    let (_, said, _) = dpr(&["add", "--index", "index", "--vectors", "good", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&said["added"], &said["replaced"], &said["changes"]), (&0.into(), &3.into(), &3.into()));
    fs_err::write(root.path().join("ids.txt"), "\u{feff}p1\r\np5\np1\n").unwrap();
    let (_, said, _) = dpr(&["delete", "--index", "index", "--ids", "ids.txt"]);
    assert!(said.contains("2 passages deleted; 28 passages, 5 changes since it was built"), "{said}");
    let (_, said, _) = dpr(&["verify", "--index", "index"]);
    assert!(said.contains("5 changes since: all as they were written"), "{said}");
    let (_, said, _) = dpr(&["compact", "--index", "index"]);
    assert!(said.contains("v-2 of 28 passages"), "{said}");
    let (_, said, _) = dpr(&["compact", "--index", "index"]);
    assert!(said.contains("nothing changed since it was built"), "{said}");
}
