//! Private search: what a page and a server compute so that the server learns less of a question than its vector.

pub mod blur;
pub mod bucket;
pub mod codes;
pub mod device_key;
pub mod encrypted;
pub mod local;
pub mod projection;
pub mod rerank;
