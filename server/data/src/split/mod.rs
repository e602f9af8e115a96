//! Splitting of documents into blocks of 100 words: the passages that are retrieved (paper §4.1).
//!
//! [`split`] reads documents and writes a corpus of their blocks, each with its document's title and an id that leads
//! back to it ([`block_id`], [`document_of`]). [`Blocks`] does the same for one text in memory; [`Words`] defines
//! what a word is.
//!
//! | input | documents | id | title |
//! |---|---|---|---|
//! | `.tsv`, header `id text title` | one a line | `id` | `title` |
//! | `.jsonl`, `.ndjson` (BEIR) | one a line | `_id` | `title` |
//! | `.txt` | one | file name | first line if an empty one follows and it has at most 20 words, else file name |
//! | `.md` | one | file name | `title` of the front matter, else first heading, else file name |
//! | `.html`, `.htm`, `.xhtml` | one | file name | `<title>`, else first `<h1>`, else file name |
//! | a directory | one in every file of the last three kinds | path below the directory, with `/` | as above |
//!
//! White space of file names and paths is `_` in ids, with more `_` at the end where another file has that name. Each
//! file may be gzip-compressed. A file name is a title without its ending. In a directory hidden files are
//! passed over; files of other kinds and symbolic links are counted by their endings. TSV and BEIR files are read as
//! streams, with [`read_passages`](super::read_passages)' rules: one document at a time and 16 bytes for every id are
//! in memory.

mod blocks;
mod error;
mod html;
mod kind;
mod markdown;
mod source;
mod tags;
mod text;
mod words;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;

use serde::Serialize;

pub use blocks::{Block, Blocks, SplitOptions, block_id, document_of};
pub use error::SplitError;
use kind::Kind;
use source::Documents;
pub use words::Words;

use crate::{CorpusLayout, Passage, PassageWriter, check_not_input, write_corpus};
use dpr_files::progress::Progress;

/// The unit of progress reports: bytes would be unreadable.
const MEGABYTE: u64 = 1_000_000;

/// The result of [`split`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SplitReport {
    /// Documents that have blocks.
    pub documents: u64,
    /// Blocks written.
    pub blocks: u64,
    /// Words of all documents, each counted once however much blocks overlap.
    pub words: u64,
    /// Files without any text; they have no block.
    pub empty_files: u64,
    /// Files of a directory that are not read, by ending (`.pdf`), `no ending` or `symbolic link`.
    pub skipped_files: BTreeMap<String, u64>,
}

/// Splits the documents of `input`, a file or a directory, and writes their blocks to `out`: `.tsv` in the layout
/// of `psgs_w100.tsv` or `.jsonl` as BEIR's `corpus.jsonl`, each also with `.gz`. The same input gives the same
/// bytes. Progress is in megabytes of the input as it lies on disk.
///
/// A document that has only a title, as some of BEIR's, is one block with the title as its text, so that it can
/// be found.
///
/// # Errors
/// [`SplitError`], which names the file and the place: input of an unknown kind, without documents or that cannot be
/// read, an id that occurs twice, an output that is the input or cannot be written. `out` is then unchanged.
pub fn split(
    input: &Path,
    out: &Path,
    options: &SplitOptions,
    progress: &dyn Progress,
) -> Result<SplitReport, SplitError> {
    let layout = match Kind::by_name(out) {
        Some(Kind::Tsv) => CorpusLayout::Tsv,
        Some(Kind::JsonLines) => CorpusLayout::Beir,
        _ => return Err(SplitError::UnknownOutput { path: out.to_path_buf() }),
    };
    if check_not_input(out, input).is_err() {
        return Err(SplitError::OverInput { path: out.to_path_buf() });
    }
    let mut documents = Documents::open(input)?;
    let mut work = Work { options, progress, report: SplitReport::default(), told: 0 };
    progress.start("splitting", "MB", documents.bytes.div_ceil(MEGABYTE));
    let written = write_corpus(out, layout, |out| work.run(&mut documents, out));
    progress.finish();
    written?;
    Ok(SplitReport { skipped_files: documents.skipped, ..work.report })
}

struct Work<'a> {
    options: &'a SplitOptions,
    progress: &'a dyn Progress,
    report: SplitReport,
    /// Megabytes that progress knows of.
    told: u64,
}

impl Work<'_> {
    fn run(&mut self, documents: &mut Documents, out: &mut PassageWriter<'_>) -> Result<(), SplitError> {
        while let Some(document) = documents.next()? {
            self.write(&document, out)?;
            let read = documents.read.load(Ordering::Relaxed) / MEGABYTE;
            if read > self.told {
                self.progress.advance(read - self.told);
                self.told = read;
            }
        }
        self.progress.advance(documents.bytes.div_ceil(MEGABYTE).saturating_sub(self.told));
        let SplitReport { documents: count, empty_files, .. } = self.report;
        match count {
            0 => Err(documents.without_words(empty_files)),
            _ => Ok(()),
        }
    }

    fn write(&mut self, document: &Passage, out: &mut PassageWriter<'_>) -> Result<(), SplitError> {
        let title = document.title.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = if document.text.trim().is_empty() { &title } else { &document.text };
        let blocks = Blocks::of(text, self.options);
        if blocks.document_words() == 0 {
            self.report.empty_files += 1;
            return Ok(());
        }
        self.report.documents += 1;
        self.report.words += blocks.document_words() as u64;
        for block in blocks {
            let id = block_id(&document.id, block.number);
            out.write(&Passage::new(id, title.clone(), block.text).with_metadata(document.metadata.clone()))?;
            self.report.blocks += 1;
        }
        Ok(())
    }
}
