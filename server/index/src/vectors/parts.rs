//! The rows of an encoding that is not finished: one file, at whose place in the directory they stay, and for each
//! part of it a digest that is written after its rows.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::path::{Path, PathBuf};

use dpr_core::model::FileEntry;
use dpr_files::{atomic, digest, plain};
use fs_err as fs;

use super::rows;

/// The file of all rows, in the folder of the parts until the last of them is there.
const ROWS: &str = "vectors.f32";
/// The most bytes of a file that holds a digest.
const DIGEST: u64 = 512;

/// The parts of `[count, dim]` rows in a folder. A part is whole when its digest is there and is that of its rows.
#[derive(Debug)]
pub(super) struct Parts {
    folder: PathBuf,
    count: usize,
    dim: usize,
    part_size: usize,
}

impl Parts {
    /// Describes the parts in a folder, which need not be there.
    pub(super) fn new(folder: PathBuf, (count, dim): (usize, usize), part_size: usize) -> Self {
        Self { folder, count, dim, part_size }
    }

    /// Makes the folder and the file of rows where they are missing, and returns the numbers of the whole parts. The
    /// file is taken back from `target` where a run ended before it said that it was finished, and parts in files of
    /// their own, as earlier versions wrote them, are moved into it.
    pub(super) fn open(&self, target: &Path) -> io::Result<Vec<usize>> {
        fs::create_dir_all(&self.folder)?;
        atomic::remove_unfinished(&self.folder)?;
        if target.try_exists()? && !self.rows_path().try_exists()? {
            fs::rename(target, self.rows_path())?;
        }
        let file = plain::open_with(
            fs::OpenOptions::new().write(true).create(true).truncate(false),
            &self.rows_path(),
        )?;
        let bytes = (self.count * self.row_bytes()) as u64;
        if file.metadata()?.len() != bytes {
            file.set_len(bytes)?;
        }
        for part in 0..self.len() {
            self.move_own_file(part)?;
        }
        Ok((0..self.len()).filter(|part| self.is_whole(*part)).collect())
    }

    /// Number of parts.
    pub(super) fn len(&self) -> usize {
        self.count.div_ceil(self.part_size)
    }

    /// Returns the rows of a part; the last one may have fewer than the others.
    pub(super) fn range(&self, part: usize) -> Range<usize> {
        let start = part * self.part_size;
        start..(start + self.part_size).min(self.count)
    }

    /// Writes the rows of a part, and after them the digest that says that they are whole. Threads may write different
    /// parts at once.
    pub(super) fn write(&self, part: usize, numbers: &[f32]) -> io::Result<()> {
        let mut file = plain::open_with(fs::OpenOptions::new().write(true), &self.rows_path())?;
        file.seek(SeekFrom::Start(self.offset(part)))?;
        let mut out = digest::Writer::new(&mut file);
        rows::write(numbers, &mut out)?;
        out.flush()?;
        let FileEntry { sha256, .. } = out.finish();
        file.sync_data()?;
        atomic::write_file(&self.digest_path(part), |out| writeln!(out, "{sha256}"))
    }

    /// Checks every part and moves the file of rows to `target`; returns its size and digest, or the number of the
    /// first part that is not as it was written, whose digest is then removed.
    pub(super) fn finish(&self, target: &Path) -> io::Result<Result<FileEntry, usize>> {
        let mut sink = io::sink();
        let mut whole = digest::Writer::new(&mut sink);
        let mut file = plain::open(&self.rows_path())?;
        let mut bytes = Vec::new();
        for part in 0..self.len() {
            bytes.resize(self.range(part).len() * self.row_bytes(), 0);
            let is_whole = match file.read_exact(&mut bytes) {
                Ok(()) => self.recorded(part)? == of_bytes(&bytes)?,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => false,
                Err(error) => return Err(error),
            };
            if !is_whole {
                fs::remove_file(self.digest_path(part))?;
                return Ok(Err(part));
            }
            whole.write_all(&bytes)?;
        }
        let entry = whole.finish();
        file.sync_all()?;
        fs::rename(self.rows_path(), target)?;
        target.parent().map_or(Ok(()), atomic::sync_dir)?;
        Ok(Ok(entry))
    }

    /// The file of all rows.
    pub(super) fn rows_path(&self) -> PathBuf {
        self.folder.join(ROWS)
    }

    fn is_whole(&self, part: usize) -> bool {
        let found = || {
            let mut file = plain::open(&self.rows_path())?;
            file.seek(SeekFrom::Start(self.offset(part)))?;
            let mut bytes = vec![0; self.range(part).len() * self.row_bytes()];
            file.read_exact(&mut bytes)?;
            of_bytes(&bytes)
        };
        self.recorded(part).is_ok_and(|recorded| found().is_ok_and(|found| found == recorded))
    }

    fn move_own_file(&self, part: usize) -> io::Result<()> {
        let own = self.digest_path(part).with_extension("f32");
        if !own.try_exists()? {
            return Ok(());
        }
        let mut numbers = Vec::new();
        let found = rows::read(&own, &mut numbers)?;
        let is_whole = self.recorded(part).is_ok_and(|recorded| recorded == found.sha256);
        if is_whole && numbers.len() == self.range(part).len() * self.dim {
            self.write(part, &numbers)?;
        }
        fs::remove_file(&own)
    }

    fn recorded(&self, part: usize) -> io::Result<String> {
        Ok(plain::read_text(&self.digest_path(part), DIGEST)?.trim_end().to_owned())
    }

    fn row_bytes(&self) -> usize {
        self.dim * size_of::<f32>()
    }

    fn offset(&self, part: usize) -> u64 {
        (self.range(part).start * self.row_bytes()) as u64
    }

    fn digest_path(&self, part: usize) -> PathBuf {
        self.folder.join(format!("part-{part:06}.sha256"))
    }
}

/// Returns the SHA-256 of bytes as a part's digest has it.
fn of_bytes(bytes: &[u8]) -> io::Result<String> {
    let mut sink = io::sink();
    let mut out = digest::Writer::new(&mut sink);
    out.write_all(bytes)?;
    Ok(out.finish().sha256)
}
