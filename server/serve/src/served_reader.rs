//! The reader of a server, which marks answers in the passages that a search finds.

use dpr_core::reader::{PassageReading, best_answers};
use dpr_core::{Answer, ReadError, ReadOptions, Reader};

use super::error::ApiError;
use dpr_index::CancelToken;
use dpr_index::search::{Hit, SearchError};

/// Passages that are read between two looks at whether anybody waits for the answer.
const AT_ONCE: usize = 4;

/// A loaded reader and the identity of its model directory.
pub struct ServedReader {
    reader: Reader,
    fingerprint: String,
}

impl ServedReader {
    /// Serves a reader whose model directory has this fingerprint.
    pub fn new(reader: Reader, fingerprint: String) -> Self {
        Self { reader, fingerprint }
    }

    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns an estimate of the work of reading passages, in the unit of
    /// [`Backend::cost`](dpr_index::search::Backend::cost): numbers that a thread reads from memory. A token multiplies
    /// every weight of the layers once, and about sixteen such products take the time of one number from memory.
    pub(super) fn cost(&self, passages: usize) -> u64 {
        let encoder = self.reader.config().encoder();
        let (hidden, inner) = (encoder.hidden_size as u64, encoder.intermediate_size as u64);
        let layer = 4 * hidden * hidden + 2 * hidden * inner;
        let tokens = (self.reader.max_tokens() * passages) as u64;
        (encoder.num_hidden_layers as u64 * layer).saturating_mul(tokens) / 16
    }

    /// Returns the `top` best answers in the passages of `hits`, best first. Runs on the calling thread, until `cancel`
    /// says to stop.
    pub(super) fn answers(
        &self,
        question: &str,
        hits: &[Hit],
        top: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Answer>, ApiError> {
        let passages: Vec<_> = hits.iter().map(|hit| (hit.title.as_str(), hit.text.as_str())).collect();
        let mut readings: Vec<PassageReading> = Vec::with_capacity(passages.len());
        for part in passages.chunks(AT_ONCE) {
            cancel.check().map_err(SearchError::from)?;
            readings.extend(self.reader.read_passages(question, part, ReadOptions::default())?);
        }
        Ok(best_answers(&readings, top))
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Empty | ReadError::Question { .. } => Self::InvalidQuestion(error.to_string()),
            error => {
                tracing::error!("the reader failed: {error}");
                Self::Internal("the reader failed")
            }
        }
    }
}
