//! Exact search with a GPU: a matrix product there, and maxima over groups of rows, choose groups; the scores of their
//! rows are summed here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::tensor::{Device, Tensor, TensorData};
use dpr_core::Embedding;
use rayon::prelude::*;

use super::{ExactIndex, IndexKind, Matrix, QueryError, RowSet, ScoredRow, VectorIndex};
use crate::CancelToken;
use crate::codes::rescored;
use crate::ranking::TopK;

/// Most bytes of vectors in one tensor, and of their scores: what every adapter can bind.
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
    /// Questions that the CPU searched.
    singly: AtomicUsize,
}

impl GpuIndex {
    /// Copies the vectors to the device.
    pub fn new(matrix: Arc<Matrix>, device: &Device) -> Self {
        let rows = BLOCK_BYTES / size_of::<f32>() / matrix.dim().max(QUESTIONS);
        Self::in_blocks(matrix, device, rows)
    }

    /// Copies the vectors to the device, at most `rows` in one tensor, but at least a group.
    fn in_blocks(matrix: Arc<Matrix>, device: &Device, rows: usize) -> Self {
        let (dim, rows) = (matrix.dim(), (rows / GROUP).max(1) * GROUP);
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
        let (exact, device) = (ExactIndex::new(Arc::clone(&matrix)), device.clone());
        Self { exact, matrix, device, blocks, singly: AtomicUsize::new(0) }
    }

    /// Returns the number of questions so far whose best rows the GPU's rounding left open, and that were searched on
    /// the CPU.
    pub fn searched_singly(&self) -> usize {
        self.singly.load(Ordering::Relaxed)
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
        let unread = |reason: String| QueryError::Gpu { reason };
        let greatest = greatest.try_into_data().map_err(|error| unread(format!("{error:?}")))?;
        let greatest = greatest.try_into_vec::<f32>().map_err(|error| unread(format!("{error:?}")))?;
        if greatest.iter().any(|score| !score.is_finite()) {
            return Err(unread("a score is not a number".to_owned()));
        }
        let mut tops: Vec<TopK> = queries.iter().map(|_| TopK::new(rescored(k))).collect();
        tops.par_iter_mut()
            .zip(greatest.par_chunks_exact(groups))
            .for_each(|(top, scores): (&mut TopK, _)| top.offer_all(0, scores));
        let rounding = |query: &[f32]| (ROUNDING * self.matrix.greatest_product(query)) as f32;
        let (found, singly) = self.exact.settle(queries, tops, GROUP, k, rounding, cancel)?;
        self.singly.fetch_add(singly, Ordering::Relaxed);
        Ok(found)
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

#[cfg(test)]
mod tests {
    use dpr_core::device::Device as Opened;
    use dpr_core::random::SplitMix;
    use dpr_core::{DeviceChoice, Embedding};

    use super::*;

    #[test]
    fn several_blocks_and_a_last_group_that_is_not_whole_find_what_the_cpu_finds() {
        let device = match Opened::open(DeviceChoice::Wgpu) {
            Ok(Opened::Burn { device, .. }) => device,
            Ok(Opened::Kernel) => panic!("wgpu is no CPU"),
            Err(error) if std::env::var_os("CI").is_none() => {
                eprintln!("skipped: {error}; cargo xtask setup installs a software driver");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let (count, dim) = (2 * 48 + 21, 8);
        let mut random = SplitMix::new(5);
        let mut vector = || (0..dim).map(|_| random.normal() as f32).collect::<Vec<_>>();
        let mut rows: Vec<f32> = (0..count).flat_map(|_| vector()).collect();
        // The best of the first question is the very last row, in the group that is padded.
        let questions: Vec<_> = (0..3).map(|_| Embedding::new(vector(), dim).unwrap()).collect();
        let last = questions[0].as_slice().iter().map(|value| value * 3.0);
        rows.truncate((count - 1) * dim);
        rows.extend(last);
        let matrix = Arc::new(Matrix::new(rows, count, dim, |row| row.to_string()).unwrap());
        let (there, here) =
            (GpuIndex::in_blocks(Arc::clone(&matrix), &device, 50), ExactIndex::new(Arc::clone(&matrix)));
        assert_eq!(there.blocks.len(), 3, "48 rows are a block");
        for k in [1, 5, count, count + 9] {
            let found = there.search_batch(&questions, k).unwrap();
            assert_eq!(found, here.search_batch(&questions, k).unwrap(), "{k}");
            assert_eq!(found[0][0].row, count - 1);
        }
        let asked = there.searched_singly();
        assert!(asked < 3, "{asked} of 12 were left to the CPU");
    }
}
