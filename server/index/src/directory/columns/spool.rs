//! Bytes that are written now and copied later: in memory up to a limit, and beyond it in a file.

use std::io::{self, Seek as _, Write};
use std::path::PathBuf;

use fs_err as fs;

/// Bytes that are kept in memory.
const MEMORY: usize = 1 << 20;

/// Bytes on their way into another file.
#[derive(Debug)]
pub(super) struct Spool {
    path: PathBuf,
    /// The bytes that are not in the file.
    last: Vec<u8>,
    file: Option<fs::File>,
}

impl Spool {
    /// Keeps what is too much for memory in a file at `path`, which must not be there.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, last: Vec::new(), file: None }
    }

    /// Appends bytes.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.last.extend_from_slice(bytes);
        if self.last.len() < MEMORY {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut options = fs::OpenOptions::new();
                self.file.insert(options.read(true).write(true).create_new(true).open(&self.path)?)
            }
        };
        file.write_all(&self.last)?;
        self.last.clear();
        Ok(())
    }

    /// Writes all bytes to `out`, and is empty again.
    pub(super) fn pour(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            file.rewind()?;
            io::copy(file, out)?;
            file.set_len(0)?;
            file.rewind()?;
        }
        out.write_all(&self.last)?;
        self.last.clear();
        Ok(())
    }
}
