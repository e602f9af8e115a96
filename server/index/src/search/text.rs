//! Search by the question's text, where the server may see it: by operators, and by services that were let in.

use std::fmt;
use std::sync::Arc;

use dpr_core::TextEncoder;

use super::{Backend, Filter, Fusion, HYBRID_DEPTH, Hit, Method, Ranker, SearchError, Searcher};
use crate::sparse::Scoring;
use crate::{CancelToken, Snapshot, VectorIndex as _};
use dpr_data::normalise_question;

/// Encodes questions and searches an index for them, as it is when each is asked.
///
/// Passages that were added since the index was built are found by their vectors and by their words, those that were
/// deleted by neither.
pub struct TextSearcher {
    backend: Arc<dyn Backend>,
    encoder: TextEncoder,
}

impl fmt::Debug for TextSearcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextSearcher").field("device", &self.encoder.device_name()).finish_non_exhaustive()
    }
}

impl TextSearcher {
    /// Searches `backend`; `encoder` is of the model it was built by ([`Searcher::check_model`]).
    pub fn new(backend: Arc<dyn Backend>, encoder: TextEncoder) -> Self {
        Self { backend, encoder }
    }

    /// Returns whether the index can be searched by words.
    pub fn has_words(&self) -> bool {
        self.backend.snapshot().is_some_and(|snapshot| snapshot.base().has_sparse())
    }

    /// Returns an estimate of the work of a search, as [`Backend::cost`] does: the list of each term of the question
    /// has at most all passages.
    pub fn cost(&self, question: &str, method: Method, k: usize, filter: Option<&Filter>) -> u64 {
        let vectors =
            if method.needs_vectors() { self.backend.cost(1, rows_ranked(method, k), filter) } else { 0 };
        let snapshot = if method.needs_words() { self.backend.snapshot() } else { None };
        vectors.saturating_add(snapshot.map_or(0, |snapshot| cost_of_words(&snapshot, question)))
    }

    /// The best `k` passages for `question`, best first.
    ///
    /// # Errors
    /// [`SearchError`]: a blank question, an index without words where `method` needs them, `k` = 0.
    pub fn search(
        &self,
        question: &str,
        method: Method,
        fusion: Fusion,
        k: usize,
    ) -> Result<Vec<Hit>, SearchError> {
        self.search_until(question, method, fusion, k, None, &CancelToken::never())
    }

    /// Searches as [`search`](Self::search) does, among the passages that `filter` allows, until `cancel` says to stop.
    /// A filter leaves scores as they are: hybrid ranking combines the best of both lists that it allows.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search), [`SearchError::NothingAllowed`] for a filter that allows no passage, and
    /// [`SearchError::Stopped`].
    pub fn search_until(
        &self,
        question: &str,
        method: Method,
        fusion: Fusion,
        k: usize,
        filter: Option<&Filter>,
        cancel: &CancelToken,
    ) -> Result<Vec<Hit>, SearchError> {
        cancel.check()?;
        let question = &normalise_question(question);
        let snapshot = self.backend.snapshot();
        let has_words = snapshot.as_ref().is_some_and(|snapshot| snapshot.base().has_sparse());
        if method.needs_words() && !has_words {
            if let Some(snapshot) = &snapshot {
                snapshot.base().manifest.check_words()?;
            }
            return Err(SearchError::NoSparse);
        }
        let vectors =
            if method.needs_vectors() { vec![self.encoder.encode_question(question)?] } else { Vec::new() };
        let Some(snapshot) = snapshot else {
            return Ok(self.backend.search_until(&vectors, k, filter, cancel)?.pop().unwrap_or_default());
        };
        let allowed = Filter::allowed(filter, &snapshot, cancel)?;
        let ranker = Ranker {
            words: has_words.then_some(snapshot.as_ref()),
            vectors: Some(snapshot.as_ref()),
            allowed: allowed.as_ref(),
            bm25: Scoring::PAPER,
            depth: HYBRID_DEPTH,
        };
        let rows = ranker.rank_until(method, &[question], &vectors, k, fusion, cancel)?;
        let searcher = Searcher::of(Arc::clone(&snapshot));
        searcher.hits(rows.into_iter().flatten().collect(), cancel)
    }
}

/// Returns the number of rows that a search for `k` ranks by vectors.
fn rows_ranked(method: Method, k: usize) -> usize {
    if method == Method::Hybrid { HYBRID_DEPTH.max(k) } else { k }
}

/// Returns the cost of reading the posting lists of the question's terms; 0 without words.
fn cost_of_words(snapshot: &Snapshot, question: &str) -> u64 {
    let Some(words) = snapshot.base().manifest.sparse else { return 0 };
    let terms = words.analyzer.count_distinct_terms(&normalise_question(question));
    (terms as u64).saturating_mul(snapshot.len() as u64)
}

#[cfg(all(test, feature = "sparse"))]
mod tests {
    use dpr_data::Passage;
    use dpr_files::progress::Silent;

    use super::*;
    use crate::sparse::{Analyzer, SparseOptions};
    use crate::vectors::VectorSet;
    use crate::{IndexOptions, LoadedIndex, build_index};

    const ROWS: usize = 40;

    fn snapshot(sparse: Option<SparseOptions>) -> Snapshot {
        let dir = tempfile::tempdir().unwrap();
        let passages = (0..ROWS).map(|row| Passage::new(format!("p{row}"), "", "The text.")).collect();
        let set = VectorSet::new("ab".repeat(32), 2, passages, vec![1.0; 2 * ROWS]);
        build_index(&set, dir.path(), &IndexOptions { sparse, ..IndexOptions::default() }, &Silent).unwrap();
        Snapshot::of(LoadedIndex::open(dir.path()).unwrap())
    }

    #[test]
    fn words_cost_the_terms_that_are_read_whatever_stands_between_them() {
        let of = |analyzer| snapshot(Some(SparseOptions { analyzer, threads: 1 }));
        let (english, bigram) = (of(Analyzer::English), of(Analyzer::Bigram));
        let terms = |snapshot: &Snapshot, question: &str| cost_of_words(snapshot, question) / ROWS as u64;
        for (question, count) in [
            ("", 0),
            ("the of", 0),
            ("cats and dogs", 2),
            ("Cat cats CATS, the cat\u{2019}s", 1),
            ("bat,cot,dig,fun,gum", 5),
            ("bat,cot\u{a0}dig\u{3000}fun/gum-bat", 5),
        ] {
            assert_eq!(terms(&english, question), count, "{question:?}");
        }
        // 4,096 different characters without a space: 4,095 pairs.
        let chinese: String = ('\u{4e00}'..='\u{5dff}').collect();
        assert_eq!(terms(&bigram, &chinese), 4095);
        assert_eq!(terms(&bigram, &"\u{4e00}".repeat(4096)), 1, "one pair, whose list is read once");
        let letters: Vec<String> = (0..2000).map(|at| format!("w{at}")).collect();
        assert_eq!(terms(&english, &letters.join(",")), 2000);
        assert_eq!(cost_of_words(&snapshot(None), "cats"), 0, "there are no words");
    }

    #[test]
    fn hybrid_ranking_costs_the_rows_that_it_ranks_by_vectors() {
        let counts = [1, HYBRID_DEPTH, HYBRID_DEPTH + 1, 9 * HYBRID_DEPTH];
        assert_eq!(counts.map(|k| rows_ranked(Method::Dense, k)), counts);
        let hybrid = counts.map(|k| rows_ranked(Method::Hybrid, k));
        assert_eq!(hybrid, [HYBRID_DEPTH, HYBRID_DEPTH, HYBRID_DEPTH + 1, 9 * HYBRID_DEPTH]);
    }
}
