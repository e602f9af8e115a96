//! Candidates for a blurred question, with the codes by which they are re-ranked where the question was asked.

use dpr_core::private::blur::BlurError;
use dpr_core::private::projection::Projection;
use dpr_core::{Embedding, EmbeddingError};

use crate::CancelToken;
use crate::search::{Backend, Hit, SearchError};

/// A passage that may be among the best for a blurred question.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The passage; its score is by the blurred question.
    pub hit: Hit,
    /// The passage's vector in the projection's frame, [`Projection::code_len`] bytes.
    pub code: Vec<u8>,
}

/// Returns the vector that an index is searched with for the coordinates of a blurred question.
///
/// # Errors
/// [`EmbeddingError`] for numbers that are not finite or all zero.
pub(super) fn lifted(projection: &Projection, sent: &[f32]) -> Result<Embedding, EmbeddingError> {
    Embedding::check(sent, sent.len())?;
    Embedding::new(projection.lift(sent), projection.dim())
}

/// Returns the `count` candidates of `backend` for the coordinates that a blurred question was sent as, until `cancel`
/// says to stop.
///
/// # Errors
/// [`SearchError`] of the backend; [`SearchError::Blur`] for coordinates that no index can be searched by.
pub fn candidates(
    backend: &dyn Backend,
    projection: &Projection,
    sent: &[f32],
    count: usize,
    cancel: &CancelToken,
) -> Result<Vec<Candidate>, SearchError> {
    let vector = lifted(projection, sent).map_err(|_| SearchError::Blur(BlurError::NoDirection))?;
    let found = backend.search_with_vectors(&vector, count, cancel)?;
    let of = |(hit, vector): (Hit, Vec<f32>)| Candidate { hit, code: projection.code(&vector) };
    Ok(found.into_iter().map(of).collect())
}
