//! Upgrades of an index to the newest format.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::binary::has_signs;
use crate::directory::copy::publish_with;
use crate::directory::manifest::FORMAT_WITHOUT_METADATA;
use crate::directory::pointer::{PASSAGES_TABLE, VECTORS_BLOCKS};
use crate::directory::version::newest;
use crate::directory::writing::write_new;
use crate::quantized::{AnyQuantized, CODES_BINARY};
use crate::vectors::rows::write_block_sums;
use crate::{BuildError, FileError, IndexKind, LoadedIndex, LoadedSparse, Storage, verify};
use dpr_files::digest;

/// The result of an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upgraded {
    /// The format that the index was in.
    pub before: u32,
    /// The format that it is in now: the same where that was new enough.
    pub now: u32,
    /// `true` if it got the checksums of its vectors' blocks, by which it opens without reading all vectors.
    pub got_blocks: bool,
    /// `true` if its graph got the signs of its vectors, by which a search scores fewer rows.
    pub got_signs: bool,
}

/// Publishes the version in use as it would be built now, if it is in an older format or has no `vectors.crc` or, for a
/// graph, no `codes.b1`. Every file is checked first; what was in use stays until the new version is whole, and beside
/// it then.
///
/// # Errors
/// [`BuildError`]: no index, a damaged file, another writer, a full disk.
pub fn upgrade(dir: &Path) -> Result<Upgraded, BuildError> {
    let checked = verify(dir)?;
    if let Some(problem) = checked.problems.into_iter().next() {
        return Err(problem.into());
    }
    let before = checked.manifest.format_version;
    // Passages of older formats have no metadata.
    let now = before.max(FORMAT_WITHOUT_METADATA);
    let has_vectors = checked.manifest.kind != IndexKind::Sparse;
    let got_blocks = has_vectors && !checked.manifest.files.contains_key(VECTORS_BLOCKS);
    let got_signs = checked.manifest.kind == IndexKind::Hnsw
        && has_signs(checked.manifest.dim)
        && !checked.manifest.files.contains_key(CODES_BINARY);
    let done = Upgraded { before, now, got_blocks, got_signs };
    if before == now && !got_blocks && !got_signs {
        return Ok(done);
    }
    // What older formats have no files for.
    let (version, table, codes, matrix) = match checked.manifest.kind {
        IndexKind::Sparse => {
            let index = LoadedSparse::open(dir)?;
            (index.version().to_owned(), index.passages.table()?, None, None)
        }
        IndexKind::Exact | IndexKind::Hnsw => {
            let index = newest(dir, LoadedIndex::read)?;
            let (matrix, codes) = (Arc::clone(index.matrix()?), index.codes()?.first().cloned());
            (index.version().to_owned(), index.passages().table()?, codes, Some(matrix))
        }
    };
    publish_with(dir, &version, |manifest, staged| {
        manifest.format_version = now;
        manifest.storage = manifest.read_by();
        let name = AnyQuantized::file_name(manifest.storage);
        for name in manifest.files.keys() {
            if !manifest.crc32.contains_key(name) {
                let file = digest::of_file_with_crc32(&staged.join(name));
                manifest.crc32.insert(name.clone(), file.map_err(FileError::write)?.1);
            }
        }
        let mut add = |name: &str, fill: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>| {
            let (file, crc32) = write_new(&staged.join(name), fill).map_err(FileError::write)?;
            manifest.files.insert(name.to_owned(), file);
            manifest.crc32.insert(name.to_owned(), crc32);
            Ok(())
        };
        if let Some(matrix) = matrix.as_ref().filter(|_| got_blocks) {
            add(VECTORS_BLOCKS, &mut |out| write_block_sums(matrix.rows(), out))?;
        }
        if let Some(matrix) = matrix.as_ref().filter(|_| got_signs) {
            add(CODES_BINARY, &mut |out| AnyQuantized::write_of(matrix, Storage::Binary, out))?;
        }
        if before == now {
            return Ok(());
        }
        add(PASSAGES_TABLE, &mut |out| out.write_all(&table))?;
        match (&codes, name) {
            (Some(codes), Some(name)) => add(name, &mut |out| codes.write(out)),
            _ => Ok(()),
        }
    })?;
    Ok(done)
}
