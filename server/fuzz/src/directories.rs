//! Descriptions of vectors directories and model directories.

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use dpr_core::Pooling;
use dpr_data::{corpus_sha256, read_passages};
use dpr_encode::model::{CrossEncoderDir, ImportOptions, ModelDir, export_web, import};
use dpr_index::vectors::{Shard, VectorSet, VectorsSpec, VectorsWriter};
use fs_err as fs;

use crate::index::{COUNT, DIM, fingerprint, vector};
use crate::made::Made;
use crate::named;

/// A finished vectors directory.
fn vectors_dir() -> &'static Mutex<Made> {
    static MADE: OnceLock<Mutex<Made>> = OnceLock::new();
    MADE.get_or_init(|| {
        Made::new(|path| {
            let table = path.with_extension("tsv");
            let lines: String = (0..COUNT).map(|row| format!("p{row}\tText {row}.\tTitle\n")).collect();
            fs::write(&table, format!("id\ttext\ttitle\n{lines}")).expect("a small file");
            let passages = read_passages(&table).expect("passages that were just written");
            let spec = VectorsSpec {
                model_fingerprint: fingerprint(),
                dim: DIM,
                corpus_sha256: corpus_sha256(&passages),
                shard: Shard::WHOLE,
                part_size: VectorsSpec::PART_SIZE,
                precision: dpr_core::Precision::F32,
            };
            let writer = VectorsWriter::open(path, spec, &passages).expect("a new directory");
            for range in writer.missing_parts() {
                let rows: Vec<f32> = range.clone().flat_map(vector).collect();
                writer.write_part(&range, &rows).expect("a part");
            }
            writer.finish().expect("all parts are there");
        })
    })
}

/// A model directory with the copies for browsers.
fn model_dir() -> &'static Mutex<Made> {
    static MADE: OnceLock<Mutex<Made>> = OnceLock::new();
    MADE.get_or_init(|| Made::new(|path| drop(write_model(path))))
}

/// Makes a model directory with the copies for browsers.
pub(crate) fn write_model(path: &Path) -> ModelDir {
    let encoder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/dpr-tiny/question");
    let options = ImportOptions { pooling: Some(Pooling::Mean), ..ImportOptions::default() };
    import(encoder.as_ref(), None, path, &options).expect("a model of the fixtures");
    let model = ModelDir::open(path).expect("a model that was just imported");
    export_web(&model, None).expect("copies");
    model
}

/// The manifest of a vectors directory.
pub(crate) fn vectors(bytes: &[u8]) {
    Made::with(vectors_dir(), "manifest.json", bytes, |path| drop(VectorSet::read(&[path.to_path_buf()])));
}

pub(crate) fn valid_vectors() -> Vec<(String, Vec<u8>)> {
    vec![named("made", Made::read(vectors_dir(), "manifest.json"))]
}

/// A model's description.
pub(crate) fn model(bytes: &[u8]) {
    Made::with(model_dir(), "model.json", bytes, |path| {
        let _ = ModelDir::open(path).and_then(|model| model.web_exports());
        let _ = CrossEncoderDir::open(path);
    });
}

pub(crate) fn valid_model() -> Vec<(String, Vec<u8>)> {
    vec![named("made", Made::read(model_dir(), "model.json"))]
}

/// The description of the copies for browsers.
pub(crate) fn web(bytes: &[u8]) {
    Made::with(model_dir(), "web/web.json", bytes, |path| {
        let _ = ModelDir::open(path).and_then(|model| model.web_exports());
    });
}

pub(crate) fn valid_web() -> Vec<(String, Vec<u8>)> {
    vec![named("made", Made::read(model_dir(), "web/web.json"))]
}
