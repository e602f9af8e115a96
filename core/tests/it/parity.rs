//! Vectors equal those of Python's transformers, on every device and for every architecture.

use crate::golden;

use std::path::Path;

use dpr_core::device::Device;
use dpr_core::{DeviceChoice, TextEncoder};
use golden::{FAMILIES, Golden, cosine, difference, fetched, root};

/// How near a device must come.
struct Tolerance {
    cosine: f64,
    difference: f64,
}

const CPU: Tolerance = Tolerance { cosine: 0.99999, difference: 2e-4 };
const GPU: Tolerance = Tolerance { cosine: 0.9999, difference: 1e-2 };

/// Returns the engines of this build that need no GPU.
fn engines() -> Vec<DeviceChoice> {
    let flex = cfg!(feature = "flex").then_some(DeviceChoice::Flex);
    flex.into_iter().chain([DeviceChoice::Cpu]).collect()
}

/// Checks up to `limit` questions and passages, in batches of mixed length.
fn check(
    fixture: &str,
    questions: &Path,
    passages: &Path,
    device: &Device,
    limit: usize,
    within: &Tolerance,
) {
    let golden = Golden::read(fixture);
    let encoder = golden.encoder(questions, device);
    let rows: Vec<_> =
        golden.questions.iter().take(limit).map(|text| encoder.question_tokens(text).unwrap()).collect();
    compare(fixture, &encoder, &rows, &golden.question_vectors, within);
    let encoder = golden.encoder(passages, device);
    let rows: Vec<_> = golden
        .passages
        .iter()
        .take(limit)
        .map(|(title, text)| encoder.passage_tokens(title, text).unwrap())
        .collect();
    compare(fixture, &encoder, &rows, &golden.passage_vectors, within);
}

fn compare(name: &str, encoder: &TextEncoder, rows: &[Vec<u32>], expected: &[Vec<f32>], within: &Tolerance) {
    let mut got: Vec<Vec<f32>> = Vec::new();
    for batch in rows.chunks(8) {
        let vectors = encoder.forward(batch).unwrap();
        got.extend(vectors.chunks(encoder.dim()).map(<[f32]>::to_vec));
    }
    assert_eq!(got.len(), rows.len(), "{name}: a vector for each row");
    let (mut worst, mut largest) = (1f64, 0f64);
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        let (cosine, difference) = (cosine(got, expected), difference(got, expected));
        assert!(cosine >= within.cosine, "{name}, row {index} on {}: cosine {cosine}", encoder.device_name());
        assert!(
            difference <= within.difference,
            "{name}, row {index} on {}: a number differs by {difference} of the norm",
            encoder.device_name()
        );
        (worst, largest) = (worst.min(cosine), largest.max(difference));
    }
    println!(
        "{name} on {}: {} rows, worst cosine {worst:.7}, largest difference {largest:.1e}",
        encoder.device_name(),
        got.len()
    );
}

fn small_models(device: &Device, within: &Tolerance) {
    let at = |path: &str| root().join("tests/fixtures").join(path);
    for model in ["dpr-tiny", "dpr-tiny-projected"] {
        check(model, &at(&format!("{model}/question")), &at(&format!("{model}/ctx")), device, 16, within);
    }
    for model in ["mpnet-tiny"].into_iter().chain(FAMILIES) {
        check(model, &at(model), &at(model), device, 16, within);
    }
}

#[cfg(feature = "flex")]
#[test]
fn small_models_on_flex() {
    small_models(&Device::open(DeviceChoice::Flex).unwrap(), &CPU);
}

#[test]
fn small_models_on_the_cpu_kernels() {
    small_models(&Device::open(DeviceChoice::Cpu).unwrap(), &CPU);
}

#[test]
fn minilm_on_flex_and_the_cpu_kernels() {
    let Some(dir) = fetched("minilm") else { return };
    for choice in engines() {
        check("minilm", &dir, &dir, &Device::open(choice).unwrap(), 64, &CPU);
    }
}

#[test]
fn mpnet_on_flex_and_the_cpu_kernels() {
    let Some(dir) = fetched("mpnet") else { return };
    for choice in engines() {
        check("mpnet", &dir, &dir, &Device::open(choice).unwrap(), 16, &CPU);
    }
}

#[test]
fn wgpu_gives_the_same_vectors() {
    let Some(device) = golden::gpu() else { return };
    small_models(&device, &GPU);
}

#[test]
fn minilm_on_wgpu() {
    let Some(device) = golden::gpu() else { return };
    // Questions, and as many passages, of the fixture's 64 each.
    let asked = std::env::var("DPR_WGPU_ROWS").ok().and_then(|rows| rows.parse().ok());
    // Burn tunes and compiles products of this width for more than nine minutes there. The browser's tests run the same
    // model on a software GPU, by the page's own kernels.
    if asked.is_none() && device.name().contains("a software adapter") {
        eprintln!("skipped: {} takes minutes to tune its kernels; DPR_WGPU_ROWS=8 runs it", device.name());
        return;
    }
    let Some(dir) = fetched("minilm") else { return };
    check("minilm", &dir, &dir, &device, asked.unwrap_or(8), &GPU);
}

#[test]
fn a_row_in_a_batch_equals_the_row_alone() {
    let own = FAMILIES.map(|family| (family, family));
    for choice in engines() {
        for (model, texts) in
            [("mpnet-tiny", "mpnet-tiny"), ("dpr-tiny/ctx", "mpnet-tiny")].into_iter().chain(own)
        {
            let golden = Golden::read(texts);
            let dir = root().join("tests/fixtures").join(model);
            let encoder = golden.encoder(&dir, &Device::open(choice).unwrap());
            let rows: Vec<_> = golden
                .passages
                .iter()
                .map(|(title, text)| encoder.passage_tokens(title, text).unwrap())
                .collect();
            assert!(rows.iter().any(|row| row.len() != rows[0].len()), "the rows differ in length");
            let together = encoder.forward(&rows).unwrap();
            for (row, got) in rows.iter().zip(together.chunks(encoder.dim())) {
                let alone = encoder.forward(std::slice::from_ref(row)).unwrap();
                assert!(difference(got, &alone) <= 1e-5, "{model} on {choice}");
            }
        }
    }
}
