//! Errors of encoder configurations.

use crate::form::FormError;

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
        "config.json has the architecture {class:?}: {what}, not an encoder of texts; give a directory of an encoder alone, such as BertModel, XLMRobertaModel or DPRContextEncoder"
    )]
    Architecture {
        /// The architecture that the file names.
        class: String,
        /// The kind of model it is.
        what: &'static str,
    },
    /// The model is not a cross-encoder, or one of a class that is not supported.
    #[error(
        "config.json has the architectures {classes:?}; supported cross-encoders are {supported}: give the directory of one of these"
    )]
    NotACrossEncoder {
        /// The architectures that the file names, joined; empty where it names none.
        classes: String,
        /// The classes that are read, joined.
        supported: String,
    },
    /// The model is not a reader, or one of a class that is not supported.
    #[error(
        "config.json has the architectures {classes:?}; supported readers are {supported}: give the directory of one of these"
    )]
    NotAReader {
        /// The architectures that the file names, joined; empty where it names none.
        classes: String,
        /// The classes that are read, joined.
        supported: String,
    },
    /// A classifier of another number of labels than one.
    #[error(
        "config.json has {got} labels, and a cross-encoder that re-ranks has one, the score of a pair (num_labels 1): take a model of one label, such as cross-encoder/ms-marco-MiniLM-L6-v2"
    )]
    Labels {
        /// Number of labels; 2 where the file says none, as in transformers.
        got: u64,
    },
    /// A field that the encoder needs is absent or of the wrong type.
    #[error(
        "config.json: field {field:?} is missing or not {expected}; take the config.json that belongs to the weights"
    )]
    Field {
        /// Name of the field.
        field: &'static str,
        /// The expected type or content of the field.
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
    #[error(
        "config.json: {field} is {got}, {expected}; take the config.json that belongs to the weights, or another model"
    )]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        got: String,
        /// The limit.
        expected: String,
    },
}
