//! The table of texts: passages packed into columns of compressed JSON lines.
//!
//! A column is the length of its compressed passages (u32), raw deflate of one JSON object a line, and padding, all under
//! the mask of its number.

use std::io::Write as _;

use dpr_core::private::encrypted::delta::MOST_TEXT;
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

/// The most bytes of a passage's line that are sure to fit a column: where nothing can be compressed, deflate adds some
/// tens of bytes.
const FITS: usize = MOST_ROWS - 1024;

/// The least length of a column that is worth a warning when one passage causes it: its hint has 8 MiB.
const WIDE: usize = 2048;

/// The most passages of a column: their number is a byte.
const MOST_PASSAGES: usize = 255;

/// Searches between two downloads of the hint, in the choice of the table's form: what is sent weighs more on a phone.
const SEARCHES: f64 = 8.0;

/// Columns that a search fetches, in the choice of the table's form.
const FETCHES: f64 = 5.0;

/// The passage for which all columns are longer than the others need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Widest {
    /// Its id.
    pub id: String,
    /// Bytes of the hint that everybody downloads.
    pub hint_bytes: usize,
    /// About the bytes that it would have without the passage.
    pub usual: usize,
}

impl Widest {
    /// Returns what is worth a warning, with the fix.
    pub(crate) fn warning(&self) -> String {
        let Self { id, hint_bytes, usual } = self;
        format!(
            "the hint that everybody downloads has {hint_bytes} bytes in the place of about {usual} bytes, because of the \
             longest passage, `{id}`: split it, and build the tables again"
        )
    }
}

/// The table of texts, before it is turned.
pub(crate) struct Packed {
    pub(crate) shape: FetchShape,
    /// Compressed passages of each column.
    columns: Vec<Vec<u8>>,
    /// Passages of each column.
    pub(crate) counts: Vec<u8>,
    pub(crate) widest: Option<Widest>,
}

/// Refuses a passage that no column of private tables holds: with it, those of the next version of an index could not
/// be built.
///
/// # Errors
/// [`BuildError::Passage`].
pub fn check_passage(passage: &Passage) -> Result<(), BuildError> {
    let line = line(passage);
    if line.len() > FITS { packed_bytes(&line, passage).map(drop) } else { Ok(()) }
}

/// Returns the compressed bytes of a passage, whose line this is.
fn packed_bytes(line: &[u8], passage: &Passage) -> Result<usize, BuildError> {
    let (bytes, most) = (deflate(line).len(), MOST_ROWS - LENGTH);
    if bytes > most {
        return Err(BuildError::Passage { id: passage.id.clone(), bytes, most });
    }
    Ok(bytes)
}

/// Packs passages, which come in the order of the tables.
pub(crate) fn pack(passages: &[Passage]) -> Result<Packed, BuildError> {
    let lines: Vec<Vec<u8>> = passages.par_iter().map(line).collect();
    let bytes = lines.par_iter().zip(passages).map(|(line, passage)| packed_bytes(line, passage));
    let bytes = bytes.collect::<Result<Vec<usize>, BuildError>>()?;
    let longest = bytes.into_iter().enumerate().max_by_key(|(_, bytes)| *bytes);
    let (at, longest) = longest.map_or((0, LENGTH), |(at, bytes)| (at, bytes + LENGTH));
    let (set, degree) = (FETCH_SETS[0].number, FETCH_SETS[0].degree);
    let wanted = best_rows(&lines, degree);
    let rows = wanted.clamp(longest, MOST_ROWS);
    let packed: Vec<(Vec<Vec<u8>>, Vec<u8>)> =
        lines.par_chunks(SEGMENT).map(|segment| pack_segment(segment, rows)).collect();
    let (columns, counts): (Vec<_>, Vec<_>) = packed.into_iter().unzip();
    let (columns, counts): (Vec<Vec<u8>>, Vec<u8>) = (columns.concat(), counts.concat());
    // What the packing left free at the end of every column is cut off.
    let rows = columns.iter().map(Vec::len).max().unwrap_or_default() + LENGTH;
    let shape = FetchShape::new(set, columns.len().next_multiple_of(degree), rows.max(32));
    let most = 1 << 19;
    match shape {
        Ok(shape) => {
            let is_wide = longest > 2 * wanted && longest >= WIDE;
            let widest = passages.get(at).filter(|_| is_wide).map(|passage| Widest {
                id: passage.id.clone(),
                hint_bytes: shape.hint_bytes(),
                usual: 2 * wanted * degree,
            });
            Ok(Packed { shape, columns, counts, widest })
        }
        Err(_) if columns.len() > most => Err(BuildError::TooLarge { columns: columns.len(), rows, most }),
        Err(error) => Err(error.into()),
    }
}

/// Returns the bytes of a column for which the hint and some searches cost least together.
fn best_rows(lines: &[Vec<u8>], degree: usize) -> usize {
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
    ((all / columns) as usize).max(LENGTH)
}

/// Packs a part of the passages into columns of at most `rows` bytes, as many into each as fit and as a client
/// decompresses.
fn pack_segment(lines: &[Vec<u8>], rows: usize) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (mut columns, mut counts) = (Vec::new(), Vec::new());
    let mut rest = lines;
    while !rest.is_empty() {
        let (mut best, mut taken, mut text) = (Vec::new(), 0, Vec::new());
        for line in rest.iter().take(MOST_PASSAGES) {
            if taken > 0 && text.len() + line.len() > MOST_TEXT {
                break;
            }
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use dpr_core::random::SplitMix;
    use flate2::read::DeflateDecoder;

    use super::*;

    fn noise(bytes: usize) -> String {
        let mut random = SplitMix::new(5);
        (0..bytes).map(|_| char::from(33 + random.below(90) as u8)).collect()
    }

    #[test]
    fn no_column_has_more_text_than_a_client_decompresses() {
        // Columns that are long enough for more of the passages that hardly take any bytes.
        let mut passages = vec![Passage::new("long", "", noise(20_000))];
        passages.extend((0..20).map(|at| Passage::new(format!("p{at}"), "", "a".repeat(1 << 20))));
        let packed = pack(&passages).unwrap();
        assert!(packed.used() >= 4, "{}", packed.used());
        assert_eq!(packed.counts.iter().map(|count| usize::from(*count)).sum::<usize>(), 21);
        for column in &packed.columns {
            let mut text = Vec::new();
            DeflateDecoder::new(column.as_slice()).read_to_end(&mut text).unwrap();
            assert!(text.len() <= MOST_TEXT, "{}", text.len());
        }
    }

    #[test]
    fn a_passage_that_no_column_holds_is_refused_with_its_id_the_limit_and_the_fix() {
        let long = Passage::new("long", "", noise(90_000));
        let beside = [Passage::new("p0", "", "text"), long.clone()];
        for refused in [check_passage(&long), pack(&beside).map(drop)] {
            let error = refused.unwrap_err();
            assert!(matches!(&error, BuildError::Passage { id, .. } if id == "long"), "{error}");
            assert!(error.to_string().contains("65532: split it or delete it"), "{error}");
        }
        // What can be compressed may be longer, and what cannot is checked to the byte.
        check_passage(&Passage::new("p0", "", "a".repeat(1 << 20))).unwrap();
        for bytes in [FITS - 100, FITS, 70_000, 79_000, 80_000, 81_000] {
            let passage = Passage::new("p", "", noise(bytes));
            assert_eq!(check_passage(&passage).is_ok(), pack(&[passage]).is_ok(), "{bytes} bytes");
        }
    }

    #[test]
    fn a_passage_that_makes_a_large_hint_is_named_and_one_among_its_like_is_not() {
        let short = |at: usize| Passage::new(format!("p{at}"), "", format!("Passage {at}."));
        let mut passages: Vec<Passage> = (0..300).map(short).collect();
        assert_eq!(pack(&passages).unwrap().widest, None);
        passages.push(Passage::new("long", "", noise(40_000)));
        let packed = pack(&passages).unwrap();
        let widest = packed.widest.unwrap();
        assert_eq!((widest.id.as_str(), widest.hint_bytes), ("long", packed.shape.hint_bytes()));
        assert!(widest.hint_bytes > 100 << 20 && widest.usual < widest.hint_bytes / 10, "{widest:?}");
        let (warning, Widest { hint_bytes, usual, .. }) = (widest.warning(), &widest);
        let sizes =
            format!("downloads has {hint_bytes} bytes in the place of about {usual} bytes, because of");
        assert!(warning.contains(&sizes) && warning.contains("`long`: split it"), "{warning}");
    }
}
