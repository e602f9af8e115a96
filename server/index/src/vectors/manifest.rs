//! The spec and the manifest of a vectors directory.

use std::collections::BTreeMap;

use dpr_core::Precision;
use dpr_core::model::FileEntry;
use serde::{Deserialize, Serialize};

use super::{Shard, VectorsError};

/// The version of the directory that this program writes, and the newest it reads.
pub(super) const FORMAT_VERSION: u32 = 1;

/// The spec of an encoding: the model, the corpus and the pieces. Parts fit together only if their specs are the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorsSpec {
    /// The model's fingerprint, 64 hex characters.
    pub model_fingerprint: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// [`corpus_sha256`](dpr_data::corpus_sha256) of the whole corpus, not only of this shard.
    pub corpus_sha256: String,
    /// The share of the corpus that is encoded; `[index, count]` in the file.
    pub shard: Shard,
    /// Passages in a part: what a crash can lose.
    pub part_size: usize,
    /// Precision that the passages were encoded in; not in the file where it is `f32`.
    #[serde(default, skip_serializing_if = "Precision::is_f32")]
    pub precision: Precision,
}

impl VectorsSpec {
    /// A good number of passages in a part: seconds of work on one machine.
    pub const PART_SIZE: usize = 512;

    /// Refuses a spec that cannot be encoded.
    pub(super) fn check(&self) -> Result<(), VectorsError> {
        let refuse = |field, value: String, rule| Err(VectorsError::Spec { field, value, rule });
        if self.dim == 0 {
            return refuse("the dimension", "0".into(), "at least 1");
        }
        if self.part_size == 0 {
            return refuse("the part size", "0".into(), "at least 1");
        }
        Ok(())
    }

    /// The first field in which `self` and `other` differ, with both values.
    pub(super) fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let fields = |spec: &Self| {
            [
                ("model fingerprint", spec.model_fingerprint.clone()),
                ("dimension", spec.dim.to_string()),
                ("corpus digest", spec.corpus_sha256.clone()),
                ("shard", spec.shard.to_string()),
                ("part size", spec.part_size.to_string()),
                ("precision", spec.precision.to_string()),
            ]
        };
        let pairs = fields(self).into_iter().zip(fields(other));
        pairs.into_iter().find(|(a, b)| a.1 != b.1).map(|(a, b)| (a.0, a.1, b.1))
    }
}

/// `manifest.json` of a finished directory. It holds no time and no path: the same input gives the same bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorsManifest {
    /// 1.
    pub format_version: u32,
    /// The spec of what was encoded.
    #[serde(flatten)]
    pub spec: VectorsSpec,
    /// Passages, and rows.
    pub count: usize,
    /// `vectors.f32` and `passages.jsonl`.
    pub files: BTreeMap<String, FileEntry>,
}
