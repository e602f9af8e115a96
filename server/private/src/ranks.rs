//! Products of polynomials with a rank table, in the order in which memory is read fastest.

use dpr_core::kernel::ring::{CHUNK, multiply_transforms};
use dpr_core::private::encrypted::RankShape;
use dpr_core::private::encrypted::rank;
use rayon::prelude::*;

/// Polynomials that are transformed before they are put in order.
const AT_ONCE: usize = 512;

/// Blocks that are multiplied between two looks at whether the answer is wanted.
const BLOCKS: usize = 64;

/// Transforms of polynomials by chunks of coefficients, `[degree / 64, polynomials, 64]`: a chunk of a question stays
/// in the cache while that chunk of the whole table is read from its begin to its end.
#[derive(Debug)]
pub(crate) struct Transforms(Vec<u32>);

impl Transforms {
    /// Puts transforms `[polynomials, degree]` in order.
    pub(crate) fn of(shape: &RankShape, transforms: &[u32]) -> Self {
        let degree = shape.set().degree;
        let mut ordered = vec![0; transforms.len()];
        for (at, places) in ordered.chunks_exact_mut(transforms.len() / degree * CHUNK).enumerate() {
            copy_chunk(at, transforms, degree, places);
        }
        Self(ordered)
    }

    /// Returns the transforms of a rank table `[blocks, dims, degree]` of signed bytes.
    pub(crate) fn of_table(shape: &RankShape, table: &[i8]) -> Self {
        let (set, ntt) = (shape.set(), rank::transform(shape));
        let chunk = table.len() / set.degree * CHUNK;
        let mut ordered = vec![0; table.len()];
        let mut transforms = vec![0; table.len().min(AT_ONCE * set.degree)];
        for (part, table) in table.chunks(AT_ONCE * set.degree).enumerate() {
            let transforms = &mut transforms[..table.len()];
            let polynomials = transforms.par_chunks_mut(set.degree).zip(table.par_chunks(set.degree));
            polynomials.for_each(|(transform, numbers)| {
                for (place, number) in transform.iter_mut().zip(numbers) {
                    *place = i64::from(*number).rem_euclid(i64::from(set.modulus)) as u32;
                }
                ntt.forward(transform);
            });
            ordered.par_chunks_exact_mut(chunk).enumerate().for_each(|(at, places)| {
                copy_chunk(at, transforms, set.degree, &mut places[part * AT_ONCE * CHUNK..]);
            });
        }
        Self(ordered)
    }
}

/// Copies chunk `at` of each of the transforms `[polynomials, degree]` to `places`, one after the other.
fn copy_chunk(at: usize, transforms: &[u32], degree: usize, places: &mut [u32]) {
    for (place, transform) in places.chunks_exact_mut(CHUNK).zip(transforms.chunks_exact(degree)) {
        place.copy_from_slice(&transform[at * CHUNK..][..CHUNK]);
    }
}

/// Returns for each question `[dims]` of polynomials the sums of its products with each block `[dims]` of the table, as
/// coefficients `[blocks, degree]`, or `None` if they were no longer wanted. The table is read once for all questions.
pub(crate) fn products(
    shape: &RankShape,
    table: &Transforms,
    questions: &[&Transforms],
    is_wanted: &dyn Fn() -> bool,
) -> Option<Vec<Vec<u32>>> {
    let (set, ntt) = (shape.set(), rank::transform(shape));
    let (blocks, block) = (table.0.len() / set.degree / shape.dims(), shape.dims() * CHUNK);
    let mut products = vec![vec![0; blocks * set.degree]; questions.len()];
    let mut sums = vec![0; questions.len() * CHUNK];
    for (chunk, table) in table.0.chunks_exact(blocks * block).enumerate() {
        let questions: Vec<&[u32]> =
            questions.iter().map(|question| &question.0[chunk * block..][..block]).collect();
        for (at, table) in table.chunks_exact(block).enumerate() {
            if at % BLOCKS == 0 && !is_wanted() {
                return None;
            }
            multiply_transforms(table, &questions, CHUNK, set.modulus, &mut sums);
            for (product, sums) in products.iter_mut().zip(sums.chunks_exact(CHUNK)) {
                product[at * set.degree + chunk * CHUNK..][..CHUNK].copy_from_slice(sums);
            }
        }
    }
    products
        .iter_mut()
        .flat_map(|product| product.chunks_exact_mut(set.degree))
        .for_each(|sums| ntt.inverse(sums));
    Some(products)
}
