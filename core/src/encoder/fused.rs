//! Fused training operations with gradients of their own: each is one step on the tape, where Burn's are several.
//! On the CPU, GELU, softmax and LayerNorm take one pass over their numbers.

#[cfg(feature = "flex")]
mod attention;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
#[cfg(feature = "flex")]
use burn::backend::flex::FlexTensor;
#[cfg(feature = "flex")]
use burn::backend::ops::{FloatTensorOps as _, ModuleOps as _};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Autodiff, Backend, Dispatch, TensorMetadata, backend_extension};
use burn::nn::Linear;
use burn::tensor::{DType, Shape, Tensor};

#[cfg(feature = "flex")]
use burn::tensor::{FloatDType, TensorData};
#[cfg(feature = "flex")]
use half::bf16;

#[cfg(feature = "flex")]
use crate::kernel::train as kernels;
#[cfg(feature = "flex")]
use crate::kernel::train::products::{self, Sizes};
#[cfg(feature = "flex")]
pub(super) use attention::attend;

/// The normal density at 0.
const ONE_OVER_SQRT_TAU: f32 = 0.398_942_3;

/// The operations that training adds to Burn's backends; a GPU composes them of Burn's own operations.
#[backend_extension(
    Flex: cfg(feature = "flex"), Cube: cfg(feature = "wgpu"), Fusion: cfg(feature = "fusion"), Autodiff
)]
pub(crate) trait TrainOps: Backend {
    /// `[.., input]` times `[input, output]` plus `[output]`. On the CPU a weight in bf16 makes it a product in bf16 of
    /// an input in f32, with an output in f32.
    #[fusion(default)]
    fn train_linear(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::linear(input, weight, Some(bias))
    }

    /// Returns the gradient of the input of [`TrainOps::train_linear`] from that of its output.
    #[fusion(default)]
    fn train_linear_input_backward(
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::linear_x_backward(weight, gradient)
    }

    /// Returns the gradient of the weight of [`TrainOps::train_linear`] from that of its output.
    #[fusion(default)]
    fn train_linear_weight_backward(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        drop(weight);
        Self::linear_weight_backward(input, gradient)
    }

    /// Returns the sum of all rows of `[.., width]`, `[width]`.
    #[fusion(default)]
    fn train_sum_rows(rows: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::linear_bias_backward(rows)
    }

    /// Returns the exact GELU.
    #[fusion(default)]
    fn train_gelu(input: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::gelu(input)
    }

    /// `gradient` times the derivative of the GELU at `input`, `Φ(x) + x φ(x)`. Burn's own is the derivative of the
    /// GELU's approximation by tanh, a thousandth off.
    #[fusion(default)]
    fn train_gelu_backward(input: FloatTensor<Self>, gradient: FloatTensor<Self>) -> FloatTensor<Self> {
        let scaled = Self::float_mul_scalar(input.clone(), std::f32::consts::FRAC_1_SQRT_2.into());
        let share = Self::float_erf(scaled.clone());
        let share = Self::float_mul_scalar(Self::float_add_scalar(share, 1f32.into()), 0.5f32.into());
        let density = Self::float_exp(Self::float_neg(Self::float_mul(scaled.clone(), scaled)));
        let density = Self::float_mul_scalar(density, ONE_OVER_SQRT_TAU.into());
        Self::float_mul(gradient, Self::float_add(share, Self::float_mul(input, density)))
    }

    /// Softmax over the last dimension.
    #[fusion(default)]
    fn train_softmax(scores: FloatTensor<Self>) -> FloatTensor<Self> {
        let last = scores.rank() - 1;
        Self::softmax(scores, last)
    }

    /// Returns the gradient of the scores from that of the probabilities.
    #[fusion(default)]
    fn train_softmax_backward(
        probabilities: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let last = gradient.rank() - 1;
        let along = Self::float_mul(gradient, probabilities.clone());
        let sum = Self::float_sum_dim(along.clone(), last);
        Self::float_sub(along, Self::float_mul(probabilities, sum))
    }

    /// LayerNorm over the last dimension.
    #[fusion(default)]
    fn train_norm(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f64,
    ) -> FloatTensor<Self> {
        Self::layer_norm(input, weight, Some(bias), eps)
    }

    /// Returns the gradients of a LayerNorm's input, weight and bias from that of its output.
    #[fusion(default)]
    fn train_norm_backward(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        eps: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let shape = input.shape();
        let last = shape.num_dims() - 1;
        let mut row = vec![1; shape.num_dims()];
        row[last] = shape[last];
        let mean = Self::float_mean_dim(input.clone(), last);
        let centred = Self::float_sub(input, mean);
        let variance = Self::float_mean_dim(Self::float_mul(centred.clone(), centred.clone()), last);
        let deviation = Self::float_sqrt(Self::float_add_scalar(variance, eps.into()));
        let normal = Self::float_div(centred, deviation.clone());
        let of_weight = Self::linear_bias_backward(Self::float_mul(gradient.clone(), normal.clone()));
        let of_bias = Self::linear_bias_backward(gradient.clone());
        let scaled = Self::float_mul(gradient, Self::float_reshape(weight, Shape::from(row)));
        let plain = Self::float_mean_dim(scaled.clone(), last);
        let along = Self::float_mean_dim(Self::float_mul(scaled.clone(), normal.clone()), last);
        let rest = Self::float_sub(Self::float_sub(scaled, plain), Self::float_mul(normal, along));
        (Self::float_div(rest, deviation), of_weight, of_bias)
    }
}

#[cfg(feature = "wgpu")]
impl TrainOps for burn::backend::Cube {}

#[cfg(feature = "flex")]
impl TrainOps for burn::backend::Flex {
    fn train_linear(input: FlexTensor, weight: FlexTensor, bias: FlexTensor) -> FlexTensor {
        let shape = input.shape();
        if weight.dtype() == DType::BF16 {
            let (input, weight) = (contiguous(input), contiguous(weight));
            let (sizes, bias) = (sizes(&input, &weight), contiguous(Self::float_cast(bias, FloatDType::F32)));
            let output = products::outputs(values(&input), bf16_values(&weight), values(&bias), sizes);
            return with_last_dim(output, shape, sizes.outputs);
        }
        let (width, output) = (shape[shape.num_dims() - 1], weight.shape()[1]);
        let rows = shape.num_elements() / width.max(1);
        let flat = Self::float_reshape(input, Shape::from(vec![rows, width]));
        let mut product = Self::float_matmul(flat, weight);
        let bias = contiguous(bias);
        kernels::add_row(values_mut(&mut product), values(&bias));
        let mut shape = shape;
        let last = shape.num_dims() - 1;
        shape[last] = output;
        Self::float_reshape(product, shape)
    }

    fn train_linear_input_backward(weight: FlexTensor, gradient: FlexTensor) -> FlexTensor {
        if weight.dtype() != DType::BF16 {
            return Self::linear_x_backward(weight, gradient);
        }
        let (weight, gradient) = (contiguous(weight), contiguous(gradient));
        let [inputs, outputs] = [weight.shape()[0], weight.shape()[1]];
        let shape = gradient.shape();
        let sizes = Sizes { rows: shape.num_elements() / outputs.max(1), inputs, outputs };
        with_last_dim(products::input_gradient(values(&gradient), bf16_values(&weight), sizes), shape, inputs)
    }

    fn train_linear_weight_backward(
        input: FlexTensor,
        weight: FlexTensor,
        gradient: FlexTensor,
    ) -> FlexTensor {
        if weight.dtype() != DType::BF16 {
            return Self::linear_weight_backward(input, gradient);
        }
        let (sizes, input, gradient) = (sizes(&input, &weight), contiguous(input), contiguous(gradient));
        let product = products::weight_gradient(values(&input), values(&gradient), sizes);
        FlexTensor::from_data(TensorData::new(product, weight.shape()))
    }

    fn train_sum_rows(rows: FlexTensor) -> FlexTensor {
        let rows = contiguous(rows);
        let shape = rows.shape();
        let width = shape[shape.num_dims() - 1];
        vector(kernels::sum_rows(values(&rows), width))
    }

    fn train_gelu(input: FlexTensor) -> FlexTensor {
        let input = contiguous(input);
        let output = kernels::gelu_forward(values(&input));
        FlexTensor::from_data(TensorData::new(output, input.shape()))
    }

    fn train_gelu_backward(input: FlexTensor, gradient: FlexTensor) -> FlexTensor {
        let (input, mut gradient) = (contiguous(input), contiguous(gradient));
        kernels::gelu_backward(values(&input), values_mut(&mut gradient));
        gradient
    }

    fn train_softmax(scores: FlexTensor) -> FlexTensor {
        let mut scores = contiguous(scores);
        let shape = scores.shape();
        let width = shape[shape.num_dims() - 1];
        kernels::softmax(values_mut(&mut scores), width);
        scores
    }

    fn train_softmax_backward(probabilities: FlexTensor, gradient: FlexTensor) -> FlexTensor {
        let (probabilities, mut gradient) = (contiguous(probabilities), contiguous(gradient));
        let shape = gradient.shape();
        let width = shape[shape.num_dims() - 1];
        kernels::softmax_backward(values(&probabilities), values_mut(&mut gradient), width);
        gradient
    }

    fn train_norm(input: FlexTensor, weight: FlexTensor, bias: FlexTensor, eps: f64) -> FlexTensor {
        let (mut input, weight, bias) = (contiguous(input), contiguous(weight), contiguous(bias));
        kernels::norm(values_mut(&mut input), values(&weight), values(&bias), eps as f32);
        input
    }

    fn train_norm_backward(
        input: FlexTensor,
        weight: FlexTensor,
        gradient: FlexTensor,
        eps: f64,
    ) -> (FlexTensor, FlexTensor, FlexTensor) {
        let (input, weight, mut gradient) = (contiguous(input), contiguous(weight), contiguous(gradient));
        let rows = values_mut(&mut gradient);
        let (of_weight, of_bias) = kernels::norm_backward(values(&input), values(&weight), rows, eps as f32);
        (gradient, vector(of_weight), vector(of_bias))
    }
}

/// Returns the tensor with its numbers side by side.
#[cfg(feature = "flex")]
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.layout().contiguous_offsets().is_some() { tensor } else { tensor.to_contiguous() }
}

/// Returns the numbers of a contiguous tensor in f32.
#[cfg(feature = "flex")]
fn values(tensor: &FlexTensor) -> &[f32] {
    let (from, to) = tensor.layout().contiguous_offsets().unwrap_or_default();
    &tensor.storage::<f32>()[from..to]
}

/// Returns the tensor's numbers; copied first when another tensor shares them.
#[cfg(feature = "flex")]
fn values_mut(tensor: &mut FlexTensor) -> &mut [f32] {
    let (from, to) = tensor.layout().contiguous_offsets().unwrap_or_default();
    &mut tensor.storage_mut::<f32>()[from..to]
}

#[cfg(feature = "flex")]
fn vector(values: Vec<f32>) -> FlexTensor {
    let length = values.len();
    FlexTensor::from_data(TensorData::new(values, [length]))
}

/// Returns the numbers of a contiguous tensor in bf16.
#[cfg(feature = "flex")]
fn bf16_values(tensor: &FlexTensor) -> &[bf16] {
    let (from, to) = tensor.layout().contiguous_offsets().unwrap_or_default();
    &tensor.storage::<bf16>()[from..to]
}

/// Returns the sizes of a layer's products from its input and its weight.
#[cfg(feature = "flex")]
fn sizes(input: &FlexTensor, weight: &FlexTensor) -> Sizes {
    let (shape, weight) = (input.shape(), weight.shape());
    Sizes { rows: shape.num_elements() / weight[0].max(1), inputs: weight[0], outputs: weight[1] }
}

/// Returns a tensor of `values` in `shape`, but with `last` as its last dimension.
#[cfg(feature = "flex")]
fn with_last_dim(values: Vec<f32>, mut shape: Shape, last: usize) -> FlexTensor {
    let dims = shape.num_dims();
    shape[dims - 1] = last;
    FlexTensor::from_data(TensorData::new(values, shape))
}

#[derive(Debug)]
struct LinearStep;

impl<B: TrainOps> Backward<B, 3> for LinearStep {
    type State = (FloatTensor<B>, FloatTensor<B>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let ([of_input, of_weight, of_bias], (input, weight)) = (ops.parents, ops.state);
        if let Some(node) = of_bias {
            grads.register::<B>(node.id, B::train_sum_rows(gradient.clone()));
        }
        if let Some(node) = of_weight {
            let product = B::train_linear_weight_backward(input, weight.clone(), gradient.clone());
            grads.register::<B>(node.id, product);
        }
        if let Some(node) = of_input {
            grads.register::<B>(node.id, B::train_linear_input_backward(weight, gradient));
        }
    }
}

#[derive(Debug)]
struct GeluStep;

impl<B: TrainOps> Backward<B, 1> for GeluStep {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            grads.register::<B>(node.id, B::train_gelu_backward(ops.state, gradient));
        }
    }
}

#[derive(Debug)]
struct SoftmaxStep;

impl<B: TrainOps> Backward<B, 1> for SoftmaxStep {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        if let [Some(node)] = ops.parents {
            grads.register::<B>(node.id, B::train_softmax_backward(ops.state, gradient));
        }
    }
}

#[derive(Debug)]
struct NormStep;

impl<B: TrainOps> Backward<B, 3> for NormStep {
    type State = (FloatTensor<B>, FloatTensor<B>, f64);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let (input, weight, eps) = ops.state;
        let (of_input, of_weight, of_bias) = B::train_norm_backward(input, weight, gradient, eps);
        for (node, gradient) in ops.parents.into_iter().zip([of_input, of_weight, of_bias]) {
            if let Some(node) = node {
                grads.register::<B>(node.id, gradient);
            }
        }
    }
}

impl<B: TrainOps, C: CheckpointStrategy> TrainOps for Autodiff<B, C> {
    fn train_linear(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let ((input, input_node), (weight, weight_node)) = (input.into_parts(), weight.into_parts());
        let (bias, bias_node) = bias.into_parts();
        match LinearStep.prepare::<C>([input_node, weight_node, bias_node]).compute_bound().stateful() {
            OpsKind::Tracked(step) => {
                step.finish((input.clone(), weight.clone()), B::train_linear(input, weight, bias))
            }
            OpsKind::UnTracked(step) => step.finish(B::train_linear(input, weight, bias)),
        }
    }

    fn train_gelu(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let (input, node) = input.into_parts();
        match GeluStep.prepare::<C>([node]).compute_bound().stateful() {
            OpsKind::Tracked(step) => step.finish(input.clone(), B::train_gelu(input)),
            OpsKind::UnTracked(step) => step.finish(B::train_gelu(input)),
        }
    }

    fn train_softmax(scores: FloatTensor<Self>) -> FloatTensor<Self> {
        let (scores, node) = scores.into_parts();
        let step = SoftmaxStep.prepare::<C>([node]).compute_bound().stateful();
        let probabilities = B::train_softmax(scores);
        match step {
            OpsKind::Tracked(step) => step.finish(probabilities.clone(), probabilities),
            OpsKind::UnTracked(step) => step.finish(probabilities),
        }
    }

    fn train_norm(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f64,
    ) -> FloatTensor<Self> {
        let ((input, input_node), (weight, weight_node)) = (input.into_parts(), weight.into_parts());
        let (bias, bias_node) = bias.into_parts();
        match NormStep.prepare::<C>([input_node, weight_node, bias_node]).compute_bound().stateful() {
            OpsKind::Tracked(step) => {
                step.finish((input.clone(), weight.clone(), eps), B::train_norm(input, weight, bias, eps))
            }
            OpsKind::UnTracked(step) => step.finish(B::train_norm(input, weight, bias, eps)),
        }
    }
}

/// `[batch, tokens, input]` to `[batch, tokens, output]`.
pub(super) fn linear(layer: &Linear, input: Tensor<3>) -> Tensor<3> {
    let weight = layer.weight.val();
    let bias = match &layer.bias {
        Some(bias) => bias.val(),
        // Burn's own product takes numbers of one format only.
        None if weight.dtype() == DType::BF16 => {
            Tensor::zeros([weight.dims()[1]], (&weight.device(), DType::BF16))
        }
        None => return layer.forward(input),
    };
    Tensor::from_dispatch(Dispatch::train_linear(
        input.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
    ))
}

/// Returns the exact GELU.
pub(super) fn gelu(input: Tensor<3>) -> Tensor<3> {
    Tensor::from_dispatch(Dispatch::train_gelu(input.into_dispatch()))
}

/// Softmax over the last dimension.
pub(super) fn softmax(scores: Tensor<4>) -> Tensor<4> {
    Tensor::from_dispatch(Dispatch::train_softmax(scores.into_dispatch()))
}

/// LayerNorm over the last dimension.
pub(super) fn norm(input: Tensor<3>, weight: Tensor<1>, bias: Option<Tensor<1>>, eps: f64) -> Tensor<3> {
    let bias = bias.unwrap_or_else(|| weight.zeros_like());
    Tensor::from_dispatch(Dispatch::train_norm(
        input.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
        eps,
    ))
}
