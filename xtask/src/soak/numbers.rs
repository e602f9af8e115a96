//! Numbers that are the same in every run, and inner products.

/// A small generator (xorshift64*).
pub(super) struct Numbers(u64);

impl Numbers {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Returns 32 random bits.
    pub(super) fn bits(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Returns a number below `limit`.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.bits() as usize % limit.max(1)
    }

    /// Returns a vector of length 1, `[dim]`.
    pub(super) fn unit(&mut self, dim: usize) -> Vec<f32> {
        let values: Vec<f32> = (0..dim).map(|_| self.bits() as f32 / u32::MAX as f32 - 0.5).collect();
        let length = dot(&values, &values).sqrt().max(f32::MIN_POSITIVE);
        values.iter().map(|value| value / length).collect()
    }
}

/// Inner product, in sums of 16 that the compiler makes vectors of.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    let (a_chunks, b_chunks) = (a.chunks_exact(16), b.chunks_exact(16));
    let rest: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_chunks.zip(b_chunks) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_have_length_1_and_differ() {
        let mut numbers = Numbers::new(7);
        let (a, b) = (numbers.unit(48), numbers.unit(48));
        assert!((dot(&a, &a) - 1.0).abs() < 1e-5 && dot(&a, &b).abs() < 0.9);
        assert_eq!(dot(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
        assert!((0..100).all(|_| numbers.below(7) < 7));
    }
}
