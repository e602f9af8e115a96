//! The version that is put in use next, while updates to the one before it go on.

use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::state::State;
use crate::wal::header::Header;
use crate::wal::reader::write_new;
use crate::wal::record::{self, NoFrame};
use crate::wal::writer::WalWriter;
use crate::{CompactError, FileError, LoadedIndex};
use dpr_files::plain;

/// The least bytes of frames that are appended to the new log in one commit, but for the last. Small in this crate's
/// tests, whose logs are short.
const STEP: usize = if cfg!(test) { 64 } else { 16 << 20 };

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

    /// Copies what was committed to the log before, up to `position`, and returns the number of bytes. Of the frames
    /// [`STEP`] bytes and one more frame are in memory at a time.
    pub(super) fn catch_up(&mut self, (end, changes): (u64, u64)) -> Result<u64, CompactError> {
        let bytes = end - self.at;
        if bytes == 0 {
            return Ok(0);
        }
        let (path, dim) = (&self.before, self.state.base().manifest.dim);
        let mut file = plain::open(path).map_err(FileError::read(path))?;
        let got = file.metadata().map_err(FileError::read(path))?.len();
        if got < end {
            return Err(FileError::Size { path: path.clone(), expected: end, got }.into());
        }
        file.seek(SeekFrom::Start(self.at)).map_err(FileError::read(path))?;
        let mut input = Kept { input: BufReader::with_capacity(1 << 20, file), bytes: Vec::new() };
        let mut count = 0;
        while self.at < end {
            let (changes, bytes) =
                record::decode(&mut input, end - self.at, dim).map_err(|error| match error {
                    NoFrame::Read(error) => FileError::read(path)(error),
                    NoFrame::Damaged(reason) => {
                        FileError::corrupt(path, format!("byte {}: {reason}", self.at))
                    }
                })?;
            self.at += bytes;
            count += changes.len() as u64;
            self.state.apply(changes).map_err(|error| error.of_log(path))?;
            if input.bytes.len() >= STEP || self.at == end {
                self.log.append(&input.bytes, count)?;
                self.seen += count;
                (count, input.bytes) = (0, Vec::new());
            }
        }
        if self.seen != changes {
            let reason = format!("it holds {} changes, not {changes}", self.seen);
            return Err(FileError::corrupt(path, reason).into());
        }
        Ok(bytes)
    }
}

/// A reader that keeps the bytes that were read.
struct Kept<R> {
    input: R,
    bytes: Vec<u8>,
}

impl<R: Read> Read for Kept<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.bytes.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use super::super::testing::{build, new};
    use super::*;
    use crate::wal::header::FRAMES;
    use crate::{IndexReader, IndexWriter, VectorIndex as _};
    use dpr_files::lock;
    use dpr_files::progress::Silent;

    #[test]
    fn updates_that_arrive_during_a_compaction_are_taken_over_in_several_steps() {
        let root = tempfile::tempdir().unwrap();
        build(root.path(), 20);
        let (begun, has_begun) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let may_end = Mutex::new(may_end);
        let writer = IndexWriter::open(root.path(), "a test").unwrap().with_preparation(move |_, _| {
            begun.send(())?;
            lock(&may_end).recv_timeout(Duration::from_secs(50))?;
            Ok(())
        });
        writer.put(vec![new("a", 1)]).unwrap();
        let log = |number: u64| fs_err::read(root.path().join(format!("updates-{number}.log"))).unwrap();
        let built_in = log(1).len();
        std::thread::scope(|scope| {
            let compacting = scope.spawn(|| writer.compact(1, &Arc::default(), &Silent));
            has_begun.recv_timeout(Duration::from_secs(50)).unwrap();
            for number in 0..5 {
                writer.put(vec![new(&format!("b{number}"), number)]).unwrap();
            }
            writer.delete(vec!["p3".to_owned(), "b0".to_owned()]).unwrap();
            end.send(()).unwrap();
            assert!(compacting.join().unwrap().unwrap().is_some());
        });
        let (before, after) = (log(1), log(2));
        let frames = &after[FRAMES as usize..];
        assert!(frames.len() > 3 * STEP, "{} bytes", frames.len());
        assert_eq!(frames, &before[built_in..]);
        for snapshot in [writer.live().snapshot(), IndexReader::open(root.path()).unwrap().snapshot()] {
            assert_eq!((snapshot.len(), snapshot.changes()), (24, 7));
        }
    }
}
