//! Readers.

use dpr_core::ReadOptions;
use dpr_core::reader::PassageReading;
use js_sys::Float64Array;
use wasm_bindgen::prelude::*;

use crate::open;
use crate::passages::{PairFiles, pairs};

/// Spans of one passage that are returned at most.
const MOST_SPANS: usize = 100;

/// Marks the answers of a question in passages.
#[wasm_bindgen]
pub struct Reader {
    inner: dpr_core::Reader,
}

#[wasm_bindgen]
impl Reader {
    /// Loads a reader from the bytes of `config.json`, `tokenizer.json` and a safetensors file in f32, f16, 8 or 4
    /// bits. A question and a passage are cut to `max_tokens` together, or to the limit in the configuration. `shared` is
    /// a safetensors file of the tensors that `weights` leaves out because the question encoder has them. The WebGPU
    /// module asks the browser for an adapter first.
    ///
    /// # Errors
    /// As [`QuestionEncoder::load`](crate::QuestionEncoder::load).
    pub async fn load(
        config: Vec<u8>,
        tokenizer: Vec<u8>,
        weights: Vec<u8>,
        max_tokens: Option<usize>,
        shared: Option<Vec<u8>>,
    ) -> Result<Reader, JsError> {
        let device = open().await?;
        let files = PairFiles { config, tokenizer, weights, shared };
        let inner = files.load(|files| dpr_core::Reader::load(files, max_tokens, &device))?;
        Ok(Self { inner })
    }

    /// Reads passages and returns what is found in them, a `Float64Array` of `[passages, 1 + 3 * spans]` numbers: the
    /// logit by which the passage is chosen, then for each of its best spans, which do not overlap, its start and end
    /// in the passage's text, in units of UTF-16, and its score from 0 to 1. The logit is NaN for a passage without a
    /// text where no layer chooses passages; NaN stand also where there are fewer spans. `spans` is at most 100; more
    /// are taken for as many. With 0 the passages are only put in order, for less work: on the CPU and with weights
    /// in 8 bits by inputs of 7 bits, so that the logit is a little another one than with spans.
    ///
    /// # Errors
    /// A JavaScript `Error` for an empty question, one that leaves no room for a passage, as many titles as there are
    /// not texts, or a device that failed.
    pub async fn read(
        &self,
        question: String,
        titles: Vec<String>,
        texts: Vec<String>,
        spans: usize,
        max_answer_tokens: usize,
    ) -> Result<Float64Array, JsError> {
        let (passages, spans) = (pairs(&titles, &texts)?, spans.min(MOST_SPANS));
        let options = ReadOptions { spans, max_answer_tokens };
        let readings = self.inner.read_passages_async(&question, &passages, options).await?;
        let rows = readings.iter().zip(&texts).flat_map(|(reading, text)| numbers(reading, text, spans));
        Ok(Float64Array::from(rows.collect::<Vec<_>>().as_slice()))
    }

    /// Returns the number of tokens that a question and a passage are cut to.
    #[wasm_bindgen(getter, js_name = maxTokens)]
    pub fn max_tokens(&self) -> usize {
        self.inner.max_tokens()
    }

    /// Returns the device that the reader runs on: `cpu`, or `webgpu` and the adapter's name.
    #[wasm_bindgen(getter)]
    pub fn device(&self) -> String {
        self.inner.device_name().to_owned()
    }
}

/// Returns the row of one passage, as [`Reader::read`] describes it.
fn numbers(reading: &PassageReading, text: &str, spans: usize) -> Vec<f64> {
    let mut row = vec![reading.selection.unwrap_or(f64::NAN)];
    for span in reading.spans.iter().take(spans) {
        let place = span.utf16(text);
        row.extend([place.start as f64, place.end as f64, span.score]);
    }
    row.resize(1 + 3 * spans, f64::NAN);
    row
}
