//! GPU kernels of the page, without shared memory and barriers, with many multiply-adds for each load. They are fine
//! for the short inputs of a page on a GPU, and the only shape that runs well on a software adapter, where a load is
//! four scalar loads with a bounds check each and a barrier is a thread switch.
// Kernels are launched unchecked: each guards its own indices, and WebGPU checks every access once more.
#![allow(unsafe_code)]

use burn_cubecl::cubecl;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use cubecl::prelude::*;

use super::super::workgroups::spread;

/// Values in one vector of the kernels.
pub(super) const LANES: usize = 4;
/// The widest head that [`attend`] takes: more would not fit a GPU's registers.
pub(super) const MAX_HEAD: usize = 128;

/// Rows and vectors of four columns that one invocation of [`linear_kernel`] computes.
const TILE: (usize, usize) = (4, 2);
/// Invocations in a workgroup.
const UNITS: u32 = 32;

type Four = Vector<f32, Const<4>>;

/// `[rows, k]` times `[k, n]` plus `[n]`; `depth` and `columns` are `k` and `n` in vectors. Each invocation
/// keeps `tile_rows` times `tile_columns` vectors of sums.
#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments, clippy::needless_range_loop)]
fn linear_kernel(
    input: &[Four],
    weight: &[Four],
    bias: &[Four],
    output: &mut [Four],
    rows: usize,
    depth: usize,
    columns: usize,
    #[comptime] tile_rows: usize,
    #[comptime] tile_columns: usize,
    #[comptime] gelu: bool,
) {
    let across = columns / tile_columns;
    let column = (ABSOLUTE_POS % across) * tile_columns;
    let row = (ABSOLUTE_POS / across) * tile_rows;
    if row >= rows {
        terminate!();
    }
    let mut from = Sequence::<usize>::new();
    let mut sums = Sequence::<RuntimeCell<Four>>::new();
    #[unroll]
    for r in 0..tile_rows {
        // Rows past the end read the last one and are not written.
        from.push((row + r).min(rows - 1) * depth);
        #[unroll]
        for c in 0..tile_columns {
            sums.push(RuntimeCell::<Four>::new(bias[column + c]));
        }
    }
    for k in 0..depth {
        let mut left = Sequence::<Four>::new();
        #[unroll]
        for r in 0..tile_rows {
            left.push(input[from[r] + k]);
        }
        #[unroll]
        for part in 0..LANES {
            let at = (k * LANES + part) * columns + column;
            #[unroll]
            for c in 0..tile_columns {
                let right = weight[at + c];
                #[unroll]
                for r in 0..tile_rows {
                    let sum = &sums[r * tile_columns + c];
                    sum.store(fma(Four::new(left[r].extract(part)), right, sum.read()));
                }
            }
        }
    }
    #[unroll]
    for r in 0..tile_rows {
        if row + r < rows {
            #[unroll]
            for c in 0..tile_columns {
                let sum = sums[r * tile_columns + c].read();
                let at = (row + r) * columns + column + c;
                if comptime![gelu] {
                    let erf = (sum * Four::new(core::f32::consts::FRAC_1_SQRT_2)).erf();
                    output[at] = sum * Four::new(0.5f32) * (erf + Four::new(1.0f32));
                } else {
                    output[at] = sum;
                }
            }
        }
    }
}

/// `input` `[.., k]`, `weight` `[k, n]`, `bias` `[n]`, all f32, `k` and `n` multiples of [`LANES`].
pub(super) fn linear(input: CubeTensor, weight: CubeTensor, bias: CubeTensor, gelu: bool) -> CubeTensor {
    let (input, weight, bias) = (into_contiguous(input), into_contiguous(weight), into_contiguous(bias));
    let (k, n) = (weight.meta.shape()[0], weight.meta.shape()[1]);
    let mut shape = input.meta.shape().clone();
    let rows = shape.num_elements() / k;
    let last = shape.num_dims() - 1;
    shape[last] = n;
    let output =
        empty_device_contiguous_dtype(input.client.clone(), input.device.clone(), shape, input.dtype);
    let columns = n / LANES;
    let tile_columns = if columns % TILE.1 == 0 { TILE.1 } else { 1 };
    let invocations = rows.div_ceil(TILE.0) * (columns / tile_columns);
    let client = input.client.clone();
    // SAFETY: an invocation past the last row stops, row indices are clamped to the last row, and the columns
    // are a whole number of tiles.
    unsafe {
        linear_kernel::launch_unchecked(
            &client,
            workgroups(invocations),
            CubeDim::new_1d(UNITS),
            input.into_buffer_arg(),
            weight.into_buffer_arg(),
            bias.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            rows,
            k / LANES,
            columns,
            TILE.0,
            tile_columns,
            gelu,
        );
    }
    output
}

/// Attention of one query row in one head an invocation, with a running softmax; `hidden` and `width` are in
/// vectors, and the strides are those of `bias`, 0 where it is broadcast.
#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments, clippy::needless_range_loop)]
fn attend_kernel(
    query: &[Four],
    key: &[Four],
    value: &[Four],
    bias: &[f32],
    output: &mut [Four],
    rows: usize,
    tokens: usize,
    heads: usize,
    bias_batch: usize,
    bias_head: usize,
    bias_row: usize,
    scale: f32,
    #[comptime] width: usize,
    #[comptime] biased: bool,
) {
    let head = ABSOLUTE_POS % heads;
    let row = ABSOLUTE_POS / heads;
    if row >= rows {
        terminate!();
    }
    let hidden = heads * width;
    let batch = row / tokens;
    let at = row * hidden + head * width;
    let first = batch * tokens * hidden + head * width;
    let bias_at = batch * bias_batch + head * bias_head + (row % tokens) * bias_row;
    let mut scaled = Sequence::<Four>::new();
    let mut sums = Sequence::<RuntimeCell<Four>>::new();
    #[unroll]
    for i in 0..width {
        scaled.push(query[at + i] * Four::new(scale));
        sums.push(RuntimeCell::<Four>::new(Four::new(0.0f32)));
    }
    let mut highest = f32::new(-3.0e38);
    let mut total = f32::new(0.0);
    for token in 0..tokens {
        let from = first + token * hidden;
        let mut products = scaled[0] * key[from];
        #[unroll]
        for i in 1..width {
            products = fma(scaled[i], key[from + i], products);
        }
        let mut score = sum_of_lanes(products);
        if comptime![biased] {
            score += bias[bias_at + token];
        }
        let now = select(score > highest, score, highest);
        let kept = (highest - now).exp();
        let share = (score - now).exp();
        highest = now;
        total = total * kept + share;
        #[unroll]
        for i in 0..width {
            let sum = &sums[i];
            sum.store(fma(Four::new(share), value[from + i], sum.read() * Four::new(kept)));
        }
    }
    #[unroll]
    for i in 0..width {
        output[at + i] = sums[i].read() / Four::new(total);
    }
}

/// `query`, `key` and `value` `[batch, tokens, hidden]`, `bias` as `[batch, heads, tokens, tokens]` with 1 where
/// it is broadcast, all f32.
pub(super) fn attend(
    query: CubeTensor,
    key: CubeTensor,
    value: CubeTensor,
    bias: Option<CubeTensor>,
    heads: usize,
) -> CubeTensor {
    let (query, key, value) = (into_contiguous(query), into_contiguous(key), into_contiguous(value));
    let shape = query.meta.shape().clone();
    let (batch, tokens, hidden) = (shape[0], shape[1], shape[2]);
    let width = hidden / heads;
    let output =
        empty_device_contiguous_dtype(query.client.clone(), query.device.clone(), shape, query.dtype);
    let biased = bias.is_some();
    let bias = into_contiguous(bias.unwrap_or_else(|| query.clone()));
    let stride = |dim: usize| {
        let broadcast = !biased || bias.meta.shape()[dim] == 1;
        if broadcast { 0 } else { bias.meta.strides()[dim] }
    };
    let (bias_batch, bias_head, bias_row) = (stride(0), stride(1), stride(2));
    let client = query.client.clone();
    // SAFETY: an invocation past the last row stops, and every row index is below the number of rows.
    unsafe {
        attend_kernel::launch_unchecked(
            &client,
            workgroups(batch * tokens * heads),
            CubeDim::new_1d(UNITS),
            query.into_buffer_arg(),
            key.into_buffer_arg(),
            value.into_buffer_arg(),
            bias.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            batch * tokens,
            tokens,
            heads,
            bias_batch,
            bias_head,
            bias_row,
            1.0 / (width as f32).sqrt(),
            width / LANES,
            biased,
        );
    }
    output
}

/// LayerNorm of one row an invocation; `width` is in vectors, `share` is one over the numbers of a row.
#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments)]
fn norm_kernel(
    input: &[Four],
    residual: &[Four],
    weight: &[Four],
    bias: &[Four],
    output: &mut [Four],
    rows: usize,
    width: usize,
    share: f32,
    eps: f32,
    #[comptime] summed: bool,
    #[comptime] biased: bool,
) {
    let row = ABSOLUTE_POS;
    if row >= rows {
        terminate!();
    }
    let from = row * width;
    let mut total = Four::new(0.0f32);
    for at in from..from + width {
        let mut value = input[at];
        if comptime![summed] {
            value += residual[at];
        }
        output[at] = value;
        total += value;
    }
    let mean = Four::new(sum_of_lanes(total) * share);
    let mut squares = Four::new(0.0f32);
    for at in from..from + width {
        let centred = output[at] - mean;
        squares = fma(centred, centred, squares);
    }
    let scale = Four::new(f32::new(1.0) / (sum_of_lanes(squares) * share + eps).sqrt());
    for at in 0..width {
        let normal = (output[from + at] - mean) * scale;
        if comptime![biased] {
            output[from + at] = fma(normal, weight[at], bias[at]);
        } else {
            output[from + at] = normal * weight[at];
        }
    }
}

/// Sums of embeddings, one vector an invocation; `width` is in vectors.
#[cube(launch_unchecked)]
#[allow(clippy::too_many_arguments)]
fn embed_kernel(
    ids: &[i32],
    types: &[i32],
    words: &[Four],
    positions: &[Four],
    kinds: &[Four],
    output: &mut [Four],
    rows: usize,
    tokens: usize,
    width: usize,
    offset: usize,
    #[comptime] positioned: bool,
    #[comptime] kinded: bool,
    #[comptime] typed: bool,
) {
    let row = ABSOLUTE_POS / width;
    let at = ABSOLUTE_POS % width;
    if row >= rows {
        terminate!();
    }
    let mut sum = words[usize::cast_from(ids[row]) * width + at];
    if comptime![positioned] {
        sum += positions[(offset + row % tokens) * width + at];
    }
    if comptime![kinded] {
        let mut kind = at;
        if comptime![typed] {
            kind += usize::cast_from(types[row]) * width;
        }
        sum += kinds[kind];
    }
    output[row * width + at] = sum;
}

/// `ids` and `types` `[batch, tokens]`, below the rows of their tables; `tables` of words, positions and kinds
/// `[rows, hidden]`, all f32, `hidden` a multiple of [`LANES`].
pub(super) fn embed(
    ids: CubeTensor,
    types: Option<CubeTensor>,
    tables: [Option<CubeTensor>; 3],
    offset: usize,
) -> CubeTensor {
    let [words, positions, kinds] = tables.map(|table| table.map(into_contiguous));
    let (positioned, kinded, typed) = (positions.is_some(), kinds.is_some(), types.is_some());
    // There always are words.
    let words = words.unwrap_or_else(|| ids.clone());
    let ids = into_contiguous(ids);
    let types = types.map_or_else(|| ids.clone(), into_contiguous);
    let (positions, kinds) =
        (positions.unwrap_or_else(|| words.clone()), kinds.unwrap_or_else(|| words.clone()));
    let (mut shape, hidden) = (ids.meta.shape().clone(), words.meta.shape()[1]);
    let (rows, tokens) = (shape.num_elements(), shape[1]);
    shape.push(hidden);
    let output =
        empty_device_contiguous_dtype(words.client.clone(), words.device.clone(), shape, words.dtype);
    let client = words.client.clone();
    // SAFETY: an invocation past the last row stops; ids are below the vocabulary, which is checked before, and WebGPU
    // checks every access once more.
    unsafe {
        embed_kernel::launch_unchecked(
            &client,
            workgroups(rows * (hidden / LANES)),
            CubeDim::new_1d(UNITS),
            ids.into_buffer_arg(),
            types.into_buffer_arg(),
            words.into_buffer_arg(),
            positions.into_buffer_arg(),
            kinds.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            rows,
            tokens,
            hidden / LANES,
            offset,
            positioned,
            kinded,
            typed,
        );
    }
    output
}

/// Rows scaled to length 1, one an invocation; `width` is in vectors.
#[cube(launch_unchecked)]
fn unit_length_kernel(input: &[Four], output: &mut [Four], rows: usize, width: usize) {
    let row = ABSOLUTE_POS;
    if row >= rows {
        terminate!();
    }
    let from = row * width;
    let mut squares = Four::new(0.0f32);
    for at in from..from + width {
        squares = fma(input[at], input[at], squares);
    }
    let length = sum_of_lanes(squares).sqrt();
    let scale = Four::new(f32::new(1.0) / select(length > 1.0e-12, length, f32::new(1.0e-12)));
    for at in from..from + width {
        output[at] = input[at] * scale;
    }
}

/// `input` `[batch, dim]` in f32, `dim` a multiple of [`LANES`].
pub(super) fn unit_length(input: CubeTensor) -> CubeTensor {
    let input = into_contiguous(input);
    let shape = input.meta.shape().clone();
    let (rows, width) = (shape[0], shape[1] / LANES);
    let output =
        empty_device_contiguous_dtype(input.client.clone(), input.device.clone(), shape, input.dtype);
    let client = input.client.clone();
    // SAFETY: an invocation past the last row stops, and the others stay in their row.
    unsafe {
        unit_length_kernel::launch_unchecked(
            &client,
            workgroups(rows),
            CubeDim::new_1d(UNITS),
            input.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            rows,
            width,
        );
    }
    output
}

/// Returns the sum of a vector's numbers.
#[cube]
fn sum_of_lanes(vector: Four) -> f32 {
    vector.extract(0usize) + vector.extract(1usize) + vector.extract(2usize) + vector.extract(3usize)
}

/// `input` and `residual` `[.., hidden]`, `weight` and `bias` `[hidden]`, all f32, `hidden` a multiple of [`LANES`].
pub(super) fn norm(
    input: CubeTensor,
    residual: Option<CubeTensor>,
    weight: CubeTensor,
    bias: Option<CubeTensor>,
    eps: f64,
) -> CubeTensor {
    let (input, weight) = (into_contiguous(input), into_contiguous(weight));
    let (summed, biased) = (residual.is_some(), bias.is_some());
    let residual = residual.map_or_else(|| input.clone(), into_contiguous);
    let bias = bias.map_or_else(|| weight.clone(), into_contiguous);
    let shape = input.meta.shape().clone();
    let hidden = weight.meta.shape()[0];
    let rows = shape.num_elements() / hidden;
    let output =
        empty_device_contiguous_dtype(input.client.clone(), input.device.clone(), shape, input.dtype);
    let client = input.client.clone();
    // SAFETY: an invocation past the last row stops, and the others stay in their row.
    unsafe {
        norm_kernel::launch_unchecked(
            &client,
            workgroups(rows),
            CubeDim::new_1d(UNITS),
            input.into_buffer_arg(),
            residual.into_buffer_arg(),
            weight.into_buffer_arg(),
            bias.into_buffer_arg(),
            output.clone().into_buffer_arg(),
            rows,
            hidden / LANES,
            1.0 / hidden as f32,
            eps as f32,
            summed,
            biased,
        );
    }
    output
}

/// Returns the numbers of workgroups for so many invocations or more. What is more, in the last group or in the last
/// groups of two dimensions, stops at the start of every kernel: `ABSOLUTE_POS` counts through both dimensions.
fn workgroups(invocations: usize) -> CubeCount {
    let [first, second] = spread((invocations as u32).div_ceil(UNITS));
    CubeCount::Static(first, second, 1)
}
