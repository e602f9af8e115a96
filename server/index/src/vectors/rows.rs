//! Rows of f32, `[count, dim]`: in memory or in a mapped file, and as little-endian bytes.

use std::io::{self, Read, Write};
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dpr_core::model::FileEntry;
use fs_err as fs;
use sha2::{Digest as _, Sha256};

use super::blocks::{self, Blocks};
use dpr_files::{Mapped, digest, plain, threads};

/// Bytes handled at a time.
const CHUNK: usize = 1 << 20;

/// Numbers of a block: 64 MiB, enough for every thread and little beside what else is in memory.
const BLOCK: usize = 16 << 20;

/// Rows of vectors one after the other, which never change. A clone shares them.
#[derive(Clone, Debug)]
pub struct Rows(Arc<Source>);

/// The memory of rows.
#[derive(Debug)]
enum Source {
    Owned(Vec<f32>),
    /// A mapped file, its checksums where they are known, and those of its blocks where these are verified one by one.
    Mapped {
        file: Mapped,
        checksums: Option<Checksums>,
        blocks: Option<Blocks>,
    },
}

/// Size, SHA-256 and CRC-32 of a file.
type Checksums = (FileEntry, u32);

impl Rows {
    /// Takes a mapped file of little-endian numbers. Rows that are not read need not be in memory.
    pub(crate) fn of_file(file: Mapped) -> Self {
        let source = match file.numbers() {
            Some(_) => Source::Mapped { file, checksums: None, blocks: None },
            None => Source::Owned(numbers(file.bytes()).collect()),
        };
        Self(Arc::new(source))
    }

    /// Takes a mapped file of little-endian numbers that this machine reads as they are, of which a block is checked
    /// before its numbers are used: see [`check`](Self::check).
    pub(crate) fn of_blocks(file: Mapped, blocks: Blocks) -> Self {
        Self(Arc::new(Source::Mapped { file, checksums: None, blocks: Some(blocks) }))
    }

    /// Checks the blocks that hold these numbers, where the file is checked by blocks and they were not yet.
    #[inline]
    pub(super) fn check(&self, numbers: Range<usize>) {
        if let Source::Mapped { file, blocks: Some(blocks), .. } = self.0.as_ref() {
            blocks.check(file.bytes(), numbers.start * size_of::<f32>()..numbers.end * size_of::<f32>());
        }
    }

    /// Checks all numbers, as [`check`](Self::check) does some.
    pub(crate) fn check_all(&self) {
        if let Source::Mapped { file, blocks: Some(blocks), .. } = self.0.as_ref() {
            blocks.check_all(file.bytes());
        }
    }

    /// Checks all numbers on this thread, until `is_stopped`.
    pub(crate) fn check_until(&self, is_stopped: &AtomicBool) {
        if let Source::Mapped { file, blocks: Some(blocks), .. } = self.0.as_ref() {
            blocks.check_until(file.bytes(), is_stopped);
        }
    }

    /// Maps a finished file of rows, and returns its size and digest too.
    pub(super) fn open(path: &Path) -> io::Result<(Self, FileEntry)> {
        let file = Mapped::open(path)?;
        let mut sink = io::sink();
        let mut writer = digest::Writer::new(&mut sink);
        let size = file.bytes().len();
        for start in (0..size).step_by(BLOCK * size_of::<f32>()) {
            let end = size.min(start + BLOCK * size_of::<f32>());
            writer.write_all(&file.bytes()[start..end])?;
            file.release(start..end);
        }
        let checksums = writer.finish_with_crc32();
        let entry = checksums.0.clone();
        let source = match file.numbers() {
            Some(_) => Source::Mapped { file, checksums: Some(checksums), blocks: None },
            None => Source::Owned(numbers(file.bytes()).collect()),
        };
        Ok((Self(Arc::new(source)), entry))
    }

    /// Shows `take` one block of whole rows of `dim` numbers after the other, with the number of its first row. Pages
    /// of a mapped file are given back after each block, so that reading all rows does not need memory for all of
    /// them.
    pub(crate) fn for_each_block(&self, dim: usize, take: impl FnMut(usize, &[f32])) {
        self.for_each(dim, (BLOCK / dim.max(1)).max(1), take);
    }

    fn for_each(&self, dim: usize, block: usize, mut take: impl FnMut(usize, &[f32])) {
        for (at, rows) in self.chunks(block * dim.max(1)).enumerate() {
            take(at * block, rows);
            let start = at * block * dim;
            self.release(start..start + rows.len());
        }
    }

    fn release(&self, numbers: Range<usize>) {
        if let Source::Mapped { file, .. } = self.0.as_ref() {
            file.release(numbers.start * size_of::<f32>()..numbers.end * size_of::<f32>());
        }
    }

    /// Makes `target` another name of the file that holds these very rows, and returns its checksums; `None` where
    /// there is no such file, or the file system cannot.
    pub(crate) fn link(&self, target: &Path) -> Option<(FileEntry, u32)> {
        match self.0.as_ref() {
            Source::Mapped { file, checksums: Some(checksums), .. } if file.link(target) => {
                Some(checksums.clone())
            }
            _ => None,
        }
    }
}

impl Deref for Rows {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match self.0.as_ref() {
            Source::Owned(rows) => rows,
            Source::Mapped { file, .. } => file.numbers().unwrap_or_default(),
        }
    }
}

impl FromIterator<f32> for Rows {
    fn from_iter<I: IntoIterator<Item = f32>>(numbers: I) -> Self {
        numbers.into_iter().collect::<Vec<_>>().into()
    }
}

impl From<Vec<f32>> for Rows {
    fn from(rows: Vec<f32>) -> Self {
        Self(Arc::new(Source::Owned(rows)))
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Writes rows.
pub(crate) fn write(rows: &[f32], out: &mut dyn Write) -> io::Result<()> {
    if cfg!(target_endian = "little") {
        return out.write_all(bytemuck::cast_slice(rows));
    }
    let mut bytes = Vec::with_capacity(CHUNK);
    for chunk in rows.chunks(CHUNK / 4) {
        bytes.clear();
        bytes.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Writes the checksums of the blocks of the file of these rows, which is `vectors.crc`.
pub(crate) fn write_block_sums(rows: &Rows, out: &mut dyn Write) -> io::Result<()> {
    let mut written = Ok(());
    // Parts of the file that begin where a block does.
    rows.for_each_block(1, |_, numbers| {
        let sums = threads::map(numbers.chunks(blocks::BLOCK / size_of::<f32>()), |block| {
            let mut sum = Sum(crc32fast::Hasher::new());
            write(block, &mut sum).map(|()| sum.0.finalize().to_le_bytes())
        });
        if written.is_ok() {
            let sums = sums.into_iter().collect::<io::Result<Vec<_>>>();
            written = sums.and_then(|sums| out.write_all(sums.as_flattened()));
        }
    });
    written
}

/// The CRC-32 of what is written to it.
struct Sum(crc32fast::Hasher);

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads a whole file of rows onto the end of `rows`, and returns its size and digest.
pub(super) fn read(path: &Path, rows: &mut Vec<f32>) -> io::Result<FileEntry> {
    let mut file = plain::open(path)?;
    let size = file.metadata()?.len();
    rows.reserve(usize::try_from(size / 4).unwrap_or(0));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    loop {
        let filled = fill(&mut file, &mut buffer)?;
        hash.update(&buffer[..filled]);
        rows.extend(numbers(&buffer[..filled]));
        total += filled as u64;
        if filled < buffer.len() {
            return Ok(FileEntry { bytes: total, sha256: digest::hex(hash) });
        }
    }
}

fn fill(file: &mut fs::File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_all_rows_in_their_order_mapped_or_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let dim = 1000;
        let values: Vec<f32> = (0..7 * dim).map(|at| at as f32).collect();
        atomic_write(&path, &values);
        let (mapped, entry) = Rows::open(&path).unwrap();
        assert_eq!((entry.bytes, mapped.len()), (values.len() as u64 * 4, values.len()));
        for rows in [mapped, Rows::from(values.clone())] {
            let (mut starts, mut seen) = (Vec::new(), Vec::new());
            rows.for_each(dim, 3, |start, block| {
                starts.push(start);
                seen.extend_from_slice(block);
            });
            assert_eq!(starts, [0, 3, 6]);
            assert!(seen == values && rows[..] == values[..]);
        }
    }

    #[test]
    fn the_checksums_of_blocks_are_those_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rows");
        let values: Vec<f32> = (0..3 * blocks::BLOCK / 4 + 100).map(|at| at as f32).collect();
        atomic_write(&path, &values);
        let bytes = fs::read(&path).unwrap();
        let sums = bytes.chunks(65_536).flat_map(|block| crc32fast::hash(block).to_le_bytes());
        let sums: Vec<u8> = sums.collect();
        for rows in [Rows::open(&path).unwrap().0, Rows::from(values)] {
            let mut written = Vec::new();
            write_block_sums(&rows, &mut written).unwrap();
            assert_eq!((written.len(), &written), (16, &sums));
        }
    }

    #[test]
    fn a_link_is_the_file_that_was_mapped_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let [path, first, second] = ["rows", "first", "second"].map(|name| dir.path().join(name));
        atomic_write(&path, &[1.0, 2.0]);
        let (rows, entry) = Rows::open(&path).unwrap();
        let linked = rows.link(&first).map(|(linked, _)| linked);
        assert!(linked.is_none_or(|linked| linked == entry && fs::read(&first).unwrap() == fs::read(&path).unwrap()));
        // Another file has taken its name: what is linked must not be that one.
        atomic_write(&path, &[3.0, 4.0]);
        assert!(rows.link(&second).is_none() && !second.exists());
        assert_eq!(rows[..], [1.0, 2.0]);
        assert!(Rows::from(vec![1.0]).link(&second).is_none());
    }

    fn atomic_write(path: &Path, values: &[f32]) {
        dpr_files::atomic::write_file(path, |out| write(values, out)).unwrap();
    }
}
