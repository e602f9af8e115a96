//! One large graph: built, written, opened and searched, for `cargo xtask bench --only million`.
//!
//! ```text
//! million_bench FOLDER COUNT VECTORS
//! ```
//!
//! FOLDER holds rows.f32 and queries.f32 of 768 numbers a vector, as `index_bench` writes them. Vectors up to COUNT
//! are made of two rows each, as a passage is that speaks of two things: the one, 0.7 of another, and noise of a
//! fifth of their length, all brought to the length of the one. They are written to the directory VECTORS, whose
//! vectors.f32 other engines read. Prints one JSON object: seconds, milliseconds of single searches on one thread,
//! recall@20, bytes, and of each graph what tests/bench/index_peer.py prints.

use std::error::Error;
use std::path::Path;
use std::time::Instant;

use dpr_bench::{Failed, build_graph, graph_efforts, recall};
use dpr_core::Embedding;
use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_index::search::Backend as _;
use dpr_index::vectors::{Shard, VectorSet, VectorsSpec, VectorsWriter};
use dpr_index::{
    HnswParams, IndexKind, IndexOptions, IndexReader, LoadedIndex, RECALL_DEPTH, VectorIndex as _, verify,
};
use rayon::prelude::*;
use serde_json::{Value, json};

const DIM: usize = 768;
/// Vectors made and written at a time.
const PART: usize = 8192;
const NOISE: f64 = 0.2;
const SECOND: f32 = 0.7;
/// Questions of a batch of exact search.
const BATCH: usize = 64;
/// The graph beside the one of the default M.
const DENSE_M: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, count, vectors] = arguments.as_slice() else {
        return Err("usage: million_bench FOLDER COUNT VECTORS".into());
    };
    println!(
        "{}",
        measure(Path::new(folder), count.parse()?, Path::new(vectors)).map_err(|e| e.to_string())?
    );
    Ok(())
}

fn measure(folder: &Path, count: usize, vectors: &Path) -> Result<Value, Failed> {
    let queries = numbers(&folder.join("queries.f32"))?;
    let queries: Vec<Embedding> =
        queries.chunks(DIM).map(|query| Embedding::new(query.to_vec(), DIM)).collect::<Result<_, _>>()?;
    let dir = tempfile::tempdir_in(folder)?;
    let options = IndexOptions { kind: IndexKind::Hnsw, ..IndexOptions::default() };
    write_vectors(&numbers(&folder.join("rows.f32"))?, count, vectors)?;
    let (build_seconds, bytes) =
        build_graph(&VectorSet::read(&[vectors.to_path_buf()])?, dir.path(), &options)?;
    let build_peak = memory("VmHWM");

    evict(dir.path())?;
    let started = Instant::now();
    let index = LoadedIndex::open(dir.path())?;
    let checked_seconds = started.elapsed().as_secs_f64();
    drop(index);
    // As a server starts: what a search reads is checked first.
    evict(dir.path())?;
    let started = Instant::now();
    let reader = IndexReader::open_unchecked(dir.path())?;
    let open_seconds = started.elapsed().as_secs_f64();
    reader.live().search(&queries[..1], RECALL_DEPTH, None)?;
    let answer_seconds = started.elapsed().as_secs_f64();
    let started = Instant::now();
    reader.live().search(&queries[1..2], RECALL_DEPTH, None)?;
    let second_answer_seconds = started.elapsed().as_secs_f64();
    drop(reader);
    let index = LoadedIndex::open(dir.path())?;
    // Once more, with what the first read still in memory, as when a server is started again.
    let started = Instant::now();
    drop(LoadedIndex::open(dir.path())?);
    let reopen_seconds = started.elapsed().as_secs_f64();
    let exact = index.exact()?;
    let mut truth = Vec::with_capacity(queries.len());
    for queries in queries.chunks(BATCH) {
        truth.extend(exact.search_batch(queries, RECALL_DEPTH)?);
    }
    let mut tried = Vec::new();
    let mut index = index;
    for ef in [80, 160, 320, 640] {
        index.index.set_ef_search(ef);
        let (mut times, mut found) = (Vec::new(), Vec::new());
        for query in &queries {
            let started = Instant::now();
            found.push(index.index.search(query, RECALL_DEPTH)?);
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let recall = recall(&found, &truth, RECALL_DEPTH);
        tried.push(json!({ "ef": ef, "recall": recall, "p50": at(0.5), "p99": at(0.99) }));
    }
    let searching = memory("VmRSS");
    // The paper gives its speed at the best 100, on all processors.
    let batch: Vec<Embedding> = queries.iter().cycle().take(4 * queries.len()).cloned().collect();
    index.index.set_ef_search(160);
    let started = Instant::now();
    let found = index.index.search_batch(&batch, 100)?;
    let top_100 = found.len() as f64 / started.elapsed().as_secs_f64();
    let started = Instant::now();
    let is_whole = verify(dir.path())?.problems.is_empty();
    let verify_seconds = started.elapsed().as_secs_f64();
    let graph =
        |m: usize, build_seconds: f64, bytes: u64, index: &mut LoadedIndex| -> Result<Value, Failed> {
            let efforts = graph_efforts(index.index.as_mut(), &queries, &truth)?;
            Ok(json!({ "m": m, "build_seconds": build_seconds, "bytes": bytes, "efforts": efforts }))
        };
    let mut graphs = vec![graph(options.hnsw.m, build_seconds, bytes, &mut index)?];
    drop((index, exact, dir));
    let dir = tempfile::tempdir_in(folder)?;
    let hnsw = HnswParams { m: DENSE_M, ..options.hnsw };
    let set = VectorSet::read(&[vectors.to_path_buf()])?;
    let (seconds, size) = build_graph(&set, dir.path(), &IndexOptions { hnsw, ..options })?;
    drop(set);
    graphs.push(graph(DENSE_M, seconds, size, &mut LoadedIndex::open(dir.path())?)?);
    Ok(json!({
        "count": count, "build_seconds": build_seconds, "bytes": bytes, "tried": tried,
        "checked_seconds": checked_seconds, "reopen_seconds": reopen_seconds, "open_seconds": open_seconds,
        "answer_seconds": answer_seconds, "second_answer_seconds": second_answer_seconds,
        "top_100": top_100, "verified": is_whole, "verify_seconds": verify_seconds,
        "build_peak_bytes": build_peak, "searching_bytes": searching, "engine": "dpr", "graphs": graphs,
    }))
}

fn numbers(path: &Path) -> Result<Vec<f32>, Failed> {
    Ok(fs_err::read(path)?.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}

/// Drops a directory's files from the system's cache, so that they come from the disk when they are next read. On Linux
/// alone: elsewhere they are only written to the disk.
fn evict(dir: &Path) -> Result<(), Failed> {
    for entry in fs_err::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            evict(&path)?;
        } else {
            let file = fs_err::File::open(path)?;
            file.sync_all()?;
            #[cfg(target_os = "linux")]
            rustix::fs::fadvise(file.file(), 0, None, rustix::fs::Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// Writes `count` vectors as `dpr encode` does: the rows, then mixtures of them.
fn write_vectors(rows: &[f32], count: usize, dir: &Path) -> Result<(), Failed> {
    let real = rows.len() / DIM;
    let length = |row: &[f32]| row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    let noise = NOISE * length(&rows[..DIM]) / (DIM as f64).sqrt();
    let vector = |at: usize, to: &mut [f32]| {
        to.copy_from_slice(&rows[at % real * DIM..][..DIM]);
        if at >= real {
            let (mut random, before) = (SplitMix::keyed(&[at as u64]), length(to));
            let second = &rows[random.below(real) * DIM..][..DIM];
            to.iter_mut().zip(second).for_each(|(value, other)| {
                *value += SECOND * other + (random.normal() * noise) as f32;
            });
            let factor = (before / length(to)) as f32;
            to.iter_mut().for_each(|value| *value *= factor);
        }
    };
    let passage = |at: usize| Passage::new(at.to_string(), "A title", format!("Text {at}. ").repeat(40));
    let passages: Vec<Passage> = (0..count).map(passage).collect();
    let spec = VectorsSpec {
        model_fingerprint: "0".repeat(64),
        dim: DIM,
        corpus_sha256: "0".repeat(64),
        shard: Shard::WHOLE,
        part_size: PART,
        precision: dpr_core::Precision::F32,
    };
    let writer = VectorsWriter::open(dir, spec, &passages)?;
    let mut part = vec![0.0; PART * DIM];
    for range in writer.missing_parts() {
        let part = &mut part[..range.len() * DIM];
        part.par_chunks_mut(DIM).enumerate().for_each(|(at, to)| vector(range.start + at, to));
        writer.write_part(&range, part)?;
    }
    Ok(writer.finish()?)
}

/// A figure of /proc/self/status in bytes; 0 where there is none.
fn memory(name: &str) -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}
