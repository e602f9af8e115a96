//! Reads finished vectors directories, one or all shards of a corpus.

use std::io;
use std::path::{Path, PathBuf};

use fs_err as fs;

use super::manifest::FORMAT_VERSION;
use super::{VectorsError, VectorsManifest, VectorsSpec, rows};
use dpr_data::{Passage, parse_passages};

pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const PASSAGES: &str = "passages.jsonl";
pub(super) const VECTORS: &str = "vectors.f32";

/// The vectors of a corpus, in memory.
#[derive(Clone, Debug)]
pub struct VectorSet {
    /// Fingerprint of the model that encoded them.
    pub model_fingerprint: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// The passages, `[count]`.
    pub passages: Vec<Passage>,
    /// Their vectors in the same order, `[count, dim]`.
    pub rows: Vec<f32>,
}

impl VectorSet {
    /// Reads the directories of all shards of one encoding, given in any order, and joins them in the corpus's.
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
                None => return Err(VectorsError::Unfinished { path: dir.clone() }),
            }
        }
        shards.sort_by_key(|(_, manifest)| manifest.spec.shard);
        check_shards(&shards, all)?;

        let Some((_, VectorsManifest { spec, .. })) = shards.first() else { return Err(VectorsError::None) };
        let mut set = Self {
            model_fingerprint: spec.model_fingerprint.clone(),
            dim: spec.dim,
            passages: Vec::new(),
            rows: Vec::new(),
        };
        for (dir, manifest) in &shards {
            set.append(dir, manifest)?;
        }
        Ok(set)
    }

    fn append(&mut self, dir: &Path, manifest: &VectorsManifest) -> Result<(), VectorsError> {
        let path = dir.join(VECTORS);
        let before = self.rows.len();
        let entry = rows::read(&path, &mut self.rows).map_err(VectorsError::read(&path))?;
        if manifest.files.get(VECTORS) != Some(&entry) {
            return Err(VectorsError::corrupt(&path, "its size or sha256 is not the manifest's"));
        }
        let (expected, got) = (manifest.count.saturating_mul(self.dim), self.rows.len() - before);
        if expected != got || entry.bytes != got as u64 * 4 {
            return Err(VectorsError::corrupt(&path, format!("{got} numbers, not {expected}")));
        }

        let path = dir.join(PASSAGES);
        let bytes = fs::read(&path).map_err(VectorsError::read(&path))?;
        let sha256 = dpr_core::model::sha256_hex(&bytes);
        if manifest.files.get(PASSAGES).is_none_or(|entry| entry.sha256 != sha256) {
            return Err(VectorsError::corrupt(&path, "its sha256 is not the manifest's"));
        }
        let passages = parse_passages(&bytes, manifest.count).map_err(|e| VectorsError::corrupt(&path, e))?;
        self.passages.extend(passages);
        Ok(())
    }
}

/// Each shard of one encoding once, or at most once where they need not be `all`.
fn check_shards(shards: &[(&PathBuf, VectorsManifest)], all: bool) -> Result<(), VectorsError> {
    let Some((first_dir, first)) = shards.first() else { return Err(VectorsError::None) };
    for (dir, manifest) in shards {
        // Shards may be encoded in parts of different sizes; of the shard only the number of shards must agree.
        let same = VectorsSpec {
            shard: (first.spec.shard.0, manifest.spec.shard.1),
            part_size: first.spec.part_size,
            ..manifest.spec.clone()
        };
        if let Some((field, first_value, second_value)) = first.spec.difference(&same) {
            let (first, second) = ((*first_dir).clone(), (*dir).clone());
            return Err(VectorsError::Mixed { first, second, field, first_value, second_value });
        }
    }
    let of = first.spec.shard.1;
    for index in 0..of {
        let what = match shards.iter().filter(|(_, manifest)| manifest.spec.shard.0 == index).count() {
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
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(VectorsError::Read { path, source }),
    };
    let parsed = serde_json::from_slice(&bytes);
    let Version { format_version } = parsed.map_err(|e| VectorsError::corrupt(&path, e.to_string()))?;
    if format_version > FORMAT_VERSION {
        return Err(VectorsError::NewerFormat { path, found: format_version, supported: FORMAT_VERSION });
    }
    let manifest: VectorsManifest =
        serde_json::from_slice(&bytes).map_err(|e| VectorsError::corrupt(&path, e.to_string()))?;
    manifest.spec.check().map_err(|e| VectorsError::corrupt(&path, e.to_string()))?;
    Ok(Some(manifest))
}
