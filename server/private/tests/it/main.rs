//! Private tables of an index: built, opened, asked, damaged.

mod changes;
mod hostile;
mod searches;
mod support;
