//! Numbers in bf16 in the lines of tiles, by the instructions of AVX-512 BF16. These round to the nearest bf16, of two
//! equally near ones to the even one, and take numbers below the smallest normal one as 0, as products by tiles do.
//!
//! SAFETY of each call: there is a [`Tiles`] only where `Isa` found AVX-512, its BW and its BF16 on this machine too; a
//! load or a store has the address of an array of the vector's size, and the store to a [`Tile`], which wants 64 bytes,
//! one so aligned; every pattern of 512 bits is a vector.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::transmute;

use super::{LINE, ROWS, Tile, Tiles, WORDS};

impl Tiles {
    /// Returns the first 32 numbers in bf16, or all of them and zeros.
    #[inline(always)]
    pub(in super::super) fn line(&self, values: &[f32]) -> [u8; LINE] {
        let mut buffer = [0f32; 2 * WORDS];
        let numbers = first_or_padded(values, &mut buffer);
        // SAFETY: see above.
        unsafe {
            let first_half = _mm512_loadu_ps(numbers[..WORDS].as_ptr());
            let second_half = _mm512_loadu_ps(numbers[WORDS..].as_ptr());
            // The intrinsic takes the second half first.
            transmute::<__m512bh, [u8; LINE]>(_mm512_cvtne2ps_pbh(second_half, first_half))
        }
    }

    /// Returns words of two numbers in bf16, the low 16 bits from `low` and the high 16 bits from `high`: the first 16
    /// of each, or all of them and zeros.
    #[inline(always)]
    pub(in super::super) fn interleaved(&self, low: &[f32], high: &[f32]) -> [u8; LINE] {
        const ORDER: [u16; 2 * WORDS] = {
            let mut order = [0; 2 * WORDS];
            let mut at = 0;
            while at < WORDS {
                (order[2 * at], order[2 * at + 1]) = (at as u16, (WORDS + at) as u16);
                at += 1;
            }
            order
        };
        let [mut low_buffer, mut high_buffer] = [[0f32; WORDS]; 2];
        let (low, high) = (first_or_padded(low, &mut low_buffer), first_or_padded(high, &mut high_buffer));
        // SAFETY: see above.
        unsafe {
            let both = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(high.as_ptr()), _mm512_loadu_ps(low.as_ptr()));
            let order = _mm512_loadu_si512(ORDER.as_ptr().cast());
            let words = _mm512_permutexvar_epi16(order, transmute::<__m512bh, __m512i>(both));
            transmute::<__m512i, [u8; LINE]>(words)
        }
    }
}

/// Returns the first `N` values, or, where there are fewer, all of them and the zeros of `buffer`.
#[inline(always)]
fn first_or_padded<'a, const N: usize>(values: &'a [f32], buffer: &'a mut [f32; N]) -> &'a [f32; N] {
    match values.first_chunk::<N>() {
        Some(values) => values,
        None => {
            buffer[..values.len()].copy_from_slice(values);
            buffer
        }
    }
}

impl Tile {
    /// Sets the tile to a transpose: row `i` to word `i` of each line.
    #[inline(always)]
    pub(in super::super) fn set_transposed(&mut self, _: &Tiles, lines: &Tile) {
        // SAFETY: see above.
        unsafe {
            let mut rows = [_mm512_setzero_si512(); ROWS];
            for (row, line) in rows.iter_mut().zip(&lines.0) {
                *row = _mm512_loadu_si512(line.as_ptr().cast());
            }
            // `fours[4 * g + j]` has in its lane `l` of 128 bits word `4 * l + j` of lines `4 * g` to `4 * g + 3`.
            let mut fours = [_mm512_setzero_si512(); ROWS];
            for g in (0..ROWS).step_by(4) {
                let (a, b) = (
                    _mm512_unpacklo_epi32(rows[g], rows[g + 1]),
                    _mm512_unpackhi_epi32(rows[g], rows[g + 1]),
                );
                let (c, d) = (
                    _mm512_unpacklo_epi32(rows[g + 2], rows[g + 3]),
                    _mm512_unpackhi_epi32(rows[g + 2], rows[g + 3]),
                );
                fours[g] = _mm512_unpacklo_epi64(a, c);
                fours[g + 1] = _mm512_unpackhi_epi64(a, c);
                fours[g + 2] = _mm512_unpacklo_epi64(b, d);
                fours[g + 3] = _mm512_unpackhi_epi64(b, d);
            }
            for j in 0..4 {
                let [a, b] = [0, 8].map(|g| (fours[g + j], fours[g + 4 + j]));
                let (even_low, even_high) =
                    (_mm512_shuffle_i32x4::<0x88>(a.0, a.1), _mm512_shuffle_i32x4::<0x88>(b.0, b.1));
                let (odd_low, odd_high) =
                    (_mm512_shuffle_i32x4::<0xdd>(a.0, a.1), _mm512_shuffle_i32x4::<0xdd>(b.0, b.1));
                let columns = [
                    _mm512_shuffle_i32x4::<0x88>(even_low, even_high),
                    _mm512_shuffle_i32x4::<0x88>(odd_low, odd_high),
                    _mm512_shuffle_i32x4::<0xdd>(even_low, even_high),
                    _mm512_shuffle_i32x4::<0xdd>(odd_low, odd_high),
                ];
                for (lane, column) in columns.into_iter().enumerate() {
                    _mm512_store_si512(self.0[4 * lane + j].as_mut_ptr().cast(), column);
                }
            }
        }
    }
}
