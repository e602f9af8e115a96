//! Encoder configurations as Hugging Face writes them (`config.json`), checked and reduced to what the
//! encoders need.

mod check;
mod error;
mod families;
mod fields;
mod section;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::form::TextForm;
pub use crate::head::Pooling;
use crate::head::{HeadStep, dense_layers};
pub use error::ConfigError;
pub use families::FeedForward;
use fields::{MAX_BUCKETS, index, size, size_up_to};
pub use section::DprSection;

/// The architecture of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// BERT (Devlin et al. 2018): absolute positions, token types.
    Bert,
    /// MPNet (Song et al. 2020): relative attention bias, positions offset by the pad id, no token types.
    Mpnet,
    /// DistilBERT (Sanh et al. 2019): BERT without token types.
    Distilbert,
    /// RoBERTa (Liu et al. 2019), XLM-R (Conneau et al. 2019) and CamemBERT (Martin et al. 2019): BERT with positions
    /// offset by the pad id.
    Roberta,
    /// ModernBERT (Warner et al. 2024): rotary positions, GeGLU, no biases, LayerNorm before each half of a layer, and
    /// local attention in most layers.
    Modernbert,
    /// NomicBERT (Nussbaum et al. 2024): rotary positions, SwiGLU, no biases but those of LayerNorm.
    NomicBert,
}

/// Rotary positions (Su et al. 2021), and the layers whose attention is local.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// Base of the angles.
    pub theta: f64,
    /// Base of the angles in local layers.
    pub local_theta: f64,
    /// In local layers, a token sees this many tokens before it and as many after it.
    pub window: usize,
    /// For each layer, `true` if its attention is local.
    pub local_layers: Vec<bool>,
}

/// One encoder: its sizes and how its vector is made.
#[derive(Clone, Debug, PartialEq)]
pub struct EncoderConfig {
    /// Architecture.
    pub family: Family,
    /// Width of the hidden states.
    pub hidden_size: usize,
    /// Number of transformer layers.
    pub num_hidden_layers: usize,
    /// Attention heads; divides `hidden_size`.
    pub num_attention_heads: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Rows of the word embedding.
    pub vocab_size: usize,
    /// Rows of the position embedding, or the most tokens that rotary positions were made for.
    pub max_position_embeddings: usize,
    /// Rows of the token type embedding (0 where there is none).
    pub type_vocab_size: usize,
    /// Epsilon of every LayerNorm.
    pub layer_norm_eps: f64,
    /// Id of the padding token.
    pub pad_token_id: u32,
    /// Buckets of MPNet's relative attention bias (0 for the others).
    pub relative_attention_num_buckets: usize,
    /// Rotary positions of ModernBERT and NomicBERT.
    pub rotary: Option<Rotary>,
    /// Output size of `encode_proj`; 0 when there is none.
    pub projection_dim: usize,
    /// Pooling of the tokens' states into one vector.
    pub pooling: Pooling,
    /// The steps between pooling and the vector, in order.
    pub head: Vec<HeadStep>,
    /// The first numbers that are kept of what the head makes, of a model trained for it; `None` keeps all.
    pub truncate: Option<usize>,
    /// `true` if the vector is scaled to length 1, last of all.
    pub normalize: bool,
    /// The weight of the coordinate that lets inner products rank as the Euclidean distance does; see
    /// [`EncoderConfig::coordinate`]. `None` for vectors that are compared by their inner product.
    pub l2: Option<f32>,
    /// Prompts and the way a title is joined to its text.
    pub form: TextForm,
    /// `true` if every token of a pair is of type 0, whatever the tokenizer's template says: of a cross-encoder or a
    /// reader that was trained without token types.
    pub one_type: bool,
    /// Tokens a question or passage is truncated to; at most [`EncoderConfig::position_limit`].
    pub max_tokens: usize,
}

/// The side of a text in a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// A question, or another text that searches.
    #[default]
    Question,
    /// A passage, which is searched for.
    Passage,
}

impl EncoderConfig {
    /// Reads a `config.json`: `model_type` `bert`, `dpr`, `electra`, `mpnet`, `distilbert`, `roberta`, `xlm-roberta`,
    /// `camembert`, `modernbert` or `nomic_bert`.
    ///
    /// Without a `dpr` section, pooling is CLS and the vector is not normalised, as in the paper.
    ///
    /// # Errors
    /// [`ConfigError`] names the field, its value and what it should be.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ConfigError> {
        Ok(Self::read(bytes, check::architecture)?.0)
    }

    /// Reads a `config.json` whose classes `check_class` accepts, and returns it with the file's contents.
    ///
    /// # Errors
    /// As from [`EncoderConfig::from_json`], or what `check_class` says.
    pub(crate) fn read(
        bytes: &[u8],
        check_class: impl FnOnce(&Value) -> Result<(), ConfigError>,
    ) -> Result<(Self, Value), ConfigError> {
        let root: Value = serde_json::from_slice(bytes).map_err(|e| ConfigError::Json(e.to_string()))?;
        if !root.is_object() {
            return Err(ConfigError::Json("its top level is something else".into()));
        }
        let model_type = root.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let Some(family) = Family::of(model_type) else {
            return Err(ConfigError::UnknownFamily { found: model_type.into() });
        };
        check_class(&root)?;
        check::attention(&root)?;
        families::check(family, &root)?;
        let sizes = families::sizes(family, &root)?;
        let buckets = match family {
            Family::Mpnet => size_up_to(&root, "relative_attention_num_buckets", Some(32), MAX_BUCKETS)?,
            _ => 0,
        };
        let mut config = Self {
            family,
            hidden_size: sizes.hidden,
            num_hidden_layers: sizes.layers,
            num_attention_heads: sizes.heads,
            intermediate_size: sizes.intermediate,
            vocab_size: size(&root, "vocab_size", None)?,
            max_position_embeddings: sizes.positions,
            type_vocab_size: sizes.token_types,
            layer_norm_eps: sizes.eps,
            pad_token_id: sizes.pad,
            relative_attention_num_buckets: buckets,
            rotary: families::rotary(family, &root, sizes.layers)?,
            projection_dim: index(&root, "projection_dim", 0)? as usize,
            pooling: Pooling::Cls,
            head: Vec::new(),
            truncate: None,
            normalize: false,
            l2: None,
            form: TextForm::default(),
            one_type: false,
            max_tokens: 0,
        };
        config.max_tokens = config.position_limit();
        if let Some(section) = root.get("dpr") {
            let section =
                DprSection::deserialize(section).map_err(|e| ConfigError::Section(e.to_string()))?;
            section.apply(&mut config);
        }
        config.check()?;
        Ok((config, root))
    }

    /// Returns the size of what the steps of the head make of a pooled state.
    pub fn head_width(&self) -> usize {
        let dense = dense_layers(&self.head, self.hidden_size).last();
        dense.map_or(self.hidden_size, |(_, layer)| layer.output)
    }

    /// Returns the size of what is kept of the head's output, which is the input of `encode_proj`.
    pub fn kept_width(&self) -> usize {
        self.truncate.unwrap_or_else(|| self.head_width())
    }

    /// Returns the size of the vectors that the network makes; see [`EncoderConfig::vector_dim`].
    pub fn dim(&self) -> usize {
        if self.projection_dim > 0 { self.projection_dim } else { self.kept_width() }
    }

    /// Returns the size of the vectors that are indexed and searched: one more than [`EncoderConfig::dim`] where they
    /// are compared by the Euclidean distance.
    pub fn vector_dim(&self) -> usize {
        self.dim() + usize::from(self.l2.is_some())
    }

    /// Returns the coordinate that is appended to `vector`, `[dim]`, so that inner products of the results order
    /// passages as the Euclidean distance does: for a passage `-|p|²/(2c)` and for a question `c`, `c` being
    /// [`EncoderConfig::l2`], since `q·p - |p|²/2 = (|q|² - |q - p|²)/2`. `None` where inner products are what is
    /// compared.
    pub fn coordinate(&self, side: Side, vector: &[f32]) -> Option<f32> {
        let weight = self.l2?;
        Some(match side {
            Side::Question => weight,
            Side::Passage => {
                let squared: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
                (-squared / (2.0 * f64::from(weight))) as f32
            }
        })
    }

    /// Returns whether this encoder needs nothing that the first format of model directories did not have.
    pub fn is_first_format(&self) -> bool {
        let Self { pooling, head, truncate, l2, form, .. } = self;
        let plain = head.is_empty() && truncate.is_none() && l2.is_none() && *form == TextForm::default();
        plain && matches!(pooling, Pooling::Cls | Pooling::Mean)
    }

    /// Returns the width of one attention head.
    pub fn head_dim(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    /// Returns the most tokens that there are positions for; MPNet and RoBERTa keep the first `pad_token_id + 1` rows
    /// of the position embedding free.
    pub fn position_limit(&self) -> usize {
        self.max_position_embeddings.saturating_sub(self.position_offset())
    }

    /// Returns the row of the position embedding that the first token takes.
    pub fn position_offset(&self) -> usize {
        match self.family {
            Family::Mpnet | Family::Roberta => self.pad_token_id as usize + 1,
            _ => 0,
        }
    }
}
