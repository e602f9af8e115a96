//! Workgroups of a kernel on a GPU, which are counted in three dimensions with a limit in each.

/// The most workgroups in one dimension that every WebGPU device takes.
const MOST: u32 = 65_535;

/// Returns the numbers of workgroups in two dimensions, whose product is `groups` or larger by less than the second.
pub(super) fn spread(groups: u32) -> [u32; 2] {
    let second = groups.div_ceil(MOST).max(1);
    [groups.div_ceil(second), second]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workgroups_stay_within_the_limit_of_a_dimension() {
        for few in [0, 1, 2, 1000, MOST] {
            assert_eq!(spread(few), [few, 1]);
        }
        assert_eq!(spread(MOST + 1), [32_768, 2]);
        // Embeddings of 16 texts of 512 tokens and 1024 numbers: 32 vectors of four numbers in a group.
        assert_eq!(spread(16 * 512 * 256 / 32), [32_768, 2]);
        for groups in [MOST + 2, 2 * MOST, 2 * MOST + 1, 12_345_678, u32::MAX / 32] {
            let [first, second] = spread(groups);
            assert!(first <= MOST && second <= MOST, "{groups}: {first} and {second}");
            let surplus = u64::from(first) * u64::from(second) - u64::from(groups);
            assert!(surplus < u64::from(second), "{groups}: {surplus} too many");
        }
    }
}
