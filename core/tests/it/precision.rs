//! Encoders in bf16 and in 8 bits point where Python's transformers do, for every family, and Burn's devices refuse
//! them.

use crate::golden;

use std::path::Path;

use dpr_core::Precision;
use dpr_core::device::Device;
use golden::{FAMILIES, Golden, cosine, fetched, root};

/// The bounds of small models: their weights are random and their vectors have few numbers, so that errors average out
/// less than in a trained model.
const SMALL: [f64; 2] = [0.9998, 0.998];

/// Checks that the cosine of every vector with Python's is at least `bounds` in bf16 and in 8 bits.
fn check(fixture: &str, dir: &Path, bounds: [f64; 2]) {
    let golden = Golden::read(fixture);
    for (precision, least) in [Precision::Bf16, Precision::Int8].into_iter().zip(bounds) {
        let encoder = golden.encoder_at(dir, &Device::Kernel, precision).unwrap();
        assert_eq!(encoder.precision(), precision);
        let rows: Vec<_> = golden
            .passages
            .iter()
            .map(|(title, text)| encoder.passage_tokens(title, text).unwrap())
            .collect();
        let vectors = encoder.forward(&rows).unwrap();
        let pairs = vectors.chunks(encoder.dim()).zip(&golden.passage_vectors);
        let worst = pairs.map(|(got, expected)| cosine(got, expected)).fold(1.0, f64::min);
        println!("{fixture} in {precision}: {} rows, worst cosine {worst:.6}", rows.len());
        assert!(worst >= least, "{fixture} in {precision}: cosine {worst}");
    }
}

#[test]
fn small_models_of_every_family() {
    for model in ["mpnet-tiny"].into_iter().chain(FAMILIES) {
        check(model, &root().join("tests/fixtures").join(model), SMALL);
    }
    for model in ["dpr-tiny", "dpr-tiny-projected"] {
        check(model, &root().join(format!("tests/fixtures/{model}/ctx")), SMALL);
    }
}

#[test]
fn minilm() {
    if let Some(dir) = fetched("minilm") {
        check("minilm", &dir, [0.9999, 0.998]);
    }
}

#[cfg(feature = "flex")]
#[test]
fn a_device_of_burn_refuses_by_name() {
    let dir = root().join("tests/fixtures/mpnet-tiny");
    let encoder = Golden::read("mpnet-tiny").encoder_at(&dir, &Device::flex().unwrap(), Precision::Bf16);
    let error = encoder.map(drop).unwrap_err().to_string();
    assert_eq!(
        error,
        "the device flex computes in f32, not in bf16: use the device cpu, or the precision f32"
    );
}
