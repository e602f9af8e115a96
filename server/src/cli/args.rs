//! Arguments that several subcommands take, with one name, environment variable and help text everywhere.

use std::path::Path;

use dpr_core::{DeviceChoice, Precision};

use super::CliError;
use crate::location::Location;

/// Option of the commands that run models.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct DeviceArgs {
    /// Where models run: auto (a real GPU, else the CPU), wgpu, cpu, or flex (Burn's CPU backend)
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    pub(super) device: DeviceChoice,
}

/// Option of the commands that encode texts.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct PrecisionArgs {
    /// Numbers that encoders multiply on the CPU: f32, bf16 (fast with AMX or AVX-512 BF16) or int8 (fast with AMX or
    /// AVX-512 VNNI); vectors of every precision can be compared with each other
    #[arg(long, env = "DPR_PRECISION", value_name = "PRECISION", default_value = "f32")]
    pub(super) precision: Precision,
}

/// Option of the commands that take an index of any kind.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct IndexArgs {
    /// The index directory, milvus://HOST:PORT/COLLECTION, or postgres://USER@HOST/DATABASE?table=NAME
    #[arg(long, env = "DPR_INDEX", hide_env_values = true, value_name = "DIR")]
    pub(super) index: Location,
}

/// Option of the commands that take an index directory alone.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct IndexDirArgs {
    /// The index directory
    #[arg(long, env = "DPR_INDEX", hide_env_values = true, value_name = "DIR")]
    pub(super) index: Location,
}

impl IndexDirArgs {
    /// Returns the directory.
    ///
    /// # Errors
    /// When an address of something else was given to `command`.
    pub(super) fn dir(&self, command: &str) -> Result<&Path, CliError> {
        self.index.dir(command)
    }
}

/// Option of the commands that encode or search on several threads.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct ThreadsArgs {
    /// Worker threads [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

impl ThreadsArgs {
    /// Returns the number of threads, where one was given.
    pub(super) fn count(self) -> Option<usize> {
        self.threads.map(usize::from)
    }
}

/// Parses a count, which is at least 1.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("it must be a whole number".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_a_whole_number_from_one_up() {
        assert_eq!(at_least_one("1"), Ok(1));
        assert!(at_least_one("0").unwrap_err().contains("at least 1"));
        assert!(at_least_one("-1").unwrap_err().contains("whole number"));
        assert!(at_least_one("2.5").unwrap_err().contains("whole number"));
    }
}
