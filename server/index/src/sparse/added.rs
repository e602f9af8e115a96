//! Words of passages that came after an index was built.
//!
//! They are few, and in memory. A term is worth what the index says of it, so that their scores compare with those of
//! the passages built in; one that the index does not know is worth what its share among the added ones says.

use std::collections::{BTreeMap, HashMap};
use std::io;

use tantivy::Term;

use super::analyzer::Analysis;
use super::{Scoring, SparseError, SparseIndex};
use dpr_data::Passage;

/// The postings of some passages, which are rows from 0.
#[derive(Clone, Debug, Default)]
pub struct AddedWords {
    /// For each term the rows that hold it, ascending, and how often.
    postings: HashMap<String, Vec<(u32, u32)>>,
    /// Terms of each passage, repeated ones too.
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
            let (mut times, mut length): (BTreeMap<String, u32>, u32) = (BTreeMap::new(), 0);
            for text in [&passage.title, &passage.text] {
                analysis.each(text, |term| {
                    length += 1;
                    match times.get_mut(term) {
                        Some(times) => *times += 1,
                        None => drop(times.insert(term.to_owned(), 1)),
                    }
                });
            }
            let mut square = 0.0;
            for (text, times) in times {
                let frequency = index.frequency(&index.term(&text)).map_err(SparseError::search)?.max(1);
                square += (f64::from(times) * Scoring::TfIdf.idf(index.len(), frequency)).powi(2);
                words.postings.entry(text).or_default().push((row, times));
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
            all.extend(rows.iter().map(|(row, times)| (first + row, *times)));
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
    /// Scores added passages that share a term with the question, as [`search`](Self::search) scores those built in;
    /// `added` are some of them each, with the number of their first row.
    ///
    /// # Errors
    /// Those of [`search`](Self::search).
    pub fn search_added(
        &self,
        question: &str,
        scoring: Scoring,
        added: &[(usize, &AddedWords)],
        offer: &mut dyn FnMut(usize, f32),
    ) -> Result<(), SparseError> {
        scoring.check()?;
        let others = |text: &str| added.iter().map(|(_, words)| words.frequency(text)).sum();
        let mut analysis = Analysis::new(self.analyzer());
        let terms = self.weigh(&mut analysis, question, scoring, &others).map_err(SparseError::search)?;
        for (first, words) in added {
            let mut scores: HashMap<u32, f32> = HashMap::new();
            for (term, weight) in &terms {
                let rows = term.value().as_str().and_then(|text| words.postings.get(text));
                for (row, times) in rows.into_iter().flatten() {
                    let (at, times) = (*row as usize, *times as f32);
                    let worth = match scoring {
                        Scoring::Bm25 { k1, b } => {
                            let (fixed, by_length) = self.held_back(k1, b);
                            times / (times + fixed + by_length * words.lengths[at])
                        }
                        Scoring::TfIdf => times * words.inverse_norms[at],
                    };
                    *scores.entry(*row).or_default() += weight * worth;
                }
            }
            for (row, score) in scores {
                offer(first + row as usize, score);
            }
        }
        Ok(())
    }

    /// Passages built in that hold a term.
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
