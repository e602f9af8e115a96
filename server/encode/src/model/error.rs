//! Errors of model directories: reading, importing, exporting.

use std::path::{Path, PathBuf};

use dpr_core::{DeviceError, LoadError, Similarity};

use super::{MANIFEST, TorchError, WEB_DIR, WEB_MANIFEST};

/// The reason why a model cannot be read, imported or exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file cannot be read or written; the message names it.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The directory has no `model.json`.
    #[error("{0} is not a model directory: it has no model.json")]
    NotAModel(PathBuf),
    /// A cross-encoder where encoders are needed.
    #[error(
        "{0} holds a cross-encoder, which gives a pair of a question and a passage a score and makes no vectors: give a model directory of encoders"
    )]
    IsCrossEncoder(PathBuf),
    /// Something else where a cross-encoder is needed.
    #[error("{path}: {what}; give a cross-encoder")]
    NotACrossEncoder {
        /// The directory, or the file that says it.
        path: PathBuf,
        /// The kind of model that it is.
        what: String,
    },
    /// A reader where encoders are needed.
    #[error(
        "{0} holds a reader, which marks the answer in passages and makes no vectors: give a model directory of encoders"
    )]
    IsReader(PathBuf),
    /// Something else where a reader is needed.
    #[error("{path}: {what}; give a reader")]
    NotAReader {
        /// The directory.
        path: PathBuf,
        /// The content of the directory.
        what: String,
    },
    /// `model.json` is damaged.
    #[error("{path}: {reason}; {}", again(path))]
    Manifest {
        /// The manifest's path.
        path: PathBuf,
        /// The fault that was found in it.
        reason: String,
    },
    /// Written by a newer version.
    #[error("{path} has format {got}, this version reads up to {supported}: use a newer dpr")]
    Newer {
        /// The manifest's path.
        path: PathBuf,
        /// Its format.
        got: u32,
        /// The newest format read here.
        supported: u32,
    },
    /// A file is not the one that the manifest names.
    #[error("{path} is damaged: its {what} is {got}, {} says {expected}; {}", manifest_of(path), again(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// `size` or `sha256`.
        what: &'static str,
        /// As found.
        got: String,
        /// As it should be.
        expected: String,
    },
    /// Weights in 4 bits cannot be calibrated.
    #[error("{dir} cannot be calibrated: {reason}")]
    Calibration {
        /// The folder of the encoder.
        dir: PathBuf,
        /// The cause, and what to do.
        reason: String,
    },
    /// A Hugging Face directory lacks a file.
    #[error("{dir} has no {file}: {fix}")]
    MissingFile {
        /// The directory.
        dir: PathBuf,
        /// The file looked for.
        file: &'static str,
        /// Advice for the user.
        fix: &'static str,
    },
    /// A file of `torch.save` cannot be read.
    #[error("{path}: {source}")]
    Torch {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        source: TorchError,
    },
    /// A JSON file of a Hugging Face directory is damaged.
    #[error("{path}: {reason}; fetch the model again")]
    Json {
        /// The file.
        path: PathBuf,
        /// The fault that was found in it.
        reason: String,
    },
    /// A module of sentence-transformers that is not computed here, or not at its place.
    #[error(
        "{path}: the module {name} ({class} in {folder:?}) is not supported here, and without it the vectors would not be the model's; supported are a Transformer, then Pooling, then Dense and Normalize in any order: import a model of these"
    )]
    Module {
        /// `modules.json`, or the module's folder where that is missing.
        path: PathBuf,
        /// Its name, as `Dense`.
        name: String,
        /// Its class, with the package.
        class: String,
        /// Its folder.
        folder: String,
    },
    /// A way of pooling that is not computed here.
    #[error(
        "{path}: pooling is {modes:?}, supported are \"cls\", \"mean\", \"max\", \"lasttoken\", \"weightedmean\" and \"mean_sqrt_len_tokens\", one of them: import a model that is pooled so, or name one of them for it (the vectors are then not the model's)"
    )]
    Pooling {
        /// The file that says it.
        path: PathBuf,
        /// The modes it names, joined; empty for none.
        modes: String,
    },
    /// A setting of a Dense module that is not computed here.
    #[error("{path}: {what}, and without it the vectors would not be the model's: import a model without it")]
    Dense {
        /// The module's config.json.
        path: PathBuf,
        /// The setting.
        what: String,
    },
    /// Pooling that leaves out the tokens of the prompt.
    #[error(
        "{0}: include_prompt is false, and the model has a prompt: leaving the prompt's tokens out of the pooling is not supported here; import the model without prompts (empty ones), if its vectors may be others"
    )]
    PromptLeftOut(PathBuf),
    /// A similarity that no index ranks by.
    #[error(
        "{path}: similarity_fn_name is {name:?}, supported are \"cosine\", \"dot\" and \"euclidean\": name one of them for the model (the ranking is then not the one it was trained for)"
    )]
    SimilarityName {
        /// The file that says it.
        path: PathBuf,
        /// The value.
        name: String,
    },
    /// Cosine without length 1.
    #[error(
        "the similarity is cosine, which scales vectors to length 1, and scaling was turned off: leave one of them out"
    )]
    CosineUnscaled,
    /// Narrower vectors of a model that was not trained for them.
    #[error(
        "{dir} does not say that it was trained for vectors of fewer numbers (truncate_dim of config_sentence_transformers.json, matryoshka_dimensions or is_matryoshka of config.json): the first {dim} of its {full} numbers would rank badly; if it was trained so (Matryoshka), say that when it is imported"
    )]
    NotMatryoshka {
        /// The encoder's directory.
        dir: PathBuf,
        /// The numbers asked for.
        dim: usize,
        /// The numbers it makes.
        full: usize,
    },
    /// More numbers than the model makes, or fewer than one.
    #[error("{dir} makes vectors of {full} numbers, and {dim} were asked for: ask for 1 to {full}")]
    Truncate {
        /// The encoder's directory.
        dir: PathBuf,
        /// The numbers asked for.
        dim: usize,
        /// The numbers it makes.
        full: usize,
    },
    /// Narrower vectors of a model that has none of its own.
    #[error("{dir} makes vectors of {has} numbers, and they are not cut to {dim}: {reason}")]
    Narrower {
        /// The model directory.
        dir: PathBuf,
        /// The numbers asked for.
        dim: usize,
        /// The numbers of its vectors.
        has: usize,
        /// Why, and what to do.
        reason: &'static str,
    },
    /// A prompt that leaves no room for a text.
    #[error(
        "the prompt of {what} takes {tokens} tokens with the special ones, and {what} are truncated to {limit}: shorten it, or raise the limit"
    )]
    PromptFills {
        /// `questions` or `passages`.
        what: &'static str,
        /// The prompt's tokens.
        tokens: usize,
        /// The limit.
        limit: usize,
    },
    /// The two encoders are compared in different ways.
    #[error(
        "the question encoder says {question:?} and the passage encoder {passage:?} of how vectors are compared: name one similarity for both"
    )]
    Similarities {
        /// Similarity of the question encoder.
        question: Similarity,
        /// Similarity of the passage encoder.
        passage: Similarity,
    },
    /// One of the two encoders scales its vectors, and the other does not.
    #[error(
        "the question encoder says {question} and the passage encoder {passage} of whether vectors are scaled to length 1: say one for both"
    )]
    Lengths {
        /// `true` if the question encoder scales its vectors to length 1.
        question: bool,
        /// `true` if the passage encoder scales its vectors to length 1.
        passage: bool,
    },
    /// A model of sentence-transformers that does not make one vector of a text.
    #[error("{path}: the model is {what}; give the directory of a SentenceTransformer")]
    NotAnEncoder {
        /// The file that says it.
        path: PathBuf,
        /// The kind of model that it is.
        what: String,
    },
    /// Texts are lowercased by sentence-transformers, but not by the tokenizer.
    #[error(
        "{0}: sentence_bert_config.json has do_lower_case, and tokenizer.json keeps upper case: load and save the model with sentence-transformers 6, which puts it into tokenizer.json"
    )]
    Lowercase(PathBuf),
    /// Something in an encoder's directory does not fit; names the directory.
    #[error("{dir}: {source}")]
    Encoder {
        /// The encoder's directory.
        dir: PathBuf,
        /// The error of the files.
        source: LoadError,
    },
    /// The requested device is not available.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The two encoders make vectors that cannot be compared.
    #[error(
        "the question encoder makes vectors of {question} numbers and the passage encoder of {passage}: they must be equal; does one of them lack its projection?"
    )]
    Dimensions {
        /// Size of the question encoder's vectors.
        question: usize,
        /// Size of the passage encoder's vectors.
        passage: usize,
    },
    /// A second projection for a model that has one.
    #[error("{dir} already has a projection to {has} numbers: it takes no other")]
    Projected {
        /// The encoder's directory.
        dir: PathBuf,
        /// Its projection's size.
        has: usize,
    },
    /// Narrower vectors of a model that has a projection.
    #[error("{dir} has a projection to {has} numbers, and projected vectors are not cut, here to {dim}")]
    ProjectedCut {
        /// The encoder's directory.
        dir: PathBuf,
        /// Its projection's size.
        has: usize,
        /// The numbers asked for.
        dim: usize,
    },
    /// A limit of tokens that the encoder cannot have.
    #[error("{what} is {got}; {dir} takes from 4 to {limit} tokens")]
    Tokens {
        /// Which texts the limit is for.
        what: &'static str,
        /// Its value.
        got: usize,
        /// The encoder's directory.
        dir: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The output exists.
    #[error("{0} exists, and is replaced only if that is asked for")]
    Exists(PathBuf),
    /// The output exists, and is not what may be replaced.
    #[error("{} is not replaced: {why}", out.display())]
    NotReplaced {
        /// The output.
        out: PathBuf,
        /// What it is, or holds.
        why: String,
    },
    /// A tokenizer that cannot have fewer tokens.
    #[error("{path}: {reason}; keep the whole vocabulary")]
    Vocabulary {
        /// The tokenizer's file.
        path: PathBuf,
        /// The part of it that is not known.
        reason: String,
    },
    /// A limit below the tokens that every text needs.
    #[error(
        "the encoder of {dir} needs {fewest} tokens at least, more than the {most} that are to be kept: keep more"
    )]
    FewTokens {
        /// The encoder's directory.
        dir: PathBuf,
        /// The limit.
        most: usize,
        /// The tokens that it needs.
        fewest: usize,
    },
    /// More layers than there are, or none.
    #[error("{dir} has {has} layers, and {asked} are to be kept: name a number from 1 to {has}")]
    Layers {
        /// The encoder's directory.
        dir: PathBuf,
        /// The number asked for.
        asked: usize,
        /// The number it has.
        has: usize,
    },
    /// More feed-forward units in a layer than there are, or none.
    #[error(
        "the feed-forward layers of {dir} have {has} units, and {asked} are to be kept: name a number from 1 to {has}"
    )]
    Units {
        /// The encoder's directory.
        dir: PathBuf,
        /// The number asked for.
        asked: usize,
        /// The number each layer has.
        has: usize,
    },
    /// An encoder with layers of several kinds, none of which can be left out.
    #[error(
        "the layers of {0} alternate between local and global attention, so none can be left out: keep all of them"
    )]
    UnlikeLayers(PathBuf),
    /// `web/` was made from other weights.
    #[error("{0} was exported from another model: export it again")]
    StaleExport(PathBuf),
}

impl ModelError {
    /// Returns a function that adds the encoder's directory to an error about its files.
    pub(super) fn in_dir<E: Into<LoadError>>(dir: &std::path::Path) -> impl FnOnce(E) -> Self {
        move |source| Self::Encoder { dir: dir.to_owned(), source: source.into() }
    }
}

/// Returns whether a file is of the weights for pages, which are exported of the model.
fn is_exported(path: &Path) -> bool {
    let is_in_web = path.parent().and_then(Path::file_name).is_some_and(|folder| folder == WEB_DIR);
    is_in_web && path.file_name().is_some_and(|name| name != MANIFEST)
}

/// Returns the name of the manifest that lists a file.
fn manifest_of(path: &Path) -> &'static str {
    if is_exported(path) { WEB_MANIFEST } else { MANIFEST }
}

/// Returns the advice where a file of a model directory is damaged.
fn again(path: &Path) -> &'static str {
    if is_exported(path) {
        "export the model for pages again (dpr export-web)"
    } else {
        "import the model again, or make it again as it was made"
    }
}
