//! Products of bytes with numbers of 32 bits by `vpdpbusd` (AVX-512 VNNI).
//!
//! A number is taken apart into four bytes without a sign. Each byte plane is multiplied by the table's bytes, and the
//! four sums are put together, each in its place: modulo 2^32 that is the sum of the products.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_dpbusd_epi32, _mm512_loadu_si512, _mm512_reduce_add_epi32,
    _mm512_setzero_si512, _mm512_slli_epi32,
};

use super::super::isa::Isa;

/// Bytes of a vector.
const LANES: usize = 64;

/// Columns that are multiplied at once: the planes of five queries have 160 KiB then, which a cache of the second level
/// holds.
const TILE: usize = 8192;

/// Rows that are multiplied at once: four sums of each stay in registers.
const ROWS: usize = 4;

/// The four bytes of 64 numbers, the lowest bytes first.
type Planes = [[u8; LANES]; 4];

/// Multiplies as [`multiply_bytes`](super::multiply_bytes) does, whose assertions hold, where `isa` has VNNI; returns
/// whether it has.
pub(super) fn multiply_bytes(isa: Isa, table: &[i8], queries: &[&[u32]], sums: &mut [u32]) -> bool {
    if isa.has_vnni() {
        // SAFETY: `Isa` says so only after it found these features on this machine.
        unsafe { multiply(table, queries, sums) };
    }
    isa.has_vnni()
}

#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma")]
fn multiply(table: &[i8], queries: &[&[u32]], sums: &mut [u32]) {
    let columns = queries[0].len();
    let rows = table.len() / columns;
    let mut planes = vec![[[0; LANES]; 4]; queries.len() * TILE.min(columns) / LANES];
    for begin in (0..columns).step_by(TILE) {
        let width = TILE.min(columns - begin);
        let planes = &mut planes[..queries.len() * width / LANES];
        for (query, planes) in queries.iter().zip(planes.chunks_exact_mut(width / LANES)) {
            split(&query[begin..begin + width], planes);
        }
        let part = |row: usize| table[row * columns + begin..][..width].as_chunks().0;
        let queries = || planes.chunks_exact(width / LANES).enumerate();
        let whole = rows - rows % ROWS;
        for first in (0..whole).step_by(ROWS) {
            let parts: [_; ROWS] = std::array::from_fn(|row| part(first + row));
            for (query, planes) in queries() {
                add(&mut sums[query * rows + first..], products(parts, planes));
            }
        }
        for row in whole..rows {
            for (query, planes) in queries() {
                add(&mut sums[query * rows + row..], products([part(row)], planes));
            }
        }
    }
}

fn add<const N: usize>(sums: &mut [u32], products: [u32; N]) {
    for (sum, product) in sums.iter_mut().zip(products) {
        *sum = sum.wrapping_add(product);
    }
}

/// Takes numbers apart into bytes.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma")]
fn split(query: &[u32], planes: &mut [Planes]) {
    for (numbers, planes) in query.as_chunks::<LANES>().0.iter().zip(planes) {
        for (at, plane) in planes.iter_mut().enumerate() {
            for (byte, number) in plane.iter_mut().zip(numbers) {
                *byte = (number >> (8 * at)) as u8;
            }
        }
    }
}

/// Returns the inner products of rows with a query, whose planes they are, all of one length.
#[target_feature(enable = "avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma")]
fn products<const N: usize>(rows: [&[[i8; LANES]]; N], query: &[Planes]) -> [u32; N] {
    let mut sums = [[_mm512_setzero_si512(); 4]; N];
    for (at, planes) in query.iter().enumerate() {
        let planes: [__m512i; 4] = std::array::from_fn(|plane| load_unsigned(&planes[plane]));
        for (row, sums) in rows.iter().zip(&mut sums) {
            let row = load_signed(&row[at]);
            for (sum, plane) in sums.iter_mut().zip(planes) {
                *sum = _mm512_dpbusd_epi32(*sum, plane, row);
            }
        }
    }
    sums.map(|[a, b, c, d]| {
        let low = _mm512_add_epi32(a, _mm512_slli_epi32::<8>(b));
        let high = _mm512_add_epi32(_mm512_slli_epi32::<16>(c), _mm512_slli_epi32::<24>(d));
        _mm512_reduce_add_epi32(_mm512_add_epi32(low, high)).cast_unsigned()
    })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_unsigned(bytes: &[u8; LANES]) -> __m512i {
    // SAFETY: the array has the 64 bytes that are read; they need not be aligned.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load_signed(bytes: &[i8; LANES]) -> __m512i {
    // SAFETY: as for bytes without a sign.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}
