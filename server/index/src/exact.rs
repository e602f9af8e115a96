//! Exact search: every row is scored by its vector, or chosen by its quantized vector and then scored.

use std::sync::Arc;

use dpr_core::Embedding;
use dpr_core::kernel::search::batch::QueryBatch;
use rayon::prelude::*;

use super::quantized::{AnyQuantized, Code, Quantized};
use super::{IndexKind, Matrix, QueryError, RowSet, ScoredRow, VectorIndex};
use crate::ranking::TopK;

/// Numbers above which one query is worth several threads: about 4 ms of one.
const PARALLEL_FROM: usize = 16 << 20;

/// Rows that are scored before their scores are looked at.
const GROUP: usize = 64;

/// Numbers in the block of rows that one thread takes: it fits a core's cache.
const BLOCK: usize = 128 << 10;

/// Rows that are scored for all questions of a batch at a time.
const BATCH_ROWS: usize = 64;

/// Questions of a batch that a thread takes at a time: with the rows they fit a core's cache.
const BATCH_QUESTIONS: usize = 192;

/// Rows kept beyond `k` where what chooses them is rounded otherwise than scores are.
const SPARE: usize = 16;

/// Returns the number of rows that are chosen by their quantized vectors and scored again, for a search for `k`.
pub(super) fn rescored(k: usize) -> usize {
    2 * k + SPARE
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
        (BLOCK / self.matrix.dim()).max(1)
    }

    /// The best `k` rows of all, by what `scores` says of the rows from one on.
    fn scan<S: Default + Send>(&self, k: usize, scores: impl Fn(&mut S, usize, &mut [f32]) + Sync) -> TopK {
        let (count, rows) = (self.len(), self.block_rows());
        let scan = |top: &mut TopK, state: &mut S, start: usize, end: usize| {
            let mut group = [0f32; GROUP];
            for start in (start..end).step_by(GROUP) {
                let group = &mut group[..GROUP.min(end - start)];
                scores(state, start, group);
                top.offer_all(start, group);
            }
        };
        if count * self.dim() < PARALLEL_FROM {
            let mut top = TopK::new(k);
            scan(&mut top, &mut S::default(), 0, count);
            return top;
        }
        let blocks = (0..count.div_ceil(rows)).into_par_iter();
        let tops = blocks.fold(
            || (TopK::new(k), S::default()),
            |(mut top, mut state), block| {
                scan(&mut top, &mut state, block * rows, (block * rows + rows).min(count));
                (top, state)
            },
        );
        tops.map(|(top, _)| top).reduce(|| TopK::new(k), TopK::merge)
    }

    /// Finds the best `k` rows by their quantized vectors, scored again by their vectors.
    fn search_codes<C: Code>(&self, codes: &Quantized<C>, query: &[f32], k: usize) -> Vec<ScoredRow> {
        let question = C::query(query);
        let top = self.scan(rescored(k), |state: &mut Option<C::Query>, start, scores| {
            codes.scores(state.get_or_insert_with(|| question.clone()), start, scores);
        });
        let rows: Vec<u32> = top.into_sorted().iter().map(|found| found.row).collect();
        self.matrix.rank(query, &rows, k)
    }

    /// Finds the best `k` rows for each of some questions, by one matrix product.
    fn search_group(&self, queries: &[Embedding], k: usize) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        let (count, dim) = (self.len(), self.dim());
        let questions = QueryBatch::new(queries.iter().map(Embedding::as_slice), dim);
        let mut tops = Self::spare_tops(queries.len(), k);
        let mut scores = vec![0.0; queries.len() * BATCH_ROWS];
        for start in (0..count).step_by(BATCH_ROWS) {
            let rows = BATCH_ROWS.min(count - start);
            questions.products(&self.matrix.as_slice()[start * dim..][..rows * dim], &mut scores);
            for (top, scores) in tops.iter_mut().zip(scores.chunks_exact(rows)) {
                top.offer_all(start, scores);
            }
        }
        self.settle(queries, tops, k, |query| self.matrix.rounding(query))
    }

    /// Makes a heap for each question, with room for rows that a matrix product may rank too high.
    pub(super) fn spare_tops(questions: usize, k: usize) -> Vec<TopK> {
        (0..questions).map(|_| TopK::new(k + SPARE)).collect()
    }

    /// The best `k` rows for each question, out of what a product kept in `tops`: scored by their vectors. `rounding`
    /// is the most that the product may be off; a question whose rows that leaves open is searched singly.
    pub(super) fn settle(
        &self,
        queries: &[Embedding],
        tops: Vec<TopK>,
        k: usize,
        rounding: impl Fn(&[f32]) -> f32 + Sync,
    ) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        let found = queries.iter().zip(tops).map(|(query, top)| {
            let (floor, values) = (top.floor(), query.as_slice());
            let rows: Vec<u32> = top.into_sorted().iter().map(|found| found.row).collect();
            let found = self.matrix.rank(values, &rows, k);
            // A row that was not kept scores no more than this.
            let is_sure = found.last().is_some_and(|last| last.score > floor + rounding(values));
            if is_sure { Ok(found) } else { self.search(query, k) }
        });
        found.collect()
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

    fn search(&self, query: &Embedding, k: usize) -> Result<Vec<ScoredRow>, QueryError> {
        let k = self.matrix.check(query, k)?;
        let query = query.as_slice();
        Ok(match &self.codes {
            Some(AnyQuantized::Int8(codes)) => self.search_codes(codes, query, k),
            Some(AnyQuantized::F16(codes)) => self.search_codes(codes, query, k),
            None => {
                let scores =
                    |(): &mut (), start, scores: &mut [f32]| self.matrix.scores(query, start, scores);
                self.scan(k, scores).into_rows(k)
            }
        })
    }

    fn search_among(
        &self,
        query: &Embedding,
        k: usize,
        allowed: &RowSet,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        let k = self.matrix.check(query, k)?.min(allowed.len());
        let rows: Vec<u32> = allowed.iter().map(|row| row as u32).collect();
        Ok(self.matrix.rank(query.as_slice(), &rows, k))
    }

    /// Reads each row once for a whole group of questions: a matrix product chooses, and what it cannot tell apart for
    /// its rounding is searched singly.
    fn search_batch(&self, queries: &[Embedding], k: usize) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        for query in queries {
            self.matrix.check(query, k)?;
        }
        if self.codes.is_some() {
            return queries.par_iter().map(|query| self.search(query, k)).collect();
        }
        let k = k.min(self.len());
        let group = queries.len().div_ceil(rayon::current_num_threads()).clamp(1, BATCH_QUESTIONS);
        let groups = queries.par_chunks(group).map(|group| self.search_group(group, k));
        Ok(groups.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}
