//! The impacts of long posting lists: for each block the pairs of term frequency and passage length that no other pair
//! of the block exceeds, from which an upper bound of its scores follows for any `k1` and `b` (Lucene has the same,
//! and the name).

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};

use dpr_core::kernel::search::postings::POINTS;
use dpr_files::Mapped;
use dpr_files::{Error as FileError, atomic};
use tantivy::index::{InvertedIndexReader, SegmentReader};
use tantivy::postings::{BlockSegmentPostings, TermInfo};
use tantivy::schema::{Field, IndexRecordOption};

use super::SparseError;
use super::documents::Documents;
use super::io_error::to_io;

/// The file's name beside tantivy's own; indexes of earlier versions lack it.
const FILE: &str = "impacts.bin";
const MAGIC: [u8; 8] = *b"DPRIMPA1";

/// Postings of the shortest list that has impacts: shorter ones are scored whole before a search begins.
pub(super) const LEAST: u32 = 2048;

/// A pair of a term frequency, at most 255, which stands for any above, and a length, as
/// [`block_bounds`](dpr_core::kernel::search::postings::block_bounds) takes it.
type Impact = u32;
const MOST_TF: u32 = 255;
const MOST_LENGTH: u32 = (1 << 24) - 1;

/// 32-bit words of the file's head, of a segment's head and of a list.
const HEAD: usize = 4;
const SEGMENT: usize = 12;
const LIST: usize = 4;

/// Impacts of all segments, mapped.
#[derive(Debug)]
pub(super) struct Impacts {
    file: Mapped,
    segments: Vec<Tables>,
}

/// The offsets at which the tables of a segment begin, in words of the file.
#[derive(Debug)]
struct Tables {
    lists: usize,
    blocks: usize,
    from: usize,
    /// For each list [`UNKNOWN`], [`RIGHT`] or [`WRONG`]: whether its impacts bound its postings.
    states: Vec<AtomicU8>,
}

/// No search has read the list yet.
const UNKNOWN: u8 = 0;
/// The impacts bound the postings.
const RIGHT: u8 = 1;
/// They do not, and are not used.
const WRONG: u8 = 2;

/// The impacts of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocks<'a> {
    /// The last document of each block.
    pub(super) last: &'a [u32],
    pub(super) impacts: &'a [[Impact; POINTS]],
}

impl Impacts {
    /// Writes the impacts of all long posting lists. Each table goes straight to the file, for which the lists are gone
    /// through once more, so that the memory does not grow with them.
    pub(super) fn write(
        dir: &Path,
        segments: &[SegmentReader],
        rows: &[Vec<u32>],
        documents: &Documents,
        field: Field,
    ) -> tantivy::Result<()> {
        let mean = documents.mean_length();
        let written = atomic::write_file(&dir.join(FILE), |out| {
            out.write_all(&MAGIC)?;
            out.write_all(&(segments.len() as u64).to_le_bytes())?;
            for (segment, rows) in segments.iter().zip(rows) {
                let inverted = segment.inverted_index(field).map_err(to_io)?;
                out.write_all(segment.segment_id().uuid_string().as_bytes())?;
                let length = |document: &u32| documents.lengths[rows[*document as usize] as usize];
                write_tables(&inverted, length, mean, out)?;
            }
            Ok(())
        });
        Ok(written?)
    }

    /// Maps the file; `None` where the index has none, and on a machine that has the bytes of numbers the other way.
    pub(super) fn open(dir: &Path, segments: &[SegmentReader]) -> Result<Option<Self>, SparseError> {
        let path = dir.join(FILE);
        let file = match Mapped::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(FileError::read(&path))?,
        };
        if cfg!(target_endian = "big") {
            return Ok(None);
        }
        let corrupt = || SparseError::File(FileError::corrupt(&path, "it does not fit the inverted index"));
        let ids: Vec<String> = segments.iter().map(|segment| segment.segment_id().uuid_string()).collect();
        let segments = tables(file.bytes(), &ids).ok_or_else(corrupt)?;
        Ok(Some(Self { file, segments }))
    }

    /// Returns the impacts of the list that begins at byte `start` of a segment's postings; `None` where it has none or
    /// they do not bound it, so that no file can make a search find other passages. `lengths` are those of the
    /// segment's documents. The first search for a term reads its list to see that; later ones do not.
    pub(super) fn of(
        &self,
        segment: usize,
        start: usize,
        postings: &BlockSegmentPostings,
        lengths: &[f32],
    ) -> Option<Blocks<'_>> {
        let words: &[u32] = bytemuck::try_cast_slice(self.file.bytes()).ok()?;
        let Tables { lists, blocks, from, states } = self.segments.get(segment)?;
        let table = words.get(*from..)?.get(..lists * LIST)?.as_chunks::<LIST>().0;
        let at = table.binary_search_by_key(&start, |[low, high, ..]| whole(*low, *high)).ok()?;
        let [_, _, low, high] = table[at];
        let (first, count) = (whole(low, high), postings.doc_freq().div_ceil(BLOCK) as usize);
        let last = words.get(from + lists * LIST..)?.get(..*blocks)?;
        let impacts = words.get(from + lists * LIST + blocks..)?.as_chunks::<POINTS>().0;
        let of_list = first..first.checked_add(count)?;
        let found = Blocks { last: last.get(of_list.clone())?, impacts: impacts.get(of_list)? };
        let state = states.get(at)?;
        if state.load(Ordering::Relaxed) == UNKNOWN {
            let is_right = found.bound(postings.clone(), lengths);
            state.store(if is_right { RIGHT } else { WRONG }, Ordering::Relaxed);
            if !is_right {
                tracing::warn!(
                    "{FILE} does not bound the posting list at byte {start}: it is searched without its bounds; \
                     build the index again"
                );
            }
        }
        (state.load(Ordering::Relaxed) == RIGHT).then_some(found)
    }
}

impl Blocks<'_> {
    /// Returns whether these are the ends of the blocks, and an impact of each bounds each of its postings.
    fn bound(&self, mut postings: BlockSegmentPostings, lengths: &[f32]) -> bool {
        for (last, impacts) in self.last.iter().zip(self.impacts) {
            let (documents, tfs) = (postings.docs(), postings.freqs());
            if documents.last() != Some(last) {
                return false;
            }
            let impacts = impacts.map(|impact| (impact & MOST_TF, (impact >> 8) as f32));
            for (document, tf) in documents.iter().zip(tfs) {
                let Some(length) = lengths.get(*document as usize) else { return false };
                let bounds = |(most, shortest): (u32, f32)| (*tf).min(MOST_TF) <= most && *length >= shortest;
                if !impacts.iter().fold(false, |is_bounded, impact| is_bounded | bounds(*impact)) {
                    return false;
                }
            }
            postings.advance();
        }
        postings.docs().is_empty()
    }
}

/// Postings of a block of tantivy's.
const BLOCK: u32 = 128;

/// Writes the numbers of a segment's lists and blocks, and its tables. `length` returns that of a document.
fn write_tables(
    inverted: &InvertedIndexReader,
    length: impl Fn(&u32) -> u32,
    mean: f64,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let blocks_of = |info: &TermInfo| info.doc_freq.div_ceil(BLOCK) as usize;
    let (mut lists, mut blocks) = (0, 0);
    each_list(inverted, |info| {
        lists += 1;
        blocks += blocks_of(info);
        Ok(())
    })?;
    write_words(out, &low_and_high(lists))?;
    write_words(out, &low_and_high(blocks))?;
    let mut first = 0;
    each_list(inverted, |info| {
        write_words(out, &low_and_high(info.postings_range.start))?;
        write_words(out, &low_and_high(first))?;
        first += blocks_of(info);
        Ok(())
    })?;
    each_list(inverted, |info| {
        let mut postings = inverted.read_block_postings_from_terminfo(info, IndexRecordOption::Basic)?;
        while let Some(end) = postings.docs().last() {
            write_words(out, &[*end])?;
            postings.advance();
        }
        Ok(())
    })?;
    each_list(inverted, |info| {
        let mut postings = inverted.read_block_postings_from_terminfo(info, IndexRecordOption::WithFreqs)?;
        while !postings.docs().is_empty() {
            let pairs = postings.freqs().iter().copied().zip(postings.docs().iter().map(&length));
            write_words(out, &frontier(pairs, mean))?;
            postings.advance();
        }
        Ok(())
    })
}

/// Hands each list that has impacts to `take`, in the order of the terms.
fn each_list(
    inverted: &InvertedIndexReader,
    mut take: impl FnMut(&TermInfo) -> io::Result<()>,
) -> io::Result<()> {
    let mut terms = inverted.terms().stream()?;
    while let Some((_, info)) = terms.next() {
        if info.doc_freq >= LEAST {
            take(info)?;
        }
    }
    Ok(())
}

fn write_words(out: &mut dyn io::Write, words: &[u32]) -> io::Result<()> {
    words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))
}

/// Finds the tables of the segments with these ids; `None` where the file is not of that form.
fn tables(bytes: &[u8], ids: &[String]) -> Option<Vec<Tables>> {
    let words: &[u32] = bytemuck::try_cast_slice(bytes).ok()?;
    if bytes.get(..MAGIC.len())? != MAGIC || whole(*words.get(2)?, *words.get(3)?) != ids.len() {
        return None;
    }
    let (mut at, mut found) = (HEAD, Vec::with_capacity(ids.len()));
    for id in ids {
        let head = words.get(at..)?.get(..SEGMENT)?;
        if bytemuck::cast_slice::<u32, u8>(&head[..8]) != id.as_bytes() {
            return None;
        }
        let (lists, blocks) = (whole(head[8], head[9]), whole(head[10], head[11]));
        let from = at + SEGMENT;
        let size = lists.checked_mul(LIST)?.checked_add(blocks.checked_mul(1 + POINTS)?)?;
        at = from.checked_add(size).filter(|end| *end <= words.len())?;
        found.push(Tables {
            lists,
            blocks,
            from,
            states: (0..lists).map(|_| AtomicU8::new(UNKNOWN)).collect(),
        });
    }
    (at == words.len()).then_some(found)
}

/// Returns a number as two words of 32 bits, the low one first.
fn low_and_high(number: usize) -> [u32; 2] {
    [number as u32, (number as u64 >> 32) as u32]
}

/// Returns the number of two words of 32 bits.
fn whole(low: u32, high: u32) -> usize {
    (u64::from(low) | u64::from(high) << 32) as usize
}

/// Returns pairs of term frequency and length that bound all of `pairs`: for each of these, one has at least the
/// frequency and at most the length. The frontier itself, or where it has more than [`POINTS`], neighbours in one.
fn frontier(pairs: impl Iterator<Item = (u32, u32)>, mean: f64) -> [Impact; POINTS] {
    let (mut shortest, mut most) = ([u32::MAX; MOST_TF as usize + 1], 0);
    for (tf, length) in pairs {
        let tf = tf.min(MOST_TF) as usize;
        shortest[tf] = shortest[tf].min(length.min(MOST_LENGTH));
        most = most.max(tf);
    }
    // The greatest frequency first: a pair with a lower one counts where it is shorter than all before it.
    let mut points: Vec<(u32, u32)> = Vec::new();
    for (tf, length) in shortest[..=most].iter().enumerate().rev() {
        if points.last().map_or(u32::MAX, |(_, shortest)| *shortest) > *length {
            points.push((tf as u32, *length));
        }
    }
    while points.len() > POINTS {
        // What becomes one is what raises the bound the least, by constants in the middle of those in use.
        let share =
            |tf: u32, length: u32| f64::from(tf) / (f64::from(tf) + 0.5 + 0.5 * f64::from(length) / mean);
        let raised = |at: usize| {
            let [(tf, longer), (fewer, length)] = [points[at], points[at + 1]];
            share(tf, length) / share(tf, longer).max(share(fewer, length))
        };
        let least = (0..points.len() - 1).min_by(|a, b| raised(*a).total_cmp(&raised(*b))).unwrap_or(0);
        points[least].1 = points[least + 1].1;
        points.remove(least + 1);
    }
    let first = points.first().copied().unwrap_or((0, 0));
    std::array::from_fn(|at| {
        let (tf, length) = points.get(at).copied().unwrap_or(first);
        tf | length << 8
    })
}

#[cfg(test)]
mod tests {
    use super::super::build::{TEXT, rows, segments};
    use super::super::{Analyzer, SparseOptions, build_sparse};
    use super::*;
    use dpr_data::Passage;
    use dpr_files::progress::Silent;

    /// The file as it is when all tables are collected before any is written, and the number of blocks in it.
    fn collected(dir: &Path, count: usize) -> (Vec<u8>, usize) {
        let index = tantivy::Index::open_in_dir(dir).unwrap();
        let field = index.schema().get_field(TEXT).unwrap();
        let segments = segments(&index).unwrap();
        let documents = Documents::read(dir, count).unwrap();
        let (mut words, mut blocks) = (Vec::<u32>::new(), 0);
        for (segment, rows) in segments.iter().zip(rows(&segments).unwrap()) {
            let (mut lists, mut last, mut impacts) = (Vec::new(), Vec::new(), Vec::new());
            let inverted = segment.inverted_index(field).unwrap();
            let mut terms = inverted.terms().stream().unwrap();
            while let Some((_, info)) = terms.next() {
                if info.doc_freq < LEAST {
                    continue;
                }
                lists.extend(low_and_high(info.postings_range.start));
                lists.extend(low_and_high(last.len()));
                let option = IndexRecordOption::WithFreqs;
                let mut postings = inverted.read_block_postings_from_terminfo(info, option).unwrap();
                while let Some(end) = postings.docs().last() {
                    last.push(*end);
                    let length = |document: &u32| documents.lengths[rows[*document as usize] as usize];
                    let pairs = postings.freqs().iter().copied().zip(postings.docs().iter().map(length));
                    impacts.extend(frontier(pairs, documents.mean_length()));
                    postings.advance();
                }
            }
            let id = segment.segment_id().uuid_string();
            words.extend(id.as_bytes().as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)));
            words.extend(low_and_high(lists.len() / LIST));
            words.extend(low_and_high(last.len()));
            blocks += last.len();
            words.extend([lists, last, impacts].concat());
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend((segments.len() as u64).to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        (bytes, blocks)
    }

    #[test]
    fn tables_are_written_one_after_the_other_as_if_they_were_collected_first() {
        // Lists of 6,400 passages (50 whole blocks), 3,200 and 2,134, and one that is too short to have impacts.
        let text = |row: usize| {
            let words = [("all", 1), ("second", 2), ("third", 3), ("fourth", 4)];
            let words = words.iter().filter(|(_, every)| row.is_multiple_of(*every));
            words.map(|(word, _)| format!("{word} ").repeat(1 + row % 7 * (row % 9))).collect::<String>()
        };
        let passages: Vec<Passage> =
            (0..6400).map(|row| Passage::new(row.to_string(), "", text(row))).collect();
        for threads in [1, 3] {
            let dir = tempfile::tempdir().unwrap();
            let options = SparseOptions { analyzer: Analyzer::English, threads };
            build_sparse(dir.path(), &passages, options, &false.into(), &Silent).unwrap();
            let (expected, blocks) = collected(dir.path(), passages.len());
            assert!(threads > 1 || blocks == 50 + 25 + 17, "{blocks}");
            assert!(fs_err::read(dir.path().join(FILE)).unwrap() == expected, "{threads} threads");
        }
    }
}
