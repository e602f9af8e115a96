//! Paired bootstrap: whether one system is better than another, or only luckier.

use dpr_core::random::{SplitMix, mix};
use rayon::prelude::*;
use serde::Serialize;

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

/// The reason why systems cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// Fewer than two systems.
    #[error("{systems} system given: a comparison needs two or more")]
    TooFew {
        /// Systems given.
        systems: usize,
    },
    /// Two systems were measured on different numbers of questions.
    #[error("{name:?} has {got} questions, {first:?} has {expected}: compare results on the same questions")]
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
    check(systems, bootstrap)?;
    let [baseline, others @ ..] = systems else { return Err(CompareError::TooFew { systems: 0 }) };
    let pairs: Vec<Vec<f64>> = others
        .iter()
        .map(|other| other.scores.iter().zip(&baseline.scores).map(|(score, base)| score - base).collect())
        .collect();
    let resampled: Vec<Vec<f64>> = (0..bootstrap.resamples)
        .into_par_iter()
        .map(|number| resample(&pairs, baseline.scores.len(), bootstrap.seed, number as u64))
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

/// Returns the mean of each list of differences over one resample of the questions.
fn resample(pairs: &[Vec<f64>], questions: usize, seed: u64, number: u64) -> Vec<f64> {
    let mut random = SplitMix::new(mix(seed) ^ mix(!number));
    let mut sums = vec![0.0; pairs.len()];
    for _ in 0..questions {
        let question = random.below(questions);
        for (sum, pair) in sums.iter_mut().zip(pairs) {
            *sum += pair[question];
        }
    }
    sums.iter().map(|sum| sum / questions as f64).collect()
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
mod tests {
    use super::*;

    /// Returns a system that hits question `i` when `hits(i)`.
    fn system(name: &str, questions: usize, hits: impl Fn(usize) -> bool) -> System {
        System::from_hits(name, (0..questions).map(hits))
    }

    #[test]
    fn the_interval_is_that_of_the_normal_approximation() {
        // 90 wins and 30 losses in 1,000 questions: mean 0.06, standard error of the paired difference known.
        let systems = [
            system("bm25", 1000, |i| (90..120).contains(&i) || i >= 500),
            system("dense", 1000, |i| !(90..500).contains(&i)),
        ];
        let [found] = &compare(&systems, Bootstrap::default()).unwrap()[..] else { panic!() };
        assert_eq!((found.wins, found.losses), (90, 30));
        assert!((found.difference - 0.06).abs() < 1e-12);
        let error = ((0.12 - 0.06f64.powi(2)) / 1000.0).sqrt();
        assert!((found.low - (0.06 - 1.96 * error)).abs() < 0.001, "{found:?}");
        assert!((found.high - (0.06 + 1.96 * error)).abs() < 0.001, "{found:?}");
        assert!(found.p < 0.001);
    }

    #[test]
    fn p_of_a_small_difference_is_that_of_the_normal_approximation() {
        // 30 wins and 20 losses in 400: z = 0.025 / sqrt((0.125 - 0.025^2) / 400) = 1.418, p = 0.156.
        let systems = [
            system("a", 400, |i| (30..50).contains(&i)),
            system("b", 400, |i| i < 30),
            system("c", 400, |i| i < 20),
        ];
        let found = compare(&systems, Bootstrap::default()).unwrap();
        // Counting resamples without any difference on both sides makes it a little larger.
        assert!((0.15..0.19).contains(&found[0].p), "{found:?}");
        assert!(found[0].low < 0.0 && found[0].high > 0.0);
        assert!((found[1].difference, found[1].wins) == (0.0, 20) && found[1].p > 0.9, "{found:?}");
    }

    #[test]
    fn equal_systems_do_not_differ() {
        let systems = [system("a", 50, |i| i % 2 == 0), system("b", 50, |i| i % 2 == 0)];
        let found = compare(&systems, Bootstrap::default()).unwrap();
        assert_eq!((found[0].difference, found[0].low, found[0].high, found[0].p), (0.0, 0.0, 0.0, 1.0));
    }

    #[test]
    fn a_seed_repeats_itself_on_any_number_of_threads() {
        let systems = [system("a", 300, |i| i % 3 == 0), system("b", 300, |i| i % 5 == 0)];
        let run = |threads, seed| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| compare(&systems, Bootstrap { seed, ..Bootstrap::default() }).unwrap())
        };
        assert_eq!(run(1, 7), run(3, 7));
        assert_ne!(run(1, 7), run(1, 8));
    }

    #[test]
    fn systems_that_do_not_belong_together_are_refused() {
        let (a, b) = (system("a", 3, |_| true), system("b", 4, |_| true));
        let run = |systems: &[System]| compare(systems, Bootstrap::default()).unwrap_err();
        assert_eq!(run(std::slice::from_ref(&a)), CompareError::TooFew { systems: 1 });
        assert!(matches!(run(&[a.clone(), b]), CompareError::Questions { got: 4, expected: 3, .. }));
        let nan = System { name: "c".into(), scores: vec![1.0, f64::NAN, 0.0] };
        assert!(matches!(run(&[a.clone(), nan]), CompareError::Score { question: 2, .. }));
        let none = Bootstrap { resamples: 0, seed: 1 };
        assert_eq!(compare(&[a.clone(), a], none), Err(CompareError::NoResamples));
    }
}
