//! Embeddings: checked vectors and their wire encodings.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use half::f16;

/// A vector `[dim]` that an inner product can rank by: finite, and not all zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding(Vec<f32>);

/// The reason why numbers are not an [`Embedding`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EmbeddingError {
    /// Another number of dimensions than the index has.
    #[error(
        "the vector has {got} numbers, expected {expected}: was the question encoded with another model?"
    )]
    Dimension {
        /// Numbers given.
        got: usize,
        /// Numbers expected.
        expected: usize,
    },
    /// A NaN or an infinity.
    #[error("the vector's number at {position} is not finite: the encoder that made it failed")]
    NotFinite {
        /// Position of the first such number.
        position: usize,
    },
    /// Every number is zero.
    #[error("the vector is all zero and has no direction to search in: the encoder that made it failed")]
    Zero,
    /// Not base64, or not a whole number of little-endian f32 or f16.
    #[error("the vector is not base64 of little-endian f32 or f16 numbers: {reason}")]
    Base64 {
        /// The fault that was found.
        reason: String,
    },
}

impl Embedding {
    /// Checks `values` as a vector of `dim` numbers.
    ///
    /// # Errors
    /// [`EmbeddingError`] for another length, a number that is not finite, or all zero.
    pub fn new(values: Vec<f32>, dim: usize) -> Result<Self, EmbeddingError> {
        Self::check(&values, dim)?;
        Ok(Self(values))
    }

    /// Checks numbers that are kept elsewhere, as [`Embedding::new`] does.
    ///
    /// # Errors
    /// As [`Embedding::new`].
    pub fn check(values: &[f32], dim: usize) -> Result<(), EmbeddingError> {
        if values.len() != dim {
            return Err(EmbeddingError::Dimension { got: values.len(), expected: dim });
        }
        if let Some(position) = values.iter().position(|v| !v.is_finite()) {
            return Err(EmbeddingError::NotFinite { position });
        }
        if values.iter().all(|v| *v == 0.0) {
            return Err(EmbeddingError::Zero);
        }
        Ok(())
    }

    /// Reads base64 of `dim` little-endian numbers, f32 or f16 by the number of bytes.
    ///
    /// Nothing else tells the two apart: `dim / 2` numbers in f32, of a model of half as many dimensions, have the
    /// bytes of `dim` in f16 and are read as those, into numbers without a meaning or [`EmbeddingError::NotFinite`].
    ///
    /// # Errors
    /// [`EmbeddingError::Base64`] when it is not base64 or a broken number of bytes, else as [`Embedding::new`].
    pub fn from_base64(text: &str, dim: usize) -> Result<Self, EmbeddingError> {
        let bytes = STANDARD.decode(text).map_err(|e| EmbeddingError::Base64 { reason: e.to_string() })?;
        let values = if bytes.len() == dim * 2 {
            bytes.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect()
        } else if bytes.len().is_multiple_of(4) {
            bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
        } else {
            let reason = format!("{} bytes are neither {} (f16) nor {} (f32)", bytes.len(), dim * 2, dim * 4);
            return Err(EmbeddingError::Base64 { reason });
        };
        Self::new(values, dim)
    }

    /// Returns the numbers, `[dim]`.
    pub fn as_slice(&self) -> &[f32] {
        &self.0
    }

    /// Returns the numbers, `[dim]`.
    pub fn into_vec(self) -> Vec<f32> {
        self.0
    }

    /// Returns the number of dimensions.
    pub fn dim(&self) -> usize {
        self.0.len()
    }

    /// Returns base64 of the numbers as little-endian f32, which [`Embedding::from_base64`] reads back exactly.
    pub fn to_base64_f32(&self) -> String {
        STANDARD.encode(self.0.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }

    /// Returns base64 of the numbers rounded to little-endian f16: half the bytes, and about three digits.
    pub fn to_base64_f16(&self) -> String {
        STANDARD.encode(self.0.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect::<Vec<u8>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_wire_encodings_read_back() {
        let vector = Embedding::new(vec![0.25, -1.5, 3.0e-3], 3).unwrap();
        assert_eq!(Embedding::from_base64(&vector.to_base64_f32(), 3).unwrap(), vector);
        let half = Embedding::from_base64(&vector.to_base64_f16(), 3).unwrap();
        assert!(half.as_slice().iter().zip(vector.as_slice()).all(|(a, b)| (a - b).abs() < 1e-5));
        // numpy: base64.b64encode(np.array([0.25, -1.5, 3e-3], '<f4').tobytes())
        assert_eq!(vector.to_base64_f32(), "AACAPgAAwL+mm0Q7");
    }

    #[test]
    fn numbers_that_cannot_rank_are_refused() {
        let nan =
            |v: f32| STANDARD.encode([1f32, v].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>());
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(Embedding::from_base64(&nan(bad), 2), Err(EmbeddingError::NotFinite { position: 1 }));
        }
        assert_eq!(Embedding::new(vec![0.0; 4], 4), Err(EmbeddingError::Zero));
        assert_eq!(
            Embedding::new(vec![1.0; 767], 768),
            Err(EmbeddingError::Dimension { got: 767, expected: 768 })
        );
        assert!(matches!(Embedding::from_base64("not base64!", 2), Err(EmbeddingError::Base64 { .. })));
        assert!(matches!(Embedding::from_base64("AAAA", 2), Err(EmbeddingError::Base64 { .. })));
    }
}
