//! Input files: gzip is detected by the first bytes, the format by the name or else by the content.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use fs_err as fs;

use super::DataError;

/// Largest size of a line, or of an item of an array, which no real one comes near; in a larger one a line end, a
/// quote or a bracket is missing, and the rest of the file would be read.
pub(super) const MAX_LINE_BYTES: usize = 64 << 20;
/// Largest size of a document that becomes passages, decompressed.
pub(super) const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
/// Largest size of a JSON document that is parsed as a whole, decompressed: a corpus in SQuAD's format.
pub(super) const MAX_JSON_BYTES: u64 = 1 << 30;

/// The basic format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Tab-separated columns under a header.
    Tsv,
    /// One JSON object a line (BEIR, Tevatron).
    JsonLines,
    /// One JSON document (SQuAD, WebQuestions).
    Json,
    /// Anything else: lines of text.
    Plain,
}

/// An opened, decompressed file.
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) reader: Box<dyn BufRead + Send>,
    pub(super) format: Format,
    is_gzip: bool,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        Self::open_counted(path, &Arc::default())
    }

    /// Opens a file as [`Input::open`] does; `read` counts the bytes of the file itself, compressed or not.
    pub(super) fn open_counted(path: &Path, read: &Arc<AtomicU64>) -> Result<Self, DataError> {
        let plain_error = |source| DataError::Io { path: path.to_path_buf(), source };
        let file = fs::File::open(path).map_err(plain_error)?.into_parts().0;
        let mut raw = BufReader::with_capacity(1 << 18, Counted { inner: file, read: Arc::clone(read) });
        let is_gzip = raw.fill_buf().map_err(plain_error)?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead + Send> = if is_gzip {
            Box::new(BufReader::with_capacity(1 << 18, MultiGzDecoder::new(raw)))
        } else {
            Box::new(raw)
        };
        let mut input = Self { path: path.to_path_buf(), reader, format: Format::Plain, is_gzip };
        // The byte order marks of UTF-16, which no UTF-8 text begins with.
        if [&b"\xff\xfe"[..], b"\xfe\xff"]
            .iter()
            .any(|mark| input.peek().is_ok_and(|start| start.starts_with(mark)))
        {
            return Err(DataError::Utf8 { path: input.path, line: 1 });
        }
        if input.peek()?.starts_with(b"\xef\xbb\xbf") {
            input.reader.consume(3);
        }
        input.format = match by_name(path) {
            Some(format) => format,
            None => by_content(input.peek()?),
        };
        Ok(input)
    }

    /// Returns the bytes that come next without consuming them, at least one unless the file ends here.
    pub(super) fn peek(&mut self) -> Result<&[u8], DataError> {
        // Asked twice: an early return would hold on to the borrow when the error is made.
        if let Err(e) = self.reader.fill_buf() {
            return Err(self.io_error(e));
        }
        self.reader.fill_buf().map_err(|source| DataError::Io { path: self.path.clone(), source })
    }

    /// Returns whether the file is a JSON array, by its first character.
    pub(super) fn is_json_array(&mut self) -> Result<bool, DataError> {
        Ok(self.peek()?.trim_ascii_start().starts_with(b"["))
    }

    pub(super) fn io_error(&self, source: io::Error) -> DataError {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        let path = self.path.clone();
        match source.kind() {
            InvalidData | InvalidInput | UnexpectedEof if self.is_gzip => DataError::Gzip { path, source },
            _ => DataError::Io { path, source },
        }
    }

    /// Reads the rest of the file as text of at most `limit` bytes; of a longer one no more than that is decompressed.
    pub(super) fn read_text(&mut self, limit: u64) -> Result<String, DataError> {
        let mut bytes = Vec::new();
        if let Err(e) = self.reader.by_ref().take(limit + 1).read_to_end(&mut bytes) {
            return Err(self.io_error(e));
        }
        if bytes.len() as u64 > limit {
            return Err(DataError::LongFile { path: self.path.clone(), limit });
        }
        String::from_utf8(bytes).map_err(|e| {
            let valid = &e.as_bytes()[..e.utf8_error().valid_up_to()];
            DataError::Utf8 {
                path: self.path.clone(),
                line: 1 + valid.iter().filter(|b| **b == b'\n').count(),
            }
        })
    }
}

/// A reader that counts the bytes read through it.
struct Counted<R> {
    inner: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Reads a whole file as text, plain or gzip-compressed, and returns it without a byte order mark.
///
/// # Errors
/// [`DataError`] when it cannot be read, is cut short, is not UTF-8 or has more than 1 GiB of text.
pub fn read_text(path: &Path) -> Result<String, DataError> {
    Input::open(path)?.read_text(MAX_JSON_BYTES)
}

fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "tsv" => Some(Format::Tsv),
        "jsonl" | "ndjson" => Some(Format::JsonLines),
        "json" => Some(Format::Json),
        "txt" => Some(Format::Plain),
        _ => None,
    }
}

fn by_content(start: &[u8]) -> Format {
    let trimmed = start.trim_ascii_start();
    if trimmed.starts_with(b"{") {
        // The first line of BEIR's and Tevatron's files names an id; SQuAD's document does not.
        let line = trimmed.split(|b| *b == b'\n').next().unwrap_or_default();
        let names = |key: &[u8]| line.windows(key.len()).any(|w| w == key);
        let keys: [&[u8]; 3] = [b"\"_id\"", b"\"docid\"", b"\"query_id\""];
        return if keys.into_iter().any(names) { Format::JsonLines } else { Format::Json };
    }
    if trimmed.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{")) {
        return Format::Json;
    }
    if start.starts_with(b"id\t") { Format::Tsv } else { Format::Plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_by_name_and_by_content() {
        assert_eq!(by_name("a/psgs_w100.tsv.gz".as_ref()), Some(Format::Tsv));
        assert_eq!(by_name("corpus.JSONL".as_ref()), Some(Format::JsonLines));
        assert_eq!(by_name("questions".as_ref()), None);
        assert_eq!(by_content(b"id\ttext\ttitle\n"), Format::Tsv);
        assert_eq!(by_content(b" {\"_id\": \"1\", \"text\": \"a\"}\n"), Format::JsonLines);
        assert_eq!(by_content(b"{\"docid\": \"1\", \"text\": \"a\"}\n"), Format::JsonLines);
        assert_eq!(by_content(b"{\"version\": \"1.1\", \"data\": []}"), Format::Json);
        assert_eq!(by_content(b"[{\"qId\": \"1\"}]"), Format::Json);
        assert_eq!(by_content(b"[\n  {\"qId\": \"1\"}]"), Format::Json);
        assert_eq!(by_content(b"who won?\n"), Format::Plain);
    }

    #[test]
    fn a_text_has_at_most_as_many_bytes_as_it_may() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, "12345678").unwrap();
        let read = |limit| Input::open(&path).unwrap().read_text(limit);
        assert_eq!(read(8).unwrap(), "12345678");
        let error = read(7).unwrap_err();
        assert!(matches!(error, DataError::LongFile { limit: 7, .. }), "{error}");
    }
}
