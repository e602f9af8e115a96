//! Searching an inverted index.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use tantivy::index::InvertedIndexReader;
use tantivy::postings::BlockSegmentPostings;
use tantivy::schema::{Field, FieldType, IndexRecordOption};
use tantivy::{Index, TantivyError, Term};

use dpr_files::Error as FileError;

use super::analyzer::Analysis;
use super::build::{TEXT, rows, segments};
use super::documents::Documents;
use super::{Analyzer, Scoring, SparseError, WordIndex};
use crate::ranking::{Candidate, ScoredRow, TopK};

/// Documents whose scores are summed at a time: they stay in a core's cache.
const WINDOW: usize = 1 << 14;
/// Scores looked at together for one that is good enough.
const GLANCE: usize = 16;

impl WordIndex for SparseIndex {
    fn search_batch(
        &self,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError> {
        Self::search_batch(self, questions, k, scoring)
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

/// One part of the index; all lists are by the segment's own document numbers.
pub(super) struct Segment {
    pub(super) inverted: Arc<InvertedIndexReader>,
    rows: Vec<u32>,
    lengths: Vec<f32>,
    /// 1 / norm of the TF-IDF vector.
    inverse_norms: Vec<f32>,
}

/// A term's postings in one segment, read front to back.
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

    /// Passages in it.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns `true` if there are no passages.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The best `k` passages for a question, best first, equal scores by row. Passages that share no term with it
    /// are not found, so that there may be fewer.
    ///
    /// # Errors
    /// [`SparseError::K`] for `k = 0`, [`SparseError::Parameters`], [`SparseError::Search`].
    pub fn search(&self, question: &str, k: usize, scoring: Scoring) -> Result<Vec<ScoredRow>, SparseError> {
        self.search_with(&mut Analysis::new(self.analyzer), question, k, scoring)
    }

    /// [`search`](Self::search) for each question, in their order, on every processor.
    ///
    /// # Errors
    /// Those of [`search`](Self::search).
    pub fn search_batch(
        &self,
        questions: &[&str],
        k: usize,
        scoring: Scoring,
    ) -> Result<Vec<Vec<ScoredRow>>, SparseError> {
        use rayon::prelude::*;
        let analysis = || Analysis::new(self.analyzer);
        questions
            .par_iter()
            .map_init(analysis, |analysis, question| self.search_with(analysis, question, k, scoring))
            .collect()
    }

    fn search_with(
        &self,
        analysis: &mut Analysis,
        question: &str,
        k: usize,
        scoring: Scoring,
    ) -> Result<Vec<ScoredRow>, SparseError> {
        if k == 0 {
            return Err(SparseError::K);
        }
        scoring.check()?;
        let terms = self.weigh(analysis, question, scoring, &|_| 0).map_err(SparseError::search)?;
        let mut top = TopK::new(k.min(self.count));
        let mut scores = vec![0f32; WINDOW];
        for segment in &self.segments {
            let cursors = terms.iter().filter_map(|(term, weight)| segment.cursor(term, *weight).transpose());
            let cursors = cursors.collect::<std::io::Result<Vec<_>>>().map_err(SparseError::search)?;
            match scoring {
                Scoring::Bm25 { k1, b } => {
                    let (fixed, by_length) = self.held_back(k1, b);
                    let lengths = segment.lengths.as_slice();
                    let worth =
                        |document: usize, times: f32| times / (times + fixed + by_length * lengths[document]);
                    segment.rank(cursors, worth, &mut scores, &mut top);
                }
                Scoring::TfIdf => {
                    let norms = segment.inverse_norms.as_slice();
                    segment.rank(cursors, |document, times| times * norms[document], &mut scores, &mut top);
                }
            }
        }
        Ok(top.into_rows(k))
    }

    /// What BM25 adds to a term's count below the line: a constant, and another for each term of the passage.
    pub(super) fn held_back(&self, k1: f32, b: f32) -> (f32, f32) {
        (k1 * (1.0 - b), (f64::from(k1 * b) / self.mean_length) as f32)
    }

    /// The question's terms with their weights; a term that occurs twice counts twice. `others` says how many
    /// passages outside of the index hold a term, which counts where none in it does.
    pub(super) fn weigh(
        &self,
        analysis: &mut Analysis,
        question: &str,
        scoring: Scoring,
        others: &dyn Fn(&str) -> usize,
    ) -> std::io::Result<Vec<(Term, f32)>> {
        let mut times: HashMap<String, f64> = HashMap::new();
        let mut order = Vec::new();
        analysis.each(question, |term| match times.get_mut(term) {
            Some(times) => *times += 1.0,
            None => {
                order.push(term.to_owned());
                times.insert(term.to_owned(), 1.0);
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
            let (idf, asked) = (scoring.idf(self.count, frequency.min(self.count)), times[&text]);
            if known > 0 {
                square += (asked * idf).powi(2);
            }
            // The passage's own factor of TF-IDF has the idf too.
            let weight = if scoring == Scoring::TfIdf { asked * idf * idf } else { asked * idf };
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

    /// Sums `weight * worth(document, times)` over the cursors and offers every sum above 0 to `top`. `scores` are
    /// [`WINDOW`] zeros, and are again when it is done.
    fn rank(
        &self,
        mut cursors: Vec<Cursor>,
        worth: impl Fn(usize, f32) -> f32,
        scores: &mut [f32],
        top: &mut TopK,
    ) {
        let mut start = 0;
        while !cursors.is_empty() {
            let end = start + WINDOW;
            let mut touched = false;
            cursors.retain_mut(|cursor| cursor.add_below(start, end, &worth, scores, &mut touched));
            if touched {
                self.offer(start, scores, top);
                scores.fill(0.0);
            }
            start = end;
        }
    }

    fn offer(&self, start: usize, scores: &[f32], top: &mut TopK) {
        let mut least = least(top);
        for (glance, at) in scores.chunks_exact(GLANCE).zip((start..).step_by(GLANCE)) {
            if glance.iter().fold(0.0, |best: f32, score| best.max(*score)) < least {
                continue;
            }
            for (score, document) in glance.iter().zip(at..) {
                if *score >= least {
                    top.offer(Candidate { score: *score, row: self.rows[document] });
                    least = self::least(top);
                }
            }
        }
    }
}

/// The least score that could still be among the best.
fn least(top: &TopK) -> f32 {
    match top.worst() {
        Some(worst) if top.is_full() => worst.score,
        _ => f32::MIN_POSITIVE,
    }
}

impl Cursor {
    /// Adds what the documents before `end` are worth to their scores, which begin at `start`, and notes whether
    /// there were any; false when there are none after it.
    #[inline]
    fn add_below(
        &mut self,
        start: usize,
        end: usize,
        worth: &impl Fn(usize, f32) -> f32,
        scores: &mut [f32],
        touched: &mut bool,
    ) -> bool {
        loop {
            let (documents, times) = (self.postings.docs(), self.postings.freqs());
            let rest = documents.iter().zip(times).skip(self.position);
            for (document, times) in rest {
                let document = *document as usize;
                if document >= end {
                    return true;
                }
                scores[document - start] += self.weight * worth(document, *times as f32);
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

/// The analyzer that the schema names.
fn tokenizer(index: &Index, field: Field) -> String {
    let FieldType::Str(options) = index.schema().get_field_entry(field).field_type().clone() else {
        return "none".to_owned();
    };
    options.get_indexing_options().map_or("none", |indexing| indexing.tokenizer()).to_owned()
}
