//! Inner products, written so that the compiler turns them into SIMD.
//!
//! Every score of every kind of index comes from [`dot`], so that the same row has the same score everywhere.

/// Sums kept side by side. The order of additions is part of the result: it is fixed here, not left to the target.
const LANES: usize = 16;

/// Inner product of two vectors of one length.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len());
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    fold(sums) + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// Squared Euclidean distance of two vectors of one length; exactly 0 for equal ones, and the same both ways.
pub(super) fn squared_distance(a: &[f32], b: &[f32]) -> f32 {
    debug_assert_eq!(a.len(), b.len());
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    let mut sums = [0.0_f32; LANES];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            let difference = a[lane] - b[lane];
            sums[lane] += difference * difference;
        }
    }
    fold(sums) + a_rest.iter().zip(b_rest).map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
}

/// Squared length in f64, where it cannot overflow.
pub(super) fn squared_norm(a: &[f32]) -> f64 {
    a.iter().map(|value| f64::from(*value) * f64::from(*value)).sum()
}

fn fold(mut sums: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_every_length_are_the_plain_ones() {
        for len in [0, 1, 7, 16, 17, 31, 384, 767, 768] {
            let a: Vec<f32> = (0..len).map(|i| (i as f32 * 0.37).sin()).collect();
            let b: Vec<f32> = (0..len).map(|i| (i as f32 * 0.11).cos()).collect();
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
            assert!((f64::from(dot(&a, &b)) - plain).abs() < 1e-4, "{len}");
            let plain: f64 = a.iter().zip(&b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            assert!((f64::from(squared_distance(&a, &b)) - plain).abs() < 1e-4, "{len}");
            assert_eq!(squared_distance(&a, &a), 0.0);
            assert_eq!(squared_distance(&a, &b), squared_distance(&b, &a));
        }
    }
}
