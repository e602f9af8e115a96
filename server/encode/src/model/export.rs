//! Export of the question encoder's weights in the number formats that a browser downloads, as `dpr export-web` does.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use dpr_core::model::{FileEntry, sha256_hex};
use dpr_core::names::OuterNames;
use dpr_core::{EncoderConfig, TensorMap, TextTokenizer, names};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::calibration::Calibration;
use super::export_pair::{OtherFiles, export_pair};
use super::vocabulary::Pruned;
use super::web::{WEB_FORMAT, WebChunks, WebEncoder, WebFile};
use super::web_tensors::{Formats, serialize};
use super::{
    CrossEncoderDir, ModelDir, ModelError, QUESTION_DIR, ReaderDir, Vocabulary, WEB_DIR, WEB_MANIFEST,
    WebFormat, WebManifest,
};
use dpr_files::atomic::StagedDir;
use dpr_files::progress::{Progress, Silent};

/// The result of an export.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ExportReport {
    /// The manifest as written.
    pub manifest: WebManifest,
}

/// Models of pairs that a page loads beside the question encoder.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebPairs<'a> {
    /// Marks answers.
    pub reader: Option<&'a ReaderDir>,
    /// Re-ranks passages.
    pub reranker: Option<&'a CrossEncoderDir>,
}

/// Settings of an export.
#[derive(Clone, Copy)]
pub struct WebOptions<'a> {
    /// The tokens that are kept, where it is not all of them.
    pub vocabulary: Option<&'a Vocabulary>,
    /// Models of pairs.
    pub pairs: WebPairs<'a>,
    /// The formats of the weights, besides single precision.
    pub formats: &'a [WebFormat],
    /// Questions of the kind that will be asked, of which 4,096 are read at most. Where there are any, layers of the
    /// question encoder in 4 bits are rounded for small errors of what they compute for these (GPTQ), instead of the
    /// least error of each weight. Other formats, and models of pairs, do not depend on them.
    pub calibration: &'a [String],
    /// Told how far the calibration is.
    pub progress: &'a dyn Progress,
}

impl Default for WebOptions<'_> {
    fn default() -> Self {
        let (vocabulary, pairs, calibration) = (None, WebPairs::default(), &[]);
        Self { vocabulary, pairs, formats: &WebFormat::DEFAULT, calibration, progress: &Silent }
    }
}

/// Writes `web/`: `q8` (matrices in 8 bits with a scale a row, 23 MB for MiniLM), `f16` (matrices in half
/// precision) and `f32` (the question encoder's own file). Beside them is the binary form of a tokenizer of BERT's kind.
///
/// With a `vocabulary`, all three have its tokens only, and `web/` has a `config.json` and a `tokenizer.json` of its
/// own for them; so it has for a model [with narrower vectors](ModelDir::at_dim).
///
/// # Errors
/// [`ModelError`] when the model cannot be read or `web/` not be written; an older export stays then.
pub fn export_web(model: &ModelDir, vocabulary: Option<&Vocabulary>) -> Result<ExportReport, ModelError> {
    export_web_with(model, &WebOptions { vocabulary, ..WebOptions::default() })
}

/// Writes `web/` as [`export_web`] does, in the formats that `options` name and `f32`, with models of pairs beside the
/// question encoder. Their files leave out the tensors that the question encoder's file of the same format has byte for
/// byte: the embeddings of a model that was trained with frozen ones.
///
/// # Errors
/// [`ModelError`] as from [`export_web`].
pub fn export_web_with(model: &ModelDir, options: &WebOptions<'_>) -> Result<ExportReport, ModelError> {
    let WebOptions { vocabulary, pairs, formats, calibration, progress } = *options;
    let dir = model.path().join(QUESTION_DIR);
    let config_bytes = model.config(QUESTION_DIR)?;
    let config = EncoderConfig::from_json(&config_bytes).map_err(ModelError::in_dir(&dir))?;
    let bytes = fs_err::read(dir.join("model.safetensors"))?;
    let pruned = vocabulary.map(|vocabulary| vocabulary.prune(&config_bytes)).transpose()?;
    let is_calibrated = formats.contains(&WebFormat::Q4) && !calibration.is_empty();
    let calibration = is_calibrated.then(|| Calibration::of(model, &config, &bytes, calibration, progress));
    let calibration = calibration.transpose()?;
    let formats_of = Formats::new(formats, calibration.as_ref());
    if let Some(calibration) = &calibration {
        progress.start("rounding", "matrices", calibration.matrices() as u64);
    }
    let tensors = question_encoder(&dir, &config, &bytes, pruned.as_ref(), formats_of, progress)?;
    if calibration.is_some() {
        progress.finish();
    }
    let staging = StagedDir::beside(&model.path().join(WEB_DIR))?;
    let write = |file: &str, content: &[u8]| {
        fs_err::write(staging.path().join(file), content)?;
        let mut written = WebFile::new(format!("{WEB_DIR}/{file}"), entry_of(content));
        if let Some(small) = compressed(file, content)? {
            fs_err::write(staging.path().join(format!("{file}.gz")), &small)?;
            written.gzip = Some(entry_of(&small));
        }
        Ok::<_, ModelError>(written)
    };
    let (mut weights, mut contents) = (BTreeMap::new(), BTreeMap::new());
    for (dtype, tensors) in tensors.by_name() {
        let content = serialize(&tensors)?;
        let mut file = write(&format!("question_encoder.{dtype}.safetensors"), &content)?;
        if dtype != "f32" {
            file.chunks = Some(WebChunks::of(&content));
        }
        if dtype == WebFormat::Q4.name() {
            file.calibrated = calibration.as_ref().map(Calibration::questions);
        }
        weights.insert(dtype.to_owned(), file);
        contents.insert(dtype, content);
    }
    let encoder = |config: &[u8], tokenizer: &[u8], tokens: usize| {
        let (config, tokenizer) = (write("config.json", config)?, write("tokenizer.json", tokenizer)?);
        Ok::<_, ModelError>(WebEncoder { config, tokenizer, tokens })
    };
    let own_tokenizer = fs_err::read(dir.join("tokenizer.json"))?;
    let (encoder, tokenizer) = match &pruned {
        Some(Pruned { config, tokenizer, rows }) => {
            (Some(encoder(config, tokenizer, rows.len())?), tokenizer.as_slice())
        }
        None if model.configs.contains_key(QUESTION_DIR) => {
            (Some(encoder(&config_bytes, &own_tokenizer, config.vocab_size)?), own_tokenizer.as_slice())
        }
        None => (None, own_tokenizer.as_slice()),
    };
    let vocabulary = TextTokenizer::compact(tokenizer).map_err(ModelError::in_dir(&dir))?;
    let vocabulary = vocabulary.map(|content| write("vocabulary.bin", &content)).transpose()?;
    if pruned.is_none() {
        let path = format!("{QUESTION_DIR}/model.safetensors");
        let entry = model.manifest().files.get(&path).cloned().unwrap_or_else(|| entry_of(&bytes));
        weights.insert("f32".to_owned(), WebFile::new(path, entry));
        contents.insert("f32", bytes);
    }
    let files = OtherFiles { question: &contents, write: &write, formats };
    let manifest = WebManifest {
        format_version: if encoder.is_some() { WEB_FORMAT } else { 1 },
        fingerprint: model.manifest().fingerprint.clone(),
        weights,
        encoder,
        vocabulary,
        reader: pairs.reader.map(|reader| export_pair(&reader.0, &files)).transpose()?,
        reranker: pairs.reranker.map(|reranker| export_pair(&reranker.0, &files)).transpose()?,
    };
    let text = serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::other)?;
    fs_err::write(staging.path().join(WEB_MANIFEST), text)?;
    staging.replace()?;
    Ok(ExportReport { manifest })
}

fn entry_of(content: &[u8]) -> FileEntry {
    FileEntry { bytes: content.len() as u64, sha256: sha256_hex(content) }
}

/// Returns the content of a vocabulary or of 8- or 4-bit weights compressed by gzip, where that saves a twentieth: codes
/// repeat, the bits of floating-point numbers hardly do.
fn compressed(file: &str, content: &[u8]) -> std::io::Result<Option<Vec<u8>>> {
    if ![".q8.safetensors", ".q4.safetensors", "vocabulary.bin"].iter().any(|end| file.ends_with(end)) {
        return Ok(None);
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(content.len()), Compression::new(6));
    encoder.write_all(content)?;
    let small = encoder.finish()?;
    Ok((small.len() <= content.len() / 20 * 19).then_some(small))
}

/// Returns `formats` with the question encoder's tensors; in single precision only where that is not the encoder's own
/// file.
fn question_encoder<'a>(
    dir: &Path,
    config: &EncoderConfig,
    bytes: &[u8],
    pruned: Option<&Pruned>,
    mut formats: Formats<'a>,
    progress: &dyn Progress,
) -> Result<Formats<'a>, ModelError> {
    let mut map =
        TensorMap::from_safetensors([("model.safetensors", bytes)]).map_err(ModelError::in_dir(dir))?;
    let words = format!("{}.weight", OuterNames::new(config.family).words);
    for (name, mut shape) in names::tensors(config) {
        let mut values = map.take_f32(&name, &shape).map_err(ModelError::in_dir(dir))?;
        if let Some(pruned) = pruned.filter(|_| name == words) {
            values = rows(&values, shape[1], &pruned.rows);
            shape[0] = pruned.rows.len();
        }
        if pruned.is_some() {
            formats.push_f32(name.clone(), shape.clone(), &values);
        }
        progress.advance(u64::from(formats.calibrates(&name)));
        formats.push_small(name, shape, &values);
    }
    Ok(formats)
}

/// Returns these rows of a matrix of so many columns, `[rows.len(), columns]`.
fn rows(values: &[f32], columns: usize, rows: &[u32]) -> Vec<f32> {
    rows.iter().flat_map(|row| &values[*row as usize * columns..][..columns]).copied().collect()
}
