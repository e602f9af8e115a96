//! Building the graph with `hnsw_rs`, on one thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::kernel::search::f32::squared_distance;
use hnsw_rs::prelude::{Distance, Hnsw};

use super::graph::MAX_LAYERS;
use super::repair::connect;
use super::{Graph, HnswParams};
use crate::{BuildError, Matrix};
use dpr_files::progress::Progress;

/// Greatest inner product as smallest distance, for a library that knows only distances.
///
/// A passage p becomes p' = [p, sqrt(phi - |p|^2)] with phi = max |p|^2, a question q' = [q, 0]; then
/// |q' - p'|^2 = |q|^2 + phi - 2 q.p falls as q.p grows (Bachrach et al. 2014). The library is given row numbers
/// instead of vectors, so that it does not copy them. Distances stay squared: order is all that counts.
struct Augmented {
    matrix: Arc<Matrix>,
    /// sqrt(phi - |p|^2) of each row.
    extra: Vec<f32>,
}

impl Augmented {
    fn new(matrix: Arc<Matrix>) -> Self {
        let phi = matrix.max_squared_norm();
        let extra = |norm: f64| (phi - norm).max(0.0).sqrt() as f32;
        Self { extra: matrix.squared_norms().into_iter().map(extra).collect(), matrix }
    }
}

impl Distance<u32> for Augmented {
    fn eval(&self, a: &[u32], b: &[u32]) -> f32 {
        let (a, b) = (a[0] as usize, b[0] as usize);
        let extra = self.extra[a] - self.extra[b];
        squared_distance(self.matrix.row(a), self.matrix.row(b)) + extra * extra
    }
}

/// Builds the graph of all rows, one after the other in their order.
///
/// One thread: the same rows give the same graph, byte for byte. The library's parallel insertion gives another
/// one each time, and its locks can be taken in opposite orders by two threads that link neighbouring rows.
pub(crate) fn build(
    matrix: &Arc<Matrix>,
    params: HnswParams,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Graph, BuildError> {
    params.check()?;
    let count = matrix.count();
    progress.start("linking", "passages", count as u64);
    // The library asserts and unwraps in places; what was checked above should keep it from that.
    let built = catch_unwind(AssertUnwindSafe(|| {
        let distance = Augmented::new(Arc::clone(matrix));
        let mut hnsw =
            Hnsw::<u32, Augmented>::new(params.m, count, MAX_LAYERS, params.ef_construction, distance);
        // Links that pruning left out stay out: kept, they crowd out the far ones that questions, which are not
        // passages, need to come near (recall@20 0.79 instead of 0.97 with 120 candidates, M 16, 5,000 Wikipedia
        // blocks).
        hnsw.set_keeping_pruned(false);
        for row in 0..count {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            hnsw.insert((&[row as u32], row));
            progress.advance(1);
        }
        Some(links(&hnsw, count))
    }));
    progress.finish();
    match built {
        Ok(Some(Ok(graph))) => Ok(graph),
        Ok(Some(Err(reason))) => Err(BuildError::Graph { reason }),
        Ok(None) => Err(BuildError::Interrupted),
        Err(panic) => {
            let reason = panic.downcast_ref::<String>().cloned();
            let reason = reason.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(BuildError::Graph { reason: reason.unwrap_or_else(|| "it panicked".to_owned()) })
        }
    }
}

/// Copies the links out of the library.
fn links(hnsw: &Hnsw<'_, u32, Augmented>, count: usize) -> Result<Graph, String> {
    let points = hnsw.get_point_indexation();
    let mut lowest = vec![Vec::new(); count];
    let mut upper = vec![Vec::new(); MAX_LAYERS - 1];
    let mut found = 0;
    let mut entry = None;
    for point in points {
        let row = point.get_origin_id();
        let layer = point.get_point_id().0;
        // As in the library: the first row inserted on the topmost layer.
        if entry.is_none_or(|(top, first)| layer > top || (layer == top && row < first)) {
            entry = Some((layer, row));
        }
        found += 1;
        for (layer, neighbours) in point.get_neighborhood_id().into_iter().enumerate() {
            let rows: Vec<u32> = neighbours
                .iter()
                .map(|n| n.get_origin_id())
                .filter(|n| *n != row)
                .map(|n| n as u32)
                .collect();
            match layer {
                0 => lowest[row] = rows,
                _ if !rows.is_empty() => upper[layer - 1].push((row as u32, rows)),
                _ => {}
            }
        }
    }
    if found != count {
        return Err(format!("{found} of {count} rows are in the graph"));
    }
    let (_, entry) = entry.ok_or("the graph is empty")?;
    while upper.last().is_some_and(Vec::is_empty) {
        upper.pop();
    }
    for layer in &mut upper {
        layer.sort_unstable_by_key(|(row, _)| *row);
    }
    connect(&mut lowest, entry);
    Ok(Graph::new(entry as u32, &lowest, &upper))
}
