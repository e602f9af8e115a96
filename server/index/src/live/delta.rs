//! The delta (memtable): passages added since the index was built, in memory.

use std::sync::Arc;

use dpr_core::Embedding;

use super::NewPassage;
use crate::ranking::{Candidate, TopK};
use crate::sparse::{AddedWords, SparseIndex};
use crate::vectors::{GROUP, LOOK_ROWS};
use crate::{CancelToken, Matrix, MatrixError, OpenError, QueryError, RowSet, Stopped};
use dpr_data::Passage;

/// Rows from which a chunk is no longer joined with another.
const SEALED: usize = 4096;

/// Passages that were added together, or joined later.
#[derive(Debug)]
struct Chunk {
    matrix: Matrix,
    passages: Vec<Arc<Passage>>,
    /// The postings, where the index has an inverted index.
    words: Option<AddedWords>,
}

/// The added passages in the order of adding. A clone shares them: a search looks at it while more are added.
#[derive(Clone, Debug)]
pub(super) struct Delta {
    chunks: Vec<Arc<Chunk>>,
    /// The first row of each chunk.
    starts: Vec<usize>,
    /// Bytes of the vectors and texts of all rows.
    bytes: u64,
    /// Rows, from 0, without a tombstone: neither replaced nor deleted.
    alive: Arc<RowSet>,
}

impl Default for Delta {
    fn default() -> Self {
        Self { chunks: Vec::new(), starts: Vec::new(), bytes: 0, alive: Arc::new(RowSet::none(0)) }
    }
}

impl Delta {
    /// Returns the number of rows, alive or not.
    pub(super) fn rows(&self) -> usize {
        self.alive.rows()
    }

    /// Returns the bytes of the vectors and texts of all rows, alive or not.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the rows that are alive.
    pub(super) fn alive(&self) -> &RowSet {
        &self.alive
    }

    /// Appends passages with vectors of `dim` numbers, and takes out the rows of `dead`, new ones or old. `index` is
    /// the inverted index of the passages built in.
    ///
    /// # Errors
    /// The errors of [`Matrix::new`], or the inverted index cannot be read.
    pub(super) fn change(
        &mut self,
        new: Vec<NewPassage>,
        dead: &[usize],
        dim: usize,
        index: Option<&SparseIndex>,
    ) -> Result<(), OpenError> {
        if new.is_empty() && dead.is_empty() {
            return Ok(());
        }
        let alive = Arc::make_mut(&mut self.alive);
        if !new.is_empty() {
            let start = alive.rows();
            alive.extend(new.len());
            self.bytes += new.iter().map(NewPassage::bytes).sum::<u64>();
            let rows = new.iter().flat_map(|new| new.vector.as_slice()).copied().collect();
            let passages: Vec<_> = new.into_iter().map(|new| Arc::new(new.passage)).collect();
            let words = index.map(|index| AddedWords::of(index, passages.iter().map(Arc::as_ref)));
            self.chunks.push(Arc::new(Chunk::new(rows, passages, words.transpose()?, dim)?));
            self.starts.push(start);
        }
        for row in dead {
            alive.remove(*row);
        }
        Ok(self.join(dim)?)
    }

    /// Returns the passage of a row.
    pub(super) fn passage(&self, row: usize) -> &Passage {
        let (chunk, row) = self.place(row);
        &chunk.passages[row]
    }

    /// Returns the vector of a row.
    pub(super) fn vector(&self, row: usize) -> &[f32] {
        let (chunk, row) = self.place(row);
        chunk.matrix.row(row)
    }

    /// Refuses a query that cannot be searched.
    pub(super) fn check(&self, query: &Embedding) -> Result<(), QueryError> {
        self.chunks.iter().try_for_each(|chunk| chunk.matrix.check(query, 1).map(drop))
    }

    /// Scores every row that is alive and `allowed`, and offers it to `top`; rows are numbered from `first` on.
    pub(super) fn scan(
        &self,
        query: &Embedding,
        first: usize,
        allowed: impl Fn(usize) -> bool,
        top: &mut TopK,
        cancel: &CancelToken,
    ) -> Result<(), Stopped> {
        let mut scores = [0f32; GROUP];
        for (chunk, start) in self.chunks.iter().zip(&self.starts) {
            for from in (0..chunk.passages.len()).step_by(GROUP) {
                if from.is_multiple_of(LOOK_ROWS) {
                    cancel.check()?;
                }
                let scores = &mut scores[..GROUP.min(chunk.passages.len() - from)];
                chunk.matrix.scores(query.as_slice(), from, scores);
                for (row, score) in (start + from..).zip(scores) {
                    if self.alive.contains(row) && allowed(row) {
                        // Updates keep all rows together below u32::MAX.
                        top.offer(Candidate { score: *score, row: (first + row) as u32 });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the postings of all rows, alive or not: those of each chunk, with the number of its first row.
    pub(super) fn words(&self) -> Vec<(usize, &AddedWords)> {
        let chunks = self.starts.iter().zip(&self.chunks);
        chunks.filter_map(|(start, chunk)| Some((*start, chunk.words.as_ref()?))).collect()
    }

    fn place(&self, row: usize) -> (&Chunk, usize) {
        let chunk = self.starts.partition_point(|start| *start <= row) - 1;
        (&self.chunks[chunk], row - self.starts[chunk])
    }

    /// Joins the last chunks while they are of similar size, so that there are few chunks, and a row is copied only a
    /// few times, however few are added at a time.
    fn join(&mut self, dim: usize) -> Result<(), MatrixError> {
        while let [.., before, last] = self.chunks.as_slice() {
            let (large, small) = (before.passages.len(), last.passages.len());
            if large >= SEALED || large > 2 * small {
                break;
            }
            let rows = [before.matrix.as_slice(), last.matrix.as_slice()].concat();
            let passages = before.passages.iter().chain(&last.passages).map(Arc::clone).collect();
            let words = before.words.as_ref().zip(last.words.as_ref()).map(|(a, b)| a.join(b));
            let joined = Arc::new(Chunk::new(rows, passages, words, dim)?);
            self.chunks.truncate(self.chunks.len() - 2);
            self.chunks.push(joined);
            self.starts.pop();
        }
        Ok(())
    }
}

impl Chunk {
    fn new(
        rows: Vec<f32>,
        passages: Vec<Arc<Passage>>,
        words: Option<AddedWords>,
        dim: usize,
    ) -> Result<Self, MatrixError> {
        let matrix = Matrix::new(rows, passages.len(), dim, |row| passages[row].id.as_str())?;
        Ok(Self { matrix, passages, words })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(number: usize) -> NewPassage {
        let passage = Passage::new(format!("n{number}"), "", "Text.");
        NewPassage { passage, vector: Embedding::new(vec![1.0, number as f32], 2).unwrap() }
    }

    #[test]
    fn rows_keep_their_numbers_while_chunks_are_joined() {
        let mut delta = Delta::default();
        let before = delta.clone();
        for number in 0..1000 {
            delta.change(vec![new(number)], &[], 2, None).unwrap();
        }
        assert!(delta.chunks.len() < 12, "{} chunks", delta.chunks.len());
        for row in [0, 1, 511, 512, 998, 999] {
            assert_eq!(delta.passage(row).id, format!("n{row}"));
            assert_eq!(delta.vector(row), [1.0, row as f32]);
        }
        assert_eq!((before.rows(), delta.rows(), delta.alive().len()), (0, 1000, 1000));
    }

    #[test]
    fn what_is_dead_is_not_found() {
        let mut delta = Delta::default();
        delta.change((0..100).map(new).collect(), &[99], 2, None).unwrap();
        delta.change(vec![new(100)], &[100, 98], 2, None).unwrap();
        let mut top = TopK::new(2);
        let query = Embedding::new(vec![0.0, 1.0], 2).unwrap();
        delta.scan(&query, 500, |row| row != 97, &mut top, &CancelToken::never()).unwrap();
        let rows: Vec<_> = top.into_rows(2).into_iter().map(|hit| hit.row).collect();
        assert_eq!(rows, [596, 595]);
    }
}
