//! Hints: what of every answer does not depend on the question.

use dpr_core::private::encrypted::fetch::{self, WideRing, WideTransform};
use dpr_core::private::encrypted::public::TablesHash;
use dpr_core::private::encrypted::rank;
use dpr_core::private::encrypted::wire;
use dpr_core::private::encrypted::{FetchShape, RankShape};
use rayon::prelude::*;

use crate::ranks::{self, Transforms};

/// Returns the hint of a rank table, given its transforms.
pub(crate) fn of_ranks(shape: &RankShape, tables: &TablesHash, table: &Transforms) -> Vec<u8> {
    let set = shape.set();
    let randomness = Transforms::of(shape, &rank::randomness(shape, tables));
    let shift = 28 - set.hint_bits;
    let products = ranks::products(shape, table, &[&randomness], &|| true).unwrap_or_default();
    let numbers = products.into_iter().flatten().map(|number| (number + (1 << (shift - 1))) >> shift);
    let mut bytes = Vec::with_capacity(shape.hint_bytes());
    wire::pack(numbers, set.hint_bits, &mut bytes);
    bytes
}

/// Returns the hint of a table of texts `[rows, columns]`, the high 16 bits of `T A`.
pub(crate) fn of_texts(shape: &FetchShape, tables: &TablesHash, table: &[i8]) -> Vec<u8> {
    let (degree, ring) = (shape.set().degree, WideRing::new(shape));
    let words = fetch::randomness(shape, tables);
    let turned: Vec<WideTransform> =
        words.par_chunks(degree).map(|a| ring.of_words(&transposed(a))).collect();
    let row = |row: &[i8]| {
        let mut sums = ring.zero();
        for (part, turned) in row.chunks(degree).zip(&turned) {
            let numbers: Vec<i32> = part.iter().map(|byte| i32::from(*byte)).collect();
            ring.add_product(&mut sums, &ring.of_signed(&numbers), turned);
        }
        let high = |number: u32| ((number.wrapping_add(1 << 15)) >> 16) as u16;
        ring.coefficients(&mut sums).into_iter().flat_map(move |number| high(number).to_le_bytes())
    };
    table.par_chunks(shape.columns()).flat_map_iter(row).collect()
}

/// Returns the polynomial whose negacyclic matrix is the transpose of that of `a`: `a(X^-1)`.
fn transposed(a: &[u32]) -> Vec<u32> {
    let reversed = a.iter().skip(1).rev().map(|number| number.wrapping_neg());
    a.first().copied().into_iter().chain(reversed).collect()
}
