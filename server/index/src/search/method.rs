//! The ways to rank.

use serde::{Deserialize, Serialize};

/// A way to rank passages for a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// By shared words (BM25)
    Bm25,
    /// By cosine of TF-IDF vectors
    Tfidf,
    /// By inner product of question and passage vectors
    Dense,
    /// BM25 and dense together
    Hybrid,
}

impl Method {
    /// The name on a command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bm25 => "bm25",
            Self::Tfidf => "tfidf",
            Self::Dense => "dense",
            Self::Hybrid => "hybrid",
        }
    }

    /// Returns `true` if the question's vector is needed.
    pub fn needs_vectors(self) -> bool {
        matches!(self, Self::Dense | Self::Hybrid)
    }

    /// Returns `true` if the question's text and an inverted index are needed.
    pub fn needs_words(self) -> bool {
        self != Self::Dense
    }
}
