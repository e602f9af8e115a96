//! Random negatives, the same under the same seed whatever the threads.

/// A small generator (SplitMix64, Steele et al. 2014), so that a question's draws depend on nothing but its number.
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(seed: u64, question: usize) -> Self {
        let mut draws = Self(seed ^ (question as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        draws.next();
        draws
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_spread_and_repeatable() {
        let draw = |seed, question| {
            let mut draws = Draws::new(seed, question);
            (0..1000).map(|_| draws.below(10)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
        for number in 0..10 {
            let share = draw(1, 2).into_iter().filter(|drawn| *drawn == number).count();
            assert!((60..140).contains(&share), "{number} was drawn {share} times");
        }
    }
}
