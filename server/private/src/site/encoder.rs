//! The question encoder of a static site.

use dpr_core::model::FileEntry;
use dpr_encode::model::{MANIFEST, ModelDir, ModelError, QUESTION_DIR, WebFile};
use serde_json::{Value, json};

use super::SiteError;
use super::manifest::Content;

/// A question encoder as pages load it: a manifest of the form that `GET /v1/model` has, and the files it names.
#[derive(Clone, Debug)]
pub struct SiteEncoder {
    /// Fingerprint of the vectors that it makes.
    pub(super) fingerprint: String,
    /// Numbers in a vector.
    pub(super) dim: usize,
    manifest: Content,
    files: Vec<Content>,
}

impl SiteEncoder {
    /// Takes the question encoder of a model directory that `dpr export-web` has run for: configuration, tokenizer in
    /// both forms, and the weights in 8 and 16 bits. Weights in 32 bits are taken where there are no others.
    ///
    /// # Errors
    /// [`SiteError::NoWeights`], and [`SiteError::Model`] for a file that is missing or damaged.
    pub fn of(model: &ModelDir) -> Result<Self, SiteError> {
        let web = model.web_exports()?.ok_or(SiteError::NoWeights)?;
        let described = model.manifest();
        let config = model.web_config(Some(&web))?.into_owned();
        let config = Content::new("config", "json", config);
        let tokenizer = match &web.encoder {
            Some(own) => copied(model, "tokenizer", "json", &own.tokenizer),
            None => {
                let path = format!("{QUESTION_DIR}/tokenizer.json");
                let entry = described.files.get(&path).cloned().ok_or_else(|| ModelError::Manifest {
                    path: model.path().join(MANIFEST),
                    reason: format!("it does not list {path}"),
                })?;
                copied(model, "tokenizer", "json", &WebFile::new(path, entry))
            }
        };
        let vocabulary = web.vocabulary.as_ref().map(|file| copied(model, "vocabulary", "bin", file));
        let small = web.weights.keys().any(|dtype| dtype != "f32");
        let weights: Vec<(&String, Content)> = web
            .weights
            .iter()
            .filter(|(dtype, _)| !small || *dtype != "f32")
            .map(|(dtype, file)| (dtype, copied(model, &format!("question_encoder.{dtype}"), "bin", file)))
            .collect();
        if weights.is_empty() {
            return Err(SiteError::NoWeights);
        }
        let described_weights = |(dtype, file): &(&String, Content)| {
            let mut body = json!(file.entry());
            if let Some(chunks) = web.weights.get(*dtype).and_then(|file| file.chunks.as_ref()) {
                body["chunks"] = json!(chunks);
            }
            ((*dtype).clone(), body)
        };
        let mut body = json!({
            "format_version": described.format_version,
            "name": described.name,
            "fingerprint": described.space(),
            "dim": described.dim,
            "similarity": described.similarity,
            "family": described.family,
            "max_question_tokens": described.max_question_tokens,
            "encoder": { "config": config.entry(), "tokenizer": tokenizer.entry() },
            "weights": weights.iter().map(described_weights).collect::<serde_json::Map<String, Value>>(),
        });
        if !described.prompts.query.is_empty() {
            body["question_prompt"] = json!(described.prompts.query);
        }
        if let Some(vocabulary) = &vocabulary {
            body["encoder"]["vocabulary"] = json!(vocabulary.entry());
        }
        let mut files = vec![config, tokenizer];
        files.extend(vocabulary);
        files.extend(weights.into_iter().map(|(_, file)| file));
        Ok(Self::new(described.space(), described.dim, &body, files))
    }

    pub(super) fn new(fingerprint: &str, dim: usize, manifest: &Value, files: Vec<Content>) -> Self {
        let manifest = Content::new("model", "json", manifest.to_string().into_bytes());
        Self { fingerprint: fingerprint.to_owned(), dim, manifest, files }
    }

    /// Returns the manifest and then the files that it names.
    pub(super) fn contents(&self) -> Vec<Content> {
        [&self.manifest].into_iter().chain(&self.files).cloned().collect()
    }
}

fn copied(model: &ModelDir, kind: &str, extension: &str, WebFile { path, entry, .. }: &WebFile) -> Content {
    let FileEntry { bytes, sha256 } = entry.clone();
    Content::copied(kind, extension, model.path().join(path), FileEntry { bytes, sha256 })
}
