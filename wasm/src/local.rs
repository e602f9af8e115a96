//! Local search, in the CPU module: ranking of an index that a page downloaded.

use dpr_core::private::local::{Found, LocalIndex as Index};
use dpr_core::private::projection::Projection;
use wasm_bindgen::prelude::*;

/// An index that is searched in the page.
#[wasm_bindgen]
pub struct LocalIndex {
    inner: Index,
}

#[wasm_bindgen]
impl LocalIndex {
    /// Makes an index without passages from the bytes of its projection.
    ///
    /// # Errors
    /// A JavaScript `Error` that says why the bytes are no projection.
    #[wasm_bindgen(constructor)]
    pub fn new(projection: &[u8]) -> Result<LocalIndex, JsError> {
        Ok(Self { inner: Index::new(Projection::from_bytes(projection)?) })
    }

    /// Adds the passages of a file of codes, which has so many of them.
    ///
    /// # Errors
    /// A JavaScript `Error` that says what is wrong with the codes; the index is then as it was.
    pub fn add(&mut self, codes: &[u8], passages: usize) -> Result<(), JsError> {
        Ok(self.inner.add(codes, passages)?)
    }

    /// Returns the best `k` passages for the vector of a question: row and score of each, best first, `[k, 2]`.
    ///
    /// # Errors
    /// A JavaScript `Error` for a vector of another length or with a number that is not finite, and for `k` = 0.
    pub fn search(&self, question: &[f32], k: usize) -> Result<Vec<f64>, JsError> {
        let found = self.inner.search(question, k)?;
        Ok(found.into_iter().flat_map(|Found { row, score }| [f64::from(row), f64::from(score)]).collect())
    }

    /// Returns the number of passages.
    #[wasm_bindgen(getter)]
    pub fn passages(&self) -> usize {
        self.inner.len()
    }
}
