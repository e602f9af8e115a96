//! Configurations of cross-encoders: which classes of transformers are read, and the head that each has.

use serde_json::Value;

use crate::config::{ConfigError, EncoderConfig, Family, Pooling};
use crate::form::{TextForm, TitleJoin};
use crate::head::{Activation, DenseLayer, HeadStep, dense_name};
use crate::names;
use crate::pair::classes;
use crate::weights::{StoredTensor, TensorMap, WeightsError};

/// A class of transformers that scores pairs.
#[derive(Debug, PartialEq)]
struct Class {
    name: &'static str,
    family: Family,
    /// Beginning of the names of the encoder's tensors.
    prefix: &'static str,
    pooling: Pooling,
    /// The layers after pooling, by their names in the files; the last one makes the score.
    layers: &'static [(&'static str, Activation)],
}

const fn class(
    name: &'static str,
    family: Family,
    prefix: &'static str,
    pooling: Pooling,
    layers: &'static [(&'static str, Activation)],
) -> Class {
    Class { name, family, prefix, pooling, layers }
}

/// Layers of RoBERTa's head, which MPNet's is too.
const TANH: &[(&str, Activation)] =
    &[("classifier.dense", Activation::Tanh), ("classifier.out_proj", Activation::Identity)];
const GELU: &[(&str, Activation)] =
    &[("classifier.dense", Activation::Gelu), ("classifier.out_proj", Activation::Identity)];
const RELU: &[(&str, Activation)] =
    &[("pre_classifier", Activation::Relu), ("classifier", Activation::Identity)];
const PLAIN: &[(&str, Activation)] = &[("classifier", Activation::Identity)];

const CLASSES: [Class; 7] = [
    class("BertForSequenceClassification", Family::Bert, "bert", Pooling::Pooler, PLAIN),
    class("RobertaForSequenceClassification", Family::Roberta, "roberta", Pooling::Cls, TANH),
    class("XLMRobertaForSequenceClassification", Family::Roberta, "roberta", Pooling::Cls, TANH),
    class("CamembertForSequenceClassification", Family::Roberta, "roberta", Pooling::Cls, TANH),
    class("ElectraForSequenceClassification", Family::Bert, "electra", Pooling::Cls, GELU),
    class("DistilBertForSequenceClassification", Family::Distilbert, "distilbert", Pooling::Cls, RELU),
    class("MPNetForSequenceClassification", Family::Mpnet, "mpnet", Pooling::Cls, TANH),
];

/// Returns the error for a file that names `classes`.
fn unsupported(classes: String) -> ConfigError {
    ConfigError::NotACrossEncoder { classes, supported: CLASSES.map(|class| class.name).join(", ") }
}

/// A cross-encoder: an encoder, and the head that makes a score of its states.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossEncoderConfig {
    encoder: EncoderConfig,
    class: &'static Class,
}

impl CrossEncoderConfig {
    /// Reads the `config.json` of a class `…ForSequenceClassification` of one label: of BERT, RoBERTa, XLM-R,
    /// CamemBERT, ELECTRA, DistilBERT or MPNet.
    ///
    /// Without a `dpr` section, a pair may have as many tokens as there are positions, and a title stands before its
    /// text with a space between, as the makers of rerankers join them.
    ///
    /// # Errors
    /// [`ConfigError`] names the field, its value and what it should be.
    pub fn from_json(bytes: &[u8]) -> Result<Self, ConfigError> {
        let (mut encoder, root) = EncoderConfig::read(bytes, |root| class_of(root).map(drop))?;
        let class = class_of(&root)?;
        if class.family != encoder.family {
            return Err(unsupported(classes(&root)));
        }
        let got = labels(&root);
        if got != 1 {
            return Err(ConfigError::Labels { got });
        }
        let last = class.layers.len() - 1;
        let steps = class.layers.iter().enumerate().map(|(index, (_, activation))| {
            let output = if index == last { 1 } else { encoder.hidden_size };
            HeadStep::Dense(DenseLayer { output, bias: true, activation: *activation })
        });
        let plain = EncoderConfig {
            pooling: class.pooling,
            head: steps.collect(),
            truncate: None,
            normalize: false,
            l2: None,
            projection_dim: 0,
            ..encoder.clone()
        };
        if root.get("dpr").is_none() {
            encoder = plain;
            encoder.form.join = TitleJoin::Space;
        } else if encoder != plain {
            let reason = format!("it does not say what the head of {} is", class.name);
            return Err(ConfigError::Section(reason));
        }
        Ok(Self { encoder, class })
    }

    /// Returns the encoder, whose head ends in one number.
    pub fn encoder(&self) -> &EncoderConfig {
        &self.encoder
    }

    /// Returns the same with another limit of tokens, brought into the range that the model has.
    #[must_use]
    pub fn with_max_tokens(mut self, limit: usize) -> Self {
        self.encoder.max_tokens = limit.clamp(4, self.encoder.position_limit());
        self
    }

    /// Returns the same for pairs whose tokens are all of type 0; see [`EncoderConfig::one_type`].
    #[must_use]
    pub fn with_one_type(mut self, one_type: bool) -> Self {
        self.encoder.one_type = one_type;
        self
    }

    /// Returns the same with other prompts and another title join.
    ///
    /// # Errors
    /// [`ConfigError::Form`] when a prompt is too long.
    pub fn with_form(mut self, form: TextForm) -> Result<Self, ConfigError> {
        form.check()?;
        self.encoder.form = form;
        Ok(self)
    }

    /// Takes every tensor of the model out of `tensors` and returns them as `(name, shape, numbers)`, under the names
    /// by which transformers stores them.
    ///
    /// # Errors
    /// [`WeightsError`] names the first tensor that is missing, misshapen, of an unsupported type or not finite.
    pub fn take_tensors(&self, tensors: &mut TensorMap) -> Result<Vec<StoredTensor>, WeightsError> {
        self.rename_head(tensors)?;
        let taken = names::tensors(&self.encoder).into_iter().map(|(name, shape)| {
            let values = tensors.take_f32(&name, &shape);
            let values = values.map_err(|error| error.renamed(|name| self.name_in_files(name)))?;
            Ok((self.stored_name(&name), shape, values))
        });
        taken.collect()
    }

    /// Gives the tensors of the head, `classifier.weight` and so on, the names by which the engines take them.
    ///
    /// # Errors
    /// [`WeightsError::Duplicate`] when there are tensors of these names too.
    pub fn rename_head(&self, tensors: &mut TensorMap) -> Result<(), WeightsError> {
        for (index, (name, _)) in self.class.layers.iter().enumerate() {
            tensors.rename_layer(name, &dense_name(index))?;
        }
        Ok(())
    }

    /// Returns the name of a tensor in the files of this class without the encoder's prefix: for the layers of the head
    /// their own names, for all others the same name.
    pub fn name_in_files(&self, name: &str) -> String {
        let mut layers = self.class.layers.iter().enumerate();
        let own = layers.find_map(|(index, (layer, _))| {
            Some(format!("{layer}.{}", name.strip_prefix(&dense_name(index))?.strip_prefix('.')?))
        });
        own.unwrap_or_else(|| name.to_owned())
    }

    /// Returns the name under which transformers stores a tensor of this class, as `bert.embeddings.LayerNorm.bias` or
    /// `classifier.weight`.
    fn stored_name(&self, name: &str) -> String {
        let own = self.name_in_files(name);
        if own == name { format!("{}.{name}", self.class.prefix) } else { own }
    }
}

/// Returns the class of a `config.json`, which must be the only one that it names.
fn class_of(root: &Value) -> Result<&'static Class, ConfigError> {
    let classes = classes(root);
    CLASSES.iter().find(|class| class.name == classes).ok_or_else(|| unsupported(classes))
}

/// Returns the number of labels as transformers reads it.
fn labels(root: &Value) -> u64 {
    match root.get("id2label").and_then(Value::as_object) {
        Some(labels) => labels.len() as u64,
        None => root.get("num_labels").and_then(Value::as_u64).unwrap_or(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn bert() -> Value {
        json!({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"},
            "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
            "vocab_size": 100, "max_position_embeddings": 64})
    }

    fn read(value: &Value) -> Result<CrossEncoderConfig, String> {
        CrossEncoderConfig::from_json(value.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_head_is_that_of_its_class_and_reads_back_from_its_section() {
        let config = read(&bert()).unwrap();
        let encoder = config.encoder();
        assert_eq!((encoder.pooling, encoder.vector_dim(), encoder.max_tokens), (Pooling::Pooler, 1, 64));
        assert_eq!(encoder.form.join, TitleJoin::Space);
        assert_eq!(config.stored_name("dense.0.weight"), "classifier.weight");
        assert_eq!(config.stored_name("pooler.dense.bias"), "bert.pooler.dense.bias");

        let mut electra = bert();
        electra["model_type"] = json!("electra");
        electra["embedding_size"] = json!(32);
        electra["architectures"] = json!(["ElectraForSequenceClassification"]);
        let electra = read(&electra).unwrap();
        assert_eq!((electra.encoder().pooling, electra.encoder().head.len()), (Pooling::Cls, 2));
        assert_eq!(electra.stored_name("dense.1.bias"), "classifier.out_proj.bias");
        assert_eq!(electra.stored_name("embeddings.LayerNorm.bias"), "electra.embeddings.LayerNorm.bias");

        let form = TextForm { join: TitleJoin::Separator, ..TextForm::default() };
        let changed = config.with_max_tokens(16).with_form(form).unwrap();
        let mut ours = bert();
        ours["dpr"] = serde_json::to_value(changed.encoder().section()).unwrap();
        assert_eq!(read(&ours).unwrap(), changed);
        assert_eq!(changed.with_max_tokens(1000).encoder().max_tokens, 64);
    }

    #[test]
    fn each_bad_config_names_its_field() {
        let edited = |change: &dyn Fn(&mut Value)| {
            let mut value = bert();
            change(&mut value);
            value
        };
        let section = |pooling: &str| json!({"pooling": pooling, "normalize": false, "max_tokens": 64});
        let cases = [
            (edited(&|c| c["id2label"] = json!({"0": "no", "1": "yes"})), "has 2 labels"),
            (edited(&|c| c["id2label"] = json!({})), "has 0 labels"),
            (edited(&|c| c["id2label"] = Value::Null), "has 2 labels"),
            (
                edited(&|c| c["architectures"] = json!(["BertModel"])),
                "\"BertModel\"; supported cross-encoders are",
            ),
            (edited(&|c| c["architectures"] = Value::Null), "architectures \"\""),
            (
                edited(&|c| c["architectures"] = json!(["ModernBertForSequenceClassification"])),
                "supported cross-encoders are BertForSequenceClassification, ",
            ),
            (
                edited(&|c| c["architectures"] = json!(["RobertaForSequenceClassification"])),
                "\"RobertaForSequenceClassification\"",
            ),
            (edited(&|c| c["model_type"] = json!("deberta-v2")), "deberta-v2"),
            (edited(&|c| c["hidden_size"] = json!(0)), "hidden_size is 0"),
            (edited(&|c| c["dpr"] = section("cls")), "the head of BertForSequenceClassification"),
            (edited(&|c| c["dpr"] = section("pooler")), "the head of BertForSequenceClassification"),
        ];
        for (value, expected) in cases {
            let message = read(&value).unwrap_err();
            assert!(message.contains(expected), "{message:?} does not say {expected:?}");
        }
        let said = edited(&|c| {
            c["id2label"] = Value::Null;
            c["num_labels"] = json!(1);
        });
        read(&said).unwrap();
    }
}
