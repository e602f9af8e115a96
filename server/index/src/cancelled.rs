//! Tests that every way to search stops at each of its looks at the token.

use std::path::Path;
use std::sync::Arc;

use dpr_core::Embedding;
use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_files::progress::Silent;

use crate::search::{Backend as _, Filter, SearchError, Searcher};
use crate::sparse::SparseOptions;
use crate::vectors::VectorSet;
use crate::{
    CancelToken, HnswParams, IndexKind, IndexOptions, IndexReader, IndexWriter, NewPassage, RowSet, Snapshot,
    Stopped, Storage, VectorIndex as _, build_index,
};

const DIM: usize = 256;
const ROWS: usize = 2000;

fn vector(random: &mut SplitMix) -> Vec<f32> {
    (0..DIM).map(|_| random.normal() as f32).collect()
}

fn passage(row: usize) -> Passage {
    Passage::new(format!("p{row}"), "", format!("Number {} of many.", row % 7))
}

/// Builds an index of random vectors in `dir`, and opens it.
fn snapshot(dir: &Path, kind: IndexKind, storage: Storage, sparse: Option<SparseOptions>) -> Arc<Snapshot> {
    let mut random = SplitMix::new(5);
    let rows: Vec<f32> = (0..ROWS).flat_map(|_| vector(&mut random)).collect();
    let set = VectorSet::new("ab".repeat(32), DIM, (0..ROWS).map(passage).collect(), rows);
    let hnsw = HnswParams { m: 4, ef_construction: 8, ef_search: 400 };
    build_index(&set, dir, &IndexOptions { kind, storage, hnsw, sparse, ..IndexOptions::default() }, &Silent)
        .unwrap();
    IndexReader::open(dir).unwrap().snapshot()
}

fn queries(count: usize) -> Vec<Embedding> {
    let mut random = SplitMix::new(6);
    (0..count).map(|_| Embedding::new(vector(&mut random), DIM).unwrap()).collect()
}

/// Runs a search to its end, which looks at the token `least` times or more, and then once for each of these looks, at
/// which it is cancelled.
fn stops<T>(least: usize, search: impl Fn(&CancelToken) -> Result<T, SearchError>) {
    let whole = CancelToken::new();
    assert!(search(&whole).is_ok());
    assert!(whole.looks() >= least, "it looks {} times", whole.looks());
    for look in 1..=whole.looks() {
        let cancel = CancelToken::at_look(look);
        let stopped = search(&cancel).map(drop);
        assert!(matches!(stopped, Err(SearchError::Stopped(Stopped::Cancelled))), "{look}: {stopped:?}");
    }
}

#[test]
fn searches_by_vectors_stop_whatever_the_index() {
    let queries = queries(3);
    let kinds = [
        (IndexKind::Exact, Storage::F32),
        (IndexKind::Exact, Storage::Int8),
        (IndexKind::Exact, Storage::F16),
        (IndexKind::Exact, Storage::Binary),
        (IndexKind::Hnsw, Storage::F32),
    ];
    for (kind, storage) in kinds {
        let dir = tempfile::tempdir().unwrap();
        let searcher = Searcher::of(snapshot(dir.path(), kind, storage, None));
        stops(4, |cancel| searcher.search_batch_until(&queries[..1], 10, None, cancel));
        stops(4, |cancel| searcher.search_batch_until(&queries, 10, None, cancel));
        let mut allowed = RowSet::all(ROWS);
        allowed.remove(7);
        stops(3, |cancel| Ok(searcher.snapshot().search_until(&queries[0], 10, Some(&allowed), cancel)?));
        let filter = Filter { ids: ["p3".to_owned()].into(), ..Filter::default() };
        stops(2, |cancel| searcher.search_batch_until(&queries, 10, Some(&filter), cancel));
    }
}

#[test]
fn searches_of_added_passages_stop() {
    let dir = tempfile::tempdir().unwrap();
    drop(snapshot(dir.path(), IndexKind::Exact, Storage::F32, None));
    let writer = IndexWriter::open(dir.path(), "a test").unwrap();
    let vectors = queries(3000);
    let new = |(row, vector): (usize, &Embedding)| {
        let passage = Passage { id: format!("n{row}"), ..passage(row) };
        NewPassage { passage, vector: vector.clone() }
    };
    writer.put(vectors.iter().enumerate().map(new).collect()).unwrap();
    stops(6, |cancel| writer.live().search_until(&vectors[..1], 10, None, cancel));
}

#[test]
fn filters_of_ids_titles_and_added_passages_stop() {
    let dir = tempfile::tempdir().unwrap();
    drop(snapshot(dir.path(), IndexKind::Exact, Storage::F32, None));
    let writer = IndexWriter::open(dir.path(), "a test").unwrap();
    let vector = &queries(1)[0];
    let new = |row: usize| {
        let passage = Passage { id: format!("n{row}"), ..passage(row) };
        NewPassage { passage, vector: vector.clone() }
    };
    writer.put((0..3000).map(new).collect()).unwrap();
    let snapshot = writer.live().snapshot();
    let ids = Filter { ids: (0..1000).map(|row| format!("p{row}")).collect(), ..Filter::default() };
    let titles = Filter { titles: [String::new()].into(), ..Filter::default() };
    // A look for each 256 ids and added passages. Titles are read once.
    titles.rows(&snapshot).unwrap();
    for (filter, least) in [(ids, 4 + 12), (titles, 2 + 12), (Filter::default(), 12)] {
        stops(least, |cancel| filter.rows_until(&snapshot, cancel));
    }
}

#[cfg(feature = "sparse")]
#[test]
fn searches_by_words_and_by_both_stop() {
    use crate::search::{Fusion, Method, Ranker};
    use crate::sparse::{Analyzer, Scoring};
    let dir = tempfile::tempdir().unwrap();
    let sparse = Some(SparseOptions { analyzer: Analyzer::English, threads: 1 });
    let snapshot = snapshot(dir.path(), IndexKind::Exact, Storage::F32, sparse);
    let (queries, index) = (queries(1), snapshot.as_ref());
    let (words, vectors) = (Some(index as _), Some(index as _));
    let ranker = Ranker { words, vectors, allowed: None, bm25: Scoring::PAPER, depth: 20 };
    // The token is checked before each of the two terms is looked up, before the list of each is read, and for their
    // span.
    for (method, least) in [(Method::Bm25, 5), (Method::Tfidf, 5), (Method::Hybrid, 9)] {
        stops(least, |cancel| {
            ranker.rank_until(method, &["number of many"], &queries, 5, Fusion::PAPER, cancel)
        });
    }
    // Terms that no passage has are looked for all the same.
    let unknown: Vec<String> = (0..500).map(|at| format!("unknown{at}")).collect();
    let question: &str = &unknown.join(",");
    stops(500, |cancel| ranker.rank_until(Method::Bm25, &[question], &[], 5, Fusion::PAPER, cancel));

    // Two checks before the terms are looked up among the passages built in; then one for the question, and for each
    // term one before it is looked up again and one before its list among the added passages.
    let writer = IndexWriter::open(dir.path(), "a test").unwrap();
    let vector = queries[0].clone();
    let passage = Passage::new("n1", "", "unknown1 unknown2");
    writer.put(vec![NewPassage { passage, vector }]).unwrap();
    let snapshot = writer.live().snapshot();
    let ranker = Ranker { words: Some(&*snapshot as _), vectors: None, ..ranker };
    stops(2 + 1 + 2 + 2, |cancel| {
        ranker.rank_until(Method::Bm25, &["unknown1 unknown2"], &[], 5, Fusion::PAPER, cancel)
    });
}

#[test]
fn a_search_reads_no_more_passages_than_its_bytes_allow() {
    const BYTES: usize = 10_000;
    let dir = tempfile::tempdir().unwrap();
    let large = |row: usize| Passage::new(format!("{row:04}"), "", "x".repeat(BYTES - 4));
    let mut random = SplitMix::new(5);
    let rows: Vec<f32> = (0..200).flat_map(|_| vector(&mut random)).collect();
    let set = VectorSet::new("ab".repeat(32), DIM, (0..200).map(large).collect(), rows);
    build_index(&set, dir.path(), &IndexOptions::default(), &Silent).unwrap();
    let writer = IndexWriter::open(dir.path(), "a test").unwrap();
    let queries = queries(4);
    writer.put(vec![NewPassage { passage: large(200), vector: queries[0].clone() }]).unwrap();
    let filter = Filter { titles: [String::new()].into(), ..Filter::default() };
    for filter in [None, Some(&filter)] {
        let search = |max: usize| {
            let cancel = CancelToken::with_max_bytes(max);
            (writer.live().search_until(&queries, 50, filter, &cancel), cancel.found_bytes())
        };
        let (whole, found) = search(4 * 50 * BYTES);
        assert_eq!((whole.unwrap().len(), found), (4, 4 * 50 * BYTES));
        for max in [0, BYTES, 60 * BYTES + 1, 4 * 50 * BYTES - 1] {
            let (stopped, found) = search(max);
            let reason = Stopped::TooManyBytes { max };
            assert!(
                matches!(stopped, Err(SearchError::Stopped(stopped)) if stopped == reason),
                "{stopped:?}"
            );
            assert_eq!(found, (max / BYTES + 1) * BYTES, "one passage beyond {max}");
        }
    }
}

#[test]
fn the_cost_of_a_search_grows_with_what_it_reads() {
    let cost = |kind, storage, vectors, filter: Option<&Filter>| {
        let dir = tempfile::tempdir().unwrap();
        let live = crate::LiveIndex::new(snapshot(dir.path(), kind, storage, None));
        live.cost(vectors, 10, filter)
    };
    let all = (ROWS * DIM) as u64;
    let filter = Filter::default();
    assert_eq!(cost(IndexKind::Exact, Storage::F32, 1, None), all);
    assert_eq!(cost(IndexKind::Exact, Storage::Int8, 3, None), 3 * all / 4);
    assert_eq!(cost(IndexKind::Exact, Storage::F32, 3, Some(&filter)), 3 * all);
    let batch = cost(IndexKind::Exact, Storage::F32, 64, None);
    assert!(batch > all && batch < 64 * all, "a matrix product reads rows once for many: {batch}");
    let graph = cost(IndexKind::Hnsw, Storage::F32, 1, None);
    assert!(graph > 0 && graph < all, "{graph}");
}
