//! The number of encoders of a model that is trained.

use serde::{Deserialize, Serialize};

use super::error::TrainError;
use dpr_encode::model::ModelDir;

/// The number of encoders: one for both sides, or two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// The same number as in the model that training starts from.
    #[default]
    Keep,
    /// Two, as in the paper; a shared one is copied and the copies trained apart.
    Separate,
    /// One for both; only from a model that shares one.
    Shared,
}

impl Sharing {
    /// Returns whether one encoder is trained for both sides.
    ///
    /// # Errors
    /// [`TrainError::TwoEncoders`] for a model with two, where one is asked for.
    pub(super) fn is_shared(self, model: &ModelDir) -> Result<bool, TrainError> {
        match self {
            Self::Keep => Ok(model.manifest().shared),
            Self::Separate => Ok(false),
            Self::Shared if model.manifest().shared => Ok(true),
            Self::Shared => Err(TrainError::TwoEncoders { model: model.path().into() }),
        }
    }
}
