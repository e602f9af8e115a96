//! One table of cases for every way to search: what holds for one must hold for all.

use crate::support::corpus;

use std::path::Path;

use corpus::{embedding, random_rows, set, squad_rows};
use dpr_core::device::Device;
use dpr_core::{DeviceChoice, Embedding};
use dpr_files::progress::Silent;
use dpr_index::{
    BuildError, GraphBuilder, HnswParams, IndexKind, IndexOptions, LoadedIndex, RowSet, ScoredRow, Storage,
    VectorIndex, build_index,
};

/// A way to search, and the least recall@20 it is held to on vectors of passages.
struct Engine {
    name: &'static str,
    options: IndexOptions,
    recall: f64,
    /// Whether a GPU searches it, a software one where there is no other.
    on_gpu: bool,
}

fn engines() -> Vec<Engine> {
    let exact = |storage| IndexOptions { storage, ..IndexOptions::default() };
    let graph = |builder| IndexOptions { kind: IndexKind::Hnsw, builder, ..IndexOptions::default() };
    let engine = |name, options, recall| Engine { name, options, recall, on_gpu: false };
    vec![
        engine("exact, f32", exact(Storage::F32), 1.0),
        Engine { on_gpu: true, ..engine("exact, gpu", exact(Storage::F32), 1.0) },
        engine("exact, f16", exact(Storage::F16), 0.999),
        engine("exact, int8", exact(Storage::Int8), 0.999),
        engine("exact, binary", exact(Storage::Binary), 0.98),
        engine("hnsw, parallel", graph(GraphBuilder::Parallel), 0.99),
        engine("hnsw, hnsw_rs", graph(GraphBuilder::HnswRs), 0.99),
    ]
}

fn each(rows: &[f32], dim: usize, check: impl Fn(&Engine, &LoadedIndex)) {
    for engine in engines() {
        let dir = tempfile::tempdir().unwrap();
        build_index(&set(rows.to_vec(), dim), dir.path(), &engine.options, &Silent).unwrap();
        let mut index = LoadedIndex::open(dir.path()).unwrap();
        if engine.on_gpu {
            match Device::open(DeviceChoice::Wgpu) {
                Ok(device) => assert!(index.search_on(&device)),
                Err(error) => {
                    eprintln!("skipped: {error}; cargo xtask setup installs a software driver");
                    continue;
                }
            }
        }
        assert_eq!((index.index.dim(), index.index.len()), (dim, rows.len() / dim), "{}", engine.name);
        check(&engine, &index);
    }
}

/// The best `k` rows by plain sums in f64.
fn plain(rows: &[f32], query: &[f32], k: usize, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
    let score =
        |row: &[f32]| -> f64 { row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum() };
    let mut scores: Vec<(f64, usize)> = rows
        .chunks(query.len())
        .enumerate()
        .filter(|(row, _)| wanted(*row))
        .map(|(row, vector)| (score(vector), row))
        .collect();
    scores.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    scores.into_iter().take(k).map(|(_, row)| row).collect()
}

fn rows(found: &[ScoredRow]) -> Vec<usize> {
    found.iter().map(|found| found.row).collect()
}

/// Vectors of SQuAD's passages, and questions: mixtures of two of them.
fn passages(dim: usize) -> (Vec<f32>, Vec<Embedding>) {
    let rows = squad_rows(dim);
    let row = |at: usize| &rows[at * dim..][..dim];
    let mixture = |at: usize| -> Embedding {
        let (a, b) = (row(at * 19 % 2067), row((at * 19 + 3) % 2067));
        embedding(&a.iter().zip(b).map(|(a, b)| a + 0.5 * b).collect::<Vec<_>>())
    };
    let questions = (0..100).map(mixture).collect();
    (rows, questions)
}

#[test]
fn every_engine_finds_the_best_rows_and_gives_them_their_exact_scores() {
    let (vectors, questions) = passages(96);
    each(&vectors, 96, |engine, index| {
        let mut hits = 0;
        for question in &questions {
            let found = index.index.search(question, 20).unwrap();
            let best = plain(&vectors, question.as_slice(), 20, |_| true);
            hits += rows(&found).iter().filter(|row| best.contains(row)).count();
            assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{}", engine.name);
            let exact = index.exact().unwrap().search(question, 2067).unwrap();
            for found in found {
                assert!(exact.contains(&found), "{}: {found:?} has another score exactly", engine.name);
            }
        }
        let recall = hits as f64 / 2000.0;
        assert!(recall >= engine.recall, "{}: recall@20 {recall}", engine.name);
    });
}

#[test]
fn a_batch_gives_what_each_question_gives_alone() {
    let (vectors, questions) = passages(96);
    each(&vectors, 96, |engine, index| {
        for k in [1, 20, 3000] {
            let batch = index.index.search_batch(&questions, k).unwrap();
            assert_eq!(batch.len(), questions.len());
            for (question, batch) in questions.iter().zip(batch) {
                assert_eq!(batch, index.index.search(question, k).unwrap(), "{}, k {k}", engine.name);
            }
        }
        assert!(index.index.search_batch(&[], 5).unwrap().is_empty());
    });
}

#[test]
fn rows_that_are_asked_for_alone_are_found_whenever_there_are_any() {
    let (vectors, questions) = passages(96);
    for (part, least) in [(1, 1.0), (2, 0.98), (50, 1.0), (700, 1.0), (3000, 1.0)] {
        let mut wanted = RowSet::none(2067);
        (0..2067).filter(|row| row % part == 0).for_each(|row| assert!(wanted.insert(row)));
        each(&vectors, 96, |engine, index| {
            let mut hits = 0.0;
            for question in &questions {
                let found = rows(&index.index.search_among(question, 20, &wanted).unwrap());
                let best = plain(&vectors, question.as_slice(), 20, |row| wanted.contains(row));
                assert_eq!(found.len(), best.len(), "{}, one of {part}", engine.name);
                assert!(found.iter().all(|row| wanted.contains(*row)));
                hits += found.iter().filter(|row| best.contains(row)).count() as f64 / best.len() as f64;
            }
            let recall = hits / questions.len() as f64;
            assert!(recall >= least, "{}, one of {part}: recall {recall}", engine.name);
        });
    }
    each(&vectors, 96, |engine, index| {
        let none = index.index.search_among(&questions[0], 20, &RowSet::none(2067)).unwrap();
        assert!(none.is_empty(), "{}", engine.name);
    });
}

#[test]
fn rows_beyond_the_index_are_ignored() {
    let vectors = random_rows(300, 16);
    let question = embedding(&random_rows(1, 16));
    each(&vectors, 16, |engine, index| {
        for first in [0, 280, 299, 300, 499] {
            let (mut more, mut within) = (RowSet::none(500), RowSet::none(300));
            for row in first..500 {
                assert_eq!((more.insert(row), within.insert(row)), (true, row < 300));
            }
            for k in [1, 25, 300, 1000] {
                let found = index.index.search_among(&question, k, &more).unwrap();
                assert_eq!(found.len(), k.min(within.len()), "{}, from {first}, k {k}", engine.name);
                let expected = index.index.search_among(&question, k, &within).unwrap();
                assert_eq!(found, expected, "{}, from {first}, k {k}", engine.name);
            }
        }
    });
}

#[test]
fn what_cannot_be_asked_is_refused_alike() {
    let vectors = random_rows(300, 16);
    each(&vectors, 16, |engine, index| {
        let index: &dyn VectorIndex = index.index.as_ref();
        let (short, good) = (embedding(&[1.0; 15]), embedding(&[1.0; 16]));
        let long = embedding(&[3e38; 16]);
        let all = RowSet::all(300);
        for (question, k, wanted) in [(&short, 5, "15"), (&good, 0, "k"), (&long, 5, "query")] {
            let errors = [
                index.search(question, k).unwrap_err(),
                index.search_among(question, k, &all).unwrap_err(),
                index.search_batch(&[good.clone(), question.clone()], k).unwrap_err(),
            ];
            for error in errors {
                assert!(error.to_string().contains(wanted), "{}: {error}", engine.name);
            }
        }
        assert_eq!(
            index.search(&good, 1000).unwrap().len(),
            300,
            "{}: k above the count gives all",
            engine.name
        );
    });
}

#[test]
fn vectors_of_any_size_keep_their_order() {
    for size in [1e-15_f32, 1.0, 1e15] {
        let vectors: Vec<f32> = random_rows(500, 16).iter().map(|value| value * size).collect();
        let question = embedding(&random_rows(1, 16));
        let best = plain(&vectors, question.as_slice(), 10, |_| true);
        each(&vectors, 16, |engine, index| {
            let found = rows(&index.index.search(&question, 10).unwrap());
            let hits = found.iter().filter(|row| best.contains(row)).count();
            assert!(hits >= 9, "{}, {size}: {found:?} {best:?}", engine.name);
        });
    }
}

#[test]
fn rows_that_repeat_are_ranked_by_their_place() {
    let mut vectors = random_rows(40, 16);
    let first = vectors[..16].to_vec();
    (0..400).for_each(|_| vectors.extend(&first));
    each(&vectors, 16, |engine, index| {
        let question = embedding(&first);
        let found = rows(&index.index.search(&question, 30).unwrap());
        let expected: Vec<usize> = [0].into_iter().chain(40..69).collect();
        let batch = index.index.search_batch(&[question.clone(), question], 30).unwrap();
        match index.manifest.storage {
            Storage::F32 => {
                assert_eq!(found, expected, "{}", engine.name);
                assert_eq!(rows(&batch[1]), expected, "{}", engine.name);
            }
            // Which of equals are looked at again is not said; each is one of them.
            Storage::F16 | Storage::Int8 | Storage::Binary => {
                assert!(found.iter().all(|row| *row == 0 || *row >= 40), "{}", engine.name)
            }
        }
    });
}

#[test]
fn a_graph_is_the_same_on_any_number_of_threads() {
    let vectors = squad_rows(32);
    let graph = |threads: usize, builder| {
        let dir = tempfile::tempdir().unwrap();
        let hnsw = HnswParams { m: 8, ef_construction: 60, ef_search: 60 };
        let options = IndexOptions { kind: IndexKind::Hnsw, builder, hnsw, ..IndexOptions::default() };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| build_index(&set(vectors.clone(), 32), dir.path(), &options, &Silent)).unwrap();
        fs_err::read(Path::new(dir.path()).join("v-1/graph.hnsw")).unwrap()
    };
    let one = graph(1, GraphBuilder::Parallel);
    assert!(one == graph(2, GraphBuilder::Parallel) && one == graph(7, GraphBuilder::Parallel));
    assert!(one != graph(2, GraphBuilder::HnswRs), "the other builder builds another");
}

#[test]
fn a_build_that_is_stopped_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for options in engines().into_iter().map(|engine| engine.options) {
        options.stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let error = build_index(&set(random_rows(50, 8), 8), dir.path(), &options, &Silent).unwrap_err();
        assert!(matches!(error, BuildError::Interrupted), "{error}");
        assert!(LoadedIndex::open(dir.path()).is_err());
    }
}
