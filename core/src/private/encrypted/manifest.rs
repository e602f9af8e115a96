//! The description that a server gives of its tables: sizes, parameter sets, and the checksums of the files that
//! everybody downloads.
//!
//! The version of the tables is the SHA-256 of the manifest's bytes. Everything in it is checked before any of it is
//! used: the sets are known, the sizes of the files are those that the shapes give, and the noise leaves room.

use std::collections::BTreeMap;

use half::f16;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::params::{FetchShape, LEAST_MARGIN, ParameterError, ROW_NORM, RankShape, within};
use super::public::{TablesHash, mask_column};
use super::rank::rounded_row;
use super::wire::WireError;
use crate::model::{FileEntry, sha256_hex};

/// The format of a manifest that this program reads and writes.
pub const FORMAT: u32 = 2;

/// The mean and the principal directions of the passages' vectors.
pub const PROJECTION: &str = "projection.f16";
/// The hint for ranking.
pub const RANK_HINT: &str = "rank.hint";
/// The hint for fetching.
pub const TEXT_HINT: &str = "text.hint";
/// The number of passages in each column, and the hashes of the columns.
pub const COLUMNS: &str = "columns.bin";
/// The rank table, which stays on the server.
pub const RANK_TABLE: &str = "rank.i8";
/// The table of texts, which stays on the server.
pub const TEXT_TABLE: &str = "text.i8";

/// The position in the tables of each row of the index, which stays on the server.
pub const POSITIONS: &str = "positions.u32";

/// Bytes of a column's hash: the beginning of its SHA-256.
pub const HASH: usize = 16;

/// Bytes before the compressed passages of a column: their length.
pub const LENGTH: usize = 4;

/// The byte that a column is filled up with before it is masked, and that the table holds as zero.
pub const PADDING: u8 = 0x80;

/// The description of private tables, `private.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format_version: u32,
    /// The version of the index that the tables are made of.
    pub index_version: String,
    /// Fingerprint of the model that made the vectors; questions must come from the same.
    pub model_fingerprint: String,
    /// Numbers in a vector.
    pub dim: usize,
    /// Passages in the tables.
    pub passages: usize,
    /// The rank table.
    pub rank: RankEntry,
    /// The table of texts.
    pub text: TextEntry,
    /// Sizes and checksums of the files that stay on the server. Public randomness is expanded from them.
    pub tables: BTreeMap<String, FileEntry>,
    /// Sizes and checksums of the files that everybody downloads.
    pub files: BTreeMap<String, FileEntry>,
}

/// The rank table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankEntry {
    /// The number of the parameter set.
    pub set: u8,
    /// Principal directions that are kept.
    pub dims: usize,
    /// The factor that coordinates were multiplied by before they were rounded.
    pub scale: f64,
    /// The length of the longest row, rounded as it is.
    pub row_norm: f64,
    /// The predicted standard deviation of a score's noise.
    pub noise: f64,
}

/// The table of texts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextEntry {
    /// The number of the parameter set.
    pub set: u8,
    /// Columns, those that are not used too.
    pub columns: usize,
    /// Columns that hold passages.
    pub used: usize,
    /// Bytes of a column.
    pub rows: usize,
    /// The length of the longest row of the table.
    pub row_norm: f64,
}

/// A manifest that is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ManifestError {
    /// It is not JSON of the documented shape.
    #[error("the description of the private tables is not one: {0}")]
    Json(String),
    /// A format of a newer program.
    #[error("the private tables have format version {found}, this program reads version {FORMAT}")]
    Newer {
        /// As found.
        found: u32,
    },
    /// A format of an older program.
    #[error(
        "the private tables have format version {found}, this program reads version {FORMAT}: they must be built again"
    )]
    Older {
        /// As found.
        found: u32,
    },
    /// Parameters that are refused.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A file that is missing, unknown, of another size than the shapes give, or without a checksum.
    #[error(
        "the private tables list `{0}` wrongly: it is missing, unknown, or of another size than the shapes give"
    )]
    File(String),
    /// A file whose content is not what the manifest says.
    #[error("{name} is not what the description of the private tables says: {reason}")]
    Content {
        /// The file.
        name: &'static str,
        /// The fault that was found.
        reason: &'static str,
    },
}

/// A manifest that was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Tables {
    /// The manifest.
    pub manifest: Manifest,
    /// The version: the SHA-256 of the manifest's bytes.
    pub version: [u8; 32],
    /// The hash from which public randomness is expanded.
    pub hash: TablesHash,
    /// The shape of the rank table.
    pub rank: RankShape,
    /// The shape of the table of texts.
    pub fetch: FetchShape,
}

impl Tables {
    /// Reads and checks a manifest.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn read(json: &[u8]) -> Result<Self, ManifestError> {
        #[derive(Deserialize)]
        struct Version {
            format_version: u32,
        }
        let not_json = |error: serde_json::Error| ManifestError::Json(error.to_string());
        // The version first: a newer manifest may have other fields.
        let Version { format_version: found } = serde_json::from_slice(json).map_err(not_json)?;
        if found > FORMAT {
            return Err(ManifestError::Newer { found });
        }
        if found < FORMAT {
            return Err(ManifestError::Older { found });
        }
        let manifest: Manifest = serde_json::from_slice(json).map_err(not_json)?;
        let Manifest { rank, text, .. } = &manifest;
        within("the dimension of vectors", manifest.dim as u64, rank.dims as u64, 1 << 16)?;
        let tables = Self {
            version: Sha256::digest(json).into(),
            hash: manifest.tables_hash()?,
            rank: RankShape::new(rank.set, rank.dims, manifest.passages)?,
            fetch: FetchShape::new(text.set, text.columns, text.rows)?,
            manifest,
        };
        tables.check()?;
        Ok(tables)
    }

    fn check(&self) -> Result<(), ManifestError> {
        let Manifest { rank, text, dim, .. } = &self.manifest;
        check_noise(self, rank.row_norm, text.row_norm)?;
        if !(rank.scale.is_finite() && rank.scale > 0.0) {
            return Err(ParameterError::RowNorm(rank.scale).into());
        }
        within("the number of used columns", text.used as u64, 1, text.columns as u64)?;
        let rows = (self.rank.blocks() * self.rank.set().degree) as u64;
        // u64: the largest tables have 2^32 and 2^35 bytes, and `usize` has 32 bits in a page.
        let server = [
            (RANK_TABLE, rows * rank.dims as u64),
            (TEXT_TABLE, text.rows as u64 * text.columns as u64),
            (POSITIONS, self.manifest.passages as u64 * 4),
        ];
        let public = [
            (PROJECTION, (dim * 4 + dim * rank.dims * 2) as u64),
            (RANK_HINT, self.rank.hint_bytes() as u64),
            (TEXT_HINT, self.fetch.hint_bytes() as u64),
            (COLUMNS, (text.used * (1 + HASH)) as u64),
        ];
        check_files(&self.manifest.tables, &server)?;
        check_files(&self.manifest.files, &public)
    }
}

/// Checks what a manifest says of its rows.
fn check_noise(tables: &Tables, rank_norm: f64, fetch_norm: f64) -> Result<(), ParameterError> {
    if !(0.0..=ROW_NORM).contains(&rank_norm) {
        return Err(ParameterError::RowNorm(rank_norm));
    }
    let margin = tables.fetch.margin(fetch_norm);
    if fetch_norm >= 0.0 && margin >= LEAST_MARGIN { Ok(()) } else { Err(ParameterError::Margin(margin)) }
}

fn check_files(listed: &BTreeMap<String, FileEntry>, expected: &[(&str, u64)]) -> Result<(), ManifestError> {
    let is_known = |name: &String| expected.iter().any(|(known, _)| known == name);
    if let Some(name) = listed.keys().find(|name| !is_known(name)) {
        return Err(ManifestError::File(name.chars().take(80).collect()));
    }
    let is_right = |name: &str, bytes: u64| {
        listed.get(name).is_some_and(|file| file.bytes == bytes && digest(&file.sha256).is_some())
    };
    match expected.iter().find(|(name, bytes)| !is_right(name, *bytes)) {
        None => Ok(()),
        Some((name, _)) => Err(ManifestError::File((*name).to_owned())),
    }
}

/// Returns the 32 bytes of 64 hexadecimal digits.
fn digest(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes().as_chunks::<2>().0;
    let mut bytes = [0; 32];
    if text.len() != 64 {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(digits) {
        let digit = |digit: u8| (digit as char).to_digit(16);
        *byte = (digit(*high)? << 4 | digit(*low)?) as u8;
    }
    Some(bytes)
}

impl Manifest {
    /// Returns the hash that public randomness is expanded from: sets, sizes, and the checksums of the two tables.
    ///
    /// # Errors
    /// [`ManifestError::File`] when a table is not listed.
    pub fn tables_hash(&self) -> Result<TablesHash, ManifestError> {
        let Self { rank, text, passages, .. } = self;
        let mut hash = Sha256::new();
        hash.update(b"dpr private tables 1");
        hash.update([rank.set, text.set]);
        for number in [rank.dims, *passages, text.columns, text.rows] {
            hash.update((number as u64).to_le_bytes());
        }
        for name in [RANK_TABLE, TEXT_TABLE] {
            let sha256 = self.tables.get(name).and_then(|file| digest(&file.sha256));
            hash.update(sha256.ok_or_else(|| ManifestError::File(name.to_owned()))?);
        }
        Ok(hash.finalize().into())
    }

    /// Checks a downloaded file against its size and checksum.
    ///
    /// # Errors
    /// [`ManifestError::Content`].
    pub fn check_file(&self, name: &'static str, content: &[u8]) -> Result<(), ManifestError> {
        let wrong = |reason| ManifestError::Content { name, reason };
        let file = self.files.get(name).ok_or_else(|| ManifestError::File(name.to_owned()))?;
        match (content.len() as u64 == file.bytes, sha256_hex(content) == file.sha256) {
            (true, true) => Ok(()),
            (false, _) => Err(wrong("it has another length")),
            (true, false) => Err(wrong("its checksum differs")),
        }
    }
}

/// The mean of the passages' vectors `[dim]` and their principal directions `[dims, dim]`.
#[derive(Clone, Debug)]
pub struct Projection {
    mean: Vec<f32>,
    rows: Vec<f32>,
    scale: f64,
}

/// A question as it is encrypted, and what makes inner products of vectors out of its scores.
#[derive(Clone, Debug)]
pub struct Projected {
    /// The coordinates, of length 1.
    pub z: Vec<f32>,
    factor: f64,
    offset: f64,
}

impl Projection {
    /// Reads the file [`PROJECTION`], which was checked against the manifest.
    ///
    /// # Errors
    /// [`ManifestError::Content`] for numbers that are not finite, or directions whose length is not 1.
    pub fn read(tables: &Tables, content: &[u8]) -> Result<Self, ManifestError> {
        let wrong = |reason| ManifestError::Content { name: PROJECTION, reason };
        let dim = tables.manifest.dim;
        let (mean, rows) = content.split_at_checked(4 * dim).ok_or_else(|| wrong("it has another length"))?;
        let mean: Vec<f32> = mean.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let rows: Vec<f32> =
            rows.as_chunks().0.iter().map(|bytes| f16::from_le_bytes(*bytes).to_f32()).collect();
        if !mean.iter().all(|number| number.is_finite()) || rows.len() != dim * tables.manifest.rank.dims {
            return Err(wrong("its mean is not finite, or it has another length"));
        }
        let is_unit = |row: &[f32]| (dot(row, row) - 1.0).abs() < 0.05;
        match rows.chunks_exact(dim).all(is_unit) {
            true => Ok(Self { mean, rows, scale: tables.manifest.rank.scale }),
            false => Err(wrong("its directions do not have length 1")),
        }
    }

    /// Projects a question `[dim]`.
    ///
    /// # Errors
    /// [`WireError::Question`] for a question of another dimension, or one that has no direction.
    pub fn project(&self, question: &[f32]) -> Result<Projected, WireError> {
        if question.len() != self.mean.len() {
            return Err(WireError::Question("another dimension than the passages"));
        }
        let mut z: Vec<f32> =
            self.rows.chunks_exact(question.len()).map(|row| dot(row, question) as f32).collect();
        let length = dot(&z, &z).sqrt();
        if !(length.is_finite() && length > 1e-9) {
            return Err(WireError::Question("no direction among those that are kept"));
        }
        z.iter_mut().for_each(|z| *z = (f64::from(*z) / length) as f32);
        Ok(Projected { z, factor: length / self.scale, offset: dot(&self.mean, question) })
    }

    /// Returns the coordinates `[dims]` of a passage's vector `[dim]`, scaled, rounded and shortened as the rank table's
    /// are.
    pub fn code(&self, vector: &[f32]) -> Vec<i8> {
        let centred: Vec<f32> = vector.iter().zip(&self.mean).map(|(x, mean)| x - mean).collect();
        let along: Vec<f64> = self.rows.chunks_exact(self.mean.len()).map(|row| dot(row, &centred)).collect();
        rounded_row(&along, self.scale)
    }
}

impl Projected {
    /// Returns the inner product of the coordinates with a passage's row `[dims]`, as it would be decoded, without noise.
    pub fn score(&self, code: &[i8]) -> f32 {
        self.z.iter().zip(code).map(|(z, code)| f64::from(*z) * f64::from(*code)).sum::<f64>() as f32
    }

    /// Returns about the inner product of the question's and a passage's vector for a decoded score.
    pub fn inner_product(&self, score: f32) -> f32 {
        (f64::from(score) * self.factor + self.offset) as f32
    }
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// Which passages each column holds, and the hashes of the columns.
#[derive(Clone, Debug)]
pub struct Columns {
    /// The first passage of each column, and the number of all.
    starts: Vec<usize>,
    hashes: Vec<[u8; HASH]>,
    rows: usize,
}

impl Columns {
    /// Reads the file [`COLUMNS`], which was checked against the manifest.
    ///
    /// # Errors
    /// [`ManifestError::Content`] when the columns do not hold all passages.
    pub fn read(tables: &Tables, content: &[u8]) -> Result<Self, ManifestError> {
        let Manifest { passages, text, .. } = &tables.manifest;
        let wrong = |reason| ManifestError::Content { name: COLUMNS, reason };
        let (counts, hashes) =
            content.split_at_checked(text.used).ok_or_else(|| wrong("it has another length"))?;
        let mut starts = vec![0];
        let mut all = 0;
        for count in counts {
            all += usize::from(*count);
            starts.push(all);
        }
        let hashes = hashes.as_chunks().0.to_vec();
        if all != *passages || counts.contains(&0) || hashes.len() != text.used {
            return Err(wrong("its columns do not hold all passages"));
        }
        Ok(Self { starts, hashes, rows: text.rows })
    }

    /// Returns the column of a passage, and the passage's place in it.
    pub fn locate(&self, passage: usize) -> Option<(usize, usize)> {
        if passage >= *self.starts.last()? {
            return None;
        }
        let column = self.starts.partition_point(|start| *start <= passage).checked_sub(1)?;
        Some((column, passage - self.starts.get(column)?))
    }

    /// Checks the bytes of a fetched column by its hash, and returns the compressed passages (raw deflate of one JSON
    /// object a line), without their mask.
    ///
    /// # Errors
    /// [`WireError::Spoiled`] when the bytes are not those of the table, and [`WireError::Column`].
    pub fn verify(&self, column: usize, mut bytes: Vec<u8>) -> Result<Vec<u8>, WireError> {
        let columns = self.hashes.len();
        let expected = self.hashes.get(column).ok_or(WireError::Column { column, columns })?;
        let found = Sha256::digest(&bytes);
        if bytes.len() != self.rows || !found.starts_with(expected) {
            return Err(WireError::Spoiled);
        }
        mask_column(column, &mut bytes);
        let (length, rest) = bytes.split_first_chunk::<LENGTH>().ok_or(WireError::Spoiled)?;
        rest.get(..u32::from_le_bytes(*length) as usize).map(<[u8]>::to_vec).ok_or(WireError::Spoiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: &[(&str, u64)]) -> BTreeMap<String, FileEntry> {
        let entry = |bytes| FileEntry { bytes, sha256: "0f".repeat(32) };
        files.iter().map(|(name, bytes)| ((*name).to_owned(), entry(*bytes))).collect()
    }

    /// Returns the manifest of the largest shapes, with tables of so many bytes.
    fn largest(rank_table: u64, text_table: u64) -> Vec<u8> {
        let manifest = Manifest {
            format_version: FORMAT,
            index_version: "v".into(),
            model_fingerprint: "f".into(),
            dim: 1024,
            passages: 1 << 24,
            rank: RankEntry { set: 1, dims: 256, scale: 100.0, row_norm: 40.0, noise: 0.3 },
            text: TextEntry { set: 16, columns: 1 << 19, used: 1 << 19, rows: 1 << 16, row_norm: 1000.0 },
            tables: listed(&[(RANK_TABLE, rank_table), (TEXT_TABLE, text_table), (POSITIONS, 1 << 26)]),
            files: listed(&[
                (PROJECTION, 4 * 1024 + 2 * 1024 * 256),
                (RANK_HINT, (1 << 24) * 13 / 8),
                (TEXT_HINT, 1 << 28),
                (COLUMNS, 17 << 19),
            ]),
        };
        serde_json::to_vec(&manifest).unwrap()
    }

    #[test]
    fn tables_of_four_gibibytes_and_more_have_their_whole_size() {
        let (rank, text) = (1 << 32, 1 << 35);
        let tables = Tables::read(&largest(rank, text)).unwrap();
        assert_eq!((tables.rank.passages(), tables.fetch.columns()), (1 << 24, 1 << 19));
        // Sizes of which 32 bits are the same.
        for (rank, text, name) in [
            (0, text, RANK_TABLE),
            (2 * rank, text, RANK_TABLE),
            (rank, 0, TEXT_TABLE),
            (rank, text + rank, TEXT_TABLE),
        ] {
            let refused = Tables::read(&largest(rank, text)).unwrap_err();
            assert_eq!(refused, ManifestError::File(name.to_owned()));
        }
    }
}
