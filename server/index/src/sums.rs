//! Sums over the numbers of a question, in f64.
//!
//! Of rows, [`squared_norm`](crate::vectors::squared_norm) is what an index stores, and it adds one number after another:
//! its bits must stay as they are.

/// Partial sums, which compilers keep in vectors.
const PARTS: usize = 8;

/// Returns the inner product of `a` and `b`, which are as long.
pub(super) fn product(a: &[f32], b: &[f32]) -> f64 {
    sum(a, b, |a, b| f64::from(a) * f64::from(b))
}

/// Returns the sum of the magnitudes of `values`.
pub(super) fn magnitudes(values: &[f32]) -> f64 {
    sum(values, values, |value, _| f64::from(value.abs()))
}

#[inline(always)]
fn sum(a: &[f32], b: &[f32], term: impl Fn(f32, f32) -> f64) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<PARTS>(), b.as_chunks::<PARTS>());
    let mut parts = [0.0; PARTS];
    for (a, b) in a.iter().zip(b) {
        parts.iter_mut().zip(a.iter().zip(b)).for_each(|(part, (a, b))| *part += term(*a, *b));
    }
    let rest = a_rest.iter().zip(b_rest).map(|(a, b)| term(*a, *b));
    parts.into_iter().chain(rest).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_one_number_after_another_whatever_the_length() {
        for len in [0, 1, 7, 8, 9, 100, 768] {
            // Whole numbers, so that no order of adding rounds.
            let a: Vec<f32> = (0..len).map(|at| (at * at % 17) as f32 - 8.0).collect();
            let b: Vec<f32> = (0..len).map(|at| (at % 5) as f32 - 1.0).collect();
            let expected: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(a * b)).sum();
            assert_eq!(product(&a, &b), expected, "{len}");
            let expected: f64 = a.iter().map(|a| f64::from(a.abs())).sum();
            assert_eq!(magnitudes(&a), expected, "{len}");
        }
    }
}
