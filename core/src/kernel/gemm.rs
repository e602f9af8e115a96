//! Matrix products: weights packed once into panels, and a tile of sums held in registers. The numbers are single
//! precision, or the words of narrower numbers that [`super::dot`] multiplies.
#![allow(
    clippy::needless_range_loop,
    reason = "loops over fixed arrays by index are what stays in registers"
)]

use super::dot::{Dot, Single};
use super::isa::MAX_MR;
use super::vector::{Simd, prefetch_beyond};

/// A matrix `[n, k]` (outputs by inputs) in panels of `width` outputs: panel `p` holds, for each input in
/// order, the weights of outputs `p * width ..`, so that a tile reads it from front to end.
///
/// Where numbers are narrow, `T` is a word of several and `k` counts words.
#[derive(Debug)]
pub(super) struct Panels<T = f32> {
    /// `[panels, k, width]`, of no meaning beyond `n`, after `start` numbers that bring it to a cache line's start.
    data: Vec<T>,
    start: usize,
    n: usize,
    k: usize,
    width: usize,
}

/// Bytes of a cache line, and of the widest vector.
const LINE: usize = 64;

impl<T: Copy + Default> Panels<T> {
    /// Returns a matrix `[n, k]` of zeros, for [`Panels::set_rows`].
    pub(super) fn new(n: usize, k: usize, width: usize) -> Self {
        Self::reusing(Vec::new(), n, k, width)
    }

    /// Returns a matrix `[n, k]` in a buffer of another, for [`Panels::set_rows`] or [`Panels::input_mut`]. Old numbers
    /// remain beyond `n`; they reach no output.
    pub(super) fn reusing(mut data: Vec<T>, n: usize, k: usize, width: usize) -> Self {
        let length = n.div_ceil(width) * width * k + LINE / size_of::<T>();
        if data.len() < length {
            data.resize(length, T::default());
        }
        let start = data.as_ptr().align_offset(LINE).min(LINE / size_of::<T>());
        Self { data, start, n, k, width }
    }

    /// Returns the buffer, for [`Panels::reusing`].
    #[cfg(all(feature = "autodiff", feature = "flex"))]
    pub(super) fn into_buffer(self) -> Vec<T> {
        self.data
    }

    /// Returns the number of outputs of the matrix.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// Sets the rows from `first` on to `rows`, row-major with `k` columns.
    pub(super) fn set_rows(&mut self, first: usize, rows: &[T]) {
        let (width, k) = (self.width, self.k);
        for (row, values) in (first..).zip(rows.chunks_exact(k)) {
            let start = self.start + row / width * width * k + row % width;
            for (value, to) in values.iter().zip(self.data[start..].iter_mut().step_by(width)) {
                *to = *value;
            }
        }
    }

    /// Sets row `row` to `values`; further columns remain.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn set_row(&mut self, row: usize, values: impl Iterator<Item = T>) {
        let start = self.start + row / self.width * self.width * self.k + row % self.width;
        let column = self.data[start..].iter_mut().step_by(self.width).take(self.k);
        column.zip(values).for_each(|(to, value)| *to = value);
    }

    /// Returns the numbers of each input, panel by panel, a slice of the panel's width each.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn lines_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        self.data[self.start..].chunks_exact_mut(self.width).take(self.n.div_ceil(self.width) * self.k)
    }

    /// Returns the weights of one input, a slice for each panel, with the output that each begins at.
    #[cfg(all(feature = "autodiff", feature = "flex"))]
    #[inline(always)]
    pub(super) fn input_mut(&mut self, input: usize) -> impl Iterator<Item = (usize, &mut [T])> {
        let (width, k) = (self.width, self.k);
        let panels = self.data[self.start..].chunks_exact_mut(width * k).take(self.n.div_ceil(width));
        panels.enumerate().map(move |(index, panel)| (index * width, &mut panel[input * width..][..width]))
    }

    /// Returns the panels in order, each `[k][NR]`.
    ///
    /// `NR` is the width the panels were made with.
    #[inline(always)]
    pub(super) fn iter<const NR: usize>(&self) -> impl Iterator<Item = &[[T; NR]]> {
        debug_assert_eq!(NR, self.width, "panels of another instruction set");
        // What `start` leaves of the padding may be a panel's length: it is none of the matrix.
        let length = self.n.div_ceil(NR) * NR * self.k;
        self.data[self.start..][..length].as_chunks::<NR>().0.chunks_exact(self.k)
    }
}

/// Copies the transpose of a matrix `[n, k]`, whose rows are `stride` apart, into panels of `NR` of its rows,
/// `[ceil(n / NR)][k][NR]`, zero beyond the last row.
#[inline(always)]
pub(super) fn pack_transposed<T: Copy + Default, const NR: usize>(
    from: &[T],
    stride: usize,
    n: usize,
    k: usize,
    to: &mut [T],
) {
    for (panel, to) in to.as_chunks_mut::<NR>().0.chunks_exact_mut(k).enumerate() {
        let first = panel * NR;
        let rows = NR.min(n - first);
        if rows < NR {
            to.as_flattened_mut().fill(T::default());
        }
        let row = |j: usize| &from[(first + j) * stride..][..k];
        let fours = rows / 4 * 4;
        for j in (0..fours).step_by(4) {
            let (lines, rest) = to.as_chunks_mut::<4>();
            let [(a, a_rest), (b, b_rest), (c, c_rest), (d, d_rest)] =
                [row(j), row(j + 1), row(j + 2), row(j + 3)].map(|row| row.as_chunks::<4>());
            for ((((to, a), b), c), d) in lines.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                for i in 0..4 {
                    to[i][j..j + 4].copy_from_slice(&[a[i], b[i], c[i], d[i]]);
                }
            }
            for ((((to, a), b), c), d) in rest.iter_mut().zip(a_rest).zip(b_rest).zip(c_rest).zip(d_rest) {
                to[j..j + 4].copy_from_slice(&[*a, *b, *c, *d]);
            }
        }
        for j in fours..rows {
            for (to, value) in to.iter_mut().zip(row(j)) {
                to[j] = *value;
            }
        }
    }
}

/// Copies numbers to `to`, which has at most `NR`. Where it has as many they go by vectors, since a copy of an array is a
/// call in a browser, and one of a length that the compiler does not know is a call everywhere.
#[inline(always)]
pub(super) fn copy<S: Simd, const NR: usize>(from: &[f32; NR], to: &mut [f32]) {
    match to.first_chunk_mut::<NR>() {
        Some(to) if NR.is_multiple_of(S::LANES) => {
            for v in 0..NR / S::LANES {
                S::store(S::load(from, v), to, v);
            }
        }
        Some(to) => *to = *from,
        None => to.copy_from_slice(&from[..to.len()]),
    }
}

/// Sets `to`, which has at most `NR` numbers, to numbers times `factor`.
#[inline(always)]
pub(super) fn copy_scaled<const NR: usize>(from: &[f32; NR], factor: f32, to: &mut [f32]) {
    let scale = |(to, from): (&mut f32, &f32)| *to = from * factor;
    // The loops are alike, but the compiler knows the length of the first one.
    match to.first_chunk_mut::<NR>() {
        Some(to) => to.iter_mut().zip(from).for_each(scale),
        None => to.iter_mut().zip(from).for_each(scale),
    }
}

/// Copies a matrix `[k, n]`, whose rows are `stride` apart, into panels of `NR` of its columns,
/// `[ceil(n / NR)][k][NR]`, zero beyond the last column.
#[inline(always)]
pub(super) fn pack<S: Simd, const NR: usize>(
    from: &[f32],
    stride: usize,
    k: usize,
    n: usize,
    to: &mut [f32],
) {
    for (panel, to) in to.as_chunks_mut::<NR>().0.chunks_exact_mut(k).enumerate() {
        let used = NR.min(n - panel * NR);
        for (row, to) in to.iter_mut().enumerate() {
            let from = &from[row * stride + panel * NR..][..used];
            match from.first_chunk::<NR>() {
                Some(from) => copy::<S, NR>(from, to),
                None => {
                    to[..used].copy_from_slice(from);
                    to[used..].fill(0.0);
                }
            }
        }
    }
}

/// Cuts `m` rows into blocks of at most `MR` and returns `(first row, rows)` of each. The blocks are as even as
/// possible, since one of a row or two would leave the multipliers waiting for the sums.
#[inline(always)]
pub(super) fn blocks<const MR: usize>(m: usize) -> impl Iterator<Item = (usize, usize)> {
    blocks_of(m, MR)
}

/// Cuts `m` rows into blocks of at most `most`, as [`blocks`] does.
#[inline(always)]
pub(super) fn blocks_of(m: usize, most: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = m.div_ceil(most).max(1);
    let (rows, extra) = (m / count, m % count);
    (0..count).map(move |i| (i * rows + i.min(extra), rows + usize::from(i < extra)))
}

/// Computes the products of `rows` rows of `a` (row-major, `stride` apart) with a panel, `[rows][NR]`, into `sums`.
///
/// Each sum runs over the inputs in order, whatever `rows` is: a row's result does not depend on its block.
#[inline(always)]
pub(super) fn product<S: Simd, const NR: usize, const MR: usize>(
    a: &[f32],
    stride: usize,
    rows: usize,
    panel: &[[f32; NR]],
    sums: &mut [[f32; NR]; MAX_MR],
) {
    product_by::<Single<S>, NR, MR>(a, stride, rows, panel, None, sums);
}

/// Returns the distance in bytes from the numbers of a panel's input to the line of the cache that is prefetched with
/// them in block `block` of the rows. The first blocks, as many as an input has lines, prefetch the next panel, whose
/// own first block would wait for each line; later ones get 0, and prefetch what they are about to load.
#[inline(always)]
pub(super) fn ahead<T, const NR: usize>(panel: &[[T; NR]], block: usize) -> usize {
    let line = block * LINE;
    if line < size_of::<[T; NR]>() { size_of_val(panel) + line } else { 0 }
}

/// Computes products as [`product`] does, of numbers that `D` multiplies. Prefetches what lies `ahead` of the panel.
#[inline(always)]
pub(super) fn product_by<D: Dot, const NR: usize, const MR: usize>(
    a: &[D::Number],
    stride: usize,
    rows: usize,
    panel: &[[D::Number; NR]],
    ahead: Option<usize>,
    sums: &mut [[f32; NR]; MAX_MR],
) {
    // The guards are constants: only the sizes that the instruction set uses are compiled.
    match rows {
        1 => tile::<D, NR, 1>(a, stride, panel, ahead, sums),
        2 if MR >= 2 => tile::<D, NR, 2>(a, stride, panel, ahead, sums),
        3 if MR >= 3 => tile::<D, NR, 3>(a, stride, panel, ahead, sums),
        4 if MR >= 4 => tile::<D, NR, 4>(a, stride, panel, ahead, sums),
        5 if MR >= 5 => tile::<D, NR, 5>(a, stride, panel, ahead, sums),
        6 if MR >= 6 => tile::<D, NR, 6>(a, stride, panel, ahead, sums),
        7 if MR >= 7 => tile::<D, NR, 7>(a, stride, panel, ahead, sums),
        _ => debug_assert_eq!(rows, 0, "blocks are at most MR rows"),
    }
}

/// Computes products as [`product_by`] does, of rows that are columns of `a`: its number for an input and a row
/// is `a[input * stride + row]`.
///
/// A function of its own: with one that is generic over the layout, the compiler keeps a vector of sums on the stack,
/// and a step of training in bf16 takes a sixth more time.
#[cfg(all(feature = "autodiff", feature = "flex"))]
#[inline(always)]
pub(super) fn product_transposed<D: Dot, const NR: usize, const MR: usize>(
    a: &[D::Number],
    stride: usize,
    rows: usize,
    panel: &[[D::Number; NR]],
    sums: &mut [[f32; NR]; MAX_MR],
) {
    match rows {
        1 => tile_transposed::<D, NR, 1>(a, stride, panel, sums),
        2 if MR >= 2 => tile_transposed::<D, NR, 2>(a, stride, panel, sums),
        3 if MR >= 3 => tile_transposed::<D, NR, 3>(a, stride, panel, sums),
        4 if MR >= 4 => tile_transposed::<D, NR, 4>(a, stride, panel, sums),
        5 if MR >= 5 => tile_transposed::<D, NR, 5>(a, stride, panel, sums),
        6 if MR >= 6 => tile_transposed::<D, NR, 6>(a, stride, panel, sums),
        7 if MR >= 7 => tile_transposed::<D, NR, 7>(a, stride, panel, sums),
        _ => debug_assert_eq!(rows, 0, "blocks are at most MR rows"),
    }
}

#[cfg(all(feature = "autodiff", feature = "flex"))]
#[inline(always)]
fn tile_transposed<D: Dot, const NR: usize, const ROWS: usize>(
    a: &[D::Number],
    stride: usize,
    panel: &[[D::Number; NR]],
    sums: &mut [[f32; NR]; MAX_MR],
) {
    let mut acc = [[D::zero(); MAX_VECTORS]; ROWS];
    let mut inputs = [D::Number::default(); ROWS];
    for (weights, from) in panel.iter().zip(a.chunks(stride)) {
        inputs.copy_from_slice(&from[..ROWS]);
        step::<D, NR, ROWS>(&mut acc, inputs, weights);
    }
    for i in 0..ROWS {
        for v in 0..NR / D::LANES {
            D::store(acc[i][v], &mut sums[i], v);
        }
    }
}

/// The most vectors across a panel.
pub(super) const MAX_VECTORS: usize = 3;

/// Inputs taken in one turn of the innermost loop. Browsers keep the order of the instructions: where a turn has several
/// inputs, the compiler loads all of them first, and most then wait in memory for want of registers.
const UNROLL: usize = if cfg!(target_arch = "wasm32") { 1 } else { 4 };

#[inline(always)]
fn tile<D: Dot, const NR: usize, const ROWS: usize>(
    a: &[D::Number],
    stride: usize,
    panel: &[[D::Number; NR]],
    ahead: Option<usize>,
    sums: &mut [[f32; NR]; MAX_MR],
) {
    let (fours, rest) = panel.as_chunks::<UNROLL>();
    // Filled by loops: in a task of many products the compiler calls `std::array::from_fn` rather than inline it.
    let mut row_fours: [&[[D::Number; UNROLL]]; ROWS] = [&[]; ROWS];
    let mut row_rest: [&[D::Number]; ROWS] = [&[]; ROWS];
    for i in 0..ROWS {
        row_fours[i] = &a[i * stride..].as_chunks().0[..fours.len()];
        row_rest[i] = &a[i * stride + UNROLL * fours.len()..][..rest.len()];
    }
    let mut acc = [[D::zero(); MAX_VECTORS]; ROWS];
    let mut inputs = [D::Number::default(); ROWS];
    for k in 0..fours.len() {
        for u in 0..UNROLL {
            if let Some(bytes) = ahead {
                prefetch_beyond(&fours[k][u], bytes);
            }
            for i in 0..ROWS {
                inputs[i] = row_fours[i][k][u];
            }
            step::<D, NR, ROWS>(&mut acc, inputs, &fours[k][u]);
        }
    }
    for k in 0..rest.len() {
        for i in 0..ROWS {
            inputs[i] = row_rest[i][k];
        }
        step::<D, NR, ROWS>(&mut acc, inputs, &rest[k]);
    }
    for i in 0..ROWS {
        for v in 0..NR / D::LANES {
            D::store(acc[i][v], &mut sums[i], v);
        }
    }
}

/// Adds the products of one input of each row with its weights.
#[inline(always)]
pub(super) fn step<D: Dot, const NR: usize, const ROWS: usize>(
    acc: &mut [[D::V; MAX_VECTORS]; ROWS],
    inputs: [D::Number; ROWS],
    weights: &[D::Number; NR],
) {
    for i in 0..ROWS {
        let input = D::input(inputs[i]);
        for v in 0..NR / D::LANES {
            acc[i][v] = D::add(acc[i][v], input, weights, v);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_of_a_transpose_hold_every_number_and_zeros_beyond_the_last_row() {
        check_transpose::<8>();
        check_transpose::<16>();
        check_transpose::<32>();
    }

    fn check_transpose<const NR: usize>() {
        let sizes: [(usize, usize, usize); 7] =
            [(1, 1, 1), (3, 5, 7), (4, 4, 4), (8, 3, 3), (9, 6, 11), (16, 13, 13), (71, 8, 8)];
        for (n, k, stride) in sizes {
            let from: Vec<f32> = (1..=n * stride).map(|i| i as f32).collect();
            let mut to = vec![f32::NAN; n.next_multiple_of(NR) * k];
            pack_transposed::<f32, NR>(&from, stride, n, k, &mut to);
            for (at, value) in to.iter().enumerate() {
                let (row, column) = (at / (NR * k) * NR + at % NR, at % (NR * k) / NR);
                let expected = if row < n { from[row * stride + column] } else { 0.0 };
                assert_eq!(*value, expected, "{n}x{k} by {NR}: row {row}, column {column}");
            }
        }
    }

    #[test]
    fn the_first_blocks_prefetch_each_line_of_the_next_panel_once() {
        let [wide, two, half] =
            [ahead(&[[0f32; 48]; 10], 0), ahead(&[[0f32; 32]; 10], 1), ahead(&[[0f32; 8]; 10], 0)];
        assert_eq!([wide, two, half], [1920, 1280 + 64, 320]);
        let of = |block| ahead(&[[0f32; 48]; 10], block);
        assert_eq!([1, 2, 3, 4].map(of), [1920 + 64, 1920 + 128, 0, 0]);
    }
}
