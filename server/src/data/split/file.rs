//! Opening one file of documents: its kind by its name, gzip by its first bytes, and how far it has been read.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use fs_err as fs;

use crate::data::DataError;

const BUFFER: usize = 1 << 18;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A document a line under a header.
    Tsv,
    /// A document a line (BEIR).
    JsonLines,
    /// One document.
    Plain,
    /// One document.
    Markdown,
    /// One document.
    Html,
}

impl Kind {
    /// By the ending of the name, `.gz` aside.
    pub(super) fn by_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy();
        match split_name(&name).1.to_ascii_lowercase().as_str() {
            "tsv" => Some(Self::Tsv),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "txt" | "text" => Some(Self::Plain),
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" | "xhtml" => Some(Self::Html),
            _ => None,
        }
    }

    /// Whether the file is one document.
    pub(super) fn is_document(self) -> bool {
        matches!(self, Self::Plain | Self::Markdown | Self::Html)
    }
}

/// A file's name without its ending, and the ending without its dot; `.gz` belongs to neither.
pub(super) fn split_name(name: &str) -> (&str, &str) {
    let name = match name.len().checked_sub(3).and_then(|at| name.split_at_checked(at)) {
        Some((name, gz)) if gz.eq_ignore_ascii_case(".gz") => name,
        _ => name,
    };
    name.rsplit_once('.').unwrap_or((name, ""))
}

/// An opened file.
pub(super) struct File {
    pub(super) path: PathBuf,
    reader: Box<dyn BufRead>,
    is_gzip: bool,
}

impl File {
    /// Opens `path`; `read` counts the bytes of the file itself, compressed or not. A byte order mark is passed
    /// over.
    pub(super) fn open(path: &Path, read: &Rc<Cell<u64>>) -> Result<Self, DataError> {
        let io_error = |source| DataError::Io { path: path.to_path_buf(), source };
        let file = fs::File::open(path).map_err(io_error)?.into_parts().0;
        let mut raw = BufReader::with_capacity(BUFFER, Counted { inner: file, read: Rc::clone(read) });
        let is_gzip = raw.fill_buf().map_err(io_error)?.starts_with(&[0x1f, 0x8b]);
        let reader: Box<dyn BufRead> = if is_gzip {
            Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(raw)))
        } else {
            Box::new(raw)
        };
        let mut file = Self { path: path.to_path_buf(), reader, is_gzip };
        if file.start()?.starts_with(b"\xef\xbb\xbf") {
            file.reader.consume(3);
        }
        Ok(file)
    }

    /// Some bytes of what comes next, not consumed.
    pub(super) fn start(&mut self) -> Result<&[u8], DataError> {
        // Asked twice, since the answer borrows the reader for as long as the caller has it.
        if let Err(error) = self.reader.fill_buf() {
            return Err(self.error(error));
        }
        Ok(self.reader.fill_buf().unwrap_or_default())
    }

    /// The next line, with its end, into `line`; nothing at the end of the file.
    pub(super) fn read_line(&mut self, line: &mut Vec<u8>) -> Result<(), DataError> {
        line.clear();
        self.reader.read_until(b'\n', line).map(drop).map_err(|e| self.error(e))
    }

    /// The rest of the file.
    pub(super) fn read_text(&mut self) -> Result<String, DataError> {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes).map_err(|e| self.error(e))?;
        String::from_utf8(bytes).map_err(|e| {
            let valid = &e.as_bytes()[..e.utf8_error().valid_up_to()];
            let line = 1 + valid.iter().filter(|b| **b == b'\n').count();
            DataError::Utf8 { path: self.path.clone(), line }
        })
    }

    fn error(&self, source: io::Error) -> DataError {
        let source = match source.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
                if self.is_gzip =>
            {
                let reason =
                    format!("its gzip data is cut short or damaged ({source}): fetch the file again");
                io::Error::new(source.kind(), reason)
            }
            _ => source,
        };
        DataError::Io { path: self.path.clone(), source }
    }
}

/// Counts what is read through it.
struct Counted<R> {
    inner: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_kinds_and_titles() {
        for (name, stem, kind) in [
            ("psgs_w100.tsv.gz", "psgs_w100", Some(Kind::Tsv)),
            ("Corpus.JSONL", "Corpus", Some(Kind::JsonLines)),
            ("a.b.md", "a.b", Some(Kind::Markdown)),
            ("page.HTM.GZ", "page", Some(Kind::Html)),
            ("notes.txt", "notes", Some(Kind::Plain)),
            ("report.pdf", "report", None),
            ("LICENSE", "LICENSE", None),
            ("gz", "gz", None),
            ("é€", "é€", None),
        ] {
            assert_eq!((split_name(name).0, Kind::by_name(name.as_ref())), (stem, kind), "{name}");
        }
    }
}
