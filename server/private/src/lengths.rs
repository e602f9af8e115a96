//! Lengths of vectors, and how long one may be among others.

/// The share of vectors whose lengths are those that are usual.
const USUAL: f64 = 0.999;

/// The least limit, as a share of the greatest length: vectors that are equal but for rounding differ by less.
const LEAST: f64 = 1e-5;

/// Returns the length of a vector.
pub(crate) fn of(row: &[f32]) -> f64 {
    row.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt()
}

/// Returns the length to which longer vectors are shortened: twice the length that 99.9 % of them do not pass (all but
/// the longest of fewer than 1,000), or the greatest where none is longer.
pub(crate) fn limit(mut lengths: Vec<f64>) -> f64 {
    let longest = lengths.iter().copied().fold(0.0, f64::max);
    let at = (lengths.len().saturating_sub(1) as f64 * USUAL) as usize;
    if at >= lengths.len() {
        return longest;
    }
    let (_, usual, _) = lengths.select_nth_unstable_by(at, f64::total_cmp);
    (2.0 * *usual).max(LEAST * longest).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_within_twice_the_usual_one_stay_and_one_beyond_all_others_does_not() {
        for (lengths, expected) in [
            (vec![], 0.0),
            (vec![3.0], 3.0),
            (vec![1.0, 2.0, 1.5], 2.0),
            (vec![1.0, 1.0, 1.0, 3000.0], 2.0),
            (vec![0.0, 0.0, 7.0], 7e-5),
            (vec![1.0; 2000], 1.0),
            ([vec![1.0; 1998], vec![50.0; 2]].concat(), 2.0),
            // Ten of 2,000 are more than one in a thousand: they are no outliers.
            ([vec![1.0; 1990], vec![50.0; 10]].concat(), 50.0),
        ] {
            let limit = limit(lengths.clone());
            assert!((limit - expected).abs() < 1e-12, "{} lengths: {limit}, not {expected}", lengths.len());
        }
    }
}
