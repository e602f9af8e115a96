//! SHA-256 and CRC-32 of files that are too large to hold in memory.

use std::io::{self, Read, Write};
use std::path::Path;

use dpr_core::model::{self, FileEntry};
use sha2::{Digest as _, Sha256};

use crate::{Error, atomic, plain, relative, threads};

/// Bytes that a thread takes at a time.
const CRC_PART: usize = 4 << 20;

/// The size of a piece passed to `look`: it fits a core's cache.
const PIECE: usize = 32 << 10;

/// Finishes a digest as 64 hex characters.
pub fn hex(digest: Sha256) -> String {
    model::hex(&digest.finalize())
}

/// Passes bytes on and digests them on the way.
pub struct Writer<'a> {
    out: &'a mut dyn Write,
    digest: Sha256,
    crc32: crc32fast::Hasher,
    bytes: u64,
}

impl<'a> Writer<'a> {
    /// Writes to `out`.
    pub fn new(out: &'a mut dyn Write) -> Self {
        Self { out, digest: Sha256::new(), crc32: crc32fast::Hasher::new(), bytes: 0 }
    }

    /// As [`Writer::finish`], and the CRC-32.
    pub fn finish_with_crc32(self) -> (FileEntry, u32) {
        let crc32 = self.crc32.clone().finalize();
        (self.finish(), crc32)
    }

    /// Size and digest of what was written.
    pub fn finish(self) -> FileEntry {
        FileEntry { bytes: self.bytes, sha256: hex(self.digest) }
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.out.write(buffer)?;
        self.digest.update(&buffer[..written]);
        self.crc32.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a file whole, as [`atomic::write_file`] does, and returns its size and digest.
///
/// # Errors
/// As [`atomic::write_file`].
pub fn write_file(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<FileEntry> {
    let mut entry = FileEntry { bytes: 0, sha256: String::new() };
    atomic::write_file(path, |out| {
        let mut out = Writer::new(out);
        fill(&mut out)?;
        entry = out.finish();
        Ok(())
    })?;
    Ok(entry)
}

/// The CRC-32 of bytes, on all processors: as fast as memory is read, where SHA-256 takes seconds a gigabyte. `look` is
/// shown every piece, in any order, while it is in a core's cache; pieces begin at multiples of 32 KiB.
pub fn crc32(bytes: &[u8], look: impl Fn(&[u8]) + Sync) -> u32 {
    let mut whole = crc32fast::Hasher::new();
    let of_part = |part: &&[u8]| {
        let mut hasher = crc32fast::Hasher::new();
        for piece in part.chunks(PIECE) {
            hasher.update(piece);
            look(piece);
        }
        hasher
    };
    threads::map(bytes.chunks(CRC_PART), of_part).iter().for_each(|part| whole.combine(part));
    whole.finalize()
}

/// Size and digest of a file, read in pieces.
///
/// # Errors
/// An I/O error that names the path.
pub fn of_file(path: &Path) -> io::Result<FileEntry> {
    let mut digest = Sha256::new();
    let bytes = pieces(path, |piece| digest.update(piece))?;
    Ok(FileEntry { bytes, sha256: hex(digest) })
}

/// Refuses a file of another size than `expected`, before it is read.
///
/// # Errors
/// [`Error::Size`], or why the file cannot be looked at.
pub fn check_size(path: &Path, expected: &FileEntry) -> Result<(), Error> {
    let got = relative::size(path).map_err(Error::read(path))?;
    if got == expected.bytes {
        return Ok(());
    }
    Err(Error::Size { path: path.to_path_buf(), expected: expected.bytes, got })
}

/// Refuses the file at `path` where what was `found` in it is not what is `expected`.
///
/// # Errors
/// [`Error::Size`] and [`Error::Checksum`].
pub fn check(path: &Path, expected: &FileEntry, found: &FileEntry) -> Result<(), Error> {
    if found.bytes != expected.bytes {
        return Err(Error::Size { path: path.to_path_buf(), expected: expected.bytes, got: found.bytes });
    }
    if found.sha256 != expected.sha256 {
        return Err(Error::Checksum { path: path.to_path_buf() });
    }
    Ok(())
}

/// As [`of_file`], and the CRC-32.
///
/// # Errors
/// As [`of_file`].
pub fn of_file_with_crc32(path: &Path) -> io::Result<(FileEntry, u32)> {
    let mut out = io::sink();
    let mut writer = Writer::new(&mut out);
    pieces(path, |piece| {
        // A sink takes all.
        let _ = writer.write(piece);
    })?;
    Ok(writer.finish_with_crc32())
}

fn pieces(path: &Path, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
    let mut file = plain::open(path)?;
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(bytes);
        }
        take(&buffer[..read]);
        bytes += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_parts_of_a_checksum_make_that_of_the_whole() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(crc32(b"123456789", |_| {}), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..2 * CRC_PART + 5).map(|at| (at * 31) as u8).collect();
        let mut out = io::sink();
        let mut writer = Writer::new(&mut out);
        writer.write_all(&bytes).unwrap();
        let (entry, written) = writer.finish_with_crc32();
        let seen = AtomicU64::new(0);
        let look = |piece: &[u8]| {
            seen.fetch_add(piece.len() as u64, Ordering::Relaxed);
        };
        assert_eq!((written, entry.bytes), (crc32(&bytes, look), bytes.len() as u64));
        assert_eq!(seen.into_inner(), entry.bytes);
    }

    #[test]
    fn a_file_and_its_bytes_agree_with_the_published_digest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs_err::write(&path, "abc").unwrap();
        let digest = of_file(&path).unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(digest.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(digest.sha256, dpr_core::model::sha256_hex(b"abc"));
        assert_eq!(digest.bytes, 3);
    }
}
