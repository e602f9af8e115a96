//! Attacks on what a server sees of questions: how much of them it can recover, in each mode of search.
//!
//! A [`Mode`] gives the *views* of questions, which are the numbers that the server receives, and searches as a page in
//! that mode does. [`attack`] trains attackers on the views of some questions and measures them on others:
//!
//! | attacker | trained on | measured |
//! |---|---|---|
//! | ridge regression | views and word pieces of public questions, with noise as the mode makes it | pieces named |
//! | network of one hidden layer | the same, noise drawn anew in each epoch | pieces named |
//! | sequence decoder | the same, and the order of the pieces | pieces named, questions written exactly |
//! | nearest known question | noiseless views of public questions, the one asked among them | it is the nearest |
//! | topic | views and topics, which are clusters of the passages | the topic named |
//! | groups of buckets | nothing; it weighs the groups of a fetched set by their overlaps | the real group named |
//!
//! The measures are those of [`Named`], [`Decoded`] and [`GroupGuess`]. A mode that hides everything leaves them where
//! the [`Random`] mode does; [`Plain`] shows that the attackers work.

mod adam;
mod attack;
mod bucket;
mod clusters;
mod decoder;
mod device;
mod error;
mod groups;
mod linear;
mod modes;
mod network;
mod pieces;
mod questions;
mod recall;
mod report;

pub use attack::{Attacked, Attackers, attack};
pub use bucket::Bucket;
pub use decoder::DecoderOptions;
pub use error::PrivacyError;
pub use groups::GroupGuess;
pub use linear::Views;
pub use modes::{Blurred, Found, Mode, Noise, Plain, Random};
pub use network::NetworkOptions;
pub use pieces::{Decoded, Named};
pub use questions::{EncodedQuestion, QuestionSplit};
pub use recall::{Searched, search};
pub use report::{ModeReport, PrivacyReport};
