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

/// Bytes of the beginning of a file that are looked at to tell what it is.
const LOOK_AHEAD: usize = 256 << 10;

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
        Self::of(path, Counted { inner: file, read: Arc::clone(read) })
    }

    /// Returns the input that `file`, which is at `path`, is read from.
    fn of(path: &Path, file: impl Read + Send + 'static) -> Result<Self, DataError> {
        let plain_error = |source| DataError::Io { path: path.to_path_buf(), source };
        let mut raw = Ahead::of(file);
        let is_gzip = raw.fill_buf().map_err(plain_error)?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead + Send> =
            if is_gzip { Box::new(Ahead::of(MultiGzDecoder::new(raw))) } else { Box::new(raw) };
        let mut input = Self { path: path.to_path_buf(), reader, format: Format::Plain, is_gzip };
        let start = input.peek()?;
        // The byte order marks of UTF-16, which no UTF-8 text begins with.
        let is_utf16 = start.starts_with(b"\xff\xfe") || start.starts_with(b"\xfe\xff");
        let has_mark = start.starts_with(b"\xef\xbb\xbf");
        if is_utf16 {
            return Err(DataError::Utf8 { path: input.path, line: 1 });
        }
        if has_mark {
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

/// A reader whose beginning was read when it was made, however little of it each read gave, as those of a pipe may.
struct Ahead<R> {
    start: Vec<u8>,
    /// Bytes of `start` that were consumed.
    at: usize,
    /// What ended the beginning, told behind it.
    error: Option<io::Error>,
    rest: BufReader<R>,
}

impl<R: Read> Ahead<R> {
    fn of(reader: R) -> Self {
        let (mut start, mut rest) = (Vec::new(), BufReader::with_capacity(LOOK_AHEAD, reader));
        let error = rest.by_ref().take(LOOK_AHEAD as u64).read_to_end(&mut start).err();
        Self { start, at: 0, error, rest }
    }
}

impl<R: Read> Read for Ahead<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl<R: Read> BufRead for Ahead<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at < self.start.len() {
            return Ok(&self.start[self.at..]);
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => self.rest.fill_buf(),
        }
    }

    fn consume(&mut self, count: usize) {
        if self.at < self.start.len() {
            self.at += count;
        } else {
            self.rest.consume(count);
        }
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

    /// A pipe whose writer gives one byte at a time.
    struct Drops(io::Cursor<Vec<u8>>);

    impl Read for Drops {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = buffer.len().min(1);
            self.0.read(&mut buffer[..count])
        }
    }

    #[test]
    fn the_beginning_of_a_pipe_is_read_however_little_each_read_gives() {
        let read = |bytes: &[u8]| {
            let mut input = Input::of("pipe".as_ref(), Drops(io::Cursor::new(bytes.to_vec()))).unwrap();
            (input.format, input.read_text(100).unwrap())
        };
        let line = "{\"_id\": \"1\", \"text\": \"a\"}\n";
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, line.as_bytes()).unwrap();
        for bytes in [line.as_bytes().to_vec(), format!("\u{feff}{line}").into(), gzip.finish().unwrap()] {
            assert_eq!(read(&bytes), (Format::JsonLines, line.to_owned()));
        }
        assert_eq!(read(b"[\n{\"qId\": 1}]").0, Format::Json);
        let utf16 = Input::of("pipe".as_ref(), Drops(io::Cursor::new(b"\xff\xfea\0".to_vec())));
        assert!(matches!(utf16.map(drop), Err(DataError::Utf8 { line: 1, .. })));
    }

    #[test]
    fn an_error_behind_the_beginning_is_told_once_the_beginning_is_read() {
        struct Broken(usize);

        impl Read for Broken {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                self.0 += 1;
                match self.0 {
                    1 => io::Cursor::new(b"one\n").read(buffer),
                    2 => Err(io::ErrorKind::TimedOut.into()),
                    _ => Ok(0),
                }
            }
        }

        let mut input = Input::of("pipe".as_ref(), Broken(0)).unwrap();
        assert_eq!(input.peek().unwrap(), b"one\n");
        assert!(matches!(input.read_text(100), Err(DataError::Io { .. })));
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
