//! The formula that the posting lists of a segment are scored by, and the spans that they are scored in.

use dpr_core::kernel::search::postings::{TermScore, WINDOW};

/// Documents of a span, which is searched at once: their sums fit the first cache of a core.
pub(super) const SPAN: usize = 2 * WINDOW;

/// The data that the lists of a segment share: the formula, and the lengths or inverse norms of the documents, padded
/// to whole spans.
#[derive(Clone, Copy)]
pub(super) struct Formula<'a> {
    pub(super) term: TermScore,
    pub(super) values: &'a [f32],
    /// The factor that bounds are multiplied by, so that no rounding lifts a score above them.
    pub(super) slack: f32,
}

impl Formula<'_> {
    /// Returns the number of spans.
    pub(super) fn spans(&self) -> usize {
        self.values.len() / SPAN
    }
}
