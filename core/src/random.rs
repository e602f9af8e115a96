//! Random number generator (SplitMix64) whose numbers are the same on every machine and in every version.

/// SplitMix64 (Steele et al. 2014): tiny, and fixed for ever, which a library's generator need not be. The whole
/// state is one number, so that work that was stopped can draw the same numbers again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitMix(u64);

/// The step of the state from one draw to the next: 2^64 over the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SplitMix {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a generator of its own for each list of numbers, such as a run's seed, a step and a batch.
    pub fn keyed(key: &[u64]) -> Self {
        let state = key.iter().fold(0x243f_6a88_85a3_08d3, |state, part| {
            // One output between two parts spreads each over all bits before the next comes in.
            Self(state ^ part.wrapping_mul(STEP)).bits()
        });
        Self(state)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Returns what as many calls of [`SplitMix::bits`] would. Compilers vectorise this function.
    #[cfg(any(test, feature = "burn"))]
    #[inline(always)]
    pub(crate) fn several<const N: usize>(&mut self) -> [u64; N] {
        let state = self.0;
        self.0 = state.wrapping_add(STEP.wrapping_mul(N as u64));
        std::array::from_fn(|at| mix(state.wrapping_add(STEP.wrapping_mul(at as u64 + 1))))
    }

    /// Returns a whole number from 0 to `limit - 1`, even but for `limit / 2^64`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // The high half of the product: its bias is limit / 2^64.
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// Returns a nearly normal number: the sum of twelve uniform numbers minus six, which needs no transcendental
    /// function.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| (self.bits() >> 11) as f64 / (1u64 << 53) as f64).sum::<f64>() - 6.0
    }

    /// Puts `items` into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// Returns `bits` with each of them spread over all 64: the output function of [`SplitMix`]. It makes states of
/// several numbers where two states a few steps apart would give the same draws, shifted.
#[inline(always)]
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::SplitMix;

    #[test]
    fn the_published_numbers_come_out() {
        // SplitMix64 from seed 1234567, as in its reference implementation's test.
        let mut random = SplitMix::new(1234567);
        let expected = [6457827717110365317, 3203168211198807973, 9817491932198370423];
        assert_eq!(expected, std::array::from_fn(|_| random.bits()));
        let (mut one, mut several) = (SplitMix::new(7), SplitMix::new(7));
        for _ in 0..3 {
            assert_eq!(several.several::<5>(), std::array::from_fn(|_| one.bits()));
        }
    }

    #[test]
    fn every_key_and_every_order_of_one_has_numbers_of_its_own() {
        let keys: [&[u64]; 6] = [&[], &[0], &[0, 0], &[1, 2], &[2, 1], &[1, 2, 0]];
        let first: std::collections::BTreeSet<u64> =
            keys.iter().map(|key| SplitMix::keyed(key).bits()).collect();
        assert_eq!(first.len(), keys.len());
    }

    #[test]
    fn a_shuffle_keeps_every_item_and_favours_no_place() {
        let mut places = [[0u32; 5]; 5];
        for seed in 0..5000 {
            let mut items = [0, 1, 2, 3, 4];
            SplitMix::keyed(&[seed]).shuffle(&mut items);
            items.iter().enumerate().for_each(|(place, item)| places[*item][place] += 1);
        }
        // 1000 expected, standard deviation 28.
        assert!(places.iter().flatten().all(|count| (880..1120).contains(count)), "{places:?}");
    }
}
