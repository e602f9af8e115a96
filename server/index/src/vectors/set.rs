//! Passages with their vectors: in memory, or read from finished vectors directories, the shards of a corpus.

use std::io;
use std::path::{Path, PathBuf};

use dpr_core::model::FileEntry;

use super::manifest::FORMAT_VERSION;
use super::{Rows, VectorsError, VectorsManifest, VectorsSpec, rows};
use dpr_data::{Passage, parse_passages};
use dpr_files::{Error as FileError, plain};

pub(super) const MANIFEST: &str = "manifest.json";
/// Name of the file that is there while parts are missing.
pub(super) const SPEC: &str = "spec.json";
/// Name of the file of a vectors directory that holds the passages.
pub const PASSAGES: &str = "passages.jsonl";
pub(super) const VECTORS: &str = "vectors.f32";

/// Passages and their vectors. A clone shares the vectors.
///
/// ```
/// use dpr_data::Passage;
/// use dpr_index::vectors::VectorSet;
/// let passage = |id: &str| Passage::new(id, "", "Some text.");
/// let passages = vec![passage("a"), passage("b")];
/// let set = VectorSet::new("fingerprint of the model", 2, passages, vec![1.0, 0.0, 0.0, 1.0]);
/// assert_eq!(set.rows[..set.dim], [1.0, 0.0]);
/// ```
#[derive(Clone, Debug)]
pub struct VectorSet {
    /// Fingerprint of the model that encoded them.
    pub model_fingerprint: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// The passages, `[count]`.
    pub passages: Vec<Passage>,
    /// Their vectors in the same order, `[count, dim]`.
    pub rows: Rows,
}

impl VectorSet {
    /// Takes passages and their vectors, one after the other in the order of the passages. They are checked by whoever
    /// uses them, as [`build_index`](crate::build_index) does.
    pub fn new(
        model_fingerprint: impl Into<String>,
        dim: usize,
        passages: Vec<Passage>,
        rows: impl Into<Rows>,
    ) -> Self {
        Self { model_fingerprint: model_fingerprint.into(), dim, passages, rows: rows.into() }
    }

    /// Reads the directories of all shards of one encoding, given in any order, and joins them in the corpus's. The
    /// vectors of a single directory are mapped, those of several are in memory.
    ///
    /// # Errors
    /// [`VectorsError`] when a directory is unfinished or damaged (every file's digest is checked), a shard is
    /// missing or given twice, or the directories are of different encodings.
    pub fn read(dirs: &[PathBuf]) -> Result<Self, VectorsError> {
        Self::read_some(dirs, true)
    }

    /// As [`VectorSet::read`], where some shards may be missing: other machines have them.
    ///
    /// # Errors
    /// As [`VectorSet::read`], but for a missing shard.
    pub fn read_shards(dirs: &[PathBuf]) -> Result<Self, VectorsError> {
        Self::read_some(dirs, false)
    }

    fn read_some(dirs: &[PathBuf], all: bool) -> Result<Self, VectorsError> {
        let mut shards = Vec::with_capacity(dirs.len());
        for dir in dirs {
            match read_manifest(dir)? {
                Some(manifest) => shards.push((dir, manifest)),
                None => return Err(without_manifest(dir)),
            }
        }
        shards.sort_by_key(|(_, manifest)| manifest.spec.shard);
        check_shards(&shards, all)?;

        let Some((_, VectorsManifest { spec, .. })) = shards.first() else { return Err(VectorsError::None) };
        let rows = match shards.as_slice() {
            [(dir, manifest)] => map_rows(dir, manifest)?,
            _ => join_rows(&shards)?,
        };
        let mut passages = Vec::new();
        for (dir, manifest) in &shards {
            passages.extend(read_passages(dir, manifest)?);
        }
        Ok(Self::new(spec.model_fingerprint.clone(), spec.dim, passages, rows))
    }
}

/// Returns the error of a path without a manifest: an unfinished encoding, a path of something else, or a missing one.
fn without_manifest(dir: &Path) -> VectorsError {
    let path = dir.to_path_buf();
    match (dir.join(SPEC).is_file(), dir.exists()) {
        (true, _) => VectorsError::Unfinished { path },
        (false, true) => VectorsError::NotVectors { path },
        (false, false) => VectorsError::Missing { path },
    }
}

fn map_rows(dir: &Path, manifest: &VectorsManifest) -> Result<Rows, VectorsError> {
    let path = dir.join(VECTORS);
    let (rows, entry) = Rows::open(&path).map_err(FileError::read(&path))?;
    check_rows(&path, manifest, &entry, rows.len())?;
    Ok(rows)
}

fn join_rows(shards: &[(&PathBuf, VectorsManifest)]) -> Result<Rows, VectorsError> {
    let mut joined = Vec::new();
    for (dir, manifest) in shards {
        let (path, before) = (dir.join(VECTORS), joined.len());
        let entry = rows::read(&path, &mut joined).map_err(FileError::read(&path))?;
        check_rows(&path, manifest, &entry, joined.len() - before)?;
    }
    Ok(joined.into())
}

/// Refuses rows that are not those of the manifest.
fn check_rows(
    path: &Path,
    manifest: &VectorsManifest,
    entry: &FileEntry,
    got: usize,
) -> Result<(), VectorsError> {
    if manifest.files.get(VECTORS) != Some(entry) {
        return Err(FileError::corrupt(path, "its size or sha256 is not the manifest's").into());
    }
    let expected = manifest.count.saturating_mul(manifest.spec.dim);
    if expected != got || entry.bytes != got as u64 * 4 {
        return Err(FileError::corrupt(path, format!("{got} numbers, not {expected}")).into());
    }
    Ok(())
}

fn read_passages(dir: &Path, manifest: &VectorsManifest) -> Result<Vec<Passage>, VectorsError> {
    let path = dir.join(PASSAGES);
    let entry = manifest.files.get(PASSAGES);
    let bytes = plain::read(&path, entry.map_or(0, |entry| entry.bytes)).map_err(FileError::read(&path))?;
    let sha256 = dpr_core::model::sha256_hex(&bytes);
    if entry.is_none_or(|entry| entry.sha256 != sha256) {
        return Err(FileError::corrupt(&path, "its sha256 is not the manifest's").into());
    }
    Ok(parse_passages(&bytes, manifest.count).map_err(|e| FileError::corrupt(&path, e))?)
}

/// Each shard of one encoding once, or at most once where they need not be `all`.
fn check_shards(shards: &[(&PathBuf, VectorsManifest)], all: bool) -> Result<(), VectorsError> {
    let Some((first_dir, first)) = shards.first() else { return Err(VectorsError::None) };
    for (dir, manifest) in shards {
        // Shards may be encoded in parts of different sizes and in different precisions, whose vectors are compared
        // with each other; of the shard only the number of shards must agree.
        let VectorsSpec { shard, part_size, precision, .. } = first.spec;
        let same = VectorsSpec { shard, part_size, precision, ..manifest.spec.clone() };
        if let Some((field, first_value, second_value)) = first.spec.difference(&same) {
            let (first, second) = ((*first_dir).clone(), (*dir).clone());
            return Err(VectorsError::Mixed { first, second, field, first_value, second_value });
        }
        let [ours, theirs] = [first, manifest].map(|manifest| manifest.spec.shard.count());
        if ours != theirs {
            return Err(VectorsError::Mixed {
                first: (*first_dir).clone(),
                second: (*dir).clone(),
                field: "number of shards",
                first_value: ours.to_string(),
                second_value: theirs.to_string(),
            });
        }
    }
    let of = first.spec.shard.count();
    for index in 0..of {
        let what = match shards.iter().filter(|(_, manifest)| manifest.spec.shard.index() == index).count() {
            1 => continue,
            0 if all => "missing",
            0 => continue,
            _ => "given twice",
        };
        return Err(VectorsError::Shard { index, of, what });
    }
    Ok(())
}

/// The manifest of a finished directory; `None` when there is none.
pub(super) fn read_manifest(dir: &Path) -> Result<Option<VectorsManifest>, VectorsError> {
    #[derive(serde::Deserialize)]
    struct Version {
        format_version: u32,
    }
    let path = dir.join(MANIFEST);
    let bytes = match plain::read(&path, plain::DESCRIPTION) {
        Ok(bytes) => bytes,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(FileError::read(&path)(error).into()),
    };
    let parsed = serde_json::from_slice(&bytes);
    let Version { format_version } = parsed.map_err(|e| FileError::corrupt(&path, e.to_string()))?;
    if format_version > FORMAT_VERSION {
        return Err(FileError::NewerFormat { path, found: format_version, supported: FORMAT_VERSION }.into());
    }
    let manifest: VectorsManifest =
        serde_json::from_slice(&bytes).map_err(|e| FileError::corrupt(&path, e.to_string()))?;
    manifest.spec.check().map_err(|e| FileError::corrupt(&path, e.to_string()))?;
    Ok(Some(manifest))
}
