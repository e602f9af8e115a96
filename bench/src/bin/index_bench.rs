//! Exact search and HNSW over the vectors of a directory, one thread a question, for `cargo xtask bench`.
//!
//! ```text
//! index_bench VECTORS MODEL QUESTIONS FOLDER
//! ```
//!
//! Encodes the first 1,000 questions, writes rows.f32 and queries.f32 into FOLDER for other engines, and prints what
//! tests/bench/index_peer.py prints of one: M 16, 24 and 32, efConstruction 200, the best 20 and the best 10 rows by inner
//! product.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dpr_bench::{Failed, ask, build_graph, graph_efforts, recall};
use dpr_core::{DeviceChoice, Embedding};
use dpr_data::read_questions;
use dpr_encode::model::ModelDir;
use dpr_encode::{PipelineOptions, encode_questions};
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{
    CancelToken, HnswParams, IndexKind, IndexOptions, LoadedIndex, RECALL_DEPTH, RowSet, ScoredRow, Storage,
    VectorIndex, build_index,
};
use serde_json::{Value, json};

const MS: [usize; 3] = [16, 24, 32];
const QUESTIONS: usize = 1000;
/// Questions of a batch.
const BATCH: usize = 64;
/// Of so many rows a filter allows one.
const FILTER: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [vectors, model, questions, folder] = arguments.as_slice() else {
        return Err("usage: index_bench VECTORS MODEL QUESTIONS FOLDER".into());
    };
    let folder = Path::new(folder);
    let set = VectorSet::read(&[vectors.into()])?;
    let encoder = ModelDir::open(Path::new(model))?.question_encoder(DeviceChoice::Cpu)?;
    let questions = read_questions(Path::new(questions))?;
    let texts: Vec<&str> = questions.iter().take(QUESTIONS).map(|question| question.text.as_str()).collect();
    let options = PipelineOptions::for_device(encoder.device_name(), None, None);
    let queries = encode_questions(&encoder, &texts, options, &Silent)?;
    let bytes = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|v| v.to_le_bytes()).collect() };
    fs_err::write(folder.join("rows.f32"), bytes(&set.rows))?;
    let rows: Vec<f32> = queries.iter().flat_map(|query| query.as_slice()).copied().collect();
    fs_err::write(folder.join("queries.f32"), bytes(&rows))?;

    // One thread a question, as the peers are asked.
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
    println!("{}", one.install(|| measure(&set, &queries, folder)).map_err(|error| error.to_string())?);
    Ok(())
}

fn measure(set: &VectorSet, queries: &[Embedding], folder: &Path) -> Result<Value, Failed> {
    let dir = tempfile::tempdir_in(folder)?;
    build_index(set, dir.path(), &IndexOptions::default(), &Silent)?;
    let exact = LoadedIndex::open(dir.path())?.exact()?;
    let started = Instant::now();
    let truth =
        queries.iter().map(|query| exact.search(query, RECALL_DEPTH)).collect::<Result<Vec<_>, _>>()?;
    let single = queries.len() as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    for queries in queries.chunks(BATCH) {
        exact.search_batch(queries, RECALL_DEPTH)?;
    }
    let batch = queries.len() as f64 / started.elapsed().as_secs_f64();
    let [int8, f16, binary] = [Storage::Int8, Storage::F16, Storage::Binary]
        .map(|storage| stored(set, queries, &truth, folder, storage));
    let graphs =
        MS.into_iter().map(|m| graph(set, queries, &truth, folder, m)).collect::<Result<Vec<_>, _>>()?;
    Ok(json!({
        "engine": "dpr", "exact": { "single": single, "batch": batch }, "int8": int8?, "f16": f16?, "binary": binary?,
        "graphs": graphs,
    }))
}

/// A graph with `2 m` links a vector at most.
fn graph(
    set: &VectorSet,
    queries: &[Embedding],
    truth: &[Vec<ScoredRow>],
    folder: &Path,
    m: usize,
) -> Result<Value, Failed> {
    let dir = tempfile::tempdir_in(folder)?;
    let hnsw = HnswParams { m, ef_construction: 200, ef_search: 100 };
    let options = IndexOptions { kind: IndexKind::Hnsw, hnsw, ..IndexOptions::default() };
    let (build_seconds, bytes) = build_graph(set, dir.path(), &options)?;
    let mut index = LoadedIndex::open(dir.path())?;
    let efforts = graph_efforts(index.index.as_mut(), queries, truth)?;
    let filtered = filtered(&index, queries)?;
    Ok(json!({
        "m": m, "build_seconds": build_seconds, "bytes": bytes, "efforts": efforts, "filtered": filtered,
    }))
}

/// Exact search that chooses rows by fewer bits.
fn stored(
    set: &VectorSet,
    queries: &[Embedding],
    truth: &[Vec<ScoredRow>],
    folder: &Path,
    storage: Storage,
) -> Result<Value, Failed> {
    let dir = tempfile::tempdir_in(folder)?;
    build_index(set, dir.path(), &IndexOptions { storage, ..IndexOptions::default() }, &Silent)?;
    let index = LoadedIndex::open(dir.path())?;
    let started = Instant::now();
    let found = ask(index.index.as_ref(), queries, RECALL_DEPTH)?;
    let seconds = started.elapsed().as_secs_f64();
    let mut batches = Vec::with_capacity(queries.len());
    let started = Instant::now();
    for queries in queries.chunks(BATCH) {
        batches.extend(index.index.search_batch(queries, RECALL_DEPTH)?);
    }
    let batch_seconds = started.elapsed().as_secs_f64();
    Ok(json!({
        "single": queries.len() as f64 / seconds, "recall": recall(&found, truth, RECALL_DEPTH),
        "batch": queries.len() as f64 / batch_seconds, "batch_recall": recall(&batches, truth, RECALL_DEPTH),
    }))
}

/// The graph's index where a filter allows one row of a hundred.
fn filtered(index: &LoadedIndex, queries: &[Embedding]) -> Result<Value, Failed> {
    let mut allowed = RowSet::none(index.index.len());
    (0..allowed.rows()).step_by(FILTER).for_each(|row| {
        allowed.insert(row);
    });
    let never = CancelToken::never();
    let search = |index: &dyn VectorIndex| -> Result<Vec<Vec<ScoredRow>>, Failed> {
        queries
            .iter()
            .map(|query| Ok(index.search_until(query, RECALL_DEPTH, Some(&allowed), &never)?))
            .collect()
    };
    let truth = search(&index.exact()?)?;
    let started = Instant::now();
    let found = search(index.index.as_ref())?;
    let seconds = started.elapsed().as_secs_f64();
    Ok(json!({ "single": queries.len() as f64 / seconds, "recall": recall(&found, &truth, RECALL_DEPTH) }))
}
