//! Inputs of a layer in narrow numbers.

use super::super::super::dot::{WholeDot, set_words};
use super::GROUP;
use super::codes::Codes;
#[cfg(target_arch = "x86_64")]
use super::tiles::TileInput;

/// Inputs of a product in narrow numbers; reused from one product to the next.
#[derive(Debug, Default)]
pub(in super::super) struct NarrowInput {
    /// In bf16, `[m][ceil(k / 2)]`.
    pub(super) words: Vec<u32>,
    /// In 8 bits, the words of codes that [`WholeDot`] multiplies, `[m][ceil(k / 4)][parts]`. Codes beyond `k` have no
    /// meaning: their weights are 0.
    pub(super) codes: Vec<[u8; 4]>,
    /// In 8 bits, the scale and the offset of each group of inputs, `[m, groups]`.
    pub(super) scales: Vec<[f32; 2]>,
    #[cfg(target_arch = "x86_64")]
    pub(super) tiles: TileInput,
}

impl NarrowInput {
    /// Replaces the contents by `x`, row-major `[m, k]`, in bf16.
    #[inline(always)]
    pub(super) fn fill_bf16(&mut self, x: &[f32], k: usize) {
        let stride = k.div_ceil(2);
        self.words.resize(x.len() / k * stride, 0);
        for (row, to) in x.chunks_exact(k).zip(self.words.chunks_exact_mut(stride)) {
            set_words(row, to);
        }
    }

    /// Replaces the contents by `x`, row-major `[m, k]`, in 8 bits. The scale of a group with a number that is not
    /// finite is NaN, and so are its products.
    #[inline(always)]
    pub(super) fn fill_int8<D: WholeDot>(&mut self, x: &[f32], k: usize) {
        let stride = D::PARTS * k.div_ceil(4);
        self.codes.resize(x.len() / k * stride, [0; 4]);
        self.scales.clear();
        for (row, to) in x.chunks_exact(k).zip(self.codes.chunks_exact_mut(stride)) {
            for (group, codes) in row.chunks(GROUP).zip(to.as_flattened_mut().chunks_mut(D::PARTS * GROUP)) {
                let codes_of = Codes::of::<D::Single>(group);
                if D::PARTS == 1 {
                    codes_of.write(group, codes);
                } else {
                    codes_of.write_shorts(group, codes);
                }
                self.scales.push(codes_of.scale_and_offset());
            }
        }
    }
}
