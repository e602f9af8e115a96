//! Products of words on x86-64.
//!
//! As in [`super::super::vector`], the intrinsics are unsafe to call because the machine might lack the instructions; a
//! type of such instructions is only ever passed to a task by `Isa`, after it found them.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::transmute;

use super::super::vector::{Avx2, Avx512, Simd};
use super::words::Words;
use super::{Dot, WholeDot};

macro_rules! words {
    (
        $name:ident, $words:ty, $vector:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $and:ident, $left:ident, $cast:ident,
        $left16:ident, $right16:ident, $logical16:ident, $madd:ident, $add:ident, $single:ident
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
            fn widen_unsigned(words: $words) -> [$words; 2] {
                unsafe { [$and(words, $splat(0x00ff_00ff)), $logical16::<8>(words)] }
            }
            #[inline(always)]
            fn widen_signed(words: $words) -> [$words; 2] {
                unsafe { [$right16::<8>($left16::<8>(words)), $right16::<8>(words)] }
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
    _mm256_slli_epi16,
    _mm256_srai_epi16,
    _mm256_srli_epi16,
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
    _mm512_slli_epi16,
    _mm512_srai_epi16,
    _mm512_srli_epi16,
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
impl Dot for NativeBytes {
    type Number = u32;
    type V = __m512i;
    type Input = __m512i;
    const LANES: usize = 16;
    #[inline(always)]
    fn zero() -> __m512i {
        Avx512::splat_word(0)
    }
    #[inline(always)]
    fn input(x: u32) -> __m512i {
        Avx512::splat_word(x)
    }
    #[inline(always)]
    fn add(sums: __m512i, input: __m512i, weights: &[u32], at: usize) -> __m512i {
        unsafe { _mm512_dpbusd_epi32(sums, input, Avx512::load_words(weights, at)) }
    }
    #[inline(always)]
    fn store(sums: __m512i, to: &mut [f32], at: usize) {
        Avx512::store(Avx512::to_single(sums), to, at);
    }
}

impl WholeDot for NativeBytes {
    type Single = Avx512;
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
