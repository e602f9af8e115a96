//! What the programs of `cargo xtask bench` share: the speed and the recall of graphs.

mod graphs;

pub use graphs::{Failed, ask, graph_efforts, recall};
