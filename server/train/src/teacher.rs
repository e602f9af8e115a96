//! Teacher of encoders and rerankers: a reader, whose selection scores are taught, or a cross-encoder.

use std::fmt;
use std::path::Path;

use dpr_core::{CrossEncoder, DeviceChoice, ReadError, Reader};
use dpr_encode::model::{CrossEncoderDir, ModelDir, ModelError, ReaderDir};

use super::encoders::TrainDevice;
use super::error::TrainError;

/// A model that scores the passages of a question for a student.
pub(super) struct Teacher {
    model: Model,
    pub(super) fingerprint: String,
}

enum Model {
    Reader(Box<Reader>),
    CrossEncoder(Box<CrossEncoder>),
}

impl fmt::Debug for Teacher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Teacher").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl Teacher {
    /// Loads the teacher that settings name, on the CPU kernels or on the GPU that trains; none where they name none.
    ///
    /// # Errors
    /// [`TrainError`] as from [`open`](Self::open).
    pub(super) fn of(path: Option<&Path>, device: &TrainDevice) -> Result<Option<Self>, TrainError> {
        path.map(|path| Self::open(path, device.gpu)).transpose()
    }

    /// Loads the reader or the cross-encoder in a model directory.
    ///
    /// # Errors
    /// [`TrainError::Setting`] for encoders and for a reader without a selection layer, [`TrainError::Model`] for a
    /// directory that cannot be read.
    fn open(path: &Path, on_gpu: bool) -> Result<Self, TrainError> {
        let device = if on_gpu { DeviceChoice::Wgpu } else { DeviceChoice::Cpu };
        let bad = |what: &str| {
            Err(TrainError::Setting {
                setting: "model.teacher",
                got: format!("{}, {what}", path.display()),
                expected: "a teacher is a cross-encoder, or a reader with a selection layer".into(),
            })
        };
        match ModelDir::open(path) {
            Ok(_) => bad("which holds encoders"),
            Err(ModelError::IsReader(_)) => {
                let dir = ReaderDir::open(path)?;
                let reader = dir.reader(device)?;
                if !reader.config().has_selection() {
                    return bad("a reader that chooses passages by their spans");
                }
                let fingerprint = dir.manifest().fingerprint.clone();
                Ok(Self { model: Model::Reader(Box::new(reader)), fingerprint })
            }
            Err(ModelError::IsCrossEncoder(_)) => {
                let dir = CrossEncoderDir::open(path)?;
                let fingerprint = dir.manifest().fingerprint.clone();
                Ok(Self { model: Model::CrossEncoder(Box::new(dir.cross_encoder(device)?)), fingerprint })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the logit of each of a question's `(title, text)` passages; none where the teacher cannot read one of
    /// them, because the question leaves no room for it.
    ///
    /// # Errors
    /// [`TrainError::Read`] or [`TrainError::Encode`] for scores that are not finite and for a failed device.
    pub(super) fn scores(&self, question: &str, passages: &[(&str, &str)]) -> Result<Vec<f32>, TrainError> {
        let reader = match &self.model {
            Model::Reader(reader) => reader,
            Model::CrossEncoder(model) => return Ok(model.score(question, passages)?),
        };
        let inputs = passages.iter().map(|(title, text)| reader.input(question, title, text));
        match inputs.collect::<Result<Vec<_>, _>>() {
            Ok(inputs) => {
                Ok(reader.logits(&inputs)?.into_iter().filter_map(|logits| logits.selection).collect())
            }
            Err(ReadError::Empty | ReadError::Question { .. }) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}
