//! What is found: by vectors, with filters, by words.

use super::*;

#[test]
fn searches_find_what_is_live_and_so_do_a_follower_a_restart_and_a_new_version() {
    for (kind, least) in [(IndexKind::Exact, 1.0), (IndexKind::Hnsw, 0.95)] {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 900, kind);
        let follower = IndexReader::open(root.path()).unwrap();
        let mut updater = IndexWriter::open(root.path(), "a test").unwrap();
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
                    updater = IndexWriter::open(root.path(), "a test").unwrap();
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
        let updater = IndexWriter::open(root.path(), "a test").unwrap();
        updater.put(vec![new("a", &[0.5; DIM]), new("p7", &[0.25; DIM]), new("b", &[0.5; DIM])]).unwrap();
        updater.delete(vec!["b".into(), "p8".into()]).unwrap();
        let searcher = Searcher::of(updater.live().snapshot());
        let find = |ids: &[&str]| {
            let filter = Filter { ids: ids.iter().map(ToString::to_string).collect(), ..Filter::default() };
            let mut found: Vec<_> = searcher
                .search_batch(&[embedding(&[1.0; DIM])], 10, Some(&filter))
                .map(|hits| hits.into_iter().flatten().map(|hit| (hit.id, hit.text)).collect())
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
    let updater = IndexWriter::open(root.path(), "a test").unwrap();
    let words = |question: &str, k: usize, scoring: Scoring| -> Vec<(String, f32)> {
        let snapshot = updater.live().snapshot();
        let found = WordIndex::search_batch(snapshot.as_ref(), &[question], k, scoring).unwrap().remove(0);
        found.into_iter().map(|hit| (snapshot.passage(hit.row).unwrap().id, hit.score)).collect()
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
        assert_eq!(words("purring cats with milk", usize::MAX, scoring).len(), 82, "no k is too large");
        assert_eq!(words("zebra", 5, scoring)[0].0, "zebra");
        assert_eq!(words("zebra milk", 5, scoring)[0].0, "zebra", "a rare word weighs more");
    }
    let best = words("purring milk", 3, Scoring::PAPER);
    let gone: Vec<String> = best.iter().map(|(id, _)| id.clone()).collect();
    updater.delete(gone.clone()).unwrap();
    for k in [1, 3, 100] {
        let found = words("purring milk", k, Scoring::PAPER);
        assert!(found.iter().all(|(id, _)| !gone.contains(id)), "{found:?}");
        assert!(k == 100 || found.len() == k, "{k}: {found:?}");
    }
    let before: Vec<String> = words("zebra", 5, Scoring::PAPER).into_iter().map(|hit| hit.0).collect();
    compact(&updater);
    let after: Vec<String> = words("zebra", 5, Scoring::PAPER).into_iter().map(|hit| hit.0).collect();
    assert_eq!((before.as_slice(), after.as_slice()), (&["zebra".to_owned()][..], &["zebra".to_owned()][..]));
}
