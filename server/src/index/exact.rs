//! Exact search: every row is scored.

use std::sync::Arc;

use dpr_core::Embedding;
use rayon::prelude::*;

use super::{IndexError, IndexKind, Matrix, RowSet, ScoredRow, VectorIndex};
use crate::ranking::{Candidate, Top};

/// Numbers above which one query is worth several threads: about 4 ms of one.
const PARALLEL_FROM: usize = 16 << 20;

/// Rows that are scored before their scores are looked at.
const GROUP: usize = 64;

/// Numbers in the block of rows that one thread takes, or that several queries share: it fits a core's cache.
const BLOCK: usize = 128 << 10;

/// An index that compares a question with every passage.
#[derive(Debug)]
pub struct ExactIndex {
    matrix: Arc<Matrix>,
}

impl ExactIndex {
    /// An index of these vectors.
    pub fn new(matrix: Arc<Matrix>) -> Self {
        Self { matrix }
    }

    /// One vector, `[dim]`.
    pub fn row(&self, row: usize) -> &[f32] {
        self.matrix.row(row)
    }

    fn block_rows(&self) -> usize {
        (BLOCK / self.matrix.dim()).max(1)
    }

    /// Scores the rows from `start` to `end` for `query`.
    fn scan(&self, query: &[f32], start: usize, end: usize, top: &mut Top) {
        let mut scores = [0f32; GROUP];
        for start in (start..end).step_by(GROUP) {
            let scores = &mut scores[..GROUP.min(end - start)];
            self.matrix.scores(query, start, scores);
            for (row, score) in (start..).zip(scores) {
                // Rows fit u32: building and opening refuse more.
                top.offer(Candidate { score: *score, row: row as u32 });
            }
        }
    }
}

impl VectorIndex for ExactIndex {
    fn dim(&self) -> usize {
        self.matrix.dim()
    }

    fn len(&self) -> usize {
        self.matrix.count()
    }

    fn kind(&self) -> IndexKind {
        IndexKind::Exact
    }

    fn search(&self, query: &Embedding, k: usize) -> Result<Vec<ScoredRow>, IndexError> {
        let k = self.matrix.check(query, k)?;
        let (query, count) = (query.as_slice(), self.len());
        let top = if count * self.dim() < PARALLEL_FROM {
            let mut top = Top::new(k);
            self.scan(query, 0, count, &mut top);
            top
        } else {
            let rows = self.block_rows();
            let blocks = (0..count.div_ceil(rows)).into_par_iter();
            let tops = blocks.fold(
                || Top::new(k),
                |mut top, block| {
                    self.scan(query, block * rows, (block * rows + rows).min(count), &mut top);
                    top
                },
            );
            tops.reduce(|| Top::new(k), Top::merge)
        };
        Ok(top.into_rows(k))
    }

    fn search_among(
        &self,
        query: &Embedding,
        k: usize,
        wanted: &RowSet,
    ) -> Result<Vec<ScoredRow>, IndexError> {
        let k = self.matrix.check(query, k)?.min(wanted.len());
        let rows: Vec<u32> = wanted.iter().map(|row| row as u32).collect();
        let (mut top, mut scores) = (Top::new(k), Vec::new());
        for rows in rows.chunks(GROUP) {
            self.matrix.scores_at(query.as_slice(), rows, &mut scores);
            for (row, score) in rows.iter().zip(&scores) {
                top.offer(Candidate { score: *score, row: *row });
            }
        }
        Ok(top.into_rows(k))
    }

    /// Reads each block of rows once for a whole group of queries: memory, not arithmetic, is what is slow here.
    fn search_batch(&self, queries: &[Embedding], k: usize) -> Result<Vec<Vec<ScoredRow>>, IndexError> {
        for query in queries {
            self.matrix.check(query, k)?;
        }
        let (k, count, rows) = (k.min(self.len()), self.len(), self.block_rows());
        let group = queries.len().div_ceil(rayon::current_num_threads()).max(1);
        let groups = queries.par_chunks(group).map(|group| {
            let mut tops: Vec<_> = group.iter().map(|_| Top::new(k)).collect();
            for start in (0..count).step_by(rows) {
                for (query, top) in group.iter().zip(&mut tops) {
                    self.scan(query.as_slice(), start, (start + rows).min(count), top);
                }
            }
            tops.into_iter().map(|top| top.into_rows(k)).collect::<Vec<_>>()
        });
        Ok(groups.collect::<Vec<_>>().into_iter().flatten().collect())
    }
}
