//! Model directory of a reader: opened, checked and loaded.

use std::path::Path;

use dpr_core::{DeviceChoice, ModelKind, PairManifest, Reader};

use super::super::ModelError;
use super::super::pair::PairDir;

/// The model directory of a reader, whose files are those that its manifest names.
#[derive(Debug)]
pub struct ReaderDir(pub(in super::super) PairDir);

impl ReaderDir {
    /// Opens the directory and checks every file's size and sha256.
    ///
    /// # Errors
    /// [`ModelError`] names the file that is missing or damaged, or says that the directory holds something else.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        Ok(Self(PairDir::open(path, ModelKind::Reader)?))
    }

    /// Returns the manifest, `model.json`.
    pub fn manifest(&self) -> &PairManifest {
        &self.0.manifest
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Loads the reader on a device.
    ///
    /// # Errors
    /// [`ModelError`] when a file does not fit the others, or the device is not available.
    pub fn reader(&self, device: DeviceChoice) -> Result<Reader, ModelError> {
        self.0.load(device, Reader::load)
    }
}
