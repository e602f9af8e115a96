//! The error that a command fails with.

use std::error::Error;

/// Any typed error of the crates below, or a sentence of the command's own.
pub type CliError = Box<dyn Error + Send + Sync>;
