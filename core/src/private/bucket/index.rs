//! Choosing buckets for a question, and ranking what is in those that were fetched.

use std::collections::BTreeMap;

use super::{Centroids, Plan};
use crate::private::codes::{Codes, CodesError};
use crate::private::device_key::DeviceKey;
use crate::private::local::{LocalError, MAX_PASSAGES, Scorer};
use crate::private::projection::Projection;

/// A passage found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// The bucket it is in.
    pub bucket: u32,
    /// Its place in the bucket, from 0.
    pub place: u32,
    /// About the inner product of the question's vector and the passage's.
    pub score: f32,
}

/// Files, or a question, that a bucket index does not take.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketError {
    /// Codes or a question that do not fit.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// Centroids of another number of dimensions than the projection has rows.
    #[error(
        "the centroids have {centroids} dimensions, the projection has {projection}: they are of two exports"
    )]
    Dims {
        /// Dimensions of the centroids.
        centroids: usize,
        /// Rows of the projection.
        projection: usize,
    },
    /// A bucket that the site does not have.
    #[error("bucket {bucket} is not one of the {buckets} of the site, which are numbered from 0")]
    Bucket {
        /// Its number.
        bucket: u32,
        /// Buckets of the site.
        buckets: usize,
    },
    /// A bucket that is searched before it was added.
    #[error("bucket {bucket} was not fetched yet")]
    Missing {
        /// Its number.
        bucket: u32,
    },
}

/// The centroids of a site and the buckets of it that were fetched.
#[derive(Clone, Debug)]
pub struct BucketIndex {
    projection: Projection,
    centroids: Centroids,
    opened: BTreeMap<u32, Codes>,
    /// Passages in them.
    passages: usize,
}

impl BucketIndex {
    /// Makes an index of which no bucket was fetched yet.
    ///
    /// # Errors
    /// [`BucketError::Dims`].
    pub fn new(projection: Projection, centroids: Centroids) -> Result<Self, BucketError> {
        let dims = (centroids.dims(), projection.rank());
        if dims.0 != dims.1 {
            return Err(BucketError::Dims { centroids: dims.0, projection: dims.1 });
        }
        Ok(Self { projection, centroids, opened: BTreeMap::new(), passages: 0 })
    }

    /// Returns the centroids.
    pub fn centroids(&self) -> &Centroids {
        &self.centroids
    }

    /// Returns the bucket that the vector of a question falls into.
    ///
    /// # Errors
    /// [`LocalError::Question`].
    pub fn home(&self, question: &[f32]) -> Result<usize, BucketError> {
        let scorer = Scorer::new(&self.projection, question)?;
        Ok(self.centroids.home(scorer.coordinates()))
    }

    /// Returns the buckets that a device with this key fetches for a question, in ascending order.
    ///
    /// # Errors
    /// [`LocalError::Question`].
    pub fn fetched(&self, question: &[f32], plan: Plan, key: &DeviceKey) -> Result<Vec<usize>, BucketError> {
        Ok(self.centroids.fetched(self.home(question)?, plan, key))
    }

    /// Returns `true` if a bucket was added.
    pub fn has(&self, bucket: u32) -> bool {
        self.opened.contains_key(&bucket)
    }

    /// Adds the codes of a bucket, which has so many passages. One that was added before is replaced.
    ///
    /// # Errors
    /// [`BucketError`] for a bucket that there is not, damaged codes, and a number of passages or dimensions that
    /// differs; the index is then unchanged.
    pub fn add(&mut self, bucket: u32, codes: &[u8], passages: usize) -> Result<(), BucketError> {
        let buckets = self.centroids.len();
        if bucket as usize >= buckets {
            return Err(BucketError::Bucket { bucket, buckets });
        }
        let before = self.opened.get(&bucket).map_or(0, Codes::len);
        let got = (self.passages - before).saturating_add(passages);
        // A passage is in one bucket.
        if got > MAX_PASSAGES {
            return Err(LocalError::TooMany { got }.into());
        }
        let codes = Codes::from_bytes(codes).map_err(|error: CodesError| LocalError::from(error))?;
        if codes.dims() != self.projection.rank() {
            return Err(LocalError::Dims { codes: codes.dims(), projection: self.projection.rank() }.into());
        }
        if codes.len() != passages {
            return Err(LocalError::Passages { got: codes.len(), expected: passages }.into());
        }
        self.opened.insert(bucket, codes);
        self.passages = got;
        Ok(())
    }

    /// Returns the `k` passages of greatest inner product with the vector of a question among those of these buckets,
    /// best first, equal ones in the order of their buckets and places; all of them where there are fewer.
    ///
    /// # Errors
    /// [`BucketError::Missing`], [`LocalError::Question`] and [`LocalError::K`].
    pub fn search(&self, question: &[f32], buckets: &[u32], k: usize) -> Result<Vec<Placed>, BucketError> {
        let mut scorer = Scorer::new(&self.projection, question)?;
        if k == 0 {
            return Err(LocalError::K.into());
        }
        let mut found: Vec<Placed> = Vec::new();
        for bucket in buckets {
            let codes = self.opened.get(bucket).ok_or(BucketError::Missing { bucket: *bucket })?;
            let scores = scorer.scores(codes);
            found.extend((0..).zip(scores).map(|(place, score)| Placed { bucket: *bucket, place, score }));
        }
        let order = |a: &Placed, b: &Placed| {
            b.score.total_cmp(&a.score).then((a.bucket, a.place).cmp(&(b.bucket, b.place)))
        };
        if k < found.len() {
            found.select_nth_unstable_by(k, order);
            found.truncate(k);
        }
        found.sort_unstable_by(order);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::encode_centroids;
    use super::*;
    use crate::private::codes::encode;
    use crate::private::local::LocalIndex;
    use crate::project::orthonormal;
    use crate::random::SplitMix;

    const DIM: usize = 24;
    const BUCKETS: usize = 10;
    const EACH: usize = 30;

    /// An index with all buckets, the same passages as a local index, and vectors of questions.
    fn made() -> (BucketIndex, LocalIndex, Vec<Vec<f32>>) {
        let projection = Projection::new(vec![0.01; DIM], &orthonormal(16, DIM, 5)).unwrap();
        let mut random = SplitMix::new(3);
        let centres: Vec<Vec<f32>> =
            (0..BUCKETS).map(|_| (0..DIM).map(|_| random.normal() as f32).collect()).collect();
        let centroids: Vec<f32> = centres.iter().flat_map(|centre| projection.centred(centre)).collect();
        let centroids = Centroids::from_bytes(&encode_centroids(&centroids, 16)).unwrap();
        let mut index = BucketIndex::new(projection.clone(), centroids).unwrap();
        let mut local = LocalIndex::new(projection.clone());
        for (bucket, centre) in centres.iter().enumerate() {
            let near = |centre: f32, random: &mut SplitMix| centre + 0.5 * random.normal() as f32;
            let coordinates: Vec<f32> = (0..EACH)
                .flat_map(|_| {
                    let vector: Vec<f32> = centre.iter().map(|x| near(*x, &mut random)).collect();
                    projection.centred(&vector)
                })
                .collect();
            let codes = encode(&coordinates, 16);
            index.add(bucket as u32, &codes, EACH).unwrap();
            local.add(&codes, EACH).unwrap();
        }
        let questions = (0..40)
            .map(|at| centres[at % BUCKETS].iter().map(|x| x + 0.7 * random.normal() as f32).collect());
        (index, local, questions.collect())
    }

    #[test]
    fn all_buckets_together_rank_as_a_local_index_does() {
        let (index, local, questions) = made();
        let all: Vec<u32> = (0..BUCKETS as u32).collect();
        for question in &questions {
            let found = index.search(question, &all, 15).unwrap();
            let expected = local.search(question, 15).unwrap();
            let rows: Vec<(u32, f32)> =
                found.iter().map(|found| (found.bucket * EACH as u32 + found.place, found.score)).collect();
            assert_eq!(rows, expected.iter().map(|found| (found.row, found.score)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_best_passages_are_in_the_fetched_buckets_and_none_is_of_another() {
        let (index, local, questions) = made();
        let key = DeviceKey::new([1; 32]);
        let plan = Plan::new(2, 2, BUCKETS).unwrap();
        let mut right = 0;
        for question in &questions {
            let fetched: Vec<u32> =
                index.fetched(question, plan, &key).unwrap().iter().map(|bucket| *bucket as u32).collect();
            let found = index.search(question, &fetched, 1).unwrap();
            assert!(found.iter().all(|found| fetched.contains(&found.bucket)));
            let best = local.search(question, 1).unwrap()[0].row;
            right += usize::from(found[0].bucket * EACH as u32 + found[0].place == best);
            assert_eq!(index.search(question, &fetched, 1000).unwrap().len(), 4 * EACH);
        }
        assert!(right >= 38, "{right} of 40");
    }

    #[test]
    fn what_does_not_belong_to_the_index_is_refused_and_changes_nothing() {
        let (mut index, _, questions) = made();
        let question = &questions[0];
        let before = index.search(question, &[3], 5).unwrap();
        let codes = encode(&[0.5; 32], 16);
        assert_eq!(index.add(10, &codes, 2), Err(BucketError::Bucket { bucket: 10, buckets: 10 }));
        let passages = LocalError::Passages { got: 2, expected: 3 };
        assert_eq!(index.add(3, &codes, 3), Err(passages.into()));
        let narrow = encode(&[0.5; 16], 8);
        assert_eq!(index.add(3, &narrow, 2), Err(LocalError::Dims { codes: 8, projection: 16 }.into()));
        assert!(matches!(index.add(3, &codes[..30], 2), Err(BucketError::Local(LocalError::Codes(_)))));
        // The limit holds for the passages of all buckets together: nine are added already.
        for many in [MAX_PASSAGES - 9 * EACH + 1, usize::MAX] {
            let refused = index.add(3, &codes, many);
            assert!(matches!(refused, Err(BucketError::Local(LocalError::TooMany { .. }))), "{many}");
        }
        assert_eq!(index.search(question, &[3], 5).unwrap(), before);

        let centroids = Centroids::from_bytes(&encode_centroids(&[1.0; 30], 15)).unwrap();
        let other = BucketIndex::new(index.projection.clone(), centroids.clone()).map(drop);
        assert_eq!(other, Err(BucketError::Dims { centroids: 15, projection: 16 }));
        let centroids = Centroids::from_bytes(&encode_centroids(&[1.0; 32], 16)).unwrap();
        let mut empty = BucketIndex::new(index.projection.clone(), centroids).unwrap();
        assert_eq!(empty.search(question, &[1], 5), Err(BucketError::Missing { bucket: 1 }));
        assert!(!empty.has(1));
        empty.add(1, &codes, 2).unwrap();
        assert!(empty.has(1));
        assert_eq!(empty.search(question, &[1], 0), Err(LocalError::K.into()));
        for bad in [vec![1.0; 3], vec![f32::NAN; DIM]] {
            let wrong = Err(LocalError::Question { got: bad.len(), expected: DIM }.into());
            assert_eq!(empty.search(&bad, &[1], 1), wrong);
            assert!(empty.home(&bad).is_err());
        }
    }
}
