//! `GET /v1/model` and its files: what a browser needs to encode questions as the index's passages were.

use std::collections::{BTreeMap, HashMap};

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dpr_core::model::sha256_hex;
use dpr_core::{Family, ModelManifest, Similarity};
use serde::Serialize;
use utoipa::ToSchema;

use super::error::{ApiError, ErrorBody};
use super::file::ServedFile;
use super::state::AppState;
use dpr_encode::model::{MANIFEST, ModelDir, ModelError, QUESTION_DIR};

/// A file to download.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FileBody {
    /// Path on this server; it names the content, so that it can be cached for good.
    #[schema(example = "/v1/model/files/<sha256>/question_encoder.q8.safetensors")]
    pub url: String,
    /// Length of the file, uncompressed.
    pub bytes: u64,
    /// SHA-256 of the file, 64 hexadecimal digits.
    pub sha256: String,
}

/// The two small files of an encoder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EncoderBody {
    /// The Hugging Face config.json.
    pub config: FileBody,
    /// The Hugging Face tokenizer.json.
    pub tokenizer: FileBody,
}

/// The question encoder of the index's model.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ModelBody {
    /// Version of this document.
    pub format_version: u32,
    /// A name for people.
    pub name: String,
    /// Identity of the vectors; a search sends it as `model`. A distilled question encoder has its teacher's.
    pub fingerprint: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// `dot`, `cosine` or `l2`.
    #[schema(value_type = String, example = "dot")]
    pub similarity: Similarity,
    /// Architecture of the encoder: `bert` or `mpnet`.
    #[schema(value_type = String, example = "bert")]
    pub family: Family,
    /// Tokens a question is truncated to.
    pub max_question_tokens: usize,
    /// Configuration and tokenizer.
    pub encoder: EncoderBody,
    /// The weights by their number format, `f32`, `f16`, `q8`: those that `dpr export-web` has made.
    /// Absent when it has not run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub weights: BTreeMap<String, FileBody>,
}

/// The bytes of a file.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[allow(dead_code, reason = "describes a response to OpenAPI")]
struct FileContent(Vec<u8>);

/// The model as served: its description, and the files the description names and no others.
#[derive(Debug)]
pub struct ServedModel {
    body: ModelBody,
    tag: HeaderValue,
    files: HashMap<String, ServedFile>,
}

impl ServedFile {
    fn describe(&self) -> FileBody {
        FileBody {
            url: format!("/v1/model/files/{}/{}", self.sha256, self.name),
            bytes: self.bytes,
            sha256: self.sha256.clone(),
        }
    }
}

/// Files of the question encoder, besides the manifest: `config.json`, `tokenizer.json`, and the weights by
/// their number format.
#[derive(Debug)]
pub struct EncoderFiles {
    /// config.json
    pub config: ServedFile,
    /// tokenizer.json
    pub tokenizer: ServedFile,
    /// `f32`, `f16`, `q8`
    pub weights: BTreeMap<String, ServedFile>,
}

impl ServedModel {
    /// The question encoder of a model directory; without weights when `dpr export-web` has not run.
    ///
    /// # Errors
    /// [`ModelError`] when a file is missing or damaged, or the exports are of another model.
    pub fn open(model: &ModelDir) -> Result<Self, ModelError> {
        let manifest = model.manifest();
        let encoder_file = |name: &str| {
            let relative = format!("{QUESTION_DIR}/{name}");
            let entry = manifest.files.get(&relative).ok_or_else(|| ModelError::Manifest {
                path: model.path().join(MANIFEST),
                reason: format!("it does not list {relative}"),
            })?;
            Ok::<_, ModelError>(ServedFile::new(
                model.path().join(&relative),
                name,
                entry.bytes,
                &entry.sha256,
            )?)
        };
        let mut weights = BTreeMap::new();
        if let Some(web) = model.web_exports()? {
            for (dtype, file) in web.weights {
                let path = model.path().join(&file.path);
                let name = path
                    .file_name()
                    .map_or_else(|| dtype.clone(), |name| name.to_string_lossy().into_owned());
                weights.insert(dtype, ServedFile::new(path, &name, file.entry.bytes, &file.entry.sha256)?);
            }
        }
        let files = EncoderFiles {
            config: encoder_file("config.json")?,
            tokenizer: encoder_file("tokenizer.json")?,
            weights,
        };
        Ok(Self::new(manifest, files))
    }

    /// The model of `manifest` with these files.
    pub fn new(manifest: &ModelManifest, files: EncoderFiles) -> Self {
        let body = ModelBody {
            format_version: manifest.format_version,
            name: manifest.name.clone(),
            fingerprint: manifest.space().to_owned(),
            dim: manifest.dim,
            similarity: manifest.similarity,
            family: manifest.family,
            max_question_tokens: manifest.max_question_tokens,
            encoder: EncoderBody { config: files.config.describe(), tokenizer: files.tokenizer.describe() },
            weights: files.weights.iter().map(|(dtype, file)| (dtype.clone(), file.describe())).collect(),
        };
        let all = [files.config, files.tokenizer].into_iter().chain(files.weights.into_values());
        let files = all.map(|file| (format!("{}/{}", file.sha256, file.name), file)).collect();
        let digest = sha256_hex(&serde_json::to_vec(&body).unwrap_or_default());
        // Weak, as the document is compressed on the way.
        let tag =
            HeaderValue::from_str(&format!("W/\"{digest}\"")).unwrap_or(HeaderValue::from_static("W/\"\""));
        Self { body, tag, files }
    }

    /// What a search names the model by.
    pub fn fingerprint(&self) -> &str {
        &self.body.fingerprint
    }

    /// Whether a browser finds weights to encode with.
    pub fn has_weights(&self) -> bool {
        !self.body.weights.is_empty()
    }
}

/// The question encoder of the index's model.
#[utoipa::path(get, path = "/v1/model", tag = "model", responses(
    (status = 200, description = "The model and where its files are", body = ModelBody),
    (status = 304, description = "Unchanged since the `if-none-match` sent"),
    (status = 503, description = "Still being read", body = ErrorBody),
))]
pub(super) async fn model(State(state): State<AppState>, request: HeaderMap) -> Result<Response, ApiError> {
    let ready = state.ready()?;
    let model = &ready.serving.model;
    let headers =
        [(header::ETAG, model.tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
    if request.get(header::IF_NONE_MATCH) == Some(&model.tag) {
        return Ok((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Ok((headers, Json(&model.body)).into_response())
}

/// One file of the question encoder, by its content.
#[utoipa::path(get, path = "/v1/model/files/{sha256}/{name}", tag = "model",
    params(
        ("sha256" = String, Path, description = "As GET /v1/model tells it"),
        ("name" = String, Path, description = "As GET /v1/model tells it"),
    ),
    responses(
        (status = 200, description = "The file", body = FileContent, content_type = "application/octet-stream"),
        (status = 206, description = "The range asked for", body = FileContent,
         content_type = "application/octet-stream"),
        (status = 304, description = "Unchanged, as always"),
        (status = 404, description = "Not a file of the model in use", body = ErrorBody),
        (status = 416, description = "A range beyond the end"),
        (status = 503, description = "Still being read", body = ErrorBody),
    ))]
pub(super) async fn file(
    State(state): State<AppState>,
    Path((sha256, name)): Path<(String, String)>,
    request: HeaderMap,
) -> Result<Response, ApiError> {
    let key = format!("{sha256}/{name}");
    match state.ready()?.serving.model.files.get(&key) {
        Some(file) => file.respond(&request).await,
        None => Err(ApiError::NotFound(format!("/v1/model/files/{key}").chars().take(160).collect())),
    }
}
