//! Descriptions of vectors directories and model directories.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use dpr_core::Pooling;
use dpr_data::{corpus_sha256, read_passages};
use dpr_encode::model::{CrossEncoderDir, ImportOptions, ModelDir, export_web, import};
use dpr_index::vectors::{Shard, VectorSet, VectorsSpec, VectorsWriter};
use fs_err as fs;

use crate::index::{COUNT, DIM, fingerprint, vector};
use crate::named;

/// A directory that was made once, whose files inputs take the place of; one input at a time.
struct Made {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Made {
    fn new(make: impl FnOnce(&Path)) -> Mutex<Self> {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("made");
        make(&path);
        Mutex::new(Self { _dir: dir, path })
    }

    /// Calls `work` with `bytes` in the place of a file.
    fn with(this: &Mutex<Self>, name: &str, bytes: &[u8], work: impl FnOnce(&Path)) {
        let made = this.lock().unwrap_or_else(PoisonError::into_inner);
        let file = made.path.join(name);
        let before = fs::read(&file).expect("a file that was made");
        let _ = fs::remove_file(&file);
        fs::write(&file, bytes).expect("a small file");
        work(&made.path);
        let _ = fs::remove_file(&file);
        fs::write(&file, before).expect("a small file");
    }

    fn read(this: &Mutex<Self>, name: &str) -> Vec<u8> {
        let made = this.lock().unwrap_or_else(PoisonError::into_inner);
        fs::read(made.path.join(name)).expect("a file that was made")
    }
}

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
    MADE.get_or_init(|| {
        Made::new(|path| {
            let encoder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/dpr-tiny/question");
            let options = ImportOptions { pooling: Some(Pooling::Mean), ..ImportOptions::default() };
            import(encoder.as_ref(), None, path, &options).expect("a model of the fixtures");
            export_web(&ModelDir::open(path).expect("a model that was just imported"), None).expect("copies");
        })
    })
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
