//! Ranking by every posting of a question's terms, one term at a time: what the ranking by bounds must equal.

use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::IndexRecordOption;

use super::analysis::Analysis;
use super::index::{QuestionTerm, Segment};
use super::{Scoring, SparseError, SparseIndex};
use crate::CancelToken;
use crate::ranking::{Candidate, ScoredRow, TopK};

/// Documents in a window of accumulators, whose scores are summed term at a time: they fit a core's cache.
const WINDOW: usize = 1 << 14;
/// Accumulators in a block, which is skipped if its greatest score cannot enter the top-k heap.
const BLOCK: usize = 16;

/// A cursor over a term's posting list in one segment.
struct Cursor {
    postings: BlockSegmentPostings,
    position: usize,
    weight: f32,
}

impl SparseIndex {
    /// Finds what [`search`](Self::search) finds, by scoring every posting: for tests and benches.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search).
    #[doc(hidden)]
    pub fn search_every_posting(
        &self,
        question: &str,
        k: usize,
        scoring: Scoring,
    ) -> Result<Vec<ScoredRow>, SparseError> {
        let mut analysis = Analysis::new(self.analyzer());
        let terms = self.weigh(&mut analysis, question, scoring, &|_| 0, &CancelToken::never())?;
        let mut top = TopK::new(k.min(self.len()));
        let mut scores = vec![0f32; WINDOW];
        for (at, segment) in self.segments.iter().enumerate() {
            let cursors = terms.iter().filter_map(|term| segment.cursor(at, term).transpose());
            let cursors = cursors.collect::<std::io::Result<Vec<_>>>().map_err(SparseError::search)?;
            match scoring {
                Scoring::Bm25 { k1, b } => {
                    let (fixed, by_length) = self.length_normalization(k1, b);
                    let lengths = segment.lengths.as_slice();
                    let saturated =
                        |document: usize, tf: f32| tf / (tf + fixed + by_length * lengths[document]);
                    segment.rank(cursors, saturated, &mut scores, &mut top);
                }
                Scoring::TfIdf => {
                    let norms = segment.inverse_norms.as_slice();
                    let normalized = |document: usize, tf: f32| tf * norms[document];
                    segment.rank(cursors, normalized, &mut scores, &mut top);
                }
            }
        }
        Ok(top.into_rows(k))
    }
}

impl Segment {
    fn cursor(&self, at: usize, term: &QuestionTerm) -> std::io::Result<Option<Cursor>> {
        let Some(info) = &term.infos[at] else { return Ok(None) };
        let postings = self.inverted.read_block_postings_from_terminfo(info, IndexRecordOption::WithFreqs)?;
        Ok(Some(Cursor { postings, position: 0, weight: term.weight }))
    }

    /// Scores the segment term at a time, a window of documents after the other: sums `weight * tf_score(document, tf)`
    /// over the cursors and offers every sum above 0 to `top`. `scores` are [`WINDOW`] zeros before and after.
    fn rank(
        &self,
        mut cursors: Vec<Cursor>,
        tf_score: impl Fn(usize, f32) -> f32,
        scores: &mut [f32],
        top: &mut TopK,
    ) {
        let mut start = 0;
        while !cursors.is_empty() {
            let end = start + WINDOW;
            let mut touched = false;
            cursors.retain_mut(|cursor| cursor.accumulate(start, end, &tf_score, scores, &mut touched));
            if touched {
                self.offer(start, scores, top);
                scores.fill(0.0);
            }
            start = end;
        }
    }

    fn offer(&self, start: usize, scores: &[f32], top: &mut TopK) {
        let mut least = least_of(top);
        for (block, at) in scores.chunks_exact(BLOCK).zip((start..).step_by(BLOCK)) {
            if block.iter().fold(0.0, |best: f32, score| best.max(*score)) < least {
                continue;
            }
            for (score, document) in block.iter().zip(at..) {
                if *score >= least {
                    top.offer(Candidate { score: *score, row: self.rows[document] });
                    least = least_of(top);
                }
            }
        }
    }
}

/// Returns the threshold: the least score that could still enter the heap.
fn least_of(top: &TopK) -> f32 {
    match top.worst() {
        Some(worst) if top.is_full() => worst.score,
        _ => f32::MIN_POSITIVE,
    }
}

impl Cursor {
    /// Adds the term's scores of the documents from `start` to `end` to their accumulators and sets `touched` if there
    /// were any; returns `false` when the posting list has ended.
    #[inline]
    fn accumulate(
        &mut self,
        start: usize,
        end: usize,
        tf_score: &impl Fn(usize, f32) -> f32,
        scores: &mut [f32],
        touched: &mut bool,
    ) -> bool {
        loop {
            let (documents, frequencies) = (self.postings.docs(), self.postings.freqs());
            let rest = documents.iter().zip(frequencies).skip(self.position);
            for (document, tf) in rest {
                let document = *document as usize;
                if document >= end {
                    return true;
                }
                scores[document - start] += self.weight * tf_score(document, *tf as f32);
                self.position += 1;
                *touched = true;
            }
            if documents.is_empty() {
                return false;
            }
            self.postings.advance();
            self.position = 0;
        }
    }
}
