//! Standard output of a subcommand. Writing to a closed pipe (`| head`) ends quietly, where `println!` would panic.

use std::fmt::Arguments;
use std::io::{self, Write as _};

use serde::Serialize;

use super::CliError;

/// Writes the text and its newline, if it ends in one, at once.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes one line.
pub(super) fn line(text: Arguments<'_>) -> Result<(), CliError> {
    print(&format!("{text}\n"))
}

/// Returns `count` with the words that follow it: `one` after 1, `many` after any other number.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Writes a value for a script: indented JSON and a newline.
pub(super) fn json(value: &impl Serialize) -> Result<(), CliError> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}
