//! The version that is put in use next, while updates to the one before it go on.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::state::State;
use crate::wal::header::Header;
use crate::wal::reader::write_new;
use crate::wal::record::{self, NoFrame};
use crate::wal::writer::WalWriter;
use crate::{CompactError, FileError, LoadedIndex};
use dpr_files::plain;

/// A new version with a log of its own, which nobody looks at before the version is in use.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) state: State,
    pub(super) log: WalWriter,
    /// The log of the version before, how far it is taken over, and the changes up to there.
    before: PathBuf,
    at: u64,
    seen: u64,
}

impl Next {
    /// Begins the log at `path` of the version `base`, which was made of the one before as it was at `position` of its
    /// log.
    pub(super) fn new(
        base: LoadedIndex,
        path: &Path,
        before: &Path,
        position: (u64, u64),
    ) -> Result<Self, CompactError> {
        let header = Header { base: base.version().to_owned(), dim: base.manifest.dim };
        write_new(path, &header, &mut std::io::empty(), 0, 0)?;
        let mut state = State::new(Arc::new(base));
        let log = WalWriter::open(path, header, &mut |changes| state.apply(changes))?;
        Ok(Self { state, log, before: before.to_path_buf(), at: position.0, seen: position.1 })
    }

    /// Copies what was committed to the log before, up to `position`, and returns the number of bytes.
    pub(super) fn catch_up(&mut self, (end, changes): (u64, u64)) -> Result<u64, CompactError> {
        let bytes = end - self.at;
        if bytes == 0 {
            return Ok(0);
        }
        let path = &self.before;
        let mut file = plain::open(path).map_err(FileError::read(path))?;
        file.seek(SeekFrom::Start(self.at)).map_err(FileError::read(path))?;
        let mut frames = Vec::new();
        file.take(bytes).read_to_end(&mut frames).map_err(FileError::read(path))?;
        let (mut rest, dim) = (frames.as_slice(), self.state.base().manifest.dim);
        while !rest.is_empty() {
            let left = rest.len() as u64;
            let (changes, _) = record::decode(&mut rest, left, dim).map_err(|error| match error {
                NoFrame::Read(error) => FileError::read(path)(error),
                NoFrame::Damaged(reason) => FileError::corrupt(path, reason),
            })?;
            self.state.apply(changes).map_err(|error| error.of_log(path))?;
        }
        if frames.len() as u64 != bytes {
            let (expected, got) = (end, self.at + frames.len() as u64);
            return Err(FileError::Size { path: path.clone(), expected, got }.into());
        }
        self.log.append(&frames, changes - self.seen)?;
        (self.at, self.seen) = (end, changes);
        Ok(bytes)
    }
}
