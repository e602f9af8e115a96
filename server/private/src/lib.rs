//! Search that hides the question from a server: encrypted search, and static sites that need none.
//!
//! Encrypted search: the tables, how they are built, and how questions are answered from them.
//!
//! [`fn@build`] makes private tables of an index, beside its version in the index directory; [`Tables::open`] checks
//! every byte of them. [`Tables::rank`] and [`Tables::fetch`] answer several questions in one reading of a table, and
//! [`Tables::delta`] tells what has changed in the index since.
//! [`client`] is the reference client: what it asks and in which order does not depend on the question.
//!
//! Tables of 500 passages, and a search in them by a client whose transport is a call:
//!
//! ```
//! use dpr_core::random::SplitMix;
//! use dpr_data::Passage;
//! use dpr_files::progress::Silent;
//! use dpr_index::vectors::VectorSet;
//! use dpr_index::{IndexOptions, LoadedIndex, build_index};
//! use dpr_private::client::{Client, Transport, TransportError};
//! use dpr_private::{BuildOptions, Tables, build};
//!
//! /// A server and the way to it.
//! struct Direct<'a>(&'a Tables);
//!
//! impl Transport for Direct<'_> {
//!     fn get(&mut self, path: &str, _most: u64) -> Result<Vec<u8>, TransportError> {
//!         // `/v1/encrypted`, or `/v1/encrypted/files/SHA256/NAME`.
//!         let Some(name) = path.strip_prefix("/v1/encrypted/files/").and_then(|path| path.split('/').nth(1)) else {
//!             return Ok(self.0.json().to_vec());
//!         };
//!         let (content, ..) = self.0.public_contents().find(|file| file.1 == name).ok_or("no such file")?;
//!         Ok(content.bytes().to_vec())
//!     }
//!
//!     fn post(&mut self, path: &str, message: &[u8], _most: u64) -> Result<Vec<u8>, TransportError> {
//!         Ok(match path {
//!             "/v1/encrypted/rank" => self.0.rank(&[self.0.read_rank(message, 0)?]),
//!             _ => self.0.fetch(&[self.0.read_fetch(message)?]),
//!         }
//!         .concat())
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // Random vectors of length 1, which `dpr-encode` would make of the passages.
//! let mut random = SplitMix::new(7);
//! let mut vector = || {
//!     let vector: Vec<f64> = (0..48).map(|_| random.normal()).collect();
//!     let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
//!     vector.into_iter().map(|x| (x / norm) as f32).collect::<Vec<f32>>()
//! };
//! let vectors: Vec<Vec<f32>> = (0..500).map(|_| vector()).collect();
//! let passages = (0..500).map(|row| Passage::new(format!("p{row}"), "", format!("passage {row}"))).collect();
//!
//! let dir = tempfile::tempdir()?;
//! let set = VectorSet::new("the model's fingerprint", 48, passages, vectors.concat());
//! build_index(&set, dir.path(), &IndexOptions::default(), &Silent)?;
//! build(dir.path(), &BuildOptions::default(), &Silent)?;
//! let index = LoadedIndex::open(dir.path())?;
//! let tables = Tables::open(dir.path(), index.number(), index.version())?;
//!
//! let mut client = Client::connect(Direct(&tables), "the model's fingerprint", Some(&tables.version()))?;
//! let hits = client.search(&vectors[77], 3)?;
//! assert_eq!((hits[0].id.as_str(), hits[0].text.as_str()), ("p77", "passage 77"));
//! # Ok(())
//! # }
//! ```
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
mod delta;
mod delta_cache;
mod error;
mod hint;
mod lengths;
mod order;
mod principal;
mod ranks;

pub mod site;
mod tables;
#[cfg(test)]
mod tests;

pub use answer::{AnswerError, FetchQuestion, MOST_FETCHES, RankQuestion};
pub use build::{BuildOptions, Built, build, build_as_before, build_of, default_dims, has_tables};
pub use columns::{Widest, check_passage};
pub use delta::{DeltaError, MOST_CHANGED, MOST_DELTA};
pub use error::{BuildError, OpenError};
pub use tables::{MANIFEST, Tables, dir_of_version};
