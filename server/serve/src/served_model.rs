//! The model as it is served: its description, and the files that a browser needs to encode questions as the index's
//! passages were.

use std::collections::{BTreeMap, HashMap};

use axum::http::HeaderValue;
use dpr_core::model::sha256_hex;
use dpr_core::{Family, ModelManifest, Similarity};
use dpr_encode::model::{MANIFEST, ModelDir, ModelError, QUESTION_DIR, WebFile, WebPair};
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
    /// Checksums of the parts of weights, by which a client uses them while they arrive. Absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub chunks: Option<ChunksBody>,
}

/// The parts of a file, one behind the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ChunksBody {
    /// Size of each part in bytes; the last one may be shorter.
    pub bytes: usize,
    /// SHA-256 of each part, 64 hexadecimal digits.
    pub sha256: Vec<String>,
}

/// The small files of an encoder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EncoderBody {
    /// The Hugging Face config.json.
    pub config: FileBody,
    /// The Hugging Face tokenizer.json.
    pub tokenizer: FileBody,
    /// The same tokenizer in binary form, for clients that read it. Absent when `dpr export-web` has not written one: not
    /// every tokenizer has that form.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub vocabulary: Option<FileBody>,
}

/// A file of weights of a model of pairs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PairWeightsBody {
    /// Path on this server; it names the content, so that it can be cached for good.
    pub url: String,
    /// Length of the file, uncompressed.
    pub bytes: u64,
    /// SHA-256 of the file, 64 hexadecimal digits.
    pub sha256: String,
    /// Tensors that the file leaves out, since they are those of the question encoder's weights of the same format, by
    /// their names there. Absent when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub shares: Vec<String>,
}

/// A model that reads a question and a passage together, for pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct PairBody {
    /// A name for people.
    pub name: String,
    /// Identity of the scores.
    pub fingerprint: String,
    /// Tokens that a question and a passage are cut to together.
    pub max_tokens: usize,
    /// The Hugging Face config.json.
    pub config: FileBody,
    /// The Hugging Face tokenizer.json.
    pub tokenizer: FileBody,
    /// The weights by their number format, `f32`, `f16`, `q8`, `q4`.
    pub weights: BTreeMap<String, PairWeightsBody>,
}

impl PairBody {
    fn urls_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let weights = self.weights.values_mut().map(|weights| &mut weights.url);
        [&mut self.config.url, &mut self.tokenizer.url].into_iter().chain(weights)
    }
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
    /// Architecture of the encoder: `bert`, `mpnet`, `distilbert`, `roberta`, `modernbert` or `nomic_bert`.
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
    /// The weights by their number format, `f32`, `f16`, `q8`, `q4`: those that `dpr export-web` has made.
    /// Absent when it has not run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(required = false)]
    pub weights: BTreeMap<String, FileBody>,
    /// Marks answers in passages. Absent when `dpr export-web` was given none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reader: Option<PairBody>,
    /// Re-ranks passages. Absent when `dpr export-web` was given none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub reranker: Option<PairBody>,
    /// Where a smaller question encoder of the same vectors is described, as here. Absent when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, example = "/v1/model/small")]
    pub small: Option<String>,
}

impl ModelBody {
    fn urls_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let pairs = self.reader.iter_mut().chain(&mut self.reranker).flat_map(PairBody::urls_mut);
        let EncoderBody { config, tokenizer, vocabulary } = &mut self.encoder;
        let files = [config, tokenizer].into_iter().chain(vocabulary).chain(self.weights.values_mut());
        files.map(|file| &mut file.url).chain(pairs).chain(&mut self.small)
    }
}

/// Path of the smaller question encoder's description.
pub(super) const SMALL_PATH: &str = "/v1/model/small";

/// Returns the entity tag of a description; a weak one, as the document is compressed on the way.
fn tag_of(body: &ModelBody) -> HeaderValue {
    let digest = sha256_hex(&serde_json::to_vec(body).unwrap_or_default());
    HeaderValue::from_str(&format!("W/\"{digest}\"")).unwrap_or(HeaderValue::from_static("W/\"\""))
}

/// The model as served: its description, and the files the description names and no others.
#[derive(Debug)]
pub struct ServedModel {
    body: ModelBody,
    tag: HeaderValue,
    files: HashMap<String, ServedFile>,
    small: Option<Box<ServedModel>>,
    /// `true` if the model's vectors have length 1, or less where they are a part of one.
    is_normalized: bool,
}

impl ServedFile {
    fn describe(&self) -> FileBody {
        FileBody {
            url: format!("/v1/model/files/{}/{}", self.sha256, self.name),
            bytes: self.bytes(),
            sha256: self.sha256.clone(),
            chunks: self
                .chunks
                .as_ref()
                .map(|chunks| ChunksBody { bytes: chunks.bytes, sha256: chunks.sha256.clone() }),
        }
    }
}

/// Files of the question encoder, besides the manifest: `config.json`, `tokenizer.json` and its binary form, and the
/// weights by their number format.
#[derive(Debug)]
pub struct EncoderFiles {
    /// config.json
    pub config: ServedFile,
    /// tokenizer.json
    pub tokenizer: ServedFile,
    /// The binary form of tokenizer.json.
    pub vocabulary: Option<ServedFile>,
    /// `f32`, `f16`, `q8`, `q4`
    pub weights: BTreeMap<String, ServedFile>,
    /// The reader that pages may download.
    pub reader: Option<PairFiles>,
    /// The cross-encoder that pages may download.
    pub reranker: Option<PairFiles>,
}

/// A model of pairs as it is described, and its files.
#[derive(Debug)]
pub struct PairFiles {
    body: PairBody,
    files: Vec<ServedFile>,
}

impl PairFiles {
    /// The model of `pair`, whose files `open` opens.
    fn open(
        pair: &WebPair,
        open: impl Fn(&WebFile) -> std::io::Result<ServedFile>,
    ) -> Result<Self, ModelError> {
        let (config, tokenizer) = (open(&pair.config)?, open(&pair.tokenizer)?);
        let mut body = PairBody {
            name: pair.name.clone(),
            fingerprint: pair.fingerprint.clone(),
            max_tokens: pair.max_tokens,
            config: config.describe(),
            tokenizer: tokenizer.describe(),
            weights: BTreeMap::new(),
        };
        let mut files = vec![config, tokenizer];
        for (dtype, weights) in &pair.weights {
            let file = open(&weights.file)?;
            let FileBody { url, bytes, sha256, .. } = file.describe();
            let described = PairWeightsBody { url, bytes, sha256, shares: weights.shares.clone() };
            body.weights.insert(dtype.clone(), described);
            files.push(file);
        }
        Ok(Self { body, files })
    }
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
        let web_file = |file: &WebFile| {
            let path = model.path().join(&file.path);
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let served = ServedFile::new(path, &name, file.entry.bytes, &file.entry.sha256)?;
            let served = served.with_chunks(file.chunks.clone());
            Ok(match file.gzip_path().zip(file.gzip.as_ref()) {
                Some((small, entry)) => served.with_gzip(model.path().join(small), entry.bytes),
                None => served,
            })
        };
        let web = model.web_exports()?;
        let mut weights = BTreeMap::new();
        for (dtype, file) in web.iter().flat_map(|web| &web.weights) {
            weights.insert(dtype.clone(), web_file(file)?);
        }
        // In memory: no file has the configuration for vectors that are cut to fewer numbers.
        let config = ServedFile::of_json("config.json", model.web_config(web.as_ref())?.into_owned())?;
        let tokenizer = match web.as_ref().and_then(|web| web.encoder.as_ref()) {
            Some(own) => web_file(&own.tokenizer)?,
            None => encoder_file("tokenizer.json")?,
        };
        let vocabulary = web.as_ref().and_then(|web| web.vocabulary.as_ref()).map(web_file).transpose()?;
        let pair = |pair: Option<&WebPair>| pair.map(|pair| PairFiles::open(pair, web_file)).transpose();
        let reader = pair(web.as_ref().and_then(|web| web.reader.as_ref()))?;
        let reranker = pair(web.as_ref().and_then(|web| web.reranker.as_ref()))?;
        let files = EncoderFiles { config, tokenizer, vocabulary, weights, reader, reranker };
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
            encoder: EncoderBody {
                config: files.config.describe(),
                tokenizer: files.tokenizer.describe(),
                vocabulary: files.vocabulary.as_ref().map(ServedFile::describe),
            },
            weights: files.weights.iter().map(|(dtype, file)| (dtype.clone(), file.describe())).collect(),
            reader: files.reader.as_ref().map(|pair| pair.body.clone()),
            reranker: files.reranker.as_ref().map(|pair| pair.body.clone()),
            small: None,
        };
        let pairs = files.reader.into_iter().chain(files.reranker).flat_map(|pair| pair.files);
        let small = [files.config, files.tokenizer].into_iter().chain(files.vocabulary);
        let all = small.chain(files.weights.into_values()).chain(pairs);
        let files = all.map(|file| (format!("{}/{}", file.sha256, file.name), file)).collect();
        let is_normalized = manifest.normalize && manifest.similarity != Similarity::L2;
        Self { tag: tag_of(&body), body, files, small: None, is_normalized }
    }

    /// Returns the greatest length of the model's vectors, if it has one.
    pub(super) fn max_length(&self) -> Option<f32> {
        self.is_normalized.then_some(1.0)
    }

    /// Adds a smaller question encoder of the same vectors, which pages may load in the place of this one. It is left
    /// out where it has no weights for browsers.
    #[must_use]
    pub fn with_small(mut self, small: Self) -> Self {
        if small.has_weights() {
            self.body.small = Some(SMALL_PATH.to_owned());
            self.tag = tag_of(&self.body);
            self.small = Some(Box::new(small));
        }
        self
    }

    /// Returns the smaller question encoder.
    pub(super) fn small(&self) -> Option<&Self> {
        self.small.as_deref()
    }

    /// Returns the fingerprint by which a search names the model.
    pub fn fingerprint(&self) -> &str {
        &self.body.fingerprint
    }

    /// Returns the description, for routes that are mounted at this path: nothing, or as `/search`.
    pub(super) fn body(&self, mounted_at: &str) -> ModelBody {
        let mut body = self.body.clone();
        for url in body.urls_mut() {
            url.insert_str(0, mounted_at);
        }
        body
    }

    /// Returns the entity tag of the description.
    pub(super) fn tag(&self) -> &HeaderValue {
        &self.tag
    }

    /// Returns the file of this digest and name, if the description, or that of the smaller encoder, names it.
    pub(super) fn file(&self, sha256: &str, name: &str) -> Option<&ServedFile> {
        let key = format!("{sha256}/{name}");
        self.files.get(&key).or_else(|| self.small()?.files.get(&key))
    }

    /// Returns whether a browser finds weights to encode with.
    pub fn has_weights(&self) -> bool {
        !self.body.weights.is_empty()
    }
}
