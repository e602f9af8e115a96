//! Adam (Kingma and Ba 2015), by which neural attackers are trained.

use dpr_core::random::SplitMix;
use rayon::prelude::*;

/// Numbers that a thread updates at a time.
const PART: usize = 1 << 14;

/// Adam's step size and decay rates (Kingma and Ba 2015).
const RATE: f32 = 1e-3;
const DECAY: (f32, f32) = (0.9, 0.999);

/// A matrix with Adam's two moments.
pub(super) struct Weights {
    /// The matrix, row by row.
    pub(super) values: Vec<f32>,
    pub(super) first: Vec<f32>,
    second: Vec<f32>,
}

impl Weights {
    /// Returns weights with these values, and moments of zero.
    pub(super) fn new(values: Vec<f32>) -> Self {
        let zeros = vec![0f32; values.len()];
        Self { values, first: zeros.clone(), second: zeros }
    }

    /// Returns normal weights `[rows, width]` with the standard deviation `1 / sqrt(width)`.
    pub(super) fn random(rows: usize, width: usize, random: &mut SplitMix) -> Self {
        let scale = 1.0 / (width.max(1) as f64).sqrt();
        Self::new((0..rows * width).map(|_| (random.normal() * scale) as f32).collect())
    }

    /// Takes Adam's step number `step`, from 1.
    pub(super) fn step(&mut self, gradient: &[f32], step: i32) {
        let rates = Rates::of(step);
        let parts = self.values.par_chunks_mut(PART).zip(gradient.par_chunks(PART));
        let moments = self.first.par_chunks_mut(PART).zip(self.second.par_chunks_mut(PART));
        parts.zip(moments).for_each(|((values, gradient), (first, second))| {
            rates.update(values, first, second, gradient);
        });
    }

    /// Takes Adam's step for these rows of `width` numbers alone, whose gradients are the rows of `gradient`. The
    /// moments of other rows do not decay.
    pub(super) fn step_rows(&mut self, rows: &[usize], width: usize, gradient: &[f32], step: i32) {
        let rates = Rates::of(step);
        for (row, gradient) in rows.iter().zip(gradient.chunks_exact(width.max(1))) {
            let row = row * width..(row + 1) * width;
            let Self { values, first, second } = self;
            rates.update(&mut values[row.clone()], &mut first[row.clone()], &mut second[row], gradient);
        }
    }
}

/// Bias corrections of Adam's moments at a step.
#[derive(Clone, Copy)]
struct Rates {
    first_bias: f32,
    second_bias: f32,
}

impl Rates {
    fn of(step: i32) -> Self {
        let (one, two) = DECAY;
        Self { first_bias: 1.0 - one.powi(step), second_bias: 1.0 - two.powi(step) }
    }

    fn update(self, values: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32]) {
        let (one, two) = DECAY;
        let values = values.iter_mut().zip(gradient);
        for ((value, gradient), (first, second)) in values.zip(first.iter_mut().zip(second)) {
            *first = one * *first + (1.0 - one) * gradient;
            *second = two * *second + (1.0 - two) * gradient * gradient;
            *value -= RATE * (*first / self.first_bias) / ((*second / self.second_bias).sqrt() + 1e-8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_some_rows_is_the_step_of_all_where_the_others_have_no_gradient() {
        let mut random = SplitMix::new(3);
        let [mut all, mut some] = [(); 2].map(|()| Weights::random(4, 3, &mut SplitMix::new(8)));
        for step in 1..4 {
            let rows: Vec<f32> = (0..6).map(|_| random.normal() as f32).collect();
            let mut gradient = vec![0.0; 12];
            gradient[3..6].copy_from_slice(&rows[..3]);
            gradient[9..].copy_from_slice(&rows[3..]);
            all.step(&gradient, step);
            some.step_rows(&[1, 3], 3, &rows, step);
        }
        // A compiler may round a sum of long rows in another way.
        let is_near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
        assert!(all.values.iter().zip(&some.values).all(is_near), "{:?} {:?}", all.values, some.values);
        assert!(all.first.iter().zip(&some.first).all(is_near), "{:?} {:?}", all.first, some.first);
        let begun = Weights::random(4, 3, &mut SplitMix::new(8)).values;
        assert_ne!(some.values[3..6], begun[3..6]);
        assert_eq!(some.values[6..9], begun[6..9]);
    }
}
