//! The order of passages in private tables: neighbours stand together, so that a column holds what belongs together.

use rayon::prelude::*;

/// Passages among which a chain looks for the next one.
const LEAF: usize = 512;

/// Returns an order of the rows `[any, dims]` in which neighbours are near each other: the rows are halved along the
/// coordinate that spreads them most until few are left, and those are chained, each followed by the nearest of the
/// rest. The same rows give the same order.
pub(crate) fn neighbours(rows: &[f32], dims: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..(rows.len() / dims.max(1)) as u32).collect();
    halve(rows, dims, &mut order);
    order.par_chunks_mut(LEAF).for_each(|leaf| chain(rows, dims, leaf));
    order
}

fn halve(rows: &[f32], dims: usize, order: &mut [u32]) {
    if order.len() <= LEAF {
        return;
    }
    let value = |row: u32, at: usize| rows.get(row as usize * dims + at).copied().unwrap_or_default();
    let spread = |at: usize| {
        let (sum, squares) = order.iter().fold((0f64, 0f64), |(sum, squares), row| {
            let x = f64::from(value(*row, at));
            (sum + x, squares + x * x)
        });
        squares - sum * sum / order.len() as f64
    };
    // The first directions spread the most; looking at the others changes little.
    let widest = (0..dims.min(32)).map(|at| (at, spread(at))).max_by(|a, b| a.1.total_cmp(&b.1));
    let at = widest.map_or(0, |(at, _)| at);
    // Whole leaves on the left, so that chains do not cross a cut.
    let middle = (order.len() / 2).next_multiple_of(LEAF).min(order.len() - 1);
    order.select_nth_unstable_by(middle, |a, b| value(*a, at).total_cmp(&value(*b, at)).then(a.cmp(b)));
    let (left, right) = order.split_at_mut(middle);
    // What a selection leaves on each side is in no order that could be relied on.
    left.sort_unstable();
    right.sort_unstable();
    rayon::join(|| halve(rows, dims, left), || halve(rows, dims, right));
}

/// Puts the rows of a leaf into a greedy chain of greatest inner products.
fn chain(rows: &[f32], dims: usize, leaf: &mut [u32]) {
    let row = |at: u32| &rows[at as usize * dims..][..dims];
    for done in 1..leaf.len() {
        let (last, rest) = (row(leaf[done - 1]), &leaf[done..]);
        let product = |at: &u32| row(*at).iter().zip(last).map(|(a, b)| a * b).sum::<f32>();
        let nearest = rest.iter().map(product).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((nearest, _)) = nearest {
            leaf.swap(done, done + nearest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpr_core::random::SplitMix;

    #[test]
    fn every_row_is_there_once_and_neighbours_are_nearer_than_others() {
        let (count, dims) = (3000, 8);
        let mut random = SplitMix::new(2);
        let centres: Vec<f32> = (0..60 * dims).map(|_| random.normal() as f32).collect();
        let rows: Vec<f32> = (0..count)
            .flat_map(|_| {
                let centre = random.below(60);
                (0..dims)
                    .map(|at| centres[centre * dims + at] + 0.05 * random.normal() as f32)
                    .collect::<Vec<_>>()
            })
            .collect();
        let order = neighbours(&rows, dims);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..count as u32).collect::<Vec<_>>());
        assert_eq!(order, neighbours(&rows, dims));
        let distance = |a: u32, b: u32| -> f32 {
            (0..dims).map(|at| (rows[a as usize * dims + at] - rows[b as usize * dims + at]).powi(2)).sum()
        };
        let near = order.windows(2).filter(|pair| distance(pair[0], pair[1]) < 0.5).count();
        assert!(near > count * 8 / 10, "{near} of {count} pairs are of one cluster");
    }
}
