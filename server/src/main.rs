//! The `dpr` binary: parses the command line, runs one subcommand, turns its error into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    dpr::cli::main()
}
