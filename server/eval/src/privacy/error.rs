//! Errors of attacks on questions.

use dpr_core::private::blur::BlurError;
use dpr_core::private::rerank::CodeError;
use dpr_index::search::SearchError;
use dpr_private::site::SiteReadError;

/// The reason why a mode cannot be attacked or measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivacyError {
    /// Too few different questions to train on some and test on others.
    #[error(
        "{distinct} different questions are not enough: {test} to test on and at least {least} to train on are needed"
    )]
    TooFew {
        /// Questions given, each once.
        distinct: usize,
        /// Questions to test on.
        test: usize,
        /// Questions that attackers need.
        least: usize,
    },
    /// Training questions that all have the same word pieces, or none.
    #[error(
        "the {questions} questions to learn from have no word pieces by which they differ: give questions of different \
         words"
    )]
    NoPieces {
        /// Questions that attackers are trained on.
        questions: usize,
    },
    /// An equation of the attackers that cannot be solved.
    #[error(
        "the attacker's equations cannot be solved: views of {width} numbers that are not finite or all alike"
    )]
    Singular {
        /// Numbers in a view.
        width: usize,
    },
    /// See [`BlurError`].
    #[error(transparent)]
    Blur(#[from] BlurError),
    /// See [`CodeError`].
    #[error(transparent)]
    Code(#[from] CodeError),
    /// See [`SearchError`].
    #[error(transparent)]
    Search(#[from] SearchError),
    /// See [`SiteReadError`].
    #[error(transparent)]
    Site(#[from] SiteReadError),
}
