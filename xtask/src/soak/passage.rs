//! Passages as the clients know them.

/// A passage as it was written.
#[derive(Debug, PartialEq)]
pub(super) struct Passage {
    pub(super) title: String,
    pub(super) text: String,
    pub(super) vector: Vec<f32>,
    /// Its metadata; none of a passage that was built in.
    pub(super) written: Option<Written>,
}

/// Metadata of a passage: who wrote it, and in which round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) writer: String,
    pub(super) round: u64,
}
