//! Manifest of the browser's copies of the question encoder, and of what reads pairs beside it: `web/web.json`.

use std::collections::BTreeMap;
use std::path::Path;

use dpr_core::model::{FileEntry, sha256_hex};
use serde::{Deserialize, Serialize};

use super::{ModelError, WEB_DIR, WEB_MANIFEST, manifest};
use dpr_files::plain;

/// Bytes of the parts that weights are checked by: 23 checksums for MiniLM in 8 bits.
const CHUNK: usize = 1 << 20;

/// The newest format of the manifest that this version reads. It writes 2 where the browser's encoder has a
/// configuration and a tokenizer of its own, else 1.
pub const WEB_FORMAT: u32 = 2;

/// The manifest of the files that `dpr export-web` wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebManifest {
    /// Version of this format.
    pub format_version: u32,
    /// Fingerprint of the model the weights were exported from.
    pub fingerprint: String,
    /// The weights by number format (`f32`, `f16`, `q8`, `q4`), by path relative to the model directory.
    pub weights: BTreeMap<String, WebFile>,
    /// The browser's own configuration and tokenizer, where they are not the question encoder's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoder: Option<WebEncoder>,
    /// The binary form of the tokenizer that a page has, for one that the form holds exactly; see
    /// [`TextTokenizer::compact`](dpr_core::TextTokenizer::compact). Versions that do not know it pass over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<WebFile>,
    /// A reader, which marks answers in the page. Versions that do not know it pass over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<WebPair>,
    /// A cross-encoder, which re-ranks in the page. Versions that do not know it pass over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reranker: Option<WebPair>,
}

impl WebManifest {
    /// Returns all files that the manifest names.
    fn files(&self) -> impl Iterator<Item = &WebFile> {
        let encoder = self.encoder.iter().flat_map(|encoder| [&encoder.config, &encoder.tokenizer]);
        let pairs = self.reader.iter().chain(&self.reranker).flat_map(|pair| {
            let weights = pair.weights.values().map(|weights| &weights.file);
            [&pair.config, &pair.tokenizer].into_iter().chain(weights)
        });
        self.weights.values().chain(encoder).chain(&self.vocabulary).chain(pairs)
    }
}

/// A cross-encoder or a reader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebPair {
    /// A name for people.
    pub name: String,
    /// Identity of the scores; see [`PairManifest`](dpr_core::PairManifest).
    pub fingerprint: String,
    /// Tokens a pair is truncated to.
    pub max_tokens: usize,
    /// `config.json`.
    pub config: WebFile,
    /// `tokenizer.json`.
    pub tokenizer: WebFile,
    /// The weights by number format, as the question encoder's.
    pub weights: BTreeMap<String, WebPairWeights>,
}

/// One file of weights, and the tensors that it leaves out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebPairWeights {
    /// The file.
    #[serde(flatten)]
    pub file: WebFile,
    /// Tensors that are taken from the question encoder's weights of the same format, by their names there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<String>,
}

/// The small files of an encoder with fewer tokens or narrower vectors than the model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebEncoder {
    /// `config.json`.
    pub config: WebFile,
    /// `tokenizer.json`.
    pub tokenizer: WebFile,
    /// Tokens that are kept: rows of the word embedding.
    pub tokens: usize,
}

/// One file of weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebFile {
    /// Path relative to the model directory.
    pub path: String,
    /// Its size and checksum.
    #[serde(flatten)]
    pub entry: FileEntry,
    /// Size and checksum of the same content compressed by gzip, in the file of this name with `.gz` behind it; for the
    /// vocabulary and for weights that it makes smaller by a twentieth at least. Older versions ignore it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gzip: Option<FileEntry>,
    /// Checksums of the parts of the file, by which a page uses weights while they arrive. Versions that do not know
    /// them pass over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<WebChunks>,
    /// Number of the questions that layers in 4 bits were rounded for, where they were calibrated. Versions that do not
    /// know it pass over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<usize>,
}

/// The parts of a file, one behind the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebChunks {
    /// Size of each part in bytes; the last one may be shorter.
    pub bytes: usize,
    /// SHA-256 of each part, 64 lower-case hexadecimal digits.
    pub sha256: Vec<String>,
}

impl WebChunks {
    /// Returns the checksums of the parts of this content.
    pub(super) fn of(content: &[u8]) -> Self {
        Self { bytes: CHUNK, sha256: content.chunks(CHUNK).map(sha256_hex).collect() }
    }
}

impl WebFile {
    /// Returns a file that is neither compressed nor in parts.
    pub fn new(path: String, entry: FileEntry) -> Self {
        Self { path, entry, gzip: None, chunks: None, calibrated: None }
    }

    /// Returns the path of the compressed file relative to the model directory, where there is one.
    pub fn gzip_path(&self) -> Option<String> {
        self.gzip.is_some().then(|| format!("{}.gz", self.path))
    }

    /// Returns the path and the entry of the file, and those of the compressed one.
    fn on_disk(&self) -> impl Iterator<Item = (String, &FileEntry)> {
        [(self.path.clone(), &self.entry)].into_iter().chain(self.gzip_path().zip(self.gzip.as_ref()))
    }
}

/// Reads the manifest of a model with one of these fingerprints, and checks the files.
pub(super) fn read(model: &Path, fingerprints: &[&str]) -> Result<Option<WebManifest>, ModelError> {
    let path = model.join(WEB_DIR).join(WEB_MANIFEST);
    if !path.exists() {
        return Ok(None);
    }
    let bad = |e: serde_json::Error| ModelError::Manifest { path: path.clone(), reason: e.to_string() };
    let value: serde_json::Value =
        serde_json::from_slice(&plain::read(&path, plain::DESCRIPTION)?).map_err(bad)?;
    let got = value.get("format_version").and_then(serde_json::Value::as_u64).unwrap_or(0) as u32;
    if got > WEB_FORMAT {
        return Err(ModelError::Newer { path, got, supported: WEB_FORMAT });
    }
    let web: WebManifest = serde_json::from_value(value).map_err(bad)?;
    if !fingerprints.contains(&web.fingerprint.as_str()) {
        return Err(ModelError::StaleExport(path));
    }
    manifest::check_files(model, &path, web.files().flat_map(WebFile::on_disk))?;
    Ok(Some(web))
}
