//! Matrix products by AMX, whose registers are tiles of 16 rows of 64 bytes (Intel 64 and IA-32 Architectures Software
//! Developer's Manual, volume 1, chapter 18).
//!
//! A tile of the left matrix holds 16 rows of 16 words; a word holds two numbers in bf16 or four in 8 bits (see
//! [`super::dot`]). 16 inputs' words of a panel are three tiles of the right matrix side by side, as they lie in
//! memory. One instruction adds the products of two tiles to 16 rows of 16 sums: those of `vpdpbusd` in 8 bits, to the
//! last bit, and those of `vdpbf16ps` in bf16, in another order.
//!
//! Rust has no stable intrinsics for these instructions, so that they are written in assembly. The compiler uses no
//! tile by itself: what [`Tiles`] configures stays until it is dropped.
#![allow(unsafe_code)]

mod pack;
mod side;
#[cfg(test)]
mod tests;

use std::arch::asm;
use std::marker::PhantomData;

use super::isa::Isa;
pub(super) use side::{LINE_NUMBERS, Rows, Side};

/// Rows of a tile.
pub(super) const ROWS: usize = 16;
/// Words in a row of a tile.
pub(super) const WORDS: usize = 16;
/// Columns of a panel.
pub(super) const WIDTH: usize = 48;
/// Rows of a product: two tiles.
pub(super) const PAIR: usize = 2 * ROWS;

/// Bytes of a row of a tile.
const LINE: usize = 64;

/// 16 rows of 16 words of a left matrix.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Tile(pub(super) [[u8; LINE]; ROWS]);

impl Tile {
    /// A tile of zeros.
    pub(super) const ZERO: Self = Self([[0; LINE]; ROWS]);
}

/// Sums of 32 rows with a panel.
#[repr(C, align(64))]
pub(super) struct Sums<T>(pub(super) [[T; WIDTH]; PAIR]);

/// A left matrix `[m, words]` in tiles, `[ceil(m / 16)][ceil(words / 16)]`; reused from one product to the next.
#[derive(Debug, Default)]
pub(super) struct LeftTiles {
    tiles: Vec<Tile>,
    /// Tiles along the words.
    stride: usize,
}

impl LeftTiles {
    /// Makes room for `m` rows of `words` words. The old contents remain.
    pub(super) fn resize(&mut self, m: usize, words: usize) {
        self.stride = words.div_ceil(WORDS);
        let length = m.div_ceil(ROWS) * self.stride;
        if self.tiles.len() < length {
            self.tiles.resize(length, Tile::ZERO);
        }
    }

    /// Returns the tiles of the rows from `16 * band` on.
    #[inline(always)]
    pub(super) fn band(&self, band: usize) -> &[Tile] {
        &self.tiles[band * self.stride..][..self.stride]
    }

    /// Returns the tiles of the rows from `16 * band` on.
    #[inline(always)]
    pub(super) fn band_mut(&mut self, band: usize) -> &mut [Tile] {
        &mut self.tiles[band * self.stride..][..self.stride]
    }

    /// Returns the tiles of the 32 rows from `32 * pair` on, of `m`: those of the second half where there are more than
    /// 16 of these rows.
    #[inline(always)]
    pub(super) fn pair(&self, pair: usize, m: usize) -> (&[Tile], Option<&[Tile]>) {
        (self.band(2 * pair), (pair * PAIR + ROWS < m).then(|| self.band(2 * pair + 1)))
    }

    /// Returns the words of row `row`, 64 bytes after 64 bytes.
    #[inline(always)]
    pub(super) fn lines_mut(&mut self, row: usize) -> impl Iterator<Item = &mut [u8; LINE]> {
        self.band_mut(row / ROWS).iter_mut().map(move |tile| &mut tile.0[row % ROWS])
    }

    /// Sets row `row` to `values` in bf16, and to 0 beyond them.
    #[inline(always)]
    pub(super) fn set_bf16(&mut self, tiles: &Tiles, row: usize, values: &[f32]) {
        for (line, values) in self.lines_mut(row).zip(values.chunks(2 * WORDS)) {
            *line = tiles.line(values);
        }
    }
}

/// A task with products by tiles.
pub(super) trait TileTask {
    /// Runs the task. Must be `#[inline(always)]`, with all it calls in its loops: see [`super::isa::Task`].
    fn run(self, tiles: &Tiles);
}

/// The eight tiles of this thread, configured for products until this is dropped.
pub(super) struct Tiles(PhantomData<*const ()>);

/// The operand of `ldtilecfg`: which palette, and the bytes of a row and the rows of each tile.
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Tiles {
    /// Configures the tiles where `isa` has AMX.
    #[inline]
    pub(super) fn configure(isa: Isa) -> Option<Self> {
        static WHOLE: Configuration = {
            let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
            let mut tile = 0;
            while tile < 8 {
                (row_bytes[tile], rows[tile]) = (LINE as u16, ROWS as u8);
                tile += 1;
            }
            Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
        };
        if !isa.has_tiles() {
            return None;
        }
        // SAFETY: `Isa` says so only after it found AMX on this machine and the system let this process use it.
        unsafe {
            asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE, options(nostack, readonly, preserves_flags))
        };
        Some(Self(PhantomData))
    }

    /// Runs a task compiled for the instruction sets of processors that have tiles.
    pub(super) fn run<T: TileTask>(&self, task: T) {
        #[target_feature(enable = "avx512bf16,avx512vnni,avx512f,avx512bw,avx512vl,avx2,fma,f16c,popcnt")]
        fn run<T: TileTask>(tiles: &Tiles, task: T) {
            task.run(tiles);
        }
        // SAFETY: `Isa` has tiles only where it found all of these features on this machine too.
        unsafe { run(self, task) }
    }

    /// Sets 32 rows of `to`, `stride` numbers apart, to the sums of two bands of a left matrix with twice 16 columns of
    /// a right one, in bf16. All four slices have the same number of tiles.
    #[inline(always)]
    pub(super) fn square(&self, left: [&[Tile]; 2], right: [&[Tile]; 2], to: &mut [f32], stride: usize) {
        let steps = left[0].len();
        let all_alike = [left[1], right[0], right[1]].iter().all(|tiles| tiles.len() == steps);
        assert!(steps > 0 && all_alike, "tiles of a square");
        assert!(stride >= PAIR && to.len() >= (PAIR - 1) * stride + PAIR, "room for the sums of a square");
        let low = to.as_mut_ptr();
        let high = low.wrapping_add(ROWS * stride);
        // SAFETY: tiles are configured as long as there is a `Tiles`, each as 16 rows of 64 bytes. Each step reads a
        // tile of each of the four slices; the assertions found it there, and room for 32 rows of 32 sums in `to`.
        unsafe {
            asm!(
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "2:",
                "tileloadd tmm4, [{a} + {line}]",
                "tileloadd tmm6, [{c} + {line}]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{d} + {line}]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloadd tmm5, [{b} + {line}]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 1024",
                "add {b}, 1024",
                "add {c}, 1024",
                "add {d}, 1024",
                "dec {steps}",
                "jnz 2b",
                "tilestored [{low} + {row}], tmm0",
                "tilestored [{low} + {row} + 64], tmm1",
                "tilestored [{high} + {row}], tmm2",
                "tilestored [{high} + {row} + 64], tmm3",
                a = inout(reg) left[0].as_ptr() => _,
                b = inout(reg) left[1].as_ptr() => _,
                c = inout(reg) right[0].as_ptr() => _,
                d = inout(reg) right[1].as_ptr() => _,
                steps = inout(reg) steps => _,
                low = in(reg) low,
                high = in(reg) high,
                line = in(reg) LINE,
                row = in(reg) 4 * stride,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: there is a `Tiles` only where there is AMX. What the system saves of a thread is small again.
        unsafe { asm!("tilerelease", options(nostack, nomem, preserves_flags)) };
    }
}

/// The next eight lines of what is `ahead` of the panel, from an offset on, into the cache of the second level: between
/// two products, since many at once would wait for each other.
macro_rules! prefetched {
    ($at:literal) => {
        concat!(
            "prefetcht1 [{weights} + {ahead} + ",
            $at,
            "]\nprefetcht1 [{weights} + {ahead} + 64 + ",
            $at,
            "]\nprefetcht1 [{weights} + {ahead} + 128 + ",
            $at,
            "]\nprefetcht1 [{weights} + {ahead} + 192 + ",
            $at,
            "]\nprefetcht1 [{weights} + {ahead} + 256 + ",
            $at,
            "]\nprefetcht1 [{weights} + {ahead} + 320 + ",
            $at,
            "]\nprefetcht1 [{weights} + {ahead} + 384 + ",
            $at,
            "]\nprefetcht1 [{weights} + {ahead} + 448 + ",
            $at,
            "]"
        )
    };
}

/// Nothing in the place of [`prefetched`].
macro_rules! not_prefetched {
    ($at:literal) => {
        "/* {ahead} */"
    };
}

/// The loop over a panel's words: `lines` in each step, `stores` after those of the first band, and the operands of a
/// second band.
macro_rules! multiplied {
    (
        [$($lines:expr),* $(,)?], [$($stores:literal),*], [$($second:tt)*],
        $first:expr, $weights:expr, $ahead:expr, $steps:expr, $to:expr
    ) => {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "tilezero tmm4",
            "tilezero tmm5",
            "2:",
            $($lines,)*
            "add {first}, 1024",
            "add {weights}, 3072",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{to} + {row}], tmm0",
            "tilestored [{to} + {row} + 64], tmm1",
            "tilestored [{to} + {row} + 128], tmm2",
            $($stores,)*
            first = inout(reg) $first => _,
            $($second)*
            weights = inout(reg) $weights => _,
            to = in(reg) $to,
            steps = inout(reg) $steps => _,
            ahead = in(reg) $ahead,
            line = in(reg) LINE,
            row = in(reg) 4 * WIDTH,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        )
    };
}

/// Multiplies two bands with a panel.
macro_rules! two_bands {
    ($instruction:literal, $fetch:ident, $second:expr, $($rest:expr),*) => {
        multiplied!(
            [
                "tileloadd tmm6, [{first} + {line}]",
                "tileloadd tmm7, [{weights} + {row}]",
                concat!($instruction, " tmm0, tmm6, tmm7"),
                $fetch!(0),
                "tileloadd tmm7, [{weights} + {row} + 64]",
                concat!($instruction, " tmm1, tmm6, tmm7"),
                $fetch!(512),
                "tileloadd tmm7, [{weights} + {row} + 128]",
                concat!($instruction, " tmm2, tmm6, tmm7"),
                $fetch!(1024),
                "tileloadd tmm6, [{second} + {line}]",
                concat!($instruction, " tmm5, tmm6, tmm7"),
                $fetch!(1536),
                "tileloadd tmm7, [{weights} + {row} + 64]",
                concat!($instruction, " tmm4, tmm6, tmm7"),
                $fetch!(2048),
                "tileloadd tmm7, [{weights} + {row}]",
                concat!($instruction, " tmm3, tmm6, tmm7"),
                $fetch!(2560),
                "add {second}, 1024",
            ],
            [
                "tilestored [{to} + {row} + 3072], tmm3",
                "tilestored [{to} + {row} + 3136], tmm4",
                "tilestored [{to} + {row} + 3200], tmm5"
            ],
            [second = inout(reg) $second => _,],
            $($rest),*
        )
    };
}

/// Multiplies one band with a panel.
macro_rules! one_band {
    ($instruction:literal, $fetch:ident, $($rest:expr),*) => {
        multiplied!(
            [
                "tileloadd tmm6, [{first} + {line}]",
                "tileloadd tmm3, [{weights} + {row}]",
                concat!($instruction, " tmm0, tmm6, tmm3"),
                $fetch!(0),
                $fetch!(512),
                "tileloadd tmm4, [{weights} + {row} + 64]",
                concat!($instruction, " tmm1, tmm6, tmm4"),
                $fetch!(1024),
                $fetch!(1536),
                "tileloadd tmm5, [{weights} + {row} + 128]",
                concat!($instruction, " tmm2, tmm6, tmm5"),
                $fetch!(2048),
                $fetch!(2560),
            ],
            [],
            [],
            $($rest),*
        )
    };
}

/// Defines the products of one or two bands of rows with a panel by an instruction.
macro_rules! products {
    ($name:ident, $sum:ty, $instruction:literal, $what:literal) => {
        impl Tiles {
            #[doc = concat!("Sets `sums` to the products of 32 rows, or the first 16 where `second` is none, with a panel ", $what, ".")]
            /// The panel's words are a whole number of tiles, and so many are read of each band. As many bytes as the
            /// panel has are prefetched from `ahead` bytes after its beginning on, unless that is 0.
            #[inline(always)]
            pub(super) fn $name(
                &self,
                first: &[Tile],
                second: Option<&[Tile]>,
                panel: &[[u32; WIDTH]],
                ahead: usize,
                sums: &mut Sums<$sum>,
            ) {
                let steps = panel.len() / WORDS;
                assert!(panel.len().is_multiple_of(WORDS), "words of a panel");
                assert!(steps > 0 && first.len() >= steps, "tiles of the first band");
                assert!(second.is_none_or(|second| second.len() >= steps), "tiles of the second band");
                let (left, weights, to) = (first.as_ptr(), panel.as_ptr(), &raw mut *sums);
                let second = second.map(|second| second.as_ptr());
                // SAFETY: tiles are configured as long as there is a `Tiles`, each as 16 rows of 64 bytes. Each step
                // reads a tile of each band, which the assertions found there, and 16 words of each of the panel's 48
                // columns; `sums` has 32 rows of 48 sums. What is prefetched may be any address.
                unsafe {
                    match (second, ahead) {
                        (Some(second), 0) => {
                            two_bands!($instruction, not_prefetched, second, left, weights, ahead, steps, to)
                        }
                        (Some(second), _) => {
                            two_bands!($instruction, prefetched, second, left, weights, ahead, steps, to)
                        }
                        (None, 0) => one_band!($instruction, not_prefetched, left, weights, ahead, steps, to),
                        (None, _) => one_band!($instruction, prefetched, left, weights, ahead, steps, to),
                    }
                }
            }
        }
    };
}

products!(bytes, u32, "tdpbusd", "in 8 bits, the rows without a sign and the panel with one");
products!(bf16, f32, "tdpbf16ps", "in bf16");
