//! The writer of a vectors directory, part by part, so that an interrupted run can go on.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use dpr_core::Embedding;
use dpr_core::model::FileEntry;
use fs_err as fs;

use super::manifest::FORMAT_VERSION;
use super::parts::Parts;
use super::set::{MANIFEST, PASSAGES, SPEC, VECTORS, read_manifest};
use super::{VectorsError, VectorsManifest, VectorsSpec};
use dpr_data::Passage;
use dpr_files::{DirLock, Error as FileError, atomic, digest, lock, plain};

const PARTS: &str = "parts";

/// A vectors directory being written. Parts may be written in any order and from several threads.
#[derive(Debug)]
pub struct VectorsWriter {
    dir: PathBuf,
    spec: VectorsSpec,
    ids: Vec<String>,
    passages: FileEntry,
    parts: Parts,
    /// Numbers of the parts on disk.
    done: Mutex<BTreeSet<usize>>,
    finished: bool,
    _lock: DirLock,
}

impl VectorsWriter {
    /// Starts or continues the encoding of `passages`, those of this shard in order, in `dir`.
    ///
    /// What an earlier run finished is kept when its spec is the same. A torn part is encoded again.
    ///
    /// # Errors
    /// [`VectorsError::OtherSpec`] when `dir` holds another encoding, [`FileError::Foreign`] when it holds
    /// something else, [`FileError::Busy`] when another process writes there, or an I/O error.
    pub fn open(dir: &Path, spec: VectorsSpec, passages: &[Passage]) -> Result<Self, VectorsError> {
        spec.check()?;
        atomic::create_dir_all(dir).map_err(FileError::write)?;
        refuse_foreign(dir)?;
        let lock = lock_dir(dir)?;
        atomic::remove_unfinished(dir).map_err(FileError::write)?;

        let finished = match read_manifest(dir)? {
            Some(manifest) => {
                same_spec(dir, &manifest.spec, &spec)?;
                check_sizes(dir, &manifest)?;
                true
            }
            None => false,
        };
        let ids: Vec<_> = passages.iter().map(|passage| passage.id.clone()).collect();
        let parts = Parts::new(dir.join(PARTS), (ids.len(), spec.dim), spec.part_size);
        let mut writer = Self {
            dir: dir.to_path_buf(),
            parts,
            spec,
            ids,
            passages: FileEntry { bytes: 0, sha256: String::new() },
            done: Mutex::default(),
            finished,
            _lock: lock,
        };
        if finished {
            writer.tidy_up()?;
        } else {
            writer.resume(passages)?;
        }
        Ok(writer)
    }

    /// Discards what an encoding wrote in `dir`, whichever it was (`--force`). A missing `dir` is fine.
    ///
    /// # Errors
    /// [`FileError::Foreign`] when `dir` holds anything else; nothing is removed then.
    pub fn clear(dir: &Path) -> Result<(), VectorsError> {
        if !dir.try_exists().map_err(FileError::read(dir))? {
            return Ok(());
        }
        refuse_foreign(dir)?;
        let _lock = lock_dir(dir)?;
        // The manifest first: without it the rest is an unfinished encoding, not a damaged one.
        for name in [MANIFEST, SPEC, VECTORS, PASSAGES] {
            remove_file(&dir.join(name))?;
        }
        remove_dir(&dir.join(PARTS))?;
        Ok(atomic::remove_unfinished(dir).map_err(FileError::write)?)
    }

    /// Ranges of passages, positions in this shard, that have no vectors yet, in order.
    pub fn missing_parts(&self) -> Vec<Range<usize>> {
        if self.finished {
            return Vec::new();
        }
        let done = self.done();
        (0..self.parts.len()).filter(|part| !done.contains(part)).map(|part| self.parts.range(part)).collect()
    }

    /// Writes the rows `[range.len(), dim]` of one of [`missing_parts`](Self::missing_parts), whole or not at all.
    ///
    /// # Errors
    /// [`VectorsError`] for another range, another number of rows, a row that is not finite or all zero, or when
    /// the part cannot be written. Parts written before are kept in every case.
    pub fn write_part(&self, range: &Range<usize>, rows: &[f32]) -> Result<(), VectorsError> {
        let part = range.start / self.spec.part_size;
        if part >= self.parts.len() || self.parts.range(part) != *range || self.finished {
            return Err(VectorsError::NotAPart { start: range.start, end: range.end });
        }
        let dim = self.spec.dim;
        let expected = range.len() * dim;
        if rows.len() != expected {
            let (start, end) = (range.start, range.end);
            return Err(VectorsError::Shape { start, end, dim, expected, got: rows.len() });
        }
        for (row, id) in rows.chunks_exact(dim).zip(&self.ids[range.clone()]) {
            Embedding::check(row, dim).map_err(|source| VectorsError::BadRow { id: id.clone(), source })?;
        }

        self.parts.write(part, rows).map_err(|source| VectorsError::NotWritten {
            path: self.parts.rows_path(),
            rows: range.clone(),
            source: Arc::new(source),
        })?;
        self.done().insert(part);
        Ok(())
    }

    /// Checks the parts, moves their file to `vectors.f32` and writes the manifest; nothing is written again.
    ///
    /// # Errors
    /// [`VectorsError::MissingParts`] when some are not written, [`FileError::Corrupt`] when one was changed
    /// behind our back (it is encoded again on the next start), or [`FileError::Write`]; parts are kept.
    pub fn finish(self) -> Result<(), VectorsError> {
        if self.finished {
            return Ok(());
        }
        let (missing, total) = (self.missing_parts().len(), self.parts.len());
        if missing > 0 {
            return Err(VectorsError::MissingParts { path: self.dir.clone(), missing, total });
        }
        let vectors = self.parts.finish(&self.dir.join(VECTORS)).map_err(FileError::write)?;
        let vectors = vectors.map_err(|part| {
            let Range { start, end } = self.parts.range(part);
            let reason =
                format!("rows {start} to {end} changed after they were written; the next run redoes them");
            FileError::corrupt(&self.parts.rows_path(), reason)
        })?;
        let manifest = VectorsManifest {
            format_version: FORMAT_VERSION,
            spec: self.spec.clone(),
            count: self.ids.len(),
            files: [(VECTORS.to_owned(), vectors), (PASSAGES.to_owned(), self.passages.clone())].into(),
        };
        write_json(&self.dir.join(MANIFEST), &manifest)?;
        self.tidy_up()
    }

    /// Compares the directory's spec, writes what a fresh one needs, and looks for whole parts.
    fn resume(&mut self, passages: &[Passage]) -> Result<(), VectorsError> {
        let spec_path = self.dir.join(SPEC);
        match plain::read(&spec_path, plain::DESCRIPTION) {
            Ok(bytes) => {
                let found: VectorsSpec = serde_json::from_slice(&bytes)
                    .map_err(|e| FileError::corrupt(&spec_path, e.to_string()))?;
                same_spec(&self.dir, &found, &self.spec)?;
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                // Parts without a spec are of unknown origin, and so are rows, which an index may have linked.
                remove_dir(&self.dir.join(PARTS))?;
                remove_file(&self.dir.join(VECTORS))?;
                write_json(&spec_path, &self.spec)?;
            }
            Err(error) => return Err(FileError::read(&spec_path)(error).into()),
        }
        self.passages = write_passages(&self.dir.join(PASSAGES), passages)?;

        let whole = self.parts.open(&self.dir.join(VECTORS)).map_err(FileError::write)?;
        self.done = Mutex::new(whole.into_iter().collect());
        Ok(())
    }

    /// Makes the rows of a finished directory read-only, since indexes link to them and map them, and removes what is
    /// for unfinished ones.
    fn tidy_up(&self) -> Result<(), VectorsError> {
        atomic::make_read_only(&self.dir.join(VECTORS)).map_err(FileError::write)?;
        remove_dir(&self.dir.join(PARTS))?;
        remove_file(&self.dir.join(SPEC))
    }

    fn done(&self) -> std::sync::MutexGuard<'_, BTreeSet<usize>> {
        lock(&self.done)
    }
}

fn lock_dir(dir: &Path) -> Result<DirLock, VectorsError> {
    match DirLock::acquire(dir).map_err(FileError::write)? {
        Some(lock) => Ok(lock),
        None => Err(FileError::Busy { path: dir.to_path_buf(), holder: DirLock::holder(dir) }.into()),
    }
}

fn same_spec(dir: &Path, found: &VectorsSpec, expected: &VectorsSpec) -> Result<(), VectorsError> {
    match found.difference(expected) {
        None => Ok(()),
        Some((field, found, expected)) => {
            Err(VectorsError::OtherSpec { path: dir.to_path_buf(), field, found, expected })
        }
    }
}

fn check_sizes(dir: &Path, manifest: &VectorsManifest) -> Result<(), VectorsError> {
    for (name, entry) in &manifest.files {
        let path = dir.join(name);
        let found = fs::metadata(&path).map_err(FileError::read(&path))?.len();
        if found != entry.bytes {
            return Err(FileError::corrupt(&path, format!("{found} bytes, not {}", entry.bytes)).into());
        }
    }
    Ok(())
}

fn refuse_foreign(dir: &Path) -> Result<(), VectorsError> {
    let is_ours = |name: &str| [SPEC, PARTS, VECTORS, PASSAGES, MANIFEST].contains(&name);
    Ok(dpr_files::refuse_foreign(dir, is_ours)?)
}

fn write_passages(path: &Path, passages: &[Passage]) -> Result<FileEntry, VectorsError> {
    let written = digest::write_file(path, |out| dpr_data::write_passages(passages, out).map(drop));
    Ok(written.map_err(FileError::write)?)
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), VectorsError> {
    let written = atomic::write_file(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        writeln!(out)
    });
    Ok(written.map_err(FileError::write)?)
}

fn remove_file(path: &Path) -> Result<(), VectorsError> {
    Ok(absent_is_fine(fs::remove_file(path)).map_err(FileError::write)?)
}

fn remove_dir(path: &Path) -> Result<(), VectorsError> {
    Ok(absent_is_fine(fs::remove_dir_all(path)).map_err(FileError::write)?)
}

fn absent_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
