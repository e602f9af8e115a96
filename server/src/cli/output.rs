//! Standard output of a subcommand. Writing to a closed pipe (`| head`) ends quietly, where `println!` would panic.

use std::fmt::Arguments;
use std::io::{self, Write};

use serde::Serialize;

use super::CliError;

/// Standard output that its reader has closed before all results were written. The program then ends without an error.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed before all results were written")]
pub(super) struct PipeClosed;

/// Writes the text and its newline, if it ends in one, at once. For the report of work that is done: a closed pipe is
/// no error.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    match stream(text) {
        Err(error) if error.is::<PipeClosed>() => Ok(()),
        written => written,
    }
}

/// Writes results at once; more of them may follow.
///
/// # Errors
/// [`PipeClosed`] where the reader has closed the pipe, so that the caller ends.
pub(super) fn stream(text: &str) -> Result<(), CliError> {
    stream_to(&mut io::stdout().lock(), text)
}

fn stream_to(out: &mut impl Write, text: &str) -> Result<(), CliError> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(PipeClosed.into()),
        written => written.map_err(CliError::from),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer whose every write fails.
    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_closed_pipe_ends_results_that_follow_and_a_full_disk_is_an_error_of_its_own() {
        let closed = stream_to(&mut Failing(io::ErrorKind::BrokenPipe), "a line\n").unwrap_err();
        assert!(closed.is::<PipeClosed>(), "{closed}");
        let full = stream_to(&mut Failing(io::ErrorKind::StorageFull), "a line\n").unwrap_err();
        assert!(!full.is::<PipeClosed>(), "{full}");
        let mut written = Vec::new();
        stream_to(&mut written, "a line\n").unwrap();
        assert_eq!(written, b"a line\n");
    }
}
