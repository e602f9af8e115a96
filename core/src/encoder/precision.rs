//! Mixed precision: the layers' matrix products in another number format than the states between them.

use burn::module::Param;
use burn::nn::Linear;
use burn::tensor::{FloatDType, Tensor};

use super::{Attention, Encoder, Layer};

impl Encoder {
    /// Returns the same encoder with the layers' matrices and their biases in `format`. The products are then
    /// computed in it; softmax, GELU, LayerNorm, sums and embeddings stay in f32. On a tape the gradients lead back to
    /// this encoder's own parameters.
    ///
    /// On a GPU, in `F16` or `BF16`, the states that enter a product are brought into it, and attention multiplies in
    /// it too. On Burn's CPU backend, in `BF16` and in a build that trains (`flex` and `autodiff`), a product takes
    /// states and gives outputs in f32; attention is in f32 too, but for its products where the processor has AMX.
    #[must_use]
    pub fn with_products_in(&self, format: FloatDType) -> Self {
        let linear = |layer: &Linear| Linear {
            weight: in_format(&layer.weight, format),
            bias: layer.bias.as_ref().map(|bias| in_format(bias, format)),
        };
        let layers = self.layers.iter().map(|layer| Layer {
            attention: Attention {
                qkv: layer.attention.qkv.iter().map(linear).collect(),
                output: linear(&layer.attention.output),
            },
            intermediate: layer.intermediate.iter().map(linear).collect(),
            output: linear(&layer.output),
            ..layer.clone()
        });
        Self { layers: layers.collect(), ..self.clone() }
    }
}

fn in_format<const D: usize>(param: &Param<Tensor<D>>, format: FloatDType) -> Param<Tensor<D>> {
    Param::initialized(param.id, param.val().cast(format))
}
