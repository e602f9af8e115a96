//! Models that read a question and a passage in one input, cross-encoders and readers: the manifest of their model
//! directories, and the classes of transformers that a `config.json` names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::Family;
use crate::form::{Prompts, TitleJoin};
use crate::model::{FileEntry, sha256_hex};

/// The newest format of the `model.json` of a cross-encoder or reader, and the first: versions that know of encoders
/// alone read up to 2, and say that they are too old.
pub const PAIR_FORMAT: u32 = 3;

/// The kind of model in a model directory that does not hold encoders; a `model.json` without it is that of encoders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelKind {
    /// A [`CrossEncoder`](crate::CrossEncoder).
    CrossEncoder,
    /// A [`Reader`](crate::Reader).
    Reader,
}

impl ModelKind {
    /// Returns the name in fingerprints and for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::CrossEncoder => "cross-encoder",
            Self::Reader => "reader",
        }
    }
}

/// The manifest of a model directory that holds a cross-encoder or a reader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairManifest {
    /// Version of this format; see [`PAIR_FORMAT`].
    pub format_version: u32,
    /// The kind of model in the directory.
    pub kind: ModelKind,
    /// A name for people.
    pub name: String,
    /// Identity of the scores: two models with one fingerprint give a pair the same scores.
    pub fingerprint: String,
    /// Architecture.
    pub family: Family,
    /// Tokens a pair is truncated to.
    pub max_tokens: usize,
    /// Texts that are put before questions and passages.
    #[serde(default, skip_serializing_if = "Prompts::is_empty")]
    pub prompts: Prompts,
    /// The way a title is joined to its text.
    #[serde(default, skip_serializing_if = "TitleJoin::is_separator")]
    pub title_join: TitleJoin,
    /// Every other file of the directory by its relative path.
    pub files: BTreeMap<String, FileEntry>,
}

impl PairManifest {
    /// Returns the fingerprint: SHA-256 over all that decides what the scores are, which is the kind, the files'
    /// checksums by path, the limit, and prompts and title join where there are any. The name does not count.
    pub fn compute_fingerprint(&self) -> String {
        let mut text = format!("dpr {} 1\n{:?} {}\n", self.kind.name(), self.family, self.max_tokens);
        if !self.prompts.is_empty() {
            text += &format!("prompts {:?} {:?}\n", self.prompts.query, self.prompts.passage);
        }
        if !self.title_join.is_separator() {
            text += &format!("title join {:?}\n", String::from(self.title_join.clone()));
        }
        for (path, entry) in &self.files {
            text += &format!("{path} {}\n", entry.sha256);
        }
        sha256_hex(text.as_bytes())
    }
}

/// Returns the classes that a `config.json` names, joined by commas; empty where it names none.
pub(crate) fn classes(root: &Value) -> String {
    let names = root.get("architectures").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}
