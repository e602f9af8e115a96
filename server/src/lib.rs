//! The command line of `dpr`: dense passage retrieval from documents to a served index, training and evaluation.
//!
//! Subcommands parse, call the crates below and print. [`location`] is the one place that opens an index from an
//! address, be it a directory or a service.

pub mod cli;
mod error;
mod location;
#[cfg(unix)]
mod sigbus;
