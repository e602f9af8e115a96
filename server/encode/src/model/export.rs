//! Export of the question encoder's weights in the number formats that a browser downloads, as `dpr export-web` does.

use std::collections::BTreeMap;

use dpr_core::model::{FileEntry, sha256_hex};
use dpr_core::weights::{SCALE_SUFFIX, quantize_rows};
use dpr_core::{EncoderConfig, TensorMap, names};
use half::f16;
use safetensors::tensor::{Dtype, TensorView};

use super::web::WebFile;
use super::{ModelDir, ModelError, QUESTION_DIR, WEB_DIR, WEB_MANIFEST, WebManifest};
use dpr_files::atomic::StagedDir;

/// What was written.
#[derive(Clone, Debug, serde::Serialize)]
pub struct ExportReport {
    /// The manifest as written.
    pub manifest: WebManifest,
}

struct Tensor {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Tensor {
    fn f32(name: String, shape: Vec<usize>, values: &[f32]) -> Self {
        Self { name, dtype: Dtype::F32, shape, bytes: values.iter().flat_map(|v| v.to_le_bytes()).collect() }
    }

    fn f16(name: String, shape: Vec<usize>, values: &[f32]) -> Self {
        let bytes = values.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
        Self { name, dtype: Dtype::F16, shape, bytes }
    }

    /// Returns the matrix in 8 bits and its row scales, `[rows]`.
    fn q8(name: String, shape: Vec<usize>, values: &[f32]) -> [Self; 2] {
        let (quantized, scales) = quantize_rows(values, shape[1]);
        let scales = Self::f32(format!("{name}{SCALE_SUFFIX}"), vec![shape[0]], &scales);
        let bytes = quantized.iter().map(|v| v.to_le_bytes()[0]).collect();
        [Self { name, dtype: Dtype::I8, shape, bytes }, scales]
    }
}

/// Writes `web/`: `q8` (matrices in 8 bits with a scale a row, 23 MB for MiniLM), `f16` (matrices in half
/// precision) and `f32` (the question encoder's own file).
///
/// # Errors
/// [`ModelError`] when the model cannot be read or `web/` not be written; an older export stays then.
pub fn export_web(model: &ModelDir) -> Result<ExportReport, ModelError> {
    let dir = model.path().join(QUESTION_DIR);
    let config = EncoderConfig::from_json(&fs_err::read(dir.join("config.json"))?)
        .map_err(ModelError::in_dir(&dir))?;
    let bytes = fs_err::read(dir.join("model.safetensors"))?;
    let mut map = TensorMap::from_safetensors([("model.safetensors", bytes.as_slice())])
        .map_err(ModelError::in_dir(&dir))?;
    let (mut halves, mut eighths) = (Vec::new(), Vec::new());
    for (name, shape) in names::tensors(&config) {
        let values = map.take_f32(&name, &shape).map_err(ModelError::in_dir(&dir))?;
        // Biases and LayerNorms are a hundredth of the size and most of the precision.
        if shape.len() < 2 {
            halves.push(Tensor::f32(name.clone(), shape.clone(), &values));
            eighths.push(Tensor::f32(name, shape, &values));
            continue;
        }
        halves.push(Tensor::f16(name.clone(), shape.clone(), &values));
        if is_quantized(&name) {
            eighths.extend(Tensor::q8(name, shape, &values));
        } else {
            eighths.push(Tensor::f16(name, shape, &values));
        }
    }
    let staging = StagedDir::beside(&model.path().join(WEB_DIR))?;
    let mut weights = BTreeMap::new();
    for (dtype, tensors) in [("f16", halves), ("q8", eighths)] {
        let file = format!("question_encoder.{dtype}.safetensors");
        let content = serialize(&tensors)?;
        fs_err::write(staging.path().join(&file), &content)?;
        let entry = FileEntry { bytes: content.len() as u64, sha256: sha256_hex(&content) };
        weights.insert(dtype.to_owned(), WebFile { path: format!("{WEB_DIR}/{file}"), entry });
    }
    let path = format!("{QUESTION_DIR}/model.safetensors");
    let entry = model
        .manifest()
        .files
        .get(&path)
        .cloned()
        .unwrap_or_else(|| FileEntry { bytes: bytes.len() as u64, sha256: sha256_hex(&bytes) });
    weights.insert("f32".to_owned(), WebFile { path, entry });
    let manifest =
        WebManifest { format_version: 1, fingerprint: model.manifest().fingerprint.clone(), weights };
    let text = serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::other)?;
    fs_err::write(staging.path().join(WEB_MANIFEST), text)?;
    staging.replace()?;
    Ok(ExportReport { manifest })
}

/// Returns whether a tensor is stored in 8 bits: words and linear layers, which are nearly all of the bytes.
/// Positions, token types and the relative bias stay in f16.
fn is_quantized(name: &str) -> bool {
    let small = ["position_embeddings", "token_type_embeddings", "relative_attention_bias"];
    !small.iter().any(|part| name.contains(part))
}

fn serialize(tensors: &[Tensor]) -> Result<Vec<u8>, ModelError> {
    let views = tensors
        .iter()
        .map(|t| Ok((t.name.as_str(), TensorView::new(t.dtype, t.shape.clone(), &t.bytes)?)))
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>()
        .map_err(std::io::Error::other)?;
    Ok(safetensors::serialize(views, None).map_err(std::io::Error::other)?)
}
