//! Encoder configurations as Hugging Face writes them (`config.json`), checked and reduced to what the
//! encoders need.

mod families;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::form::{FormError, Prompts, TextForm, TitleJoin};
pub use crate::head::Pooling;
use crate::head::{HeadStep, dense_layers};
pub use families::FeedForward;

/// The largest size any one dimension of a config may have; a larger one is a damaged or hostile file.
const MAX_SIZE: u64 = 1 << 20;

/// The most steps that a head may have.
const MOST_STEPS: usize = 32;

/// Classes of models that do not make a vector of a text, by the end of their names, and what they make.
const OTHER_CLASSES: [(&str, &str); 7] = [
    ("ForSequenceClassification", "a classifier or cross-encoder, which scores a text or a pair of texts"),
    ("ForQuestionAnswering", "a reader, which marks the answer in a passage"),
    ("Reader", "a reader, which marks the answer in a passage"),
    ("ForTokenClassification", "a tagger, which labels each token"),
    ("ForMultipleChoice", "a model that chooses among texts"),
    ("ForNextSentencePrediction", "a model that says whether one sentence follows another"),
    ("LMHeadModel", "a language model, which writes the next word"),
];

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
}

/// The reason why a `config.json` cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The text is not a JSON object.
    #[error("config.json is not a JSON object: {0}; fetch the model again")]
    Json(String),
    /// `model_type` is missing or names an architecture without an encoder here.
    #[error(
        "config.json has model_type {found:?}; supported are \"bert\", \"dpr\", \"electra\", \"mpnet\", \"distilbert\", \"roberta\", \"xlm-roberta\", \"camembert\", \"modernbert\" and \"nomic_bert\": take a model of one of these"
    )]
    UnknownFamily {
        /// The file's value, empty where there is none.
        found: String,
    },
    /// The model is not a bi-encoder.
    #[error(
        "config.json has the architecture {class:?}: {what}, and no encoder of texts; give a directory of an encoder alone, such as BertModel, XLMRobertaModel or DPRContextEncoder"
    )]
    Architecture {
        /// What the file says.
        class: String,
        /// The kind of model it is.
        what: &'static str,
    },
    /// A field that the encoder needs is absent or of the wrong type.
    #[error(
        "config.json: field {field:?} is missing or not {expected}; take the config.json that belongs to the weights"
    )]
    Field {
        /// Name of the field.
        field: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// The section `dpr` is not what this version writes.
    #[error(
        "config.json: the section \"dpr\" cannot be read ({0}): import the model again, or use a newer dpr"
    )]
    Section(String),
    /// A prompt or a title join cannot be used.
    #[error("config.json: {0}")]
    Form(#[from] FormError),
    /// A field's value is outside what an encoder can have.
    #[error("config.json: {field} is {got}, {expected}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        got: String,
        /// The limit.
        expected: String,
    },
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
        let root: Value = serde_json::from_slice(bytes).map_err(|e| ConfigError::Json(e.to_string()))?;
        if !root.is_object() {
            return Err(ConfigError::Json("its top level is something else".into()));
        }
        let model_type = root.get("model_type").and_then(Value::as_str).unwrap_or_default();
        let Some(family) = Family::of(model_type) else {
            return Err(ConfigError::UnknownFamily { found: model_type.into() });
        };
        check_architecture(&root)?;
        check_attention(&root)?;
        families::check(family, &root)?;
        let sizes = families::sizes(family, &root)?;
        let buckets = match family {
            Family::Mpnet => size(&root, "relative_attention_num_buckets", Some(32))?,
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
            max_tokens: 0,
        };
        config.max_tokens = config.position_limit();
        if let Some(section) = root.get("dpr") {
            let section =
                DprSection::deserialize(section).map_err(|e| ConfigError::Section(e.to_string()))?;
            config.pooling = section.pooling;
            config.head = section.head;
            config.truncate = section.truncate;
            config.normalize = section.normalize;
            config.l2 = section.l2;
            config.form = TextForm { prompts: section.prompts, join: section.title_join };
            config.max_tokens = section.max_tokens;
        }
        config.check()?;
        Ok(config)
    }

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
        }
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

    /// Returns the most tokens that there are positions for; MPNet and RoBERTa keep the first `pad_token_id + 1` rows of
    /// the position embedding free.
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

    fn check(&self) -> Result<(), ConfigError> {
        let value = |field, got: String, expected: String| Err(ConfigError::Value { field, got, expected });
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            return value(
                "num_attention_heads",
                self.num_attention_heads.to_string(),
                format!("which does not divide hidden_size {}", self.hidden_size),
            );
        }
        if self.rotary.is_some() && !self.head_dim().is_multiple_of(2) {
            return value(
                "num_attention_heads",
                self.num_attention_heads.to_string(),
                "but rotary positions need heads of an even width".into(),
            );
        }
        if self.pad_token_id as usize >= self.vocab_size {
            return value(
                "pad_token_id",
                self.pad_token_id.to_string(),
                format!("but vocab_size is {}", self.vocab_size),
            );
        }
        if self.max_tokens < 4 || self.max_tokens > self.position_limit() {
            return value(
                "max_tokens",
                self.max_tokens.to_string(),
                format!("it must be from 4 to the {} positions of the model", self.position_limit()),
            );
        }
        self.check_head()?;
        self.form.check()?;
        if !(self.layer_norm_eps > 0.0 && self.layer_norm_eps < 1.0) {
            return value(
                "layer_norm_eps",
                self.layer_norm_eps.to_string(),
                "it must be between 0 and 1".into(),
            );
        }
        Ok(())
    }
}

impl EncoderConfig {
    fn check_head(&self) -> Result<(), ConfigError> {
        let value = |field, got: String, expected: String| Err(ConfigError::Value { field, got, expected });
        if self.head.len() > MOST_STEPS {
            return value(
                "dpr.head",
                format!("{} steps", self.head.len()),
                format!("at most {MOST_STEPS} are allowed"),
            );
        }
        for (_, layer) in dense_layers(&self.head, self.hidden_size) {
            if layer.output == 0 || layer.output as u64 > MAX_SIZE {
                let expected = format!("it must be from 1 to {MAX_SIZE}");
                return value("dpr.head: output of a dense layer", layer.output.to_string(), expected);
            }
        }
        if let Some(kept) = self.truncate
            && !(1..=self.head_width()).contains(&kept)
        {
            let expected = format!("it must be from 1 to the {} numbers of the model", self.head_width());
            return value("dpr.truncate", kept.to_string(), expected);
        }
        match self.l2 {
            Some(weight) if !(weight.is_finite() && weight > 0.0) => {
                value("dpr.l2", weight.to_string(), "it must be above 0".into())
            }
            _ => Ok(()),
        }
    }
}

/// Refuses the classes that make something else than vectors. A class of an unknown name is recognised by its
/// tensors.
fn check_architecture(root: &Value) -> Result<(), ConfigError> {
    let classes = root.get("architectures").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for class in classes.iter().filter_map(Value::as_str) {
        if let Some((_, what)) = OTHER_CLASSES.iter().find(|(end, _)| class.ends_with(end)) {
            return Err(ConfigError::Architecture { class: class.into(), what });
        }
    }
    Ok(())
}

/// Every token sees every other, and positions are added to the words; a model trained otherwise would give wrong
/// vectors.
fn check_attention(root: &Value) -> Result<(), ConfigError> {
    let value = |field, got: String, expected: &str| {
        Err(ConfigError::Value { field, got, expected: format!("{expected}: take another model") })
    };
    match root.get("position_embedding_type").and_then(Value::as_str) {
        None | Some("absolute") => {}
        Some(other) => {
            return value("position_embedding_type", format!("{other:?}"), "only \"absolute\" is supported");
        }
    }
    match root.get("is_decoder").and_then(Value::as_bool) {
        Some(true) => value("is_decoder", "true".into(), "only encoders are supported"),
        _ => Ok(()),
    }
}

fn size(root: &Value, field: &'static str, default: Option<u64>) -> Result<usize, ConfigError> {
    let got = match (root.get(field), default) {
        (None | Some(Value::Null), Some(default)) => default,
        (value, _) => {
            value.and_then(Value::as_u64).ok_or(ConfigError::Field { field, expected: "a whole number" })?
        }
    };
    if got == 0 || got > MAX_SIZE {
        return Err(ConfigError::Value {
            field,
            got: got.to_string(),
            expected: format!("it must be from 1 to {MAX_SIZE}"),
        });
    }
    Ok(got as usize)
}

fn index(root: &Value, field: &'static str, default: u32) -> Result<u32, ConfigError> {
    match root.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value
            .as_u64()
            .filter(|got| *got <= MAX_SIZE)
            .map(|got| got as u32)
            .ok_or(ConfigError::Field { field, expected: "a whole number up to 1048576" }),
    }
}

fn float(root: &Value, field: &'static str, default: f64) -> Result<f64, ConfigError> {
    match root.get(field) {
        None | Some(Value::Null) => Ok(default),
        Some(value) => value.as_f64().ok_or(ConfigError::Field { field, expected: "a number" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(extra: &str) -> String {
        format!(
            r#"{{"model_type":"bert","hidden_size":32,"num_hidden_layers":2,"num_attention_heads":4,
               "intermediate_size":64,"vocab_size":100,"max_position_embeddings":64{extra}}}"#
        )
    }

    fn dpr(extra: &str) -> String {
        json(&format!(r#","dpr":{{"pooling":"cls","normalize":false,"max_tokens":64,{extra}}}"#))
    }

    #[test]
    fn a_head_decides_the_size_of_the_vectors_and_a_section_reads_back() {
        let step = |output| format!(r#"{{"dense":{{"output":{output},"bias":false,"activation":"gelu"}}}}"#);
        let head = format!(r#""head":[{},"normalize",{}]"#, step(20), step(12));
        let text = dpr(&format!(
            r#"{head},"truncate":10,"l2":2.0,"prompts":{{"query":"q: "}},"title_join":"space""#
        ));
        let config = EncoderConfig::from_json(text.as_bytes()).unwrap();
        assert_eq!((config.head_width(), config.dim(), config.vector_dim()), (12, 10, 11));
        assert_eq!(config.coordinate(Side::Question, &[3.0, 4.0]), Some(2.0));
        assert_eq!(config.coordinate(Side::Passage, &[3.0, 4.0]), Some(-6.25));
        let widths: Vec<_> =
            dense_layers(&config.head, 32).map(|(input, layer)| (input, layer.output)).collect();
        assert_eq!(widths, [(32, 20), (20, 12)]);
        let mut again: Value = serde_json::from_str(&text).unwrap();
        again["dpr"] = serde_json::to_value(config.section()).unwrap();
        assert_eq!(EncoderConfig::from_json(again.to_string().as_bytes()).unwrap(), config);
        assert!(!config.is_first_format());

        let plain = EncoderConfig::from_json(json("").as_bytes()).unwrap();
        let section = serde_json::to_value(plain.section()).unwrap();
        assert_eq!(section, serde_json::json!({ "pooling": "cls", "normalize": false, "max_tokens": 64 }));
        assert!(plain.is_first_format() && plain.coordinate(Side::Passage, &[1.0]).is_none());
    }

    #[test]
    fn the_paper_s_pooling_is_the_default() {
        let config = EncoderConfig::from_json(json("").as_bytes()).unwrap();
        assert_eq!((config.pooling, config.normalize, config.max_tokens), (Pooling::Cls, false, 64));
        assert_eq!((config.dim(), config.layer_norm_eps, config.type_vocab_size), (32, 1e-12, 2));
    }

    #[test]
    fn mpnet_s_positions_start_after_the_pad_id() {
        let text = json("").replace("\"bert\"", "\"mpnet\"");
        let config = EncoderConfig::from_json(text.as_bytes()).unwrap();
        assert_eq!((config.pad_token_id, config.position_offset(), config.position_limit()), (1, 2, 62));
        assert_eq!((config.type_vocab_size, config.relative_attention_num_buckets), (0, 32));
    }

    #[test]
    fn what_encoders_of_texts_say_of_themselves_is_read() {
        for class in ["BertModel", "BertForMaskedLM", "BertForPreTraining", "DPRContextEncoder"] {
            let said = format!(
                r#","architectures":["{class}"],"position_embedding_type":"absolute","is_decoder":false"#
            );
            EncoderConfig::from_json(json(&said).as_bytes()).unwrap();
        }
    }

    #[test]
    fn each_bad_config_names_its_field() {
        let cases = [
            (json("").replace("bert", "roformer"), "roformer"),
            (json("").replace("\"hidden_size\":32,", ""), "hidden_size"),
            (json("").replace("\"num_attention_heads\":4", "\"num_attention_heads\":5"), "does not divide"),
            (json("").replace("\"hidden_size\":32", "\"hidden_size\":0"), "from 1 to"),
            (json(r#","hidden_act":"relu""#), "relu"),
            (json(r#","position_embedding_type":"relative_key_query""#), "relative_key_query"),
            (json(r#","is_decoder":true"#), "is_decoder is true"),
            (json(r#","architectures":["BertForSequenceClassification"]"#), "cross-encoder"),
            (json(r#","architectures":["BertForQuestionAnswering"]"#), "a reader"),
            (json(r#","architectures":["DPRReader"]"#), "a reader"),
            (json(r#","architectures":["BertForTokenClassification"]"#), "a tagger"),
            (json(r#","pad_token_id":100"#), "vocab_size is 100"),
            (json(r#","dpr":{"pooling":"attention"}"#), "last_token"),
            (json(r#","dpr":{"pooling":"max"}"#), "normalize"),
            (dpr(r#""later":1"#), "unknown field `later`"),
            (dpr(r#""head":["whiten"]"#), "whiten"),
            (dpr(r#""head":[{"dense":{"output":0,"bias":true,"activation":"tanh"}}]"#), "from 1 to"),
            (dpr(r#""head":[{"dense":{"output":4,"bias":true,"activation":"swish"}}]"#), "swish"),
            (
                dpr(r#""head":[{"dense":{"output":4,"bias":true,"activation":"tanh"}}],"truncate":5"#),
                "the 4 numbers",
            ),
            (dpr(r#""truncate":0"#), "dpr.truncate is 0"),
            (dpr(r#""l2":-1.0"#), "dpr.l2 is -1"),
            (dpr(r#""title_join":"{title}""#), "{text} once"),
            (json(r#","dpr":{"pooling":"cls","normalize":false,"max_tokens":65}"#), "64 positions"),
            ("[]".into(), "JSON object"),
            ("{".into(), "JSON object"),
        ];
        for (text, expected) in cases {
            let message = EncoderConfig::from_json(text.as_bytes()).unwrap_err().to_string();
            assert!(message.contains(expected), "{message:?} does not say {expected:?}");
        }
    }
}
