//! Parts of a site: some passages one after another, with a file of codes and a file of texts.
//!
//! Where a part ends, the ids decide: a passage that is added or removed changes the part it is in, and no other.
//!
//! A file of texts is a head of 24 bytes (`"DPRF"`, kind 3 and format 1 as u16, the number of passages as u64, passages
//! of a block as u32, the bytes of padding as u32), for each block its bytes and its uncompressed bytes as u32, the
//! blocks, and zeros as padding. A block is raw deflate of a JSON array of passages. A pack is a file of texts that is
//! padded to a number of bytes.

use std::io::Write as _;

use dpr_core::private::codes;
use dpr_core::private::projection::Projection;
use dpr_data::Passage;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use sha2::{Digest as _, Sha256};

use super::SiteError;
use super::manifest::Content;

/// Bytes before the table of a file of texts.
pub(super) const HEAD: usize = 24;

/// The first bytes of a file of texts: kind 3, format 1.
pub(super) const TEXTS: [u8; 8] = *b"DPRF\x03\0\x01\0";

/// A passage of the index, and its vector.
pub(super) type Row<'a> = (Passage, &'a [f32]);

/// Passages between two ends of parts, on average, beside [`LEAST`].
const APART: u64 = 1024;

/// The fewest passages of a part that is not the last.
const LEAST: usize = 256;

/// The most passages of a part.
const MOST: usize = 4096;

/// Passages that are compressed together: a page opens so many to show one.
const BLOCK: usize = 32;

/// Passages of a pack that are compressed together.
const PACK_BLOCK: usize = 8;

/// Bytes of a block's entry in the table.
const ENTRY: usize = 8;

/// Most uncompressed bytes of a block, which a page holds at once.
pub(super) const MOST_BYTES: usize = 16 << 20;

/// Cuts passages into parts.
pub(super) fn cut<'a, 'b>(rows: &'a [Row<'b>]) -> Vec<&'a [Row<'b>]> {
    let (mut parts, mut first) = (Vec::new(), 0);
    for (at, (passage, _)) in rows.iter().enumerate() {
        let length = at + 1 - first;
        if length >= MOST || (length >= LEAST && ends(&passage.id)) {
            parts.push(&rows[first..=at]);
            first = at + 1;
        }
    }
    if first < rows.len() {
        parts.push(&rows[first..]);
    }
    parts
}

/// Returns `true` if a part ends after a passage with this id.
fn ends(id: &str) -> bool {
    let digest = Sha256::digest(id.as_bytes());
    let number = digest.iter().take(8).fold(0u64, |number, byte| (number << 8) | u64::from(*byte));
    number.is_multiple_of(APART)
}

/// Returns the file of a part's codes.
pub(super) fn codes(projection: &Projection, part: &[Row<'_>]) -> Content {
    Content::new("codes", "bin", code_bytes(projection, part))
}

/// Returns a file of codes of some passages.
pub(super) fn code_bytes(projection: &Projection, part: &[Row<'_>]) -> Vec<u8> {
    let coordinates: Vec<f32> = part.iter().flat_map(|(_, vector)| projection.centred(vector)).collect();
    codes::encode(&coordinates, projection.rank())
}

/// Returns the file of a part's texts.
pub(super) fn texts(part: &[Row<'_>]) -> Result<Content, SiteError> {
    Ok(Content::new("texts", "bin", text_bytes(part)?))
}

/// Returns a file of the texts of some passages, without padding.
pub(super) fn text_bytes(part: &[Row<'_>]) -> Result<Vec<u8>, SiteError> {
    let blocks = part.chunks(BLOCK).map(block).collect::<Result<Vec<_>, _>>()?;
    Ok(file(part.len(), BLOCK, &blocks, 0))
}

/// Returns the packs of a part's texts: files of texts of exactly `bytes` bytes each, or a multiple of them where a
/// single passage takes more, with the number of passages in each.
pub(super) fn packs(part: &[Row<'_>], bytes: usize) -> Result<Vec<(usize, Content)>, SiteError> {
    let (mut packs, mut rest) = (Vec::new(), part);
    while !rest.is_empty() {
        let (mut per_block, mut blocks) = (PACK_BLOCK, filling(rest, PACK_BLOCK, bytes)?);
        if blocks.is_empty() {
            (per_block, blocks) = (1, filling(rest, 1, bytes)?);
        }
        if blocks.is_empty() {
            blocks.push(block(&rest[..1])?);
        }
        let passages = rest.len().min(blocks.len() * per_block);
        let length = file_bytes(&blocks);
        let padding = length.next_multiple_of(bytes) - length;
        packs.push((passages, Content::new("pack", "bin", file(passages, per_block, &blocks, padding))));
        rest = &rest[passages..];
    }
    Ok(packs)
}

/// Returns as many of the first blocks of `rows` as a file of `bytes` bytes holds.
fn filling(rows: &[Row<'_>], per_block: usize, bytes: usize) -> Result<Vec<Block>, SiteError> {
    let (mut blocks, mut length) = (Vec::new(), HEAD);
    for rows in rows.chunks(per_block) {
        let next = block(rows)?;
        length += ENTRY + next.packed.len();
        if length > bytes {
            break;
        }
        blocks.push(next);
    }
    Ok(blocks)
}

/// Passages that are compressed together.
struct Block {
    packed: Vec<u8>,
    /// Uncompressed bytes.
    length: usize,
}

fn block(rows: &[Row<'_>]) -> Result<Block, SiteError> {
    let texts: Vec<&Passage> = rows.iter().map(|(passage, _)| passage).collect();
    let json = serde_json::to_vec(&texts).map_err(written)?;
    if json.len() > MOST_BYTES {
        let longest = rows.iter().max_by_key(|(passage, _)| passage.text.len());
        let (id, bytes) =
            longest.map(|(passage, _)| (passage.id.clone(), passage.text.len())).unwrap_or_default();
        return Err(SiteError::Passage { id, bytes, most: MOST_BYTES });
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&json).map_err(written)?;
    Ok(Block { packed: encoder.finish().map_err(written)?, length: json.len() })
}

/// Returns the bytes of a file of these blocks without padding.
fn file_bytes(blocks: &[Block]) -> usize {
    HEAD + blocks.iter().map(|block| ENTRY + block.packed.len()).sum::<usize>()
}

/// Returns a file of texts.
fn file(passages: usize, per_block: usize, blocks: &[Block], padding: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(file_bytes(blocks) + padding);
    bytes.extend(TEXTS);
    bytes.extend((passages as u64).to_le_bytes());
    bytes.extend((per_block as u32).to_le_bytes());
    bytes.extend((padding as u32).to_le_bytes());
    for Block { packed, length } in blocks {
        bytes.extend((packed.len() as u32).to_le_bytes());
        bytes.extend((*length as u32).to_le_bytes());
    }
    blocks.iter().for_each(|block| bytes.extend(&block.packed));
    bytes.resize(bytes.len() + padding, 0);
    bytes
}

fn written(error: impl Into<std::io::Error>) -> SiteError {
    dpr_files::Error::write(error.into()).into()
}
