//! A Milvus collection filled and searched, for `cargo xtask bench --only milvus`.
//!
//! ```text
//! milvus_bench VECTORS MODEL QUESTIONS ADDRESS
//! ```
//!
//! Prints one JSON object: how long filling took, and for some efforts recall@20 against exact search, and the
//! milliseconds of a search, one question after another.

use std::collections::HashSet;
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use dpr_core::DeviceChoice;
use dpr_data::read_questions;
use dpr_encode::model::ModelDir;
use dpr_encode::{PipelineOptions, encode_questions};
use dpr_files::progress::Silent;
use dpr_index::search::Filter;
use dpr_index::vectors::VectorSet;
use dpr_index::{ExactIndex, Matrix, VectorIndex as _};
use dpr_milvus::{LoadOptions, MilvusAddress, MilvusIndex, load};
use serde_json::json;

const K: usize = 20;
const EFFORTS: [usize; 5] = [40, 80, 160, 320, 640];
const QUESTIONS: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [vectors, model, questions, address] = arguments.as_slice() else {
        return Err("usage: milvus_bench VECTORS MODEL QUESTIONS ADDRESS".into());
    };
    let (vectors, model) = (VectorSet::read(&[vectors.into()])?, ModelDir::open(Path::new(model))?);
    let address: MilvusAddress = address.parse()?;
    let started = Instant::now();
    let report = load(&address, &vectors, &LoadOptions::default(), &Silent)?;
    let load_seconds = started.elapsed().as_secs_f64();

    let encoder = model.question_encoder(DeviceChoice::Cpu)?;
    let questions = read_questions(Path::new(questions))?;
    let texts: Vec<&str> = questions.iter().take(QUESTIONS).map(|question| question.text.as_str()).collect();
    let pipeline = PipelineOptions::for_device(encoder.device_name(), None, None);
    let questions = encode_questions(&encoder, &texts, pipeline, &Silent)?;
    let VectorSet { passages, rows, dim, .. } = vectors;
    let id_of = |row: usize| passages[row].id.as_str();
    let exact = ExactIndex::new(Arc::new(Matrix::new(rows, passages.len(), dim, id_of)?));
    let best = exact.search_batch(&questions, K)?;

    let (all, mut graph) = (Filter::default(), Vec::new());
    for ef in EFFORTS {
        let index = MilvusIndex::open(&format!("{address}?ef={ef}").parse()?, None)?;
        index.search(&questions[..20], K, &all)?;
        let (mut hits, mut times) = (0, Vec::with_capacity(questions.len()));
        for (question, best) in questions.iter().zip(&best) {
            let started = Instant::now();
            let found = index.search(std::slice::from_ref(question), K, &all)?;
            times.push(started.elapsed().as_secs_f64() * 1e3);
            let best: HashSet<&str> = best.iter().map(|hit| id_of(hit.row)).collect();
            hits += found[0].iter().filter(|found| best.contains(found.passage.id.as_str())).count();
        }
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let recall = hits as f64 / (questions.len() * K) as f64;
        graph.push(json!({ "ef": ef, "recall": recall, "p50": at(0.5), "p99": at(0.99) }));
    }
    println!("{}", json!({ "count": report.count, "load_seconds": load_seconds, "graph": graph }));
    Ok(())
}
