//! Reading a corpus: tells the format of a file and hands the file to the reader of that format.

use std::fmt;
use std::path::{Path, PathBuf};

use super::input::{Format, Input};
use super::{DataError, Passage, beir, squad, tsv};

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

/// Reads a corpus passage by passage, for a corpus larger than memory. The formats are those of [`read_passages`].
///
/// # Errors
/// [`DataError`] as from [`read_passages`], here or from the iterator.
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
/// [`DataError`] with the file and the place: a missing column, invalid UTF-8, an empty text, a duplicate id, an id
/// with a control character, no passages at all, or a file that cannot be read.
pub fn read_passages(path: &Path) -> Result<Vec<Passage>, DataError> {
    stream_passages(path)?.collect()
}
