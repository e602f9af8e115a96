//! Products by AMX, where the machine has it.

use super::*;
use crate::kernel::gemm::Panels;
#[cfg(all(feature = "autodiff", feature = "flex"))]
use crate::kernel::isa::vectorised;

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

#[test]
fn a_reused_matrix_has_zeros_beyond_its_columns() {
    let mut tiles = LeftTiles::default();
    tiles.resize(1, WORDS);
    tiles.set_bf16(0, &[f32::NAN; 2 * WORDS]);
    tiles.set_bf16(0, &[1.0; 3]);
    let line = tiles.band(0)[0].0[0];
    assert_eq!(line[..6], [0x80, 0x3f, 0x80, 0x3f, 0x80, 0x3f]);
    assert_eq!(line[6..], [0; LINE - 6]);
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

#[cfg(all(feature = "autodiff", feature = "flex"))]
#[test]
fn a_tile_of_columns_is_the_transpose() {
    let Some(isa) = with_tiles() else { return };
    let lines: [[u32; WORDS]; ROWS] =
        std::array::from_fn(|line| std::array::from_fn(|word| (100 * line + word) as u32));
    let mut tile = Tile::ZERO;
    let configured = Tiles::configure(isa).expect("AMX");
    let (tiles, target, from) = (&configured, &mut tile, &lines);
    vectorised!(isa, |tiles: &Tiles, target: &mut Tile, from: &[[u32; WORDS]; ROWS]| {
        target.set_transposed(tiles, from);
    });
    for (row, line) in tile.0.iter().enumerate() {
        for (word, bytes) in line.as_chunks::<4>().0.iter().enumerate() {
            assert_eq!(u32::from_le_bytes(*bytes), (100 * word + row) as u32, "row {row}, word {word}");
        }
    }
}
