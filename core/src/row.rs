//! Rows of a batch: token ids and the types of tokens, as both engines take them.

/// Tokens of each row whose last hidden states are computed.
///
/// Where it is the first token alone, what follows the attention of the last layer is not computed for the others, nor
/// on the CPU kernels is their attention: of six layers that saves an eighth of the products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastStates {
    /// All tokens.
    All,
    /// The first token, `[CLS]`.
    First,
}

impl LastStates {
    /// Returns how many of a row's states they are.
    pub(crate) fn count(self, row: &Row<'_>) -> usize {
        match self {
            Self::All => row.len(),
            Self::First => 1,
        }
    }
}

/// Token types that pairs of texts have: 0 for the first text and 1 for the second.
pub(crate) const PAIR_TYPES: usize = 2;

/// One row of a batch: token ids, and the type of each token. Without types, every token is of type 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    /// `[tokens]`.
    pub(crate) ids: &'a [u32],
    /// `[tokens]` or empty.
    pub(crate) types: &'a [u8],
}

impl<'a> Row<'a> {
    /// Returns rows whose tokens are all of type 0.
    pub(crate) fn of_ids(rows: &'a [Vec<u32>]) -> Vec<Self> {
        rows.iter().map(|ids| Self { ids, types: &[] }).collect()
    }

    /// Returns the number of tokens.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}

/// Returns the positions of rows by their numbers of tokens, so that batches of neighbours have little padding.
pub(crate) fn by_length(tokens: impl Iterator<Item = usize>) -> Vec<usize> {
    let tokens: Vec<_> = tokens.collect();
    let mut order: Vec<_> = (0..tokens.len()).collect();
    order.sort_by_key(|row| tokens[*row]);
    order
}
