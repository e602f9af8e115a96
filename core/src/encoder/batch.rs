//! Batches of token ids, padded to one length.

use crate::row::Row;

/// The number that is added to a masked score. It is finite, since WGSL may assume that there are no infinities, and
/// small enough for f16.
pub(super) const MASKED: f32 = -1.0e4;

/// A batch of token ids as rows of one length, with a mask of the padding.
#[derive(Clone, Debug)]
pub struct TokenBatch {
    pub(super) ids: Vec<i32>,
    pub(super) mask: Vec<f32>,
    /// Token types; `None` where all are 0.
    pub(super) types: Option<Vec<i32>>,
    pub(super) rows: usize,
    pub(super) tokens: usize,
    pub(super) padded: bool,
}

impl TokenBatch {
    /// Pads `rows` with `pad` at the end, to the longest row's length rounded up to a multiple of
    /// `multiple_of` and at most `limit`.
    pub fn new(rows: &[Vec<u32>], pad: u32, multiple_of: usize, limit: usize) -> Self {
        Self::of_rows(&Row::of_ids(rows), pad, multiple_of, limit)
    }

    /// Pads as [`TokenBatch::new`] does, with the types of the tokens of each row, or none where all are 0.
    pub fn typed(rows: &[(&[u32], &[u8])], pad: u32, multiple_of: usize, limit: usize) -> Self {
        let rows: Vec<_> = rows.iter().map(|(ids, types)| Row { ids, types }).collect();
        Self::of_rows(&rows, pad, multiple_of, limit)
    }

    /// Pads as [`TokenBatch::new`] does, with the token types of the rows; padding is of type 0.
    pub(crate) fn of_rows(rows: &[Row<'_>], pad: u32, multiple_of: usize, limit: usize) -> Self {
        let longest = rows.iter().map(Row::len).max().unwrap_or(0);
        let tokens = longest.next_multiple_of(multiple_of.max(1)).min(limit).max(longest);
        let mut ids = Vec::with_capacity(rows.len() * tokens);
        let mut mask = Vec::with_capacity(rows.len() * tokens);
        for row in rows {
            ids.extend(row.ids.iter().map(|id| *id as i32));
            ids.resize(ids.len() + tokens - row.len(), pad as i32);
            mask.resize(mask.len() + row.len(), 1.0);
            mask.resize(mask.len() + tokens - row.len(), 0.0);
        }
        let padded = rows.iter().any(|row| row.len() < tokens);
        let typed = rows.iter().any(|row| row.types.iter().any(|kind| *kind > 0));
        let types = typed.then(|| {
            let types = |row: &Row<'_>| {
                let types = row.types.iter().map(|kind| i32::from(*kind));
                types.chain(std::iter::repeat(0)).take(tokens).collect::<Vec<_>>()
            };
            rows.iter().flat_map(types).collect()
        });
        Self { ids, mask, types, rows: rows.len(), tokens, padded }
    }

    /// Returns the number of rows and the length they are padded to, `[rows, tokens]`.
    pub fn dims(&self) -> [usize; 2] {
        [self.rows, self.tokens]
    }
}
