//! Products of words, and inner products with rows of 8-bit numbers and of signs, on x86-64.
//!
//! As in [`super::super::vector`], the intrinsics are unsafe to call because the machine might lack the instructions; a
//! type of such instructions is only ever passed to a task by `Isa`, after it found them.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::transmute;

use super::super::vector::{Avx2, Avx512, Simd};
use super::rows::{BLOCK, QueryBytes, RowDots, SignBlock};
use super::words::Words;
use super::{Dot, WholeDot};

macro_rules! words {
    (
        $name:ident, $words:ty, $vector:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $and:ident, $left:ident, $cast:ident,
        $half:ident, $widen:ident, $madd:ident, $add:ident, $single:ident
    ) => {
        // SAFETY of each call: this type reaches a task only where `Isa` enabled its instructions; a load or a store has
        // the address of an array of the vector's size.
        impl Words for $name {
            type W = $words;
            #[inline(always)]
            fn splat_word(x: u32) -> $words {
                unsafe { $splat(x as i32) }
            }
            #[inline(always)]
            fn load_words(from: &[u32], at: usize) -> $words {
                let from: &[u32; $lanes] = &from.as_chunks().0[at];
                unsafe { $load(from.as_ptr().cast()) }
            }
            #[inline(always)]
            fn store_words(words: $words, to: &mut [u32], at: usize) {
                let to: &mut [u32; $lanes] = &mut to.as_chunks_mut().0[at];
                unsafe { $store(to.as_mut_ptr().cast(), words) }
            }
            #[inline(always)]
            fn widen_halves(words: $words) -> [$vector; 2] {
                unsafe {
                    let high = $and(words, $splat(0xffff_0000_u32 as i32));
                    [$cast($left::<16>(words)), $cast(high)]
                }
            }
            #[inline(always)]
            fn widen_pairs(from: &[u32], at: usize) -> $words {
                let from: &[u32; $lanes / 2] = &from.as_chunks().0[at];
                unsafe { $widen($half(from.as_ptr().cast())) }
            }
            #[inline(always)]
            fn add_pairs(sums: $words, a: $words, b: $words) -> $words {
                unsafe { $add(sums, $madd(a, b)) }
            }
            #[inline(always)]
            fn to_single(sums: $words) -> $vector {
                unsafe { $single(sums) }
            }
        }
    };
}

words!(
    Avx2,
    __m256i,
    __m256,
    8,
    _mm256_set1_epi32,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    _mm256_and_si256,
    _mm256_slli_epi32,
    _mm256_castsi256_ps,
    _mm_loadu_si128,
    _mm256_cvtepi8_epi16,
    _mm256_madd_epi16,
    _mm256_add_epi32,
    _mm256_cvtepi32_ps
);
words!(
    Avx512,
    __m512i,
    __m512,
    16,
    _mm512_set1_epi32,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    _mm512_and_si512,
    _mm512_slli_epi32,
    _mm512_castsi512_ps,
    _mm256_loadu_si256,
    _mm512_cvtepi8_epi16,
    _mm512_madd_epi16,
    _mm512_add_epi32,
    _mm512_cvtepi32_ps
);

/// Products in bf16 by `vdpbf16ps` (AVX-512 BF16). It takes numbers below the smallest normal one as 0.
pub(in super::super) struct NativeBf16;

// SAFETY of each call: this type reaches a task only where `Isa` enabled its instructions. The two types of
// `transmute` are vectors of 512 bits, of which every pattern is a value.
impl Dot for NativeBf16 {
    type Number = u32;
    type V = __m512;
    type Input = __m512bh;
    const LANES: usize = 16;
    #[inline(always)]
    fn zero() -> __m512 {
        Avx512::splat(0.0)
    }
    #[inline(always)]
    fn input(x: u32) -> __m512bh {
        unsafe { transmute::<__m512i, __m512bh>(Avx512::splat_word(x)) }
    }
    #[inline(always)]
    fn add(sums: __m512, input: __m512bh, weights: &[u32], at: usize) -> __m512 {
        let weights = Avx512::load_words(weights, at);
        unsafe { _mm512_dpbf16_ps(sums, input, transmute::<__m512i, __m512bh>(weights)) }
    }
    #[inline(always)]
    fn store(sums: __m512, to: &mut [f32], at: usize) {
        Avx512::store(sums, to, at);
    }
}

/// Products in 8 bits by `vpdpbusd` (AVX-512 VNNI).
pub(in super::super) struct NativeBytes;

// SAFETY of each call: this type reaches a task only where `Isa` enabled its instructions.
impl WholeDot for NativeBytes {
    type Single = Avx512;
    type V = __m512i;
    type Input = __m512i;
    const LANES: usize = 16;
    const PARTS: usize = 1;
    #[inline(always)]
    fn zero() -> __m512i {
        Avx512::splat_word(0)
    }
    #[inline(always)]
    fn input(word: u32) -> __m512i {
        Avx512::splat_word(word)
    }
    #[inline(always)]
    fn add(sums: __m512i, input: __m512i, line: &[u32], _part: usize, at: usize) -> __m512i {
        unsafe { _mm512_dpbusd_epi32(sums, input, Avx512::load_words(line, at)) }
    }
    #[inline(always)]
    fn to_single(sums: __m512i) -> __m512 {
        Avx512::to_single(sums)
    }
    #[inline(always)]
    fn load_sums(from: &[u32], at: usize) -> __m512i {
        Avx512::load_words(from, at)
    }
    #[inline(always)]
    fn store_sums(sums: __m512i, to: &mut [u32], at: usize) {
        Avx512::store_words(sums, to, at);
    }
}

/// Returns the sum of the lanes of each of four vectors.
#[inline(always)]
fn four_sums(vectors: [__m512i; 4]) -> [i32; 4] {
    // SAFETY: this is only called where `Isa` enabled AVX-512; `sums` is as long as the vector that is stored.
    unsafe {
        let [a, b, c, d] = vectors.map(|vector| {
            _mm256_add_epi32(_mm512_castsi512_si256(vector), _mm512_extracti64x4_epi64::<1>(vector))
        });
        // Horizontal additions stay within 128 bits: each has a partial sum of a, b, c and d.
        let partial = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
        let total = _mm_add_epi32(_mm256_castsi256_si128(partial), _mm256_extracti128_si256::<1>(partial));
        let mut sums = [0; 4];
        _mm_storeu_si128(sums.as_mut_ptr().cast(), total);
        sums
    }
}

/// Returns the bytes of a row's block `at`, zero beyond its end.
#[inline(always)]
fn block(row: &[i8], at: usize) -> __m512i {
    let rest = &row[at * BLOCK..];
    // SAFETY: this is only called where `Isa` enabled AVX-512 BW; a whole block is loaded from an array of its size, of
    // another one only the bytes that the row has.
    unsafe {
        match rest.first_chunk::<BLOCK>() {
            Some(block) => _mm512_loadu_si512(block.as_ptr().cast()),
            None => _mm512_maskz_loadu_epi8((1 << rest.len()) - 1, rest.as_ptr()),
        }
    }
}

impl NativeBytes {
    /// Returns the inner products with `N` rows, a vector of sums each, without what the rows' 128 add. The query's high
    /// bytes are left out unless `WIDE`.
    #[inline(always)]
    fn row_sums<const N: usize, const WIDE: bool>(query: &QueryBytes, rows: [&[i8]; N]) -> [__m512i; N] {
        // SAFETY: this type is only used where `Isa` enabled its instructions.
        unsafe {
            let sign = _mm512_set1_epi8(-128);
            let (mut low, mut high) = ([_mm512_setzero_si512(); N], [_mm512_setzero_si512(); N]);
            for (at, bytes) in query.low.iter().enumerate() {
                let low_bytes = _mm512_loadu_si512(bytes.as_ptr().cast());
                let high_bytes = match WIDE {
                    true => _mm512_loadu_si512(query.high[at].as_ptr().cast()),
                    false => _mm512_setzero_si512(),
                };
                for i in 0..N {
                    // Plus 128: the other sign bit.
                    let row = _mm512_xor_si512(block(rows[i], at), sign);
                    low[i] = _mm512_dpbusd_epi32(low[i], row, low_bytes);
                    if WIDE {
                        high[i] = _mm512_dpbusd_epi32(high[i], row, high_bytes);
                    }
                }
            }
            // What wraps around 32 bits comes back: the whole sum fits.
            std::array::from_fn(|i| match WIDE {
                true => _mm512_add_epi32(low[i], _mm512_slli_epi32::<8>(high[i])),
                false => low[i],
            })
        }
    }

    /// Returns the sums of the numbers whose bits are set in `N` rows, a vector of sums each.
    #[inline(always)]
    fn set_sums<const N: usize>(query: &[SignBlock], rows: [&[u64]; N]) -> [__m512i; N] {
        let rows = rows.map(|row| &row[..query.len()]);
        // SAFETY: this type is only used where `Isa` enabled its instructions; `numbers` is as long as the vector.
        unsafe {
            let (ones, mut sums) = (_mm512_set1_epi8(1), [_mm512_setzero_si512(); N]);
            for (at, block) in query.iter().enumerate() {
                let numbers = _mm512_loadu_si512(block.numbers.as_ptr().cast());
                for i in 0..N {
                    sums[i] = _mm512_dpbusd_epi32(sums[i], ones, _mm512_maskz_mov_epi8(rows[i][at], numbers));
                }
            }
            sums
        }
    }

    /// Returns the inner products as [`row_sums`](Self::row_sums) does, with the high bytes where the query has any.
    #[inline(always)]
    fn sums_of<const N: usize>(query: &QueryBytes, rows: [&[i8]; N]) -> [__m512i; N] {
        let rows = rows.map(|row| &row[..query.len()]);
        match query.high.is_empty() {
            true => Self::row_sums::<N, false>(query, rows),
            false => Self::row_sums::<N, true>(query, rows),
        }
    }
}

impl RowDots for NativeBytes {
    #[inline(always)]
    fn dot(query: &QueryBytes, row: &[i8]) -> i32 {
        let [sums] = Self::sums_of(query, [row]);
        // SAFETY: this type is only used where `Isa` enabled its instructions.
        let sum = unsafe { _mm512_reduce_add_epi32(sums) };
        sum.wrapping_sub(query.total.wrapping_mul(128))
    }

    #[inline(always)]
    fn dots(query: &QueryBytes, rows: [&[i8]; 4]) -> [i32; 4] {
        four_sums(Self::sums_of(query, rows)).map(|sum| sum.wrapping_sub(query.total.wrapping_mul(128)))
    }

    #[inline(always)]
    fn between(a: &[i8], b: &[i8]) -> i32 {
        let b = &b[..a.len()];
        // SAFETY: this type is only used where `Isa` enabled its instructions.
        unsafe {
            let (sign, ones) = (_mm512_set1_epi8(-128), _mm512_set1_epi8(1));
            let (mut sums, mut total) = (_mm512_setzero_si512(), _mm512_setzero_si512());
            for at in 0..a.len().div_ceil(BLOCK) {
                let numbers = block(a, at);
                sums = _mm512_dpbusd_epi32(sums, _mm512_xor_si512(block(b, at), sign), numbers);
                total = _mm512_dpbusd_epi32(total, ones, numbers);
            }
            _mm512_reduce_add_epi32(_mm512_sub_epi32(sums, _mm512_slli_epi32::<7>(total)))
        }
    }

    #[inline(always)]
    fn sum_of_set(query: &[SignBlock], row: &[u64]) -> i32 {
        let [sums] = Self::set_sums(query, [row]);
        // SAFETY: this type is only used where `Isa` enabled its instructions.
        unsafe { _mm512_reduce_add_epi32(sums) }
    }

    #[inline(always)]
    fn sums_of_set(query: &[SignBlock], rows: [&[u64]; 4]) -> [i32; 4] {
        four_sums(Self::set_sums(query, rows))
    }
}
