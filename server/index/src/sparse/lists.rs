//! The posting lists of a question's terms in one segment, and upper bounds of their scores.

use std::ops::Range;
use std::sync::Arc;

use dpr_core::kernel::search::postings::{TermScore, block_bounds, score_list};
use tantivy::postings::BlockSegmentPostings;

use super::formula::{Formula, SPAN};
use super::impacts::Blocks;
use super::shares::Shares;

/// Postings of the longest list that is scored whole before the spans are searched: most of its passages would be
/// scored anyway, and its bounds become exact.
const WHOLE: u32 = 4096;

/// A term's posting list.
pub(super) struct List {
    /// For each span an upper bound of the term's scores, 0 where it has no posting.
    pub(super) bounds: Vec<f32>,
    /// Postings of the list.
    pub(super) postings: usize,
    pub(super) weight: f32,
    /// The postings of the span that was loaded, in the source's.
    part: Range<usize>,
    source: Source,
}

enum Source {
    /// All shares are at hand.
    Whole(Arc<Shares>),
    /// Read block after block.
    Blocks(Box<Cursor>),
}

/// A place in a list, which only goes forward: a pass over the spans begins with a copy of the first one.
struct Cursor {
    first: BlockSegmentPostings,
    postings: BlockSegmentPostings,
    blocks: Bounds,
    /// Documents of the span that was loaded, ascending, and the shares in them.
    documents: Vec<u32>,
    shares: Vec<f32>,
}

/// The last document and the bound of each block; empty without impacts.
#[derive(Default)]
struct Bounds {
    last: Vec<u32>,
    bounds: Vec<f32>,
    at: usize,
}

impl List {
    /// Opens a list whose shares are at hand.
    pub(super) fn whole(shares: Arc<Shares>, weight: f32, formula: &Formula<'_>) -> Self {
        let bounds = shares.most.iter().map(|share| upper(weight * share, formula.slack)).collect();
        Self { bounds, postings: shares.documents.len(), weight, part: 0..0, source: Source::Whole(shares) }
    }

    /// Opens a list, which is read whole where it is short.
    pub(super) fn new(
        postings: BlockSegmentPostings,
        weight: f32,
        formula: &Formula<'_>,
        impacts: Option<Blocks<'_>>,
    ) -> Self {
        let doc_freq = postings.doc_freq();
        if doc_freq < WHOLE {
            return Self::whole(Arc::new(Shares::of(postings, formula)), weight, formula);
        }
        let mut bounds = vec![0f32; formula.spans()];
        let blocks = match (formula.term, impacts) {
            (TermScore::Bm25 { fixed, by_length }, Some(Blocks { last, impacts })) => {
                let mut of_blocks = vec![0f32; impacts.len()];
                block_bounds(fixed, by_length, weight, impacts, &mut of_blocks);
                let mut begin = 0;
                for (last, bound) in last.iter().zip(&mut of_blocks) {
                    *bound = upper(*bound, formula.slack);
                    let end = (*last as usize / SPAN).min(bounds.len() - 1);
                    for span in &mut bounds[begin..=end.max(begin)] {
                        *span = if *bound > *span { *bound } else { *span };
                    }
                    // The next block may begin in the span where this one ends.
                    begin = end;
                }
                Bounds { last: last.to_vec(), bounds: of_blocks, at: 0 }
            }
            (TermScore::Bm25 { .. }, None) => {
                // A share is at most 1.
                bounds.fill(upper(weight, formula.slack));
                Bounds::default()
            }
            (TermScore::TfIdf, _) => {
                bounds.fill(f32::INFINITY);
                Bounds::default()
            }
        };
        let (documents, shares) = (Vec::new(), Vec::new());
        let cursor = Cursor { postings: postings.clone(), first: postings, blocks, documents, shares };
        let source = Source::Blocks(Box::new(cursor));
        Self { bounds, postings: doc_freq as usize, weight, part: 0..0, source }
    }

    /// Goes back to the first span.
    pub(super) fn rewind(&mut self) {
        if let Source::Blocks(cursor) = &mut self.source {
            cursor.postings.clone_from(&cursor.first);
            cursor.blocks.at = 0;
        }
    }

    /// Loads the postings of a span, and the shares in them. Spans must ascend.
    pub(super) fn load(&mut self, span: usize, formula: &Formula<'_>) {
        match &mut self.source {
            Source::Whole(list) => self.part = list.starts[span] as usize..list.starts[span + 1] as usize,
            Source::Blocks(cursor) => {
                let Cursor { postings, documents: picked, shares, .. } = &mut **cursor;
                picked.clear();
                shares.clear();
                let start = (span * SPAN) as u32;
                let mut from = postings.seek(start);
                let end = start + SPAN as u32;
                while let (Some(documents), Some(tfs)) =
                    (postings.docs().get(from..), postings.freqs().get(from..))
                {
                    let inside = match documents.last() {
                        None => break,
                        Some(last) if *last < end => documents.len(),
                        Some(_) => documents.partition_point(|document| *document < end),
                    };
                    score_list(
                        formula.term,
                        1.0,
                        &documents[..inside],
                        &tfs[..inside],
                        formula.values,
                        shares,
                    );
                    picked.extend_from_slice(&documents[..inside]);
                    if inside < documents.len() {
                        break;
                    }
                    postings.advance();
                    from = 0;
                }
                self.part = 0..picked.len();
            }
        }
    }

    /// Returns the documents of the span that was loaded, and the shares in them.
    pub(super) fn loaded(&self) -> (&[u32], &[f32]) {
        let (documents, shares) = match &self.source {
            Source::Whole(list) => (&list.documents, &list.shares),
            Source::Blocks(cursor) => (&cursor.documents, &cursor.shares),
        };
        (&documents[self.part.clone()], &shares[self.part.clone()])
    }

    /// Returns the term's score in a document of the span that was loaded, 0 where it is not.
    pub(super) fn loaded_score(&self, document: u32) -> f32 {
        let (documents, shares) = self.loaded();
        documents.binary_search(&document).map_or(0.0, |at| self.weight * shares[at])
    }

    /// Returns an upper bound of the term's score in a document of a span. Documents must ascend.
    pub(super) fn bound(&mut self, span: usize, document: u32) -> f32 {
        match &mut self.source {
            Source::Blocks(cursor) if !cursor.blocks.last.is_empty() => {
                let Bounds { last, bounds, at } = &mut cursor.blocks;
                while last.get(*at).is_some_and(|last| *last < document) {
                    *at += 1;
                }
                bounds.get(*at).copied().unwrap_or(0.0)
            }
            _ => self.bounds[span],
        }
    }

    /// Returns the term's score in a document of a span that was not loaded, 0 where it is not. Documents must ascend.
    pub(super) fn score(&mut self, span: usize, document: u32, formula: &Formula<'_>) -> f32 {
        match &mut self.source {
            Source::Whole(list) => {
                let part = list.starts[span] as usize..list.starts[span + 1] as usize;
                let at = list.documents[part.clone()].binary_search(&document);
                at.map_or(0.0, |at| self.weight * list.shares[part.start + at])
            }
            Source::Blocks(cursor) => {
                let postings = &mut cursor.postings;
                let at = postings.seek(document);
                if postings.docs().get(at) != Some(&document) {
                    return 0.0;
                }
                formula.term.of(self.weight, postings.freq(at) as f32, formula.values[document as usize])
            }
        }
    }
}

/// Returns a bound that stays above scores of as much after rounding, in any order of sums.
fn upper(bound: f32, slack: f32) -> f32 {
    if bound > 0.0 { bound * slack + f32::MIN_POSITIVE } else { 0.0 }
}
