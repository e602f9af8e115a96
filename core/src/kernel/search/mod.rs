//! Search kernels: inner products of queries with the vectors of an index, one file for each number format.
//!
//! | module | rows | use |
//! |---|---|---|
//! | [`mod@f32`] | single precision | exact scores, the same on every instruction set to the bit |
//! | [`mod@i8`] | quantized to 8 bits and a scale | choosing rows to score |
//! | [`mod@i4`] | quantized to 4 bits and a scale | choosing the way through a graph |
//! | [`mod@f16`] | half precision and a scale | choosing rows to score |
//! | [`binary`] | one bit a number and a scale | choosing rows to score |
//! | [`batch_i8`] | quantized to 8 bits, for many queries at once | choosing rows to score |
//! | [`batch`] | single precision, for many queries at once | choosing rows to score |

pub mod batch;
#[cfg(not(target_arch = "wasm32"))]
pub mod batch_i8;
pub mod binary;
pub mod f16;
pub mod f32;
pub mod i4;
pub mod i8;

pub use super::vector::prefetch;
