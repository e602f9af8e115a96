//! An index to put load on and what to ask it, for `cargo xtask bench --only load`.
//!
//! ```text
//! load_bench VECTORS MODEL QUESTIONS FOLDER
//! ```
//!
//! Builds an HNSW index of the vectors in FOLDER/index and writes FOLDER/bodies.jsonl: a search for 10 passages a line,
//! for the vector of each of the first 1,000 questions, as a browser sends it.

use std::error::Error;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use dpr_core::DeviceChoice;
use dpr_data::read_questions;
use dpr_encode::model::ModelDir;
use dpr_encode::{PipelineOptions, encode_questions};
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexKind, IndexOptions, build_index};
use serde_json::json;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [vectors, model, questions, folder] = arguments.as_slice() else {
        return Err("usage: load_bench VECTORS MODEL QUESTIONS FOLDER".into());
    };
    let (folder, model) = (Path::new(folder), ModelDir::open(Path::new(model))?);
    let options = IndexOptions { kind: IndexKind::Hnsw, ..IndexOptions::default() };
    build_index(&VectorSet::read(&[vectors.into()])?, &folder.join("index"), &options, &Silent)?;
    let encoder = model.question_encoder(DeviceChoice::Cpu)?;
    let questions = read_questions(Path::new(questions))?;
    let texts: Vec<&str> = questions.iter().take(1000).map(|question| question.text.as_str()).collect();
    let pipeline = PipelineOptions::for_device(encoder.device_name(), None, None);
    let mut lines = String::new();
    for vector in encode_questions(&encoder, &texts, pipeline, &Silent)? {
        let bytes: Vec<u8> = vector.as_slice().iter().flat_map(|value| value.to_le_bytes()).collect();
        let body =
            json!({ "vector": BASE64_STANDARD.encode(bytes), "k": 10, "model": model.manifest().space() });
        lines.push_str(&format!("{body}\n"));
    }
    fs_err::write(folder.join("bodies.jsonl"), lines)?;
    Ok(())
}
