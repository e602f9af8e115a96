//! A model with narrower vectors, of one that was trained for them (Matryoshka).

use dpr_core::EncoderConfig;
use dpr_core::model::{FileEntry, MODEL_FORMAT, sha256_hex};

use super::dir::rewritten;
use super::{ModelDir, ModelError, PASSAGE_DIR, QUESTION_DIR};

impl ModelDir {
    /// Returns this model with vectors of their first `dim` numbers, which are scaled to length 1 afterwards where the
    /// model's are. Its manifest and its [`config.json`](ModelDir::config) are those that
    /// [`import`](super::import()) with [`ImportOptions::dim`](super::ImportOptions::dim) writes, so an index made with
    /// either is searched with either. A model that was imported with fewer numbers than its weights make is widened in
    /// the same way, up to all of them.
    ///
    /// Training reads the files of a directory: import the model with `dim` for it.
    ///
    /// # Errors
    /// [`ModelError::NotMatryoshka`] for a model that was not trained for it, [`ModelError::Truncate`] for 0 or more
    /// numbers than there are, [`ModelError::ProjectedCut`] for one with a projection, and [`ModelError::Narrower`]
    /// for one whose vectors are compared with another model's or have a coordinate for the Euclidean distance.
    pub fn at_dim(&self, dim: usize) -> Result<Self, ModelError> {
        let (cut, untrained) = self.cut(dim)?;
        match untrained {
            Some(full) => Err(ModelError::NotMatryoshka { dir: self.path.clone(), dim, full }),
            None => Ok(cut),
        }
    }

    /// Returns the model that made vectors of this fingerprint (or space) and of `dim` numbers: this one, or this one
    /// [with `dim` numbers](ModelDir::at_dim); `None` if it is neither. That vectors of fewer numbers serve need not be
    /// said again here: whoever made them with this model has said so.
    ///
    /// # Errors
    /// [`ModelError`] when a file cannot be read.
    pub fn of_vectors(self, fingerprint: &str, dim: usize) -> Result<Option<Self>, ModelError> {
        if dim == self.manifest.dim {
            return Ok((self.manifest.space() == fingerprint).then_some(self));
        }
        let cut = match self.cut(dim) {
            Ok((cut, _)) => cut,
            Err(
                ModelError::Truncate { .. } | ModelError::ProjectedCut { .. } | ModelError::Narrower { .. },
            ) => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_theirs = cut.manifest.dim == dim && cut.manifest.fingerprint == fingerprint;
        Ok(is_theirs.then_some(cut))
    }

    /// Returns the model with `dim` numbers, and those of its head if it does not say that it was trained for fewer.
    fn cut(&self, dim: usize) -> Result<(Self, Option<usize>), ModelError> {
        let (mut cut, mut untrained, mut first_format) = (self.clone(), None, true);
        let folders = if self.manifest.shared { &[QUESTION_DIR][..] } else { &[QUESTION_DIR, PASSAGE_DIR] };
        for folder in folders {
            let dir = self.path.join(folder);
            let bytes = self.config(folder)?;
            let mut config = EncoderConfig::from_json(&bytes).map_err(ModelError::in_dir(&dir))?;
            let (has, full) = (config.dim(), config.head_width());
            if has == dim {
                return Ok((self.clone(), None));
            }
            if config.projection_dim > 0 {
                return Err(ModelError::ProjectedCut { dir, has, dim });
            }
            if !(1..=full).contains(&dim) {
                return Err(ModelError::Truncate { dir, dim, full });
            }
            let refused = |reason| ModelError::Narrower { dir: self.path.clone(), dim, has, reason };
            if self.manifest.space.is_some() {
                return Err(refused(
                    "they are compared with another model's, its teacher's; distil a model from a teacher that was \
                     imported with so many numbers",
                ));
            }
            if config.l2.is_some() {
                return Err(refused(
                    "the weight of their coordinate for the Euclidean distance depends on all of them; import the \
                     model with so many numbers",
                ));
            }
            if !self.manifest.matryoshka && config.truncate.is_none() {
                untrained = Some(full);
            }
            config.truncate = (dim < full).then_some(dim);
            first_format &= config.is_first_format();
            let config = rewritten(&bytes, &config)?;
            let entry = FileEntry { bytes: config.len() as u64, sha256: sha256_hex(&config) };
            cut.manifest.files.insert(format!("{folder}/config.json"), entry);
            cut.configs.insert(folder, config);
        }
        cut.manifest.format_version = if first_format { 1 } else { MODEL_FORMAT };
        cut.manifest.dim = dim;
        cut.manifest.matryoshka = true;
        cut.manifest.fingerprint = cut.manifest.compute_fingerprint();
        Ok((cut, untrained))
    }
}
