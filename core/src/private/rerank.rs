//! Re-ranking: codes of candidates' vectors, which a server makes, and their scores by the question's own vector, which
//! it never saw.

use super::projection::Projection;
use crate::kernel::search::f32::inner_product;
use crate::kernel::search::i8::quantize_row;

/// Bytes of a code before its numbers: the scale as a little-endian f32.
const SCALE: usize = 4;

/// A code that does not belong to the projection.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the candidate's code {what}: it was made with another projection, or spoiled on the way")]
pub struct CodeError {
    what: String,
}

impl Projection {
    /// Returns the bytes of a code.
    pub fn code_len(&self) -> usize {
        SCALE + self.rank()
    }

    /// Returns the code of a passage's vector `[dim]`: a scale (f32) and the coordinates of its distance from the mean,
    /// `[rank]`, as i8. About 0.4 % of a coordinate's range is lost.
    pub fn code(&self, vector: &[f32]) -> Vec<u8> {
        let coordinates = self.centred(vector);
        let mut codes = vec![0i8; coordinates.len()];
        let scale = quantize_row(&coordinates, &mut codes);
        let numbers = codes.iter().map(|code| code.cast_unsigned());
        scale.to_le_bytes().into_iter().chain(numbers).collect()
    }
}

/// A question as candidates are scored by it, which stays where the question was asked.
#[derive(Clone, Debug)]
pub struct Reranker {
    coordinates: Vec<f32>,
    /// Inner product with the mean, which codes leave out.
    offset: f32,
}

impl Reranker {
    /// Takes a question's vector `[dim]`.
    pub fn new(projection: &Projection, question: &[f32]) -> Self {
        let coordinates = projection.project(question, projection.rank());
        Self { coordinates, offset: inner_product(question, projection.mean()) }
    }

    /// Returns about the inner product of the question's vector and the one that was coded.
    ///
    /// # Errors
    /// [`CodeError`] for another number of bytes, and for a scale that is not finite or negative.
    pub fn score(&self, code: &[u8]) -> Result<f32, CodeError> {
        let Some((scale, numbers)) = code.split_first_chunk::<SCALE>() else {
            return Err(CodeError { what: format!("has {} bytes", code.len()) });
        };
        if numbers.len() != self.coordinates.len() {
            let expected = SCALE + self.coordinates.len();
            return Err(CodeError { what: format!("has {} bytes, not {expected}", code.len()) });
        }
        let scale = f32::from_le_bytes(*scale);
        let sum: f32 = self
            .coordinates
            .iter()
            .zip(numbers)
            .map(|(coordinate, code)| coordinate * f32::from(code.cast_signed()))
            .sum();
        let score = self.offset + scale * sum;
        if scale < 0.0 || !score.is_finite() {
            return Err(CodeError { what: "gives no finite score".to_owned() });
        }
        Ok(score)
    }

    /// Returns the positions of the `k` best of `codes` with their scores, best first, equal scores in their order.
    ///
    /// # Errors
    /// As [`Reranker::score`], for the first code that has an error.
    pub fn rank<'a>(
        &self,
        codes: impl Iterator<Item = &'a [u8]>,
        k: usize,
    ) -> Result<Vec<(usize, f32)>, CodeError> {
        let scored = codes.enumerate().map(|(at, code)| Ok((at, self.score(code)?)));
        let mut scored = scored.collect::<Result<Vec<_>, CodeError>>()?;
        scored.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        scored.truncate(k);
        Ok(scored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::orthonormal;
    use crate::random::SplitMix;

    fn vectors(count: usize, dim: usize) -> Vec<Vec<f32>> {
        let mut random = SplitMix::new(8);
        let mut vector = || -> Vec<f32> {
            let numbers: Vec<f32> = (0..dim).map(|_| random.normal() as f32).collect();
            let length = inner_product(&numbers, &numbers).sqrt();
            numbers.iter().map(|value| value / length).collect()
        };
        (0..count).map(|_| vector()).collect()
    }

    #[test]
    fn codes_are_ranked_as_the_vectors_are() {
        let mean: Vec<f32> = (0..48).map(|at| (at as f32).cos() * 0.05).collect();
        let projection = Projection::new(mean, &orthonormal(48, 48, 5)).unwrap();
        let (passages, question) = (vectors(60, 48), vectors(61, 48).pop().unwrap());
        let codes: Vec<Vec<u8>> = passages.iter().map(|vector| projection.code(vector)).collect();
        assert!(codes.iter().all(|code| code.len() == projection.code_len()));
        let reranker = Reranker::new(&projection, &question);
        for (code, passage) in codes.iter().zip(&passages) {
            let (score, exact) = (reranker.score(code).unwrap(), inner_product(&question, passage));
            assert!((score - exact).abs() < 5e-3, "{score} {exact}");
        }
        let best = reranker.rank(codes.iter().map(Vec::as_slice), 3).unwrap();
        let exact: Vec<f32> = passages.iter().map(|passage| inner_product(&question, passage)).collect();
        let first = exact.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).unwrap().0;
        assert_eq!((best.len(), best[0].0), (3, first));
        assert!(best.is_sorted_by(|a, b| a.1 >= b.1));
    }

    #[test]
    fn a_code_of_another_projection_is_refused() {
        let projection = Projection::new(vec![0.0; 8], &orthonormal(8, 8, 5)).unwrap();
        let question = vectors(1, 8).pop().unwrap();
        let reranker = Reranker::new(&projection, &question);
        let good = projection.code(&question);
        assert!((reranker.score(&good).unwrap() - 1.0).abs() < 0.01);
        for wrong in [&good[..0], &good[..3], &good[..good.len() - 1], &[&good[..], &[0]].concat()] {
            assert!(reranker.score(wrong).is_err(), "{} bytes", wrong.len());
        }
        for scale in [f32::NAN, f32::INFINITY, -1.0] {
            let mut wrong = good.clone();
            wrong[..4].copy_from_slice(&scale.to_le_bytes());
            assert!(reranker.score(&wrong).is_err(), "{scale}");
            assert!(reranker.rank([&good[..], &wrong[..]].into_iter(), 1).is_err());
        }
    }
}
