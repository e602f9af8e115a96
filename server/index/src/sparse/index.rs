//! Searching an inverted index.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use dpr_core::kernel::search::postings::TermScore;
use tantivy::index::InvertedIndexReader;
use tantivy::postings::TermInfo;
use tantivy::schema::{Field, FieldType, IndexRecordOption};
use tantivy::{Index, TantivyError, Term};

use dpr_files::Error as FileError;

use super::analysis::Analysis;
use super::build::{TEXT, rows, segments};
use super::documents::Documents;
use super::formula::{Formula, SPAN};
use super::impacts::Impacts;
use super::lists::List;
use super::maxscore::{Scratch, rank};
use super::shares::ShareCache;
use super::top::TopK;
use super::{Analyzer, Scoring, SparseError, WordIndex};
use crate::ranking::ScoredRow;
use crate::{CancelToken, RowSet};

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
        let search = |question: &&str| self.search_with(question, k, scoring, allowed, cancel);
        questions.par_iter().map(search).collect()
    }
}

/// A sparse index, mapped into memory; shared by as many threads as there are.
pub struct SparseIndex {
    analyzer: Analyzer,
    pub(super) field: Field,
    pub(super) segments: Vec<Segment>,
    impacts: Option<Impacts>,
    pub(super) shares: ShareCache,
    count: usize,
    mean_length: f64,
    /// Buffers that searches which ended have left for the next ones.
    workers: Mutex<Vec<Worker>>,
}

/// The state that a search needs beside the index.
struct Worker {
    analysis: Analysis,
    scratch: Scratch,
}

/// Workers that are kept for the next searches.
const WORKERS: usize = 64;

/// A segment of the inverted index; all lists are by its own document numbers.
pub(super) struct Segment {
    pub(super) inverted: Arc<InvertedIndexReader>,
    pub(super) rows: Vec<u32>,
    /// Padded to whole spans.
    pub(super) lengths: Vec<f32>,
    /// 1 / norm of the TF-IDF vector, padded to whole spans.
    pub(super) inverse_norms: Vec<f32>,
}

/// A term of a question.
pub(super) struct QuestionTerm {
    pub(super) term: Term,
    /// idf times the term's frequency in the question.
    pub(super) weight: f32,
    /// The places of its posting list in each segment.
    pub(super) infos: Vec<Option<TermInfo>>,
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
        let impacts = Impacts::open(dir, &readers)?;
        let mean_length = documents.mean_length();
        let segments = readers.iter().zip(rows).map(|(reader, rows)| {
            let of = |row: &u32| *row as usize;
            let padded = |value: &dyn Fn(&u32) -> f32| {
                let mut values: Vec<f32> = Vec::with_capacity(rows.len().next_multiple_of(SPAN));
                values.extend(rows.iter().map(value));
                values.resize(rows.len().next_multiple_of(SPAN), 0.0);
                values
            };
            Ok(Segment {
                inverted: reader.inverted_index(field).map_err(failed)?,
                lengths: padded(&|row| documents.lengths[of(row)] as f32),
                inverse_norms: padded(&|row| 1.0 / documents.norms[of(row)].max(f32::MIN_POSITIVE)),
                rows,
            })
        });
        let segments = segments.collect::<Result<_, SparseError>>()?;
        Ok(Self {
            analyzer,
            field,
            segments,
            impacts,
            shares: ShareCache::default(),
            count,
            mean_length,
            workers: Mutex::default(),
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
        self.search_with(question, k, scoring, None, &CancelToken::never())
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
        let kept = self.workers.lock().ok().and_then(|mut workers| workers.pop());
        let mut worker = kept.unwrap_or_else(|| Worker {
            analysis: Analysis::of_questions(self.analyzer),
            scratch: Scratch::default(),
        });
        let terms = self.weigh(&mut worker.analysis, question, scoring, &|_| 0, cancel)?;
        let mut top = TopK::new(k.min(self.count), allowed);
        for (at, segment) in self.segments.iter().enumerate() {
            let formula = self.formula(segment, scoring, terms.len());
            let mut lists = self.lists(at, &terms, &formula, cancel)?;
            rank(&mut lists, &formula, &segment.rows, &mut worker.scratch, &mut top, cancel)?;
        }
        if let Ok(mut workers) = self.workers.lock()
            && workers.len() < WORKERS
        {
            workers.push(worker);
        }
        Ok(top.into_rows())
    }

    /// Returns the words whose terms each kept worker remembers.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> Vec<usize> {
        dpr_files::lock(&self.workers).iter().map(|worker| worker.analysis.remembered()).collect()
    }

    /// Opens the posting lists of the terms that a segment has, until `cancel` says to stop: many are read whole.
    fn lists(
        &self,
        at: usize,
        terms: &[QuestionTerm],
        formula: &Formula<'_>,
        cancel: &CancelToken,
    ) -> Result<Vec<List>, SparseError> {
        let inverted = &self.segments[at].inverted;
        let is_kept = self.shares.is_of(formula.term);
        let found = terms.iter().filter_map(|term| Some((term.infos[at].as_ref()?, term.weight)));
        let open = |(info, weight): (&TermInfo, f32)| -> Result<List, SparseError> {
            cancel.check()?;
            let option = IndexRecordOption::WithFreqs;
            let postings = inverted.read_block_postings_from_terminfo(info, option);
            let postings = postings.map_err(SparseError::search)?;
            let key = (at, info.postings_range.start);
            let kept = if is_kept { self.shares.list(key, &postings, formula) } else { None };
            if let Some(shares) = kept {
                return Ok(List::whole(shares, weight, formula));
            }
            let impacts = match (&self.impacts, formula.term) {
                (Some(impacts), TermScore::Bm25 { .. }) => {
                    impacts.of(at, info.postings_range.start, &postings, formula.values)
                }
                _ => None,
            };
            Ok(List::new(postings, weight, formula, impacts))
        };
        found.map(open).collect()
    }

    /// Returns the formula of the terms' scores in a segment's documents, for a question of so many terms.
    pub(super) fn formula<'a>(&self, segment: &'a Segment, scoring: Scoring, terms: usize) -> Formula<'a> {
        let (term, values) = match scoring {
            Scoring::Bm25 { k1, b } => {
                let (fixed, by_length) = self.length_normalization(k1, b);
                (TermScore::Bm25 { fixed, by_length }, segment.lengths.as_slice())
            }
            Scoring::TfIdf => (TermScore::TfIdf, segment.inverse_norms.as_slice()),
        };
        Formula { term, values, slack: 1.0 + (16 + 2 * terms) as f32 * f32::EPSILON }
    }

    /// Returns BM25's length normalization, the terms that its denominator adds to the term frequency: a constant,
    /// `k1 * (1 - b)`, and the factor of the passage's length, `k1 * b / mean length`.
    pub(super) fn length_normalization(&self, k1: f32, b: f32) -> (f32, f32) {
        (k1 * (1.0 - b), (f64::from(k1 * b) / self.mean_length) as f32)
    }

    /// Returns the question's terms that have a weight: idf times the term's frequency in the question. `others` gives
    /// the document frequency of a term among passages outside of the index, used where it is 0 in the index. Each term
    /// is looked for in the dictionaries of all segments, until `cancel` says to stop.
    pub(super) fn weigh(
        &self,
        analysis: &mut Analysis,
        question: &str,
        scoring: Scoring,
        others: &dyn Fn(&str) -> usize,
        cancel: &CancelToken,
    ) -> Result<Vec<QuestionTerm>, SparseError> {
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
            cancel.check()?;
            let term = self.term(&text);
            let segments = self.segments.iter();
            let infos = segments.map(|segment| segment.inverted.get_term_info(&term));
            let infos = infos.collect::<io::Result<Vec<Option<TermInfo>>>>().map_err(SparseError::search)?;
            let known = infos.iter().flatten().map(|info| info.doc_freq as usize).sum();
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
            terms.push((term, weight, infos));
        }
        let scale = if scoring == Scoring::TfIdf && square > 0.0 { 1.0 / square.sqrt() } else { 1.0 };
        let weighed = terms.into_iter().map(|(term, weight, infos)| QuestionTerm {
            term,
            weight: (weight * scale) as f32,
            infos,
        });
        Ok(weighed.collect())
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

/// Returns the analyzer that the schema names.
fn tokenizer(index: &Index, field: Field) -> String {
    let FieldType::Str(options) = index.schema().get_field_entry(field).field_type().clone() else {
        return "none".to_owned();
    };
    options.get_indexing_options().map_or("none", |indexing| indexing.tokenizer()).to_owned()
}
