//! Updates of an index that is being searched: passages that come without vectors are encoded.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dpr_core::{Embedding, TextEncoder};
use dpr_data::Passage;
use dpr_files::Job;
use dpr_files::progress::Silent;
use dpr_index::search::{WriteError, Writer};
use dpr_index::{ChangeError, NewPassage, Put};

use crate::{EncodingError, PipelineOptions, encode_passages_until};

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

/// An encoder of passages that come without vectors.
pub trait EncodePassages: fmt::Debug + Send + Sync {
    /// Returns the vectors of `passages`, in their order, unless `stop` is set meanwhile.
    ///
    /// # Errors
    /// [`EncodingError`], which names the passage that has no vector; [`EncodingError::Stopped`].
    fn encode(&self, passages: &[Passage], stop: &AtomicBool) -> Result<Vec<Embedding>, EncodingError>;
}

/// The passage encoder of a model, on one thread: searches keep the other processors.
struct OneThread(TextEncoder);

impl fmt::Debug for OneThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OneThread").field(&self.0.device_name()).finish()
    }
}

impl EncodePassages for OneThread {
    fn encode(&self, passages: &[Passage], stop: &AtomicBool) -> Result<Vec<Embedding>, EncodingError> {
        let options = PipelineOptions::for_device(self.0.device_name(), None, Some(1));
        encode_passages_until(&self.0, passages, options, Job { stop, progress: &Silent })
    }
}

/// Writer that adds and deletes passages, shared by any number of threads.
#[derive(Debug)]
pub struct PassageUpdater {
    writer: Arc<dyn Writer>,
    encoder: Option<Box<dyn EncodePassages>>,
}

impl PassageUpdater {
    /// Returns an updater of the index of `writer`; `encoder` is the passage encoder of the model that the index was
    /// built with.
    pub fn new(writer: Arc<dyn Writer>, encoder: Option<TextEncoder>) -> Self {
        let encoder = encoder.map(|encoder| Box::new(OneThread(encoder)) as Box<dyn EncodePassages>);
        Self { writer, encoder }
    }

    /// Returns an updater that has its vectors from `encoder`.
    pub fn with_encoder(writer: Arc<dyn Writer>, encoder: impl EncodePassages + 'static) -> Self {
        Self { writer, encoder: Some(Box::new(encoder)) }
    }

    /// Returns these passages with a vector each: those that come without one are encoded, which may take minutes,
    /// unless `stop` is set meanwhile. The index is not touched.
    ///
    /// # Errors
    /// [`UpdateError::NoEncoder`], [`UpdateError::Encoding`], and [`UpdateError::Write`] for a text that is blank.
    pub fn encode(
        &self,
        passages: Vec<(Passage, Option<Embedding>)>,
        stop: &AtomicBool,
    ) -> Result<Vec<NewPassage>, UpdateError> {
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (position, (passage, vector)) in passages.into_iter().enumerate() {
            match vector {
                Some(vector) => known.push((position, NewPassage { passage, vector })),
                // Encoding would take its time to say so.
                None if passage.text.trim().is_empty() => {
                    return Err(WriteError::from(ChangeError::Blank { position, field: "text" }).into());
                }
                None => unknown.push((position, passage)),
            }
        }
        if let Some((_, first)) = unknown.first() {
            let Some(encoder) = &self.encoder else {
                return Err(UpdateError::NoEncoder { id: first.id.clone() });
            };
            let (positions, passages): (Vec<_>, Vec<_>) = unknown.into_iter().unzip();
            let vectors = encoder.encode(&passages, stop)?;
            let new =
                passages.into_iter().zip(vectors).map(|(passage, vector)| NewPassage { passage, vector });
            known.extend(positions.into_iter().zip(new));
            known.sort_unstable_by_key(|(position, _)| *position);
        }
        Ok(known.into_iter().map(|(_, new)| new).collect())
    }

    /// Adds passages, each in the place of a passage with the same id if there is one.
    ///
    /// # Errors
    /// [`UpdateError::Write`]; the index is then unchanged.
    pub fn put(&self, passages: Vec<NewPassage>) -> Result<Put, UpdateError> {
        Ok(self.writer.put(passages)?)
    }

    /// Deletes the passages with these ids and returns their number.
    ///
    /// # Errors
    /// [`UpdateError`]; the index is then unchanged.
    pub fn delete(&self, ids: Vec<String>) -> Result<usize, UpdateError> {
        Ok(self.writer.delete(ids)?)
    }
}
