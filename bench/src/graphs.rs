//! The speed and the recall of a graph by the candidates that a search keeps, as `tests/bench/index_peer.py` measures
//! those of other engines.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dpr_core::Embedding;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, RECALL_DEPTH, ScoredRow, VectorIndex, build_index, rows_found};
use serde_json::{Map, Value, json};

/// Threads that build a graph.
const BUILDERS: usize = 2;
/// Rows that a graph is asked for.
const KS: [usize; 2] = [RECALL_DEPTH, 10];
/// Runs of a setting of a graph, of which the best counts: so many at least, and more within these seconds.
const LEAST_RUNS: usize = 2;
const RUNS: usize = 20;
const RUN_SECONDS: f64 = 1.0;
/// Candidates that a search keeps, `ef`: up to the most that VSAG takes.
const EFFORTS: [usize; 15] = [30, 40, 60, 80, 120, 160, 200, 240, 280, 320, 400, 480, 640, 800, 1000];

/// The error of a measurement.
pub type Failed = Box<dyn Error + Send + Sync>;

/// Builds an index in `dir` with two threads, as the peers do; returns its seconds and its bytes.
///
/// # Errors
/// An index that cannot be built or written, or threads that cannot be started.
pub fn build_graph(set: &VectorSet, dir: &Path, options: &IndexOptions) -> Result<(f64, u64), Failed> {
    let builders = rayon::ThreadPoolBuilder::new().num_threads(BUILDERS).build()?;
    let started = Instant::now();
    let manifest = builders.install(|| build_index(set, dir, options, &Silent))?;
    Ok((started.elapsed().as_secs_f64(), manifest.files.values().map(|file| file.bytes).sum()))
}

/// Measures a graph's searches, one question at a time on the calling thread. Returns for each number of rows that are
/// asked for, `"20"` and `"10"`, a list of `[ef, questions/s, recall]`. `truth` has the best [`RECALL_DEPTH`] rows of
/// each question.
///
/// # Errors
/// A query that the index refuses: of other numbers than its vectors have, or not finite.
pub fn graph_efforts(
    index: &mut dyn VectorIndex,
    queries: &[Embedding],
    truth: &[Vec<ScoredRow>],
) -> Result<Value, Failed> {
    let mut efforts = Map::new();
    for k in KS {
        let mut settings = Vec::new();
        for ef in EFFORTS {
            index.set_ef_search(ef);
            let (mut seconds, mut all) = (f64::INFINITY, 0.0);
            let mut found = Vec::new();
            // The best run, as of the peers.
            for run in 0..RUNS {
                if run >= LEAST_RUNS && all > RUN_SECONDS {
                    break;
                }
                let started = Instant::now();
                found = ask(index, queries, k)?;
                let took = started.elapsed().as_secs_f64();
                (seconds, all) = (seconds.min(took), all + took);
            }
            settings.push(json!([ef, queries.len() as f64 / seconds, recall(&found, truth, k)]));
        }
        efforts.insert(k.to_string(), settings.into());
    }
    Ok(efforts.into())
}

/// Returns the best `k` rows of each query, searched one after the other.
///
/// # Errors
/// A query that the index refuses: of other numbers than its vectors have, or not finite.
pub fn ask(index: &dyn VectorIndex, queries: &[Embedding], k: usize) -> Result<Vec<Vec<ScoredRow>>, Failed> {
    queries.iter().map(|query| Ok(index.search(query, k)?)).collect()
}

/// Returns the share of the best `k` rows that is among the first `k` found.
#[must_use]
pub fn recall(found: &[Vec<ScoredRow>], truth: &[Vec<ScoredRow>], k: usize) -> f64 {
    let first = |rows: &[ScoredRow]| rows[..k.min(rows.len())].to_vec();
    let hits = found
        .iter()
        .zip(truth)
        .map(|(found, truth)| rows_found(&first(truth), first(found).iter().map(|row| row.score)));
    hits.sum::<usize>() as f64 / truth.iter().map(|truth| truth.len().min(k)).sum::<usize>() as f64
}
