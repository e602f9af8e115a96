//! Builds an index of vectors and publishes it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::model::FileEntry;
use fs_err as fs;

use super::store::{GRAPH, MANIFEST, PASSAGES, VECTORS};
use super::{HnswParams, INDEX_FORMAT, IndexDir, IndexError, IndexKind, IndexManifest, Matrix, hnsw};
use crate::data::{Passage, write_passages};
use crate::digest;
use crate::progress::Progress;
use crate::vectors::{VectorSet, rows};

/// What index to build.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// How it will search.
    pub kind: IndexKind,
    /// The graph's parameters; not used for an exact index.
    pub hnsw: HnswParams,
    /// Set from another thread or a signal handler to give up; what was there stays.
    pub stop: Arc<AtomicBool>,
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self { kind: IndexKind::Exact, hnsw: HnswParams::default(), stop: Arc::default() }
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
    if passages.is_empty() {
        return Err(IndexError::Empty);
    }
    if u32::try_from(passages.len()).is_err() {
        let (value, max) = (passages.len(), u32::MAX as usize);
        return Err(IndexError::Parameter { name: "the number of passages", value, min: 1, max });
    }
    check_ids(passages)?;
    let hnsw = (options.kind == IndexKind::Hnsw).then_some(options.hnsw);
    if let Some(params) = hnsw {
        params.check()?;
    }
    let id_of = |row: usize| passages[row].id.as_str();
    let matrix = Arc::new(Matrix::new(vectors.rows.clone(), passages.len(), vectors.dim, id_of)?);

    let publisher = IndexDir::new(out).publisher()?;
    let staged = publisher.stage()?;
    let mut files = BTreeMap::new();
    let mut write = |name: &str, fill: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>| {
        if options.stop.load(Ordering::Relaxed) {
            return Err(IndexError::Interrupted);
        }
        let written = write_new(&staged.path().join(name), fill).map_err(IndexError::write(out))?;
        files.insert(name.to_owned(), written);
        Ok(())
    };
    write(VECTORS, &mut |out| rows::write(matrix.as_slice(), out).map(drop))?;
    write(PASSAGES, &mut |out| write_passages(passages, out).map(drop))?;
    if let Some(params) = hnsw {
        let graph = hnsw::build(&matrix, params, &options.stop, progress)?;
        write(GRAPH, &mut |out| graph.write(out))?;
    }

    let manifest = IndexManifest {
        format_version: INDEX_FORMAT,
        model_fingerprint: vectors.model_fingerprint.clone(),
        dim: vectors.dim,
        metric: IndexManifest::INNER_PRODUCT.to_owned(),
        kind: options.kind,
        count: passages.len(),
        phi: matrix.phi(),
        hnsw,
        created_by: concat!("dpr ", env!("CARGO_PKG_VERSION")).to_owned(),
        files,
    };
    let json =
        serde_json::to_vec_pretty(&manifest).map_err(io::Error::other).map_err(IndexError::write(out))?;
    fs::write(staged.path().join(MANIFEST), &json).map_err(IndexError::write(out))?;
    if options.stop.load(Ordering::Relaxed) {
        return Err(IndexError::Interrupted);
    }
    publisher.publish(staged, &json)?;
    Ok(manifest)
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

fn write_new(
    path: &Path,
    fill: &mut dyn FnMut(&mut dyn io::Write) -> io::Result<()>,
) -> io::Result<FileEntry> {
    use io::Write as _;
    let mut file = io::BufWriter::with_capacity(1 << 20, fs::File::create_new(path)?);
    let mut out = digest::Writer::new(&mut file);
    fill(&mut out)?;
    let entry = out.finish();
    file.flush()?;
    Ok(entry)
}
