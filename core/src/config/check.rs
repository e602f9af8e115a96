//! Checks of an encoder's configuration: the class, the attention, the sizes.

use serde_json::Value;

use super::fields::MAX_SIZE;
use super::{ConfigError, EncoderConfig};
use crate::head::dense_layers;

/// The most steps that a head may have.
const MOST_STEPS: usize = 32;

/// Classes of models that do not make a vector of a text, by the end of their names, and what they make.
const OTHER_CLASSES: [(&str, &str); 7] = [
    (
        "ForSequenceClassification",
        "a classifier or cross-encoder, which scores a text or a pair of texts (one of a single score is imported as a cross-encoder, to re-rank)",
    ),
    ("ForQuestionAnswering", "a reader, which marks the answer in a passage (it is imported as a reader)"),
    ("Reader", "a reader, which marks the answer in a passage (it is imported as a reader)"),
    ("ForTokenClassification", "a tagger, which labels each token"),
    ("ForMultipleChoice", "a model that chooses among texts"),
    ("ForNextSentencePrediction", "a model that says whether one sentence follows another"),
    ("LMHeadModel", "a language model, which writes the next word"),
];

impl EncoderConfig {
    /// Refuses sizes that do not fit each other.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
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

    /// Refuses a head without an output, or one that keeps more numbers than it makes.
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
pub(super) fn architecture(root: &Value) -> Result<(), ConfigError> {
    let classes = root.get("architectures").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for class in classes.iter().filter_map(Value::as_str) {
        if let Some((_, what)) = OTHER_CLASSES.iter().find(|(end, _)| class.ends_with(end)) {
            return Err(ConfigError::Architecture { class: class.into(), what });
        }
    }
    Ok(())
}

/// Refuses attention or positions of another kind than the families': they would give wrong vectors without an error.
pub(super) fn attention(root: &Value) -> Result<(), ConfigError> {
    let value = |field, got: String, expected: &str| {
        Err(ConfigError::Value { field, got, expected: expected.into() })
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
