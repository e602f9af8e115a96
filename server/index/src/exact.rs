//! Exact search: every row is scored by its vector, or chosen by its quantized vector and then scored.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dpr_core::Embedding;
use dpr_core::kernel::search::batch::QueryBatch;
use dpr_core::kernel::search::batch_i8::{QuantizedBatch, RowWords};
use rayon::prelude::*;

use super::allowed::search_allowed;
use super::codes::{Codes, SPARE, rescored};
use super::quantized::{AnyQuantized, Quantized};
use super::{IndexKind, Matrix, QueryError, RowSet, ScoredRow, Storage, VectorIndex};
use crate::ranking::TopK;
use crate::vectors::GROUP;
use crate::{CancelToken, Stopped};

/// Numbers above which one query is worth several threads: about 4 ms of one.
const PARALLEL_FROM: usize = 16 << 20;

/// Numbers in the block of rows that one thread takes, about: it fits a core's cache.
const BLOCK: usize = 128 << 10;

/// Rows that are scored for all questions of a batch at a time.
const BATCH_ROWS: usize = 64;

/// Questions of a batch that a thread takes at a time: with the rows they fit a core's cache.
const BATCH_QUESTIONS: usize = 192;

/// Questions from which on a product of bytes for all of them takes less time than the rows' products with each.
const BATCH_FROM: usize = 8;

/// The work of a batch's matrix product, as a share (one of so many) of searching for each question alone.
const BATCH_SHARE: u64 = 8;

/// Returns the [`VectorIndex::cost`] of an exact index of so many rows of so many numbers, read in this form.
pub(super) fn cost(storage: Storage, (rows, dim): (usize, usize), queries: usize, filtered: bool) -> u64 {
    let all = queries as u64 * rows as u64 * dim as u64;
    match storage {
        _ if filtered => all,
        Storage::Int8 if queries >= BATCH_FROM => all / 16,
        Storage::Int8 => all / 4,
        Storage::F16 => all / 2,
        Storage::Binary => all / 16,
        Storage::F32 if queries > 1 => all / BATCH_SHARE,
        Storage::F32 => all,
    }
}

/// An index that compares a question with every passage.
#[derive(Debug)]
pub struct ExactIndex {
    matrix: Arc<Matrix>,
    /// The quantized vectors by which rows are chosen, if not all are scored.
    codes: Option<AnyQuantized>,
}

impl ExactIndex {
    /// Makes an index of these vectors.
    pub fn new(matrix: Arc<Matrix>) -> Self {
        Self { matrix, codes: None }
    }

    /// An index that reads the vectors in fewer bits first, if there are codes, and the vectors themselves of the best
    /// alone.
    pub(super) fn with_codes(matrix: Arc<Matrix>, codes: Option<AnyQuantized>) -> Self {
        Self { matrix, codes }
    }

    /// Returns one vector, `[dim]`.
    pub fn row(&self, row: usize) -> &[f32] {
        self.matrix.row(row)
    }

    fn block_rows(&self) -> usize {
        (BLOCK / self.matrix.dim()).max(1).next_multiple_of(GROUP)
    }

    /// Returns the best `k` rows of all, by what `scores` says of the rows from one on. Once `cancel` says to stop, no
    /// further block is scored.
    fn scan<S: Default + Send>(
        &self,
        k: usize,
        cancel: &CancelToken,
        scores: impl Fn(&mut S, usize, &mut [f32]) + Sync,
    ) -> Result<TopK, Stopped> {
        let (count, rows) = (self.len(), self.block_rows());
        let scan = |(mut top, mut state): (TopK, S), block: usize| {
            if cancel.is_stopped() {
                return (top, state);
            }
            let (mut group, end) = ([0f32; GROUP], (block * rows + rows).min(count));
            for start in (block * rows..end).step_by(GROUP) {
                let group = &mut group[..GROUP.min(end - start)];
                scores(&mut state, start, group);
                top.offer_all(start, group);
            }
            (top, state)
        };
        let (blocks, empty) = (0..count.div_ceil(rows), || (TopK::new(k), S::default()));
        let top = if count * self.dim() < PARALLEL_FROM {
            blocks.fold(empty(), scan).0
        } else {
            let tops = blocks.into_par_iter().fold(empty, scan);
            tops.map(|(top, _)| top).reduce(|| TopK::new(k), TopK::merge)
        };
        cancel.check().map(|()| top)
    }

    /// Finds the best `k` rows by their quantized vectors, scored again by their vectors.
    fn search_codes<C: Codes>(
        &self,
        codes: &C,
        query: &[f32],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, Stopped> {
        let question = codes.query(query);
        let top = self.scan(codes.rescored(k), cancel, |state: &mut Option<C::Query>, start, scores| {
            codes.scores(state.get_or_insert_with(|| question.clone()), start, scores);
        })?;
        let rows: Vec<u32> = top.into_sorted().iter().map(|found| found.row).collect();
        self.matrix.rank(query, &rows, k, cancel)
    }

    /// Finds the best `k` rows for each of some questions, by one matrix product.
    fn search_group(
        &self,
        queries: &[Embedding],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        let (count, dim) = (self.len(), self.dim());
        let questions = QueryBatch::new(queries.iter().map(Embedding::as_slice), dim);
        let mut tops = Self::spare_tops(queries.len(), k);
        let mut scores = vec![0.0; queries.len() * BATCH_ROWS];
        for start in (0..count).step_by(BATCH_ROWS) {
            cancel.check()?;
            let rows = BATCH_ROWS.min(count - start);
            questions.products(self.matrix.rows_from(start, rows), &mut scores);
            for (top, scores) in tops.iter_mut().zip(scores.chunks_exact(rows)) {
                top.offer_all(start, scores);
            }
        }
        Ok(self.settle(queries, tops, 1, k, |query| self.matrix.rounding(query), cancel)?.0)
    }

    /// Finds the best `k` rows for each of some questions: one matrix product of bytes chooses rows, and their vectors
    /// rank them.
    fn search_group_codes(
        &self,
        codes: &Quantized,
        queries: &[Embedding],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        let count = self.len();
        let batch = QuantizedBatch::new(queries.iter().map(Embedding::as_slice), self.dim());
        let mut tops: Vec<TopK> = queries.iter().map(|_| TopK::new(rescored(k))).collect();
        let mut floors = vec![f32::NEG_INFINITY; queries.len()];
        let (mut scores, mut words) = (vec![0.0; queries.len() * BATCH_ROWS], RowWords::default());
        for start in (0..count).step_by(BATCH_ROWS) {
            cancel.check()?;
            let rows = BATCH_ROWS.min(count - start);
            codes.batch_scores(&batch, start..start + rows, &mut words, &mut scores);
            for (row, scores) in (start..start + rows).zip(scores.chunks_exact(queries.len())) {
                // Most rows are among the best of no question: one pass without branches says so.
                if !scores.iter().zip(&floors).fold(false, |any, (score, floor)| any | (score > floor)) {
                    continue;
                }
                for ((top, floor), score) in tops.iter_mut().zip(&mut floors).zip(scores) {
                    if score > floor {
                        top.offer_all(row, &[*score]);
                        *floor = top.floor();
                    }
                }
            }
        }
        let found = queries.iter().zip(tops).map(|(query, top)| {
            let rows: Vec<u32> = top.into_sorted().iter().map(|found| found.row).collect();
            self.matrix.rank(query.as_slice(), &rows, k, cancel)
        });
        Ok(found.collect::<Result<_, _>>()?)
    }

    /// Makes a heap for each question, with room for rows that a matrix product may rank too high.
    pub(super) fn spare_tops(questions: usize, k: usize) -> Vec<TopK> {
        (0..questions).map(|_| TopK::new(k + SPARE)).collect()
    }

    /// Returns the best `k` rows for each question, out of what a product kept in `tops`, scored by their vectors: what
    /// is kept are groups of `group` rows, each by its greatest product. `rounding` is the most that a product may be
    /// off; a question whose rows that leaves open is searched singly, and counted.
    pub(super) fn settle(
        &self,
        queries: &[Embedding],
        tops: Vec<TopK>,
        group: usize,
        k: usize,
        rounding: impl Fn(&[f32]) -> f32 + Sync,
        cancel: &CancelToken,
    ) -> Result<(Vec<Vec<ScoredRow>>, usize), QueryError> {
        let rows_of = |number: u32| {
            let first = number as usize * group;
            // Rows fit u32: building and opening refuse more.
            (first..(first + group).min(self.len())).map(|row| row as u32)
        };
        let singly = AtomicUsize::new(0);
        let found = queries.par_iter().zip(tops).map(|(query, top)| {
            let (floor, values) = (top.floor(), query.as_slice());
            let rows: Vec<u32> = top.into_sorted().iter().flat_map(|found| rows_of(found.row)).collect();
            let found = self.matrix.rank(values, &rows, k, cancel)?;
            // A row that was not kept scores no more than this.
            let is_sure = found.last().is_some_and(|last| last.score > floor + rounding(values));
            if is_sure {
                return Ok(found);
            }
            singly.fetch_add(1, Ordering::Relaxed);
            self.search_until(query, k, None, cancel)
        });
        let found = found.collect::<Result<_, QueryError>>()?;
        Ok((found, singly.into_inner()))
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

    fn search_until(
        &self,
        query: &Embedding,
        k: usize,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        let (k, query) = (self.matrix.check(query, k)?, query.as_slice());
        cancel.check()?;
        if let Some(allowed) = allowed {
            if let Some(AnyQuantized::Int8(codes)) = &self.codes {
                return Ok(search_allowed(&self.matrix, codes, query, allowed, k, cancel)?);
            }
            let rows = allowed.rows_below(self.len());
            return Ok(self.matrix.rank(query, &rows, k.min(rows.len()), cancel)?);
        }
        Ok(match &self.codes {
            Some(AnyQuantized::Int8(codes)) => self.search_codes(&**codes, query, k, cancel)?,
            Some(AnyQuantized::F16(codes)) => self.search_codes(&**codes, query, k, cancel)?,
            Some(AnyQuantized::Binary(codes)) => self.search_codes(&**codes, query, k, cancel)?,
            None => {
                let scores =
                    |(): &mut (), start, scores: &mut [f32]| self.matrix.scores(query, start, scores);
                self.scan(k, cancel, scores)?.into_rows(k)
            }
        })
    }

    fn cost(&self, queries: usize, _k: usize, filtered: bool) -> u64 {
        let storage = self.codes.as_ref().map_or(Storage::F32, AnyQuantized::storage);
        cost(storage, (self.len(), self.dim()), queries, filtered)
    }

    /// Reads each row once for a whole group of questions: a matrix product chooses, and what it cannot tell apart for
    /// its rounding is searched singly.
    fn search_batch_until(
        &self,
        queries: &[Embedding],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        for query in queries {
            self.matrix.check(query, k)?;
        }
        let k = k.min(self.len());
        let group = queries.len().div_ceil(rayon::current_num_threads()).clamp(1, BATCH_QUESTIONS);
        let groups = queries.par_chunks(group).map(|group| match &self.codes {
            None => self.search_group(group, k, cancel),
            Some(AnyQuantized::Int8(codes)) if group.len() >= BATCH_FROM => {
                self.search_group_codes(codes, group, k, cancel)
            }
            Some(_) => group.iter().map(|query| self.search_until(query, k, None, cancel)).collect(),
        });
        Ok(groups.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_scan_that_is_cancelled_scores_no_further_block_on_one_thread_or_on_all() {
        let dim = 1024;
        // 128 rows in a block; from 16,384 rows on all threads scan.
        for count in [12_000, 20_000] {
            let matrix = Matrix::new(vec![1.0; count * dim], count, dim, |row| row.to_string()).unwrap();
            let (index, cancel, scored) =
                (ExactIndex::new(Arc::new(matrix)), CancelToken::new(), AtomicUsize::new(0));
            let scores = |(): &mut (), _, scores: &mut [f32]| {
                if scored.fetch_add(scores.len(), Ordering::SeqCst) > 1000 {
                    cancel.cancel();
                }
            };
            assert_eq!(index.scan(5, &cancel, scores).map(drop), Err(Stopped::Cancelled));
            let most = 1000 + 2 * 128 * rayon::current_num_threads();
            assert!((1000..=most).contains(&scored.into_inner()), "{count} rows");
        }
    }
}
