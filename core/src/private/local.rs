//! Local search: passages are ranked where the question is asked, by codes that were downloaded before.

use super::codes::{Codes, CodesError};
use super::projection::Projection;
use crate::kernel::search::f32::inner_product;
use crate::kernel::search::i8::{quantize_query, quantized_products};

/// Most passages of an index that is searched locally: more would take some 100 MB of download.
pub const MAX_PASSAGES: usize = 250_000;

/// A passage found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Its row, in the order in which codes were added.
    pub row: u32,
    /// About the inner product of the question's vector and the passage's.
    pub score: f32,
}

/// Codes, or a question, that a local index does not take.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// See [`CodesError`].
    #[error(transparent)]
    Codes(#[from] CodesError),
    /// Codes of another number of dimensions than the projection has rows.
    #[error("the codes have {codes} dimensions, the projection has {projection}: they are of two exports")]
    Dims {
        /// Dimensions of the codes.
        codes: usize,
        /// Rows of the projection.
        projection: usize,
    },
    /// A number of passages that differs from the manifest's.
    #[error("the codes are of {got} passages, {expected} were expected")]
    Passages {
        /// Passages in the file.
        got: usize,
        /// Passages that were promised.
        expected: usize,
    },
    /// More passages than a local index takes.
    #[error("{got} passages are too many for local search, {max} are possible", max = MAX_PASSAGES)]
    TooMany {
        /// Passages with those that were to be added.
        got: usize,
    },
    /// A question's vector of another length, or with a number that is not finite.
    #[error(
        "the question's vector has {got} numbers, or one that is not finite; expected {expected} finite ones"
    )]
    Question {
        /// Numbers given.
        got: usize,
        /// Numbers in a vector of the index.
        expected: usize,
    },
    /// No passages to return.
    #[error("k is 0: ask for one passage at least")]
    K,
}

/// An index that is searched where it was downloaded.
#[derive(Clone, Debug)]
pub struct LocalIndex {
    projection: Projection,
    parts: Vec<Codes>,
    passages: usize,
}

impl LocalIndex {
    /// Makes an index without passages, whose codes have as many dimensions as the projection has rows.
    pub fn new(projection: Projection) -> Self {
        Self { projection, parts: Vec::new(), passages: 0 }
    }

    /// Adds the passages of a file of codes, which has so many of them.
    ///
    /// # Errors
    /// [`LocalError`] for damaged codes, for a number of passages or dimensions that differs, and for too many passages;
    /// the index is then unchanged.
    pub fn add(&mut self, bytes: &[u8], passages: usize) -> Result<(), LocalError> {
        let got = self.passages.saturating_add(passages);
        if got > MAX_PASSAGES {
            return Err(LocalError::TooMany { got });
        }
        let codes = Codes::from_bytes(bytes)?;
        if codes.dims() != self.projection.rank() {
            return Err(LocalError::Dims { codes: codes.dims(), projection: self.projection.rank() });
        }
        if codes.len() != passages {
            return Err(LocalError::Passages { got: codes.len(), expected: passages });
        }
        self.parts.push(codes);
        self.passages = got;
        Ok(())
    }

    /// Returns the number of passages.
    pub fn len(&self) -> usize {
        self.passages
    }

    /// Returns `true` if there are no passages.
    pub fn is_empty(&self) -> bool {
        self.passages == 0
    }

    /// Returns the `k` passages of greatest inner product with the vector of a question, best first, equal ones in the
    /// order of their rows; all of them where there are fewer. Every passage is compared.
    ///
    /// # Errors
    /// [`LocalError::Question`] and [`LocalError::K`].
    pub fn search(&self, question: &[f32], k: usize) -> Result<Vec<Found>, LocalError> {
        let mut scorer = Scorer::new(&self.projection, question)?;
        if k == 0 {
            return Err(LocalError::K);
        }
        let mut found = Vec::with_capacity(self.passages);
        for part in &self.parts {
            let first = found.len() as u32;
            found.extend((first..).zip(scorer.scores(part)).map(|(row, score)| Found { row, score }));
        }
        let order = |a: &Found, b: &Found| b.score.total_cmp(&a.score).then(a.row.cmp(&b.row));
        if k < found.len() {
            found.select_nth_unstable_by(k, order);
            found.truncate(k);
        }
        found.sort_unstable_by(order);
        Ok(found)
    }
}

/// The vector of a question, ready to be compared with codes.
pub(super) struct Scorer {
    coordinates: Vec<f32>,
    /// The question's inner product with the mean, which is left out of codes.
    offset: f32,
    query: Vec<i16>,
    sums: Vec<i32>,
}

impl Scorer {
    /// Takes the vector of a question `[dim]`.
    ///
    /// # Errors
    /// [`LocalError::Question`].
    pub(super) fn new(projection: &Projection, question: &[f32]) -> Result<Self, LocalError> {
        let expected = projection.dim();
        if question.len() != expected || question.iter().any(|value| !value.is_finite()) {
            return Err(LocalError::Question { got: question.len(), expected });
        }
        let coordinates = projection.project(question, projection.rank());
        let offset = inner_product(question, projection.mean());
        Ok(Self { coordinates, offset, query: Vec::new(), sums: Vec::new() })
    }

    /// Returns the question's coordinates in the directions of the codes.
    pub(super) fn coordinates(&self) -> &[f32] {
        &self.coordinates
    }

    /// Returns the score of each passage.
    pub(super) fn scores(&mut self, codes: &Codes) -> impl Iterator<Item = f32> + '_ {
        let scaled: Vec<f32> =
            self.coordinates.iter().zip(codes.scales()).map(|(x, scale)| x * scale).collect();
        let scale = quantize_query(&scaled, &mut self.query);
        self.sums.resize(codes.len(), 0);
        quantized_products(&self.query, codes.rows(), &mut self.sums);
        let offset = self.offset;
        self.sums.iter().map(move |sum| offset + scale * *sum as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::codes::encode;
    use super::*;
    use crate::project::orthonormal;
    use crate::random::SplitMix;

    const DIM: usize = 48;

    /// Vectors of length 1 around some centres, as those of texts lie around topics.
    fn vectors(count: usize, seed: u64) -> Vec<Vec<f32>> {
        let (mut centres, mut random) = (SplitMix::new(7), SplitMix::new(seed));
        let centres: Vec<Vec<f64>> = (0..20).map(|_| (0..DIM).map(|_| centres.normal()).collect()).collect();
        let mut vector = || -> Vec<f32> {
            let centre = &centres[random.below(20)];
            let numbers: Vec<f32> = centre.iter().map(|x| (x + random.normal()) as f32).collect();
            let length = inner_product(&numbers, &numbers).sqrt();
            numbers.iter().map(|value| value / length).collect()
        };
        (0..count).map(|_| vector()).collect()
    }

    fn projection(rank: usize) -> Projection {
        let mean: Vec<f32> = (0..DIM).map(|at| (at as f32).cos() * 0.02).collect();
        Projection::new(mean, &orthonormal(rank, DIM, 5)).unwrap()
    }

    fn coded(projection: &Projection, passages: &[Vec<f32>]) -> Vec<u8> {
        let coordinates: Vec<f32> = passages.iter().flat_map(|vector| projection.centred(vector)).collect();
        encode(&coordinates, projection.rank())
    }

    fn index(rank: usize, passages: &[Vec<f32>]) -> LocalIndex {
        let mut index = LocalIndex::new(projection(rank));
        // In parts of several sizes: rows go on counting.
        let (first, rest) = passages.split_at(passages.len() / 3);
        let (second, third) = rest.split_at(1);
        for part in [first, second, third] {
            index.add(&coded(&index.projection, part), part.len()).unwrap();
        }
        index
    }

    #[test]
    fn passages_are_ranked_as_exact_inner_products_rank_them() {
        let (passages, questions) = (vectors(3000, 1), vectors(100, 2));
        for (rank, least) in [(DIM, 0.75), (DIM / 2, 0.25)] {
            let index = index(rank, &passages);
            assert_eq!((index.len(), index.is_empty()), (3000, false));
            let mut share = 0.0;
            for question in &questions {
                let mut exact: Vec<(usize, f32)> =
                    passages.iter().map(|passage| inner_product(question, passage)).enumerate().collect();
                exact.sort_by(|a, b| b.1.total_cmp(&a.1));
                let found = index.search(question, 20).unwrap();
                assert_eq!(found.len(), 20);
                assert!(found.is_sorted_by(|a, b| a.score >= b.score));
                let hits = exact[..20].iter().filter(|(row, _)| found.iter().any(|f| f.row as usize == *row));
                share += hits.count() as f64 / 2000.0;
                for Found { row, score } in found {
                    let exact = inner_product(question, &passages[row as usize]);
                    assert!(rank < DIM || (score - exact).abs() < 0.08, "{row}: {score} {exact}");
                }
            }
            assert!(share > least, "{rank} of {DIM} directions find {share} of the 20 best");
        }
    }

    #[test]
    fn fewer_passages_than_asked_for_are_all_found_and_equal_ones_keep_their_order() {
        let passages = vectors(1, 3);
        let same = vec![passages[0].clone(); 5];
        let index = index(DIM, &same);
        let found = index.search(&passages[0], 50).unwrap();
        assert_eq!(found.len(), 5);
        let mut empty = LocalIndex::new(projection(4));
        assert_eq!(empty.search(&passages[0], 3), Ok(Vec::new()));
        empty.add(&encode(&[0.5; 12], 4), 3).unwrap();
        let rows: Vec<u32> = empty.search(&passages[0], 2).unwrap().iter().map(|found| found.row).collect();
        assert_eq!(rows, [0, 1]);
    }

    #[test]
    fn what_does_not_belong_to_the_index_is_refused_and_changes_nothing() {
        let passages = vectors(9, 4);
        let mut index = index(DIM, &passages);
        let good = coded(&index.projection, &passages);
        assert_eq!(index.add(&good, 8), Err(LocalError::Passages { got: 9, expected: 8 }));
        let other = coded(&projection(DIM / 2), &passages);
        assert_eq!(index.add(&other, 9), Err(LocalError::Dims { codes: DIM / 2, projection: DIM }));
        assert!(matches!(index.add(&good[..20], 9), Err(LocalError::Codes(_))));
        for many in [MAX_PASSAGES, usize::MAX] {
            assert!(matches!(index.add(&good, many), Err(LocalError::TooMany { .. })));
        }
        assert_eq!(index.len(), 9);
        assert_eq!(index.search(&passages[0], 0), Err(LocalError::K));
        let short = LocalError::Question { got: 3, expected: DIM };
        assert_eq!(index.search(&passages[0][..3], 1), Err(short));
        let nan = vec![f32::NAN; DIM];
        assert!(matches!(index.search(&nan, 1), Err(LocalError::Question { .. })));
    }

    #[test]
    fn whatever_byte_of_the_codes_is_changed_scores_are_finite_or_the_codes_are_refused() {
        let passages = vectors(3, 5);
        let projection = projection(6);
        let good = coded(&projection, &passages);
        for at in 0..good.len() {
            for bit in 0..8 {
                let mut changed = good.clone();
                changed[at] ^= 1 << bit;
                let mut index = LocalIndex::new(projection.clone());
                if index.add(&changed, 3).is_ok() {
                    let found = index.search(&passages[0], 3).unwrap();
                    assert!(found.iter().all(|found| found.score.is_finite() && found.row < 3), "{at} {bit}");
                }
            }
        }
    }
}
