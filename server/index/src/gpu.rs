//! Exact search with a GPU: a matrix product and maxima over groups of rows there choose the groups, the scores of their
//! rows are summed here.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};
use dpr_core::Embedding;
use rayon::prelude::*;

use super::{ExactIndex, IndexKind, Matrix, QueryError, RowSet, ScoredRow, VectorIndex};
use crate::CancelToken;
use crate::ranking::TopK;

/// Bytes of vectors in one tensor: what every adapter can bind.
const BLOCK_BYTES: usize = 64 << 20;

/// Questions asked at once: their greatest scores come back as one piece of some megabytes.
const QUESTIONS: usize = 128;

/// Rows of a group, of which the greatest score alone leaves the device.
const GROUP: usize = 16;

/// The error by which a GPU may round off a product, as a share of the two lengths: some multiply with ten bits of
/// precision.
const ROUNDING: f64 = 1.0 / 512.0;

/// An index that compares a question with every passage on a GPU, which holds a copy of the vectors. What it finds, and
/// its scores, are those of an [`ExactIndex`].
#[derive(Debug)]
pub struct GpuIndex {
    exact: ExactIndex,
    matrix: Arc<Matrix>,
    device: Device,
    /// Columns are rows of the matrix, the last one repeated until the group is whole: `[dim, rows]` each.
    blocks: Vec<Tensor<2>>,
}

impl GpuIndex {
    /// Copies the vectors to the device.
    pub fn new(matrix: Arc<Matrix>, device: &Device) -> Self {
        let dim = matrix.dim();
        let rows = (BLOCK_BYTES / size_of::<f32>() / dim).next_multiple_of(GROUP);
        let block = |block: &[f32]| {
            let mut values = block.to_vec();
            let count = block.len() / dim;
            for _ in count..count.next_multiple_of(GROUP) {
                values.extend_from_slice(&block[block.len() - dim..]);
            }
            let count = values.len() / dim;
            Tensor::<2>::from_data(TensorData::new(values, [count, dim]), device).transpose()
        };
        let blocks = matrix.as_slice().chunks(rows * dim).map(block).collect();
        Self { exact: ExactIndex::new(Arc::clone(&matrix)), matrix, device: device.clone(), blocks }
    }

    fn search_group(
        &self,
        queries: &[Embedding],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        let dim = self.dim();
        let query_rows: Vec<f32> =
            queries.iter().flat_map(|query| query.as_slice().iter().copied()).collect();
        let query_rows =
            Tensor::<2>::from_data(TensorData::new(query_rows, [queries.len(), dim]), &self.device);
        // All are queued before the first is waited for.
        let mut greatest = Vec::new();
        for block in &self.blocks {
            cancel.check()?;
            let scores = query_rows.clone().matmul(block.clone());
            let [questions, rows] = scores.dims();
            greatest.push(scores.reshape([questions, rows / GROUP, GROUP]).max_dim(2));
        }
        let greatest: Tensor<3> = Tensor::cat(greatest, 1);
        let groups = greatest.dims()[1];
        let greatest = greatest.into_data().try_into_vec::<f32>();
        let greatest = greatest.map_err(|error| QueryError::Gpu { reason: format!("{error:?}") })?;
        let mut tops = ExactIndex::spare_tops(queries.len(), k);
        tops.par_iter_mut()
            .zip(greatest.par_chunks_exact(groups))
            .for_each(|(top, scores): (&mut TopK, _)| top.offer_all(0, scores));
        let rounding = |query: &[f32]| (ROUNDING * self.matrix.greatest_product(query)) as f32;
        self.exact.settle(queries, tops, GROUP as u32, k, rounding, cancel)
    }
}

impl VectorIndex for GpuIndex {
    fn dim(&self) -> usize {
        self.matrix.dim()
    }

    fn len(&self) -> usize {
        self.matrix.count()
    }

    fn kind(&self) -> IndexKind {
        IndexKind::Exact
    }

    fn search_until(
        &self,
        query: &Embedding,
        k: usize,
        allowed: Option<&RowSet>,
        cancel: &CancelToken,
    ) -> Result<Vec<ScoredRow>, QueryError> {
        if allowed.is_some() {
            return self.exact.search_until(query, k, allowed, cancel);
        }
        let mut found = self.search_batch_until(std::slice::from_ref(query), k, cancel)?;
        Ok(found.pop().unwrap_or_default())
    }

    fn search_batch_until(
        &self,
        queries: &[Embedding],
        k: usize,
        cancel: &CancelToken,
    ) -> Result<Vec<Vec<ScoredRow>>, QueryError> {
        for query in queries {
            self.matrix.check(query, k)?;
        }
        let k = k.min(self.len());
        let groups = queries.chunks(QUESTIONS).map(|group| self.search_group(group, k, cancel));
        Ok(groups.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}
