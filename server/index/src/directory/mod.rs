//! The index directory: versions of an index side by side, built, published, opened, copied and checked.
//!
//! [`pointer`] draws the directory. A version is built whole beside those that are there ([`build`], [`writing`]), or
//! made of another ([`copy`]); one rename of the pointer puts it in use. A reader checks every file that
//! the [`manifest`] lists before it is used ([`version`], [`files`]) and maps it ([`loaded`], [`passages`]).

pub(crate) mod build;
pub(crate) mod columns;
pub(crate) mod copy;
pub(crate) mod files;
pub(crate) mod loaded;
pub(crate) mod manifest;
pub(crate) mod options;
pub(crate) mod passages;
pub(crate) mod pointer;
mod unchecked;
pub(crate) mod version;
pub(crate) mod writing;
