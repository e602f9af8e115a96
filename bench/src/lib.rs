//! What the programs of `cargo xtask bench` share: the build, the speed and the recall of graphs.

mod graphs;

pub use graphs::{Failed, ask, build_graph, graph_efforts, recall};
