//! Reads what `tests/python/train_reference.py` wrote with PyTorch.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use dpr_core::DeviceChoice;
use dpr_train::{Batch, DualEncoder, Gradient, Objective, Targets, TrainDevice, TrainedEncoder};
use half::f16;
use serde::Deserialize;
use serde_json::json;

pub(crate) struct Golden {
    pub(crate) cases: Vec<Case>,
    pub(crate) run: Run,
}

pub(crate) struct Case {
    pub(crate) model: String,
    pub(crate) objective: Objective,
    pub(crate) batch: Batch,
    pub(crate) loss: f64,
    pub(crate) gradients: Vec<BTreeMap<String, Expected>>,
}

pub(crate) struct Expected {
    pub(crate) norm: f64,
    pub(crate) values: Vec<f32>,
}

pub(crate) struct Run {
    pub(crate) batches: Vec<Batch>,
    pub(crate) learning_rate: f64,
    pub(crate) warm_up: usize,
    pub(crate) clip: f64,
    pub(crate) weight_decay: f64,
    pub(crate) losses: Vec<f64>,
    pub(crate) norms: Vec<f64>,
}

#[derive(Deserialize)]
struct RawBatch {
    questions: Vec<Vec<u32>>,
    passages: Vec<Vec<u32>>,
    positive: Vec<usize>,
    masked: Vec<(usize, usize)>,
}

#[derive(Deserialize)]
struct RawCase {
    model: String,
    objective: String,
    similarity: String,
    temperature: f64,
    matryoshka: Vec<usize>,
    batch: RawBatch,
    loss: f64,
    gradients: Vec<BTreeMap<String, RawGradient>>,
}

#[derive(Deserialize)]
struct RawGradient {
    scale: f64,
    norm: f64,
    data: String,
}

#[derive(Deserialize)]
struct RawRun {
    batches: Vec<RawBatch>,
    learning_rate: f64,
    warm_up: usize,
    clip: f64,
    weight_decay: f64,
    losses: Vec<f64>,
    norms: Vec<f64>,
}

#[derive(Deserialize)]
struct Raw {
    cases: Vec<RawCase>,
    run: RawRun,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("server lies in the workspace")
        .join("tests/fixtures")
}

impl From<RawBatch> for Batch {
    fn from(raw: RawBatch) -> Self {
        let targets = Targets { positive: raw.positive, masked: raw.masked, ..Targets::default() };
        Self { questions: raw.questions, passages: raw.passages, targets }
    }
}

impl Golden {
    pub(crate) fn read() -> Self {
        let file = std::fs::File::open(fixtures().join("train/golden.json.gz")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        let raw: Raw = serde_json::from_str(&text).unwrap();
        let run = raw.run;
        Self {
            cases: raw.cases.into_iter().map(Case::from).collect(),
            run: Run {
                batches: run.batches.into_iter().map(Batch::from).collect(),
                learning_rate: run.learning_rate,
                warm_up: run.warm_up,
                clip: run.clip,
                weight_decay: run.weight_decay,
                losses: run.losses,
                norms: run.norms,
            },
        }
    }
}

impl From<RawCase> for Case {
    fn from(raw: RawCase) -> Self {
        let objective = json!({
            "loss": raw.objective, "similarity": raw.similarity, "temperature": raw.temperature,
            "matryoshka": raw.matryoshka,
        });
        let gradient = |(name, raw): (String, RawGradient)| {
            let bytes = base64::engine::general_purpose::STANDARD.decode(raw.data).unwrap();
            let values = bytes.as_chunks::<2>().0.iter();
            let values = values.map(|b| f16::from_le_bytes(*b).to_f32() * raw.scale as f32).collect();
            (name, Expected { norm: raw.norm, values })
        };
        Self {
            model: raw.model,
            objective: serde_json::from_value(objective).unwrap(),
            batch: raw.batch.into(),
            loss: raw.loss,
            gradients: raw.gradients.into_iter().map(|g| g.into_iter().map(gradient).collect()).collect(),
        }
    }
}

pub(crate) fn device() -> TrainDevice {
    TrainDevice::open(DeviceChoice::Flex).unwrap()
}

/// The encoders of a case: `dpr` are two, `mpnet` is one, with mean pooling and vectors of length 1.
pub(crate) fn dual_encoder(model: &str, device: &TrainDevice) -> DualEncoder {
    let load = |dir: &str, mean: bool| {
        let from = fixtures().join(dir);
        let to = tempfile::tempdir().unwrap();
        for file in ["tokenizer.json", "model.safetensors"] {
            std::fs::copy(from.join(file), to.path().join(file)).unwrap();
        }
        let config = std::fs::read(from.join("config.json")).unwrap();
        let mut config: serde_json::Value = serde_json::from_slice(&config).unwrap();
        let pooling = if mean { "mean" } else { "cls" };
        config["dpr"] = json!({ "pooling": pooling, "normalize": mean, "max_tokens": 64 });
        std::fs::write(to.path().join("config.json"), config.to_string()).unwrap();
        TrainedEncoder::load(to.path(), 64, device).unwrap()
    };
    let encoders = match model {
        "mpnet" => vec![load("mpnet-tiny", true)],
        _ => vec![load("dpr-tiny/question", false), load("dpr-tiny/ctx", false)],
    };
    DualEncoder { encoders, max_question_tokens: 64, max_passage_tokens: 64 }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

pub(crate) fn length(values: &[f32]) -> f64 {
    dot(values, values).sqrt()
}

pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f64 {
    dot(a, b) / (length(a) * length(b))
}

/// Returns the GPU, a software one too; none, with a line that says so, where there is no driver.
///
/// # Panics
/// In CI, where there must be one.
pub(crate) fn gpu() -> Option<TrainDevice> {
    match TrainDevice::open(DeviceChoice::Wgpu) {
        Ok(gpu) => Some(gpu),
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("skipped: {error}; cargo xtask setup installs a software driver");
            None
        }
    }
}

/// Returns gradients on the host, a list a parameter of each encoder.
pub(crate) fn lists(gradients: &[Gradient]) -> Vec<Vec<Vec<f32>>> {
    gradients.iter().map(|gradient| gradient.clone().into_host().unwrap()).collect()
}

/// The length of the difference as a share of the expected gradient's.
pub(crate) fn difference(got: &[Vec<Vec<f32>>], expected: &[Vec<Vec<f32>>]) -> f64 {
    let (mut off, mut whole) = (0.0, 0.0);
    for (got, expected) in got.iter().flatten().zip(expected.iter().flatten()) {
        assert_eq!(got.len(), expected.len());
        off += got.iter().zip(expected).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
        whole += expected.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>();
    }
    (off / whole).sqrt()
}
