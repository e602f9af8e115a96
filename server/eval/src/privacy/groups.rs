//! The groups of a fetched set: how often an attacker who weighs their overlaps names the group of the home.

use std::collections::HashMap;

use dpr_core::private::bucket::{Centroids, Plan};
use rayon::prelude::*;
use serde::Serialize;

use super::device::device;

/// The least number of sets that are attacked.
const SETS: usize = 4096;

/// The share of fetched sets of which the group of the home is named, where every bucket is the home equally often.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GroupGuess {
    /// The share by the overlaps of groups. A guess among n groups that are equally likely counts 1 / n.
    pub right: f64,
    /// The share by chance: one in as many as a set has groups.
    pub chance: f64,
}

impl GroupGuess {
    /// Attacks sets of a plan, each bucket as the home for the same number of devices. The attacker knows the centroids
    /// and of which groups a set is made, and not their order.
    ///
    /// A home draws its first group of decoys evenly among the buckets whose groups have none of its own group's
    /// buckets. So the likelihood of a set is one in as many as there are of those, and the group with the fewest is
    /// named. A group that no bucket has was put together of the buckets that were left, and is never named.
    pub(super) fn of(centroids: &Centroids, plan: Plan) -> Self {
        let count = centroids.len();
        let group = |home: usize| sorted(&centroids.probed(home, plan));
        let groups: Vec<Vec<usize>> = (0..count).into_par_iter().map(group).collect();
        let free = |group: &Vec<usize>| {
            let mut taken = vec![false; count];
            group.iter().for_each(|bucket| taken[*bucket] = true);
            groups.iter().filter(|other| other.iter().all(|bucket| !taken[*bucket])).count()
        };
        let free: HashMap<Vec<usize>, usize> =
            groups.par_iter().map(|group| (group.clone(), free(group))).collect();
        let right = |set: usize| {
            let drawn = centroids.drawn(set % count, plan, &device(0, (set / count) as u64));
            let group = |group: &[usize]| free.get(&sorted(group)).copied().unwrap_or(usize::MAX);
            let free: Vec<usize> = drawn.chunks(plan.probes()).map(group).collect();
            let least = free.iter().min();
            let named = free.iter().filter(|free| Some(*free) == least).count();
            if free.first() == least { 1.0 / named as f64 } else { 0.0 }
        };
        let sets = SETS.div_ceil(count) * count;
        // Added up in one order, so that a report can be made again.
        let right: Vec<f64> = (0..sets).into_par_iter().map(right).collect();
        let chance = plan.probes() as f64 / plan.fetched() as f64;
        Self { right: right.iter().sum::<f64>() / sets as f64, chance }
    }
}

fn sorted(group: &[usize]) -> Vec<usize> {
    let mut group = group.to_vec();
    group.sort_unstable();
    group
}

#[cfg(test)]
mod tests {
    use dpr_core::private::bucket::encode_centroids;

    use super::*;

    fn guess(probes: usize, decoys: usize) -> GroupGuess {
        // The nearest bucket of 1, 2 and 3 is 0, whose own is 1; 4 and 5 are the nearest of each other.
        let rows = [[127.0, 0.0], [60.0, 0.0], [50.0, 0.0], [40.0, 0.0], [0.0, 100.0], [0.0, 90.0]];
        let centroids = Centroids::from_bytes(&encode_centroids(rows.as_flattened(), 2)).unwrap();
        GroupGuess::of(&centroids, Plan::new(probes, decoys, 6).unwrap())
    }

    #[test]
    fn the_group_that_overlaps_with_more_others_is_named_and_is_the_real_one_more_often() {
        // A home of 0 to 3 has 2 buckets to draw from, 4 and 5; a home of 4 or 5 has 4. Every set of two groups has one
        // of each kind: the odds are 2 to 1, and the first kind is named, which is right for 4 of 6 homes.
        assert_eq!(guess(2, 2), GroupGuess { right: 4.0 / 6.0, chance: 0.5 });
        // The third group is put together of the two buckets that are left, which are no bucket's group.
        assert_eq!(guess(2, 4), GroupGuess { right: 4.0 / 6.0, chance: 2.0 / 6.0 });
    }

    #[test]
    fn groups_of_one_bucket_are_named_by_chance_alone() {
        assert_eq!(guess(1, 1), GroupGuess { right: 0.5, chance: 0.5 });
        assert_eq!(guess(1, 3), GroupGuess { right: 0.25, chance: 0.25 });
    }
}
