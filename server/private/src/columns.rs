//! The table of texts: passages packed into columns of compressed JSON lines.
//!
//! A column is the length of its compressed passages (u32), raw deflate of one JSON object a line, and padding, all under
//! the mask of its number.

use std::io::Write as _;

use dpr_core::private::encrypted::manifest::{HASH, LENGTH, PADDING};
use dpr_core::private::encrypted::params::{FETCH_SETS, FetchShape};
use dpr_core::private::encrypted::public::mask_column;
use dpr_data::Passage;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::BuildError;

/// Passages that are packed by one thread; a column does not cross their border.
const SEGMENT: usize = 2048;

/// The most bytes of a column.
const MOST_ROWS: usize = 1 << 16;

/// The most passages of a column: their number is a byte.
const MOST_PASSAGES: usize = 255;

/// Searches between two downloads of the hint, in the choice of the table's form: what is sent weighs more on a phone.
const SEARCHES: f64 = 8.0;

/// Columns that a search fetches, in the choice of the table's form.
const FETCHES: f64 = 5.0;

/// The table of texts, before it is turned.
pub(crate) struct Packed {
    pub(crate) shape: FetchShape,
    /// Compressed passages of each column.
    columns: Vec<Vec<u8>>,
    /// Passages of each column.
    pub(crate) counts: Vec<u8>,
}

/// Packs passages, which come in the order of the tables.
pub(crate) fn pack(passages: &[Passage]) -> Result<Packed, BuildError> {
    let lines: Vec<Vec<u8>> = passages.par_iter().map(line).collect();
    let longest = lines.par_iter().zip(passages).map(|(line, passage)| {
        let bytes = deflate(line).len();
        let most = MOST_ROWS - LENGTH;
        let too_long = || BuildError::Passage { id: passage.id.clone(), bytes, most };
        (bytes <= most).then_some(bytes).ok_or_else(too_long)
    });
    let longest = longest.try_reduce(|| 0, |a, b| Ok(a.max(b)))? + LENGTH;
    let (set, degree) = (FETCH_SETS[0].number, FETCH_SETS[0].degree);
    let rows = best_rows(&lines, longest, degree);
    let packed: Vec<(Vec<Vec<u8>>, Vec<u8>)> =
        lines.par_chunks(SEGMENT).map(|segment| pack_segment(segment, rows)).collect();
    let (columns, counts): (Vec<_>, Vec<_>) = packed.into_iter().unzip();
    let (columns, counts): (Vec<Vec<u8>>, Vec<u8>) = (columns.concat(), counts.concat());
    // What the packing left free at the end of every column is cut off.
    let rows = columns.iter().map(Vec::len).max().unwrap_or_default() + LENGTH;
    let shape = FetchShape::new(set, columns.len().next_multiple_of(degree), rows.max(32));
    let most = 1 << 19;
    match shape {
        Ok(shape) => Ok(Packed { shape, columns, counts }),
        Err(_) if columns.len() > most => Err(BuildError::TooLarge { columns: columns.len(), rows, most }),
        Err(error) => Err(error.into()),
    }
}

/// Returns the bytes of a column for which the hint and some searches cost least together.
fn best_rows(lines: &[Vec<u8>], longest: usize, degree: usize) -> usize {
    // Compressed by fours, and a tenth for what stays free.
    let step = (lines.len() / 4096).max(1);
    let groups = lines.chunks(4).step_by(step);
    let (mut bytes, mut count) = (0, 0);
    for group in groups {
        bytes += deflate(&group.concat()).len();
        count += group.len();
    }
    let all = bytes as f64 / count.max(1) as f64 * lines.len() as f64 * 1.1;
    let hint_row = 2.0 * degree as f64;
    let sent_column = 26.0 / 8.0 * SEARCHES * FETCHES;
    let columns = (all * hint_row / sent_column).sqrt() / degree as f64;
    let columns = columns.round().clamp(1.0, 256.0) * degree as f64;
    ((all / columns) as usize).clamp(longest, MOST_ROWS)
}

/// Packs a part of the passages into columns of at most `rows` bytes, as many into each as fit.
fn pack_segment(lines: &[Vec<u8>], rows: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (mut columns, mut counts) = (Vec::new(), Vec::new());
    let mut rest = lines;
    while !rest.is_empty() {
        let (mut best, mut taken, mut text) = (Vec::new(), 0, Vec::new());
        for line in rest.iter().take(MOST_PASSAGES) {
            text.extend_from_slice(line);
            let packed = deflate(&text);
            if packed.len() + LENGTH > rows && taken > 0 {
                break;
            }
            (best, taken) = (packed, taken + 1);
        }
        columns.push(best);
        counts.push(taken as u8);
        rest = &rest[taken..];
    }
    (columns, counts)
}

/// Returns a passage as a line of JSON.
pub(crate) fn line(passage: &Passage) -> Vec<u8> {
    // A passage is text and metadata, which JSON always holds.
    let mut line = serde_json::to_vec(passage).unwrap_or_default();
    line.push(b'\n');
    line
}

pub(crate) fn deflate(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(9));
    // Memory takes all.
    let _ = encoder.write_all(text);
    encoder.finish().unwrap_or_default()
}

impl Packed {
    /// Returns the bytes of a column as they are fetched.
    fn column(&self, at: usize) -> Vec<u8> {
        let Some(packed) = self.columns.get(at) else { return vec![PADDING; self.shape.rows()] };
        let mut column = (packed.len() as u32).to_le_bytes().to_vec();
        column.extend_from_slice(packed);
        column.resize(self.shape.rows(), PADDING);
        mask_column(at, &mut column);
        column
    }

    /// Returns the number of columns that hold passages.
    pub(crate) fn used(&self) -> usize {
        self.columns.len()
    }

    /// Returns the beginning of the SHA-256 of each column that holds passages.
    pub(crate) fn hashes(&self) -> Vec<u8> {
        let hash = |at: usize| Sha256::digest(self.column(at)).as_slice()[..HASH].to_vec();
        (0..self.used()).into_par_iter().flat_map_iter(hash).collect()
    }

    /// Returns the table `[rows, columns]` of bytes less 128.
    pub(crate) fn table(&self) -> Vec<i8> {
        let (rows, width) = (self.shape.rows(), self.shape.columns());
        let mut table = vec![0; rows * width];
        for at in 0..self.used() {
            for (row, byte) in self.column(at).into_iter().enumerate() {
                table[row * width + at] = (byte ^ PADDING) as i8;
            }
        }
        table
    }
}

/// Returns the length of the longest row of a table.
pub(crate) fn row_norm(table: &[i8], columns: usize) -> f64 {
    let squares = |row: &[i8]| row.iter().map(|byte| i64::from(*byte).pow(2)).sum::<i64>();
    (table.par_chunks(columns).map(squares).max().unwrap_or_default() as f64).sqrt()
}
