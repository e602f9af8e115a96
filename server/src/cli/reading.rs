//! A reader at work: passages read on every thread.

use std::path::Path;

use dpr_core::reader::PassageReading;
use dpr_core::{DeviceChoice, ReadError, ReadOptions, Reader};
use dpr_encode::model::ReaderDir;
use rayon::prelude::*;

use super::CliError;

/// Passages that one thread reads before it takes others.
const AT_ONCE: usize = 4;

/// How answers are looked for.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct ReadArgs {
    /// Tokens that an answer may have; it is then extended to whole words
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    max_answer_tokens: u32,
}

impl ReadArgs {
    pub(super) fn options(self, spans: usize) -> ReadOptions {
        ReadOptions { spans, max_answer_tokens: self.max_answer_tokens as usize }
    }
}

/// Characters of a question that an error repeats.
const NAMED: usize = 60;

/// A question that cannot be answered.
#[derive(Debug, thiserror::Error)]
#[error("question {question:?}: {source}")]
struct OfQuestion {
    /// Its beginning.
    question: String,
    source: ReadError,
}

/// A loaded reader.
pub(super) struct Reading {
    reader: Reader,
    fingerprint: String,
    options: ReadOptions,
}

impl Reading {
    /// Loads the reader of a model directory.
    pub(super) fn open(path: &Path, device: DeviceChoice, options: ReadOptions) -> Result<Self, CliError> {
        let dir = ReaderDir::open(path)?;
        let fingerprint = dir.manifest().fingerprint.clone();
        Ok(Self { reader: dir.reader(device)?, fingerprint, options })
    }

    /// Returns the identity of the reader.
    pub(super) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the device that reads.
    pub(super) fn device(&self) -> &str {
        self.reader.device_name()
    }

    /// Returns whether the CPU kernels read, each on one thread; other devices take care of themselves.
    pub(super) fn runs_kernels(&self) -> bool {
        self.device() == "cpu"
    }

    /// Returns what is found in each of the `(title, text)` passages, in their order.
    pub(super) fn read(
        &self,
        question: &str,
        passages: &[(&str, &str)],
    ) -> Result<Vec<PassageReading>, CliError> {
        let at_once = if self.runs_kernels() { AT_ONCE } else { passages.len().max(1) };
        let parts = passages.par_chunks(at_once).enumerate().map(|(part, passages)| {
            self.reader.read_passages(question, passages, self.options).map_err(|error| match error {
                ReadError::NotFinite { passage } => {
                    ReadError::NotFinite { passage: part * at_once + passage }
                }
                other => other,
            })
        });
        let parts = parts.collect::<Result<Vec<_>, _>>();
        let parts = parts
            .map_err(|source| OfQuestion { question: question.chars().take(NAMED).collect(), source })?;
        Ok(parts.into_iter().flatten().collect())
    }
}
