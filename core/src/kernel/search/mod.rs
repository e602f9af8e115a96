//! Search kernels: inner products of queries with the vectors of an index, one file for each number format, and the
//! scores of posting lists.
//!
//! | module | rows | use |
//! |---|---|---|
//! | [`mod@f32`] | single precision | exact scores, the same on every instruction set to the bit |
//! | [`mod@i8`] | quantized to 8 bits and a scale | quantizing rows; the products of the private modes |
//! | [`gather_i8`] | the same, gathered from anywhere or all of a block | the search of a graph; choosing rows to score |
//! | [`mod@f16`] | half precision and a scale | choosing rows to score |
//! | [`binary`] | one bit a number and a scale | choosing rows to score |
//! | [`batch_i8`] | quantized to 8 bits, for many queries at once | choosing rows to score |
//! | [`batch`] | single precision, for many queries at once | choosing rows to score |
//!
//! [`postings`] scores passages by the words that they share with a question.

pub mod batch;
#[cfg(not(target_arch = "wasm32"))]
pub mod batch_i8;
#[cfg(not(target_arch = "wasm32"))]
pub mod binary;
pub mod f16;
pub mod f32;
#[cfg(not(target_arch = "wasm32"))]
pub mod gather_i8;
pub mod i8;
pub mod postings;

pub use super::vector::prefetch;
