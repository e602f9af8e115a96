//! Passages for an index that is being searched, encoded where they come without vectors.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use dpr_core::{Embedding, TextEncoder};

use crate::data::Passage;
use crate::encode::{EncodingError, PipelineOptions, encode_passages};
use crate::index::milvus::{MilvusError, MilvusIndex};
use crate::index::{IndexError, NewPassage, Put, Updater};
use crate::progress::Silent;

/// Why passages were not added or deleted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// A passage without a vector, and nothing to encode it with.
    #[error(
        "the passage `{id}` has no vector, and the model directory of this server holds no passage encoder"
    )]
    NoEncoder {
        /// Its id.
        id: String,
    },
    /// See [`IndexError`].
    #[error(transparent)]
    Index(#[from] IndexError),
    /// See [`MilvusError`].
    #[error(transparent)]
    Milvus(#[from] MilvusError),
    /// See [`EncodingError`].
    #[error(transparent)]
    Encoding(#[from] EncodingError),
}

/// Where passages are put with their vectors: an index directory, or a cluster.
pub trait PassageStore: Send + Sync {
    /// Adds passages, or puts them in the place of those that have their ids.
    ///
    /// # Errors
    /// [`UpdateError`].
    fn put(&self, passages: Vec<NewPassage>) -> Result<Put, UpdateError>;

    /// Deletes the passages with these ids; how many. When one is not there none is deleted.
    ///
    /// # Errors
    /// [`UpdateError`].
    fn delete(&self, ids: Vec<String>) -> Result<usize, UpdateError>;
}

impl PassageStore for Updater {
    fn put(&self, passages: Vec<NewPassage>) -> Result<Put, UpdateError> {
        Ok(Self::put(self, passages)?)
    }

    fn delete(&self, ids: Vec<String>) -> Result<usize, UpdateError> {
        Ok(Self::delete(self, ids)?)
    }
}

impl PassageStore for MilvusIndex {
    fn put(&self, passages: Vec<NewPassage>) -> Result<Put, UpdateError> {
        Ok(Self::put(self, &passages)?)
    }

    fn delete(&self, ids: Vec<String>) -> Result<usize, UpdateError> {
        Ok(Self::delete(self, &ids)?)
    }
}

/// Adds and deletes passages; shared by as many threads as there are.
pub struct PassageUpdater {
    store: Arc<dyn PassageStore>,
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
    /// Changes what is in `store`; `encoder` is the passage encoder of the model it was built by.
    pub fn new(store: Arc<dyn PassageStore>, encoder: Option<TextEncoder>) -> Self {
        Self { store, encoder, encoding: Mutex::default() }
    }

    /// Adds passages, or puts them in the place of those that have their ids; those without a vector are encoded.
    ///
    /// # Errors
    /// [`UpdateError`]; then nothing has changed.
    pub fn put(&self, passages: Vec<(Passage, Option<Embedding>)>) -> Result<Put, UpdateError> {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (position, (passage, vector)) in passages.into_iter().enumerate() {
            match vector {
                Some(vector) => known.push((position, NewPassage { passage, vector })),
                // Encoding would take its time to say so.
                None if passage.text.trim().is_empty() => {
                    return Err(IndexError::Blank { position, what: "text" }.into());
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
        self.store.put(known.into_iter().map(|(_, new)| new).collect())
    }

    /// Deletes the passages with these ids; how many.
    ///
    /// # Errors
    /// [`UpdateError`]; then nothing has changed.
    pub fn delete(&self, ids: Vec<String>) -> Result<usize, UpdateError> {
        self.store.delete(ids)
    }
}
