//! Tensors as places in a storage, and their numbers in row-major order.

use safetensors::tensor::Dtype;

use super::storage::Storage;

/// Most axes of a tensor. Weights of encoders have two.
pub(super) const MOST_AXES: usize = 8;

/// A view of a storage, as the pickle describes it.
#[derive(Clone, Debug)]
pub(super) struct Tensor<'p> {
    pub(super) storage: Storage<'p>,
    /// The number of the storage that is the first of the tensor.
    pub(super) offset: u64,
    pub(super) shape: Vec<u64>,
    /// Numbers of the storage between neighbours, for each axis.
    pub(super) strides: Vec<u64>,
}

/// A tensor that lies in its storage.
pub(super) struct Layout {
    pub(super) shape: Vec<usize>,
    strides: Vec<usize>,
    offset: usize,
    /// Its numbers.
    count: usize,
    dtype: Dtype,
    /// Bytes of a number in the storage.
    width: usize,
}

impl Tensor<'_> {
    /// Checks that every number of the tensor lies in its storage.
    pub(super) fn layout(&self) -> Result<Layout, String> {
        let storage = &self.storage;
        let outside = || {
            format!(
                "shape {:?} with strides {:?} from {} on does not lie in its storage of {} numbers: the file is damaged",
                self.shape, self.strides, self.offset, storage.count
            )
        };
        let count =
            self.shape.iter().try_fold(1u64, |count, size| count.checked_mul(*size)).ok_or_else(outside)?;
        let last = self.shape.iter().zip(&self.strides).try_fold(self.offset, |last, (size, stride)| {
            last.checked_add(size.saturating_sub(1).checked_mul(*stride)?)
        });
        let inside = match count {
            0 => self.offset <= storage.count,
            _ => last.is_some_and(|last| last < storage.count),
        };
        let narrow =
            |sizes: &[u64]| sizes.iter().map(|size| usize::try_from(*size).ok()).collect::<Option<Vec<_>>>();
        let parts = (
            narrow(&self.shape),
            narrow(&self.strides),
            usize::try_from(self.offset),
            usize::try_from(count),
        );
        let (true, (Some(shape), Some(strides), Ok(offset), Ok(count))) = (inside, parts) else {
            return Err(outside());
        };
        Ok(Layout { shape, strides, offset, count, dtype: storage.dtype, width: storage.width() as usize })
    }
}

impl Layout {
    /// Returns the tensor's bytes in the storage's type; `None` past 64 bits.
    pub(super) fn bytes(&self) -> Option<u64> {
        (self.count as u64).checked_mul(self.width as u64)
    }

    /// Returns the type of the numbers that [`Layout::numbers`] returns.
    pub(super) fn dtype(&self) -> Dtype {
        if self.dtype == Dtype::F64 { Dtype::F32 } else { self.dtype }
    }

    /// Returns the tensor's numbers in row-major order, out of the bytes of its storage. Those of 64 bits with a
    /// fraction are rounded to 32.
    pub(super) fn numbers(&self, storage: &mut Vec<u8>, last_use: bool) -> Vec<u8> {
        let bytes = match self.is_contiguous() {
            true if last_use && self.offset == 0 && self.count * self.width == storage.len() => {
                std::mem::take(storage)
            }
            true => storage[self.offset * self.width..][..self.count * self.width].to_vec(),
            false => self.gathered(storage),
        };
        match self.dtype {
            Dtype::F64 => {
                let wide = bytes.as_chunks::<8>().0;
                wide.iter().flat_map(|number| (f64::from_le_bytes(*number) as f32).to_le_bytes()).collect()
            }
            _ => bytes,
        }
    }

    /// Returns whether the numbers lie in the storage in row-major order; the stride of an axis of length 1 is ignored.
    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        let axes = self.shape.iter().zip(&self.strides).rev();
        self.count == 0
            || axes.filter(|(size, _)| **size != 1).all(|(size, stride)| {
                let fits = *stride == expected;
                expected *= size;
                fits
            })
    }

    fn gathered(&self, storage: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.count * self.width);
        let mut index = vec![0; self.shape.len()];
        let mut place = self.offset;
        for _ in 0..self.count {
            bytes.extend_from_slice(&storage[place * self.width..][..self.width]);
            for axis in (0..index.len()).rev() {
                if index[axis] + 1 < self.shape[axis] {
                    index[axis] += 1;
                    place += self.strides[axis];
                    break;
                }
                place -= index[axis] * self.strides[axis];
                index[axis] = 0;
            }
        }
        bytes
    }
}
