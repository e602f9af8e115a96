//! The manifest of a version: what it holds, how it is searched, and the checksums of its files.

use std::collections::BTreeMap;

use dpr_core::model::FileEntry;
use serde::{Deserialize, Serialize};

use crate::quantized::CODES_BINARY;
use crate::sparse::{Analyzer, SparseError};
use crate::{GraphBuilder, HnswParams, IndexKind, Storage};

/// The newest format of index directories that this program reads; it reads all before. It writes the oldest that holds
/// what the index has: 4 where a passage has metadata, and 3 where none has.
///
/// 1: as the first release. 2: the manifest has `crc32` and `storage`, and a version may have a log of updates. 3: a
/// version has `passages.idx` and, where rows are chosen by fewer bits, `codes.i8` or `codes.f16`, and `crc32` is of
/// every file. 4: passages have metadata, and a version has `metadata.columns`.
pub const INDEX_FORMAT: u32 = 4;

/// The format of an index in which no passage has metadata.
pub(crate) const FORMAT_WITHOUT_METADATA: u32 = 3;

/// `manifest.json` of one version of an index. It holds no time and no path: the same vectors and options give
/// the same bytes, as long as no words are indexed (whose files are named at random).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IndexManifest {
    /// At most [`INDEX_FORMAT`].
    pub format_version: u32,
    /// Fingerprint of the model that encoded the passages; questions must come from the same. Empty without vectors.
    pub model_fingerprint: String,
    /// Numbers in a vector; 0 without vectors.
    pub dim: usize,
    /// `inner_product`.
    pub metric: String,
    /// The way it is searched.
    pub kind: IndexKind,
    /// The form of the vectors that a search reads.
    #[serde(default)]
    pub storage: Storage,
    /// The number of passages, and of vectors.
    pub count: usize,
    /// The greatest squared norm of a vector, by which the graph was built; `phi` in the file.
    #[serde(rename = "phi")]
    pub max_squared_norm: f64,
    /// The inverted index beside the vectors, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sparse: Option<SparseManifest>,
    /// The graph's parameters, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hnsw: Option<HnswParams>,
    /// The program that built the graph, by which a compaction builds the next one; absent where it is
    /// [`GraphBuilder::Parallel`], and in indexes of earlier programs, which ignore it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub builder: GraphBuilder,
    /// The program that built it, as `dpr 0.1.0`.
    pub created_by: String,
    /// Every other file of the version, by name.
    pub files: BTreeMap<String, FileEntry>,
    /// CRC-32 of the files, by name: what is checked at every start, where SHA-256 would take seconds a gigabyte.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub crc32: BTreeMap<String, u32>,
}

/// Returns `true` for the value that a field has where it is not written.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A manifest's entry of the inverted index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SparseManifest {
    /// The analyzer by which titles and texts became terms, and questions do.
    pub analyzer: Analyzer,
}

impl IndexManifest {
    /// Returns the form of the vectors that a search reads; the first format does not name it for graphs.
    pub(crate) fn read_by(&self) -> Storage {
        if self.kind == IndexKind::Hnsw { Storage::Int8 } else { self.storage }
    }

    /// Returns the forms of the quantized vectors that a search reads: that by which it scores rows, and for a graph the
    /// signs, where the version has them.
    pub(crate) fn quantized(&self) -> impl Iterator<Item = Storage> {
        let has_signs = self.kind == IndexKind::Hnsw && self.files.contains_key(CODES_BINARY);
        [self.read_by()].into_iter().chain(has_signs.then_some(Storage::Binary))
    }

    /// Returns `true` if the index has an inverted index that this build can search.
    pub(crate) fn has_words(&self) -> bool {
        self.sparse.is_some() && cfg!(feature = "sparse")
    }

    /// Refuses an index that has an inverted index where this build, without the feature `sparse`, cannot search it.
    ///
    /// # Errors
    /// [`SparseError::NotBuiltIn`].
    pub fn check_words(&self) -> Result<(), SparseError> {
        if self.sparse.is_some() && !self.has_words() { Err(SparseError::NotBuiltIn) } else { Ok(()) }
    }

    /// The only metric.
    pub const INNER_PRODUCT: &str = "inner_product";
}
