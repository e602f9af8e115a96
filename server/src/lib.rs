//! The server side of `dpr`: passages are read, encoded, indexed and searched here.
//!
//! Data moves one way: [`data`] reads passages, [`encode`] turns them into [`vectors`], [`index`] makes them
//! searchable, [`search`] finds the nearest, [`http`] and [`cli`] put that on a socket and a command line.
//! [`update`] changes an index that is being searched. [`sparse`] finds them by their words, [`mine`] makes training data of what it finds, and [`train`] trains the
//! encoders on it. [`model`] is the model directory all of them share, [`eval`] measures what is found.

pub mod atomic;
pub mod cli;
pub mod data;
mod digest;
pub mod encode;
pub mod eval;
pub mod http;
pub mod index;
mod lock;
mod mapped;
pub mod mine;
pub mod model;
pub mod progress;
pub mod ranking;
mod relative;
pub mod search;
pub mod sparse;
pub mod train;
pub mod update;
pub mod vectors;
