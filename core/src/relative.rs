//! Buckets of relative positions, by which MPNet's attention is biased (Song et al. 2020; they are T5's, Raffel et al.
//! 2020 §2.1).

/// Distance from which on all positions share the last bucket.
const MAX_DISTANCE: f64 = 128.0;

/// Returns the bucket of a relative position (key minus query): half the buckets for each direction; within one, half
/// for single distances and the rest on a logarithmic scale.
pub(crate) fn bucket(relative: i64, buckets: usize) -> usize {
    let half = buckets / 2;
    let direction = if relative > 0 { half } else { 0 };
    let distance = relative.unsigned_abs() as usize;
    let exact = half / 2;
    if distance < exact {
        return direction + distance;
    }
    let scale = (distance as f64 / exact as f64).ln() / (MAX_DISTANCE / exact as f64).ln();
    let beyond = (scale * (half - exact) as f64) as usize;
    direction + exact.saturating_add(beyond).min(half.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::bucket;

    #[test]
    fn buckets_are_those_of_transformers() {
        // MPNetEncoder.relative_position_bucket(torch.tensor(…), num_buckets=32)
        let cases =
            [(0, 0), (-1, 1), (1, 17), (-7, 7), (8, 24), (-15, 9), (16, 26), (-64, 14), (90, 30), (127, 31)];
        for (relative, expected) in cases {
            assert_eq!(bucket(relative, 32), expected, "relative position {relative}");
        }
        assert_eq!((bucket(-500, 32), bucket(500, 32)), (15, 31));
        assert_eq!(bucket(5, 1), 0, "a damaged config does not panic");
    }

    #[test]
    fn every_number_of_buckets_has_one_for_every_position() {
        // With 512 to 515 of them the logarithmic scale has no length.
        for buckets in 1..=1100 {
            for relative in [0, 1, 63, 64, 127, 128, 129, 500, 1 << 20, i64::MAX] {
                for relative in [relative, -relative] {
                    let found = bucket(relative, buckets);
                    assert!(found < buckets, "{relative} of {buckets}: {found}");
                }
            }
        }
        assert_eq!((bucket(-500, 512), bucket(500, 515)), (255, 513));
    }
}
