//! Blurred questions: few coordinates and noise in the place of a question's vector.
//!
//! `y = P_d (q / |q| + r·g / √d)`, scaled to length 1 and rounded to f16: `P_d` are the first `d` principal directions
//! of the index, `g` has normally distributed numbers, so that `r` is about the length of the noise beside a question
//! of length 1. The noise is sticky: it is made from a key of the device and from the question, so that the same
//! question asked again is blurred in the same way and averaging gains nothing. It is added before the projection, and
//! does not depend on it: a server that hands out another projection each time sees one noisy vector from several
//! sides.
//!
//! This hides the wording of a question to a measured degree, not its topic, and no bound is proved: see
//! `docs/privacy.md`.

use std::fmt;

pub use super::device_key::DeviceKey;
use super::device_key::mac;
use super::projection::Projection;
use half::f16;
use serde::{Deserialize, Serialize};

/// The label of the noise in the input of HMAC, by which it is drawn; another version of the noise has another.
const LABEL: &[u8] = b"dpr blurred noise 1";

/// Uniform numbers whose sum is one normal number.
const UNIFORMS: usize = 12;

/// The degree to which a question is hidden. The numbers of each level are fixed: a server cannot choose weaker ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// 96 numbers, noise 0.3.
    Light,
    /// 64 numbers, noise 0.3.
    Medium,
    /// 48 numbers, noise 0.5.
    Strong,
}

/// The numbers of a level.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Blur {
    /// Coordinates that are sent.
    pub dims: usize,
    /// Length of the noise, beside a question of length 1.
    pub noise: f32,
}

impl Level {
    /// All levels, from the one that hides least.
    pub const ALL: [Self; 3] = [Self::Light, Self::Medium, Self::Strong];

    /// Returns the level's numbers.
    pub fn blur(self) -> Blur {
        match self {
            Self::Light => Blur { dims: 96, noise: 0.3 },
            Self::Medium => Blur { dims: 64, noise: 0.3 },
            Self::Strong => Blur { dims: 48, noise: 0.5 },
        }
    }

    /// Returns the share of exact search's 20 best that the candidates must hold for the level to be offered.
    pub fn wanted_recall(self) -> f64 {
        match self {
            Self::Light => 0.99,
            Self::Medium => 0.985,
            Self::Strong => 0.95,
        }
    }

    /// Returns the name: `light`, `medium` or `strong`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Medium => "medium",
            Self::Strong => "strong",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The reason why a question cannot be blurred.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BlurError {
    /// A projection with fewer rows than coordinates are sent.
    #[error("the projection has {rank} directions, {dims} are needed: use a level with fewer numbers")]
    Rank {
        /// Rows of the projection.
        rank: usize,
        /// Rows needed.
        dims: usize,
    },
    /// A vector of another model.
    #[error(
        "the question's vector has {got} numbers, the projection takes {expected}: was it encoded with another model?"
    )]
    Dimension {
        /// Numbers given.
        got: usize,
        /// Numbers that the projection takes.
        expected: usize,
    },
    /// A vector without direction.
    #[error("the question's vector is zero or not finite: the encoder that made it failed")]
    NoDirection,
}

impl Blur {
    /// Returns what is sent in the place of `question` `[dim]`: `dims` numbers of length 1 together, each as an f16
    /// holds it. `tokens` are the question's token ids, `model` is the fingerprint of its encoder.
    ///
    /// # Errors
    /// [`BlurError`] when the vector or the projection does not fit.
    pub fn apply(
        self,
        projection: &Projection,
        question: &[f32],
        key: &DeviceKey,
        model: &str,
        tokens: &[u32],
    ) -> Result<Vec<f32>, BlurError> {
        let noise = self.sticky_noise(key, model, tokens, question.len());
        self.with_noise(projection, question, &noise)
    }

    /// Returns what is sent with noise of `normal` `[dim]`, which are normally distributed numbers; numbers that are
    /// missing are 0.
    ///
    /// # Errors
    /// As [`Blur::apply`].
    pub fn with_noise(
        self,
        projection: &Projection,
        question: &[f32],
        normal: &[f64],
    ) -> Result<Vec<f32>, BlurError> {
        let Self { dims, noise } = self;
        if question.len() != projection.dim() {
            return Err(BlurError::Dimension { got: question.len(), expected: projection.dim() });
        }
        if dims == 0 || projection.rank() < dims {
            return Err(BlurError::Rank { rank: projection.rank(), dims });
        }
        let length = norm(question);
        let factor = f64::from(noise) / (dims as f64).sqrt();
        let noisy: Vec<f32> = question
            .iter()
            .zip(normal.iter().chain(std::iter::repeat(&0.0)))
            .map(|(value, normal)| (f64::from(*value) / length + factor * normal) as f32)
            .collect();
        let blurred = projection.project(&noisy, dims);
        let all = norm(&blurred);
        if !all.is_finite() || all == 0.0 {
            return Err(BlurError::NoDirection);
        }
        Ok(blurred.iter().map(|value| f16::from_f64(f64::from(*value) / all).to_f32()).collect())
    }

    /// Returns `count` nearly normal numbers that are the same whenever this device asks this question: made by
    /// HMAC-SHA256 from the device's key, the model, the level's numbers and the question's tokens.
    ///
    /// Two levels have noise that is independent. If both had the same, what was sent at both would give it away.
    fn sticky_noise(self, key: &DeviceKey, model: &str, tokens: &[u32], count: usize) -> Vec<f64> {
        let mut about = Vec::new();
        for part in [LABEL, model.as_bytes()] {
            about.extend((part.len() as u64).to_le_bytes());
            about.extend_from_slice(part);
        }
        about.extend((self.dims as u64).to_le_bytes());
        about.extend(self.noise.to_le_bytes());
        about.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
        let seed = key.mac(&about);
        let mut block = 0u64;
        let mut words = std::iter::repeat_with(|| {
            let bytes = mac(&seed, &block.to_le_bytes());
            block += 1;
            bytes
        })
        .flat_map(|bytes| bytes.as_chunks::<2>().0.to_vec())
        .map(|bytes| (f64::from(u16::from_le_bytes(bytes)) + 0.5) / 65_536.0);
        // The sum of twelve uniform numbers needs no function whose last digit differs between platforms, so that a
        // page and a program with one key send the same.
        (0..count).map(|_| words.by_ref().take(UNIFORMS).sum::<f64>() - UNIFORMS as f64 / 2.0).collect()
    }
}

fn norm(values: &[f32]) -> f64 {
    values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::orthonormal;

    const BLUR: Blur = Blur { dims: 48, noise: 0.5 };

    fn projection() -> Projection {
        Projection::new(vec![0.0; 64], &orthonormal(64, 64, 5)).unwrap()
    }

    fn question() -> Vec<f32> {
        (0..64).map(|at| (at as f32 * 0.7).sin() * 3.0).collect()
    }

    fn key(byte: u8) -> DeviceKey {
        DeviceKey::new([byte; 32])
    }

    #[test]
    fn the_same_question_is_blurred_alike_and_another_one_otherwise() {
        let (projection, question) = (projection(), question());
        let sent = |blur: Blur, key: &DeviceKey, model: &str, tokens: &[u32]| {
            blur.apply(&projection, &question, key, model, tokens).unwrap()
        };
        let first = sent(BLUR, &key(1), "m", &[1, 2, 3]);
        assert_eq!(first, sent(BLUR, &key(1), "m", &[1, 2, 3]), "sticky");
        let others = [
            sent(BLUR, &key(2), "m", &[1, 2, 3]),
            sent(BLUR, &key(1), "m", &[1, 2]),
            sent(BLUR, &key(1), "m", &[1, 3, 2]),
            sent(BLUR, &key(1), "n", &[1, 2, 3]),
            sent(Blur { noise: 0.51, ..BLUR }, &key(1), "m", &[1, 2, 3]),
        ];
        for (at, other) in others.iter().enumerate() {
            let same = first.iter().zip(other).filter(|(a, b)| a == b).count();
            assert!(same < 5, "{at}: {same} of 48 numbers are the same");
        }
    }

    #[test]
    fn what_is_sent_has_length_one_and_fits_f16() {
        let long: Vec<f32> = question().iter().map(|value| value * 1e4).collect();
        let sent = BLUR.apply(&projection(), &long, &key(1), "m", &[7]).unwrap();
        assert_eq!(sent.len(), 48);
        assert!((norm(&sent) - 1.0).abs() < 1e-3);
        assert!(sent.iter().all(|value| f16::from_f32(*value).to_f32() == *value));
        // The length of a question says something about it, so it must not be sent: 10,000 times the vector gives the
        // same, but for rounding.
        let short = BLUR.apply(&projection(), &question(), &key(1), "m", &[7]).unwrap();
        assert!(sent.iter().zip(&short).all(|(a, b)| (a - b).abs() < 1e-3));
    }

    #[test]
    fn noise_is_normal_and_as_long_as_it_says() {
        let blur = Blur { dims: 64, noise: 0.3 };
        let all: Vec<f64> = (0..2000).flat_map(|at| blur.sticky_noise(&key(9), "m", &[at], 64)).collect();
        let count = all.len() as f64;
        let mean = all.iter().sum::<f64>() / count;
        let variance = all.iter().map(|g| g * g).sum::<f64>() / count;
        let beyond = all.iter().filter(|g| g.abs() > 1.96).count() as f64 / count;
        // 128,000 draws: standard deviations 0.003, 0.004 and 0.0006.
        assert!(mean.abs() < 0.012, "{mean}");
        assert!((variance - 1.0).abs() < 0.016, "{variance}");
        assert!((beyond - 0.05).abs() < 0.004, "{beyond}");
        // Coordinates of two questions have nothing to do with each other.
        let along: f64 = all[..64_000].iter().zip(&all[64_000..]).map(|(a, b)| a * b).sum::<f64>() / 64_000.0;
        assert!(along.abs() < 0.016, "{along}");
    }

    /// From `python3 tests/python/blur_reference.py`, which has HMAC-SHA256 of Python's standard library.
    #[test]
    fn noise_is_that_of_the_reference() {
        let noise = Blur { dims: 4, noise: 0.3 }.sticky_noise(
            &DeviceKey::new(std::array::from_fn(|at| at as u8)),
            "model",
            &[101, 2040, 102],
            4,
        );
        assert!(noise.iter().zip(REFERENCE).all(|(a, b)| (a - b).abs() < 1e-12), "{noise:?}");
    }

    const REFERENCE: [f64; 4] =
        [2.7198944091796875, 1.7415313720703125, 0.10125732421875, -0.6529388427734375];

    #[test]
    fn what_cannot_be_blurred_is_an_error() {
        let (projection, tokens) = (projection(), [1]);
        let sent = |blur: Blur, question: &[f32]| blur.apply(&projection, question, &key(1), "m", &tokens);
        assert_eq!(sent(BLUR, &[1.0; 63]), Err(BlurError::Dimension { got: 63, expected: 64 }));
        let wide = Blur { dims: 65, noise: 0.3 };
        assert_eq!(sent(wide, &[1.0; 64]), Err(BlurError::Rank { rank: 64, dims: 65 }));
        assert_eq!(sent(BLUR, &[0.0; 64]), Err(BlurError::NoDirection));
        assert_eq!(sent(BLUR, &[f32::NAN; 64]), Err(BlurError::NoDirection));
        assert_eq!(sent(BLUR, &[f32::INFINITY; 64]), Err(BlurError::NoDirection));
    }

    /// A server that lies may hand out a projection of its own to every request.
    #[test]
    fn another_projection_gives_no_other_noise() {
        let question = question();
        let whole = Blur { dims: 64, noise: 0.5 };
        let seen = [5, 6].map(|seed| {
            let projection = Projection::new(vec![0.0; 64], &orthonormal(64, 64, seed)).unwrap();
            let sent = whole.apply(&projection, &question, &key(1), "m", &[1]).unwrap();
            projection.lift(&sent)
        });
        let [one, other] = &seen;
        assert!(one.iter().zip(other).all(|(a, b)| (a - b).abs() < 2e-3), "{one:?} {other:?}");
        let plain = norm(&question);
        let along: f64 = one.iter().zip(&question).map(|(a, b)| f64::from(*a) * f64::from(*b) / plain).sum();
        assert!(along < 0.97, "there is noise: {along}");
    }
}
