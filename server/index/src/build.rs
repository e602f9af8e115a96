//! Builds an index of vectors and publishes it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::model::FileEntry;
use fs_err as fs;

use super::codes::AnyCodes;
use super::passages::write_table;
use super::store::{GRAPH, MANIFEST, PASSAGES, PASSAGES_TABLE, Publisher, SPARSE, VECTORS};
use super::version::newest;
use super::{
    GraphBuilder, HnswParams, INDEX_FORMAT, IndexDir, IndexError, IndexKind, IndexManifest, Matrix,
    SparseManifest, Storage, hnsw,
};
use crate::sparse::{SparseError, SparseOptions, build_sparse};
use crate::vectors::{VectorSet, rows};
use dpr_data::{Passage, write_passages};
use dpr_files::atomic::StagedDir;
use dpr_files::digest;
use dpr_files::progress::Progress;

/// What index to build.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// How it will search vectors.
    pub kind: IndexKind,
    /// The graph's parameters; not used for an exact index.
    pub hnsw: HnswParams,
    /// Who builds the graph.
    pub builder: GraphBuilder,
    /// What an exact search reads; a graph is always walked by eight bits.
    pub storage: Storage,
    /// An inverted index beside the vectors, for BM25 and TF-IDF.
    pub sparse: Option<SparseOptions>,
    /// Set from another thread or a signal handler to give up; what was there stays.
    pub stop: Arc<AtomicBool>,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            kind: IndexKind::Exact,
            hnsw: HnswParams::default(),
            builder: GraphBuilder::default(),
            storage: Storage::default(),
            sparse: None,
            stop: Arc::default(),
        }
    }
}

/// Builds an index of `vectors` and publishes it as the newest version in `out`.
///
/// The index that was there answers until the new one is whole and on disk, and stays when anything fails. Its
/// version is kept beside the new one until the build after.
///
/// # Errors
/// [`IndexError`]: no vectors, duplicate passage ids, numbers that are not finite, parameters out of range, an
/// unwritable or foreign `out`, a full disk, another build in `out`, or [`IndexError::Interrupted`].
pub fn build_index(
    vectors: &VectorSet,
    out: &Path,
    options: &IndexOptions,
    progress: &dyn Progress,
) -> Result<IndexManifest, IndexError> {
    let passages = &vectors.passages;
    check(passages)?;
    match options.kind {
        IndexKind::Exact => {}
        IndexKind::Hnsw => options.hnsw.check()?,
        IndexKind::Sparse => return Err(IndexError::Kind { got: options.kind.to_string() }),
    }
    let id_of = |row: usize| passages[row].id.as_str();
    let matrix = Arc::new(Matrix::new(vectors.rows.clone(), passages.len(), vectors.dim, id_of)?);

    let publisher = IndexDir::new(out).publisher()?;
    write_version(publisher, out, &vectors.model_fingerprint, &matrix, passages, options, progress)?
        .publish(out)
}

/// Writes the files of a version with vectors: all that [`build_index`] does, but for the checks before and the
/// publication after.
pub(super) fn write_version(
    publisher: Publisher,
    out: &Path,
    model_fingerprint: &str,
    matrix: &Arc<Matrix>,
    passages: &[Passage],
    options: &IndexOptions,
    progress: &dyn Progress,
) -> Result<Draft, IndexError> {
    let hnsw = (options.kind == IndexKind::Hnsw).then_some(options.hnsw);
    let mut draft = Writing::new(publisher, out, options)?;
    draft.write(VECTORS, &mut |out| rows::write(matrix.as_slice(), out))?;
    draft.write_passages(passages)?;
    let storage = if hnsw.is_some() { Storage::Int8 } else { options.storage };
    let codes = AnyCodes::of(matrix, storage);
    if let (Some(codes), Some(name)) = (&codes, AnyCodes::file_name(storage)) {
        draft.write(name, &mut |out| codes.write(out))?;
    }
    if let (Some(params), Some(AnyCodes::Int8(codes))) = (hnsw, &codes) {
        let graph = match options.builder {
            GraphBuilder::Parallel => hnsw::build(matrix, codes, params, &options.stop, progress)?,
            GraphBuilder::HnswRs => hnsw::build_with_library(matrix, params, &options.stop, progress)?,
        };
        draft.write(GRAPH, &mut |out| graph.write(out))?;
    }
    let sparse = options.sparse.map(|sparse| draft.write_sparse(passages, sparse, progress)).transpose()?;
    draft.finish(IndexManifest {
        format_version: INDEX_FORMAT,
        model_fingerprint: model_fingerprint.to_owned(),
        dim: matrix.dim(),
        metric: IndexManifest::INNER_PRODUCT.to_owned(),
        kind: options.kind,
        storage,
        count: passages.len(),
        phi: matrix.phi(),
        sparse,
        hnsw,
        created_by: CREATED_BY.to_owned(),
        files: BTreeMap::new(),
        crc32: BTreeMap::new(),
    })
}

/// Builds an index without vectors, for BM25 and TF-IDF alone, and publishes it as [`build_index`] does.
///
/// # Errors
/// As [`build_index`], without what concerns vectors.
pub fn build_sparse_index(
    passages: &[Passage],
    out: &Path,
    sparse: SparseOptions,
    stop: &Arc<AtomicBool>,
    progress: &dyn Progress,
) -> Result<IndexManifest, IndexError> {
    check(passages)?;
    let options = IndexOptions { kind: IndexKind::Sparse, stop: Arc::clone(stop), ..IndexOptions::default() };
    let mut draft = Writing::new(IndexDir::new(out).publisher()?, out, &options)?;
    draft.write_passages(passages)?;
    let sparse = Some(draft.write_sparse(passages, sparse, progress)?);
    let draft = draft.finish(IndexManifest {
        format_version: INDEX_FORMAT,
        model_fingerprint: String::new(),
        dim: 0,
        metric: IndexManifest::INNER_PRODUCT.to_owned(),
        kind: IndexKind::Sparse,
        storage: Storage::F32,
        count: passages.len(),
        phi: 0.0,
        sparse,
        hnsw: None,
        created_by: CREATED_BY.to_owned(),
        files: BTreeMap::new(),
        crc32: BTreeMap::new(),
    })?;
    draft.publish(out)
}

const CREATED_BY: &str = concat!("dpr ", env!("CARGO_PKG_VERSION"));

/// A version whose files are all written.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) publisher: Publisher,
    pub(super) staged: StagedDir,
    pub(super) manifest: IndexManifest,
    /// The manifest's bytes.
    pub(super) json: Vec<u8>,
}

impl Draft {
    fn publish(self, out: &Path) -> Result<IndexManifest, IndexError> {
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
struct Writing<'a> {
    out: &'a Path,
    stop: &'a AtomicBool,
    publisher: Publisher,
    staged: StagedDir,
    files: BTreeMap<String, FileEntry>,
    crc32: BTreeMap<String, u32>,
}

impl<'a> Writing<'a> {
    fn new(publisher: Publisher, out: &'a Path, options: &'a IndexOptions) -> Result<Self, IndexError> {
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

    fn go_on(&self) -> Result<(), IndexError> {
        if self.stop.load(Ordering::Relaxed) { Err(IndexError::Interrupted) } else { Ok(()) }
    }

    fn write(
        &mut self,
        name: &str,
        fill: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<(), IndexError> {
        self.go_on()?;
        let (written, crc32) =
            write_new(&self.staged.path().join(name), fill).map_err(IndexError::write(self.out))?;
        self.files.insert(name.to_owned(), written);
        self.crc32.insert(name.to_owned(), crc32);
        Ok(())
    }

    fn write_passages(&mut self, passages: &[Passage]) -> Result<(), IndexError> {
        let mut starts = Vec::new();
        self.write(PASSAGES, &mut |out| {
            starts = write_passages(passages, out)?;
            Ok(())
        })?;
        self.write(PASSAGES_TABLE, &mut |out| write_table(&starts, passages, out))
    }

    fn write_sparse(
        &mut self,
        passages: &[Passage],
        options: SparseOptions,
        progress: &dyn Progress,
    ) -> Result<SparseManifest, IndexError> {
        self.go_on()?;
        let dir = self.staged.path().join(SPARSE);
        fs::create_dir(&dir).map_err(IndexError::write(self.out))?;
        build_sparse(&dir, passages, options, self.stop, progress).map_err(|error| match error {
            SparseError::Interrupted => IndexError::Interrupted,
            SparseError::Write { source, .. } => IndexError::Write { path: self.out.to_path_buf(), source },
            other => IndexError::Sparse(other),
        })?;
        for entry in fs::read_dir(&dir).map_err(IndexError::write(self.out))? {
            let entry = entry.map_err(IndexError::write(self.out))?;
            let name = format!("{SPARSE}/{}", entry.file_name().to_string_lossy());
            let (file, crc32) =
                digest::of_file_with_crc32(&entry.path()).map_err(IndexError::write(self.out))?;
            self.files.insert(name.clone(), file);
            self.crc32.insert(name, crc32);
        }
        Ok(SparseManifest { analyzer: options.analyzer })
    }

    fn finish(self, manifest: IndexManifest) -> Result<Draft, IndexError> {
        let manifest = IndexManifest { files: self.files, crc32: self.crc32, ..manifest };
        let json = serde_json::to_vec_pretty(&manifest)
            .map_err(io::Error::other)
            .map_err(IndexError::write(self.out))?;
        fs::write(self.staged.path().join(MANIFEST), &json).map_err(IndexError::write(self.out))?;
        if self.stop.load(Ordering::Relaxed) {
            return Err(IndexError::Interrupted);
        }
        Ok(Draft { publisher: self.publisher, staged: self.staged, manifest, json })
    }
}

fn check(passages: &[Passage]) -> Result<(), IndexError> {
    if passages.is_empty() {
        return Err(IndexError::Empty);
    }
    if u32::try_from(passages.len()).is_err() {
        let (value, max) = (passages.len(), u32::MAX as usize);
        return Err(IndexError::Parameter { name: "the number of passages", value, min: 1, max });
    }
    check_ids(passages)
}

fn check_ids(passages: &[Passage]) -> Result<(), IndexError> {
    let mut rows = HashMap::with_capacity(passages.len());
    for (second, passage) in passages.iter().enumerate() {
        if let Some(first) = rows.insert(passage.id.as_str(), second) {
            return Err(IndexError::DuplicateId { id: passage.id.clone(), first, second });
        }
    }
    Ok(())
}

pub(super) fn write_new(
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
