//! Small files of a run, as text.

use std::fs;

use crate::failure::{Failure, Outcome};

pub(super) fn read(path: &str) -> Outcome<String> {
    fs::read_to_string(path).map_err(|error| Failure::new(format!("cannot read {path}: {error}")))
}

pub(super) fn write(path: &str, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| Failure::new(format!("cannot write {path}: {error}")))
}
