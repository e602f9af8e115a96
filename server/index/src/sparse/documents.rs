//! The length of each passage and the norm of its TF-IDF vector: what scoring needs beside the postings.

use std::io;
use std::path::Path;

use tantivy::index::SegmentReader;
use tantivy::postings::Postings as _;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::termdict::TermStreamer;
use tantivy::{DocSet as _, TERMINATED};

use super::SparseError;
use super::scoring::tfidf_idf;
use dpr_files::Error as FileError;
use dpr_files::{atomic, plain};

/// The file's name beside tantivy's own: for each row, its length (u32) and the norm of its TF-IDF vector (f32),
/// little-endian.
const FILE: &str = "documents.bin";

/// Bytes of a row in the file.
const ROW: usize = 8;

/// Lengths and norms by row.
#[derive(Debug, Default)]
pub(super) struct Documents {
    /// Terms of each passage, repeated ones too.
    pub(super) lengths: Vec<u32>,
    /// Euclidean norm of each passage's TF-IDF vector; 0 without terms.
    pub(super) norms: Vec<f32>,
}

impl Documents {
    /// Counts them in the postings. `rows` are the rows of each segment's documents.
    pub(super) fn count(
        segments: &[SegmentReader],
        rows: &[Vec<u32>],
        field: Field,
    ) -> tantivy::Result<Self> {
        let count = rows.iter().map(Vec::len).sum();
        let mut lengths = vec![0u32; count];
        let mut squares = vec![0f64; count];
        let inverted: Vec<_> =
            segments.iter().map(|segment| segment.inverted_index(field)).collect::<tantivy::Result<_>>()?;
        let mut streams: Vec<TermStreamer<'_>> =
            inverted.iter().map(|index| index.terms().stream()).collect::<io::Result<_>>()?;
        let mut alive: Vec<bool> = streams.iter_mut().map(TermStreamer::advance).collect();
        // Segments have dictionaries of their own: walk them side by side, since idf counts in all of them.
        while let Some(term) = least(&streams, &alive) {
            let holders: Vec<usize> =
                (0..streams.len()).filter(|at| alive[*at] && streams[*at].key() == term).collect();
            let frequency: u64 = holders.iter().map(|at| u64::from(streams[*at].value().doc_freq)).sum();
            let idf = tfidf_idf(count as f64, frequency as f64);
            for at in holders {
                let info = streams[at].value();
                let mut postings =
                    inverted[at].read_postings_from_terminfo(info, IndexRecordOption::WithFreqs)?;
                let mut document = postings.doc();
                while document != TERMINATED {
                    let (row, times) = (rows[at][document as usize] as usize, postings.term_freq());
                    lengths[row] += times;
                    squares[row] += (f64::from(times) * idf).powi(2);
                    document = postings.advance();
                }
                alive[at] = streams[at].advance();
            }
        }
        Ok(Self { lengths, norms: squares.into_iter().map(|square| square.sqrt() as f32).collect() })
    }

    /// Returns the mean length, at least 1.
    pub(super) fn mean_length(&self) -> f64 {
        let total: u64 = self.lengths.iter().map(|length| u64::from(*length)).sum();
        (total as f64 / self.lengths.len().max(1) as f64).max(1.0)
    }

    pub(super) fn write(&self, dir: &Path) -> io::Result<()> {
        atomic::write_file(&dir.join(FILE), |out| {
            for (length, norm) in self.lengths.iter().zip(&self.norms) {
                out.write_all(&length.to_le_bytes())?;
                out.write_all(&norm.to_le_bytes())?;
            }
            Ok(())
        })
    }

    pub(super) fn read(dir: &Path, count: usize) -> Result<Self, SparseError> {
        let path = dir.join(FILE);
        let bytes = plain::read(&path, (count * ROW) as u64).map_err(FileError::read(&path))?;
        let (rows, rest) = bytes.as_chunks::<ROW>();
        if rows.len() != count || !rest.is_empty() {
            let reason = format!("{FILE} has {} bytes, {count} passages need {}", bytes.len(), count * ROW);
            return Err(FileError::corrupt(dir, reason).into());
        }
        let mut documents = Self::default();
        for &[a, b, c, d, e, f, g, h] in rows {
            documents.lengths.push(u32::from_le_bytes([a, b, c, d]));
            documents.norms.push(f32::from_le_bytes([e, f, g, h]));
        }
        Ok(documents)
    }
}

/// The least term that a stream stands at.
fn least(streams: &[TermStreamer<'_>], alive: &[bool]) -> Option<Vec<u8>> {
    streams
        .iter()
        .zip(alive)
        .filter(|(_, alive)| **alive)
        .map(|(stream, _)| stream.key())
        .min()
        .map(<[u8]>::to_vec)
}
