//! BM25 and TF-IDF: scores against bm25s and scikit-learn, and the inverted index inside an index directory.

use crate::support::corpus;
use crate::support::files;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use corpus::{SQUAD, random_rows, set};
use dpr::cli::one_line;
use dpr_data::{Passage, read_passages};
use dpr_files::progress::Silent;
use dpr_index::sparse::{Analyzer, Scoring, SparseError, SparseIndex, SparseOptions, build_sparse};
use dpr_index::{
    BuildError, FileError, IndexDir, IndexOptions, IndexWriter, LoadedIndex, LoadedSparse, MatrixError,
    OpenError, ScoredRow, build_index, build_sparse_index,
};
use files::{gunzip, overwrite};
use serde::Deserialize;

const ENGLISH: SparseOptions = SparseOptions { analyzer: Analyzer::English, threads: 1 };

#[derive(Deserialize)]
struct Golden {
    questions: Vec<GoldenQuestion>,
}

#[derive(Deserialize)]
struct GoldenQuestion {
    question: String,
    terms: Vec<String>,
    bm25: Vec<(usize, f32)>,
    tfidf: Vec<(usize, f32)>,
}

fn golden() -> Golden {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/sparse/golden.json.gz");
    serde_json::from_str(&gunzip(Path::new(path))).unwrap()
}

fn passages(texts: &[&str]) -> Vec<Passage> {
    let passage = |(i, text): (usize, &&str)| Passage::new(format!("p{i}"), "", *text);
    texts.iter().enumerate().map(passage).collect()
}

fn build(passages: &[Passage], out: &Path, options: SparseOptions) -> LoadedSparse {
    build_sparse_index(passages, out, options, &Arc::default(), &Silent).unwrap();
    LoadedSparse::open(out).unwrap()
}

fn rows(hits: &[ScoredRow]) -> Vec<usize> {
    hits.iter().map(|hit| hit.row).collect()
}

#[test]
fn scores_are_those_of_bm25s_and_scikit_learn() {
    let root = tempfile::tempdir().unwrap();
    let loaded = build(&read_passages(Path::new(SQUAD)).unwrap(), root.path(), ENGLISH);
    let mut compared = 0;
    for golden in golden().questions {
        assert_eq!(Analyzer::English.terms(&golden.question), golden.terms, "{}", golden.question);
        for (scoring, expected) in [(Scoring::PAPER, &golden.bm25), (Scoring::TfIdf, &golden.tfidf)] {
            let hits = loaded.index.search(&golden.question, 20, scoring).unwrap();
            assert_eq!(hits.len(), expected.len(), "{}", golden.question);
            for (hit, (row, score)) in hits.iter().zip(expected) {
                assert!((hit.score - score).abs() < 1e-4, "{}: {hit:?} is not {score}", golden.question);
                // Where two scores differ by less than a rounding, either order is right.
                let tied =
                    expected.iter().any(|(other, near)| *other == hit.row && (near - score).abs() < 1e-5);
                let last = expected.last().is_some_and(|(_, least)| (hit.score - least).abs() < 1e-5);
                assert!(hit.row == *row || tied || last, "{}: row {} is not {row}", golden.question, hit.row);
                compared += 1;
            }
        }
    }
    assert!(compared > 8000, "{compared} pairs");
}

#[test]
fn every_hit_is_found_whatever_the_threads_and_segments() {
    // Enough passages for several windows of scores, and for every thread to write a segment.
    let corpus: Vec<Passage> = (0..40_000)
        .map(|i| {
            let text = format!("{} common {}", ["odd", "even"][usize::from(i % 2 == 0)], i % 1000);
            Passage::new(i.to_string(), format!("number {}", i % 7), text)
        })
        .collect();
    let root = tempfile::tempdir().unwrap();
    let one = build(&corpus, &root.path().join("one"), ENGLISH);
    let three = build(&corpus, &root.path().join("three"), SparseOptions { threads: 3, ..ENGLISH });
    for question in ["even 42", "common", "number 3 odd 777", "999"] {
        for scoring in [Scoring::PAPER, Scoring::TfIdf] {
            let (a, b) =
                (one.index.search(question, 100, scoring), three.index.search(question, 100, scoring));
            assert_eq!(a.unwrap(), b.unwrap(), "{question}");
        }
    }
    assert_eq!(
        rows(&one.index.search("999", 50, Scoring::PAPER).unwrap()),
        Vec::from_iter((999..40_000).step_by(1000))
    );
    assert_eq!(one.index.search("common", 50_000, Scoring::PAPER).unwrap().len(), 40_000);
    let batch = one.index.search_batch(&["999", "even 42"], 5, Scoring::PAPER).unwrap();
    assert_eq!(batch[1], one.index.search("even 42", 5, Scoring::PAPER).unwrap());
}

#[test]
fn k1_and_b_do_what_they_say() {
    let root = tempfile::tempdir().unwrap();
    let corpus = passages(&["cat cat cat and much else besides beyond", "cat", "dog"]);
    let index = build(&corpus, root.path(), ENGLISH).index;
    let with = |k1, b| rows(&index.search("cat", 3, Scoring::Bm25 { k1, b }).unwrap());
    assert_eq!(with(2.0, 0.0), [0, 1]); // repetition counts, length does not
    assert_eq!(with(0.0, 1.0), [0, 1]); // neither counts: equal, so by row
    assert_eq!(with(0.1, 1.0), [1, 0]); // length counts more than repetition
    // The greatest k1: what shares a word is found all the same.
    assert_eq!(with(Scoring::MAX_K1, 0.0), [0, 1]);
    assert_eq!(with(Scoring::MAX_K1, 1.0), [1, 0]);
    let above = [1_000_001.0, 1e38, f32::MAX, f32::INFINITY, f32::NAN].map(|k1| (k1, 0.4));
    for (k1, b) in above.into_iter().chain([(-1.0, 0.4), (0.9, 1.5), (0.9, f32::NAN)]) {
        let error = index.search("cat", 3, Scoring::Bm25 { k1, b }).unwrap_err();
        assert!(matches!(error, SparseError::Parameters { .. }), "{error}");
        assert!(error.to_string().contains("k1 must be between 0 and 1000000 and b"), "{error}");
    }
    assert!(matches!(index.search("cat", 0, Scoring::PAPER), Err(SparseError::K)));
}

#[test]
fn a_question_without_known_words_finds_nothing() {
    let root = tempfile::tempdir().unwrap();
    let index = build(&passages(&["a cat", "the"]), root.path(), ENGLISH).index;
    for question in ["", "the", "zebra", "?!"] {
        for scoring in [Scoring::PAPER, Scoring::TfIdf] {
            assert!(index.search(question, 5, scoring).unwrap().is_empty(), "{question}");
        }
    }
}

#[test]
fn korean_is_found_by_its_bigrams() {
    let root = tempfile::tempdir().unwrap();
    let corpus =
        passages(&["임종석은 1989년 2월 15일 여의도에서", "서울특별시의 한강", "東京都は日本の首都"]);
    let index = build(&corpus, root.path(), SparseOptions { analyzer: Analyzer::Bigram, threads: 1 }).index;
    for (question, row) in [("여의도 농민 폭력", 0), ("한강이 흐르는 서울", 1), ("日本の首都", 2)]
    {
        assert_eq!(index.search(question, 1, Scoring::PAPER).unwrap()[0].row, row, "{question}");
    }
}

#[test]
fn vectors_and_words_share_an_index() {
    let root = tempfile::tempdir().unwrap();
    let options = IndexOptions { sparse: Some(ENGLISH), ..IndexOptions::default() };
    build_index(&set(random_rows(30, 4), 4), root.path(), &options, &Silent).unwrap();
    let loaded = LoadedIndex::open(root.path()).unwrap();
    let hits = loaded.sparse().unwrap().unwrap().search("text 7", 1, Scoring::PAPER).unwrap();
    assert_eq!(loaded.passage(hits[0].row).unwrap().id, "p7");
    assert_eq!(LoadedSparse::open(root.path()).unwrap().passages.len(), 30);
}

#[test]
fn what_an_index_lacks_is_said_with_the_way_out() {
    let root = tempfile::tempdir().unwrap();
    let (dense, sparse) = (root.path().join("dense"), root.path().join("sparse"));
    build_index(&set(random_rows(5, 4), 4), &dense, &IndexOptions::default(), &Silent).unwrap();
    build(&passages(&["a cat"]), &sparse, ENGLISH);
    let error = LoadedSparse::open(&dense).unwrap_err();
    assert!(
        matches!(error, OpenError::NoSparse { .. }) && one_line(&error).contains("--sparse english"),
        "{error}"
    );
    let error = LoadedIndex::open(&sparse).unwrap_err();
    assert!(
        matches!(error, OpenError::NoVectors { .. }) && one_line(&error).contains("--vectors"),
        "{error}"
    );
    for error in [
        IndexWriter::open(&sparse, "a test").map(drop).unwrap_err(),
        IndexWriter::open_unchecked(&sparse, "a test").map(drop).unwrap_err(),
    ] {
        let said = one_line(&error);
        assert!(said.contains("sparse is of words alone, and such an index cannot be changed"), "{said}");
        assert!(said.contains("`dpr index --passages`") && said.contains("`dpr index --vectors`"), "{said}");
    }
    assert!(<Analyzer as clap::ValueEnum>::from_str("klingon", false).is_err());
}

fn sparse_files(out: &Path) -> Vec<PathBuf> {
    let version = IndexDir::new(out).current_version().unwrap();
    let dir = out.join(format!("v-{version}")).join("sparse");
    fs_err::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn any_changed_or_missing_file_is_refused() {
    let root = tempfile::tempdir().unwrap();
    build(&passages(&["a cat sat", "a dog ran", "birds fly"]), root.path(), ENGLISH);
    let files = sparse_files(root.path());
    assert!(files.len() > 5, "{files:?}");
    for path in files {
        let whole = fs_err::read(&path).unwrap();
        for at in (0..whole.len()).step_by((whole.len() / 13).max(1)) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            overwrite(&path, bytes).unwrap();
            let error = LoadedSparse::open(root.path()).unwrap_err();
            assert!(
                matches!(error, OpenError::File(FileError::Checksum { .. })),
                "{} at {at}: {error}",
                path.display()
            );
        }
        fs_err::remove_file(&path).unwrap();
        assert!(LoadedSparse::open(root.path()).is_err(), "{}", path.display());
        overwrite(&path, whole).unwrap();
    }
    LoadedSparse::open(root.path()).unwrap();
}

#[test]
fn a_build_that_is_stopped_or_fails_leaves_the_old_index() {
    let root = tempfile::tempdir().unwrap();
    build(&passages(&["a cat"]), root.path(), ENGLISH);
    let stop = Arc::new(AtomicBool::new(false));
    stop.store(true, Ordering::Relaxed);
    let stopped = build_sparse_index(&passages(&["a dog"]), root.path(), ENGLISH, &stop, &Silent);
    assert!(matches!(stopped, Err(BuildError::Interrupted)));
    let empty = build_sparse_index(&[], root.path(), ENGLISH, &Arc::default(), &Silent);
    assert!(matches!(empty, Err(BuildError::Matrix(MatrixError::Empty))));
    let mut twice = passages(&["a dog", "a bird"]);
    twice[1].id = twice[0].id.clone();
    let twice = build_sparse_index(&twice, root.path(), ENGLISH, &Arc::default(), &Silent);
    assert!(matches!(twice, Err(BuildError::DuplicateId { .. })));
    assert_eq!(LoadedSparse::open(root.path()).unwrap().passages.get(0).unwrap().text, "a cat");
    let left: Vec<_> = fs_err::read_dir(root.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with(".unfinished")), "{left:?}");
}

#[test]
fn an_index_built_with_another_analyzer_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let options = SparseOptions { analyzer: Analyzer::Bigram, threads: 1 };
    build_sparse(root.path(), &passages(&["one", "two"]), options, &AtomicBool::new(false), &Silent).unwrap();
    let error = SparseIndex::open(root.path(), Analyzer::English, 2).unwrap_err();
    assert!(matches!(&error, SparseError::OtherAnalyzer { built, .. } if built == "bigram"), "{error}");
    assert!(one_line(&error).contains("`dpr index --sparse english`"), "{error}");
    assert_eq!(SparseIndex::open(root.path(), Analyzer::Bigram, 2).unwrap().len(), 2);
}
