//! Rows of f32 as little-endian bytes, `[count, dim]`.

use std::io::{self, Read, Write};
use std::path::Path;

use dpr_core::model::FileEntry;
use fs_err as fs;
use sha2::{Digest as _, Sha256};

use dpr_files::digest;

/// Bytes handled at a time.
const CHUNK: usize = 1 << 20;

/// Writes rows.
pub(crate) fn write(rows: &[f32], out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(CHUNK);
    for chunk in rows.chunks(CHUNK / 4) {
        bytes.clear();
        bytes.extend(chunk.iter().flat_map(|value| value.to_le_bytes()));
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// Reads a whole file of rows onto the end of `rows`, and returns its size and digest.
pub(crate) fn read(path: &Path, rows: &mut Vec<f32>) -> io::Result<FileEntry> {
    let mut file = fs::File::open(path)?;
    let size = file.metadata()?.len();
    rows.reserve(usize::try_from(size / 4).unwrap_or(0));
    let mut hash = Sha256::new();
    let mut buffer = vec![0; CHUNK];
    let mut total = 0;
    loop {
        let filled = fill(&mut file, &mut buffer)?;
        hash.update(&buffer[..filled]);
        rows.extend(buffer[..filled].as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)));
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
