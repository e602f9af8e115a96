//! Reads what `tests/python/reader_reference.py` wrote with PyTorch.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::RangeInclusive;

use base64::Engine as _;
use serde::Deserialize;

use super::common::fixtures;

/// One step of a reader.
#[derive(Deserialize)]
pub(crate) struct ReaderStep {
    pub(crate) max_tokens: usize,
    pub(crate) questions: Vec<ReaderQuestion>,
    pub(crate) loss: f64,
    gradients: BTreeMap<String, RawGradient>,
}

#[derive(Deserialize)]
pub(crate) struct ReaderQuestion {
    pub(crate) question: String,
    pub(crate) answers: Vec<String>,
    /// `(title, text)`, the positive first.
    pub(crate) passages: Vec<(String, String)>,
    pub(crate) ids: Vec<Vec<u32>>,
    spans: Vec<(usize, usize)>,
}

#[derive(Deserialize)]
struct RawGradient {
    data: String,
}

impl ReaderStep {
    pub(crate) fn read() -> Self {
        let file = fs_err::File::open(fixtures().join("train/reader.json.gz")).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The gradient of a tensor in the order of the files; `None` where PyTorch has none.
    pub(crate) fn gradient(&self, name: &str) -> Option<Vec<f32>> {
        let raw = self.gradients.get(name)?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(&raw.data).unwrap();
        Some(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
    }
}

impl ReaderQuestion {
    pub(crate) fn spans(&self) -> Vec<RangeInclusive<usize>> {
        self.spans.iter().map(|(first, last)| *first..=*last).collect()
    }
}
