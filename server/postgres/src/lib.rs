//! Passages and their vectors in a table of PostgreSQL with pgvector (<https://github.com/pgvector/pgvector>), where
//! most web applications keep their texts already.
//!
//! A [`PostgresAddress`] names a table. [`load`] fills it with vectors, and goes on where it stopped; [`PostgresIndex`]
//! searches and changes it. The table is made by `load`, or is one of the user, whose columns the address names.
//! PostgreSQL searches an HNSW graph by inner product, and every transaction that was committed is in the next search.
//!
//! The comment of the table names the model of its vectors, and vectors of another are refused, as an index directory
//! refuses them. Names are quoted and values are bound: neither is ever taken for SQL.
//!
//! ```
//! use dpr_postgres::PostgresAddress;
//!
//! let address: PostgresAddress = "postgres://web@db.example.org/shop?table=articles&text=body&ef_search=200".parse()?;
//! assert_eq!((address.table(), address.ef_search()), ("articles", Some(200)));
//! # Ok::<(), dpr_postgres::PostgresError>(())
//! ```
//!
//! A table is a [`Backend`](dpr_index::search::Backend), as an index directory is:
//!
//! ```no_run
//! use dpr_core::Embedding;
//! use dpr_files::progress::Silent;
//! use dpr_index::search::Backend;
//! use dpr_index::vectors::VectorSet;
//! use dpr_postgres::{LoadOptions, PostgresAddress, PostgresIndex, load};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address: PostgresAddress = "postgres://web@localhost/shop".parse()?;
//! let vectors = VectorSet::read(&["vectors/".into()])?;
//! let report = load(&address, &vectors, &LoadOptions::default(), &Silent)?;
//! println!("{} passages written, {} were there", report.written, report.unchanged);
//!
//! let index: Box<dyn Backend> = Box::new(PostgresIndex::open(&address)?);
//! let query = Embedding::new(vec![0.1; index.describe().dim], index.describe().dim)?;
//! for hit in &index.search(&[query], 10, None)?[0] {
//!     println!("{:.3} {}", hit.score, hit.title);
//! }
//! # Ok(())
//! # }
//! ```

mod address;
mod backend;
mod changes;
mod client;
mod columns;
mod comment;
mod create;
mod error;
mod extension;
mod failure;
mod filter;
mod graph;
mod index;
mod load;
mod options;
mod params;
mod password;
mod rows;
mod search;
mod secret;
mod table;
mod tls;

pub use address::PostgresAddress;
pub use comment::Described;
pub use dpr_index::search::LoadOptions;
pub use error::PostgresError;
pub use index::PostgresIndex;
pub use load::load;
