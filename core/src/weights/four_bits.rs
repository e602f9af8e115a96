//! Matrices stored in 4 bits, which are opened into 8 bits when they are loaded.
//!
//! The numbers of a row are those of 8 bits: a whole number from -128 to 127 times the row's scale. Each [`GROUP`] of
//! them has a step, and is stored as codes from -8 to 7, so that the number in 8 bits is `code * step`. The product is
//! exact, so a matrix in 4 bits computes as one in 8 bits does, at its speed, and is opened without a rounding of its
//! own. A step in a byte costs half of what a scale in f16 costs. It may be negative: the code -8 has no counterpart,
//! and the sign of the step decides which side of a group gets it.

use super::WeightsError;

/// Suffix of the tensor that holds a 4-bit matrix's steps.
pub const STEPS_SUFFIX: &str = ".steps";

/// Numbers of a row that share a step.
pub const GROUP: usize = 32;

/// The largest magnitude of a step that [`quantize_groups`] writes.
const MOST_STEP: i8 = 15;

/// Codes are stored with this added, as numbers from 0 to 15.
const OFFSET: i8 = 8;

/// A matrix `[rows, columns]` in 4 bits, as it is stored; `columns` is a whole number of groups.
#[derive(Clone, Debug, PartialEq)]
pub struct FourBits {
    /// `[rows, columns / 2]`: two codes a byte, the first in the low half, each with 8 added.
    pub codes: Vec<u8>,
    /// `[rows, columns / GROUP]`.
    pub steps: Vec<i8>,
    /// `[rows]`, never negative.
    pub scales: Vec<f32>,
}

impl FourBits {
    /// Returns the numbers of the matrix, `[rows, columns]`, as they are when it is opened.
    pub fn into_f32(self) -> Vec<f32> {
        let columns = self.codes.len() * 2 / self.scales.len().max(1);
        let mut groups = self.codes.as_chunks::<{ GROUP / 2 }>().0.iter().zip(&self.steps);
        let mut values = Vec::with_capacity(self.codes.len() * 2);
        for scale in &self.scales {
            for (codes, step) in groups.by_ref().take(columns / GROUP) {
                let code = |stored: u8| i16::from(stored) - i16::from(OFFSET);
                let number = |stored: u8| f32::from(code(stored) * i16::from(*step)) * scale;
                values.extend(codes.iter().flat_map(|pair| [number(pair & 15), number(pair >> 4)]));
            }
        }
        values
    }
}

/// Returns whether rows of so many numbers can be stored in 4 bits.
pub fn fits_groups(columns: usize) -> bool {
    columns > 0 && columns.is_multiple_of(GROUP)
}

/// Returns a 4-bit copy of a matrix `[rows, columns]`: for each group the step, of all that there are, whose codes have
/// the least squared error.
///
/// Returns `None` where `columns` is not a whole number of groups.
pub fn quantize_groups(values: &[f32], columns: usize) -> Option<FourBits> {
    if !fits_groups(columns) {
        return None;
    }
    let groups = values.len() / GROUP;
    let (mut codes, mut steps) = (Vec::with_capacity(values.len() / 2), Vec::with_capacity(groups));
    let mut scales = Vec::with_capacity(values.len() / columns);
    for row in values.chunks_exact(columns) {
        let scale = row_scale(row);
        let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
        for group in row.as_chunks::<GROUP>().0 {
            let group = group.map(|value| value * inverse);
            let step = best_step(&group, &[1.0; GROUP]);
            codes.extend(pack(&group.map(|value| code(value, step))));
            steps.push(step);
        }
        scales.push(scale);
    }
    Some(FourBits { codes, steps, scales })
}

/// Returns the scale of a row: its greatest magnitude is the code -8 times the largest step.
pub(super) fn row_scale(row: &[f32]) -> f32 {
    row.iter().fold(0f32, |most, value| most.max(value.abs())) / (f32::from(MOST_STEP) * f32::from(OFFSET))
}

/// Returns the code from -8 to 7 that is nearest to `value`, a number in 8 bits, with this step.
pub(super) fn code(value: f32, step: i8) -> i8 {
    rounded(value * (1.0 / f32::from(step))) as i8
}

/// Returns the nearest whole number from -8 to 7, of two the even one, for magnitudes up to 2²²: beside [`WHOLE`] an
/// `f32` has no fraction. Unlike `round_ties_even` that needs no instruction beyond SSE2, and is computed in vectors.
#[inline(always)]
fn rounded(value: f32) -> f32 {
    /// 1.5 · 2²³.
    const WHOLE: f32 = 12_582_912.0;
    ((value + WHOLE) - WHOLE).clamp(-8.0, 7.0)
}

/// Returns the step with the least sum of squared errors times their `weights`; the smaller of two that are as good.
pub(super) fn best_step(group: &[f32; GROUP], weights: &[f32; GROUP]) -> i8 {
    /// Sums side by side, which the compiler keeps in vectors.
    const LANES: usize = 8;
    let mut best = (f32::INFINITY, 1);
    for step in (1..=MOST_STEP).flat_map(|step| [step, -step]) {
        let (width, inverse) = (f32::from(step), 1.0 / f32::from(step));
        let mut errors = [0f32; LANES];
        let weights = weights.as_chunks::<LANES>().0;
        for (values, weights) in group.as_chunks::<LANES>().0.iter().zip(weights) {
            for ((error, value), weight) in errors.iter_mut().zip(values).zip(weights) {
                let off = rounded(value * inverse) * width - value;
                *error += off * off * weight;
            }
        }
        let error: f32 = errors.iter().sum();
        if error < best.0 {
            best = (error, step);
        }
    }
    best.1
}

/// Returns codes from -8 to 7 as they are stored.
pub(super) fn pack(codes: &[i8; GROUP]) -> impl Iterator<Item = u8> {
    let stored = |code: i8| (code + OFFSET) as u8;
    codes.as_chunks::<2>().0.iter().map(move |[low, high]| stored(*low) | stored(*high) << 4)
}

/// Returns the numbers in 8 bits, `[rows, columns]`, of the codes and steps of matrix `name`, whose lengths fit each
/// other.
///
/// # Errors
/// [`WeightsError::FourBits`] for a number that 8 bits do not hold.
pub(super) fn open(name: &str, codes: &[u8], steps: &[i8], columns: usize) -> Result<Vec<i8>, WeightsError> {
    let mut values = Vec::with_capacity(codes.len() * 2);
    for (group, (codes, step)) in codes.as_chunks::<{ GROUP / 2 }>().0.iter().zip(steps).enumerate() {
        let mut is_inside = true;
        let mut opened = |stored: u8| {
            let value = (i16::from(stored) - i16::from(OFFSET)) * i16::from(*step);
            is_inside &= i8::try_from(value).is_ok();
            value as i8
        };
        values.extend(codes.iter().flat_map(|pair| [opened(pair & 15), opened(pair >> 4)]));
        if !is_inside {
            let first = group * GROUP;
            let reason = format!(
                "the step {step} of row {} at column {} times a code is outside -128 to 127",
                first / columns,
                first % columns
            );
            return Err(WeightsError::FourBits { name: name.into(), reason });
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::super::{Matrix, TensorMap};
    use super::*;
    use crate::random::SplitMix;
    use safetensors::tensor::{Dtype, TensorView};

    const NAME: &str = "w.weight";

    fn random(rows: usize, columns: usize) -> Vec<f32> {
        let mut draw = SplitMix::keyed(&[rows as u64, columns as u64]);
        (0..rows * columns).map(|_| (draw.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }

    /// One tensor of a file: the end of its name, its type, shape and bytes.
    type Stored = (&'static str, Dtype, Vec<usize>, Vec<u8>);

    fn stored(quantized: &FourBits, rows: usize, columns: usize) -> [Stored; 3] {
        let steps = quantized.steps.iter().map(|step| *step as u8).collect();
        let scales = quantized.scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        [
            ("", Dtype::U8, vec![rows, columns / 2], quantized.codes.clone()),
            (STEPS_SUFFIX, Dtype::I8, vec![rows, columns / GROUP], steps),
            (".scale", Dtype::F32, vec![rows], scales),
        ]
    }

    fn take(stored: &[Stored], shape: &[usize]) -> Result<Matrix, WeightsError> {
        let views = stored.iter().map(|(end, dtype, shape, bytes)| {
            (format!("{NAME}{end}"), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
        });
        let bytes = safetensors::serialize(views, None).unwrap();
        let mut map = TensorMap::from_safetensors([("m", bytes.as_slice())])?;
        let matrix = map.take_matrix(NAME, shape)?;
        map.all_taken().map(|()| matrix)
    }

    #[test]
    fn a_matrix_in_4_bits_is_opened_into_8_bits_without_another_rounding() {
        let (rows, columns) = (7, 96);
        let quantized = quantize_groups(&random(rows, columns), columns).unwrap();
        let matrix = take(&stored(&quantized, rows, columns), &[rows, columns]).unwrap();
        let Matrix::Q8 { values, scales } = &matrix else { panic!("{matrix:?}") };
        assert_eq!(*scales, quantized.scales);
        assert_eq!(matrix.clone().into_f32(), quantized.clone().into_f32());
        let codes = quantized.codes.iter().flat_map(|pair| [pair & 15, pair >> 4]);
        for (place, (code, value)) in codes.zip(values).enumerate() {
            let expected = (i32::from(code) - 8) * i32::from(quantized.steps[place / GROUP]);
            assert_eq!(i32::from(*value), expected, "{place}");
        }
    }

    #[test]
    fn no_step_of_a_group_is_better_than_the_one_that_is_chosen() {
        let columns = 3 * GROUP;
        let values = random(5, columns);
        let quantized = quantize_groups(&values, columns).unwrap();
        let stored = stored(&quantized, 5, columns);
        let opened = take(&stored, &[5, columns]).unwrap().into_f32();
        for (group, (exact, got)) in values.chunks(GROUP).zip(opened.chunks(GROUP)).enumerate() {
            let scale = f64::from(quantized.scales[group * GROUP / columns]);
            let error: f64 = exact.iter().zip(got).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            for step in (-15..=15).filter(|step| *step != 0) {
                let width = scale * f64::from(step);
                let other: f64 = exact
                    .iter()
                    .map(|value| {
                        let value = f64::from(*value);
                        ((value / width).round().clamp(-8.0, 7.0) * width - value).powi(2)
                    })
                    .sum();
                assert!(error <= other * 1.0001, "group {group}: {error}, and {other} with the step {step}");
            }
        }
    }

    #[test]
    fn the_greatest_number_of_a_row_of_either_sign_and_rows_of_zeros_are_kept() {
        for most in [3.0, -3.0] {
            let mut values = vec![0f32; 2 * GROUP];
            values[5] = most;
            let quantized = quantize_groups(&values, GROUP).unwrap();
            let opened = take(&stored(&quantized, 2, GROUP), &[2, GROUP]).unwrap().into_f32();
            assert!(opened.iter().zip(&values).all(|(got, value)| (got - value).abs() < 1e-6), "{opened:?}");
        }
        assert_eq!(quantize_groups(&random(2, 40), 40), None);
    }

    #[test]
    fn files_that_the_format_does_not_allow_are_refused_with_their_reason() {
        let (rows, columns) = (2, 2 * GROUP);
        let quantized = quantize_groups(&random(rows, columns), columns).unwrap();
        let refused = |stored: &[Stored], shape: &[usize]| take(stored, shape).unwrap_err().to_string();
        let changed = |change: &dyn Fn(&mut [Stored; 3])| {
            let mut stored = stored(&quantized, rows, columns);
            change(&mut stored);
            refused(&stored, &[rows, columns])
        };
        let cut = changed(&|stored| (stored[0].2, stored[0].3) = (vec![rows, 31], vec![0; rows * 31]));
        assert!(cut.contains("shape [2, 31], expected [2, 64 / 2]"), "{cut}");
        let narrow = [("", Dtype::U8, vec![2, 20], vec![0; 40])];
        let narrow = refused(&narrow, &[2, 40]);
        assert!(narrow.contains("whole groups of 32"), "{narrow}");
        let groups = changed(&|stored| (stored[1].2, stored[1].3) = (vec![rows, 4], vec![1; rows * 4]));
        assert!(groups.contains("w.weight.steps") && groups.contains("[2, 4], expected [2, 2]"), "{groups}");
        let kind = changed(&|stored| stored[1].1 = Dtype::U8);
        assert!(kind.contains("steps are stored as U8"), "{kind}");
        // The codes 0 and 15 stand for -8 and 7.
        let wide = changed(&|stored| (stored[0].3[40], stored[1].3[2]) = (0x0f, 19));
        assert!(wide.contains("step 19 of row 1 at column 0"), "{wide}");
        let nan = changed(&|stored| stored[2].3[4..].copy_from_slice(&f32::NAN.to_le_bytes()));
        assert!(nan.contains("w.weight.scale") && nan.contains("not finite, at 1"), "{nan}");
        for (missing, name) in [(1, "w.weight.steps"), (2, "w.weight.scale")] {
            let mut stored = stored(&quantized, rows, columns).to_vec();
            stored.remove(missing);
            let error = refused(&stored, &[rows, columns]);
            assert!(error.contains(name) && error.contains("is missing"), "{error}");
        }
    }
}
