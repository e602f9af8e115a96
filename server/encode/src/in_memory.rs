//! Vectors of texts that are held in memory: the questions of an evaluation, the passages of an update.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

use dpr_core::{Embedding, TextEncoder};

use super::PART_SIZE;
use super::error::EncodingError;
use super::pipeline::{PipelineOptions, encode_rows};
use super::rows::{PassageRows, QuestionRows, Rows};
use dpr_data::Passage;
use dpr_files::progress::Progress;
use dpr_files::{Job, lock};

/// Returns the vectors of `questions`, in their order.
///
/// # Errors
/// [`EncodingError`] names the question that has no vector.
pub fn encode_questions(
    encoder: &TextEncoder,
    questions: &[&str],
    options: PipelineOptions,
    progress: &dyn Progress,
) -> Result<Vec<Embedding>, EncodingError> {
    progress.start("encoding", "questions", questions.len() as u64);
    let never = AtomicBool::new(false);
    let job = Job { stop: &never, progress };
    let vectors = encode_all(&QuestionRows { encoder, questions }, questions.len(), options, job);
    progress.finish();
    vectors
}

/// Returns the vectors of `passages`, in their order, for passages that are held in memory;
/// [`encode_corpus`](super::encode_corpus) is for a corpus.
///
/// # Errors
/// [`EncodingError`] names the passage that has no vector.
pub fn encode_passages(
    encoder: &TextEncoder,
    passages: &[Passage],
    options: PipelineOptions,
    progress: &dyn Progress,
) -> Result<Vec<Embedding>, EncodingError> {
    let never = AtomicBool::new(false);
    encode_passages_until(encoder, passages, options, Job { stop: &never, progress })
}

/// Returns the vectors of `passages` as [`encode_passages`] does, unless `job` is stopped.
///
/// # Errors
/// The errors of [`encode_passages`], and [`EncodingError::Stopped`].
pub fn encode_passages_until(
    encoder: &TextEncoder,
    passages: &[Passage],
    options: PipelineOptions,
    job: Job<'_>,
) -> Result<Vec<Embedding>, EncodingError> {
    encode_all(&PassageRows { encoder, passages }, passages.len(), options, job)
}

fn encode_all(
    rows: &dyn Rows,
    count: usize,
    options: PipelineOptions,
    job: Job<'_>,
) -> Result<Vec<Embedding>, EncodingError> {
    let kept = Mutex::new(Vec::with_capacity(count));
    let keep = |part: &Range<usize>, values: &[f32]| {
        let rows = part.clone().zip(values.chunks_exact(rows.dim()).map(<[f32]>::to_vec));
        lock(&kept).extend(rows);
        Ok(())
    };
    encode_rows(rows, &parts_of(count), options, job, &keep)?;
    let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
    kept.sort_unstable_by_key(|(row, _)| *row);
    let checked = |(row, values): (usize, Vec<f32>)| {
        Embedding::new(values, rows.dim())
            .map_err(|source| EncodingError::Vector { row: rows.name(row), source })
    };
    kept.into_iter().map(checked).collect()
}

fn parts_of(rows: usize) -> Vec<Range<usize>> {
    (0..rows).step_by(PART_SIZE).map(|from| from..(from + PART_SIZE).min(rows)).collect()
}
