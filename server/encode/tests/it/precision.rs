//! Encoding in narrower numbers: what a vectors directory says of it, and what is mixed or refused.

use std::sync::atomic::AtomicBool;

use crate::files::fixtures;

use dpr_core::{DeviceChoice, Precision};
use dpr_data::Passage;
use dpr_encode::model::{ImportOptions, ModelDir, import};
use dpr_encode::{EncodeOptions, EncodingError, PipelineOptions, Shard, encode_corpus};
use dpr_files::Job;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use serde_json::Value;
use tempfile::TempDir;

fn model() -> (TempDir, ModelDir) {
    let (out, tiny) = (tempfile::tempdir().unwrap(), fixtures().join("dpr-tiny"));
    let path = out.path().join("model");
    import(&tiny.join("question"), Some(&tiny.join("ctx")), &path, &ImportOptions::default()).unwrap();
    let model = ModelDir::open(&path).unwrap();
    (out, model)
}

fn corpus() -> Vec<Passage> {
    let text = |i: usize| format!("Passage {i} says that cats sleep {} hours of the day.", i * 7 % 24);
    (0..40).map(|i| Passage::new(i.to_string(), "Cats", text(i))).collect()
}

/// Encodes a shard of the corpus into `dir/name` and returns what its manifest says.
fn encode(dir: &TempDir, name: &str, model: &ModelDir, shard: (u32, u32)) -> Result<Value, EncodingError> {
    let encoder = model.passage_encoder(DeviceChoice::Cpu).unwrap();
    let options = EncodeOptions {
        shard: Shard::new(shard.0, shard.1).unwrap(),
        pipeline: PipelineOptions::for_device("cpu", None, Some(1)),
        force: false,
    };
    let (never, path) = (AtomicBool::new(false), dir.path().join(name));
    let job = Job { stop: &never, progress: &Silent };
    encode_corpus(&encoder, model.manifest().space(), &corpus(), &path, &options, job)?;
    Ok(serde_json::from_slice(&fs_err::read(path.join("manifest.json")).unwrap()).unwrap())
}

#[test]
fn a_vectors_directory_says_its_precision_and_f32_says_nothing() {
    let (_dir, model) = model();
    let out = tempfile::tempdir().unwrap();
    let plain = encode(&out, "plain", &model, (0, 1)).unwrap();
    assert!(plain.get("precision").is_none(), "{plain}");
    for (precision, least) in [(Precision::Bf16, 0.9999), (Precision::Int8, 0.998)] {
        let manifest =
            encode(&out, precision.name(), &model.clone().in_precision(precision), (0, 1)).unwrap();
        assert_eq!(manifest["precision"], precision.name());
        assert_eq!(manifest["model_fingerprint"], plain["model_fingerprint"], "the space is the same");
        let [a, b] =
            ["plain", precision.name()].map(|name| VectorSet::read(&[out.path().join(name)]).unwrap());
        assert_ne!(*a.rows, *b.rows);
        for (a, b) in a.rows.chunks(a.dim).zip(b.rows.chunks(b.dim)) {
            let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
            let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
            assert!(cosine >= least, "{precision}: {cosine}");
        }
    }
}

#[test]
fn an_encoding_goes_on_in_its_own_precision_only() {
    let (_dir, model) = model();
    let out = tempfile::tempdir().unwrap();
    encode(&out, "vectors", &model.clone().in_precision(Precision::Bf16), (0, 1)).unwrap();
    let error = encode(&out, "vectors", &model, (0, 1)).unwrap_err().to_string();
    assert!(error.contains("its precision is bf16, this one's is f32"), "{error}");
}

#[test]
fn shards_of_different_precisions_are_joined() {
    let (_dir, model) = model();
    let out = tempfile::tempdir().unwrap();
    encode(&out, "0", &model, (0, 2)).unwrap();
    encode(&out, "1", &model.in_precision(Precision::Int8), (1, 2)).unwrap();
    let set = VectorSet::read(&[out.path().join("0"), out.path().join("1")]).unwrap();
    assert_eq!(set.passages.len(), 40);
}
