//! What a run has done so far, beside its output, so that a killed one goes on where it was.
//!
//! The first line names the work; each line after it is the outcome of one question, in order: an item or `null`.

use std::ffi::OsString;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::MineError;
use crate::data::TrainingItem;

/// An append-only file of outcomes.
pub(super) struct Journal {
    path: PathBuf,
    file: fs::File,
    done: usize,
}

impl Journal {
    /// Opens the journal of `out`. One of other work (another `name`) is begun anew; a torn last line is cut off.
    pub(super) fn open(out: &Path, name: &str) -> io::Result<Self> {
        let mut beside = OsString::from(out);
        beside.push(".unfinished");
        let path = PathBuf::from(beside);
        let (whole, done) = match fs::read(&path) {
            Ok(bytes) => intact(&bytes, name),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (0, 0),
            Err(error) => return Err(error),
        };
        let mut file = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path)?;
        file.set_len(whole as u64)?;
        io::Seek::seek(&mut file, io::SeekFrom::End(0))?;
        if whole == 0 {
            writeln!(file, "{name}")?;
        }
        Ok(Self { path, file, done })
    }

    /// Questions whose outcome is in it.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    pub(super) fn append(&mut self, outcomes: &[Option<TrainingItem>]) -> io::Result<()> {
        let mut lines = Vec::new();
        for outcome in outcomes {
            serde_json::to_writer(&mut lines, outcome)?;
            lines.push(b'\n');
        }
        self.file.write_all(&lines)?;
        self.done += outcomes.len();
        Ok(())
    }

    /// Hands every item to `take`, in order. `out` is what an error names.
    pub(super) fn items(
        &self,
        out: &Path,
        mut take: impl FnMut(TrainingItem) -> Result<(), MineError>,
    ) -> Result<(), MineError> {
        let failed = |source| MineError::Write { path: out.to_path_buf(), source };
        for line in io::BufReader::new(fs::File::open(&self.path).map_err(failed)?).lines().skip(1) {
            let item = serde_json::from_str::<Option<TrainingItem>>(&line.map_err(failed)?);
            if let Some(item) = item.map_err(|error| failed(error.into()))? {
                take(item)?;
            }
        }
        Ok(())
    }

    /// Removes it: the output is whole.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_file(self.path)
    }
}

/// Bytes of whole lines that belong to this work, and outcomes in them.
fn intact(bytes: &[u8], name: &str) -> (usize, usize) {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let Some(first) = lines.next().filter(|line| line.strip_suffix(b"\n") == Some(name.as_bytes())) else {
        return (0, 0);
    };
    let (mut whole, mut done) = (first.len(), 0);
    for line in lines {
        let is_whole = line.ends_with(b"\n") && serde_json::from_slice::<Option<TrainingItem>>(line).is_ok();
        if !is_whole {
            break;
        }
        (whole, done) = (whole + line.len(), done + 1);
    }
    (whole, done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_lines_of_the_same_work_are_kept() {
        assert_eq!(intact(b"work\nnull\nnull\n", "work"), (15, 2));
        assert_eq!(intact(b"work\nnull\nnul", "work"), (10, 1));
        assert_eq!(intact(b"work\nnull\n{\"question\"\n", "work"), (10, 1));
        assert_eq!(intact(b"other\nnull\n", "work"), (0, 0));
        assert_eq!(intact(b"wor", "work"), (0, 0));
        assert_eq!(intact(b"", "work"), (0, 0));
    }
}
