//! What many tests share: the binary run as a user runs it, small corpora, files, golden values of training.

pub(crate) mod after;
pub(crate) mod common;
pub(crate) mod corpus;
pub(crate) mod docs;
pub(crate) mod files;
pub(crate) mod golden;
pub(crate) mod python_server;
pub(crate) mod reader;
pub(crate) mod run;
pub(crate) mod server;
pub(crate) mod shared;
pub(crate) mod squad;
