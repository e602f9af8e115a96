//! A passage, and reading a corpus of them.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::input::{Format, Input};
use super::{DataError, beir, squad, tsv};
use dpr_files::digest;

/// A piece of text that is retrieved as one: in the DPR paper a block of 100 words and its article's title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Passage {
    /// Unique in its corpus.
    pub id: String,
    /// The article's title; empty when there is none.
    pub title: String,
    /// The text, of any length: the tokenizer cuts it at the model's limit.
    pub text: String,
}

/// Passages of a file, one at a time, in its order. After an error there are no more.
///
/// Memory holds 16 bytes and a place for every id, to find one that is there twice; a SQuAD file is held whole.
pub struct Passages {
    path: PathBuf,
    next: Box<dyn FnMut() -> Result<Option<Passage>, DataError> + Send>,
    is_first: bool,
    is_done: bool,
}

impl fmt::Debug for Passages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passages").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Iterator for Passages {
    type Item = Result<Passage, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let item = match (self.next)() {
            Ok(None) if self.is_first => {
                Some(Err(DataError::Empty { path: self.path.clone(), what: "passages" }))
            }
            item => item.transpose(),
        };
        self.is_first = false;
        self.is_done = !matches!(item, Some(Ok(_)));
        item
    }
}

/// Reads a corpus passage by passage, as a corpus larger than memory needs; formats as [`read_passages`].
///
/// # Errors
/// As [`read_passages`], here or from the iterator.
pub fn stream_passages(path: &Path) -> Result<Passages, DataError> {
    stream(Input::open(path)?)
}

pub(super) fn stream(input: Input) -> Result<Passages, DataError> {
    let path = input.path.clone();
    let next: Box<dyn FnMut() -> _ + Send> = match input.format {
        Format::Tsv => {
            let mut reader = tsv::Reader::new(input)?;
            Box::new(move || reader.next())
        }
        Format::JsonLines => {
            let mut reader = beir::Reader::new(input);
            Box::new(move || reader.next())
        }
        Format::Json => {
            let mut passages = squad::read_passages(input)?.into_iter();
            Box::new(move || Ok(passages.next()))
        }
        Format::Plain => return Err(DataError::UnknownFormat { path }),
    };
    Ok(Passages { path, next, is_first: true, is_done: false })
}

/// Reads a corpus, in the order of the file.
///
/// The format is told by the name (`.tsv`, `.jsonl`, `.json`, each also with `.gz`) and else by the content:
/// `psgs_w100.tsv` order (header `id`, `text`, `title` in any order), BEIR `corpus.jsonl`, Tevatron's corpus, SQuAD
/// v1.1 json. A SQuAD paragraph has the id `{article}-{paragraph}`, both from 0, and its article's title with spaces
/// for `_`.
///
/// # Errors
/// [`DataError`] with the file and the place: a missing column, invalid UTF-8, an empty text, a duplicate id,
/// no passages at all, or a file that cannot be read.
pub fn read_passages(path: &Path) -> Result<Vec<Passage>, DataError> {
    stream_passages(path)?.collect()
}

/// A digest of ids, titles and texts in order (64 hex characters): the same corpus read from another format
/// has the same one.
pub fn corpus_sha256(passages: &[Passage]) -> String {
    let mut hash = Sha256::new();
    for passage in passages {
        for field in [&passage.id, &passage.title, &passage.text] {
            // The length keeps ("ab", "c") and ("a", "bc") apart.
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field.as_bytes());
        }
    }
    digest::hex(hash)
}

/// Writes passages as `passages.jsonl`, an object a line; where each line begins, and where the last ends.
pub fn write_passages(passages: &[Passage], out: &mut dyn Write) -> io::Result<Vec<u64>> {
    let (mut starts, mut line) = (vec![0], Vec::new());
    for passage in passages {
        line.clear();
        serde_json::to_writer(&mut line, passage)?;
        line.push(b'\n');
        out.write_all(&line)?;
        starts.extend(starts.last().map(|start| start + line.len() as u64));
    }
    Ok(starts)
}

/// Parses what [`write_passages`] wrote; the error says the line.
pub fn parse_passages(bytes: &[u8], count: usize) -> Result<Vec<Passage>, String> {
    let mut start = 0;
    let mut line_to = |end: usize| &bytes[std::mem::replace(&mut start, end)..end];
    let mut lines: Vec<&[u8]> = memchr::memchr_iter(b'\n', bytes).map(|at| line_to(at + 1)).collect();
    lines.extend(Some(line_to(bytes.len())).filter(|line| !line.is_empty()));
    let parse = |(number, line): (usize, &&[u8])| {
        serde_json::from_slice(line).map_err(|e| format!("line {}: {e}", number + 1))
    };
    let passages: Vec<Passage> =
        lines.par_iter().enumerate().with_min_len(256).map(parse).collect::<Result<_, _>>()?;
    if passages.len() != count {
        return Err(format!("{} passages, but {count} vectors", passages.len()));
    }
    Ok(passages)
}
