//! Factors of dropout (Srivastava et al. 2014).

use super::isa::{best, vectorised};
use crate::random::SplitMix;

/// Numbers drawn in one turn of the loop.
const DRAWS: usize = 8;

/// Decisions made by one number: attention probabilities alone call for millions a batch.
const DECISIONS: usize = 4;

/// Returns `length` factors of dropout, each 0 with probability `rate` (to 1 / 65536) and else 1 / (1 - rate).
pub(crate) fn mask(random: &mut SplitMix, length: usize, rate: f32) -> Vec<f32> {
    let limit = (f64::from(rate) * 65536.0).round() as u32;
    let keep = 1.0 / (1.0 - rate);
    let mut factors = vec![0f32; length];
    let mask = factors.as_mut_slice();
    vectorised!(best(), |random: &mut SplitMix, mask: &mut [f32], limit: u32, keep: f32| {
        for mask in mask.chunks_mut(DRAWS * DECISIONS) {
            let draws: [u64; DRAWS] = random.several();
            let decide = |at: usize| {
                let share = (draws[at / DECISIONS] >> (16 * (at % DECISIONS))) as u32 & 0xffff;
                if share >= limit { keep } else { 0.0 }
            };
            match mask.first_chunk_mut::<{ DRAWS * DECISIONS }>() {
                Some(mask) => *mask = std::array::from_fn(decide),
                None => mask.iter_mut().enumerate().for_each(|(at, mask)| *mask = decide(at)),
            }
        }
    });
    factors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_left_out_and_the_mean_stays() {
        let mask = super::mask(&mut SplitMix::new(1), 1_000_003, 0.1);
        let zeros = mask.iter().filter(|value| **value == 0.0).count() as f64 / mask.len() as f64;
        let mean = mask.iter().map(|value| f64::from(*value)).sum::<f64>() / mask.len() as f64;
        assert!((zeros - 0.1).abs() < 0.002, "{zeros}");
        assert!((mean - 1.0).abs() < 0.002, "{mean}");
        assert!(mask[1_000_000..].iter().all(|value| *value == 0.0 || (value - 1.0 / 0.9).abs() < 1e-6));
    }
}
