//! Builds of an index: the files of a new version, written whole and published.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::model::FileEntry;
use fs_err as fs;

use super::columns::ColumnsWriter;
use super::manifest::FORMAT_WITHOUT_METADATA;
use super::passage_stream::PassageStream;
use super::passages::TableWriter;
use super::pointer::{
    CODES_INT4, GRAPH, MANIFEST, METADATA, PASSAGES, PASSAGES_TABLE, Publisher, SPARSE, VECTORS,
};
use super::version::newest;
use crate::quantized::AnyQuantized;
use crate::sparse::{SparseError, SparseOptions, write_sparse};
use crate::vectors::{Rows, VectorSet, rows};
use crate::{
    BuildError, FileError, GraphBuilder, HnswParams, INDEX_FORMAT, IndexDir, IndexKind, IndexManifest,
    Matrix, MatrixError, SparseManifest, Storage, hnsw, limits,
};
use dpr_data::Passage;
use dpr_files::atomic::StagedDir;
use dpr_files::progress::Progress;
use dpr_files::{Mapped, digest};

/// The options of building an index.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// The way vectors will be searched.
    pub kind: IndexKind,
    /// The graph's parameters; not used for an exact index.
    pub hnsw: HnswParams,
    /// The program that builds the graph.
    pub builder: GraphBuilder,
    /// The form of the vectors that exact search reads; a graph is always searched by eight bits.
    pub storage: Storage,
    /// An inverted index beside the vectors, for BM25 and TF-IDF.
    pub sparse: Option<SparseOptions>,
    /// A flag that another thread or a signal handler sets to stop the build; the index that was there stays.
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
/// [`BuildError`]: no vectors, duplicate passage ids, passages longer than [`limits`] allow, numbers that are not
/// finite, parameters out of range, an unwritable or foreign `out`, a full disk, another build in `out`, or
/// [`BuildError::Interrupted`].
pub fn build_index(
    vectors: &VectorSet,
    out: &Path,
    options: &IndexOptions,
    progress: &dyn Progress,
) -> Result<IndexManifest, BuildError> {
    let passages = &vectors.passages;
    check(passages)?;
    match options.kind {
        IndexKind::Exact => {}
        IndexKind::Hnsw => options.hnsw.check()?,
        IndexKind::Sparse => return Err(BuildError::SparseOfVectors),
    }
    let id_of = |row: usize| passages[row].id.as_str();
    let matrix = Arc::new(Matrix::new(vectors.rows.clone(), passages.len(), vectors.dim, id_of)?);

    let mut draft = Writing::new(IndexDir::new(out).publisher()?, out, options)?;
    draft.write_vectors(matrix.rows())?;
    let passages = passages.as_slice();
    draft.complete(&vectors.model_fingerprint, &matrix, &passages, options, progress)?.publish(out)
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
) -> Result<IndexManifest, BuildError> {
    check(passages)?;
    let options = IndexOptions { kind: IndexKind::Sparse, stop: Arc::clone(stop), ..IndexOptions::default() };
    let mut draft = Writing::new(IndexDir::new(out).publisher()?, out, &options)?;
    draft.write_passages(&passages)?;
    let sparse = Some(draft.write_sparse(&passages, sparse, progress)?);
    let draft = draft.finish(IndexManifest {
        format_version: INDEX_FORMAT,
        model_fingerprint: String::new(),
        dim: 0,
        metric: IndexManifest::INNER_PRODUCT.to_owned(),
        kind: IndexKind::Sparse,
        storage: Storage::F32,
        count: passages.len(),
        max_squared_norm: 0.0,
        sparse,
        hnsw: None,
        created_by: CREATED_BY.to_owned(),
        files: BTreeMap::new(),
        crc32: BTreeMap::new(),
    })?;
    draft.publish(out)
}

/// Passages between two looks at whether to stop.
const STEP: usize = 1024;

const CREATED_BY: &str = concat!("dpr ", env!("CARGO_PKG_VERSION"));

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
    fn publish(self, out: &Path) -> Result<IndexManifest, BuildError> {
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
    fn write_vectors(&mut self, rows: &Rows) -> Result<(), BuildError> {
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
        self.write_passages(passages)?;
        let storage = if hnsw.is_some() { Storage::Int8 } else { options.storage };
        let codes = self.write_codes(matrix, storage)?;
        if let (Some(params), Some(AnyQuantized::Int8(codes))) = (hnsw, &codes) {
            let graph = match options.builder {
                GraphBuilder::Parallel => hnsw::build(matrix, codes, params, &options.stop, progress)?,
                GraphBuilder::HnswRs => hnsw::build_with_library(matrix, params, &options.stop, progress)?,
            };
            self.write(GRAPH, &mut |out| graph.write(out))?;
            self.go_on()?;
            let graph =
                hnsw::HnswIndex::new(Arc::clone(matrix), Arc::clone(codes), None, graph, params.ef_search);
            if let Some(nibbles) = graph.close_nibbles() {
                self.write(CODES_INT4, &mut |out| nibbles.write(out))?;
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

    /// Writes the passages, one after the other, their table and their metadata.
    fn write_passages(&mut self, passages: &dyn PassageStream) -> Result<(), BuildError> {
        let mut table = TableWriter::new(passages.count());
        let mut columns = ColumnsWriter::new(self.staged.path());
        let (stop, mut ended) = (self.stop, None);
        let written = self.write(PASSAGES, &mut |out| {
            let mut line = Vec::new();
            for (passage, row) in passages.passages().zip(0usize..) {
                if row.is_multiple_of(STEP) && stop.load(Ordering::Relaxed) {
                    return Err(end(&mut ended, BuildError::Interrupted));
                }
                let passage = passage.map_err(|error| end(&mut ended, error.into()))?;
                passage.to_line(&mut line)?;
                out.write_all(&line)?;
                table.add(&passage, line.len());
                columns.add(&passage.metadata)?;
            }
            Ok(())
        });
        if let Some(error) = ended {
            return Err(error);
        }
        written?;
        self.write(PASSAGES_TABLE, &mut |out| table.write(out))?;
        drop(table);
        if !columns.is_empty() {
            self.write(METADATA, &mut |out| columns.write(out))?;
        }
        columns.finish().map_err(BuildError::write(self.out))
    }

    fn write_sparse(
        &mut self,
        passages: &dyn PassageStream,
        options: SparseOptions,
        progress: &dyn Progress,
    ) -> Result<SparseManifest, BuildError> {
        self.go_on()?;
        let dir = self.staged.path().join(SPARSE);
        fs::create_dir(&dir).map_err(BuildError::write(self.out))?;
        write_sparse(&dir, passages, options, self.stop, progress).map_err(|error| match error {
            SparseError::Interrupted => BuildError::Interrupted,
            SparseError::File(FileError::Write(source)) => {
                BuildError::Write { path: self.out.to_path_buf(), source }
            }
            SparseError::File(error) => error.into(),
            other => BuildError::Sparse(other),
        })?;
        for entry in fs::read_dir(&dir).map_err(BuildError::write(self.out))? {
            let entry = entry.map_err(BuildError::write(self.out))?;
            let name = format!("{SPARSE}/{}", entry.file_name().to_string_lossy());
            let (file, crc32) =
                digest::of_file_with_crc32(&entry.path()).map_err(BuildError::write(self.out))?;
            self.files.insert(name.clone(), file);
            self.crc32.insert(name, crc32);
        }
        Ok(SparseManifest { analyzer: options.analyzer })
    }

    fn finish(self, manifest: IndexManifest) -> Result<Draft, BuildError> {
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
fn end(ended: &mut Option<BuildError>, reason: BuildError) -> io::Error {
    *ended = Some(reason);
    io::ErrorKind::Other.into()
}

fn check(passages: &[Passage]) -> Result<(), BuildError> {
    if passages.is_empty() {
        return Err(MatrixError::Empty.into());
    }
    passages.iter().try_for_each(limits::check)?;
    if u32::try_from(passages.len()).is_err() {
        let (value, max) = (passages.len(), u32::MAX as usize);
        return Err(BuildError::Parameter { name: "the number of passages", value, min: 1, max });
    }
    check_ids(passages)
}

fn check_ids(passages: &[Passage]) -> Result<(), BuildError> {
    let mut rows = HashMap::with_capacity(passages.len());
    for (second, passage) in passages.iter().enumerate() {
        if let Some(first) = rows.insert(passage.id.as_str(), second) {
            return Err(BuildError::DuplicateId { id: passage.id.clone(), first, second });
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoadedIndex;
    use crate::vectors::{Shard, VectorsSpec, VectorsWriter};
    use dpr_files::progress::Silent;

    /// Writes 20 vectors of four numbers, `first` and those after it.
    fn encode(dir: &Path, first: f32) -> VectorSet {
        let passage = |at| Passage::new(format!("p{at}"), "", "Text.");
        let passages: Vec<Passage> = (0..20).map(passage).collect();
        let spec = VectorsSpec {
            model_fingerprint: "ab".repeat(32),
            dim: 4,
            corpus_sha256: first.to_string(),
            shard: Shard::WHOLE,
            part_size: 7,
            precision: dpr_core::Precision::F32,
        };
        VectorsWriter::clear(dir).unwrap();
        let writer = VectorsWriter::open(dir, spec, &passages).unwrap();
        for part in writer.missing_parts() {
            let rows: Vec<f32> = (part.start * 4..part.end * 4).map(|at| first + at as f32).collect();
            writer.write_part(&part, &rows).unwrap();
        }
        writer.finish().unwrap();
        VectorSet::read(&[dir.to_path_buf()]).unwrap()
    }

    #[test]
    fn vectors_of_one_directory_are_linked_and_stay_when_it_is_written_anew() {
        let root = tempfile::tempdir().unwrap();
        let [vectors, linked, copied] = ["vectors", "linked", "copied"].map(|name| root.path().join(name));
        let set = encode(&vectors, 1.0);
        let in_memory = VectorSet { rows: set.rows.to_vec().into(), ..set.clone() };
        let options = IndexOptions::default();
        let manifests = [(&set, &linked), (&in_memory, &copied)]
            .map(|(set, out)| build_index(set, out, &options, &Silent).unwrap());
        assert_eq!(manifests[0], manifests[1], "a link is vouched for as a copy is");
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            let names = |out: &Path| fs::metadata(out.join("v-1").join(VECTORS)).unwrap().nlink();
            assert_eq!((names(&linked), names(&copied)), (2, 1));
        }

        let other = encode(&vectors, 5.0);
        assert_eq!((set.rows[0], other.rows[0]), (1.0, 5.0));
        let index = LoadedIndex::open(&linked).unwrap();
        assert_eq!(index.matrix().as_slice(), &set.rows[..]);
    }
}
