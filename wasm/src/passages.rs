//! Parts that cross-encoders and readers share: their files, and passages as JavaScript hands them over.

use dpr_core::EncoderBytes;
use wasm_bindgen::prelude::*;

/// The bytes of a model that reads pairs.
pub(crate) struct PairFiles {
    pub(crate) config: Vec<u8>,
    pub(crate) tokenizer: Vec<u8>,
    pub(crate) weights: Vec<u8>,
    /// Tensors that `weights` leaves out.
    pub(crate) shared: Option<Vec<u8>>,
}

impl PairFiles {
    /// Loads a model of them by way of `load`.
    ///
    /// # Errors
    /// A JavaScript `Error` with the message of `load`'s.
    pub(crate) fn load<T, E: std::error::Error>(
        &self,
        load: impl FnOnce(&EncoderBytes<'_>) -> Result<T, E>,
    ) -> Result<T, JsError> {
        let shared = self.shared.as_deref().map(|bytes| ("shared", bytes));
        let weights: Vec<_> = [("weights", self.weights.as_slice())].into_iter().chain(shared).collect();
        let files = EncoderBytes { config: &self.config, tokenizer: &self.tokenizer, weights: &weights };
        load(&files).map_err(JsError::from)
    }
}

/// Returns the `(title, text)` pairs of passages.
///
/// # Errors
/// A JavaScript `Error` where there are not as many titles as texts.
pub(crate) fn pairs<'a>(
    titles: &'a [String],
    texts: &'a [String],
) -> Result<Vec<(&'a str, &'a str)>, JsError> {
    if titles.len() != texts.len() {
        let message = format!("{} titles and {} texts: give each text its title", titles.len(), texts.len());
        return Err(JsError::new(&message));
    }
    Ok(titles.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect())
}
