//! Reads the golden vectors that `tests/python/golden.py` wrote with Python's transformers.

#![allow(dead_code)] // each test file uses its own part

use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use dpr_core::device::Device;
use dpr_core::text::LoadError;
use dpr_core::{DeviceChoice, EncoderBytes, Precision, TextEncoder};
use serde_json::{Value, json};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("core lies in the workspace").to_owned()
}

/// Small random models that `tests/python/families.py` made.
pub(crate) const FAMILIES: [&str; 6] = [
    "families/distilbert",
    "families/xlm-roberta",
    "families/roberta",
    "families/electra",
    "families/modernbert",
    "families/nomic-bert",
];

/// Returns the text of a packed fixture.
pub(crate) fn unpacked(path: &str) -> String {
    let packed = std::fs::read(root().join("tests/fixtures").join(path)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    text
}

/// One fixture: texts and the vectors Python made of them.
pub(crate) struct Golden {
    pub(crate) json: Value,
    pub(crate) questions: Vec<String>,
    pub(crate) question_vectors: Vec<Vec<f32>>,
    pub(crate) passages: Vec<(String, String)>,
    pub(crate) passage_vectors: Vec<Vec<f32>>,
}

impl Golden {
    pub(crate) fn read(fixture: &str) -> Self {
        let path = root().join("tests/fixtures").join(fixture).join("golden.json");
        let json: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let list = |key: &str| json[key].as_array().unwrap().clone();
        let vectors = |key: &str| {
            list(key)
                .iter()
                .map(|text| {
                    let bytes =
                        base64::engine::general_purpose::STANDARD.decode(text.as_str().unwrap()).unwrap();
                    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
                })
                .collect()
        };
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            questions: list("questions").iter().map(text).collect(),
            question_vectors: vectors("question_vectors"),
            passages: list("passages").iter().map(|p| (text(&p["title"]), text(&p["text"]))).collect(),
            passage_vectors: vectors("passage_vectors"),
            json,
        }
    }

    /// Loads a Hugging Face directory with the fixture's pooling, normalisation and limit.
    pub(crate) fn encoder(&self, dir: &Path, device: &Device) -> TextEncoder {
        self.encoder_at(dir, device, Precision::F32).unwrap()
    }

    /// Loads as `encoder` does, in `precision`.
    pub(crate) fn encoder_at(
        &self,
        dir: &Path,
        device: &Device,
        precision: Precision,
    ) -> Result<TextEncoder, LoadError> {
        let read = |name: &str| std::fs::read(dir.join(name)).unwrap();
        let mut config: Value = serde_json::from_slice(&read("config.json")).unwrap();
        config["dpr"] = json!({
            "pooling": self.json["pooling"], "normalize": self.json["normalize"], "max_tokens": self.json["max_tokens"],
        });
        let config = serde_json::to_vec(&config).unwrap();
        let (tokenizer, weights) = (read("tokenizer.json"), read("model.safetensors"));
        let files = EncoderBytes {
            config: &config,
            tokenizer: &tokenizer,
            weights: &[("model.safetensors", weights.as_slice())],
        };
        TextEncoder::load_at(&files, None, device, precision)
    }
}

/// A Hugging Face directory that `cargo xtask setup` fetches. Absent, the test says so and passes over it,
/// except in CI, where the set-up has run.
pub(crate) fn fetched(name: &str) -> Option<PathBuf> {
    let dir = root().join("target/models").join(name);
    if dir.join("model.safetensors").exists() {
        return Some(dir);
    }
    assert!(std::env::var_os("CI").is_none(), "{} is missing: run cargo xtask setup", dir.display());
    eprintln!("skipped: {} is missing; cargo xtask setup fetches it", dir.display());
    None
}

/// Returns a GPU, which may be a software driver; `None`, and a line that says so, where there is none outside of CI.
pub(crate) fn gpu() -> Option<Device> {
    match Device::open(DeviceChoice::Wgpu) {
        Ok(device) => Some(device),
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("skipped: {error}; cargo xtask setup installs a software driver");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// The largest difference of one number, as a share of the expected vector's length.
pub(crate) fn difference(got: &[f32], expected: &[f32]) -> f64 {
    let norm = expected.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
    got.iter().zip(expected).map(|(a, b)| f64::from((a - b).abs())).fold(0.0, f64::max) / norm
}
