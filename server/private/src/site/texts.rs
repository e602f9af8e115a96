//! Reading a file of texts.

use std::io::Read as _;
use std::ops::Range;
use std::path::PathBuf;

use dpr_data::Passage;
use flate2::read::DeflateDecoder;

use super::parts::{HEAD, MOST_BYTES, TEXTS};
use super::source::SiteReadError;

/// A file of texts: some passages, compressed in blocks.
#[derive(Debug)]
pub(super) struct Texts {
    path: PathBuf,
    bytes: Vec<u8>,
    passages: usize,
    per_block: usize,
    /// The place of each block and its uncompressed bytes.
    blocks: Vec<(Range<usize>, usize)>,
}

impl Texts {
    /// Reads the head and the table of blocks; the manifest says how many `passages` there are.
    pub(super) fn read(path: PathBuf, bytes: Vec<u8>, passages: usize) -> Result<Self, SiteReadError> {
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
    pub(super) fn passage(&self, at: usize) -> Result<Passage, SiteReadError> {
        Ok(self.block(at / self.per_block)?.swap_remove(at % self.per_block))
    }

    /// Returns all passages.
    pub(super) fn all(&self) -> Result<Vec<Passage>, SiteReadError> {
        let blocks = (0..self.blocks.len()).map(|block| self.block(block)).collect::<Result<Vec<_>, _>>()?;
        Ok(blocks.concat())
    }

    /// Returns the passages of a block, as many as it should hold.
    fn block(&self, block: usize) -> Result<Vec<Passage>, SiteReadError> {
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
        let passages: Vec<Passage> =
            serde_json::from_slice(&json).map_err(|_| damaged("does not hold passages"))?;
        if passages.len() != self.per_block.min(self.passages - block * self.per_block) {
            return Err(damaged("does not hold as many passages as it should"));
        }
        Ok(passages)
    }
}
