//! The model as it is served: its description, and the files that a browser needs to encode questions as the index's
//! passages were.

use std::collections::{BTreeMap, HashMap};

use axum::http::HeaderValue;
use dpr_core::model::sha256_hex;
use dpr_core::{Family, ModelManifest, Similarity};
use dpr_encode::model::{MANIFEST, ModelDir, ModelError, QUESTION_DIR};
use serde::Serialize;
use utoipa::ToSchema;

use super::file::ServedFile;

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
    /// Version of this document: 1, or 2 where the encoder has parts that the first releases did not know.
    pub format_version: u32,
    /// A name for people.
    pub name: String,
    /// Identity of the vectors; a search sends it as `model`. A distilled question encoder has its teacher's.
    pub fingerprint: String,
    /// Numbers in a vector; with `l2`, the coordinate that lets inner products rank by distance included.
    pub dim: usize,
    /// `dot`, `cosine` or `l2`.
    #[schema(value_type = String, example = "dot")]
    pub similarity: Similarity,
    /// Architecture of the encoder: `bert` or `mpnet`.
    #[schema(value_type = String, example = "bert")]
    pub family: Family,
    /// Tokens a question is truncated to.
    pub max_question_tokens: usize,
    /// Text that the encoder puts before every question, before it is cut into tokens. Absent when there is none. The
    /// packages and modules of this project do it by themselves: it stands in the configuration too.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false, example = "query: ")]
    pub question_prompt: String,
    /// Configuration and tokenizer.
    pub encoder: EncoderBody,
    /// The weights by their number format, `f32`, `f16`, `q8`: those that `dpr export-web` has made.
    /// Absent when it has not run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub weights: BTreeMap<String, FileBody>,
}

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
            question_prompt: manifest.prompts.query.clone(),
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

    /// Returns the description, for routes that are mounted at this path: nothing, or as `/search`.
    pub(super) fn body(&self, mounted_at: &str) -> ModelBody {
        let mut body = self.body.clone();
        let encoder = [&mut body.encoder.config, &mut body.encoder.tokenizer];
        for file in encoder.into_iter().chain(body.weights.values_mut()) {
            file.url.insert_str(0, mounted_at);
        }
        body
    }

    /// Returns the entity tag of the description.
    pub(super) fn tag(&self) -> &HeaderValue {
        &self.tag
    }

    /// Returns the file of this digest and name, if the description names it.
    pub(super) fn file(&self, sha256: &str, name: &str) -> Option<&ServedFile> {
        self.files.get(&format!("{sha256}/{name}"))
    }

    /// Returns whether a browser finds weights to encode with.
    pub fn has_weights(&self) -> bool {
        !self.body.weights.is_empty()
    }
}
