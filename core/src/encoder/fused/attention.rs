//! Attention as one step on the tape, on Burn's CPU backend.

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, Flex, TensorMetadata, backend_extension};
use burn::tensor::{Tensor, TensorData};

use super::{contiguous, values};
use crate::encoder::Dropout;
use crate::kernel::train::attention::{Attention, Broadcast};

/// Attention of `heads` heads side by side in `[batch, tokens, hidden]`. `bias`, added to the scores, and `mask`, the
/// factors of dropout, are `[batch, heads, tokens, tokens]`, of length 1 in any dimension. `narrow` products are in bf16
/// where the processor has AMX.
#[backend_extension(Flex, Autodiff)]
pub(crate) trait AttentionOps: Backend {
    /// Returns the attention, `[batch, tokens, hidden]`.
    fn train_attend(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        mask: FloatTensor<Self>,
        heads: usize,
        narrow: bool,
    ) -> FloatTensor<Self>;
}

/// A backend whose attention has gradients of its own.
pub(crate) trait AttentionGradients: AttentionOps {
    /// Returns the gradients of query, key, value and, if `with_bias`, bias from `gradient`, that of the attention.
    fn attend_backward(
        inputs: Inputs<FloatTensor<Self>>,
        gradient: FloatTensor<Self>,
        with_bias: bool,
    ) -> [FloatTensor<Self>; 4];
}

/// Inputs of attention.
#[derive(Clone, Debug)]
pub(crate) struct Inputs<T> {
    query: T,
    key: T,
    value: T,
    bias: T,
    mask: T,
    heads: usize,
    narrow: bool,
}

impl Inputs<FlexTensor> {
    fn contiguous(self) -> Self {
        let Self { query, key, value, bias, mask, heads, narrow } = self;
        let [query, key, value, bias, mask] = [query, key, value, bias, mask].map(contiguous);
        Self { query, key, value, bias, mask, heads, narrow }
    }

    fn view(&self) -> Attention<'_> {
        let shape = self.query.shape();
        Attention {
            query: values(&self.query),
            key: values(&self.key),
            value: values(&self.value),
            bias: broadcast(&self.bias),
            mask: broadcast(&self.mask),
            batch: shape[0],
            tokens: shape[1],
            hidden: shape[2],
            heads: self.heads,
            narrow: self.narrow,
        }
    }
}

fn broadcast(tensor: &FlexTensor) -> Broadcast<'_> {
    let shape = tensor.shape();
    Broadcast { values: values(tensor), dims: [shape[0], shape[1], shape[2], shape[3]] }
}

impl AttentionOps for Flex {
    fn train_attend(
        query: FlexTensor,
        key: FlexTensor,
        value: FlexTensor,
        bias: FlexTensor,
        mask: FlexTensor,
        heads: usize,
        narrow: bool,
    ) -> FlexTensor {
        let shape = query.shape();
        let inputs = Inputs { query, key, value, bias, mask, heads, narrow }.contiguous();
        FlexTensor::from_data(TensorData::new(inputs.view().forward(), shape))
    }
}

impl AttentionGradients for Flex {
    fn attend_backward(inputs: Inputs<FlexTensor>, gradient: FlexTensor, with_bias: bool) -> [FlexTensor; 4] {
        let (inputs, gradient) = (inputs.contiguous(), contiguous(gradient));
        let found = inputs.view().backward(values(&gradient), with_bias);
        let states = [found.query, found.key, found.value]
            .map(|values| FlexTensor::from_data(TensorData::new(values, gradient.shape())));
        let [query, key, value] = states;
        let bias = if with_bias {
            TensorData::new(found.bias, inputs.bias.shape())
        } else {
            TensorData::zeros::<f32, _>([1])
        };
        [query, key, value, FlexTensor::from_data(bias)]
    }
}

#[derive(Debug)]
struct AttendStep;

impl<B: AttentionGradients> Backward<B, 4> for AttendStep {
    type State = Inputs<FloatTensor<B>>;

    fn backward(self, ops: Ops<Self::State, 4>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let with_bias = ops.parents[3].is_some();
        let found = B::attend_backward(ops.state, gradient, with_bias);
        for (node, gradient) in ops.parents.into_iter().zip(found) {
            if let Some(node) = node {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: AttentionGradients, C: CheckpointStrategy> AttentionOps for Autodiff<B, C> {
    fn train_attend(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        mask: FloatTensor<Self>,
        heads: usize,
        narrow: bool,
    ) -> FloatTensor<Self> {
        let (query, query_node) = query.into_parts();
        let (key, key_node) = key.into_parts();
        let (value, value_node) = value.into_parts();
        let (bias, bias_node) = bias.into_parts();
        // Drawn, not computed: no gradient leads there.
        let (mask, _) = mask.into_parts();
        let output = B::train_attend(
            query.clone(),
            key.clone(),
            value.clone(),
            bias.clone(),
            mask.clone(),
            heads,
            narrow,
        );
        let nodes = [query_node, key_node, value_node, bias_node];
        match AttendStep.prepare::<C>(nodes).compute_bound().stateful() {
            OpsKind::Tracked(step) => {
                step.finish(Inputs { query, key, value, bias, mask, heads, narrow }, output)
            }
            OpsKind::UnTracked(step) => step.finish(output),
        }
    }
}

/// Returns the attention of states in f32 as [`super::super::ops::attend`] does, on Burn's CPU backend.
pub(in super::super) fn attend(
    [query, key, value]: [Tensor<3>; 3],
    narrow: bool,
    bias: Option<Tensor<4>>,
    heads: usize,
    dropout: &mut Dropout,
) -> Tensor<3> {
    let ([batch, tokens, _], device) = (query.dims(), query.device());
    let bias = bias.unwrap_or_else(|| Tensor::zeros([1; 4], &device));
    let mask = dropout.mask([batch, heads, tokens, tokens], &device);
    let mask = mask.unwrap_or_else(|| Tensor::ones([1; 4], &device));
    Tensor::from_dispatch(Dispatch::train_attend(
        query.into_dispatch(),
        key.into_dispatch(),
        value.into_dispatch(),
        bias.into_dispatch(),
        mask.into_dispatch(),
        heads,
        narrow,
    ))
}

#[cfg(test)]
mod tests {
    use burn::tensor::{DType, Device, Tensor, TensorData};

    use super::{Attention, Broadcast};
    use crate::encoder::Dropout;
    use crate::encoder::ops::attend;

    #[test]
    fn products_are_narrow_where_the_layers_multiply_in_bf16() {
        let [batch, tokens, hidden, heads] = [1, 40, 64, 2];
        let wave = |step: f32| -> Vec<f32> {
            (0..batch * tokens * hidden).map(|i| (i as f32 * step).sin()).collect()
        };
        let states = [0.7, 0.3, 1.1].map(wave);
        for (format, narrow) in [(DType::F32, false), (DType::BF16, true)] {
            let tensors = states.each_ref().map(|values| {
                Tensor::<3>::from_data(
                    TensorData::new(values.clone(), [batch, tokens, hidden]),
                    &Device::flex(),
                )
            });
            let got = attend(tensors, format, None, heads, &mut Dropout::none());
            let one = |values| Broadcast { values, dims: [1; 4] };
            let [query, key, value] = &states;
            let (bias, mask) = (one(&[0.0]), one(&[1.0]));
            let expected = Attention { query, key, value, bias, mask, batch, tokens, hidden, heads, narrow };
            assert_eq!(got.into_data().try_into_vec::<f32>().unwrap(), expected.forward(), "{format:?}");
        }
    }
}
