//! Whether an index and a model belong together.

use std::path::{Path, PathBuf};

use dpr_core::model::short;
use dpr_encode::model::ModelDir;
use dpr_index::search::Description;

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

/// Refuses a model, read from `path`, whose vectors the index at `location` does not hold.
pub(super) fn check_model(
    location: &Location,
    index: &Description,
    path: &Path,
    model: &ModelDir,
) -> Result<(), OtherModel> {
    let manifest = model.manifest();
    if index.model == manifest.space() && index.dim == manifest.dim {
        return Ok(());
    }
    Err(OtherModel {
        index: location.to_string(),
        built_by: index.model.clone(),
        index_dim: index.dim,
        model: path.to_owned(),
        given: manifest.space().to_owned(),
        model_dim: manifest.dim,
    })
}
