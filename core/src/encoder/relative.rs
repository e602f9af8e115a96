//! MPNet's bias by relative position (Song et al. 2020; the buckets are T5's, Raffel et al. 2020 §2.1).

use burn::module::Module;
use burn::nn::Embedding;
use burn::tensor::{Device, Int, Tensor, TensorData};

/// Distance from which on all positions share the last bucket.
const MAX_DISTANCE: f64 = 128.0;

/// One learned number for each bucket of relative positions and each head.
#[derive(Module, Debug)]
pub struct RelativeBias {
    /// `[buckets, heads]`.
    pub weight: Embedding,
}

impl RelativeBias {
    /// Returns the bias `[1, heads, tokens, tokens]` of every pair of query and key positions.
    pub fn forward(&self, tokens: usize, device: &Device) -> Tensor<4> {
        let [buckets, _] = self.weight.weight.dims();
        let ids: Vec<i32> = (0..tokens)
            .flat_map(|query| (0..tokens).map(move |key| bucket(key as i64 - query as i64, buckets) as i32))
            .collect();
        let ids = Tensor::<2, Int>::from_data(TensorData::new(ids, [tokens, tokens]), device);
        self.weight.forward(ids).permute([2, 0, 1]).unsqueeze()
    }
}

/// Returns the bucket of a relative position (key minus query): half the buckets for each direction; within one, half
/// for single distances and the rest on a logarithmic scale.
fn bucket(relative: i64, buckets: usize) -> usize {
    let half = buckets / 2;
    let direction = if relative > 0 { half } else { 0 };
    let distance = relative.unsigned_abs() as usize;
    let exact = half / 2;
    if distance < exact {
        return direction + distance;
    }
    let scale = (distance as f64 / exact as f64).ln() / (MAX_DISTANCE / exact as f64).ln();
    direction + (exact + (scale * (half - exact) as f64) as usize).min(half - 1)
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn buckets_are_those_of_transformers() {
        // MPNetEncoder.relative_position_bucket(torch.tensor(…), num_buckets=32)
        let cases =
            [(0, 0), (-1, 1), (1, 17), (-7, 7), (8, 24), (-15, 9), (16, 26), (-64, 14), (90, 30), (127, 31)];
        for (relative, expected) in cases {
            assert_eq!(bucket(relative, 32), expected, "relative position {relative}");
        }
        assert_eq!((bucket(-500, 32), bucket(500, 32)), (15, 31));
    }
}
