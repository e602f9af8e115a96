//! The section `dpr` of a `config.json`: how the states of the tokens become a vector.

use serde::{Deserialize, Serialize};

use super::EncoderConfig;
use crate::form::{Prompts, TextForm, TitleJoin};
use crate::head::{HeadStep, Pooling};

/// Settings that `dpr` adds to a `config.json`, under the key `dpr`; other readers ignore it. What is absent is not
/// done, as before there was a name for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DprSection {
    /// Pooling of the tokens' states into one vector.
    pub pooling: Pooling,
    /// `true` if the vector is scaled to length 1.
    pub normalize: bool,
    /// Tokens a text is truncated to.
    pub max_tokens: usize,
    /// See [`EncoderConfig::head`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub head: Vec<HeadStep>,
    /// See [`EncoderConfig::truncate`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncate: Option<usize>,
    /// See [`EncoderConfig::l2`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2: Option<f32>,
    /// Texts before questions and passages.
    #[serde(default, skip_serializing_if = "Prompts::is_empty")]
    pub prompts: Prompts,
    /// The way a title is joined to its text.
    #[serde(default, skip_serializing_if = "TitleJoin::is_separator")]
    pub title_join: TitleJoin,
    /// See [`EncoderConfig::one_type`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_type: bool,
}

impl DprSection {
    /// Sets what the section says of an encoder.
    pub(super) fn apply(self, config: &mut EncoderConfig) {
        config.pooling = self.pooling;
        config.head = self.head;
        config.truncate = self.truncate;
        config.normalize = self.normalize;
        config.l2 = self.l2;
        config.form = TextForm { prompts: self.prompts, join: self.title_join };
        config.one_type = self.one_type;
        config.max_tokens = self.max_tokens;
    }
}

impl EncoderConfig {
    /// Returns the `dpr` section that says of this encoder what the rest of a `config.json` does not.
    pub fn section(&self) -> DprSection {
        DprSection {
            pooling: self.pooling,
            normalize: self.normalize,
            max_tokens: self.max_tokens,
            head: self.head.clone(),
            truncate: self.truncate,
            l2: self.l2,
            prompts: self.form.prompts.clone(),
            title_join: self.form.join.clone(),
            one_type: self.one_type,
        }
    }
}
