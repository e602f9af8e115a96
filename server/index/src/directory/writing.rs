//! A version of an index while its files are written.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::model::FileEntry;
use fs_err as fs;

use super::columns::ColumnsWriter;
use super::manifest::FORMAT_WITHOUT_METADATA;
use super::options::IndexOptions;
use super::passages::TableWriter;
use super::pointer::{
    GRAPH, MANIFEST, METADATA, PASSAGES, PASSAGES_TABLE, Publisher, SPARSE, VECTORS, VECTORS_BLOCKS,
};
use super::version::newest;
use crate::binary::has_signs;
use crate::passage_stream::PassageStream;
use crate::quantized::AnyQuantized;
use crate::sparse::{STEP, SparseError, SparseOptions, write_sparse};
use crate::vectors::{Rows, rows};
use crate::{
    BuildError, FileError, GraphBuilder, INDEX_FORMAT, IndexKind, IndexManifest, Matrix, MatrixError,
    SparseManifest, Storage, hnsw,
};
use dpr_data::Passage;
use dpr_files::atomic::StagedDir;
use dpr_files::progress::Progress;
use dpr_files::{Mapped, digest};

/// The maker that the manifest names.
pub(super) const CREATED_BY: &str = concat!("dpr ", env!("CARGO_PKG_VERSION"));

/// A version whose files are all written.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) publisher: Publisher,
    pub(crate) staged: StagedDir,
    pub(crate) manifest: IndexManifest,
    /// The manifest's bytes.
    pub(crate) json: Vec<u8>,
}

impl Draft {
    pub(super) fn publish(self, out: &Path) -> Result<IndexManifest, BuildError> {
        let log = newest(out, |version| version.open_log()).ok().flatten();
        if let Some(changes) = log.map(|log| log.changes()).filter(|changes| *changes > 0) {
            tracing::warn!(
                "{changes} changes to the version before are not in the new one of {}",
                out.display()
            );
        }
        self.publisher.publish(self.staged, &self.json, None)?;
        Ok(self.manifest)
    }
}

/// A version being written.
pub(crate) struct Writing<'a> {
    out: &'a Path,
    stop: &'a AtomicBool,
    publisher: Publisher,
    staged: StagedDir,
    files: BTreeMap<String, FileEntry>,
    crc32: BTreeMap<String, u32>,
}

impl<'a> Writing<'a> {
    pub(crate) fn new(
        publisher: Publisher,
        out: &'a Path,
        options: &'a IndexOptions,
    ) -> Result<Self, BuildError> {
        let staged = publisher.stage()?;
        Ok(Self {
            out,
            stop: &options.stop,
            publisher,
            staged,
            files: BTreeMap::new(),
            crc32: BTreeMap::new(),
        })
    }

    fn go_on(&self) -> Result<(), BuildError> {
        if self.stop.load(Ordering::Relaxed) { Err(BuildError::Interrupted) } else { Ok(()) }
    }

    fn write(
        &mut self,
        name: &str,
        fill: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<(), BuildError> {
        self.go_on()?;
        let (written, crc32) =
            write_new(&self.staged.path().join(name), fill).map_err(BuildError::write(self.out))?;
        self.files.insert(name.to_owned(), written);
        self.crc32.insert(name.to_owned(), crc32);
        Ok(())
    }

    /// Writes the vectors. Where `rows` are of a finished file on the same file system, that file gets a hard link:
    /// neither a file of a version nor a finished file of a vectors directory is ever written to again.
    pub(super) fn write_vectors(&mut self, rows: &Rows) -> Result<(), BuildError> {
        self.go_on()?;
        match rows.link(&self.staged.path().join(VECTORS)) {
            Some((entry, crc32)) => {
                self.files.insert(VECTORS.to_owned(), entry);
                self.crc32.insert(VECTORS.to_owned(), crc32);
                Ok(())
            }
            None => self.write(VECTORS, &mut |out| rows::write(rows, out)),
        }
    }

    /// Writes vectors of `dim` numbers as `fill` gives them, one after the other, and maps the file.
    pub(crate) fn stream_vectors<I: Into<String>>(
        &mut self,
        dim: usize,
        count: usize,
        fill: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>,
        id_of: impl Fn(usize) -> I,
    ) -> Result<Matrix, BuildError> {
        self.write(VECTORS, fill)?;
        let path = self.staged.path().join(VECTORS);
        let file = Mapped::open(&path).map_err(FileError::read(&path))?;
        Ok(Matrix::new(Rows::of_file(file), count, dim, id_of)?)
    }

    /// Writes the other files of a version with vectors.
    pub(crate) fn complete(
        mut self,
        model_fingerprint: &str,
        matrix: &Arc<Matrix>,
        passages: &dyn PassageStream,
        options: &IndexOptions,
        progress: &dyn Progress,
    ) -> Result<Draft, BuildError> {
        let hnsw = (options.kind == IndexKind::Hnsw).then_some(options.hnsw);
        let all = passages.passages().map(|passage| passage.map_err(BuildError::from));
        self.write_passages(all, &mut |_| Ok(()))?;
        self.write(VECTORS_BLOCKS, &mut |out| rows::write_block_sums(matrix.rows(), out))?;
        let storage = if hnsw.is_some() { Storage::Int8 } else { options.storage };
        let codes = self.write_codes(matrix, storage)?;
        if let (Some(params), Some(AnyQuantized::Int8(codes))) = (hnsw, &codes) {
            let graph = match options.builder {
                GraphBuilder::Parallel => hnsw::build(matrix, codes, params, &options.stop, progress)?,
                GraphBuilder::HnswRs => hnsw::build_with_library(matrix, params, &options.stop, progress)?,
            };
            self.write(GRAPH, &mut |out| graph.write(out))?;
            if has_signs(matrix.dim()) {
                self.write_codes(matrix, Storage::Binary)?;
            }
        }
        let sparse =
            options.sparse.map(|sparse| self.write_sparse(passages, sparse, progress)).transpose()?;
        self.finish(IndexManifest {
            format_version: INDEX_FORMAT,
            model_fingerprint: model_fingerprint.to_owned(),
            dim: matrix.dim(),
            metric: IndexManifest::INNER_PRODUCT.to_owned(),
            kind: options.kind,
            storage,
            count: passages.count(),
            max_squared_norm: matrix.max_squared_norm(),
            sparse,
            hnsw,
            // An index without a graph names no builder, whatever the options say.
            builder: if hnsw.is_some() { options.builder } else { GraphBuilder::default() },
            created_by: CREATED_BY.to_owned(),
            files: BTreeMap::new(),
            crc32: BTreeMap::new(),
        })
    }

    /// Quantizes the vectors into a file, if `storage` has one, and maps it: no copy of it stays in memory of this
    /// process while a graph is built.
    fn write_codes(&mut self, matrix: &Matrix, storage: Storage) -> Result<Option<AnyQuantized>, BuildError> {
        let Some(name) = AnyQuantized::file_name(storage) else { return Ok(None) };
        self.write(name, &mut |out| AnyQuantized::write_of(matrix, storage, out))?;
        let path = self.staged.path().join(name);
        let file = Mapped::open(&path).map_err(FileError::read(&path))?;
        let mapped = AnyQuantized::of_file(file, matrix, storage);
        Ok(mapped.map_err(|reason| FileError::corrupt(&path, reason))?)
    }

    /// Writes the files of the passages, hands each to `add`, and returns their number.
    pub(super) fn write_passages<P: Borrow<Passage>, E: From<BuildError>>(
        &mut self,
        passages: impl Iterator<Item = Result<P, E>>,
        add: &mut dyn FnMut(&Passage) -> Result<(), SparseError>,
    ) -> Result<usize, E> {
        let mut table = TableWriter::new(passages.size_hint().0);
        let mut columns = ColumnsWriter::new(self.staged.path());
        let (out_dir, stop, mut ended) = (self.out, self.stop, None);
        let mut passages = passages.zip(0usize..);
        let written = self.write(PASSAGES, &mut |out| {
            let mut line = Vec::new();
            for (passage, row) in &mut passages {
                if row.is_multiple_of(STEP) && stop.load(Ordering::Relaxed) {
                    return Err(end(&mut ended, BuildError::Interrupted.into()));
                }
                let passage = passage.map_err(|error| end(&mut ended, error))?;
                let passage = passage.borrow();
                passage.to_line(&mut line)?;
                out.write_all(&line)?;
                table.add(passage, line.len());
                columns.add(&passage.metadata)?;
                add(passage).map_err(|error| end(&mut ended, of_sparse(error, out_dir).into()))?;
            }
            Ok(())
        });
        if let Some(error) = ended {
            return Err(error);
        }
        written?;
        let count = table.len();
        check_count(count)?;
        let by_id = table.rows_by_id();
        if let Some((id, first, second)) = table.duplicate(&by_id) {
            return Err(BuildError::DuplicateId { id, first, second }.into());
        }
        self.write(PASSAGES_TABLE, &mut |out| table.write(&by_id, out))?;
        drop((table, by_id));
        if !columns.is_empty() {
            self.write(METADATA, &mut |out| columns.write(out))?;
        }
        columns.finish().map_err(BuildError::write(self.out))?;
        Ok(count)
    }

    fn write_sparse(
        &mut self,
        passages: &dyn PassageStream,
        options: SparseOptions,
        progress: &dyn Progress,
    ) -> Result<SparseManifest, BuildError> {
        let dir = self.make_sparse_dir()?;
        write_sparse(&dir, passages, options, self.stop, progress)
            .map_err(|error| of_sparse(error, self.out))?;
        self.add_sparse_files(&dir, options)
    }

    pub(super) fn make_sparse_dir(&self) -> Result<PathBuf, BuildError> {
        self.go_on()?;
        let dir = self.staged.path().join(SPARSE);
        fs::create_dir(&dir).map_err(BuildError::write(self.out))?;
        Ok(dir)
    }

    /// Adds the files of the inverted index to those of the version.
    pub(super) fn add_sparse_files(
        &mut self,
        dir: &Path,
        options: SparseOptions,
    ) -> Result<SparseManifest, BuildError> {
        for entry in fs::read_dir(dir).map_err(BuildError::write(self.out))? {
            let entry = entry.map_err(BuildError::write(self.out))?;
            let name = format!("{SPARSE}/{}", entry.file_name().to_string_lossy());
            let (file, crc32) =
                digest::of_file_with_crc32(&entry.path()).map_err(BuildError::write(self.out))?;
            self.files.insert(name.clone(), file);
            self.crc32.insert(name, crc32);
        }
        Ok(SparseManifest { analyzer: options.analyzer })
    }

    pub(super) fn finish(self, manifest: IndexManifest) -> Result<Draft, BuildError> {
        let has_metadata = self.files.contains_key(METADATA);
        let format_version = if has_metadata { INDEX_FORMAT } else { FORMAT_WITHOUT_METADATA };
        let manifest = IndexManifest { format_version, files: self.files, crc32: self.crc32, ..manifest };
        let json = serde_json::to_vec_pretty(&manifest)
            .map_err(io::Error::other)
            .map_err(BuildError::write(self.out))?;
        fs::write(self.staged.path().join(MANIFEST), &json).map_err(BuildError::write(self.out))?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(BuildError::Interrupted);
        }
        Ok(Draft { publisher: self.publisher, staged: self.staged, manifest, json })
    }
}

/// Keeps the reason for which writing ends, and returns the error that ends it.
fn end<E>(ended: &mut Option<E>, reason: E) -> io::Error {
    *ended = Some(reason);
    io::ErrorKind::Other.into()
}

/// Returns an error for a number of passages that no index has.
pub(super) fn check_count(count: usize) -> Result<(), BuildError> {
    if count == 0 {
        return Err(MatrixError::Empty.into());
    }
    if u32::try_from(count).is_err() {
        let max = u32::MAX as usize;
        return Err(BuildError::Parameter { name: "the number of passages", value: count, min: 1, max });
    }
    Ok(())
}

/// Returns the error of a build in the index directory `out` whose inverted index failed.
pub(super) fn of_sparse(error: SparseError, out: &Path) -> BuildError {
    match error {
        SparseError::Interrupted => BuildError::Interrupted,
        SparseError::File(FileError::Write(source)) => BuildError::Write { path: out.to_path_buf(), source },
        SparseError::File(error) => error.into(),
        other => BuildError::Sparse(other),
    }
}

pub(crate) fn write_new(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<(FileEntry, u32)> {
    use io::Write as _;
    let mut file = io::BufWriter::with_capacity(1 << 20, fs::File::create_new(path)?);
    let mut out = digest::Writer::new(&mut file);
    fill(&mut out)?;
    let written = out.finish_with_crc32();
    file.flush()?;
    Ok(written)
}
