//! Posting lists of passages that were added after an index was built, in memory.
//!
//! A term's idf is that of the index, so that their scores compare with those of the passages built in; a term that
//! the index lacks gets its idf from the added passages.

use std::collections::{BTreeMap, HashMap};
use std::io;

use tantivy::Term;

use super::analysis::Analysis;
use super::index::QuestionTerm;
use super::{Scoring, SparseError, SparseIndex};
use crate::CancelToken;
use dpr_data::Passage;

/// The posting lists of added passages, whose rows count from 0.
#[derive(Clone, Debug, Default)]
pub struct AddedWords {
    /// Posting list of each term: rows, ascending, and term frequencies.
    postings: HashMap<String, Vec<(u32, u32)>>,
    /// Length of each passage: its terms, repeated ones too.
    lengths: Vec<f32>,
    /// 1 / norm of each passage's TF-IDF vector.
    inverse_norms: Vec<f32>,
}

impl AddedWords {
    /// Makes the postings of passages that are added to `index`.
    ///
    /// # Errors
    /// [`SparseError::Search`] when the index cannot be read.
    pub fn of<'a>(
        index: &SparseIndex,
        passages: impl Iterator<Item = &'a Passage>,
    ) -> Result<Self, SparseError> {
        let (mut words, mut analysis) = (Self::default(), Analysis::new(index.analyzer()));
        for (passage, row) in passages.zip(0..) {
            // In the order of the terms, as norms are summed when an index is built.
            let (mut frequencies, mut length): (BTreeMap<String, u32>, u32) = (BTreeMap::new(), 0);
            for text in [&passage.title, &passage.text] {
                analysis.each(text, |term| {
                    length += 1;
                    match frequencies.get_mut(term) {
                        Some(frequency) => *frequency += 1,
                        None => drop(frequencies.insert(term.to_owned(), 1)),
                    }
                });
            }
            let mut square = 0.0;
            for (text, tf) in frequencies {
                let frequency = index.frequency(&index.term(&text)).map_err(SparseError::search)?.max(1);
                square += (f64::from(tf) * Scoring::TfIdf.idf(index.len(), frequency)).powi(2);
                words.postings.entry(text).or_default().push((row, tf));
            }
            words.lengths.push(length as f32);
            words.inverse_norms.push(1.0 / (square.sqrt() as f32).max(f32::MIN_POSITIVE));
        }
        Ok(words)
    }

    /// Returns the postings of these passages and, after them, those of `more`.
    #[must_use]
    pub fn join(&self, more: &Self) -> Self {
        let (mut words, first) = (self.clone(), self.lengths.len() as u32);
        for (text, rows) in &more.postings {
            let all = words.postings.entry(text.clone()).or_default();
            all.extend(rows.iter().map(|(row, tf)| (first + row, *tf)));
        }
        words.lengths.extend(&more.lengths);
        words.inverse_norms.extend(&more.inverse_norms);
        words
    }

    fn frequency(&self, text: &str) -> usize {
        self.postings.get(text).map_or(0, Vec::len)
    }
}

impl SparseIndex {
    /// Scores added passages that share a term with the question, as [`search`](Self::search) scores those built in,
    /// until `cancel` says to stop; each of `added` has the row of its first passage.
    ///
    /// # Errors
    /// The errors of [`search`](Self::search), and [`SparseError::Stopped`].
    pub fn search_added(
        &self,
        question: &str,
        scoring: Scoring,
        added: &[(usize, &AddedWords)],
        cancel: &CancelToken,
        offer: &mut dyn FnMut(usize, f32),
    ) -> Result<(), SparseError> {
        scoring.check()?;
        let others = |text: &str| added.iter().map(|(_, words)| words.frequency(text)).sum();
        let mut analysis = Analysis::new(self.analyzer());
        let terms = self.weigh(&mut analysis, question, scoring, &others, cancel)?;
        for (first, words) in added {
            let mut scores: HashMap<u32, f32> = HashMap::new();
            for QuestionTerm { term, weight, .. } in &terms {
                cancel.check()?;
                let rows = term.value().as_str().and_then(|text| words.postings.get(text));
                for (row, tf) in rows.into_iter().flatten() {
                    let (at, tf) = (*row as usize, *tf as f32);
                    let tf_score = match scoring {
                        Scoring::Bm25 { k1, b } => {
                            let (fixed, by_length) = self.length_normalization(k1, b);
                            tf / (tf + fixed + by_length * words.lengths[at])
                        }
                        Scoring::TfIdf => tf * words.inverse_norms[at],
                    };
                    *scores.entry(*row).or_default() += weight * tf_score;
                }
            }
            for (row, score) in scores {
                offer(first + row as usize, score);
            }
        }
        Ok(())
    }

    /// Returns the document frequency of a term among the passages built in.
    pub(super) fn frequency(&self, term: &Term) -> io::Result<usize> {
        let mut frequency = 0;
        for segment in &self.segments {
            frequency += segment.inverted.doc_freq(term)? as usize;
        }
        Ok(frequency)
    }

    pub(super) fn term(&self, text: &str) -> Term {
        Term::from_field_text(self.field, text)
    }
}
