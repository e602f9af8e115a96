//! Configurations of readers: which classes of transformers are read, and the input and the layers that each has.

use serde_json::Value;

use crate::config::{ConfigError, EncoderConfig, Family, Pooling};
use crate::form::{FormError, TextForm, TitleJoin};
use crate::head::{Activation, DenseLayer, HeadStep};
use crate::names;
use crate::pair::classes;
use crate::tokenizer::Layout;
use crate::weights::{StoredTensor, TensorMap, WeightsError};

/// Tokens that an input is cut to where the model has as many positions (paper §6.1).
const DEFAULT_TOKENS: usize = 350;

/// The layer that scores starts and ends, without `.weight` and `.bias`.
pub(super) const SPANS: &str = "qa_outputs";
/// The layer that scores passages.
pub(super) const SELECTION: &str = "qa_classifier";

/// A class of transformers that marks answers.
#[derive(Debug, PartialEq)]
struct Class {
    name: &'static str,
    family: Family,
    /// Beginning of the names of the encoder's tensors.
    encoder: &'static str,
    /// Beginning of the names of the layers after it.
    head: &'static str,
    layout: Layout,
}

const fn class(name: &'static str, family: Family, encoder: &'static str) -> Class {
    Class { name, family, encoder, head: "", layout: Layout::Pair }
}

const CLASSES: [Class; 8] = [
    Class {
        name: "DPRReader",
        family: Family::Bert,
        encoder: "span_predictor.encoder.bert_model.",
        head: "span_predictor.",
        layout: Layout::Paper,
    },
    class("BertForQuestionAnswering", Family::Bert, "bert."),
    class("RobertaForQuestionAnswering", Family::Roberta, "roberta."),
    class("XLMRobertaForQuestionAnswering", Family::Roberta, "roberta."),
    class("CamembertForQuestionAnswering", Family::Roberta, "roberta."),
    class("ElectraForQuestionAnswering", Family::Bert, "electra."),
    class("DistilBertForQuestionAnswering", Family::Distilbert, "distilbert."),
    class("MPNetForQuestionAnswering", Family::Mpnet, "mpnet."),
];

/// Returns the error for a file that names `classes`.
fn unsupported(classes: String) -> ConfigError {
    ConfigError::NotAReader { classes, supported: CLASSES.map(|class| class.name).join(", ") }
}

/// A reader: an encoder, and the layers that score starts, ends and passages by its states.
#[derive(Clone, Debug, PartialEq)]
pub struct ReaderConfig {
    encoder: EncoderConfig,
    class: &'static Class,
}

impl ReaderConfig {
    /// Reads the `config.json` of `DPRReader`, or of a class `…ForQuestionAnswering` of BERT, RoBERTa, XLM-R,
    /// CamemBERT, ELECTRA, DistilBERT or MPNet.
    ///
    /// Without a `dpr` section, an input may have 350 tokens, or as many as there are positions. The title stands
    /// before the text in `DPRReader`; the other classes, which are trained on paragraphs, are given the text alone.
    ///
    /// # Errors
    /// [`ConfigError`] names the field, its value and what it should be.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ConfigError> {
        let (mut encoder, root) = EncoderConfig::read(bytes, |root| class_of(root).map(drop))?;
        let class = class_of(&root)?;
        if class.family != encoder.family {
            return Err(unsupported(classes(&root)));
        }
        if encoder.projection_dim > 0 {
            return Err(ConfigError::Value {
                field: "projection_dim",
                got: encoder.projection_dim.to_string(),
                expected: "and a reader has no projection: it must be 0".into(),
            });
        }
        let paper = class.layout == Layout::Paper;
        let plain = EncoderConfig {
            pooling: Pooling::Cls,
            head: Vec::new(),
            truncate: None,
            normalize: false,
            l2: None,
            one_type: paper || encoder.one_type,
            form: if paper { TextForm::default() } else { encoder.form.clone() },
            ..encoder.clone()
        };
        if root.get("dpr").is_none() {
            encoder = plain;
            encoder.max_tokens = DEFAULT_TOKENS.min(encoder.position_limit());
            if !paper {
                encoder.form.join = TitleJoin::text_alone();
            }
        } else if encoder != plain {
            let reason = format!("it does not say what the input and the layers of {} are", class.name);
            return Err(ConfigError::Section(reason));
        }
        Ok(Self { encoder, class })
    }

    /// Returns the encoder, whose states are scored.
    pub fn encoder(&self) -> &EncoderConfig {
        &self.encoder
    }

    /// Returns the encoder with a dense layer of three outputs, `dense.0`: start, end and selection of every token. It
    /// is what training differentiates. The first two rows are `qa_outputs`, the third is `qa_classifier`.
    pub fn trained_encoder(&self) -> EncoderConfig {
        let layer = DenseLayer { output: 3, bias: true, activation: Activation::Identity };
        EncoderConfig { head: vec![HeadStep::Dense(layer)], ..self.encoder.clone() }
    }

    /// Returns whether the model scores passages by a layer of its own (`qa_classifier`, of `DPRReader`). Passages are
    /// chosen by their best spans otherwise.
    pub fn has_selection(&self) -> bool {
        self.class.layout == Layout::Paper
    }

    pub(super) fn layout(&self) -> Layout {
        self.class.layout
    }

    /// Returns the same with another limit of tokens, brought into the range that the model has.
    #[must_use]
    pub fn with_max_tokens(mut self, limit: usize) -> Self {
        self.encoder.max_tokens = limit.clamp(4, self.encoder.position_limit());
        self
    }

    /// Returns the same for inputs whose tokens are all of type 0; see [`EncoderConfig::one_type`]. Those of a
    /// `DPRReader` always are.
    #[must_use]
    pub fn with_one_type(mut self, one_type: bool) -> Self {
        self.encoder.one_type = one_type || self.class.layout == Layout::Paper;
        self
    }

    /// Returns the same with another title join.
    ///
    /// # Errors
    /// [`FormError::Fixed`] for a `DPRReader`, whose input the paper defines.
    pub fn with_title_join(mut self, join: TitleJoin) -> Result<Self, ConfigError> {
        if self.class.layout == Layout::Paper && !join.is_separator() {
            return Err(FormError::Fixed(join.into()).into());
        }
        self.encoder.form.join = join;
        Ok(self)
    }

    /// Takes every tensor of the model out of `tensors` and returns them as `(name, shape, numbers)`, under the names
    /// by which transformers stores them.
    ///
    /// # Errors
    /// [`WeightsError`] names the first tensor that is missing, misshapen, of an unsupported type or not finite.
    pub fn take_tensors(&self, tensors: &mut TensorMap) -> Result<Vec<StoredTensor>, WeightsError> {
        let of_encoder = names::tensors(&self.encoder).into_iter();
        let of_encoder = of_encoder.map(|(name, shape)| (self.class.encoder, name, shape));
        let of_head = self.head_tensors().into_iter();
        let of_head = of_head.map(|(name, shape)| (self.class.head, name, shape));
        let taken = of_encoder.chain(of_head).map(|(prefix, name, shape)| {
            let values = tensors.take_f32(&name, &shape)?;
            Ok((format!("{prefix}{name}"), shape, values))
        });
        taken.collect()
    }

    /// Returns the tensors of the layers after the encoder, and their shapes.
    fn head_tensors(&self) -> Vec<(String, Vec<usize>)> {
        let layers = [(SPANS, 2), (SELECTION, 1)].into_iter().take(1 + usize::from(self.has_selection()));
        let hidden = self.encoder.hidden_size;
        let tensors = layers.flat_map(|(name, outputs)| {
            [(format!("{name}.weight"), vec![outputs, hidden]), (format!("{name}.bias"), vec![outputs])]
        });
        tensors.collect()
    }
}

/// Returns the class of a `config.json`, which must be the only one that it names.
fn class_of(root: &Value) -> Result<&'static Class, ConfigError> {
    let classes = classes(root);
    CLASSES.iter().find(|class| class.name == classes).ok_or_else(|| unsupported(classes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bert(class: &str) -> Value {
        let model_type = if class == "DPRReader" { "dpr" } else { "bert" };
        json!({"model_type": model_type, "architectures": [class], "hidden_size": 32, "num_hidden_layers": 2,
            "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 100, "max_position_embeddings": 512})
    }

    fn read(value: &Value) -> Result<ReaderConfig, String> {
        ReaderConfig::from_json(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_input_is_that_of_its_class_and_reads_back_from_its_section() {
        for (class, selection) in [("DPRReader", true), ("BertForQuestionAnswering", false)] {
            let config = read(&bert(class)).unwrap();
            let encoder = config.encoder();
            assert_eq!(
                (config.has_selection(), encoder.one_type, encoder.max_tokens),
                (selection, selection, 350)
            );
            assert_eq!(encoder.form.join.is_separator(), selection);
            let changed = config.clone().with_max_tokens(48).with_one_type(true);
            let mut ours = bert(class);
            ours["dpr"] = json!(changed.encoder().section());
            assert_eq!(read(&ours).unwrap(), changed);
            assert_eq!(changed.with_max_tokens(1000).encoder().max_tokens, 512);
            let joined = config.with_title_join(TitleJoin::Space).map_err(|error| error.to_string());
            match selection {
                true => assert!(joined.unwrap_err().contains("takes \"separator\" alone")),
                false => assert_eq!(joined.unwrap().encoder().form.join, TitleJoin::Space),
            }
        }
        let mut short = bert("DPRReader");
        short["max_position_embeddings"] = json!(64);
        assert_eq!(read(&short).unwrap().encoder().max_tokens, 64);
    }

    #[test]
    fn each_bad_config_names_its_field() {
        let edited = |class: &str, field: &str, value: Value| {
            let mut config = bert(class);
            config[field] = value;
            config
        };
        let section = |pooling: &str, join: &str| {
            json!({"pooling": pooling, "normalize": false, "max_tokens": 64, "title_join": join,
                "one_type": true})
        };
        let cases = [
            (bert("BertModel"), "\"BertModel\"; supported readers are DPRReader, "),
            (bert("BertForSequenceClassification"), "\"BertForSequenceClassification\"; supported readers"),
            (bert("DebertaV2ForQuestionAnswering"), "supported readers are"),
            (bert("RobertaForQuestionAnswering"), "\"RobertaForQuestionAnswering\""),
            (edited("DPRReader", "architectures", Value::Null), "architectures \"\""),
            (edited("DPRReader", "projection_dim", json!(16)), "projection_dim is 16"),
            (edited("DPRReader", "hidden_size", json!(0)), "hidden_size is 0"),
            (edited("DPRReader", "model_type", json!("t5")), "\"t5\""),
            (edited("DPRReader", "dpr", section("mean", "separator")), "the layers of DPRReader"),
            (edited("DPRReader", "dpr", section("cls", "space")), "the layers of DPRReader"),
            (
                edited("BertForQuestionAnswering", "dpr", section("pooler", "space")),
                "the layers of BertForQuestionAnswering",
            ),
        ];
        for (value, expected) in cases {
            let message = read(&value).unwrap_err();
            assert!(message.contains(expected), "{message:?} does not say {expected:?}");
        }
    }
}
