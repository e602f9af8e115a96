//! Products by AMX, where the machine has it.

use super::*;
use crate::kernel::gemm::Panels;
use half::bf16;

/// Returns this machine's instruction set with AMX, or says that there is none to test.
fn with_tiles() -> Option<Isa> {
    let found = Isa::available().into_iter().find(|isa| isa.has_tiles());
    if found.is_none() {
        println!("skipped: this machine has no AMX, or the system does not permit it");
    }
    found
}

/// Fills a left matrix and a panel with bytes; returns the products of 32 rows.
fn products(isa: Isa, words: usize, rows: usize, left: u8, right: i8) -> Vec<[u32; WIDTH]> {
    let mut tiles = LeftTiles::default();
    tiles.resize(rows, words);
    for row in 0..rows {
        tiles.lines_mut(row).for_each(|line| line.fill(left));
    }
    let mut panels = Panels::new(WIDTH, words, WIDTH);
    panels.set_rows(0, &vec![u32::from_le_bytes([right.cast_unsigned(); 4]); WIDTH * words]);
    let mut sums = Sums([[7; WIDTH]; PAIR]);
    let configured = Tiles::configure(isa).expect("AMX");
    let (low, high) = tiles.pair(0, rows);
    for panel in panels.iter::<WIDTH>() {
        configured.bytes(low, high, panel, 0, &mut sums);
        let mut again = Sums([[7; WIDTH]; PAIR]);
        configured.bytes(low, high, panel, size_of_val(panel), &mut again);
        assert!(again.0 == sums.0, "sums with the next panel prefetched");
    }
    sums.0.to_vec()
}

#[test]
fn whole_sums_are_exact_at_the_extremes_and_one_band_leaves_the_other_half() {
    let Some(isa) = with_tiles() else { return };
    for (left, right) in [(255, 127), (255, -128), (0, -128), (1, -1)] {
        for words in [WORDS, 2 * WORDS, 24 * WORDS] {
            let expected = (4 * words as i32 * i32::from(left) * i32::from(right)).cast_unsigned();
            let sums = products(isa, words, PAIR, left, right);
            assert!(
                sums.as_flattened().iter().all(|sum| *sum == expected),
                "{left} by {right}, {words} words"
            );
            let sums = products(isa, words, 1, left, right);
            assert_eq!(sums[0], [expected; WIDTH]);
            assert_eq!(sums[ROWS], [7; WIDTH], "rows of a band that there is not");
        }
    }
}

/// A task that is a closure.
struct With<F>(F);

impl<F: FnOnce(&Tiles)> TileTask for With<F> {
    #[inline(always)]
    fn run(self, tiles: &Tiles) {
        (self.0)(tiles);
    }
}

/// Runs a closure with tiles.
fn run(isa: Isa, task: impl FnOnce(&Tiles)) {
    Tiles::configure(isa).expect("AMX").run(With(task));
}

/// Returns the two numbers in bf16 of each word of a line.
fn numbers(line: &[u8; LINE]) -> Vec<[u16; 2]> {
    let pair =
        |word: &[u8; 4]| [u16::from_le_bytes([word[0], word[1]]), u16::from_le_bytes([word[2], word[3]])];
    line.as_chunks::<4>().0.iter().map(pair).collect()
}

#[test]
fn a_reused_matrix_has_zeros_beyond_its_columns() {
    let Some(isa) = with_tiles() else { return };
    let mut left = LeftTiles::default();
    left.resize(1, WORDS);
    run(isa, |tiles| {
        left.set_bf16(tiles, 0, &[f32::NAN; 2 * WORDS]);
        left.set_bf16(tiles, 0, &[1.0; 3]);
    });
    let line = left.band(0)[0].0[0];
    assert_eq!(line[..6], [0x80, 0x3f, 0x80, 0x3f, 0x80, 0x3f]);
    assert_eq!(line[6..], [0; LINE - 6]);
}

#[test]
fn numbers_are_rounded_to_the_nearest_bf16_and_interleaved() {
    let Some(isa) = with_tiles() else { return };
    // Two ties, of which the even one is below and above, the largest numbers, and what is not finite.
    let special = [0x3f80_8000, 0x3f81_8000, 0x7f7f_ffff, 0xff7f_0000, 0x7f80_0000, 0xff80_0000, 0x8000_0000];
    let all: Vec<f32> =
        special.into_iter().map(f32::from_bits).chain((0..57).map(|i| (i as f32).sin() * 1e3)).collect();
    let bits = |x: f32| bf16::from_f32(x).to_bits();
    for count in [1, 16, 31, 32] {
        let values = &all[..count];
        let mut line = [7; LINE];
        run(isa, |tiles| line = tiles.line(values));
        for (at, number) in numbers(&line).as_flattened().iter().enumerate() {
            assert_eq!(*number, values.get(at).map_or(0, |x| bits(*x)), "number {at} of {count}");
        }
    }
    for (low, high) in [(16, 16), (16, 0), (3, 3)] {
        let (low, high) = (&all[..low], &all[32..][..high]);
        let mut line = [7; LINE];
        run(isa, |tiles| line = tiles.interleaved(low, high));
        for (at, pair) in numbers(&line).iter().enumerate() {
            assert_eq!(*pair, [low, high].map(|of| of.get(at).map_or(0, |x| bits(*x))), "word {at}");
        }
    }
    let mut line = [0; LINE];
    run(isa, |tiles| line = tiles.line(&[f32::NAN, f32::from_bits(1), -f32::MIN_POSITIVE]));
    let [[nan, tiny], [normal, _]] = numbers(&line)[..2] else { panic!("two words") };
    assert!(bf16::from_bits(nan).is_nan(), "{nan:x}");
    assert_eq!((tiny, normal), (0, bits(-f32::MIN_POSITIVE)), "numbers below the normal ones are 0");
}

#[test]
fn a_square_has_the_products_of_its_tiles_and_nothing_beside_it() {
    let Some(isa) = with_tiles() else { return };
    let stride = PAIR + 5;
    for steps in [1, 3] {
        let left = |row: usize, k: usize| ((row * 7 + k * 3) % 13) as f32 - 6.0;
        let right = |k: usize, column: usize| ((k * 5 + column * 11) % 17) as f32 - 8.0;
        let mut matrices = vec![Tile::ZERO; 4 * steps];
        let mut to = vec![f32::NAN; PAIR * stride];
        run(isa, |tiles| {
            for at in 0..2 * steps * ROWS {
                let (band, step, row) = (at / ROWS / steps, at / ROWS % steps, at % ROWS);
                let of_row: Vec<f32> =
                    (0..2 * WORDS).map(|k| left(band * ROWS + row, step * 2 * WORDS + k)).collect();
                matrices[band * steps + step].0[row] = tiles.line(&of_row);
                let of_pair = |k: usize| -> Vec<f32> {
                    (0..WORDS).map(|c| right(step * 2 * WORDS + k, band * WORDS + c)).collect()
                };
                matrices[(2 + band) * steps + step].0[row] =
                    tiles.interleaved(&of_pair(2 * row), &of_pair(2 * row + 1));
            }
            let all: Vec<&[Tile]> = matrices.chunks_exact(steps).collect();
            tiles.square([all[0], all[1]], [all[2], all[3]], &mut to, stride);
        });
        for (row, sums) in to.chunks_exact(stride).enumerate() {
            for (column, sum) in sums[..PAIR].iter().enumerate() {
                let expected: f32 = (0..2 * WORDS * steps).map(|k| left(row, k) * right(k, column)).sum();
                assert_eq!(*sum, expected, "row {row}, column {column}");
            }
            assert!(sums[PAIR..].iter().all(|beside| beside.is_nan()), "row {row}");
        }
    }
}

#[test]
fn a_square_that_does_not_fit_is_refused() {
    let Some(isa) = with_tiles() else { return };
    let (one, two) = ([Tile::ZERO], [Tile::ZERO; 2]);
    let refused = |left: [&[Tile]; 2], length: usize| {
        let square = || run(isa, |tiles| tiles.square(left, [&one, &one], &mut vec![0.0; length], PAIR));
        std::panic::catch_unwind(square).is_err()
    };
    assert!(!refused([&one, &one], PAIR * PAIR));
    assert!(refused([&one, &two], PAIR * PAIR), "bands of two lengths");
    assert!(refused([&one, &[]], PAIR * PAIR), "no tiles");
    assert!(refused([&one, &one], PAIR * PAIR - 1), "no room");
}

#[test]
fn threads_multiply_at_the_same_time() {
    let Some(isa) = with_tiles() else { return };
    std::thread::scope(|scope| {
        let work = |left: u8| {
            move || {
                for _ in 0..200 {
                    let sums = products(isa, 8 * WORDS, PAIR, left, 3);
                    let expected = 4 * 8 * WORDS as u32 * u32::from(left) * 3;
                    assert!(sums.as_flattened().iter().all(|sum| *sum == expected));
                }
            }
        };
        (1..=4).for_each(|left| drop(scope.spawn(work(left))));
    });
}

#[test]
fn a_tile_of_columns_is_the_transpose() {
    let Some(isa) = with_tiles() else { return };
    let mut lines = Tile::ZERO;
    for (line, bytes) in lines.0.iter_mut().enumerate() {
        for (word, bytes) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *bytes = (100 * line as u32 + word as u32).to_le_bytes();
        }
    }
    let mut tile = Tile::ZERO;
    run(isa, |tiles| tile.set_transposed(tiles, &lines));
    for (row, line) in tile.0.iter().enumerate() {
        for (word, bytes) in line.as_chunks::<4>().0.iter().enumerate() {
            assert_eq!(u32::from_le_bytes(*bytes), (100 * word + row) as u32, "row {row}, word {word}");
        }
    }
}
