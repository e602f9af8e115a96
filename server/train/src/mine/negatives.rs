//! Random negatives, the same under one seed on any number of threads.

use dpr_core::random::{SplitMix, mix};

/// Offset of the seed: the step of [`SplitMix`], so that a seed of 0 is not mixed to 0.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the random numbers of one question, so that its draws depend on nothing but the seed and its number.
pub(super) fn draws(seed: u64, question: usize) -> SplitMix {
    // Mixed twice: states a few steps apart would give neighbours the same draws, shifted.
    SplitMix::new(mix(mix(seed.wrapping_add(STEP)) ^ mix(!(question as u64))))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn draw(seed: u64, question: usize, count: usize, limit: usize) -> Vec<usize> {
        let mut draws = draws(seed, question);
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
