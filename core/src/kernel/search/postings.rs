//! Scores of posting lists: a term's share in the scores of passages, by BM25 or TF-IDF, and the sums of these shares
//! over a window of passages.
//!
//! Every operation is one of IEEE 754, in one order and never fused, so that a passage has one score on every
//! instruction set.

use super::super::isa::{best, vectorised};
use super::super::vector::Simd;

/// Passages in a window, whose sums are compared at once.
pub const WINDOW: usize = 1 << 11;

/// The most scores that are summed and compared at once.
const LANES: usize = 64;

/// Postings that are scored at once.
const CHUNK: usize = 128;

/// The share of a term in a passage's score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TermScore {
    /// `tf / (tf + fixed + by_length * value)`, where `value` is the passage's length.
    Bm25 {
        /// The number that is added to the term frequency whatever the length.
        fixed: f32,
        /// The factor of the length.
        by_length: f32,
    },
    /// `tf * value`, where `value` is the inverse norm of the passage's vector.
    TfIdf,
}

impl TermScore {
    /// Returns the share of a term of this weight.
    #[inline(always)]
    pub fn of(self, weight: f32, tf: f32, value: f32) -> f32 {
        match self {
            Self::Bm25 { fixed, by_length } => weight * (tf / (tf + fixed + by_length * value)),
            Self::TfIdf => weight * (tf * value),
        }
    }

    /// Scores at most [`CHUNK`] postings.
    #[inline(always)]
    fn of_chunk(self, weight: f32, tfs: &[u32], values: &[f32; CHUNK], scores: &mut [f32; CHUNK]) {
        match self {
            Self::Bm25 { fixed, by_length } => {
                for ((score, tf), value) in scores.iter_mut().zip(tfs).zip(values) {
                    *score = Self::Bm25 { fixed, by_length }.of(weight, *tf as f32, *value);
                }
            }
            Self::TfIdf => {
                for ((score, tf), value) in scores.iter_mut().zip(tfs).zip(values) {
                    *score = Self::TfIdf.of(weight, *tf as f32, *value);
                }
            }
        }
    }
}

/// Appends the scores of a term in `documents` to `scores`. `values` are those of all passages.
///
/// # Panics
/// When a document is beyond `values`.
pub fn score_list(
    term: TermScore,
    weight: f32,
    documents: &[u32],
    tfs: &[u32],
    values: &[f32],
    scores: &mut Vec<f32>,
) {
    vectorised!(best(), |term: TermScore,
                         weight: f32,
                         documents: &[u32],
                         tfs: &[u32],
                         values: &[f32],
                         scores: &mut Vec<f32>| {
        let (mut picked, mut found) = ([0f32; CHUNK], [0f32; CHUNK]);
        for (documents, tfs) in documents.chunks(CHUNK).zip(tfs.chunks(CHUNK)) {
            for (value, document) in picked.iter_mut().zip(documents) {
                *value = values[*document as usize];
            }
            term.of_chunk(weight, tfs, &picked, &mut found);
            scores.extend_from_slice(&found[..documents.len()]);
        }
    });
}

/// Points of a block's impacts.
pub const POINTS: usize = 4;

/// Computes for each block an upper bound of a term's shares of BM25: the greatest of its impacts, times `factor`.
/// An impact is a term frequency in the low 8 bits, of which 255 stands for any above, and a length in the others.
pub fn block_bounds(fixed: f32, by_length: f32, factor: f32, blocks: &[[u32; POINTS]], bounds: &mut [f32]) {
    vectorised!(best(), |fixed: f32,
                         by_length: f32,
                         factor: f32,
                         blocks: &[[u32; POINTS]],
                         bounds: &mut [f32]| {
        for (blocks, bounds) in blocks.chunks(LANES).zip(bounds.chunks_mut(LANES)) {
            for (block, bound) in blocks.iter().zip(bounds) {
                let mut most = 0f32;
                for impact in block {
                    let (tf, length) = (impact & 0xff, impact >> 8);
                    let tf = if tf == 0xff { u32::MAX as f32 } else { tf as f32 };
                    let share = tf / (tf + fixed + by_length * length as f32);
                    most = if share > most { share } else { most };
                }
                *bound = most * factor;
            }
        }
    });
}

/// Sums the scores of terms over a window, term after term, and replaces `found` by the places whose sum is at least
/// `least`, which must be above 0, and by the sums. Returns `false`, and only some of them, where there are more than
/// `most`.
pub fn sums_at_least(terms: &[&[f32; WINDOW]], least: f32, most: usize, found: &mut Vec<(u32, f32)>) -> bool {
    debug_assert!(least > 0.0);
    found.clear();
    vectorised!(best(), |terms: &[&[f32; WINDOW]],
                         least: f32,
                         most: usize,
                         found: &mut Vec<(u32, f32)>|
     -> bool { sums::<S>(terms, least, most, found) })
}

/// Vectors that are summed at once.
const VECTORS: usize = 4;

#[inline(always)]
fn sums<S: Simd>(terms: &[&[f32; WINDOW]], least: f32, most: usize, found: &mut Vec<(u32, f32)>) -> bool {
    let threshold = S::splat(least);
    for at in 0..WINDOW / S::LANES / VECTORS {
        let mut sums = [S::splat(0.0); VECTORS];
        for term in terms {
            for (vector, sum) in sums.iter_mut().enumerate() {
                *sum = S::add(*sum, S::load(term.as_slice(), at * VECTORS + vector));
            }
        }
        let mut bits = 0u64;
        for (vector, sum) in sums.iter().enumerate() {
            bits |= u64::from(S::at_least(*sum, threshold)) << (vector * S::LANES);
        }
        if bits != 0 {
            let mut numbers = [0f32; LANES];
            for (vector, sum) in sums.iter().enumerate() {
                S::store(*sum, &mut numbers, vector);
            }
            while bits != 0 {
                let lane = bits.trailing_zeros() as usize;
                found.push(((at * VECTORS * S::LANES + lane) as u32, numbers[lane % LANES]));
                bits &= bits - 1;
            }
            if found.len() > most {
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::super::isa::Isa;
    use super::*;
    use crate::random::SplitMix;

    const BM25: TermScore = TermScore::Bm25 { fixed: 0.54, by_length: 0.36 / 60.0 };

    fn unit(random: &mut SplitMix) -> f32 {
        random.below(1 << 20) as f32 / (1 << 20) as f32
    }

    /// Documents of a window, with term frequencies, and a value for each document of the window.
    fn window(random: &mut SplitMix, start: u32, share: f32) -> (Vec<u32>, Vec<u32>, Box<[f32; WINDOW]>) {
        let documents: Vec<u32> = (start..start + WINDOW as u32).filter(|_| unit(random) < share).collect();
        let tfs = documents.iter().map(|_| 1 + (random.bits() % 5) as u32).collect();
        let values = std::array::from_fn(|_| (1 + random.bits() % 200) as f32);
        (documents, tfs, Box::new(values))
    }

    #[test]
    fn scores_of_lists_are_those_of_the_formula() {
        let mut random = SplitMix::new(1);
        for share in [0.0, 0.01, 0.3, 1.0] {
            let (documents, tfs, values) = window(&mut random, 0, share);
            for term in [BM25, TermScore::TfIdf] {
                let mut list = Vec::new();
                score_list(term, 1.7, &documents, &tfs, values.as_slice(), &mut list);
                assert_eq!(list.len(), documents.len());
                for ((document, tf), score) in documents.iter().zip(&tfs).zip(&list) {
                    let value = values[*document as usize];
                    let expected = match term {
                        TermScore::TfIdf => 1.7 * (*tf as f32 * value),
                        TermScore::Bm25 { fixed, by_length } => {
                            1.7 * (*tf as f32 / (*tf as f32 + fixed + by_length * value))
                        }
                    };
                    assert_eq!(expected.to_bits(), score.to_bits());
                }
            }
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_scores_and_sums() {
        let mut random = SplitMix::new(2);
        let (_, tfs, values) = window(&mut random, 0, 1.0);
        let (tfs, values) = (&tfs[..CHUNK], values.first_chunk::<CHUNK>().unwrap());
        for term in [BM25, TermScore::TfIdf] {
            let all: Vec<[f32; CHUNK]> = Isa::available()
                .into_iter()
                .map(|isa| {
                    let mut scores = [0f32; CHUNK];
                    let out = &mut scores;
                    vectorised!(isa, |term: TermScore,
                                      tfs: &[u32],
                                      values: &[f32; CHUNK],
                                      out: &mut [f32; CHUNK]| {
                        term.of_chunk(2.3, tfs, values, out);
                    });
                    scores
                })
                .collect();
            assert!(all.iter().all(|scores| *scores == all[0]));
        }
    }

    #[test]
    fn sums_are_those_of_all_terms_in_their_order_and_only_those_at_the_threshold_are_found() {
        let mut random = SplitMix::new(3);
        for count in [0, 1, 2, 7] {
            let rows: Vec<Box<[f32; WINDOW]>> = (0..count)
                .map(|_| {
                    let score = |_| if unit(&mut random) < 0.2 { unit(&mut random) } else { 0.0 };
                    Box::new(std::array::from_fn(score))
                })
                .collect();
            let rows: Vec<&[f32; WINDOW]> = rows.iter().map(|row| &**row).collect();
            let totals: Vec<f32> =
                (0..WINDOW).map(|place| rows.iter().fold(0f32, |sum, row| sum + row[place])).collect();
            for least in [f32::MIN_POSITIVE, 0.5, totals[77].max(0.1), 100.0] {
                let mut found = vec![(1, 1.0)];
                let expected: Vec<(u32, f32)> =
                    (0..).zip(totals.iter().copied()).filter(|(_, sum)| *sum >= least).collect();
                assert!(sums_at_least(&rows, least, WINDOW, &mut found));
                assert_eq!(found, expected, "{count} terms, {least}");
                for isa in Isa::available() {
                    let mut of_isa = Vec::new();
                    let (rows, found) = (rows.as_slice(), &mut of_isa);
                    let most = expected.len();
                    let whole = vectorised!(isa, |rows: &[&[f32; WINDOW]],
                                                  least: f32,
                                                  most: usize,
                                                  found: &mut Vec<(u32, f32)>|
                     -> bool {
                        sums::<S>(rows, least, most, found)
                    });
                    assert!(whole && of_isa == expected, "{count} terms, {least}");
                }
                let fewer = expected.len().saturating_sub(1);
                assert_eq!(sums_at_least(&rows, least, fewer, &mut found), expected.is_empty());
            }
        }
    }

    #[test]
    fn bounds_are_the_greatest_of_the_impacts_and_frequencies_above_255_are_bounded_too() {
        let impact = |tf: u32, length: u32| tf | length << 8;
        let blocks = [
            [impact(1, 20), impact(2, 40), impact(3, 90), impact(3, 90)],
            [impact(255, 3), impact(1, 1), impact(1, 1), impact(1, 1)],
        ];
        let mut bounds = [0.0; 2];
        let (fixed, by_length) = (0.5, 0.01);
        block_bounds(fixed, by_length, 2.0, &blocks, &mut bounds);
        let share = |tf: f32, length: f32| tf / (tf + fixed + by_length * length);
        let most = share(1.0, 20.0).max(share(2.0, 40.0)).max(share(3.0, 90.0));
        assert_eq!(bounds[0], 2.0 * most);
        assert!(bounds[1] >= 2.0 * share(1e6, 3.0));
    }
}
