//! Vectors of `f32` on each instruction set, for the innermost loop of the matrix products: there the sums must
//! stay in registers, which compilers do not do reliably with arrays.
//!
//! This module, [`super::isa`], `amx.rs`, `dot/x86.rs`, `ring/vnni.rs`, `tiles.rs` and `tiles/pack.rs` are the only
//! unsafe code of the kernels.
//! The x86 intrinsics are unsafe to call because the machine might lack the instructions; a [`Simd`] type of such
//! instructions is only ever passed to a task by `Isa::run`, after it found them. Loads and stores take their address
//! from a reference to an array of just the vector's size.
#![allow(unsafe_code)]

/// The vectors of one instruction set.
pub(super) trait Simd {
    /// A vector.
    type V: Copy;
    /// Numbers in a vector.
    const LANES: usize;
    /// `true` if a fused multiply-add is an instruction (elsewhere it is a slow library call).
    const FMA: bool;
    /// `x` in every lane.
    fn splat(x: f32) -> Self::V;
    /// Returns the numbers from `at * LANES` on.
    fn load(from: &[f32], at: usize) -> Self::V;
    /// Returns the half-precision numbers from `at * LANES` on.
    #[inline(always)]
    fn load_half(from: &[u16], at: usize) -> Self::V {
        let mut numbers = [0f32; 16];
        for (number, half) in numbers.iter_mut().zip(&from[at * Self::LANES..][..Self::LANES]) {
            *number = widen(*half);
        }
        Self::load(&numbers, 0)
    }
    /// Sets the numbers from `at * LANES` on.
    fn store(v: Self::V, to: &mut [f32], at: usize);
    /// `a * b + c`, fused when `FMA`.
    fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a * b + c`, rounded once on every instruction set; slow where it is not one instruction.
    #[cfg(not(target_arch = "wasm32"))]
    fn fused(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a + b`.
    fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    #[cfg(not(target_arch = "wasm32"))]
    fn mul(a: Self::V, b: Self::V) -> Self::V;
    /// Returns the smaller number of each lane; either, where one is NaN.
    #[cfg(not(target_arch = "wasm32"))]
    fn min(a: Self::V, b: Self::V) -> Self::V;
    /// Returns the greater number of each lane; either, where one is NaN.
    #[cfg(not(target_arch = "wasm32"))]
    fn max(a: Self::V, b: Self::V) -> Self::V;
    /// Returns the least number of a vector; any of them, where one is NaN.
    #[cfg(not(target_arch = "wasm32"))]
    fn least(v: Self::V) -> f32;
    /// Returns the greatest number of a vector; any of them, where one is NaN.
    #[cfg(not(target_arch = "wasm32"))]
    fn greatest(v: Self::V) -> f32;
    /// Returns a bit for each lane, the first one's the lowest, set where the number is at least that of `b`.
    fn at_least(a: Self::V, b: Self::V) -> u32;
}

/// Returns the `f32` of a half-precision number that is neither infinite nor NaN. Compilers vectorise this function,
/// which they do not do with the library's.
#[inline(always)]
pub(super) fn widen(half: u16) -> f32 {
    // Its exponent is off by as much as those of the two formats differ, 112, and a product makes that good.
    const EXPONENT: f32 = f32::from_bits((127 + 112) << 23);
    let (sign, magnitude) = (u32::from(half & 0x8000) << 16, u32::from(half & 0x7fff) << 13);
    f32::from_bits((f32::from_bits(magnitude) * EXPONENT).to_bits() | sign)
}

/// The vectors that the target guarantees, by plain arrays.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub(super) struct Portable;

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
impl Simd for Portable {
    type V = [f32; 4];
    const LANES: usize = 4;
    const FMA: bool = false;
    #[inline(always)]
    fn splat(x: f32) -> Self::V {
        [x; 4]
    }
    #[inline(always)]
    fn load(from: &[f32], at: usize) -> Self::V {
        from.as_chunks().0[at]
    }
    #[inline(always)]
    fn store(v: Self::V, to: &mut [f32], at: usize) {
        to.as_chunks_mut().0[at] = v;
    }
    #[inline(always)]
    fn mul_add(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[cfg(not(target_arch = "wasm32"))]
    #[inline(always)]
    fn fused(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }
    #[inline(always)]
    fn add(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[cfg(not(target_arch = "wasm32"))]
    #[inline(always)]
    fn mul(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i])
    }
    #[cfg(not(target_arch = "wasm32"))]
    #[inline(always)]
    fn min(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[cfg(not(target_arch = "wasm32"))]
    #[inline(always)]
    fn max(a: Self::V, b: Self::V) -> Self::V {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[cfg(not(target_arch = "wasm32"))]
    #[inline(always)]
    fn least(v: Self::V) -> f32 {
        v.into_iter().reduce(f32::min).unwrap_or_default()
    }
    #[cfg(not(target_arch = "wasm32"))]
    #[inline(always)]
    fn greatest(v: Self::V) -> f32 {
        v.into_iter().reduce(f32::max).unwrap_or_default()
    }
    #[inline(always)]
    fn at_least(a: Self::V, b: Self::V) -> u32 {
        (0..4).fold(0, |bits, i| bits | u32::from(a[i] >= b[i]) << i)
    }
}

/// WebAssembly's SIMD128.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(super) use wasm::Simd128 as Portable;

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm {
    use super::Simd;
    use std::arch::wasm32::*;

    /// WebAssembly's SIMD128, with the multiply-add of relaxed SIMD in the module for engines that have it. Whether
    /// that rounds once or twice depends on the engine.
    pub(in super::super) struct Simd128;

    impl Simd for Simd128 {
        type V = v128;
        const LANES: usize = 4;
        const FMA: bool = false;
        #[inline(always)]
        fn splat(x: f32) -> v128 {
            f32x4_splat(x)
        }
        #[inline(always)]
        fn load(from: &[f32], at: usize) -> v128 {
            let from: &[f32; 4] = &from.as_chunks().0[at];
            // SAFETY: the address is that of four numbers.
            unsafe { v128_load(from.as_ptr().cast()) }
        }
        #[inline(always)]
        fn store(v: v128, to: &mut [f32], at: usize) {
            let to: &mut [f32; 4] = &mut to.as_chunks_mut().0[at];
            // SAFETY: the address is that of four numbers.
            unsafe { v128_store(to.as_mut_ptr().cast(), v) }
        }
        #[inline(always)]
        fn mul_add(a: v128, b: v128, c: v128) -> v128 {
            #[cfg(feature = "relaxed-simd")]
            return f32x4_relaxed_madd(a, b, c);
            #[cfg(not(feature = "relaxed-simd"))]
            f32x4_add(f32x4_mul(a, b), c)
        }
        #[inline(always)]
        fn add(a: v128, b: v128) -> v128 {
            f32x4_add(a, b)
        }
        #[inline(always)]
        fn at_least(a: v128, b: v128) -> u32 {
            u32::from(i32x4_bitmask(f32x4_ge(a, b)))
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    macro_rules! simd {
        (
            $(#[$doc:meta])* $name:ident, $vector:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $fma:ident,
            $load_half:ident, $widen:ident, $add:ident, $mul:ident, $min:ident, $max:ident,
            $least:ident, $greatest:ident, |$a:ident, $b:ident| $at_least:expr
        ) => {
            $(#[$doc])*
            pub(in super::super) struct $name;

            // SAFETY of each call: this type reaches a task only where `Isa::run` enabled its instructions; a
            // load or store has the address of an array of the vector's size.
            impl Simd for $name {
                type V = $vector;
                const LANES: usize = $lanes;
                const FMA: bool = true;
                #[inline(always)]
                fn splat(x: f32) -> $vector {
                    unsafe { $splat(x) }
                }
                #[inline(always)]
                fn load(from: &[f32], at: usize) -> $vector {
                    let from: &[f32; $lanes] = &from.as_chunks().0[at];
                    unsafe { $load(from.as_ptr()) }
                }
                #[inline(always)]
                fn load_half(from: &[u16], at: usize) -> $vector {
                    let from: &[u16; $lanes] = &from.as_chunks().0[at];
                    unsafe { $widen($load_half(from.as_ptr().cast())) }
                }
                #[inline(always)]
                fn store(v: $vector, to: &mut [f32], at: usize) {
                    let to: &mut [f32; $lanes] = &mut to.as_chunks_mut().0[at];
                    unsafe { $store(to.as_mut_ptr(), v) }
                }
                #[inline(always)]
                fn mul_add(a: $vector, b: $vector, c: $vector) -> $vector {
                    unsafe { $fma(a, b, c) }
                }
                #[inline(always)]
                fn fused(a: $vector, b: $vector, c: $vector) -> $vector {
                    Self::mul_add(a, b, c)
                }
                #[inline(always)]
                fn add(a: $vector, b: $vector) -> $vector {
                    unsafe { $add(a, b) }
                }
                #[inline(always)]
                fn mul(a: $vector, b: $vector) -> $vector {
                    unsafe { $mul(a, b) }
                }
                #[inline(always)]
                fn min(a: $vector, b: $vector) -> $vector {
                    unsafe { $min(a, b) }
                }
                #[inline(always)]
                fn max(a: $vector, b: $vector) -> $vector {
                    unsafe { $max(a, b) }
                }
                #[inline(always)]
                fn least(v: $vector) -> f32 {
                    unsafe { $least(v) }
                }
                #[inline(always)]
                fn greatest(v: $vector) -> f32 {
                    unsafe { $greatest(v) }
                }
                #[inline(always)]
                fn at_least($a: $vector, $b: $vector) -> u32 {
                    unsafe { $at_least }
                }
            }
        };
    }

    /// Horizontal minimum or maximum: a function that returns the least or the greatest of a vector's eight numbers.
    /// `$join` compares the two halves lane by lane, then the two pairs that are left, then the last two numbers.
    macro_rules! reduction_of_8 {
        ($name:ident, $join:ident) => {
            #[inline(always)]
            unsafe fn $name(v: __m256) -> f32 {
                // SAFETY: as of the calls below: only where `Isa::run` enabled AVX2.
                unsafe {
                    let fours = $join(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
                    let pairs = $join(fours, _mm_movehl_ps(fours, fours));
                    _mm_cvtss_f32($join(pairs, _mm_shuffle_ps::<1>(pairs, pairs)))
                }
            }
        };
    }

    reduction_of_8!(least_of_8, _mm_min_ps);
    reduction_of_8!(greatest_of_8, _mm_max_ps);

    simd!(
        /// 256-bit vectors with FMA and half-precision loads.
        Avx2, __m256, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps, _mm_loadu_si128,
        _mm256_cvtph_ps, _mm256_add_ps, _mm256_mul_ps, _mm256_min_ps, _mm256_max_ps, least_of_8,
        greatest_of_8, |a, b| _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(a, b)) as u32
    );
    simd!(
        /// 512-bit vectors.
        Avx512, __m512, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps, _mm256_loadu_si256,
        _mm512_cvtph_ps, _mm512_add_ps, _mm512_mul_ps, _mm512_min_ps, _mm512_max_ps,
        _mm512_reduce_min_ps, _mm512_reduce_max_ps, |a, b| u32::from(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(a, b))
    );
}

/// Prefetches the numbers into the cache. No result depends on it.
#[inline(always)]
pub fn prefetch<T>(numbers: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for line in numbers.chunks(64 / size_of::<T>().max(1)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, valid for any address; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = numbers;
}

/// Prefetches the line of the cache that lies `bytes` from the start of the numbers, beyond their end too. No result
/// depends on it.
#[inline(always)]
pub(super) fn prefetch_beyond<T>(numbers: &[T], bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, valid for any address; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(numbers.as_ptr().wrapping_byte_add(bytes).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (numbers, bytes);
}
