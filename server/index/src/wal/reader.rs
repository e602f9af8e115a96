//! The reader of the write-ahead log: once, or as it grows.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fs_err as fs;

use super::header::{Commit, FRAMES, Header, Sector};
use super::record::{self, Change, NoFrame};
use crate::{FileError, OpenError};
use dpr_files::{atomic, plain};

/// Attempts to read the commit marks when one is torn: its writer may be in the middle of it.
const LOOKS: usize = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// A function that applies the changes of a frame.
pub(crate) type Apply<'a> = &'a mut dyn FnMut(Vec<Change>) -> Result<(), ApplyError>;

/// The error of applying the changes of a frame.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    /// Read error of, or damage to, a file of the index other than the log, which is read to apply the changes.
    #[error("{0}")]
    File(#[from] FileError),
    /// Reason why the changes cannot be applied to this state, as a sentence.
    #[error("{0}")]
    Changes(String),
}

impl ApplyError {
    /// Returns the error to report: damage to the log at `path` for changes that cannot be applied, else the error of
    /// the other file.
    pub(crate) fn of_log(self, path: &Path) -> FileError {
        match self {
            Self::File(error) => error,
            Self::Changes(reason) => FileError::corrupt(path, reason),
        }
    }
}

/// A log, read up to some frame. Only what is committed is ever read.
#[derive(Debug)]
pub(crate) struct WalReader {
    path: PathBuf,
    file: fs::File,
    header: Header,
    commit: Commit,
    /// The position of the next frame, and the number of changes before it.
    at: u64,
    seen: u64,
}

impl WalReader {
    /// Opens the log at `path` of the version with this manifest, whose vectors are of `dim` numbers.
    ///
    /// # Errors
    /// [`OpenError`]: there is none, it is of another version or a newer format, its beginning is damaged, or it is
    /// shorter than what was committed.
    pub(crate) fn open(path: &Path, base: &str, dim: usize) -> Result<Self, OpenError> {
        let mut file = plain::open(path).map_err(FileError::read(path))?;
        let header = Header { base: base.to_owned(), dim };
        check_header(&mut file, path, &header)?;
        let mut log =
            Self { path: path.to_path_buf(), file, header, commit: Commit::NONE, at: FRAMES, seen: 0 };
        log.look()?;
        Ok(log)
    }

    /// Returns the bytes of the log that are committed.
    pub(crate) fn bytes(&self) -> u64 {
        self.commit.end
    }

    /// Returns the number of changes that are committed.
    pub(crate) fn changes(&self) -> u64 {
        self.commit.changes
    }

    /// Checks all that is committed.
    ///
    /// # Errors
    /// As for [`WalReader::read`].
    pub(crate) fn check(&mut self) -> Result<(), OpenError> {
        self.read(&mut |_| Ok(())).map(drop)
    }

    /// Reads what was committed since the last time, frame by frame, and returns `true` if there was anything.
    ///
    /// # Errors
    /// [`OpenError`]: a frame or a commit is damaged, or `apply` refuses a change. The log is of no use then.
    pub(crate) fn read(&mut self, apply: Apply<'_>) -> Result<bool, OpenError> {
        self.look()?;
        if self.commit.end == self.at {
            return Ok(false);
        }
        let (path, dim) = (&self.path, self.header.dim);
        self.file.seek(SeekFrom::Start(self.at)).map_err(FileError::read(path))?;
        let mut input = BufReader::with_capacity(1 << 20, &mut self.file);
        while self.at < self.commit.end {
            let (changes, bytes) =
                record::decode(&mut input, self.commit.end - self.at, dim).map_err(|error| match error {
                    NoFrame::Read(error) => FileError::read(path)(error),
                    NoFrame::Damaged(reason) => {
                        FileError::corrupt(path, format!("byte {}: {reason}", self.at))
                    }
                })?;
            self.at += bytes;
            self.seen += changes.len() as u64;
            apply(changes).map_err(|error| error.of_log(path))?;
        }
        if self.seen != self.commit.changes {
            let (seen, said) = (self.seen, self.commit.changes);
            return Err(FileError::corrupt(path, format!("it holds {seen} changes, not {said}")).into());
        }
        Ok(true)
    }

    /// Writes what was read of it as the log `target` of the version with the manifest `base`.
    ///
    /// # Errors
    /// [`OpenError`]: it cannot be read, or `target` cannot be written.
    pub(crate) fn copy(&self, target: &Path, base: &str) -> Result<(), FileError> {
        let mut input = plain::open(&self.path).map_err(FileError::read(&self.path))?;
        input.seek(SeekFrom::Start(FRAMES)).map_err(FileError::read(&self.path))?;
        let header = Header { base: base.to_owned(), dim: self.header.dim };
        write_new(target, &header, &mut input.take(self.at - FRAMES), self.at - FRAMES, self.seen)
    }

    /// Reads how much is committed.
    fn look(&mut self) -> Result<(), OpenError> {
        for _ in 0..LOOKS {
            let commit = read_commits(&mut self.file).map_err(FileError::read(&self.path))?;
            if let Some((commit, true)) = commit {
                self.commit = commit;
                let got = self.file.metadata().map_err(FileError::read(&self.path))?.len();
                if got < commit.end || commit.end < self.at {
                    let expected = commit.end.max(self.at);
                    return Err(FileError::Size { path: self.path.clone(), expected, got }.into());
                }
                return Ok(());
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Err(OpenError::CommitMark { path: self.path.clone() })
    }
}

/// Refuses a file that does not begin with this header, or is too short to.
pub(crate) fn check_header(file: &mut fs::File, path: &Path, header: &Header) -> Result<(), OpenError> {
    let got = file.metadata().map_err(FileError::read(path))?.len();
    if got < FRAMES {
        return Err(FileError::Size { path: path.to_path_buf(), expected: FRAMES, got }.into());
    }
    let sector = read_sector(file, 0).map_err(FileError::read(path))?;
    header.check(path, &sector)
}

/// Returns the newer commit, and whether both are whole; `None` when neither is.
pub(crate) fn read_commits(file: &mut fs::File) -> io::Result<Option<(Commit, bool)>> {
    let places = [0, 1].map(|sequence| Commit { sequence, ..Commit::NONE }.place());
    Ok(Commit::newest(&read_sector(file, places[0])?, &read_sector(file, places[1])?))
}

fn read_sector(file: &mut fs::File, at: u64) -> io::Result<Sector> {
    let mut sector = [0; size_of::<Sector>()];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut sector)?;
    Ok(sector)
}

/// Writes a log whole: `frames` are `bytes` bytes with `changes` changes.
pub(crate) fn write_new(
    path: &Path,
    header: &Header,
    frames: &mut dyn Read,
    bytes: u64,
    changes: u64,
) -> Result<(), FileError> {
    let write = |out: &mut dyn Write| {
        out.write_all(&header.sector())?;
        for sequence in 0..2 {
            out.write_all(&Commit { sequence, end: FRAMES + bytes, changes }.sector())?;
        }
        match io::copy(frames, out)? {
            copied if copied == bytes => Ok(()),
            copied => Err(io::Error::other(format!("{copied} bytes of updates were read, not {bytes}"))),
        }
    };
    atomic::write_file(path, write).map_err(FileError::write)
}
