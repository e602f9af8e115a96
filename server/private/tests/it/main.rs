//! Private tables of an index: built, opened, asked, damaged.

mod hostile;
mod searches;
mod support;
