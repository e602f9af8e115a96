//! Page kernels: the operations of [`super::ops`] as kernels of our own, for the browser. Burn picks its fast kernels
//! by timing them, which a page cannot do, and those it takes untimed are several times slower.
//!
//! The kernels are forward only: a build with this feature does not train.

mod kernels;

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, Dispatch, backend_extension};
use burn::nn::Linear;
use burn::tensor::{DType, Int, Tensor};
use burn_cubecl::CubeBackend;

use super::dropout::Dropout;
use super::ops;
use kernels::{LANES, MAX_HEAD};

/// The operations the page adds to Burn's backend.
#[backend_extension(Cube, Fusion: cfg(feature = "fusion"))]
pub(crate) trait PageOps: Backend {
    /// `input` `[batch, tokens, k]` times `weight` `[k, n]` plus `bias` `[n]`, then the exact GELU if `gelu`;
    /// `k` and `n` are multiples of four.
    #[fusion(dtype = input, shape = {
        let mut shape = input.clone();
        shape[2] = weight[1];
        shape
    })]
    fn page_linear(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gelu: bool,
    ) -> FloatTensor<Self>;

    /// Attention of `heads` heads side by side in `[batch, tokens, hidden]`. `bias` `[batch, heads, tokens,
    /// tokens]`, any dimension but the last 1 to broadcast, is read only if `biased`.
    #[fusion(dtype = query, shape = query)]
    fn page_attend(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        biased: bool,
        heads: usize,
    ) -> FloatTensor<Self>;

    /// Sums of embeddings, `[batch, tokens, hidden]`: rows of `words` by `ids` `[batch, tokens]`, rows of `positions`
    /// from `offset` on if `positioned`, and rows of `kinds` if `kinded`, by `types` `[batch, tokens]` if `typed`, else
    /// the first of them. `hidden` is a multiple of four.
    #[fusion(dtype = words, shape = {
        let mut shape = ids.clone();
        shape.push(words[1]);
        shape
    })]
    #[allow(clippy::too_many_arguments)]
    fn page_embed(
        ids: IntTensor<Self>,
        types: IntTensor<Self>,
        words: FloatTensor<Self>,
        positions: FloatTensor<Self>,
        kinds: FloatTensor<Self>,
        offset: usize,
        positioned: bool,
        kinded: bool,
        typed: bool,
    ) -> FloatTensor<Self>;

    /// Rows `[batch, dim]` scaled to length 1; `dim` is a multiple of four, and a row of zeros stays one.
    #[fusion(dtype = input, shape = input)]
    fn page_unit_length(input: FloatTensor<Self>) -> FloatTensor<Self>;

    /// LayerNorm over the last dimension of `input` `[batch, tokens, hidden]`, to which `residual` is added first if
    /// `summed`. `bias` `[hidden]` is read only if `biased`; `hidden` is a multiple of four.
    #[fusion(dtype = input, shape = input)]
    fn page_norm(
        input: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f64,
        summed: bool,
        biased: bool,
    ) -> FloatTensor<Self>;
}

impl PageOps for CubeBackend {
    fn page_linear(
        input: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        gelu: bool,
    ) -> FloatTensor<Self> {
        kernels::linear(input, weight, bias, gelu)
    }

    fn page_attend(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        biased: bool,
        heads: usize,
    ) -> FloatTensor<Self> {
        kernels::attend(query, key, value, biased.then_some(bias), heads)
    }

    fn page_embed(
        ids: IntTensor<Self>,
        types: IntTensor<Self>,
        words: FloatTensor<Self>,
        positions: FloatTensor<Self>,
        kinds: FloatTensor<Self>,
        offset: usize,
        positioned: bool,
        kinded: bool,
        typed: bool,
    ) -> FloatTensor<Self> {
        let tables = [Some(words), positioned.then_some(positions), kinded.then_some(kinds)];
        kernels::embed(ids, typed.then_some(types), tables, offset)
    }

    fn page_unit_length(input: FloatTensor<Self>) -> FloatTensor<Self> {
        kernels::unit_length(input)
    }

    fn page_norm(
        input: FloatTensor<Self>,
        residual: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        eps: f64,
        summed: bool,
        biased: bool,
    ) -> FloatTensor<Self> {
        kernels::norm(input, summed.then_some(residual), weight, biased.then_some(bias), eps)
    }
}

/// Returns `[batch, tokens, output]` of `[batch, tokens, input]`.
pub(super) fn linear(layer: &Linear, input: Tensor<3>) -> Tensor<3> {
    own_linear(layer, &input, false).unwrap_or_else(|| ops::linear(layer, input))
}

/// Returns the exact GELU of [`linear`].
pub(super) fn linear_gelu(layer: &Linear, input: Tensor<3>) -> Tensor<3> {
    own_linear(layer, &input, true).unwrap_or_else(|| ops::linear_gelu(layer, input))
}

/// Returns the exact GELU.
pub(super) use super::ops::gelu;

/// Returns the attention as [`ops::attend`] does.
pub(super) fn attend(
    [query, key, value]: [Tensor<3>; 3],
    format: DType,
    bias: Option<Tensor<4>>,
    heads: usize,
    dropout: &mut Dropout,
) -> Tensor<3> {
    let [_, _, hidden] = query.dims();
    let width = hidden / heads;
    if query.dtype() != DType::F32 || width % LANES != 0 || width > MAX_HEAD {
        return ops::attend([query, key, value], format, bias, heads, dropout);
    }
    let biased = bias.is_some();
    // An operation takes no optional tensor; without a bias any tensor will do, since it is not read.
    let bias = bias.map_or_else(|| query.clone().into_dispatch(), Tensor::into_dispatch);
    Tensor::from_dispatch(Dispatch::page_attend(
        query.into_dispatch(),
        key.into_dispatch(),
        value.into_dispatch(),
        bias,
        biased,
        heads,
    ))
}

/// LayerNorm over the last dimension.
pub(super) fn norm(input: Tensor<3>, weight: Tensor<1>, bias: Option<Tensor<1>>, eps: f64) -> Tensor<3> {
    match has_kernel(&input, &weight) {
        true => own_norm(input, None, weight, bias, eps),
        false => ops::norm(input, weight, bias, eps),
    }
}

/// Returns the [`norm`] of a sum.
pub(super) fn norm_of_sum(
    input: Tensor<3>,
    residual: Tensor<3>,
    weight: Tensor<1>,
    bias: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<3> {
    match has_kernel(&input, &weight) && residual.dtype() == DType::F32 {
        true => own_norm(input, Some(residual), weight, bias, eps),
        false => ops::norm_of_sum(input, residual, weight, bias, eps),
    }
}

/// Returns the sum of each token's embeddings, `[batch, tokens, hidden]`, as [`ops::embed`] does.
pub(super) fn embed(
    ids: Tensor<2, Int>,
    types: Option<Tensor<2, Int>>,
    words: Tensor<2>,
    positions: Option<Tensor<2>>,
    kinds: Option<Tensor<2>>,
    offset: usize,
) -> Tensor<3> {
    let [_, hidden] = words.dims();
    let is_f32 = [Some(&words), positions.as_ref(), kinds.as_ref()];
    if hidden % LANES != 0 || is_f32.into_iter().flatten().any(|table| table.dtype() != DType::F32) {
        return ops::embed(ids, types, words, positions, kinds, offset);
    }
    let (positioned, kinded, typed) = (positions.is_some(), kinds.is_some(), types.is_some());
    let table = |table: Option<Tensor<2>>| table.unwrap_or_else(|| words.clone()).into_dispatch();
    let (positions, kinds) = (table(positions), table(kinds));
    let types = types.unwrap_or_else(|| ids.clone()).into_dispatch();
    Tensor::from_dispatch(Dispatch::page_embed(
        ids.into_dispatch(),
        types,
        words.into_dispatch(),
        positions,
        kinds,
        offset,
        positioned,
        kinded,
        typed,
    ))
}

/// Returns `[batch, output]` of `[batch, input]`.
pub(super) fn dense(layer: &Linear, input: Tensor<2>) -> Tensor<2> {
    let [batch, width] = input.dims();
    match own_linear(layer, &input.clone().reshape([batch, 1, width]), false) {
        Some(output) => {
            let [_, _, width] = output.dims();
            output.reshape([batch, width])
        }
        None => ops::dense(layer, input),
    }
}

/// Returns rows scaled to length 1, `[batch, dim]`; a row of zeros stays one.
pub(super) fn unit_length(vectors: Tensor<2>) -> Tensor<2> {
    let [_, dim] = vectors.dims();
    match dim % LANES == 0 && vectors.dtype() == DType::F32 {
        true => Tensor::from_dispatch(Dispatch::page_unit_length(vectors.into_dispatch())),
        false => ops::unit_length(vectors),
    }
}

/// Returns whether the kernel of a LayerNorm takes these: f32, of a width that fills its vectors.
fn has_kernel(input: &Tensor<3>, weight: &Tensor<1>) -> bool {
    let [hidden] = weight.dims();
    hidden % LANES == 0 && input.dtype() == DType::F32 && weight.dtype() == DType::F32
}

fn own_norm(
    input: Tensor<3>,
    residual: Option<Tensor<3>>,
    weight: Tensor<1>,
    bias: Option<Tensor<1>>,
    eps: f64,
) -> Tensor<3> {
    let (summed, biased) = (residual.is_some(), bias.is_some());
    // As for the bias of `attend`: what is not read may be any tensor.
    let residual = residual.unwrap_or_else(|| input.clone());
    let bias = bias.unwrap_or_else(|| weight.clone());
    Tensor::from_dispatch(Dispatch::page_norm(
        input.into_dispatch(),
        residual.into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
        eps,
        summed,
        biased,
    ))
}

/// Returns the layer's output by the kernel, or `None` where the kernel cannot compute it: no f32, or widths that do
/// not fill the kernel's vectors.
fn own_linear(layer: &Linear, input: &Tensor<3>, gelu: bool) -> Option<Tensor<3>> {
    let weight = layer.weight.val();
    let whole = weight.dims().iter().all(|length| length % LANES == 0);
    if !whole || input.dtype() != DType::F32 || weight.dtype() != DType::F32 {
        return None;
    }
    let bias = match &layer.bias {
        Some(bias) => bias.val(),
        None => Tensor::zeros([weight.dims()[1]], &weight.device()),
    };
    Some(Tensor::from_dispatch(Dispatch::page_linear(
        input.clone().into_dispatch(),
        weight.into_dispatch(),
        bias.into_dispatch(),
        gelu,
    )))
}
