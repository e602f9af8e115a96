//! The `dpr` binary: parses the command line, runs one subcommand, turns its error into an exit code.

use std::process::ExitCode;

/// Exit status of a program that SIGINT ended, as shells have it.
const INTERRUPTED: i32 = 130;

fn main() -> ExitCode {
    dpr::cli::main(|| std::process::exit(INTERRUPTED))
}
