//! Gradient of an encoder: on the host, where the CPU backend computes it, or left on the GPU that computed it.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::encoders::{TrainDevice, TrainedEncoder, numbers};
use super::error::TrainError;

/// Numbers that one task sums up.
const BLOCK: usize = 1 << 15;

/// The gradient of one encoder, a list a parameter.
#[derive(Clone, Debug)]
pub enum Gradient {
    /// Numbers on the host; an empty list for a parameter that is not trained.
    Host(Vec<Vec<f32>>),
    /// Tensors on the GPU, off any tape; none for a parameter that is not trained.
    Device(Vec<Option<Tensor<1>>>),
}

impl Gradient {
    /// Returns the numbers, a list a parameter, empty where it is not trained.
    ///
    /// # Errors
    /// [`TrainError::Device`] when the device fails.
    pub fn into_host(self) -> Result<Vec<Vec<f32>>, TrainError> {
        match self {
            Self::Host(lists) => Ok(lists),
            Self::Device(tensors) => {
                tensors.into_iter().map(|tensor| tensor.map_or(Ok(Vec::new()), numbers)).collect()
            }
        }
    }

    /// Returns the gradient that a GPU, or the CPU backend, gathered; `stays` leaves it on the device.
    pub(super) fn gathered(tensors: Vec<Option<Tensor<1>>>, stays: bool) -> Result<Self, TrainError> {
        let gradient = Self::Device(tensors);
        if stays { Ok(gradient) } else { gradient.into_host().map(Self::Host) }
    }

    /// Adds another gradient of the same encoder. The sum is on the GPU if both are.
    ///
    /// # Errors
    /// [`TrainError::Device`] when the device fails.
    pub(super) fn add(&mut self, other: Self) -> Result<(), TrainError> {
        match (&mut *self, other) {
            (Self::Device(sums), Self::Device(parts)) => {
                for (sum, part) in sums.iter_mut().zip(parts) {
                    *sum = match (sum.take(), part) {
                        (Some(sum), Some(part)) => Some(sum + part),
                        (sum, part) => sum.or(part),
                    };
                }
            }
            (_, other) => {
                let mut sums = std::mem::replace(self, Self::Host(Vec::new())).into_host()?;
                for (sum, part) in sums.iter_mut().zip(other.into_host()?) {
                    if sum.is_empty() {
                        *sum = part;
                    } else {
                        add_on_host(sum, &part);
                    }
                }
                *self = Self::Host(sums);
            }
        }
        Ok(())
    }

    /// Multiplies every number by `factor`.
    pub(super) fn scale(&mut self, factor: f32) {
        if factor == 1.0 {
            return;
        }
        match self {
            Self::Host(lists) => {
                let blocks = lists.par_iter_mut().flat_map(|list| list.par_chunks_mut(BLOCK));
                blocks.for_each(|block| block.iter_mut().for_each(|value| *value *= factor));
            }
            Self::Device(tensors) => {
                for tensor in tensors {
                    *tensor = tensor.take().map(|tensor| tensor * factor);
                }
            }
        }
    }

    /// Gives zeros to a parameter that is trained and that the batch did not reach.
    pub(super) fn fill(&mut self, encoder: &TrainedEncoder, device: &TrainDevice) {
        let lengths = encoder.parameters.iter().map(|parameter| parameter.length());
        let reached = lengths.zip(&encoder.trained);
        match self {
            Self::Host(lists) => {
                for (values, (length, trained)) in lists.iter_mut().zip(reached) {
                    if *trained && values.is_empty() {
                        *values = vec![0.0; length];
                    }
                }
            }
            Self::Device(tensors) => {
                for (tensor, (length, trained)) in tensors.iter_mut().zip(reached) {
                    if *trained && tensor.is_none() {
                        *tensor = Some(Tensor::zeros([length], &device.plain));
                    }
                }
            }
        }
    }
}

/// Returns the norm of a gradient over several encoders; NaN or infinite where a number of the gradient is.
///
/// # Errors
/// [`TrainError::Device`] when the device fails.
pub fn norm(gradients: &[Gradient]) -> Result<f64, TrainError> {
    let mut sum = 0.0;
    for gradient in gradients {
        sum += match gradient {
            Gradient::Host(lists) => squared_on_host(lists),
            Gradient::Device(tensors) => squared_on_device(tensors)?,
        };
    }
    Ok(sum.sqrt())
}

/// Adds `part` to `sum`, number by number.
fn add_on_host(sum: &mut [f32], part: &[f32]) {
    sum.par_chunks_mut(BLOCK)
        .zip(part.par_chunks(BLOCK))
        .for_each(|(sum, part)| sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part));
}

/// Returns the sum of the squares, in the order of the blocks, whatever thread did which: the same numbers give the
/// same sum.
fn squared_on_host(lists: &[Vec<f32>]) -> f64 {
    let squared = |values: &[f32]| values.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>();
    let sums: Vec<Vec<f64>> =
        lists.par_iter().map(|values| values.par_chunks(BLOCK).map(squared).collect()).collect();
    sums.iter().flatten().sum()
}

/// Returns the sum of the squares. One number a parameter comes from the device.
fn squared_on_device(tensors: &[Option<Tensor<1>>]) -> Result<f64, TrainError> {
    let squares: Vec<Tensor<1>> =
        tensors.iter().flatten().map(|values| (values.clone() * values.clone()).sum()).collect();
    if squares.is_empty() {
        return Ok(0.0);
    }
    Ok(numbers(Tensor::cat(squares, 0))?.into_iter().map(f64::from).sum())
}
