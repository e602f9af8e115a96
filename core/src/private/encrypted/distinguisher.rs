//! A distinguishing test: a server cannot tell two opposite questions apart, and could if the encryption were broken.

use zeroize::Zeroizing;

use super::secret::{Stream, modulo};
use super::{RankHint, RankMask, RankShape, Seed};
use crate::private::encrypted::wire::unpack;

const DIMS: usize = 32;

/// Questions of each kind that are looked at.
const VIEWS: usize = 300;

fn hint() -> RankHint {
    let shape = RankShape::new(1, DIMS, 1).unwrap();
    RankHint::read(&shape, &[1; 32], &vec![0; shape.hint_bytes()]).unwrap()
}

/// Returns how far views of two questions are apart, in standard deviations of what even numbers show: two-sample
/// chi-square statistics over bins of the coefficients that hold the message and of those beside them, by their high
/// and by their low bits.
fn distance(views: [Vec<Vec<u32>>; 2]) -> f64 {
    const BINS: usize = 16;
    let (mut statistic, mut freedom) = (0.0, 0.0);
    for coefficient in [0, 1, 511] {
        for dim in 0..DIMS {
            for shift in [16, 0] {
                let mut counts = [[0f64; BINS]; 2];
                for (counts, views) in counts.iter_mut().zip(&views) {
                    views.iter().for_each(|view| {
                        counts[(view[dim * 1024 + coefficient] >> shift) as usize % BINS] += 1.0;
                    });
                }
                let [a, b] = counts;
                let terms = a.iter().zip(&b).filter(|(a, b)| *a + *b > 0.0);
                statistic += terms.map(|(a, b)| (a - b).powi(2) / (a + b)).sum::<f64>();
                freedom += BINS as f64 - 1.0;
            }
        }
    }
    (statistic - freedom) / (2.0 * freedom).sqrt()
}

/// Returns the views of a question and of its opposite, hidden by masks that `mask` makes.
fn views(mask: impl Fn(usize) -> RankMask) -> [Vec<Vec<u32>>; 2] {
    [1.0, -1.0].map(|sign| {
        let z = vec![sign / (DIMS as f32).sqrt(); DIMS];
        let view = |at| unpack(&mask(at).encrypt(&z).unwrap().0, 20).collect();
        (0..VIEWS).map(view).collect()
    })
}

/// Puts fresh errors in the place of what hides a question.
fn with_samples(hint: &RankHint, samples: impl Fn(usize) -> u32) -> RankMask {
    let mut mask = RankMask::prepare(hint, Seed::random().unwrap());
    let modulus = hint.shape().set().modulus;
    let mut changed = Zeroizing::new(vec![0; mask.samples.len()]);
    Stream::new(Seed::random().unwrap()).errors(changed.len(), 11, |at, error| {
        changed[at] = (samples(at) + modulo(error, modulus)) % modulus;
    });
    mask.samples = changed;
    mask
}

#[test]
fn two_opposite_questions_look_alike() {
    let hint = hint();
    let distance = distance(views(|_| RankMask::prepare(&hint, Seed::random().unwrap())));
    assert!(distance.abs() < 6.0, "{distance} standard deviations");
}

#[test]
fn broken_encryptions_are_seen_through() {
    let hint = hint();
    // No secret: the message, and errors.
    let clear = distance(views(|_| with_samples(&hint, |_| 0)));
    assert!(clear > 100.0, "message in the clear: {clear}");
    // One secret for all questions, with errors of their own.
    let once = RankMask::prepare(&hint, Seed::of_test([5; 32]));
    let reused = distance(views(|_| with_samples(&hint, |at| once.samples[at])));
    assert!(reused > 100.0, "one secret for all: {reused}");
    // One seed for all questions.
    let seed = distance(views(|_| RankMask::prepare(&hint, Seed::of_test([5; 32]))));
    assert!(seed > 100.0, "one seed for all: {seed}");
    // A few secrets for many questions.
    let few = distance(views(|at| RankMask::prepare(&hint, Seed::of_test([at as u8 % 8; 32]))));
    assert!(few > 100.0, "eight seeds for all: {few}");
}
