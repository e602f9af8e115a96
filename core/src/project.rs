//! Orthonormal projection, which changes the size of vectors and none of their inner products.

use crate::random::SplitMix;

/// Returns a matrix `[rows, columns]`, row-major, `rows >= columns`, whose columns are orthonormal: for vectors `a`,
/// `b` of `columns` numbers, `(M a)·(M b) = a·b`. With `rows < columns` its rows are orthonormal instead, and inner
/// products are kept only as well as `rows` numbers can.
///
/// The matrix is made from `seed` by Gram-Schmidt on normally distributed numbers, in f64, the same on every machine.
pub fn orthonormal(rows: usize, columns: usize, seed: u64) -> Vec<f32> {
    let (count, length) = if rows >= columns { (columns, rows) } else { (rows, columns) };
    let mut random = SplitMix::new(seed);
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(count);
    while basis.len() < count {
        let mut vector: Vec<f64> = (0..length).map(|_| random.normal()).collect();
        // Twice: one pass of Gram-Schmidt leaves rounding errors that the second removes.
        for _ in 0..2 {
            for other in &basis {
                let along = dot(&vector, other);
                vector.iter_mut().zip(other).for_each(|(v, o)| *v -= along * o);
            }
        }
        let norm = dot(&vector, &vector).sqrt();
        if norm > 1e-6 {
            vector.iter_mut().for_each(|v| *v /= norm);
            basis.push(vector);
        }
    }
    let at =
        |row: usize, column: usize| if rows >= columns { basis[column][row] } else { basis[row][column] };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (row, column)))
        .map(|(r, c)| at(r, c) as f32)
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_products_survive() {
        let (rows, columns) = (48, 20);
        let matrix = orthonormal(rows, columns, 12345);
        let mut random = SplitMix::new(7);
        let [a, b]: [Vec<f64>; 2] = std::array::from_fn(|_| (0..columns).map(|_| random.normal()).collect());
        let map = |x: &[f64]| -> Vec<f64> {
            matrix
                .chunks(columns)
                .map(|row| row.iter().zip(x).map(|(m, x)| f64::from(*m) * x).sum())
                .collect()
        };
        assert!((dot(&map(&a), &map(&b)) - dot(&a, &b)).abs() < 1e-5);
        assert_ne!(orthonormal(rows, columns, 1), matrix, "the seed matters");
    }

    #[test]
    fn a_narrowing_matrix_has_orthonormal_rows() {
        let matrix = orthonormal(3, 8, 1);
        let rows: Vec<Vec<f64>> =
            matrix.chunks(8).map(|r| r.iter().map(|v| f64::from(*v)).collect()).collect();
        for (i, a) in rows.iter().enumerate() {
            for (j, b) in rows.iter().enumerate() {
                assert!((dot(a, b) - f64::from(i == j)).abs() < 1e-6);
            }
        }
    }
}
