//! Which buckets are fetched for a question: those that it is about, and decoys.

use super::Centroids;
use crate::private::device_key::DeviceKey;

/// The label of decoys in the input of HMAC, by which they are drawn; another way to draw them has another label.
const LABEL: &[u8] = b"dpr bucket decoys 1";

/// Numbers of probed buckets that can be asked for.
pub const PROBES: [usize; 4] = [1, 2, 4, 8];

/// Most decoys that can be asked for.
pub const MAX_DECOYS: usize = 64;

/// Draws of a group of decoys that has no bucket in common with the groups before it, before one is put together of
/// the buckets that are left.
const DRAWS: u32 = 64;

/// The numbers of buckets that are fetched for a question: probes and decoys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    probes: usize,
    decoys: usize,
}

/// Numbers of buckets that cannot be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A number of probes that is not offered.
    #[error("{got} probes are not possible: ask for 1, 2, 4 or 8")]
    Probes {
        /// Probes asked for.
        got: usize,
    },
    /// Decoys that are not groups of as many buckets as are probed.
    #[error(
        "{got} decoys are not possible with {probes} probes: decoys are groups of as many buckets, so ask for 0, \
         {probes} or another multiple up to {max}",
        max = MAX_DECOYS
    )]
    Decoys {
        /// Decoys asked for.
        got: usize,
        /// Probes asked for.
        probes: usize,
    },
    /// More buckets than there are.
    #[error(
        "{probes} probes and {decoys} decoys are {} buckets, the site has {buckets}: ask for fewer, or export the \
         site with smaller buckets",
        probes + decoys
    )]
    Buckets {
        /// Probes asked for.
        probes: usize,
        /// Decoys asked for.
        decoys: usize,
        /// Buckets of the site.
        buckets: usize,
    },
}

impl Plan {
    /// Takes the number of buckets that are probed, 1, 2, 4 or 8, and the number of decoys, a multiple of it, for a site
    /// of so many buckets.
    ///
    /// # Errors
    /// [`PlanError`] for a number that is not possible; it is never replaced by a smaller one.
    pub fn new(probes: usize, decoys: usize, buckets: usize) -> Result<Self, PlanError> {
        if !PROBES.contains(&probes) {
            return Err(PlanError::Probes { got: probes });
        }
        if !decoys.is_multiple_of(probes) || decoys > MAX_DECOYS {
            return Err(PlanError::Decoys { got: decoys, probes });
        }
        if probes + decoys > buckets {
            return Err(PlanError::Buckets { probes, decoys, buckets });
        }
        Ok(Self { probes, decoys })
    }

    /// Returns the number of buckets that are probed.
    pub fn probes(self) -> usize {
        self.probes
    }

    /// Returns the number of decoys.
    pub fn decoys(self) -> usize {
        self.decoys
    }

    /// Returns the number of buckets that are fetched.
    pub fn fetched(self) -> usize {
        self.probes + self.decoys
    }
}

impl Centroids {
    /// Returns the buckets that are probed for a question whose [home](Centroids::home) is `home`: that bucket and its
    /// nearest ones, in this order. They are the nearest ones of the home, not of the question: otherwise repeated
    /// questions would show one bucket that stays and neighbours that vary, which tells the home.
    ///
    /// # Panics
    /// When `home` is not below [`Centroids::len`].
    pub fn probed(&self, home: usize, plan: Plan) -> Vec<usize> {
        self.group(home, plan.probes, &[])
    }

    /// Returns the buckets that a device with this key fetches for a question whose home is `home`, in ascending order:
    /// [those that are probed](Centroids::probed), and groups of decoys that are made as they are, each of a bucket that
    /// was drawn by HMAC-SHA256 of the home. So the same home gives the same buckets for as long as the key is kept, and
    /// asking again tells nothing more.
    ///
    /// Groups have no bucket in common: one that has is drawn again. With one probe each decoy is drawn evenly among all
    /// other buckets, and no bucket of a set is likelier to be the home, where all homes are equally likely. With more
    /// probes a group is drawn evenly among those that overlap none before it, of which a home whose group overlaps many
    /// others has fewer: it draws each of them more often, so that the group of a set that overlaps more groups is the
    /// likelier one to be real. `dpr eval privacy` measures by how much.
    ///
    /// What is hashed does not contain the number of decoys, so the decoys of a small number are mostly among those of a
    /// larger one: a host that sees the fetches of both cannot single out the real group as what they have in common.
    ///
    /// # Panics
    /// When `home` is not below [`Centroids::len`].
    pub fn fetched(&self, home: usize, plan: Plan, key: &DeviceKey) -> Vec<usize> {
        let mut fetched = self.drawn(home, plan, key);
        fetched.sort_unstable();
        fetched
    }

    /// Returns the buckets of [`Centroids::fetched`], group after group, those that are probed first. The order tells
    /// the home: it is for measurements.
    ///
    /// # Panics
    /// When `home` is not below [`Centroids::len`].
    pub fn drawn(&self, home: usize, plan: Plan, key: &DeviceKey) -> Vec<usize> {
        let mut taken = vec![false; self.len()];
        let mut fetched = Vec::with_capacity(plan.fetched());
        let mut take = |group: Vec<usize>, taken: &mut Vec<bool>| {
            group.iter().for_each(|bucket| taken[*bucket] = true);
            fetched.extend(group);
        };
        take(self.probed(home, plan), &mut taken);
        for group in 0..(plan.decoys / plan.probes) as u32 {
            let drawn = (0..DRAWS)
                .map(|draw| self.group(below(key, [home as u32, group, draw], self.len()), plan.probes, &[]));
            let apart = drawn.into_iter().find(|group| group.iter().all(|bucket| !taken[*bucket]));
            // With few buckets, every group of neighbours may overlap one that is taken.
            let group = apart.unwrap_or_else(|| {
                let left: Vec<usize> = (0..self.len()).filter(|bucket| !taken[*bucket]).collect();
                let of = left.get(below(key, [home as u32, group, DRAWS], left.len()));
                of.map_or_else(Vec::new, |of| self.group(*of, plan.probes, &taken))
            });
            take(group, &mut taken);
        }
        fetched
    }

    /// Returns a bucket and its nearest ones that are not taken, `size` together.
    fn group(&self, of: usize, size: usize, taken: &[bool]) -> Vec<usize> {
        let query: Vec<i16> = self.row(of).iter().map(|number| i16::from(*number)).collect();
        let near = self.nearest(&query, self.len()).into_iter();
        let free = near.filter(|bucket| *bucket != of && !taken.get(*bucket).is_some_and(|taken| *taken));
        std::iter::once(of).chain(free).take(size).collect()
    }
}

/// Returns a number below `limit` that this key draws for these numbers, even but for `limit / 2^64`.
fn below(key: &DeviceKey, about: [u32; 3], limit: usize) -> usize {
    let message: Vec<u8> =
        LABEL.iter().copied().chain(about.into_iter().flat_map(u32::to_le_bytes)).collect();
    let bits = key.mac(&message).as_chunks::<8>().0.first().copied().map_or(0, u64::from_le_bytes);
    ((u128::from(bits) * limit as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::super::encode_centroids;
    use super::*;
    use crate::random::SplitMix;

    fn centroids(count: usize) -> Centroids {
        let mut random = SplitMix::new(5);
        let numbers: Vec<f32> = (0..count * 16).map(|_| random.normal() as f32).collect();
        Centroids::from_bytes(&encode_centroids(&numbers, 16)).unwrap()
    }

    fn key(byte: u8) -> DeviceKey {
        DeviceKey::new([byte; 32])
    }

    #[test]
    fn the_fetched_buckets_are_those_probed_and_decoys_in_ascending_order_each_once() {
        let centroids = centroids(60);
        for (probes, decoys) in [(1, 0), (1, 1), (1, 7), (2, 2), (4, 4), (4, 12), (8, 8), (8, 48), (4, 56)] {
            let plan = Plan::new(probes, decoys, 60).unwrap();
            assert_eq!(plan.fetched(), probes + decoys);
            for home in 0..60 {
                let fetched = centroids.fetched(home, plan, &key(1));
                assert_eq!(fetched.len(), probes + decoys, "{probes} {decoys} {home}");
                assert!(fetched.is_sorted_by(|a, b| a < b), "{fetched:?}");
                let probed = centroids.probed(home, plan);
                assert_eq!((probed[0], probed.len()), (home, probes));
                let mut drawn = centroids.drawn(home, plan, &key(1));
                assert_eq!(drawn[..probes], probed);
                drawn.sort_unstable();
                assert_eq!(drawn, fetched);
            }
        }
    }

    #[test]
    fn the_fetched_buckets_depend_on_the_key_and_on_the_home_alone() {
        let centroids = centroids(200);
        let plan = Plan::new(4, 4, 200).unwrap();
        let mut same = 0;
        for home in 0..200 {
            let fetched = centroids.fetched(home, plan, &key(1));
            // Questions of one home, which differ otherwise.
            for shift in 0..5 {
                let question: Vec<f32> =
                    centroids.row(home).iter().map(|x| f32::from(*x) * (1.0 + shift as f32)).collect();
                if centroids.home(&question) == home {
                    assert_eq!(centroids.fetched(centroids.home(&question), plan, &key(1)), fetched);
                }
            }
            same += usize::from(centroids.fetched(home, plan, &key(2)) == fetched);
        }
        assert!(same < 10, "another device has other decoys: {same} of 200 are the same");
    }

    #[test]
    fn decoys_are_drawn_evenly_and_look_like_the_real_group() {
        let centroids = centroids(40);
        let plan = Plan::new(2, 2, 40).unwrap();
        let groups: Vec<Vec<usize>> = (0..40)
            .map(|of| {
                let mut group = centroids.group(of, 2, &[]);
                group.sort_unstable();
                group
            })
            .collect();
        let mut counts = [0f64; 40];
        for seed in 0..100u8 {
            for home in 0..40 {
                let fetched = centroids.fetched(home, plan, &key(seed));
                let mut probed = centroids.probed(home, plan);
                probed.sort_unstable();
                let decoys: Vec<usize> =
                    fetched.into_iter().filter(|bucket| !probed.contains(bucket)).collect();
                assert!(groups.contains(&decoys), "a group that some bucket has: {decoys:?}");
                let of: Vec<usize> = (0..40).filter(|of| groups[*of] == decoys).collect();
                of.iter().for_each(|bucket| counts[*bucket] += 1.0 / of.len() as f64);
            }
        }
        // 4,000 draws of 40 buckets; groups that overlap many others are drawn a little less.
        assert!(counts.iter().all(|count| (60.0..140.0).contains(count)), "{counts:?}");
    }

    #[test]
    fn fewer_decoys_are_a_part_of_more() {
        let centroids = centroids(100);
        for home in 0..100 {
            let few = centroids.fetched(home, Plan::new(2, 2, 100).unwrap(), &key(3));
            let many = centroids.fetched(home, Plan::new(2, 8, 100).unwrap(), &key(3));
            assert!(few.iter().all(|bucket| many.contains(bucket)));
        }
    }

    #[test]
    fn where_no_group_is_left_decoys_are_put_together_of_other_buckets() {
        let centroids = centroids(9);
        for probes in [1, 2, 4] {
            let decoys = 9 / probes * probes - probes;
            let plan = Plan::new(probes, decoys, 9).unwrap();
            for home in 0..9 {
                let fetched = centroids.fetched(home, plan, &key(4));
                assert_eq!(fetched.len(), probes + decoys);
                assert!(fetched.is_sorted_by(|a, b| a < b));
            }
        }
    }

    /// From `python3 tests/python/bucket_reference.py`, which has HMAC-SHA256 of Python's standard library.
    #[test]
    fn the_fetched_buckets_are_those_of_the_reference() {
        let number = |bucket: u32, axis: u32| match axis == bucket % 6 {
            true => 100.0,
            false => ((bucket * 7 + axis * 11) % 27) as f32,
        };
        let rows = (0..30).flat_map(|bucket| (0..6).map(move |axis| number(bucket, axis)));
        let rows: Vec<f32> = rows.chain([127.0; 6]).collect();
        let centroids = Centroids::from_bytes(&encode_centroids(&rows, 6)).unwrap();
        let key = DeviceKey::new(std::array::from_fn(|at| at as u8));
        for (probes, decoys, home, expected) in REFERENCE {
            let plan = Plan::new(probes, decoys, 31).unwrap();
            assert_eq!(centroids.fetched(home, plan, &key), expected, "{probes} {decoys} {home}");
        }
    }

    const REFERENCE: [(usize, usize, usize, &[usize]); 6] = [
        (1, 3, 0, &[0, 3, 6, 18]),
        (1, 3, 30, &[4, 17, 25, 30]),
        (2, 2, 7, &[7, 22, 28, 30]),
        (4, 4, 12, &[0, 6, 10, 12, 16, 22, 28, 30]),
        (4, 12, 3, &[3, 6, 9, 10, 12, 13, 15, 16, 18, 21, 22, 24, 25, 27, 28, 30]),
        (
            8,
            16,
            29,
            &[1, 2, 3, 5, 6, 7, 9, 10, 11, 13, 14, 15, 17, 18, 19, 21, 22, 23, 24, 25, 26, 27, 29, 30],
        ),
    ];

    #[test]
    fn numbers_of_buckets_that_cannot_be_fetched_are_refused() {
        for got in [0, 3, 5, 16, usize::MAX] {
            assert_eq!(Plan::new(got, 0, 100), Err(PlanError::Probes { got }));
        }
        for (probes, got) in [(4, 2), (8, 4), (2, 3), (1, 65), (4, usize::MAX)] {
            assert_eq!(Plan::new(probes, got, 1000), Err(PlanError::Decoys { got, probes }));
        }
        let few = Plan::new(4, 4, 7).unwrap_err();
        assert_eq!(few, PlanError::Buckets { probes: 4, decoys: 4, buckets: 7 });
        assert!(few.to_string().contains("are 8 buckets, the site has 7"), "{few}");
        assert!(Plan::new(4, 4, 8).is_ok());
    }
}
