//! MPNet's bias by relative position (Song et al. 2020; the buckets are T5's, Raffel et al. 2020 §2.1).

use burn::module::Module;
use burn::nn::Embedding;
use burn::tensor::{Device, Int, Tensor, TensorData};

use crate::relative::bucket;

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
