//! Encrypted search: the server ranks all passages and hands out their texts, and learns nothing about the question.
//!
//! Experimental until it has been reviewed by somebody who did not write it.
//!
//! *Ranking*: the coordinates of the question travel as ring-LWE samples. The server multiplies them with all
//! passages and returns a byte for each; the part of its answer that does not depend on the question is a public hint.
//! *Fetching*: columns of a table of texts come by private information retrieval (SimplePIR, Henzinger et al. 2023,
//! with a ring-structured public matrix).
//!
//! | module | holds |
//! |---|---|
//! | [`params`] | the frozen sets of parameters, and the shapes that they serve |
//! | [`manifest`] | what a server says of its tables, checked before any of it is used |
//! | [`secret`] | seeds from the platform, and what is drawn from them |
//! | [`rank`] | scores of all passages |
//! | [`fetch`] | columns of texts |
//! | [`search`] | the steps of a search, in their order |
//! | [`delta`] | what changed in the index since the tables were made |
//! | [`wire`] | heads of requests and answers, packed numbers |
//! | [`public`] | public randomness, expanded from the hash of the tables |
//!
//! A secret is used once, by type: a mask is consumed by the question that it hides, and a key by the answer that it
//! opens.

pub mod delta;
pub mod fetch;
pub mod manifest;
pub mod params;
pub mod public;
pub mod rank;
pub mod search;
pub mod secret;
pub mod wire;

#[cfg(test)]
mod distinguisher;
#[cfg(test)]
mod known_answers;

pub use delta::Delta;
pub use fetch::{FetchHint, FetchKey, FetchMask};
pub use manifest::{Manifest, ManifestError, Projection};
pub use params::{FetchShape, ParameterError, RankShape};
pub use rank::{RankHint, RankKey, RankMask};
pub use secret::{RandomError, Seed};
pub use wire::WireError;
