//! The write-ahead log of a live index: what is acknowledged is in it, on the disk.
//!
//! [`header`] is the file's beginning with the two alternating commit marks, [`record`] the frames that hold the
//! changes of one request each, [`writer`] appends and commits, [`reader`] reads what is committed, once or as it
//! grows.

pub(crate) mod header;
pub(crate) mod reader;
pub(crate) mod record;
pub(crate) mod writer;

pub(crate) use reader::WalReader;
