//! The shares of a term in the scores of its passages, kept in memory for the terms that questions have most.
//!
//! A share is the term's score before it is multiplied by its weight in the question, so that it is the same for every
//! question. It depends on `k1` and `b`: the cache is of one formula at a time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, RwLock};

use dpr_core::kernel::search::postings::{TermScore, score_list};
use tantivy::postings::BlockSegmentPostings;

use super::formula::{Formula, SPAN};

/// The most bytes of all lists that are kept. Lists beyond it are read from their file by every search.
const MOST_BYTES: usize = 128 << 20;

/// Searches by another formula, one after the other, after which the cache is of that one.
const SWITCH: u32 = 256;

/// A posting list with the shares in its documents.
#[derive(Debug)]
pub(super) struct Shares {
    /// Ascending.
    pub(super) documents: Vec<u32>,
    pub(super) shares: Vec<f32>,
    /// For each span where its postings begin, and the end of the last.
    pub(super) starts: Vec<u32>,
    /// The greatest share in each span, 0 where it has no posting.
    pub(super) most: Vec<f32>,
}

impl Shares {
    /// Reads a posting list whole.
    pub(super) fn of(mut postings: BlockSegmentPostings, formula: &Formula<'_>) -> Self {
        let count = postings.doc_freq() as usize;
        let (mut documents, mut shares) = (Vec::with_capacity(count), Vec::with_capacity(count));
        while !postings.docs().is_empty() {
            let (more, tfs) = (postings.docs(), postings.freqs());
            score_list(formula.term, 1.0, more, tfs, formula.values, &mut shares);
            documents.extend_from_slice(more);
            postings.advance();
        }
        let mut most = vec![0f32; formula.spans()];
        let mut starts = Vec::with_capacity(most.len() + 1);
        for ((document, share), at) in documents.iter().zip(&shares).zip(0u32..) {
            let span = *document as usize / SPAN;
            while starts.len() <= span {
                starts.push(at);
            }
            most[span] = if *share > most[span] { *share } else { most[span] };
        }
        starts.resize(most.len() + 1, documents.len() as u32);
        Self { documents, shares, starts, most }
    }
}

/// A list in all segments: the segment, and the byte where it begins.
pub(super) type Key = (usize, usize);

/// The lists that are kept.
#[derive(Debug)]
pub(super) struct ShareCache {
    most_bytes: usize,
    kept: RwLock<Kept>,
    /// Searches by another formula since the last one by that of the cache.
    others: AtomicU32,
}

#[derive(Debug, Default)]
struct Kept {
    term: Option<TermScore>,
    lists: HashMap<Key, Arc<Shares>>,
    bytes: usize,
}

impl Default for ShareCache {
    fn default() -> Self {
        Self::new(MOST_BYTES)
    }
}

impl ShareCache {
    /// Makes a cache of at most so many bytes.
    pub(super) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, kept: RwLock::default(), others: AtomicU32::new(0) }
    }

    /// Returns whether a search by this formula finds its lists here.
    pub(super) fn is_of(&self, term: TermScore) -> bool {
        if self.kept.read().is_ok_and(|kept| kept.term == Some(term)) {
            self.others.store(0, Ordering::Relaxed);
            return true;
        }
        let others = self.others.fetch_add(1, Ordering::Relaxed);
        let Ok(mut kept) = self.kept.write() else { return false };
        if kept.term.is_none() || others >= SWITCH {
            *kept = Kept { term: Some(term), ..Kept::default() };
        }
        kept.term == Some(term)
    }

    /// Returns the list as it is kept; otherwise reads it and keeps it if there is room. `None` without room, or
    /// where the list is so short that reading it takes no longer than looking for it.
    pub(super) fn list(
        &self,
        key: Key,
        postings: &BlockSegmentPostings,
        formula: &Formula<'_>,
    ) -> Option<Arc<Shares>> {
        let (doc_freq, spans) = (postings.doc_freq() as usize, formula.spans());
        if doc_freq < 2 * spans {
            return None;
        }
        let bytes = 8 * (doc_freq + spans);
        {
            let kept = self.kept.read().ok()?;
            if kept.term != Some(formula.term) {
                return None;
            }
            if let Some(list) = kept.lists.get(&key) {
                return Some(Arc::clone(list));
            }
            if kept.bytes + bytes > self.most_bytes {
                return None;
            }
        }
        let list = Arc::new(Shares::of(postings.clone(), formula));
        let mut kept = self.kept.write().ok()?;
        if kept.term == Some(formula.term)
            && kept.bytes + bytes <= self.most_bytes
            && kept.lists.insert(key, Arc::clone(&list)).is_none()
        {
            kept.bytes += bytes;
        }
        Some(list)
    }
}

#[cfg(test)]
impl ShareCache {
    /// Returns the number of lists, and their bytes.
    pub(super) fn size(&self) -> (usize, usize) {
        let kept = self.kept.read().unwrap();
        (kept.lists.len(), kept.bytes)
    }
}
