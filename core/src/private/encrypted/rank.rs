//! Ranking: scores of all passages for a question that the server does not see.
//!
//! `P[t][i]` is the polynomial whose coefficient `l` is coordinate `i` of passage `t n + l`. The question's coordinate
//! `z_i` travels as `b_i = a_i s + e_i + round(G z_i)`; the server returns the high bits of `sum_i b_i P[t][i]`, and
//! the hint, the same for everybody, is `A[t] = sum_i a_i P[t][i]`. So the answer less `A[t] s` has in coefficient `l`
//! the inner product of `z` and the passage, times `G`, and noise: decryption is approximate on purpose.
//!
//! A mask hides one question, and a key opens one answer:
//!
//! ```compile_fail,E0382
//! # use dpr_core::private::encrypted::RankMask;
//! # fn ask(mask: RankMask, z: &[f32]) -> Result<(), Box<dyn std::error::Error>> {
//! let (first, _) = mask.encrypt(z)?;
//! let (second, _) = mask.encrypt(z)?; // would show the difference of two questions
//! # Ok(())
//! # }
//! ```
//! ```compile_fail,E0382
//! # use dpr_core::private::encrypted::RankKey;
//! # fn ask(key: RankKey, answer: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
//! let scores = key.open(answer)?;
//! let again = key.open(answer)?; // a key is consumed by the answer that it opens
//! # Ok(())
//! # }
//! ```

use std::sync::OnceLock;

use zeroize::Zeroizing;

use super::params::{RANK_ANSWER_BITS, RANK_BITS, RANK_SETS, ROW_NORM, RankShape};
use super::public::{self, TablesHash};
use super::secret::{Seed, Stream, modulo};
use super::wire::{WireError, check_length, pack, unpack};
use crate::kernel::ring::Ntt;

/// The part that all questions to one rank table share: the public randomness and the hint, as transforms.
#[derive(Debug)]
pub struct RankHint {
    shape: RankShape,
    ntt: &'static Ntt,
    /// `a`, `[dims, degree]`.
    randomness: Vec<u32>,
    /// The hint, `[blocks, degree]`.
    blocks: Vec<u32>,
}

/// A fresh secret, multiplied with all that does not depend on the question: made before there is one.
pub struct RankMask {
    /// `a_i s + e_i`, `[dims, degree]`.
    pub(super) samples: Zeroizing<Vec<u32>>,
    key: RankKey,
}

/// The key that opens the answer to one question.
pub struct RankKey {
    shape: RankShape,
    /// `A[t] s`, `[blocks, degree]`.
    masks: Zeroizing<Vec<u32>>,
}

/// Returns the transform of the ring of `shape`, whose tables are made once.
///
/// # Panics
/// Never: the sets have a root.
pub fn transform(shape: &RankShape) -> &'static Ntt {
    static RINGS: [OnceLock<Ntt>; RANK_SETS.len()] = [const { OnceLock::new() }; RANK_SETS.len()];
    let set = shape.set();
    let at = RANK_SETS.iter().position(|known| known.number == set.number).unwrap_or_default();
    RINGS[at].get_or_init(|| {
        Ntt::new(set.modulus, set.degree).unwrap_or_else(|| unreachable!("the sets of `params` have a root"))
    })
}

/// Returns the public randomness of a rank table, `[dims, degree]`, drawn as transforms.
pub fn randomness(shape: &RankShape, tables: &TablesHash) -> Vec<u32> {
    let set = shape.set();
    public::below(set.name, tables, set.modulus, shape.dims() * set.degree)
}

/// Returns a row of the rank table: coordinates multiplied by `scale` and rounded. A row that would be longer than
/// [`ROW_NORM`] is shortened along its own direction, so that one vector that is far longer than the others
/// changes neither the scale of their rows nor its own direction.
pub fn rounded_row(coordinates: &[f64], scale: f64) -> Vec<i8> {
    let length = coordinates.iter().map(|number| number * number).sum::<f64>().sqrt();
    let mut factor = scale.min(ROW_NORM / length);
    loop {
        let row: Vec<i8> = coordinates.iter().map(|number| (number * factor).round() as i8).collect();
        let squares = row.iter().map(|number| i64::from(*number).pow(2)).sum::<i64>();
        if squares as f64 <= ROW_NORM * ROW_NORM {
            return row;
        }
        // Rounding makes rows longer, by little.
        factor *= 0.995;
    }
}

impl RankHint {
    /// Reads the hint of the tables with this hash.
    ///
    /// # Errors
    /// [`WireError::Length`].
    pub fn read(shape: &RankShape, tables: &TablesHash, hint: &[u8]) -> Result<Self, WireError> {
        check_length("the hint for ranking", hint, shape.hint_bytes())?;
        let (set, ntt) = (shape.set(), transform(shape));
        let shift = RANK_BITS - set.hint_bits;
        // The highest numbers of so many bits are above the modulus.
        let reduce = |number: u32| (number << shift) % set.modulus;
        let mut blocks: Vec<u32> = unpack(hint, set.hint_bits).map(reduce).collect();
        blocks.chunks_exact_mut(set.degree).for_each(|block| ntt.forward(block));
        Ok(Self { shape: shape.clone(), randomness: randomness(shape, tables), ntt, blocks })
    }

    /// Returns the shape of the table.
    pub fn shape(&self) -> &RankShape {
        &self.shape
    }
}

impl RankMask {
    /// Draws a secret and errors from `seed` and multiplies them with the public numbers.
    pub fn prepare(hint: &RankHint, seed: Seed) -> Self {
        let (set, ntt) = (hint.shape.set(), hint.ntt);
        let mut stream = Stream::new(seed);
        let mut secret = Zeroizing::new(vec![0; set.degree]);
        for (place, number) in secret.iter_mut().zip(stream.ternary(set.degree).iter()) {
            *place = modulo(*number, set.modulus);
        }
        ntt.forward(&mut secret);
        let times_secret = |polynomials: &[u32]| {
            let mut products = Zeroizing::new(polynomials.to_vec());
            for product in products.chunks_exact_mut(set.degree) {
                ntt.multiply(product, &secret);
                ntt.inverse(product);
            }
            products
        };
        let mut samples = times_secret(&hint.randomness);
        stream.errors(samples.len(), set.error_bits, |at, error| {
            samples[at] = add(samples[at], modulo(error, set.modulus), set.modulus);
        });
        let key = RankKey { shape: hint.shape.clone(), masks: times_secret(&hint.blocks) };
        Self { samples, key }
    }

    /// Hides the question `z` `[dims]`, of length 1 at most, and returns it as it is sent, with the key to the answer.
    ///
    /// # Errors
    /// [`WireError::Question`] for a question of another length, or with numbers that are not finite. The mask is
    /// spent all the same.
    pub fn encrypt(self, z: &[f32]) -> Result<(Vec<u8>, RankKey), WireError> {
        let Self { mut samples, key } = self;
        let (set, amplitude) = (key.shape.set(), key.shape.amplitude());
        if z.len() != key.shape.dims() {
            return Err(WireError::Question("another number of dimensions than the table"));
        }
        let norm: f64 = z.iter().map(|z| f64::from(*z).powi(2)).sum();
        if !norm.is_finite() || norm > 1.001 {
            return Err(WireError::Question("a length above 1, or numbers that are not finite"));
        }
        for (sample, z) in samples.chunks_exact_mut(set.degree).zip(z) {
            let message = modulo((amplitude * f64::from(*z)).round() as i32, set.modulus);
            if let Some(constant) = sample.first_mut() {
                *constant = add(*constant, message, set.modulus);
            }
        }
        let shift = RANK_BITS - set.sent_bits;
        let rounded = samples.iter().map(|number| (number + (1 << shift >> 1)) >> shift);
        let mut sent = Vec::with_capacity(key.shape.question_bytes());
        pack(rounded, set.sent_bits, &mut sent);
        Ok((sent, key))
    }
}

impl RankKey {
    /// Returns the inner product of the question with every passage's row, `[passages]`, as decoded from the answer:
    /// off by noise of the standard deviation that [`RankShape::noise`] predicts.
    ///
    /// # Errors
    /// [`WireError::Length`]. An answer that is wrong in another way gives wrong scores.
    pub fn open(self, answer: &[u8]) -> Result<Vec<f32>, WireError> {
        check_length("the answer to a ranking", answer, self.shape.answer_bytes())?;
        let (modulus, amplitude) = (i64::from(self.shape.set().modulus), self.shape.amplitude());
        let score = |(byte, mask): (&u8, &u32)| {
            let middle = ((2 * i64::from(*byte) + 1) * modulus) >> (RANK_ANSWER_BITS + 1);
            let difference = middle - i64::from(*mask);
            // To the nearest of the numbers that are equal modulo the modulus.
            let wrapped = difference - modulus * i64::from(2 * difference >= modulus)
                + modulus * i64::from(2 * difference < -modulus);
            (wrapped as f64 / amplitude) as f32
        };
        Ok(answer.iter().zip(self.masks.iter()).map(score).take(self.shape.passages()).collect())
    }
}

fn add(a: u32, b: u32, modulus: u32) -> u32 {
    let sum = a + b;
    sum.min(sum.wrapping_sub(modulus))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    #[test]
    fn a_row_of_any_length_keeps_its_direction_and_is_no_longer_than_the_bound() {
        let mut random = SplitMix::new(4);
        let length = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
        for dims in [32, 256] {
            for longer in [0.5, 1.0, 3.0, 3000.0, 1e30] {
                let row: Vec<f64> = (0..dims).map(|_| random.normal()).collect();
                let scale = ROW_NORM / length(&row);
                let row: Vec<f64> = row.iter().map(|x| x * longer).collect();
                let rounded: Vec<f64> = rounded_row(&row, scale).into_iter().map(f64::from).collect();
                assert!(length(&rounded) <= ROW_NORM, "{dims} {longer}: {}", length(&rounded));
                let along: f64 = row.iter().zip(&rounded).map(|(a, b)| a * b).sum();
                let cosine = along / length(&row) / length(&rounded);
                assert!(cosine > 0.95, "{dims} {longer}: {cosine}");
            }
        }
        // A row along one axis, a row of zeros, and rows with a number that is not finite.
        assert_eq!(rounded_row(&[0.0, -1e9, 0.0], 1.0), [0, -44, 0]);
        assert_eq!(rounded_row(&[0.0; 3], 1e6), [0; 3]);
        for wrong in [f64::NAN, f64::INFINITY] {
            assert_eq!(rounded_row(&[wrong, wrong], 1.0), [0; 2]);
        }
    }
}
