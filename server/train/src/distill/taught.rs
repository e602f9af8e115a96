//! Questions with the teacher's vectors and the passages that these find.

use dpr_core::{Embedding, TextEncoder};

use super::super::error::TrainError;
use dpr_encode::{PipelineOptions, encode_questions};
use dpr_files::progress::Progress;
use dpr_index::{ExactIndex, VectorIndex as _};

/// Questions with the teacher's vectors.
pub(super) struct Taught {
    pub(super) questions: Vec<String>,
    pub(super) vectors: Vec<Embedding>,
    /// The rows of the teacher's best passages; nothing without passages.
    pub(super) best: Vec<Vec<u32>>,
}

/// Has the teacher's question encoder encode the questions, and finds the `best` passages of each in `space`.
pub(super) fn taught(
    questions: Vec<String>,
    encoder: &TextEncoder,
    space: Option<&ExactIndex>,
    best: usize,
    progress: &dyn Progress,
) -> Result<Taught, TrainError> {
    let options = PipelineOptions::for_device(encoder.device_name(), None, None);
    let texts: Vec<&str> = questions.iter().map(String::as_str).collect();
    let vectors = encode_questions(encoder, &texts, options, progress)?;
    let best = match space {
        Some(space) => best_rows(space, &vectors, best)?,
        None => vec![Vec::new(); vectors.len()],
    };
    Ok(Taught { questions, vectors, best })
}

/// Returns the rows of the best passages of each question.
pub(super) fn best_rows(
    space: &ExactIndex,
    questions: &[Embedding],
    count: usize,
) -> Result<Vec<Vec<u32>>, TrainError> {
    let found = space.search_batch(questions, count)?;
    Ok(found.into_iter().map(|rows| rows.into_iter().map(|scored| scored.row as u32).collect()).collect())
}
