//! Journal of a mining run, beside its output, so that a killed run continues where it was.
//!
//! The first line names the work; each line after it is what one question gave, in order.

use std::ffi::OsString;
use std::fs::TryLockError;
use std::io::{self, BufRead, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

use serde::{Deserialize, Serialize};

use super::MineError;
use dpr_data::TrainingItem;

/// The text that the first line begins with.
const MARK: &str = "dpr data mine ";

/// The result of mining for one question.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Mined {
    /// `None` without a positive.
    pub(super) item: Option<TrainingItem>,
    /// See [`MineReport::denoised`](super::MineReport::denoised).
    pub(super) denoised: usize,
}

/// An append-only file of outcomes, locked while it is open: the operating system releases the lock when the process
/// ends.
pub(super) struct Journal {
    path: PathBuf,
    file: fs::File,
    done: usize,
}

impl Journal {
    /// Opens the journal of `out`. A journal of other work (another `name`) is begun anew; a torn last line is cut
    /// off.
    pub(super) fn open(out: &Path, name: &str) -> Result<Self, MineError> {
        let mut beside = OsString::from(out);
        beside.push(".unfinished");
        let path = PathBuf::from(beside);
        let failed = |source| MineError::Write { path: path.clone(), source };
        let options = fs::OpenOptions::new().create(true).truncate(false).read(true).write(true).clone();
        let mut file = options.open(&path).map_err(failed)?;
        match file.file().try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(MineError::Busy { path: out.to_path_buf() }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        let first = format!("{MARK}{name}\n");
        let found = intact(BufReader::new(&mut file), &first).map_err(failed)?;
        let Some((whole, done)) = found else {
            return Err(MineError::NoJournal { path });
        };
        file.set_len(whole).map_err(failed)?;
        file.seek(SeekFrom::End(0)).map_err(failed)?;
        if whole == 0 {
            file.write_all(first.as_bytes()).map_err(failed)?;
        }
        Ok(Self { path, file, done })
    }

    /// Returns the number of questions whose outcome is in the journal.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    pub(super) fn append(&mut self, outcomes: &[Mined]) -> io::Result<()> {
        let mut lines = Vec::new();
        for outcome in outcomes {
            serde_json::to_writer(&mut lines, outcome)?;
            lines.push(b'\n');
        }
        self.file.write_all(&lines)?;
        self.done += outcomes.len();
        Ok(())
    }

    /// Hands what each question gave to `take`, in order.
    pub(super) fn items(
        &mut self,
        mut take: impl FnMut(Mined) -> Result<(), MineError>,
    ) -> Result<(), MineError> {
        let failed = |source| MineError::Write { path: self.path.clone(), source };
        self.file.seek(SeekFrom::Start(0)).map_err(failed)?;
        for line in BufReader::new(&mut self.file).lines().skip(1) {
            let mined = serde_json::from_str::<Mined>(&line.map_err(failed)?);
            take(mined.map_err(|error| failed(error.into()))?)?;
        }
        Ok(())
    }

    /// Removes the journal: the output is whole, or nothing in the journal is worth keeping.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(self.path)
    }
}

/// Returns the length in bytes of the whole lines of the work whose first line is `name`, and the number of outcomes
/// in them; `None` when the file is not a journal.
fn intact(mut file: impl BufRead, name: &str) -> io::Result<Option<(u64, usize)>> {
    let mut line = String::new();
    file.read_line(&mut line)?;
    // A first line that was cut short is the beginning of one.
    if !line.starts_with(MARK) && !MARK.starts_with(line.as_str()) {
        return Ok(None);
    }
    if line != name {
        return Ok(Some((0, 0)));
    }
    let (mut whole, mut done) = (line.len() as u64, 0);
    loop {
        line.clear();
        // Bytes that are not UTF-8 are a torn line too.
        let is_read = file.read_line(&mut line).is_ok();
        let is_whole = is_read && line.ends_with('\n') && serde_json::from_str::<Mined>(&line).is_ok();
        if !is_whole {
            return Ok(Some((whole, done)));
        }
        (whole, done) = (whole + line.len() as u64, done + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_of_the_same_work_are_kept() {
        let kept = |text: &str| intact(text.as_bytes(), "dpr data mine a\n").unwrap();
        let none = "{\"item\":null,\"denoised\":0}\n";
        let (first, line) = (16, none.len() as u64);
        assert_eq!(kept(&format!("dpr data mine a\n{none}{none}")), Some((first + 2 * line, 2)));
        assert_eq!(kept(&format!("dpr data mine a\n{none}{{\"item\":nul")), Some((first + line, 1)));
        assert_eq!(kept(&format!("dpr data mine a\n{none}{{\"item\"\n")), Some((first + line, 1)));
        assert_eq!(kept(&format!("dpr data mine b\n{none}")), Some((0, 0)));
        assert_eq!(kept("dpr data m"), Some((0, 0)));
        assert_eq!(kept(""), Some((0, 0)));
        assert_eq!(kept("my own notes\n"), None);
    }

    #[test]
    fn a_journal_has_one_writer_and_a_file_that_is_none_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("train.json");
        let first = Journal::open(&out, "a").unwrap();
        assert!(matches!(Journal::open(&out, "a"), Err(MineError::Busy { .. })));
        drop(first);
        Journal::open(&out, "a").unwrap().remove().unwrap();
        let notes = root.path().join("train.json.unfinished");
        fs::write(&notes, "my own notes\n").unwrap();
        assert!(matches!(Journal::open(&out, "a"), Err(MineError::NoJournal { .. })));
        assert_eq!(fs::read_to_string(&notes).unwrap(), "my own notes\n");
    }
}
