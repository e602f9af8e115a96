//! Reading a static site: the same files, checks and ranking as in a page, where no browser is.

use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use dpr_core::model::sha256_hex;
use dpr_core::private::local::{Found, LocalError, LocalIndex, MAX_PASSAGES};
use dpr_core::private::projection::Projection;
use dpr_data::Passage;
use dpr_files::{Error as FileError, plain, relative};
use flate2::read::DeflateDecoder;

use super::manifest::{SITE_MANIFEST, SiteFile, SiteManifest};
use super::parts::{HEAD, MOST_BYTES, TEXTS};
use super::publish::{is_own, read_manifest};

/// Most bytes of a file that is read.
const MOST_FILE: u64 = 1 << 28;

/// Most bytes of codes and texts together.
const MOST_SITE: u64 = 1 << 31;

/// A static site that cannot be read or searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteReadError {
    /// A file cannot be read, or the manifest is damaged or of a later format.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file that is not what the manifest says, or makes no sense.
    #[error("{path} is damaged: {reason}; export the site again, or copy it again")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A question that does not fit the site.
    #[error(transparent)]
    Question(#[from] LocalError),
}

/// A static site that is searched where its files are.
#[derive(Debug)]
pub struct Site {
    manifest: SiteManifest,
    index: LocalIndex,
    /// The files of texts, with the row of each one's first passage.
    texts: Vec<(usize, Texts)>,
}

impl Site {
    /// Reads and checks all files but the question encoder's.
    ///
    /// # Errors
    /// [`SiteReadError`]: `path` is neither a `dpr-static.json` nor a folder with one, or a file that it names is
    /// missing, too large, not the one that it names, or makes no sense.
    pub fn open(path: &Path) -> Result<Self, SiteReadError> {
        let path = if path.is_dir() { path.join(SITE_MANIFEST) } else { path.to_owned() };
        let manifest = read_manifest(&path)?;
        let damaged = |reason: String| SiteReadError::Damaged { path: path.clone(), reason };
        let sum = manifest.parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.passages));
        if manifest.bits != 4 {
            return Err(damaged(format!("its codes have {} bits, this release reads 4", manifest.bits)));
        }
        if sum != manifest.passages || !(1..=MAX_PASSAGES).contains(&sum) {
            let (of, most) = (manifest.passages, MAX_PASSAGES);
            return Err(damaged(format!(
                "its parts hold {sum} passages, it says {of}; 1 to {most} are possible"
            )));
        }
        let bytes = manifest.parts.iter().flat_map(|part| [part.codes.entry.bytes, part.texts.entry.bytes]);
        let bytes = bytes.fold(0, u64::saturating_add);
        if bytes > MOST_SITE {
            return Err(damaged(format!("its parts have {bytes} bytes, {MOST_SITE} are possible")));
        }
        let dir = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        let of = |file: &SiteFile| -> Result<(PathBuf, Vec<u8>), SiteReadError> {
            if !is_own(&file.url) {
                return Err(damaged(format!("`{}` is not a name of its files", file.url)));
            }
            let path = dir.join(&file.url);
            Ok((path.clone(), checked(path, file)?))
        };
        let (at, bytes) = of(&manifest.projection)?;
        let wrong = |path: PathBuf, error: &dyn std::error::Error| SiteReadError::Damaged {
            path,
            reason: error.to_string(),
        };
        let projection = Projection::from_bytes(&bytes).map_err(|error| wrong(at.clone(), &error))?;
        if (projection.dim(), projection.rank()) != (manifest.dim, manifest.dims) {
            let (got, expected) = ((projection.rank(), projection.dim()), (manifest.dims, manifest.dim));
            let reason = format!("its shape is {got:?}, the manifest says {expected:?}");
            return Err(SiteReadError::Damaged { path: at, reason });
        }
        let mut index = LocalIndex::new(projection);
        let mut texts = Vec::with_capacity(manifest.parts.len());
        for part in &manifest.parts {
            let (at, codes) = of(&part.codes)?;
            let first = index.len();
            index.add(&codes, part.passages).map_err(|error| wrong(at, &error))?;
            let (at, bytes) = of(&part.texts)?;
            texts.push((first, Texts::read(at, bytes, part.passages)?));
        }
        Ok(Self { manifest, index, texts })
    }

    /// Returns what `dpr-static.json` says.
    pub fn manifest(&self) -> &SiteManifest {
        &self.manifest
    }

    /// Returns the `k` best passages for a question's vector with their scores, best first, as a page ranks them; all
    /// where there are fewer.
    ///
    /// # Errors
    /// [`SiteReadError::Question`] for a vector of another length and for `k` 0, [`SiteReadError::Damaged`] for texts
    /// that cannot be opened.
    pub fn search(&self, vector: &[f32], k: usize) -> Result<Vec<(Passage, f32)>, SiteReadError> {
        let found = self.index.search(vector, k)?;
        found.into_iter().map(|Found { row, score }| Ok((self.passage(row as usize)?, score))).collect()
    }

    /// Returns the passage of a row, in the file that begins last before it.
    fn passage(&self, row: usize) -> Result<Passage, SiteReadError> {
        let at = self.texts.partition_point(|(first, _)| *first <= row).saturating_sub(1);
        let (first, texts) = &self.texts[at];
        texts.passage(row - first)
    }
}

/// Reads a file that has the size and the SHA-256 that the manifest names.
fn checked(path: PathBuf, file: &SiteFile) -> Result<Vec<u8>, SiteReadError> {
    let length = relative::size(&path).map_err(FileError::read(&path))?;
    let damaged = |reason: String| SiteReadError::Damaged { path: path.clone(), reason };
    if length != file.entry.bytes || length > MOST_FILE {
        let expected = file.entry.bytes;
        return Err(damaged(format!(
            "it has {length} bytes, {expected} were expected, {MOST_FILE} are possible"
        )));
    }
    let bytes = plain::read(&path, length).map_err(FileError::read(&path))?;
    match sha256_hex(&bytes) == file.entry.sha256 {
        true => Ok(bytes),
        false => Err(damaged("its SHA-256 is not the one in its name".to_owned())),
    }
}

/// A file of texts: some passages, compressed in blocks.
#[derive(Debug)]
struct Texts {
    path: PathBuf,
    bytes: Vec<u8>,
    passages: usize,
    per_block: usize,
    /// The place of each block and its uncompressed bytes.
    blocks: Vec<(Range<usize>, usize)>,
}

impl Texts {
    /// Reads the head and the table of blocks; the manifest says how many `passages` there are.
    fn read(path: PathBuf, bytes: Vec<u8>, passages: usize) -> Result<Self, SiteReadError> {
        let damaged = |reason: &str| SiteReadError::Damaged { path: path.clone(), reason: reason.to_owned() };
        let number =
            |at: usize| bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes);
        if bytes.get(..8) != Some(&TEXTS) {
            return Err(damaged("it is not a file of texts of format 1"));
        }
        let count = bytes.get(8..16).and_then(|eight| eight.try_into().ok()).map(u64::from_le_bytes);
        let per_block = number(16).unwrap_or(0) as usize;
        if count != Some(passages as u64) || per_block == 0 {
            return Err(damaged("it does not hold as many passages as the manifest says"));
        }
        let mut at = HEAD + passages.div_ceil(per_block) * 8;
        let mut blocks = Vec::new();
        for block in 0..passages.div_ceil(per_block) {
            let entry = HEAD + block * 8;
            let (Some(packed), Some(length)) = (number(entry), number(entry + 4)) else {
                return Err(damaged("its table of blocks is cut off"));
            };
            let end = at.saturating_add(packed as usize);
            if end > bytes.len() || length as usize > MOST_BYTES {
                return Err(damaged("a block lies beyond its end, or is too large"));
            }
            blocks.push((at..end, length as usize));
            at = end;
        }
        match number(20).map(|padding| at.saturating_add(padding as usize)) == Some(bytes.len()) {
            true => Ok(Self { path, bytes, passages, per_block, blocks }),
            false => Err(damaged("its length is not that of its blocks and its padding")),
        }
    }

    /// Returns the passage at this place, from 0.
    fn passage(&self, at: usize) -> Result<Passage, SiteReadError> {
        let block = at / self.per_block;
        let damaged = |what: &str| SiteReadError::Damaged {
            path: self.path.clone(),
            reason: format!("block {block} {what}"),
        };
        let (place, length) = self.blocks.get(block).ok_or_else(|| damaged("is missing"))?;
        let mut json = Vec::new();
        let decoder = DeflateDecoder::new(&self.bytes[place.clone()]);
        // One byte more, so that a block that is too long is seen as one.
        let read = decoder.take(*length as u64 + 1).read_to_end(&mut json);
        if read.is_err() || json.len() != *length {
            return Err(damaged("cannot be decompressed to the bytes that it says"));
        }
        let mut passages: Vec<Passage> =
            serde_json::from_slice(&json).map_err(|_| damaged("does not hold passages"))?;
        if passages.len() != self.per_block.min(self.passages - block * self.per_block) {
            return Err(damaged("does not hold as many passages as it should"));
        }
        Ok(passages.swap_remove(at % self.per_block))
    }
}
