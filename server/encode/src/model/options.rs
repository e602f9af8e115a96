//! The options of an import, and the prompts and the title join that they set.

use dpr_core::{Pooling, Similarity, TextForm, TitleJoin};

/// Options of importing encoders.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// A name for people; by default that of the question directory.
    pub name: Option<String>,
    /// Adds a projection to this many numbers that keeps inner products.
    pub project: Option<usize>,
    /// Pooling; by default the directory's setting, else CLS.
    pub pooling: Option<Pooling>,
    /// Scale vectors to length 1; by default the directory's setting.
    pub normalize: Option<bool>,
    /// The similarity by which vectors are compared; by default the directory's setting, else the inner product. Cosine
    /// scales vectors to length 1; the Euclidean distance adds a coordinate to them where they do not have length 1.
    pub similarity: Option<Similarity>,
    /// Numbers of a vector that are kept, of a model that was trained for fewer; by default the directory's setting.
    pub dim: Option<usize>,
    /// The model was trained for fewer numbers (Matryoshka), even if the directory does not say so; see
    /// [`ModelManifest::matryoshka`](dpr_core::ModelManifest::matryoshka).
    pub matryoshka: bool,
    /// Text before every question; by default the directory's setting. An empty one is none.
    pub query_prompt: Option<String>,
    /// Text before every passage; by default the directory's setting. An empty one is none.
    pub passage_prompt: Option<String>,
    /// The way a title is joined to its text.
    pub title_join: Option<TitleJoin>,
    /// Tokens a question is truncated to.
    pub max_question_tokens: Option<usize>,
    /// Tokens a passage is truncated to.
    pub max_passage_tokens: Option<usize>,
    /// See [`ModelManifest::space`](dpr_core::ModelManifest::space).
    pub space: Option<String>,
    /// Replace an output directory that exists.
    pub force: bool,
}

/// Sets the prompts and the title join that options name; the others stay.
pub(super) fn override_form(
    form: &mut TextForm,
    query: Option<&String>,
    passage: Option<&String>,
    join: Option<&TitleJoin>,
) {
    for (prompt, option) in [(&mut form.prompts.query, query), (&mut form.prompts.passage, passage)] {
        if let Some(option) = option {
            prompt.clone_from(option);
        }
    }
    if let Some(join) = join {
        form.join.clone_from(join);
    }
}
