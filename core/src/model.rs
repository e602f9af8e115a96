//! Manifest of a model directory, `model.json`: sizes, limits, checksums and the fingerprint of the vectors.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::config::{Family, Pooling};
use crate::form::{Prompts, TitleJoin};

/// The newest format of `model.json` that this version reads. It writes 1 for what the first format had names for, and
/// 2 for models with another head, prompts, a title join, or vectors that are compared by the Euclidean distance.
pub const MODEL_FORMAT: u32 = 2;

/// The similarity by which two vectors are compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Similarity {
    /// Inner product, as in the paper (§3.1).
    #[default]
    Dot,
    /// Inner product of the vectors scaled to length 1.
    Cosine,
    /// Negative Euclidean distance; see [`EncoderConfig::coordinate`](crate::EncoderConfig::coordinate).
    L2,
}

impl Similarity {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Dot, Self::Cosine, Self::L2];

    /// Returns the name in manifests, in configurations and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dot => "dot",
            Self::Cosine => "cosine",
            Self::L2 => "l2",
        }
    }
}

/// Size and checksum of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Length.
    pub bytes: u64,
    /// SHA-256 in 64 lower-case hexadecimal digits.
    pub sha256: String,
}

/// A model directory's manifest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelManifest {
    /// Version of this format; see [`MODEL_FORMAT`].
    pub format_version: u32,
    /// A name for people.
    pub name: String,
    /// Identity of the vectors: two models with one fingerprint make the same vectors.
    pub fingerprint: String,
    /// Architecture of the question encoder.
    pub family: Family,
    /// Pooling of the tokens' states into one vector.
    pub pooling: Pooling,
    /// `true` if vectors have length 1.
    pub normalize: bool,
    /// The similarity by which vectors are compared.
    pub similarity: Similarity,
    /// Size of the vectors; of a model that is compared by the Euclidean distance, the coordinate for it included.
    pub dim: usize,
    /// Tokens a question is truncated to.
    pub max_question_tokens: usize,
    /// Tokens a passage is truncated to.
    pub max_passage_tokens: usize,
    /// `true` if one encoder serves questions and passages.
    pub shared: bool,
    /// Fingerprint of the model whose passage vectors the questions are compared with, where that is another model:
    /// the teacher of a distilled question encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// Texts that the encoders put before questions and passages.
    #[serde(default, skip_serializing_if = "Prompts::is_empty")]
    pub prompts: Prompts,
    /// The way a title is joined to its text.
    #[serde(default, skip_serializing_if = "TitleJoin::is_separator")]
    pub title_join: TitleJoin,
    /// `true` if the model was trained so that the first numbers of its vectors serve alone (Matryoshka, Kusupati et
    /// al. 2022).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub matryoshka: bool,
    /// Every other file of the directory by its relative path.
    pub files: BTreeMap<String, FileEntry>,
}

impl ModelManifest {
    /// Returns the identity of the vector space, which indexes record: two models with one space can search each
    /// other's indexes.
    pub fn space(&self) -> &str {
        self.space.as_deref().unwrap_or(&self.fingerprint)
    }

    /// Returns the fingerprint: SHA-256 over all that decides what the vectors are, which is the files' checksums by
    /// path, the limits, the pooling, the normalisation, the similarity, and prompts and title join where there are
    /// any. The name and `matryoshka` do not count.
    pub fn compute_fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let head = format!(
            "dpr model 1\n{:?} {:?} {} {:?} {} {} {} {}\n",
            self.family,
            self.pooling,
            self.normalize,
            self.similarity,
            self.dim,
            self.max_question_tokens,
            self.max_passage_tokens,
            self.shared
        );
        hash.update(head);
        if let Some(space) = &self.space {
            hash.update(format!("space {space}\n"));
        }
        if !self.prompts.is_empty() {
            hash.update(format!("prompts {:?} {:?}\n", self.prompts.query, self.prompts.passage));
        }
        if !self.title_join.is_separator() {
            hash.update(format!("title join {:?}\n", String::from(self.title_join.clone())));
        }
        for (path, entry) in &self.files {
            hash.update(format!("{path} {}\n", entry.sha256));
        }
        hex(&hash.finalize())
    }
}

/// Returns the first 12 digits of a fingerprint: enough to tell two models apart by eye.
pub fn short(fingerprint: &str) -> String {
    match fingerprint.char_indices().nth(12) {
        Some((cut, _)) => format!("{}…", &fingerprint[..cut]),
        None => fingerprint.to_owned(),
    }
}

/// Returns the SHA-256 of `bytes` in 64 lower-case hexadecimal digits.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns `bytes` in lower-case hexadecimal digits, two for each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
