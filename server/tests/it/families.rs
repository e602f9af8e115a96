//! Every family of encoders: imported, projected, and exported for pages.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use dpr_core::device::Device;
use dpr_core::{DeviceChoice, EncoderBytes, Pooling, TextEncoder};
use dpr_encode::model::{ImportOptions, ModelDir, export_web, import};
use serde_json::Value;

const FAMILIES: [&str; 6] = ["distilbert", "xlm-roberta", "roberta", "electra", "modernbert", "nomic-bert"];

fn fixture(family: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/families").join(family)
}

/// Returns the questions of a fixture and the vectors that transformers makes of them.
fn golden(family: &str) -> Vec<(String, Vec<f32>)> {
    let golden: Value =
        serde_json::from_slice(&fs_err::read(fixture(family).join("golden.json")).unwrap()).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let vector = |value: &Value| {
        let bytes = base64::engine::general_purpose::STANDARD.decode(text(value)).unwrap();
        bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let (questions, vectors) = (golden["questions"].as_array(), golden["question_vectors"].as_array());
    questions.unwrap().iter().map(text).zip(vectors.unwrap().iter().map(vector)).collect()
}

fn imported(family: &str, project: Option<usize>) -> (tempfile::TempDir, ModelDir) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    let options = ImportOptions {
        pooling: Some(Pooling::Mean),
        normalize: Some(true),
        max_question_tokens: Some(96),
        project,
        ..ImportOptions::default()
    };
    import(&fixture(family), None, &out, &options).unwrap();
    let model = ModelDir::open(&out).unwrap();
    (dir, model)
}

/// Returns the cosine of two vectors of length 1.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum()
}

#[test]
fn an_imported_model_makes_the_vectors_of_transformers_in_every_export() {
    for family in FAMILIES {
        let (_dir, model) = imported(family, None);
        let exports = export_web(&model, None).unwrap().manifest.weights;
        let read = |path: &str| fs_err::read(model.path().join(path)).unwrap();
        let (config, tokenizer) =
            (read("question_encoder/config.json"), read("question_encoder/tokenizer.json"));
        for (dtype, least) in [("f32", 0.99999), ("f16", 0.9999), ("q8", 0.995)] {
            let weights = read(&exports[dtype].path);
            let weights = [("model.safetensors", weights.as_slice())];
            let files = EncoderBytes { config: &config, tokenizer: &tokenizer, weights: &weights };
            let encoder = TextEncoder::load(&files, None, &Device::Kernel).unwrap();
            for (text, expected) in golden(family) {
                let got = encoder.encode_question(&text).unwrap().into_vec();
                let cosine = cosine(&got, &expected);
                assert!(cosine >= least, "{family} in {dtype}: {text:?} has cosine {cosine}");
            }
        }
    }
}

#[test]
fn a_projection_keeps_cosines() {
    for family in FAMILIES {
        let (_dir, model) = imported(family, Some(48));
        let encoder = model.question_encoder(DeviceChoice::Cpu).unwrap();
        let vectors: Vec<_> = golden(family)
            .into_iter()
            .map(|(text, expected)| (encoder.encode_question(&text).unwrap().into_vec(), expected))
            .collect();
        for ((got, expected), (got_next, expected_next)) in vectors.iter().zip(&vectors[1..]) {
            assert_eq!(got.len(), 48);
            let (got, expected) = (cosine(got, got_next), cosine(expected, expected_next));
            assert!((got - expected).abs() < 1e-4, "{family}: {got} and {expected}");
        }
    }
}
