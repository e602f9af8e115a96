//! An index that changes while it is searched: what is found, what others see, what is refused.

mod clients;
use crate::support::corpus;
mod damage;
mod found;
mod refused;
mod versions;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use corpus::{Numbers, clusters, embedding, random_rows, set, write_vectors};
use dpr_core::random::SplitMix;
use dpr_core::{Embedding, EmbeddingError};
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::search::{Filter, Searcher};
use dpr_index::sparse::{Analyzer, Scoring, SparseOptions, WordIndex};
use dpr_index::vectors::VectorSet;
use dpr_index::{
    BuildError, CompactError, CompactionPolicy, FileError, HnswParams, IndexDir, IndexKind, IndexOptions,
    IndexReader, IndexWriter, LoadedIndex, LoadedSparse, NewPassage, OpenError, Put, QueryError, Snapshot,
    VectorIndex as _, build_index, build_sparse_index, copy_index, tune, verify,
};

const DIM: usize = 16;

fn build(dir: &Path, count: usize, kind: IndexKind) {
    let options = IndexOptions { kind, ..IndexOptions::default() };
    build_index(&set(random_rows(count, DIM), DIM), dir, &options, &Silent).unwrap();
}

fn new(id: &str, vector: &[f32]) -> NewPassage {
    let passage = Passage::new(id, "", format!("New {id}."));
    NewPassage { passage, vector: embedding(vector) }
}

fn compact(updater: &IndexWriter) {
    updater.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
}

/// What is live: ids in the order of the rows, with their vectors.
fn live(snapshot: &Snapshot) -> Vec<(String, Vec<f32>)> {
    snapshot.passages().map(Result::unwrap).map(|(passage, vector)| (passage.id, vector.to_vec())).collect()
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
            found.iter().map(|hit| (snapshot.passage(hit.row).unwrap().id, hit.score.to_bits())).collect();
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
