//! Sparse, dense and hybrid ranking of one corpus.

use dpr_core::Embedding;
use rayon::prelude::*;

use super::{Fusion, Method, SearchError, fuse};
use crate::ranking::ScoredRow;
use crate::sparse::{Scoring, WordIndex};
use crate::{CancelToken, QueryError, RowSet, VectorIndex};

/// Questions that hybrid ranking takes at a time: two rankings of thousands of rows for each would fill the memory.
const BLOCK: usize = 512;

/// Two rankings of the same questions: by words and by vectors.
pub type RankedPair = (Vec<Vec<ScoredRow>>, Vec<Vec<ScoredRow>>);

/// Ranks the passages of a corpus by whatever indexes it has. Row `i` of both is passage `i`.
#[derive(Clone, Copy, Debug)]
pub struct Ranker<'a> {
    /// By words.
    pub words: Option<&'a dyn WordIndex>,
    /// By vectors.
    pub vectors: Option<&'a dyn VectorIndex>,
    /// The rows that may be found; `None` for all.
    pub allowed: Option<&'a RowSet>,
    /// BM25's constants.
    pub bm25: Scoring,
    /// Rows of each list that hybrid ranking combines: [`HYBRID_DEPTH`](super::HYBRID_DEPTH) in the paper. A ranking of
    /// k rows, more than that, combines lists of k rows.
    pub depth: usize,
}

impl Ranker<'_> {
    /// Returns the best `k` rows for each question, best first; fewer when fewer match. `vectors` are the questions'
    /// (`[dim]` each); [`Method::Bm25`] and [`Method::Tfidf`] do not look at them, nor [`Method::Dense`] at the texts.
    ///
    /// # Errors
    /// [`SearchError`]: an index that the method needs is not there, a vector of another size, or for `k` = 0
    /// [`SearchError::Query`] with [`QueryError::K`], whatever the method.
    pub fn rank(
        &self,
        method: Method,
        questions: &[&str],
        vectors: &[Embedding],
        k: usize,
        fusion: Fusion,
    ) -> Result<Vec<Vec<ScoredRow>>, SearchError> {
        self.rank_until(method, questions, vectors, k, fusion, &CancelToken::never())
    }

    /// Ranks as [`Ranker::rank`] does, until `cancel` says to stop.
    ///
    /// # Errors
    /// As [`Ranker::rank`], and [`SearchError::Stopped`].
    pub fn rank_until(
        &self,
        method: Method,
        questions: &[&str],
        vectors: &[Embedding],
        k: usize,
        fusion: Fusion,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, SearchError> {
        if k == 0 {
            return Err(QueryError::K.into());
        }
        match method {
            Method::Bm25 => self.by_words(questions, k, self.bm25, cancel),
            Method::Tfidf => self.by_words(questions, k, Scoring::TfIdf, cancel),
            Method::Dense => self.by_vectors(vectors, k, cancel),
            Method::Hybrid => {
                // Shorter lists could hold fewer than `k` rows together.
                let depth = self.depth.max(k);
                let mut rows = Vec::with_capacity(questions.len());
                for (questions, vectors) in questions.chunks(BLOCK).zip(vectors.chunks(BLOCK)) {
                    let (sparse, dense) = self.both_until(questions, vectors, depth, cancel)?;
                    let pairs = sparse.par_iter().zip(&dense);
                    rows.par_extend(pairs.map(|(sparse, dense)| fuse(sparse, dense, fusion, depth, k)));
                }
                Ok(rows)
            }
        }
    }

    /// The two rankings that hybrid ranking combines, `depth` rows each.
    ///
    /// # Errors
    /// As [`Ranker::rank`].
    pub fn both(&self, questions: &[&str], vectors: &[Embedding]) -> Result<RankedPair, SearchError> {
        self.both_until(questions, vectors, self.depth, &CancelToken::never())
    }

    fn both_until(
        &self,
        questions: &[&str],
        vectors: &[Embedding],
        depth: usize,
        cancel: &CancelToken,
    ) -> Result<RankedPair, SearchError> {
        let sparse = self.by_words(questions, depth, self.bm25, cancel)?;
        Ok((sparse, self.by_vectors(vectors, depth, cancel)?))
    }

    fn by_words(
        &self,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, SearchError> {
        let words = self.words.ok_or(SearchError::NoSparse)?;
        Ok(words.search_batch_until(questions, k, scoring, self.allowed, cancel)?)
    }

    fn by_vectors(
        &self,
        vectors: &[Embedding],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, SearchError> {
        let index = self.vectors.ok_or(SearchError::NoVectors)?;
        let Some(allowed) = self.allowed else { return Ok(index.search_batch_until(vectors, k, cancel)?) };
        let search = |vector| Ok(index.search_until(vector, k, Some(allowed), cancel)?);
        vectors.par_iter().map(search).collect()
    }
}

#[cfg(all(test, feature = "sparse"))]
mod tests;
