//! Random negatives, the same under the same seed whatever the threads.

/// A small generator (SplitMix64, Steele et al. 2014), so that a question's draws depend on nothing but its number.
pub(super) struct Draws(u64);

/// The generator's step.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Draws {
    pub(super) fn new(seed: u64, question: usize) -> Self {
        // Mixed twice: states a few steps apart would give neighbours the same draws, shifted.
        Self(mix(mix(seed.wrapping_add(STEP)) ^ mix(!(question as u64))))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `limit`, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn draw(seed: u64, question: usize, count: usize, limit: usize) -> Vec<usize> {
        let mut draws = Draws::new(seed, question);
        (0..count).map(|_| draws.below(limit)).collect()
    }

    #[test]
    fn draws_are_spread_and_repeatable() {
        assert_eq!(draw(1, 2, 1000, 10), draw(1, 2, 1000, 10));
        assert_ne!(draw(1, 2, 1000, 10), draw(2, 2, 1000, 10));
        let drawn = draw(1, 2, 1000, 10);
        for number in 0..10 {
            let share = drawn.iter().filter(|drawn| **drawn == number).count();
            assert!((60..140).contains(&share), "{number} was drawn {share} times");
        }
    }

    #[test]
    fn questions_share_no_more_draws_than_chance_gives() {
        for seed in [0, 1, 2, 42, 12345, u64::MAX] {
            let all: HashSet<usize> =
                (0..500).flat_map(|question| draw(seed, question, 30, 1_000_000)).collect();
            // Of 15,000 draws out of a million some 110 meet another.
            assert!(all.len() > 14_800, "seed {seed}: {} different draws of 15,000", all.len());
        }
    }
}
