//! The model of an index: the one given, or that one with its vectors cut to the index's numbers.

use std::path::{Path, PathBuf};

use dpr_core::model::short;
use dpr_encode::model::ModelDir;

use super::CliError;
use crate::location::Location;

/// An index and a model that do not belong together.
#[derive(Debug, thiserror::Error)]
#[error(
    "the index {} was built by model {} ({index_dim} dims), but {} is model {} ({model_dim} dims): give the model \
     the index was built by, or encode and index the passages again with this one (dpr encode, dpr index)",
    .index, short(.built_by), .model.display(), short(.given)
)]
pub(super) struct OtherModel {
    index: String,
    built_by: String,
    index_dim: usize,
    model: PathBuf,
    given: String,
    model_dim: usize,
}

/// A model that pages are to ask an index with, and whose questions are not in its space.
#[derive(Debug, thiserror::Error)]
#[error(
    "the questions of {} are of the space of model {}, and the index {index} was built by model {}: --small takes a \
     student that `dpr distill` taught by the model of the index",
    .model.display(), short(.given), short(.built_by)
)]
pub(super) struct OtherTeacher {
    pub(super) index: String,
    pub(super) built_by: String,
    pub(super) model: PathBuf,
    pub(super) given: String,
}

/// Returns the model whose vectors the index at `location` holds, which are of the model `built_by` and of `dim`
/// numbers: `given`, which was read from `path`, or `given` [with `dim` numbers](ModelDir::at_dim).
pub(super) fn model_of_index(
    location: &Location,
    (built_by, dim): (&str, usize),
    path: &Path,
    given: ModelDir,
) -> Result<ModelDir, CliError> {
    let (space, model_dim) = (given.manifest().space().to_owned(), given.manifest().dim);
    let other = || OtherModel {
        index: location.to_string(),
        built_by: built_by.to_owned(),
        index_dim: dim,
        model: path.to_owned(),
        given: space,
        model_dim,
    };
    Ok(given.of_vectors(built_by, dim)?.ok_or_else(other)?)
}
