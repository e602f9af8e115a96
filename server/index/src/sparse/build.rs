//! Writing an inverted index.

use std::io;
use std::path::{Path, PathBuf};

use dpr_files::{Error as FileError, atomic};
use std::sync::atomic::{AtomicBool, Ordering};

use fs_err as fs;
use tantivy::index::SegmentReader;
use tantivy::schema::{FAST, Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};
use tantivy::{Index, IndexWriter, TantivyDocument, TantivyError};

use super::documents::Documents;
use super::impacts::Impacts;
use super::io_error::to_io;
use super::{Analyzer, SparseError, SparseOptions};
use crate::passage_stream::PassageStream;
use dpr_data::Passage;
use dpr_files::progress::Progress;

/// The field of titles and texts, and that of rows.
pub(super) const TEXT: &str = "text";
const ROW: &str = "row";
/// Bytes of postings that all threads collect before they write segments, and the most of one thread. Tantivy asks
/// for at least 15 MB a thread.
const BUFFER: usize = 1 << 30;
const THREAD_BUFFER: usize = 256 << 20;
const LEAST_BUFFER: usize = 16 << 20;
/// More threads than that would wait for one another.
const MAX_THREADS: usize = 64;
/// Passages between two looks at the stop flag and at the progress.
pub(crate) const STEP: usize = 1024;

/// Writes the index of [`build_sparse`](super::build_sparse), of passages that are read one after the other.
///
/// # Errors
/// As [`build_sparse`](super::build_sparse), and the error of a passage that cannot be read.
pub(crate) fn write_sparse(
    dir: &Path,
    passages: &dyn PassageStream,
    options: SparseOptions,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<(), SparseError> {
    if passages.count() == 0 {
        return Err(SparseError::Empty);
    }
    let mut writer = SparseWriter::new(dir, options)?;
    progress.start("indexing terms", "passages", passages.count() as u64);
    let mut told = 0;
    for (passage, number) in passages.passages().zip(0usize..) {
        if number - told == STEP {
            if stop.load(Ordering::Relaxed) {
                return Err(SparseError::Interrupted);
            }
            progress.advance(STEP as u64);
            told = number;
        }
        writer.add(passage?.as_ref())?;
    }
    progress.advance((passages.count() - told) as u64);
    writer.finish()?;
    progress.finish();
    Ok(())
}

/// Writes an inverted index of passages that come one at a time, as [`build_sparse`] does. The memory that it takes
/// does not grow with their texts.
pub(crate) struct SparseWriter {
    dir: PathBuf,
    index: Index,
    writer: IndexWriter,
    text: Field,
    row: Field,
    rows: u64,
}

impl SparseWriter {
    pub(crate) fn new(dir: &Path, options: SparseOptions) -> Result<Self, SparseError> {
        let (schema, text, row) = schema(options.analyzer);
        let index = Index::create_in_dir(dir, schema).map_err(failed(dir))?;
        register(&index, options.analyzer);
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let threads = threads.min(MAX_THREADS);
        let buffer = (BUFFER / threads).clamp(LEAST_BUFFER, THREAD_BUFFER);
        let writer = index.writer_with_num_threads(threads, buffer * threads).map_err(failed(dir))?;
        Ok(Self { dir: dir.to_path_buf(), index, writer, text, row, rows: 0 })
    }

    /// Adds the passage of the next row.
    pub(crate) fn add(&mut self, passage: &Passage) -> Result<(), SparseError> {
        let mut document = TantivyDocument::new();
        document.add_text(self.text, &passage.title);
        document.add_text(self.text, &passage.text);
        document.add_u64(self.row, self.rows);
        self.writer.add_document(document).map_err(failed(&self.dir))?;
        self.rows += 1;
        Ok(())
    }

    /// Returns the number of passages that were added.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes what is still in memory, and the files beside tantivy's.
    pub(crate) fn finish(self) -> Result<(), SparseError> {
        let Self { dir, index, mut writer, text, .. } = self;
        writer.commit().map_err(failed(&dir))?;
        writer.wait_merging_threads().map_err(failed(&dir))?;
        let segments = segments(&index).map_err(failed(&dir))?;
        let rows = rows(&segments).map_err(failed(&dir))?;
        let documents = Documents::count(&segments, &rows, text).map_err(failed(&dir))?;
        Impacts::write(&dir, &segments, &rows, &documents, text).map_err(failed(&dir))?;
        let written = documents.write(&dir).and_then(|()| remove_locks(&dir));
        // Tantivy writes two of its files for the owner alone; the index is searched by others too.
        let written = written.and_then(|()| atomic::make_files_readable(&dir));
        written.map_err(|error| FileError::write(error).into())
    }
}

fn failed(dir: &Path) -> impl Fn(TantivyError) -> SparseError + '_ {
    |error| SparseError::File(FileError::write(named(to_io(error), dir)))
}

/// Adds the path to an error of tantivy, as `fs_err` does.
fn named(error: io::Error, dir: &Path) -> io::Error {
    io::Error::new(
        error.kind(),
        format!("failed to write the inverted index in `{}`: {error}", dir.display()),
    )
}

/// The schema names the analyzer, so that an index cannot be read with another.
fn schema(analyzer: Analyzer) -> (Schema, Field, Field) {
    let mut schema = Schema::builder();
    // Lengths are kept exactly elsewhere, positions are not asked for.
    let indexing = TextFieldIndexing::default()
        .set_tokenizer(&analyzer.to_string())
        .set_index_option(IndexRecordOption::WithFreqs)
        .set_fieldnorms(false);
    let text = schema.add_text_field(TEXT, TextOptions::default().set_indexing_options(indexing));
    let row = schema.add_u64_field(ROW, FAST);
    (schema.build(), text, row)
}

fn register(index: &Index, analyzer: Analyzer) {
    index.tokenizers().register(&analyzer.to_string(), analyzer.tantivy());
}

/// The parts of an index that can be searched, without the lock that tantivy's own reader writes.
pub(super) fn segments(index: &Index) -> tantivy::Result<Vec<SegmentReader>> {
    index.searchable_segments()?.iter().map(SegmentReader::open).collect()
}

/// The rows of each segment's documents, in their order.
pub(super) fn rows(segments: &[SegmentReader]) -> tantivy::Result<Vec<Vec<u32>>> {
    let read = |segment: &SegmentReader| {
        let column = segment.fast_fields().u64(ROW)?.first_or_default_col(u64::MAX);
        let row = |document| u32::try_from(column.get_val(document)).unwrap_or(u32::MAX);
        Ok((0..segment.max_doc()).map(row).collect())
    };
    segments.iter().map(read).collect()
}

fn remove_locks(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().ends_with(".lock") {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
