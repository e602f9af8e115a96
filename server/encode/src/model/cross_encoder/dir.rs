//! Model directory of a cross-encoder: opened, checked and loaded.

use std::path::Path;

use dpr_core::{CrossEncoder, DeviceChoice, ModelKind, PairManifest};

use super::super::ModelError;
use super::super::pair::PairDir;

/// The model directory of a cross-encoder, whose files are those that its manifest names.
#[derive(Debug)]
pub struct CrossEncoderDir(pub(in super::super) PairDir);

impl CrossEncoderDir {
    /// Opens the directory and checks every file's size and sha256.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged, or says that the directory holds something else.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        Ok(Self(PairDir::open(path, ModelKind::CrossEncoder)?))
    }

    /// Returns the manifest, `model.json`.
    pub fn manifest(&self) -> &PairManifest {
        &self.0.manifest
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Loads the cross-encoder on a device.
    ///
    /// # Errors
    /// [`ModelError`] when a file does not fit the others, or the device is not available.
    pub fn cross_encoder(&self, device: DeviceChoice) -> Result<CrossEncoder, ModelError> {
        self.0.load(device, CrossEncoder::load)
    }
}
