//! Links that make every row reachable.

/// Adds links so that every row can be reached from `entry` on the lowest layer.
///
/// Pruning keeps the closest links of a row, so that a row whose neighbours all have closer ones, as when
/// passages repeat, may have no link to it left.
pub(super) fn connect(lowest: &mut [Vec<u32>], entry: usize) {
    let mut reached = vec![false; lowest.len()];
    spread(lowest, entry, &mut reached);
    // First through a row's own neighbours, which are near it; the entry is the last resort.
    loop {
        let mut changed = false;
        for row in 0..lowest.len() {
            if reached[row] {
                continue;
            }
            if let Some(near) = lowest[row].iter().copied().find(|near| reached[*near as usize]) {
                lowest[near as usize].push(row as u32);
                spread(lowest, row, &mut reached);
                changed = true;
            }
        }
        if changed {
            continue;
        }
        match reached.iter().position(|reached| !reached) {
            None => return,
            Some(row) => {
                lowest[entry].push(row as u32);
                spread(lowest, row, &mut reached);
            }
        }
    }
}

/// Marks what can be reached from `start`.
fn spread(lowest: &[Vec<u32>], start: usize, reached: &mut [bool]) {
    let mut open = vec![start];
    reached[start] = true;
    while let Some(row) = open.pop() {
        for next in &lowest[row] {
            let next = *next as usize;
            if !reached[next] {
                reached[next] = true;
                open.push(next);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_rows_are_linked_through_their_neighbours() {
        let mut lowest = vec![vec![1], vec![0], vec![1], vec![4], vec![3], vec![]];
        connect(&mut lowest, 0);
        let mut reached = vec![false; lowest.len()];
        spread(&lowest, 0, &mut reached);
        assert!(reached.iter().all(|reached| *reached));
        assert_eq!(lowest[1], [0, 2], "row 2 is linked from its neighbour");
    }
}
