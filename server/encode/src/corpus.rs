//! Encoding of a corpus into vectors on disk, as `dpr encode` does.

use std::path::Path;
use std::time::{Duration, Instant};

use dpr_core::TextEncoder;

use super::error::EncodingError;
use super::pipeline::{Encoded, PipelineOptions, encode_rows};
use super::rows::PassageRows;
use dpr_data::{CorpusDigest, Passage, corpus_sha256, stream_passages};
use dpr_files::Job;
use dpr_index::vectors::{Shard, VectorsSpec, VectorsWriter};

/// Number of passages in a part, which is written at once; an interruption loses the open parts.
pub const PART_SIZE: usize = VectorsSpec::PART_SIZE;

/// Options of encoding a corpus.
#[derive(Clone, Copy, Debug)]
pub struct EncodeOptions {
    /// The share to encode.
    pub shard: Shard,
    /// Threads and batches.
    pub pipeline: PipelineOptions,
    /// Discard the vectors that are there, of whichever model and corpus.
    pub force: bool,
}

/// The result of [`encode_corpus`].
#[derive(Clone, Copy, Debug)]
pub struct EncodeSummary {
    /// Passages in the shard.
    pub passages: usize,
    /// Passages that an earlier run had encoded.
    pub kept: usize,
    /// Counts of the rows that this run encoded.
    pub encoded: Encoded,
    /// Time this run took, from the first token to the last part; without loading and without joining the parts.
    pub encoding: Duration,
}

/// The passages of one shard of a corpus, and what tells the corpus from others.
#[derive(Clone, Debug)]
pub struct CorpusShard {
    passages: Vec<Passage>,
    corpus_sha256: String,
    shard: Shard,
}

impl CorpusShard {
    /// Reads the passages of `shard` from a file, in the formats of [`read_passages`](dpr_data::read_passages). No others
    /// are kept: where there are several shards, the file is read twice, first to count and to check its passages.
    ///
    /// # Errors
    /// [`EncodingError::Corpus`], [`EncodingError::Shard`], and [`EncodingError::Changed`].
    pub fn read(path: &Path, shard: Shard) -> Result<Self, EncodingError> {
        let (mut digest, mut count, mut passages) = (CorpusDigest::default(), 0, Vec::new());
        let is_whole = shard.count() == 1;
        for passage in stream_passages(path)? {
            let passage = passage?;
            digest.add(&passage);
            count += 1;
            if is_whole {
                passages.push(passage);
            }
        }
        let corpus_sha256 = digest.finish();
        if !is_whole {
            let (range, mut again) = (shard.range(count)?, CorpusDigest::default());
            for (row, passage) in stream_passages(path)?.enumerate() {
                let passage = passage?;
                again.add(&passage);
                if range.contains(&row) {
                    passages.push(passage);
                }
            }
            if again.finish() != corpus_sha256 {
                return Err(EncodingError::Changed { path: path.to_path_buf() });
            }
        }
        Ok(Self { passages, corpus_sha256, shard })
    }

    /// Returns the passages of the shard, in the order of the corpus.
    pub fn passages(&self) -> &[Passage] {
        &self.passages
    }
}

/// Encodes a shard as [`encode_corpus`] does, whatever shard `options` names.
///
/// # Errors
/// [`EncodingError`] as from [`encode_corpus`].
pub fn encode_shard(
    encoder: &TextEncoder,
    model_fingerprint: &str,
    corpus: &CorpusShard,
    out: &Path,
    options: &EncodeOptions,
    job: Job<'_>,
) -> Result<EncodeSummary, EncodingError> {
    let options = EncodeOptions { shard: corpus.shard, ..*options };
    let passages = (corpus.passages(), corpus.corpus_sha256.clone());
    encode_passages(encoder, model_fingerprint, passages, out, &options, job)
}

/// Encodes one shard of `corpus` into the vectors directory `out`, or the parts of the shard that are missing there.
/// `model_fingerprint` is the fingerprint of the model that `encoder` belongs to.
///
/// # Errors
/// [`EncodingError`]; with [`EncodingError::Stopped`], when `job` was stopped, finished parts are kept.
pub fn encode_corpus(
    encoder: &TextEncoder,
    model_fingerprint: &str,
    corpus: &[Passage],
    out: &Path,
    options: &EncodeOptions,
    job: Job<'_>,
) -> Result<EncodeSummary, EncodingError> {
    if corpus.is_empty() {
        return Err(EncodingError::Empty);
    }
    let passages = (&corpus[options.shard.range(corpus.len())?], corpus_sha256(corpus));
    encode_passages(encoder, model_fingerprint, passages, out, options, job)
}

/// Encodes the passages of a shard; beside them is the digest of the corpus.
fn encode_passages(
    encoder: &TextEncoder,
    model_fingerprint: &str,
    (passages, corpus_sha256): (&[Passage], String),
    out: &Path,
    options: &EncodeOptions,
    job: Job<'_>,
) -> Result<EncodeSummary, EncodingError> {
    let spec = VectorsSpec {
        model_fingerprint: model_fingerprint.to_owned(),
        dim: encoder.dim(),
        corpus_sha256,
        shard: options.shard,
        part_size: PART_SIZE,
        precision: encoder.precision(),
    };
    if options.force {
        VectorsWriter::clear(out)?;
    }
    let writer = VectorsWriter::open(out, spec, passages)?;
    let missing = writer.missing_parts();
    let left = missing.iter().map(ExactSizeIterator::len).sum::<usize>();
    let kept = passages.len() - left;
    let rows = PassageRows { encoder, passages };
    let started = Instant::now();
    job.progress.start("encoding", "passages", left as u64);
    let outcome = encode_rows(&rows, &missing, options.pipeline, job, &|part, vectors| {
        writer.write_part(part, vectors)
    });
    job.progress.finish();
    let encoding = started.elapsed();
    let encoded = outcome.map_err(|error| match error {
        EncodingError::Stopped { done, .. } => {
            EncodingError::Stopped { done: done + kept, total: passages.len() }
        }
        other => other,
    })?;
    writer.finish()?;
    Ok(EncodeSummary { passages: passages.len(), kept, encoded, encoding })
}
