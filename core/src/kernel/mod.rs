//! CPU kernels without a tensor library: the [encoders](KernelEncoder), the inner products of [`search`], and the
//! polynomials of [`ring`].
//!
//! The instruction sets share one safe, generic source, see `isa` and `vector`; `math` holds the functions of a
//! number or of a row, `gemm` the matrix product, `dot` the multiplications in it, `tiles` the product by AMX,
//! and `train` what training needs besides.

#[cfg(target_arch = "x86_64")]
mod amx;
mod dot;
#[cfg(feature = "burn")]
pub(crate) mod dropout;
mod encoder;
mod gemm;
mod isa;
mod math;
pub mod ring;
pub mod search;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(feature = "autodiff")]
pub(crate) mod train;
mod vector;

pub(crate) use encoder::KernelBuilder;
pub use encoder::KernelEncoder;
#[cfg(target_arch = "wasm32")]
pub use encoder::relaxed_products;
