//! Builds of an index: the files of a new version, written whole and published.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::model::FileEntry;
use fs_err as fs;

use super::columns::ColumnsWriter;
use super::manifest::FORMAT_WITHOUT_METADATA;
use super::passage_stream::PassageStream;
use super::passages::TableWriter;
use super::pointer::{GRAPH, MANIFEST, METADATA, PASSAGES, PASSAGES_TABLE, Publisher, SPARSE, VECTORS};
use super::version::newest;
use crate::quantized::AnyQuantized;
use crate::sparse::{STEP, SparseError, SparseOptions, SparseWriter, write_sparse};
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
    build_sparse_index_of(passages.iter().map(Ok::<_, BuildError>), out, sparse, stop, progress)
}

/// Builds an index without vectors as [`build_sparse_index`] does, of passages that come one at a time, so that it
/// takes the memory of their ids and not of their texts. Ends at the first error, and nothing is published then.
///
/// # Errors
/// As [`build_sparse_index`], and what `passages` gives.
pub fn build_sparse_index_of<P: Borrow<Passage>, E: From<BuildError>>(
    passages: impl Iterator<Item = Result<P, E>>,
    out: &Path,
    sparse: SparseOptions,
    stop: &Arc<AtomicBool>,
    progress: &dyn Progress,
) -> Result<IndexManifest, E> {
    let options = IndexOptions { kind: IndexKind::Sparse, stop: Arc::clone(stop), ..IndexOptions::default() };
    let publisher = IndexDir::new(out).publisher().map_err(BuildError::from)?;
    let mut draft = Writing::new(publisher, out, &options)?;
    let dir = draft.make_sparse_dir()?;
    let mut words = SparseWriter::new(&dir, sparse).map_err(|error| of_sparse(error, out))?;
    progress.start("indexing terms", "passages", passages.size_hint().0 as u64);
    let checked = passages.map(|passage| {
        let passage = passage?;
        limits::check(passage.borrow()).map_err(BuildError::from)?;
        Ok::<P, E>(passage)
    });
    let mut told = 0;
    let count = draft.write_passages(checked, &mut |passage| {
        words.add(passage)?;
        if words.rows().is_multiple_of(STEP as u64) {
            progress.advance(STEP as u64);
            told += STEP as u64;
        }
        Ok(())
    })?;
    progress.advance(count as u64 - told);
    let written = words.finish().map_err(|error| of_sparse(error, out));
    progress.finish();
    written?;
    let sparse = Some(draft.add_sparse_files(&dir, sparse)?);
    let draft = draft.finish(IndexManifest {
        format_version: INDEX_FORMAT,
        model_fingerprint: String::new(),
        dim: 0,
        metric: IndexManifest::INNER_PRODUCT.to_owned(),
        kind: IndexKind::Sparse,
        storage: Storage::F32,
        count,
        max_squared_norm: 0.0,
        sparse,
        hnsw: None,
        created_by: CREATED_BY.to_owned(),
        files: BTreeMap::new(),
        crc32: BTreeMap::new(),
    })?;
    Ok(draft.publish(out)?)
}

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
        let all = passages.passages().map(|passage| passage.map_err(BuildError::from));
        self.write_passages(all, &mut |_| Ok(()))?;
        let storage = if hnsw.is_some() { Storage::Int8 } else { options.storage };
        let codes = self.write_codes(matrix, storage)?;
        if let (Some(params), Some(AnyQuantized::Int8(codes))) = (hnsw, &codes) {
            let graph = match options.builder {
                GraphBuilder::Parallel => hnsw::build(matrix, codes, params, &options.stop, progress)?,
                GraphBuilder::HnswRs => hnsw::build_with_library(matrix, params, &options.stop, progress)?,
            };
            self.write(GRAPH, &mut |out| graph.write(out))?;
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

    /// Writes the files of the passages, hands each to `add`, and returns their number.
    fn write_passages<P: Borrow<Passage>, E: From<BuildError>>(
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

    fn make_sparse_dir(&self) -> Result<PathBuf, BuildError> {
        self.go_on()?;
        let dir = self.staged.path().join(SPARSE);
        fs::create_dir(&dir).map_err(BuildError::write(self.out))?;
        Ok(dir)
    }

    /// Adds the files of the inverted index to those of the version.
    fn add_sparse_files(&mut self, dir: &Path, options: SparseOptions) -> Result<SparseManifest, BuildError> {
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
fn end<E>(ended: &mut Option<E>, reason: E) -> io::Error {
    *ended = Some(reason);
    io::ErrorKind::Other.into()
}

fn check(passages: &[Passage]) -> Result<(), BuildError> {
    check_count(passages.len())?;
    passages.iter().try_for_each(limits::check)?;
    check_ids(passages)
}

fn check_count(count: usize) -> Result<(), BuildError> {
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
fn of_sparse(error: SparseError, out: &Path) -> BuildError {
    match error {
        SparseError::Interrupted => BuildError::Interrupted,
        SparseError::File(FileError::Write(source)) => BuildError::Write { path: out.to_path_buf(), source },
        SparseError::File(error) => error.into(),
        other => BuildError::Sparse(other),
    }
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

    #[cfg(feature = "sparse")]
    #[test]
    fn passages_that_come_one_at_a_time_make_the_same_index_and_an_error_among_them_makes_none() {
        use crate::LoadedSparse;
        use crate::sparse::{Analyzer, Scoring};
        let dir = tempfile::tempdir().unwrap();
        let sparse = SparseOptions { analyzer: Analyzer::English, threads: 1 };
        let passage =
            |row: usize| Passage::new(format!("p{row}"), "A title", format!("word{} of many", row % 7));
        let passages: Vec<Passage> = (0..3000).map(passage).collect();
        let (at_once, streamed) = (dir.path().join("a"), dir.path().join("b"));
        build_sparse_index(&passages, &at_once, sparse, &Arc::default(), &Silent).unwrap();
        let stream = |passages: Vec<Result<Passage, BuildError>>, out: &Path| {
            build_sparse_index_of(passages.into_iter(), out, sparse, &Arc::default(), &Silent)
        };
        let manifest = stream(passages.iter().cloned().map(Ok).collect(), &streamed).unwrap();
        assert_eq!(manifest.count, 3000);
        for name in [PASSAGES, PASSAGES_TABLE] {
            let of = |out: &Path| fs::read(out.join("v-1").join(name)).unwrap();
            assert_eq!(of(&at_once), of(&streamed), "{name}");
        }
        let find =
            |out: &Path| LoadedSparse::open(out).unwrap().index.search("word3", 50, Scoring::PAPER).unwrap();
        assert_eq!(find(&at_once), find(&streamed));

        let nothing = dir.path().join("c");
        let mut twice: Vec<Result<Passage, BuildError>> = passages.iter().take(9).cloned().map(Ok).collect();
        twice.insert(7, Ok(passage(4)));
        let error = stream(twice, &nothing).unwrap_err();
        assert!(
            matches!(&error, BuildError::DuplicateId { id, first: 4, second: 7 } if id == "p4"),
            "{error}"
        );
        let error = stream(vec![Ok(passage(1)), Err(BuildError::Interrupted)], &nothing).unwrap_err();
        assert!(matches!(error, BuildError::Interrupted), "{error}");
        let error = stream(Vec::new(), &nothing).unwrap_err();
        assert!(matches!(error, BuildError::Matrix(MatrixError::Empty)), "{error}");
        assert!(LoadedSparse::open(&nothing).is_err());
    }
}
