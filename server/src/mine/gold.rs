//! Gold paragraphs in a pool of other blocks.

use std::collections::{HashMap, HashSet};

use crate::data::Passage;
use crate::eval::AnswerMatcher;
use crate::sparse::{Analyzer, Scoring, SparseError, SparseIndex};

/// Blocks compared with a gold paragraph: those that share most of its words.
const CANDIDATES: usize = 20;

/// The share of a block's distinct words that must be the paragraph's.
const OVERLAP: f64 = 0.5;

/// Finds the passage of the pool that stands for a gold paragraph.
pub(super) struct GoldMap<'a> {
    pool: &'a [Passage],
    rows: HashMap<&'a str, usize>,
    paragraphs: HashMap<&'a str, &'a Passage>,
}

impl<'a> GoldMap<'a> {
    pub(super) fn new(pool: &'a [Passage], paragraphs: &'a [Passage]) -> Self {
        let rows = pool.iter().enumerate().map(|(row, passage)| (passage.id.as_str(), row)).collect();
        let paragraphs = paragraphs.iter().map(|paragraph| (paragraph.id.as_str(), paragraph)).collect();
        Self { pool, rows, paragraphs }
    }

    /// The row of paragraph `id`: the same paragraph when the pool has it, else the block with most of its words
    /// that holds the answer.
    pub(super) fn find(
        &self,
        id: &str,
        answers: &AnswerMatcher,
        index: &SparseIndex,
        scoring: Scoring,
    ) -> Result<Option<usize>, SparseError> {
        let Some(paragraph) = self.paragraphs.get(id) else { return Ok(None) };
        if let Some(row) = self.rows.get(id).filter(|row| self.pool[**row].text == paragraph.text) {
            return Ok(Some(*row));
        }
        let words = words(index.analyzer(), &paragraph.text);
        let mut best = None;
        for hit in index.search(&paragraph.text, CANDIDATES, scoring)? {
            let block = &self.pool[hit.row];
            let own = self::words(index.analyzer(), &block.text);
            let share = own.intersection(&words).count() as f64 / own.len().max(1) as f64;
            if share >= OVERLAP && best.is_none_or(|(most, _)| share > most) && answers.matches(&block.text) {
                best = Some((share, hit.row));
            }
        }
        Ok(best.map(|(_, row)| row))
    }
}

fn words(analyzer: Analyzer, text: &str) -> HashSet<String> {
    analyzer.terms(text).into_iter().collect()
}
