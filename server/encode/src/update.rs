//! Updates of an index that is being searched: passages that come without vectors are encoded.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use dpr_core::{Embedding, TextEncoder};
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::search::{WriteError, Writer};
use dpr_index::{NewPassage, Put};

use crate::{EncodingError, PipelineOptions, encode_passages};

/// The reason why passages were not added or deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// A passage without a vector, where there is no encoder.
    #[error(
        "the passage `{id}` has no vector, and the model directory of this server holds no passage encoder"
    )]
    NoEncoder {
        /// Its id.
        id: String,
    },
    /// See [`WriteError`].
    #[error(transparent)]
    Write(#[from] WriteError),
    /// See [`EncodingError`].
    #[error(transparent)]
    Encoding(#[from] EncodingError),
}

/// Writer that adds and deletes passages, shared by any number of threads.
pub struct PassageUpdater {
    writer: Arc<dyn Writer>,
    encoder: Option<TextEncoder>,
    /// Held while passages are encoded: one request at a time, so that searches keep their processors.
    encoding: Mutex<()>,
}

impl fmt::Debug for PassageUpdater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = self.encoder.as_ref().map(TextEncoder::device_name);
        f.debug_struct("PassageUpdater").field("device", &device).finish_non_exhaustive()
    }
}

impl PassageUpdater {
    /// Returns an updater of the index of `writer`; `encoder` is the passage encoder of the model that the index was
    /// built with.
    pub fn new(writer: Arc<dyn Writer>, encoder: Option<TextEncoder>) -> Self {
        Self { writer, encoder, encoding: Mutex::default() }
    }

    /// Adds passages, each in the place of a passage with the same id if there is one. Passages without a vector are
    /// encoded.
    ///
    /// # Errors
    /// [`UpdateError`]; the index is then unchanged.
    pub fn put(&self, passages: Vec<(Passage, Option<Embedding>)>) -> Result<Put, UpdateError> {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (position, (passage, vector)) in passages.into_iter().enumerate() {
            match vector {
                Some(vector) => known.push((position, NewPassage { passage, vector })),
                // Encoding would take its time to say so.
                None if passage.text.trim().is_empty() => {
                    return Err(
                        WriteError::from(dpr_index::UpdateError::Blank { position, what: "text" }).into()
                    );
                }
                None => unknown.push((position, passage)),
            }
        }
        if let Some((_, first)) = unknown.first() {
            let Some(encoder) = &self.encoder else {
                return Err(UpdateError::NoEncoder { id: first.id.clone() });
            };
            let (positions, passages): (Vec<_>, Vec<_>) = unknown.into_iter().unzip();
            let _turn = self.encoding.lock().unwrap_or_else(PoisonError::into_inner);
            let options = PipelineOptions::for_device(encoder.device_name(), None, Some(1));
            let vectors = encode_passages(encoder, &passages, options, &Silent)?;
            let new =
                passages.into_iter().zip(vectors).map(|(passage, vector)| NewPassage { passage, vector });
            known.extend(positions.into_iter().zip(new));
            known.sort_unstable_by_key(|(position, _)| *position);
        }
        Ok(self.writer.put(known.into_iter().map(|(_, new)| new).collect())?)
    }

    /// Deletes the passages with these ids and returns their number.
    ///
    /// # Errors
    /// [`UpdateError`]; the index is then unchanged.
    pub fn delete(&self, ids: Vec<String>) -> Result<usize, UpdateError> {
        Ok(self.writer.delete(ids)?)
    }
}
