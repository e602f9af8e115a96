//! Seeds from the platform's random number generator, and the secrets and errors that are drawn from them.
//!
//! A [`Seed`] is used once: whatever draws from it consumes it. It can be neither copied nor printed, and its memory
//! is overwritten when it is dropped.
//!
//! ```compile_fail,E0382
//! # use dpr_core::private::encrypted::{RankHint, RankMask, Seed};
//! # fn prepare(hint: &RankHint) -> Result<(), Box<dyn std::error::Error>> {
//! let seed = Seed::random()?;
//! let mask = RankMask::prepare(hint, seed);
//! let again = RankMask::prepare(hint, seed); // the same secret for two questions
//! # Ok(())
//! # }
//! ```

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng as _, SeedableRng as _};
use zeroize::{Zeroize as _, ZeroizeOnDrop, Zeroizing};

/// The platform gave no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the platform gives no random numbers: {0}")]
pub struct RandomError(getrandom::Error);

/// The 256 bits from which one secret and its errors are drawn.
#[derive(ZeroizeOnDrop)]
pub struct Seed([u8; 32]);

impl Seed {
    /// Draws a seed from the platform's generator, which is the only way to get one.
    ///
    /// # Errors
    /// [`RandomError`] when the platform has none.
    pub fn random() -> Result<Self, RandomError> {
        let mut seed = Self([0; 32]);
        getrandom::fill(&mut seed.0).map_err(RandomError)?;
        Ok(seed)
    }

    /// A seed for known answers.
    #[cfg(test)]
    pub(super) fn of_test(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

/// The keystream of a seed (ChaCha20, RFC 8439, nonce 0, counter from 0), as little-endian 32-bit numbers.
pub(super) struct Stream {
    keystream: ChaCha20Rng,
    buffer: Zeroizing<[u8; 1024]>,
}

impl Stream {
    pub(super) fn new(seed: Seed) -> Self {
        let mut key = seed.0;
        let keystream = ChaCha20Rng::from_seed(key);
        key.zeroize();
        Self { keystream, buffer: Zeroizing::new([0; 1024]) }
    }

    /// Calls `take` with `count` numbers.
    fn numbers(&mut self, count: usize, mut take: impl FnMut(usize, u32)) {
        for start in (0..count).step_by(256) {
            let part = &mut self.buffer[..4 * (count - start).min(256)];
            self.keystream.fill_bytes(part);
            for (at, number) in part.as_chunks().0.iter().enumerate() {
                take(start + at, u32::from_le_bytes(*number));
            }
        }
    }

    /// Returns `count` numbers that are -1, 0 or 1, each as often but for 2^-32. Neither a branch nor an address
    /// depends on them.
    pub(super) fn ternary(&mut self, count: usize) -> Zeroizing<Vec<i32>> {
        let mut secret = Zeroizing::new(vec![0; count]);
        self.numbers(count, |at, number| secret[at] = ((3 * u64::from(number)) >> 32) as i32 - 1);
        secret
    }

    /// Calls `add` with `count` errors, uniform in `[-2^(bits - 1), 2^(bits - 1))`, and their places.
    pub(super) fn errors(&mut self, count: usize, bits: u32, mut add: impl FnMut(usize, i32)) {
        let mask = (1 << bits) - 1;
        self.numbers(count, |at, number| add(at, (number & mask) as i32 - (1 << (bits - 1))));
    }
}

/// Returns the place of a signed number modulo `modulus`, without a branch; its magnitude is below the modulus.
pub(super) fn modulo(number: i32, modulus: u32) -> u32 {
    number.wrapping_add((number >> 31) & modulus as i32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_even() {
        let mut stream = Stream::new(Seed::random().unwrap());
        let count = 300_000;
        let mut counts = [0f64; 3];
        stream.ternary(count).iter().for_each(|number| counts[(number + 1) as usize] += 1.0);
        let mut errors = [0f64; 32];
        stream.errors(count, 5, |_, error| errors[(error + 16) as usize] += 1.0);
        let chi_square = |counts: &[f64]| {
            let expected = count as f64 / counts.len() as f64;
            counts.iter().map(|found| (found - expected).powi(2) / expected).sum::<f64>()
        };
        // Exceeded once in a billion runs: 41.4 for 2 and 103 for 31 degrees of freedom.
        assert!(chi_square(&counts) < 41.4, "{counts:?}");
        assert!(chi_square(&errors) < 103.0, "{errors:?}");
    }

    #[test]
    fn seeds_differ() {
        let seeds: std::collections::BTreeSet<[u8; 32]> =
            (0..10_000).map(|_| Seed::random().unwrap().0).collect();
        assert_eq!(seeds.len(), 10_000);
    }

    #[test]
    fn signed_numbers_find_their_place() {
        for number in [-1024, -1, 0, 1, 1023] {
            assert_eq!(i64::from(modulo(number, 268_369_921)), i64::from(number).rem_euclid(268_369_921));
        }
    }
}
