//! CPU kernels without a tensor library: the [encoders](KernelEncoder) and the inner products of [`search`].
//!
//! The instruction sets share one safe, generic source, see `isa` and `vector`; `math` holds the functions of a
//! number or of a row, `gemm_f32` the matrix product, and `train` what training needs besides.

mod encoder;
mod gemm_f32;
mod isa;
mod math;
pub mod search;
#[cfg(feature = "autodiff")]
pub(crate) mod train;
mod vector;

pub use encoder::KernelEncoder;
