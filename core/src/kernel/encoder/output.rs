//! Outputs of a linear layer: its epilogue, done while the sums are in registers.
#![allow(
    clippy::needless_range_loop,
    reason = "loops over fixed arrays by index are what stays in registers"
)]

use super::super::gemm::copy;
use super::super::math::gelu;
use super::super::vector::Simd;
use super::gemm_q8::OUTPUTS;

/// The operation on a layer's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Epilogue {
    /// The outputs replace the old values.
    Store,
    /// The GELU of the outputs replaces the old values.
    Gelu,
    /// The outputs are added to the old values: a residual connection.
    Add,
}

/// The place of the products: `[m, n]` row-major.
pub(super) struct Output<'a> {
    pub(super) bias: &'a [f32],
    pub(super) n: usize,
    pub(super) epilogue: Epilogue,
    pub(super) out: &'a mut [f32],
}

impl Output<'_> {
    /// Finishes a panel of 8-bit weights as [`Output::put`] does; not inlined in browser modules, because several
    /// kernels call it.
    #[cfg_attr(target_arch = "wasm32", inline(never))]
    #[cfg_attr(not(target_arch = "wasm32"), inline(always))]
    #[cfg_attr(
        all(target_arch = "wasm32", feature = "relaxed-simd"),
        target_feature(enable = "relaxed-simd")
    )]
    pub(super) fn put_quantized<S: Simd>(&mut self, first: usize, panel: usize, sums: &mut [[f32; OUTPUTS]]) {
        self.put::<S, OUTPUTS>(first, panel, sums);
    }

    /// Finishes the outputs of panel `panel` for the rows from `first` on.
    #[inline(always)]
    pub(super) fn put<S: Simd, const NR: usize>(
        &mut self,
        first: usize,
        panel: usize,
        sums: &mut [[f32; NR]],
    ) {
        let column = panel * NR;
        let width = NR.min(self.n - column);
        let Some(bias) = self.bias[column..].first_chunk::<NR>() else { return };
        // By vectors: of a loop over the numbers the compiler makes one over the rows, which gathers and scatters them.
        for sums in sums.iter_mut() {
            for v in 0..NR / S::LANES {
                S::store(S::add(S::load(sums, v), S::load(bias, v)), sums, v);
            }
            for j in NR / S::LANES * S::LANES..NR {
                sums[j] += bias[j];
            }
        }
        if self.epilogue == Epilogue::Gelu {
            // GELU of all rows in one loop: in a browser each iteration loads the constants of its polynomials again.
            for sum in sums.as_flattened_mut() {
                *sum = gelu::<S>(*sum);
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            let to = &mut self.out[(first + i) * self.n + column..][..width];
            match self.epilogue {
                Epilogue::Store | Epilogue::Gelu => copy::<S, NR>(sums, to),
                Epilogue::Add => to.iter_mut().zip(sums).for_each(|(to, sum)| *to += *sum),
            }
        }
    }
}
