//! Search that hides the question from a server: encrypted search, and static sites that need none.
//!
//! Encrypted search: the tables, how they are built, and how questions are answered from them.
//!
//! [`fn@build`] makes private tables of an index, beside its version in the index directory; [`Tables::open`] checks
//! every byte of them. [`Tables::rank`] and [`Tables::fetch`] answer several questions in one reading of a table.
//! [`client`] is the reference client: what it asks and in which order does not depend on the question.
//!
//! The cryptography is in [`dpr_core::private::encrypted`]; a server needs none of its secrets.
//!
//! Encrypted search is experimental until it has been reviewed by somebody who did not write it.
//!
//! [`mod@site`] exports an index as plain files, which pages download and search by themselves.

mod answer;
mod build;
pub mod client;
mod columns;
mod error;
mod hint;
mod order;
mod principal;
pub mod site;
mod tables;
#[cfg(test)]
mod tests;

pub use answer::{AnswerError, FetchQuestion, MOST_FETCHES, RankQuestion};
pub use build::{BuildOptions, Built, build, default_dims};
pub use error::{BuildError, OpenError};
pub use tables::{MANIFEST, Tables, dir_of_version};
