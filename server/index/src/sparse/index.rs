//! Searching an inverted index.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tantivy::index::InvertedIndexReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::{Field, FieldType, IndexRecordOption};
use tantivy::{Index, TantivyError, Term};

use dpr_files::Error as FileError;

use super::analysis::Analysis;
use super::build::{TEXT, rows, segments};
use super::documents::Documents;
use super::{Analyzer, Scoring, SparseError, WordIndex};
use crate::ranking::{Candidate, ScoredRow, TopK};
use crate::{CancelToken, RowSet, Stopped};

/// Documents in a window of accumulators, whose scores are summed term at a time: they fit a core's cache.
const WINDOW: usize = 1 << 14;
/// Accumulators in a block, which is skipped if its greatest score cannot enter the top-k heap.
const BLOCK: usize = 16;

impl WordIndex for SparseIndex {
    fn search_batch_until(
        &self,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError> {
        use rayon::prelude::*;
        let analysis = || Analysis::new(self.analyzer);
        questions
            .par_iter()
            .map_init(analysis, |analysis, question| {
                self.search_with(analysis, question, k, scoring, allowed, cancel)
            })
            .collect()
    }
}

/// A sparse index, mapped into memory; shared by as many threads as there are.
pub struct SparseIndex {
    analyzer: Analyzer,
    pub(super) field: Field,
    pub(super) segments: Vec<Segment>,
    count: usize,
    mean_length: f64,
}

/// A segment of the inverted index; all lists are by its own document numbers.
pub(super) struct Segment {
    pub(super) inverted: Arc<InvertedIndexReader>,
    rows: Vec<u32>,
    lengths: Vec<f32>,
    /// 1 / norm of the TF-IDF vector.
    inverse_norms: Vec<f32>,
}

/// A cursor over a term's posting list in one segment.
struct Cursor {
    postings: BlockSegmentPostings,
    position: usize,
    weight: f32,
}

impl SparseIndex {
    /// Opens what [`build_sparse`](super::build_sparse) wrote of `count` passages with this analyzer.
    ///
    /// # Errors
    /// [`SparseError::File`] or [`SparseError::OtherAnalyzer`]; bytes are checked by the index
    /// directory around it.
    pub fn open(dir: &Path, analyzer: Analyzer, count: usize) -> Result<Self, SparseError> {
        let corrupt = |reason: String| SparseError::File(FileError::corrupt(dir, reason));
        let failed = |error: TantivyError| corrupt(error.to_string());
        let index = Index::open_in_dir(dir).map_err(failed)?;
        let field = index.schema().get_field(TEXT).map_err(failed)?;
        let built = tokenizer(&index, field);
        if built != analyzer.to_string() {
            return Err(SparseError::OtherAnalyzer { path: dir.to_path_buf(), built, expected: analyzer });
        }
        let readers = segments(&index).map_err(failed)?;
        let rows = rows(&readers).map_err(failed)?;
        let mut seen = vec![false; count];
        for row in rows.iter().flatten() {
            match seen.get_mut(*row as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(corrupt(format!("row {row} of {count} is out of place"))),
            }
        }
        if let Some(missing) = seen.iter().position(|seen| !seen) {
            return Err(corrupt(format!("row {missing} of {count} is missing")));
        }
        let documents = Documents::read(dir, count)?;
        let total: u64 = documents.lengths.iter().map(|length| u64::from(*length)).sum();
        let segments = readers.iter().zip(rows).map(|(reader, rows)| {
            let of = |row: &u32| *row as usize;
            Ok(Segment {
                inverted: reader.inverted_index(field).map_err(failed)?,
                lengths: rows.iter().map(|row| documents.lengths[of(row)] as f32).collect(),
                inverse_norms: rows
                    .iter()
                    .map(|row| 1.0 / documents.norms[of(row)].max(f32::MIN_POSITIVE))
                    .collect(),
                rows,
            })
        });
        let segments = segments.collect::<Result<_, SparseError>>()?;
        Ok(Self {
            analyzer,
            field,
            segments,
            count,
            mean_length: (total as f64 / count.max(1) as f64).max(1.0),
        })
    }

    /// Returns the analyzer of its text.
    pub fn analyzer(&self) -> Analyzer {
        self.analyzer
    }

    /// Returns the number of passages.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if there are no passages.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the best `k` passages for a question, best first, equal scores by row. Passages that share no term
    /// with it are not found, so that there may be fewer.
    ///
    /// # Errors
    /// [`SparseError::K`] for `k = 0`, [`SparseError::Parameters`], [`SparseError::Search`].
    pub fn search(&self, question: &str, k: usize, scoring: Scoring) -> Result<Vec<ScoredRow>, SparseError> {
        let never = CancelToken::never();
        self.search_with(&mut Analysis::new(self.analyzer), question, k, scoring, None, &never)
    }

    /// [`search`](Self::search) for each question, in their order, on every processor.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search).
    pub fn search_batch(
        &self,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError> {
        WordIndex::search_batch(self, questions, k, scoring)
    }

    fn search_with(
        &self,
        analysis: &mut Analysis,
        question: &str,
        k: usize,
        scoring: Scoring,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, SparseError> {
        if k == 0 {
            return Err(SparseError::K);
        }
        scoring.check()?;
        let terms = self.weigh(analysis, question, scoring, &|_| 0).map_err(SparseError::search)?;
        let mut top = Top { rows: TopK::new(k.min(self.count)), allowed };
        let mut scores = vec![0f32; WINDOW];
        for segment in &self.segments {
            let cursors = terms.iter().filter_map(|(term, weight)| segment.cursor(term, *weight).transpose());
            let cursors = cursors.collect::<std::io::Result<Vec<_>>>().map_err(SparseError::search)?;
            match scoring {
                Scoring::Bm25 { k1, b } => {
                    let (fixed, by_length) = self.length_normalization(k1, b);
                    let lengths = segment.lengths.as_slice();
                    let saturated =
                        |document: usize, tf: f32| tf / (tf + fixed + by_length * lengths[document]);
                    segment.rank(cursors, saturated, &mut scores, &mut top, cancel)?;
                }
                Scoring::TfIdf => {
                    let norms = segment.inverse_norms.as_slice();
                    let normalized = |document: usize, tf: f32| tf * norms[document];
                    segment.rank(cursors, normalized, &mut scores, &mut top, cancel)?;
                }
            }
        }
        Ok(top.rows.into_rows(k))
    }

    /// Returns BM25's length normalization, the terms that its denominator adds to the term frequency: a constant,
    /// `k1 * (1 - b)`, and the factor of the passage's length, `k1 * b / mean length`.
    pub(super) fn length_normalization(&self, k1: f32, b: f32) -> (f32, f32) {
        (k1 * (1.0 - b), (f64::from(k1 * b) / self.mean_length) as f32)
    }

    /// Returns the question's terms with their weights: idf times the term's frequency in the question. `others`
    /// gives the document frequency of a term among passages outside of the index, used where it is 0 in the index.
    pub(super) fn weigh(
        &self,
        analysis: &mut Analysis,
        question: &str,
        scoring: Scoring,
        others: &dyn Fn(&str) -> usize,
    ) -> std::io::Result<Vec<(Term, f32)>> {
        let mut frequencies: HashMap<String, f64> = HashMap::new();
        let mut order = Vec::new();
        analysis.each(question, |term| match frequencies.get_mut(term) {
            Some(frequency) => *frequency += 1.0,
            None => {
                order.push(term.to_owned());
                frequencies.insert(term.to_owned(), 1.0);
            }
        });
        let mut terms = Vec::with_capacity(order.len());
        let mut square = 0.0;
        for text in order {
            let term = self.term(&text);
            let known = self.frequency(&term)?;
            let frequency = if known == 0 { others(&text) } else { known };
            if frequency == 0 {
                continue;
            }
            let (idf, tf) = (scoring.idf(self.count, frequency.min(self.count)), frequencies[&text]);
            if known > 0 {
                square += (tf * idf).powi(2);
            }
            // In TF-IDF the passage's vector has the factor idf too.
            let weight = if scoring == Scoring::TfIdf { tf * idf * idf } else { tf * idf };
            terms.push((term, weight));
        }
        let scale = if scoring == Scoring::TfIdf && square > 0.0 { 1.0 / square.sqrt() } else { 1.0 };
        Ok(terms.into_iter().map(|(term, weight)| (term, (weight * scale) as f32)).collect())
    }
}

impl std::fmt::Debug for SparseIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { analyzer, count, mean_length, segments, .. } = self;
        f.debug_struct("SparseIndex")
            .field("analyzer", analyzer)
            .field("count", count)
            .field("mean_length", mean_length)
            .field("segments", &segments.len())
            .finish_non_exhaustive()
    }
}

impl Segment {
    fn cursor(&self, term: &Term, weight: f32) -> std::io::Result<Option<Cursor>> {
        let postings = self.inverted.read_block_postings(term, IndexRecordOption::WithFreqs)?;
        Ok(postings.map(|postings| Cursor { postings, position: 0, weight }))
    }

    /// Scores the segment term at a time, a window of documents after the other: sums `weight * tf_score(document, tf)`
    /// over the cursors and offers every sum above 0 to `top`. `scores` are [`WINDOW`] zeros before and after.
    fn rank(
        &self,
        mut cursors: Vec<Cursor>,
        tf_score: impl Fn(usize, f32) -> f32,
        scores: &mut [f32],
        top: &mut Top<'_>,
        cancel: &CancelToken,
    ) -> Result<(), Stopped> {
        let mut start = 0;
        while !cursors.is_empty() {
            cancel.check()?;
            let end = start + WINDOW;
            let mut touched = false;
            cursors.retain_mut(|cursor| cursor.accumulate(start, end, &tf_score, scores, &mut touched));
            if touched {
                self.offer(start, scores, top);
                scores.fill(0.0);
            }
            start = end;
        }
        Ok(())
    }

    fn offer(&self, start: usize, scores: &[f32], top: &mut Top<'_>) {
        let mut least = top.least();
        for (block, at) in scores.chunks_exact(BLOCK).zip((start..).step_by(BLOCK)) {
            if block.iter().fold(0.0, |best: f32, score| best.max(*score)) < least {
                continue;
            }
            for (score, document) in block.iter().zip(at..) {
                if *score >= least && top.allows(self.rows[document]) {
                    top.rows.offer(Candidate { score: *score, row: self.rows[document] });
                    least = top.least();
                }
            }
        }
    }
}

/// The best rows so far, of those that may be found.
struct Top<'a> {
    rows: TopK,
    allowed: Option<&'a RowSet>,
}

impl Top<'_> {
    /// Returns the threshold: the least score that could still enter the heap.
    fn least(&self) -> f32 {
        match self.rows.worst() {
            Some(worst) if self.rows.is_full() => worst.score,
            _ => f32::MIN_POSITIVE,
        }
    }

    /// Returns `true` if a row may be found. Few scores come to this: most are below the threshold.
    fn allows(&self, row: u32) -> bool {
        self.allowed.is_none_or(|allowed| allowed.contains(row as usize))
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

/// Returns the analyzer that the schema names.
fn tokenizer(index: &Index, field: Field) -> String {
    let FieldType::Str(options) = index.schema().get_field_entry(field).field_type().clone() else {
        return "none".to_owned();
    };
    options.get_indexing_options().map_or("none", |indexing| indexing.tokenizer()).to_owned()
}
