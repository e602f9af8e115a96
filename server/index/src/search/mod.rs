//! Questions to passages: through a [`Backend`], wherever its passages are; by vector in one index ([`Searcher`]); and
//! by words or both where the text is at hand ([`Ranker`], [`TextSearcher`]).

mod backend;
mod filter;
mod hybrid;
mod method;
mod ranker;
mod searcher;
mod service;
mod service_health;
mod text;

pub use crate::condition::Condition;
pub use crate::error::{Cause, SearchError, ServiceError};
pub use backend::{Backend, Description, WriteError, Writer};
pub use filter::Filter;
pub use hybrid::{Fusion, HYBRID_DEPTH, fuse};
pub use method::Method;
pub use ranker::{RankedPair, Ranker};
pub use searcher::{Hit, Searcher};
pub use service::{LoadOptions, LoadReport, Row, batches, watch};
pub use service_health::ServiceHealth;
pub use text::TextSearcher;
