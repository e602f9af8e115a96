//! The writer of the write-ahead log: what it acknowledges is on the disk.

use std::io::{BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fs_err as fs;

use super::header::{Commit, FRAMES, Header};
use super::reader::{Apply, check_header, read_commits};
use super::record;
use crate::{FileError, OpenError, UpdateError};
use dpr_files::plain;

/// The writing end of a log; there is one, whose owner holds the directory's lock.
#[derive(Debug)]
pub(crate) struct WalWriter {
    path: PathBuf,
    file: fs::File,
    header: Header,
    commit: Commit,
    /// The failure after which it is not known what is on the disk, so that nothing more is written.
    broken: Option<String>,
}

impl WalWriter {
    /// Opens the log at `path` and hands the changes of every frame in it to `apply`.
    ///
    /// What a killed writer left behind the last commit was never acknowledged, nor seen by anybody, and is cut off.
    /// Where a commit mark is damaged it may have been: then frames are kept up to the first that is not whole, and
    /// the mark is written anew.
    ///
    /// # Errors
    /// As for [`WalReader::open`](super::WalReader::open) and [`WalReader::read`](super::WalReader::read), or it
    /// cannot be written.
    pub(crate) fn open(path: &Path, header: Header, apply: Apply<'_>) -> Result<Self, OpenError> {
        let file = plain::open_with(fs::OpenOptions::new().read(true).write(true), path);
        let mut file = file.map_err(FileError::read(path))?;
        check_header(&mut file, path, &header)?;
        let Some((commit, both)) = read_commits(&mut file).map_err(FileError::read(path))? else {
            return Err(FileError::corrupt(path, "neither of its commit marks is whole").into());
        };
        let size = file.metadata().map_err(FileError::read(path))?.len();
        if size < commit.end {
            return Err(FileError::Size { path: path.to_path_buf(), expected: commit.end, got: size }.into());
        }
        let mut log = Self { path: path.to_path_buf(), file, header, commit, broken: None };
        let (end, changes) = log.frames(if both { commit.end } else { size }, apply)?;
        if !both {
            tracing::warn!("one of the two commit marks of {} is written anew", path.display());
        }
        if size > end {
            log.file.set_len(end).map_err(FileError::write)?;
        }
        if !both || end != commit.end {
            log.commit_to(end, changes).map_err(FileError::write)?;
        }
        Ok(log)
    }

    /// Returns the failure after which nothing more is written, if there was one.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Returns the end of the frames, and the number of changes in them.
    pub(crate) fn position(&self) -> (u64, u64) {
        (self.commit.end, self.commit.changes)
    }

    /// Appends frames with `changes` changes; when it returns they are on the disk and count.
    ///
    /// # Errors
    /// [`UpdateError::Write`], after which the log is as before, or [`UpdateError::LogBroken`], after which it takes
    /// no more.
    pub(crate) fn append(&mut self, frames: &[u8], changes: u64) -> Result<(), UpdateError> {
        if let Some(reason) = &self.broken {
            return Err(UpdateError::LogBroken { path: self.path.clone(), reason: reason.clone() });
        }
        let Commit { end, changes: before, .. } = self.commit;
        let written = self.file.seek(SeekFrom::Start(end)).and_then(|_| self.file.write_all(frames));
        if let Err(error) = written {
            // A full disk, mostly: the bytes that were written do not count, and are cut off.
            return match self.file.set_len(end) {
                Ok(()) => Err(UpdateError::Write {
                    path: self.path.parent().unwrap_or(&self.path).to_path_buf(),
                    source: Arc::new(error),
                }),
                Err(_) => Err(self.give_up(&error)),
            };
        }
        // First the frames, then the mark that says they count.
        let committed =
            self.file.sync_data().and_then(|()| self.commit_to(end + frames.len() as u64, before + changes));
        committed.map_err(|error| self.give_up(&error))
    }

    /// Returns the path of the log.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses every later change: it is not known what is on the disk.
    pub(crate) fn give_up(&mut self, error: &dyn std::fmt::Display) -> UpdateError {
        let reason = error.to_string();
        self.broken = Some(reason.clone());
        UpdateError::LogBroken { path: self.path.clone(), reason }
    }

    fn commit_to(&mut self, end: u64, changes: u64) -> std::io::Result<()> {
        let commit = Commit { sequence: self.commit.sequence + 1, end, changes };
        self.file.seek(SeekFrom::Start(commit.place()))?;
        self.file.write_all(&commit.sector())?;
        self.file.sync_data()?;
        self.commit = commit;
        Ok(())
    }

    /// Reads the frames before `end`, and returns the end of the last whole one and the number of changes up to there.
    fn frames(&mut self, end: u64, apply: Apply<'_>) -> Result<(u64, u64), FileError> {
        let path = &self.path;
        self.file.seek(SeekFrom::Start(FRAMES)).map_err(FileError::read(path))?;
        let mut input = BufReader::with_capacity(1 << 20, &mut self.file);
        let (mut at, mut seen) = (FRAMES, 0);
        while at < end {
            match record::decode(&mut input, end - at, self.header.dim) {
                Ok((changes, bytes)) => {
                    if at < self.commit.end && at + bytes > self.commit.end {
                        return Err(FileError::corrupt(path, "what is committed ends within a frame"));
                    }
                    at += bytes;
                    seen += changes.len() as u64;
                    apply(changes).map_err(|error| error.of_log(path))?;
                }
                Err(record::NoFrame::Read(error)) => return Err(FileError::read(path)(error)),
                // Not acknowledged, not whole.
                Err(record::NoFrame::Damaged(_)) if at >= self.commit.end => break,
                Err(record::NoFrame::Damaged(reason)) => {
                    return Err(FileError::corrupt(path, format!("byte {at}: {reason}")));
                }
            }
            if at == self.commit.end && seen != self.commit.changes {
                let said = self.commit.changes;
                return Err(FileError::corrupt(path, format!("it holds {seen} changes, not {said}")));
            }
        }
        Ok((at, seen))
    }
}
