//! Blurred search: a question as few coordinates with noise, and candidates ranked by its own vector.

use dpr_core::private::blur::{DeviceKey, Level};
use dpr_core::private::projection::Projection;
use dpr_core::private::rerank::Reranker;
use half::f16;
use js_sys::Float64Array;
use wasm_bindgen::prelude::*;

use super::coded;

/// The projection of a server's index, checked.
#[wasm_bindgen]
pub struct Blurred {
    projection: Projection,
}

/// A question that was blurred: what is sent, and what ranks the candidates.
#[wasm_bindgen]
pub struct BlurredQuestion {
    sent: Vec<u8>,
    reranker: Reranker,
    code_len: usize,
}

#[wasm_bindgen]
impl Blurred {
    /// Reads a projection. Rows that are not orthonormal are refused: scores would not be those of the vectors.
    ///
    /// # Errors
    /// An `Error` with the code `unknown_parameters`.
    pub fn read(projection: &[u8]) -> Result<Blurred, JsValue> {
        let read = Projection::from_bytes(projection);
        Ok(Self { projection: read.map_err(|error| coded("unknown_parameters", error))? })
    }

    /// Returns the numbers in a vector.
    #[wasm_bindgen(getter)]
    pub fn dim(&self) -> usize {
        self.projection.dim()
    }

    /// Returns the bytes of a candidate's code.
    #[wasm_bindgen(getter, js_name = codeLength)]
    pub fn code_length(&self) -> usize {
        self.projection.code_len()
    }

    /// Blurs a question: its vector and its token ids, with the noise that this device's key gives them. `level` is
    /// `light`, `medium` or `strong`, and `model` the fingerprint of the encoder.
    ///
    /// # Errors
    /// An `Error` with the code `unknown_parameters` for another level, and for a projection that is too small for it;
    /// one without a code for a key that has not 32 bytes, or a vector without direction.
    pub fn ask(
        &self,
        level: &str,
        vector: &[f32],
        key: &[u8],
        model: &str,
        tokens: &[u32],
    ) -> Result<BlurredQuestion, JsValue> {
        let found = Level::ALL.into_iter().find(|known| known.name() == level);
        let unknown = || coded("unknown_parameters", format!("there is no level {level}"));
        let blur = found.ok_or_else(unknown)?.blur();
        let key: [u8; 32] = key.try_into().map_err(|_| JsError::new("a device key has 32 bytes"))?;
        let sent = blur
            .apply(&self.projection, vector, &DeviceKey::new(key), model, tokens)
            .map_err(|error| coded("unknown_parameters", error))?;
        Ok(BlurredQuestion {
            sent: sent.iter().flat_map(|number| f16::from_f32(*number).to_le_bytes()).collect(),
            reranker: Reranker::new(&self.projection, vector),
            code_len: self.projection.code_len(),
        })
    }
}

#[wasm_bindgen]
impl BlurredQuestion {
    /// Returns the coordinates as they are sent, two bytes (f16) for each.
    #[wasm_bindgen(getter)]
    pub fn sent(&self) -> Vec<u8> {
        self.sent.clone()
    }

    /// Returns the `k` best of the candidates by the question's own vector, best first: position and score of each,
    /// `[k, 2]`. `codes` are the codes of all candidates, one after the other.
    ///
    /// # Errors
    /// An `Error` with the code `unexpected_answer` for codes of another length, or that give no score.
    pub fn rank(&self, codes: &[u8], k: usize) -> Result<Float64Array, JsValue> {
        if !codes.len().is_multiple_of(self.code_len) {
            let text = format!("{} bytes are not codes of {} bytes each", codes.len(), self.code_len);
            return Err(coded("unexpected_answer", text));
        }
        let ranked = self.reranker.rank(codes.chunks_exact(self.code_len), k);
        let ranked = ranked.map_err(|error| coded("unexpected_answer", error))?;
        let numbers: Vec<f64> =
            ranked.into_iter().flat_map(|(at, score)| [at as f64, f64::from(score)]).collect();
        Ok(Float64Array::from(numbers.as_slice()))
    }
}
