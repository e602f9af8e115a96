//! Ranking among some passages against ranking all and leaving out the others, while an index changes.

use std::path::Path;
use std::sync::Arc;

use dpr_core::random::SplitMix;
use dpr_data::{Metadata, Passage};
use dpr_files::progress::Silent;

use super::*;
use crate::search::{Filter, HYBRID_DEPTH};
use crate::sparse::{Analyzer, SparseOptions};
use crate::vectors::VectorSet;
use crate::{
    IndexOptions, IndexWriter, LoadedIndex, LoadedSparse, NewPassage, Snapshot, build_index,
    build_sparse_index,
};

const DIM: usize = 8;
const ROWS: usize = 1200;

/// A word, the first ones more often.
fn word(random: &mut SplitMix) -> String {
    let (a, b) = (random.below(40), random.below(40));
    format!("word{}", a.min(b))
}

fn passage(number: usize, random: &mut SplitMix) -> Passage {
    let text: Vec<String> = (0..4 + random.below(12)).map(|_| word(random)).collect();
    let mut metadata = Metadata::new([("group", (number % 100) as i32)]).unwrap();
    metadata.insert("is_even".to_owned(), number.is_multiple_of(2).into()).unwrap();
    Passage::new(format!("p{number}"), format!("Title {}", number % 7), text.join(" "))
        .with_metadata(metadata)
}

fn vector(random: &mut SplitMix) -> Vec<f32> {
    (0..DIM).map(|_| random.normal() as f32).collect()
}

fn embedding(random: &mut SplitMix) -> Embedding {
    Embedding::new(vector(random), DIM).unwrap()
}

/// Filters that allow half of the passages, a tenth, a hundredth, a few, one.
fn filters() -> Vec<Filter> {
    let of = |condition: &str| Filter {
        condition: Some(serde_json::from_str(condition).unwrap()),
        ..Filter::default()
    };
    let ids =
        |ids: &[&str]| Filter { ids: ids.iter().map(|id| (*id).to_owned()).collect(), ..Filter::default() };
    vec![
        of(r#"{"field":"is_even","eq":true}"#),
        of(r#"{"field":"group","lt":10}"#),
        of(r#"{"field":"group","eq":17}"#),
        Filter { titles: ["Title 3".to_owned()].into(), ..of(r#"{"not":{"field":"group","gt":50}}"#) },
        ids(&["p3", "p70", "p71", "p900", "p1250", "p99999"]),
        ids(&["p5"]),
    ]
}

fn without_others(mut rows: Vec<ScoredRow>, allowed: &RowSet, k: usize) -> Vec<ScoredRow> {
    rows.retain(|found| allowed.contains(found.row));
    rows.truncate(k);
    rows
}

/// Compares all methods with ranking everything and leaving out what a filter does not allow.
fn check(snapshot: &Snapshot) {
    let mut random = SplitMix::new(77);
    let questions: Vec<String> = (0..12)
        .map(|_| (0..1 + random.below(5)).map(|_| word(&mut random)).collect::<Vec<_>>().join(" "))
        .chain(["no such terms".to_owned()])
        .collect();
    let questions: Vec<&str> = questions.iter().map(String::as_str).collect();
    let vectors: Vec<Embedding> = questions.iter().map(|_| embedding(&mut random)).collect();
    let (words, dense) = (Some(snapshot as &dyn WordIndex), Some(snapshot as &dyn VectorIndex));
    let whole = Ranker { words, vectors: dense, allowed: None, bm25: Scoring::PAPER, depth: HYBRID_DEPTH };
    let all = |method| whole.rank(method, &questions, &vectors, snapshot.rows(), Fusion::PAPER).unwrap();
    let (by_bm25, by_tfidf, by_vectors) = (all(Method::Bm25), all(Method::Tfidf), all(Method::Dense));
    for filter in filters() {
        let allowed = filter.rows(snapshot).unwrap();
        for k in [1, 10, 200, 5000] {
            for (method, lists) in
                [(Method::Bm25, &by_bm25), (Method::Tfidf, &by_tfidf), (Method::Dense, &by_vectors)]
            {
                let ranker = Ranker { allowed: Some(&allowed), ..whole };
                let found = ranker.rank(method, &questions, &vectors, k, Fusion::PAPER).unwrap();
                let expected: Vec<_> =
                    lists.iter().map(|rows| without_others(rows.clone(), &allowed, k)).collect();
                assert_eq!(found, expected, "{} of {k} by {filter:?}", method.name());
            }
            for (depth, fusion) in [(HYBRID_DEPTH, Fusion::PAPER), (50, Fusion::RECIPROCAL)] {
                let ranker = Ranker { allowed: Some(&allowed), depth, ..whole };
                let found = ranker.rank(Method::Hybrid, &questions, &vectors, k, fusion).unwrap();
                // Lists as long as what is asked for, at least.
                let depth = depth.max(k);
                let expected = by_bm25.iter().zip(&by_vectors).map(|(sparse, dense)| {
                    let [sparse, dense] =
                        [sparse, dense].map(|rows| without_others(rows.clone(), &allowed, depth));
                    fuse(&sparse, &dense, fusion, depth, k)
                });
                assert_eq!(found, expected.collect::<Vec<_>>(), "hybrid of {k} by {filter:?}");
            }
        }
    }
    let ranker = Ranker { allowed: Some(&RowSet::none(snapshot.rows())), ..whole };
    for method in [Method::Bm25, Method::Tfidf, Method::Dense, Method::Hybrid] {
        let found = ranker.rank(method, &questions, &vectors, 10, Fusion::PAPER).unwrap();
        assert!(found.iter().all(Vec::is_empty), "{}", method.name());
    }
}

#[test]
fn every_method_ranks_among_the_allowed_passages_as_if_the_others_were_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = SplitMix::new(3);
    let passages: Vec<Passage> = (0..ROWS).map(|number| passage(number, &mut random)).collect();
    let rows: Vec<f32> = (0..ROWS).flat_map(|_| vector(&mut random)).collect();
    let set = VectorSet::new("ab".repeat(32), DIM, passages, rows);
    let sparse = SparseOptions { analyzer: Analyzer::English, threads: 3 };
    let options = IndexOptions { sparse: Some(sparse), ..IndexOptions::default() };
    build_index(&set, dir.path(), &options, &Silent).unwrap();
    let writer = IndexWriter::open(dir.path(), "a test").unwrap();
    check(&writer.live().snapshot());

    // Replaced passages, new ones, and some of either that are deleted.
    let numbers = (0..60).map(|at| at * 17 + 3).chain(ROWS..ROWS + 80);
    let new = numbers.map(|number| {
        let passage = passage(number, &mut random);
        NewPassage { passage, vector: embedding(&mut random) }
    });
    writer.put(new.collect()).unwrap();
    writer.delete(["p4", "p5", "p20", "p71", "p1201"].map(String::from).into()).unwrap();
    check(&writer.live().snapshot());
}

#[test]
fn an_index_of_words_alone_is_filtered_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = SplitMix::new(4);
    let passages: Vec<Passage> = (0..300).map(|number| passage(number, &mut random)).collect();
    let sparse = SparseOptions { analyzer: Analyzer::English, threads: 1 };
    build_sparse_index(&passages, dir.path(), sparse, &Arc::default(), &Silent).unwrap();
    let loaded = LoadedSparse::open(dir.path()).unwrap();
    let question = &["word1 word2"];
    let all = loaded.index.search_batch(question, 300, Scoring::PAPER).unwrap().remove(0);
    assert!(all.len() > 20);
    for filter in filters() {
        let allowed = filter.built_rows(&loaded.passages, &CancelToken::never()).unwrap();
        let expected = (0..300).filter(|row| filter.allows(&passages[*row]));
        assert_eq!(allowed.iter().collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{filter:?}");
        let ranker = Ranker {
            words: Some(&loaded.index),
            vectors: None,
            allowed: Some(&allowed),
            bm25: Scoring::PAPER,
            depth: HYBRID_DEPTH,
        };
        let found = ranker.rank(Method::Bm25, question, &[], 7, Fusion::PAPER).unwrap().remove(0);
        assert_eq!(found, without_others(all.clone(), &allowed, 7), "{filter:?}");
    }
}

/// Builds an index of [`ROWS`] passages with vectors and words in `dir`, and opens it.
fn built(dir: &Path, random: &mut SplitMix) -> Snapshot {
    let passages: Vec<Passage> = (0..ROWS).map(|number| passage(number, random)).collect();
    let rows: Vec<f32> = (0..ROWS).flat_map(|_| vector(random)).collect();
    let set = VectorSet::new("ab".repeat(32), DIM, passages, rows);
    let sparse = SparseOptions { analyzer: Analyzer::English, threads: 1 };
    let options = IndexOptions { sparse: Some(sparse), ..IndexOptions::default() };
    build_index(&set, dir, &options, &Silent).unwrap();
    Snapshot::of(LoadedIndex::open(dir).unwrap())
}

#[test]
fn hybrid_ranking_finds_as_many_as_are_asked_for_whatever_the_depth() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = SplitMix::new(5);
    let snapshot = built(dir.path(), &mut random);
    let (questions, vectors) = (["word1 word30", "no such terms"], [1, 2].map(|_| embedding(&mut random)));
    let (words, dense) = (Some(&snapshot as &dyn WordIndex), Some(&snapshot as &dyn VectorIndex));
    let ranker = |depth| Ranker { words, vectors: dense, allowed: None, bm25: Scoring::PAPER, depth };
    for fusion in [Fusion::PAPER, Fusion::RECIPROCAL] {
        let rank = |depth, k| ranker(depth).rank(Method::Hybrid, &questions, &vectors, k, fusion).unwrap();
        for (depth, k) in [(1, 3), (20, 21), (20, 400), (50, ROWS), (HYBRID_DEPTH, 2 * ROWS), (5, usize::MAX)]
        {
            let found = rank(depth, k);
            for (at, rows) in found.iter().enumerate() {
                assert_eq!(rows.len(), k.min(ROWS), "question {at}, depth {depth}, k {k}");
            }
            assert_eq!(found, rank(k, k), "as by lists of so many, depth {depth}, k {k}");
        }
        // Within the depth the lists are as long as it says.
        let (sparse, dense) = ranker(20).both(&questions, &vectors).unwrap();
        assert!(dense.iter().all(|rows| rows.len() == 20));
        for k in [1, 7, 20] {
            let expected =
                sparse.iter().zip(&dense).map(|(sparse, dense)| fuse(sparse, dense, fusion, 20, k));
            assert_eq!(rank(20, k), expected.collect::<Vec<_>>(), "{k}");
        }
    }
}

#[test]
fn no_method_ranks_for_a_k_of_0() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = SplitMix::new(6);
    let snapshot = built(dir.path(), &mut random);
    let (words, vectors) = (Some(&snapshot as &dyn WordIndex), Some(&snapshot as &dyn VectorIndex));
    let ranker = Ranker { words, vectors, allowed: None, bm25: Scoring::PAPER, depth: HYBRID_DEPTH };
    for method in [Method::Bm25, Method::Tfidf, Method::Dense, Method::Hybrid] {
        let found = ranker.rank(method, &["word1"], &[embedding(&mut random)], 0, Fusion::PAPER);
        assert!(matches!(found, Err(SearchError::Query(QueryError::K))), "{}: {found:?}", method.name());
    }
}
