//! The options of a build.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::sparse::SparseOptions;
use crate::{GraphBuilder, HnswParams, IndexKind, Storage};

/// The options of building an index.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// The way vectors will be searched.
    pub kind: IndexKind,
    /// The graph's parameters; not used for an exact index.
    pub hnsw: HnswParams,
    /// The program that builds the graph.
    pub builder: GraphBuilder,
    /// The form of the vectors that exact search reads; a graph is always searched by eight bits.
    pub storage: Storage,
    /// An inverted index beside the vectors, for BM25 and TF-IDF.
    pub sparse: Option<SparseOptions>,
    /// A flag that another thread or a signal handler sets to stop the build; the index that was there stays.
    pub stop: Arc<AtomicBool>,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            kind: IndexKind::Exact,
            hnsw: HnswParams::default(),
            builder: GraphBuilder::default(),
            storage: Storage::default(),
            sparse: None,
            stop: Arc::default(),
        }
    }
}
