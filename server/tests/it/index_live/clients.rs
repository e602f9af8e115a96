//! Many readers and writers at once.

use super::*;

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
    let updater = IndexWriter::open(root.path(), "a test").unwrap();
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
                                let text = snapshot.passage(hit.row).unwrap().text;
                                assert!(!gone[..gone_before].contains(&text), "{text} was found");
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
                NewPassage { passage: Passage::new(id, "", text), vector: embedding(&rows[i * dim..][..dim]) }
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
    let score = |vector: &[f32]| dpr_core::kernel::search::f32::inner_product(question.as_slice(), vector);
    let mut scores: Vec<f32> = snapshot.passages().map(|live| score(live.unwrap().1)).collect();
    scores.sort_unstable_by(|a, b| b.total_cmp(a));
    scores.truncate(k);
    scores
}

#[test]
fn writers_on_many_threads_each_get_their_own_answer() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), 100, IndexKind::Exact);
    let updater = IndexWriter::open(root.path(), "a test").unwrap();
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
                        snapshot.passages().any(|live| live.unwrap().0.id == id),
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
    assert_eq!(live(&IndexReader::open(root.path()).unwrap().live().snapshot()), expected);
}
