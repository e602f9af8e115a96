//! The command line of `dpr`: dense passage retrieval from documents to a served index, training and evaluation.
//!
//! Subcommands parse, call the crates below and print. [`location`] is the one place that opens an index from an
//! address, be it a directory or a service.
//!
//! # Example: a program of your own with a subcommand of this one
//!
//! Every subcommand is a [`clap::Args`] and a function that runs it.
//!
//! ```
//! use clap::Parser;
//! use dpr::cli::{index, search};
//!
//! #[derive(Parser)]
//! struct Line<A: clap::Args> {
//!     #[command(flatten)]
//!     args: A,
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! # let temporary = tempfile::tempdir()?;
//! # let path = |name: &str| temporary.path().join(name).display().to_string();
//! # let (passages, built) = (path("passages.tsv"), path("index"));
//! let lines = ["id\ttext\ttitle", "1\tThe Seine flows through Paris.\tSeine", "2\tThe Rhine does not.\tRhine"];
//! std::fs::write(&passages, lines.join("\n"))?;
//!
//! // dpr index --passages passages.tsv --sparse english --out index
//! let line = ["index", "--passages", &passages, "--sparse", "english", "--out", &built];
//! index::run(Line::try_parse_from(line)?.args)?;
//!
//! // dpr search --method bm25 --index index "which river is in Paris?"
//! let line = ["search", "--method", "bm25", "--index", &built, "which river is in Paris?"];
//! search::run(Line::try_parse_from(line)?.args)?;
//!
//! assert_eq!(dpr_index::LoadedSparse::open(built.as_ref())?.passages.len(), 2);
//! # Ok(())
//! # }
//! ```

pub mod cli;
mod error;
pub mod hints;
pub mod location;
#[cfg(unix)]
mod sigbus;
