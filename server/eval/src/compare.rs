//! Paired bootstrap: whether one system is better than another, or only luckier.

use std::collections::BTreeMap;

use dpr_core::random::{SplitMix, mix};
use rayon::prelude::*;
use serde::Serialize;

use super::counted;

/// The scores of one system: one a question, in the order that all compared systems share.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// The name of the system.
    pub name: String,
    /// 1 for a hit within k and 0 without one; or any figure of which the mean is reported, as F1.
    pub scores: Vec<f64>,
}

impl System {
    /// Returns a system whose scores are hits: its top-k accuracy, question by question.
    pub fn from_hits(name: impl Into<String>, hits: impl IntoIterator<Item = bool>) -> Self {
        Self { name: name.into(), scores: hits.into_iter().map(|hit| f64::from(u8::from(hit))).collect() }
    }

    /// Returns the mean score; 0 without questions.
    pub fn mean(&self) -> f64 {
        self.scores.iter().sum::<f64>() / self.scores.len().max(1) as f64
    }
}

/// Settings of the bootstrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// Resamples drawn.
    pub resamples: usize,
    /// The same seed draws the same resamples, on any number of threads.
    pub seed: u64,
}

impl Default for Bootstrap {
    /// 10,000 resamples, and the seed of the released training configuration.
    fn default() -> Self {
        Self { resamples: 10_000, seed: 12345 }
    }
}

/// The least number of clusters of which an interval is to be trusted. Resamples of fewer hardly differ from each
/// other, so that intervals are too narrow and p too small; 20 is the least of the bounds in use, which go up to 50
/// (Cameron and Miller 2015).
pub const LEAST_CLUSTERS: usize = 20;

/// The reason why systems cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Fewer than two systems.
    #[error("{} given: a comparison needs two or more", counted(*systems, "system", "systems"))]
    TooFew {
        /// Systems given.
        systems: usize,
    },
    /// Two systems were measured on different numbers of questions.
    #[error(
        "{name:?} has {}, {first:?} has {expected}: compare results on the same questions",
        counted(*got, "question", "questions")
    )]
    Questions {
        /// The system that differs.
        name: String,
        /// Its questions.
        got: usize,
        /// The first system.
        first: String,
        /// Its questions.
        expected: usize,
    },
    /// Nothing to compare.
    #[error("{name:?} has no questions")]
    NoQuestions {
        /// The system.
        name: String,
    },
    /// A score that is not a finite number.
    #[error("{name:?}: the score of question {question} is {score}, not a number to take a mean of")]
    Score {
        /// The system.
        name: String,
        /// Which question, from 1.
        question: usize,
        /// The score.
        score: String,
    },
    /// No resamples asked for.
    #[error("0 resamples tell nothing: ask for 1,000 or more")]
    NoResamples,
    /// Not one cluster for each question.
    #[error(
        "{} for {}: name one for each",
        counted(*clusters, "cluster is named", "clusters are named"),
        counted(*questions, "question", "questions")
    )]
    Clusters {
        /// Clusters named.
        clusters: usize,
        /// Questions given.
        questions: usize,
    },
    /// All questions are of one cluster, so that every resample is the same.
    #[error(
        "1 cluster holds {}, so that every resample is the same: give questions of {LEAST_CLUSTERS} clusters or more, \
         or compare without clusters",
        counted(*questions, "question, the only one", "questions, which are all")
    )]
    OneCluster {
        /// Questions given.
        questions: usize,
    },
}

/// The comparison of a system with the first one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// The system.
    pub name: String,
    /// The system it is compared with.
    pub baseline: String,
    /// Mean of the system minus mean of the baseline.
    pub difference: f64,
    /// Lower end of the 95% interval of the difference.
    pub low: f64,
    /// Upper end of that interval.
    pub high: f64,
    /// Two-sided p-value: the share of resamples in which the difference has the other sign or is 0, counted twice.
    /// Never 0: with 10,000 resamples at least 0.0002.
    pub p: f64,
    /// Questions on which the system scores higher.
    pub wins: usize,
    /// Questions on which it scores lower.
    pub losses: usize,
}

/// Compares every system with the first, by the paired bootstrap: questions are drawn with replacement, the
/// same ones for all systems, and the difference of the means is taken anew each time (Efron 1979; for
/// comparing systems, Koehn 2004). The interval holds the middle 95% of these differences.
///
/// # Errors
/// [`CompareError`] when there are fewer than two systems, or they were not measured on the same questions.
pub fn compare(systems: &[System], bootstrap: Bootstrap) -> Result<Vec<Comparison>, CompareError> {
    let questions = systems.first().map_or(0, |first| first.scores.len());
    let alone = (0..questions).map(|question| vec![question]).collect();
    compare_by(systems, alone, bootstrap)
}

/// Compares as [`compare`] does, drawing whole clusters of questions: `clusters` names the cluster of each question by
/// any number, as that of the passage or of the article which it is about. Questions about one article are hard or easy
/// together, so that intervals which take them for independent are too narrow (Cameron et al. 2008). The mean of a
/// resample is that over all questions of its clusters. With fewer than [`LEAST_CLUSTERS`], say so beside the interval.
///
/// # Errors
/// [`CompareError`] as [`compare`], and when there is not one cluster a question, or one in all.
pub fn compare_clusters(
    systems: &[System],
    clusters: &[usize],
    bootstrap: Bootstrap,
) -> Result<Vec<Comparison>, CompareError> {
    let questions = systems.first().map_or(0, |first| first.scores.len());
    if clusters.len() != questions {
        return Err(CompareError::Clusters { clusters: clusters.len(), questions });
    }
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (question, cluster) in clusters.iter().enumerate() {
        members.entry(*cluster).or_default().push(question);
    }
    if members.len() == 1 {
        return Err(CompareError::OneCluster { questions });
    }
    compare_by(systems, members.into_values().collect(), bootstrap)
}

fn compare_by(
    systems: &[System],
    clusters: Vec<Vec<usize>>,
    bootstrap: Bootstrap,
) -> Result<Vec<Comparison>, CompareError> {
    check(systems, bootstrap)?;
    let [baseline, others @ ..] = systems else { return Err(CompareError::TooFew { systems: 0 }) };
    let pairs: Vec<Vec<f64>> = others
        .iter()
        .map(|other| other.scores.iter().zip(&baseline.scores).map(|(score, base)| score - base).collect())
        .collect();
    let sum = |pair: &Vec<f64>, cluster: &Vec<usize>| cluster.iter().map(|question| pair[*question]).sum();
    let sums: Vec<Vec<f64>> =
        pairs.iter().map(|pair| clusters.iter().map(|cluster| sum(pair, cluster)).collect()).collect();
    let sizes: Vec<usize> = clusters.iter().map(Vec::len).collect();
    let resampled: Vec<Vec<f64>> = (0..bootstrap.resamples)
        .into_par_iter()
        .map(|number| resample(&sums, &sizes, bootstrap.seed, number as u64))
        .collect();
    let compared = others.iter().zip(&pairs).enumerate().map(|(index, (other, pair))| {
        let mut differences: Vec<f64> = resampled.iter().map(|means| means[index]).collect();
        differences.sort_unstable_by(f64::total_cmp);
        Comparison {
            name: other.name.clone(),
            baseline: baseline.name.clone(),
            difference: pair.iter().sum::<f64>() / pair.len() as f64,
            low: quantile(&differences, 0.025),
            high: quantile(&differences, 0.975),
            p: two_sided(&differences),
            wins: pair.iter().filter(|difference| **difference > 0.0).count(),
            losses: pair.iter().filter(|difference| **difference < 0.0).count(),
        }
    });
    Ok(compared.collect())
}

fn check(systems: &[System], bootstrap: Bootstrap) -> Result<(), CompareError> {
    let [first, _, ..] = systems else { return Err(CompareError::TooFew { systems: systems.len() }) };
    if first.scores.is_empty() {
        return Err(CompareError::NoQuestions { name: first.name.clone() });
    }
    if bootstrap.resamples == 0 {
        return Err(CompareError::NoResamples);
    }
    for System { name, scores } in systems {
        let (got, expected) = (scores.len(), first.scores.len());
        if got != expected {
            return Err(CompareError::Questions {
                name: name.clone(),
                got,
                first: first.name.clone(),
                expected,
            });
        }
        if let Some(index) = scores.iter().position(|score| !score.is_finite()) {
            let score = scores[index].to_string();
            return Err(CompareError::Score { name: name.clone(), question: index + 1, score });
        }
    }
    Ok(())
}

/// Returns the mean of each list of differences over one resample of the clusters, whose sums and sizes are given.
fn resample(sums: &[Vec<f64>], sizes: &[usize], seed: u64, number: u64) -> Vec<f64> {
    let mut random = SplitMix::new(mix(seed) ^ mix(!number));
    let (mut totals, mut questions) = (vec![0.0; sums.len()], 0);
    for _ in 0..sizes.len() {
        let cluster = random.below(sizes.len());
        questions += sizes[cluster];
        for (total, sums) in totals.iter_mut().zip(sums) {
            *total += sums[cluster];
        }
    }
    totals.iter().map(|total| total / questions as f64).collect()
}

/// Returns the value below which a share of the sorted values lies, between neighbours by their distance.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

fn two_sided(sorted: &[f64]) -> f64 {
    let not_above = sorted.partition_point(|difference| *difference <= 0.0);
    let not_below = sorted.len() - sorted.partition_point(|difference| *difference < 0.0);
    let other_sign = not_above.min(not_below);
    (2.0 * (other_sign + 1) as f64 / (sorted.len() + 1) as f64).min(1.0)
}

#[cfg(test)]
mod tests;
