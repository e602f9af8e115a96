//! Passages in a directory, in PostgreSQL or in Milvus: filled, searched and changed, for `cargo xtask bench --only
//! homes`.
//!
//! ```text
//! homes_bench fill VECTORS HOME
//! homes_bench search VECTORS MODEL QUESTIONS HOME
//! ```
//!
//! HOME is a directory, `postgres://...` or `milvus://...`. Both print one JSON object: seconds of filling; recall@20
//! against exact search, milliseconds of a search and of a change, questions a second, and this program's memory before
//! the vectors are read that recall is measured by.

use std::collections::HashSet;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use dpr::location::Location;
use dpr_core::{DeviceChoice, Embedding};
use dpr_data::{Passage, read_questions};
use dpr_encode::model::ModelDir;
use dpr_encode::{PipelineOptions, encode_questions};
use dpr_files::progress::Silent;
use dpr_index::search::{Filter, LoadOptions};
use dpr_index::vectors::VectorSet;
use dpr_index::{ExactIndex, IndexKind, IndexOptions, Matrix, NewPassage, VectorIndex as _, build_index};
use serde_json::{Value, json};

const K: usize = 20;
const QUESTIONS: usize = 1000;
const CHANGES: usize = 50;
const THREADS: usize = 2;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = match arguments.as_slice() {
        ["fill", vectors, home] => fill(vectors, home)?,
        ["search", vectors, model, questions, home] => search(vectors, model, questions, home)?,
        _ => return Err("usage: homes_bench fill VECTORS HOME | search VECTORS MODEL QUESTIONS HOME".into()),
    };
    println!("{said}");
    Ok(())
}

fn fill(vectors: &str, home: &str) -> Result<Value, Box<dyn Error + Send + Sync>> {
    let set = VectorSet::read(&[vectors.into()])?;
    let started = Instant::now();
    let home: Location = home.parse()?;
    match home.directory() {
        Some(dir) => {
            let options = IndexOptions { kind: IndexKind::Hnsw, ..IndexOptions::default() };
            build_index(&set, dir, &options, &Silent)?;
        }
        None => {
            home.load(&set, &LoadOptions::default(), 1, &Silent)?;
        }
    }
    Ok(json!({ "seconds": started.elapsed().as_secs_f64() }))
}

fn search(
    vectors: &str,
    model: &str,
    questions: &str,
    home: &str,
) -> Result<Value, Box<dyn Error + Send + Sync>> {
    let questions = encoded(model, questions)?;
    let before = memory();
    let opened = home.parse::<Location>()?.open_to_write("a bench")?;
    let (backend, writer) = (&opened.backend, opened.writer()?);
    let one = |question: &Embedding, filter: Option<&Filter>| {
        backend.search(std::slice::from_ref(question), K, filter)
    };
    for question in &questions[..K] {
        one(question, None)?;
    }
    let (mut found, mut times) = (Vec::with_capacity(questions.len()), Vec::with_capacity(questions.len()));
    for question in &questions {
        let started = Instant::now();
        found.push(one(question, None)?.remove(0));
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let started = Instant::now();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    while let Some(question) = questions.get(next.fetch_add(1, Ordering::Relaxed)) {
                        one(question, None)?;
                    }
                    Ok::<(), dpr_index::search::SearchError>(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    let rate = questions.len() as f64 / started.elapsed().as_secs_f64();
    let used = memory() - before;

    let mut changes = Vec::with_capacity(CHANGES);
    let ids: Vec<String> = (0..CHANGES).map(|at| format!("bench-{at}")).collect();
    for (id, question) in ids.iter().zip(&questions) {
        let passage = Passage::new(id.as_str(), "Title", "A text of some words.");
        let started = Instant::now();
        writer.put(vec![NewPassage { passage, vector: question.clone() }])?;
        changes.push(started.elapsed().as_secs_f64() * 1e3);
    }
    writer.delete(ids)?;

    let VectorSet { passages, rows, dim, .. } = VectorSet::read(&[vectors.into()])?;
    let id_of = |row: usize| passages[row].id.as_str();
    let exact = ExactIndex::new(Arc::new(Matrix::new(rows, passages.len(), dim, id_of)?));
    let best = exact.search_batch(&questions, K)?;
    let hits: usize = found
        .iter()
        .zip(&best)
        .map(|(found, best)| {
            let best: HashSet<&str> = best.iter().map(|hit| id_of(hit.row)).collect();
            found.iter().filter(|hit| best.contains(hit.id.as_str())).count()
        })
        .sum();
    Ok(json!({
        "recall": hits as f64 / (questions.len() * K) as f64,
        "p50": at(&mut times, 0.5), "p99": at(&mut times, 0.99), "questions_per_second": rate,
        "change": at(&mut changes, 0.5), "bytes": used,
    }))
}

fn encoded(model: &str, questions: &str) -> Result<Vec<Embedding>, Box<dyn Error + Send + Sync>> {
    let encoder = ModelDir::open(Path::new(model))?.question_encoder(DeviceChoice::Cpu)?;
    let questions = read_questions(Path::new(questions))?;
    let texts: Vec<&str> = questions.iter().take(QUESTIONS).map(|question| question.text.as_str()).collect();
    let pipeline = PipelineOptions::for_device(encoder.device_name(), None, None);
    Ok(encode_questions(&encoder, &texts, pipeline, &Silent)?)
}

/// The value that a share of the values is up to.
fn at(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * share) as usize]
}

/// Bytes of this program in memory, mapped files included; not a number where the system does not say.
fn memory() -> f64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0)
}
