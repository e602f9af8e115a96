//! Fetching: a column of the table of texts, without the server learning which.
//!
//! The table `T` `[rows, columns]` holds bytes less 128. `A` `[columns, n]` stacks the negacyclic matrices of public
//! polynomials, the hint is `H = T A`, and the question for column `c` is `A s + e + 2^24 u_c`. The answer is `T` times
//! the question, so the answer less `H s` is `2^24 T u_c` and noise below half of 2^24: bytes come back exactly.
//!
//! ```compile_fail,E0382
//! # use dpr_core::private::encrypted::FetchMask;
//! # fn ask(mask: FetchMask) -> Result<(), Box<dyn std::error::Error>> {
//! let (first, _) = mask.encrypt(1)?;
//! let (second, _) = mask.encrypt(2)?; // would show which two columns
//! # Ok(())
//! # }
//! ```

use zeroize::Zeroizing;

use super::params::{BYTE_SHIFT, FETCH_BITS, FetchShape};
use super::public::{self, TablesHash};
use super::secret::{Seed, Stream, modulo};
use super::wire::{WireError, check_length, pack, unpack};
use crate::kernel::ring::{Ntt, multiply_signs};

/// Two primes below 2^31 whose product is above any sum that is taken apart by them.
const PRIMES: [u32; 2] = [2_013_265_921, 998_244_353];

/// Products in `Z[X]/(X^n + 1)`, modulo 2^32 and exact before that: by two primes and the Chinese remainder theorem.
#[derive(Debug)]
pub struct WideRing([Ntt; 2]);

/// A polynomial's transforms by both primes.
pub type WideTransform = [Vec<u32>; 2];

impl WideRing {
    /// Makes the ring of `shape`.
    ///
    /// # Panics
    /// Never: both primes have a root.
    pub fn new(shape: &FetchShape) -> Self {
        let ring =
            |prime| Ntt::new(prime, shape.set().degree).unwrap_or_else(|| unreachable!("it has a root"));
        Self(PRIMES.map(ring))
    }

    /// Returns the transforms of numbers below 2^32.
    pub fn of_words(&self, words: &[u32]) -> WideTransform {
        self.each(|ntt| words.iter().map(|word| word % ntt.modulus()).collect())
    }

    /// Returns the transforms of small signed numbers.
    pub fn of_signed(&self, numbers: &[i32]) -> WideTransform {
        self.each(|ntt| numbers.iter().map(|number| modulo(*number, ntt.modulus())).collect())
    }

    fn each(&self, of: impl Fn(&Ntt) -> Vec<u32>) -> WideTransform {
        self.0.each_ref().map(|ntt| {
            let mut values = of(ntt);
            ntt.forward(&mut values);
            values
        })
    }

    /// Adds the product of two polynomials to `sums`, all as transforms.
    pub fn add_product(&self, sums: &mut WideTransform, a: &WideTransform, b: &WideTransform) {
        for (((ntt, sums), a), b) in self.0.iter().zip(sums).zip(a).zip(b) {
            let modulus = u64::from(ntt.modulus());
            for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                *sum = ((u64::from(*sum) + u64::from(*a) * u64::from(*b)) % modulus) as u32;
            }
        }
    }

    /// Returns the coefficients modulo 2^32 of a polynomial whose coefficients have a magnitude below 2^59. They are
    /// computed in the place of its transforms.
    pub fn coefficients(&self, sums: &mut WideTransform) -> Vec<u32> {
        for (ntt, sums) in self.0.iter().zip(sums.iter_mut()) {
            ntt.inverse(sums);
        }
        let [p, r] = PRIMES.map(u64::from);
        let inverse = inverse(p % r, r);
        let [by_p, by_r] = sums;
        let join = |(x, y): (&u32, &u32)| {
            let (x, y) = (u64::from(*x), u64::from(*y));
            let step = (y + r - x % r) * inverse % r;
            let joined = x + p * step;
            // Numbers in the upper half stand for negative ones.
            joined.wrapping_sub(p * r * u64::from(joined > p * r / 2)) as u32
        };
        by_p.iter().zip(by_r.iter()).map(join).collect()
    }

    /// Returns zero as transforms.
    pub fn zero(&self) -> WideTransform {
        self.0.each_ref().map(|ntt| vec![0; ntt.degree()])
    }
}

/// Returns the inverse of `number` modulo the prime `modulus`.
fn inverse(number: u64, modulus: u64) -> u64 {
    let (mut base, mut exponent, mut result) = (number, modulus - 2, 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result * base % modulus;
        }
        base = base * base % modulus;
        exponent >>= 1;
    }
    result
}

/// Returns the public randomness of a table of texts: a polynomial for each `degree` columns, one after the other.
pub fn randomness(shape: &FetchShape, tables: &TablesHash) -> Vec<u32> {
    public::words(shape.set().name, tables, shape.columns())
}

/// The part that all questions to one table of texts share: the public randomness and the hint.
#[derive(Debug)]
pub struct FetchHint {
    shape: FetchShape,
    ring: WideRing,
    randomness: Vec<WideTransform>,
    /// The high bits of the hint, `[rows, degree]`.
    rows: Vec<u16>,
}

/// A fresh secret, multiplied with all that does not depend on the column: made before it is known.
pub struct FetchMask {
    /// `A s + e`, `[columns]`.
    samples: Zeroizing<Vec<u32>>,
    key: FetchKey,
}

/// The key that opens the answer to one question.
pub struct FetchKey {
    shape: FetchShape,
    /// `H s`, `[rows]`.
    masks: Zeroizing<Vec<u32>>,
}

impl FetchHint {
    /// Reads the hint of the tables with this hash.
    ///
    /// # Errors
    /// [`WireError::Length`].
    pub fn read(shape: &FetchShape, tables: &TablesHash, hint: &[u8]) -> Result<Self, WireError> {
        check_length("the hint for fetching", hint, shape.hint_bytes())?;
        let ring = WideRing::new(shape);
        let words = randomness(shape, tables);
        let randomness = words.chunks_exact(shape.set().degree).map(|a| ring.of_words(a)).collect();
        let rows = hint.as_chunks().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect();
        Ok(Self { shape: shape.clone(), ring, randomness, rows })
    }

    /// Returns the shape of the table.
    pub fn shape(&self) -> &FetchShape {
        &self.shape
    }
}

impl FetchMask {
    /// Draws a secret and errors from `seed` and multiplies them with the public numbers.
    pub fn prepare(hint: &FetchHint, seed: Seed) -> Self {
        let (set, shape) = (hint.shape.set(), &hint.shape);
        let mut stream = Stream::new(seed);
        let signs = stream.ternary(set.degree);
        let secret = Zeroizing::new(hint.ring.of_signed(&signs));
        let mut samples = Zeroizing::new(Vec::<u32>::with_capacity(shape.columns()));
        for a in &hint.randomness {
            let mut product = Zeroizing::new(hint.ring.zero());
            hint.ring.add_product(&mut product, a, &secret);
            samples.extend(Zeroizing::new(hint.ring.coefficients(&mut product)).iter());
        }
        stream.errors(samples.len(), set.error_bits, |at, error| {
            samples[at] = samples[at].wrapping_add(error as u32);
        });
        let masks =
            hint.rows.chunks_exact(set.degree).map(|row| multiply_signs(row, &signs) << (32 - FETCH_BITS));
        let masks = Zeroizing::new(masks.collect());
        Self { samples, key: FetchKey { shape: shape.clone(), masks } }
    }

    /// Hides the number of a column, and returns it as it is sent, with the key to the answer.
    ///
    /// # Errors
    /// [`WireError::Column`] when `column` is out of range. The mask is consumed then too.
    pub fn encrypt(self, column: usize) -> Result<(Vec<u8>, FetchKey), WireError> {
        let Self { samples, key } = self;
        let columns = key.shape.columns();
        if column >= columns {
            return Err(WireError::Column { column, columns });
        }
        let shift = 32 - key.shape.sent_bits();
        // Every number is added to: the address must not tell the column.
        let sent = samples.iter().enumerate().map(|(at, number)| {
            let number = number.wrapping_add(u32::from(at == column) << BYTE_SHIFT);
            number.wrapping_add(1 << (shift - 1)) >> shift
        });
        let mut bytes = Vec::with_capacity(key.shape.question_bytes());
        pack(sent, key.shape.sent_bits(), &mut bytes);
        Ok((bytes, key))
    }
}

impl FetchKey {
    /// Returns the bytes of the column, `[rows]`. Whether they are the ones of the table is for
    /// [`Columns::verify`](super::manifest::Columns::verify) to say.
    ///
    /// # Errors
    /// [`WireError::Length`].
    pub fn open(self, answer: &[u8]) -> Result<Vec<u8>, WireError> {
        check_length("the answer to a fetch", answer, self.shape.answer_bytes())?;
        let byte = |(number, mask): (u32, &u32)| {
            let noisy = (number << (32 - FETCH_BITS)).wrapping_sub(*mask);
            (noisy.wrapping_add(1 << (BYTE_SHIFT - 1)) >> BYTE_SHIFT) as u8 ^ 0x80
        };
        Ok(unpack(answer, FETCH_BITS).zip(self.masks.iter()).map(byte).collect())
    }
}
