//! Opening a file: gzip by its first bytes, format by its name or else its content.

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use fs_err as fs;

use super::DataError;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Tab-separated columns under a header.
    Tsv,
    /// One JSON object a line (BEIR).
    JsonLines,
    /// One JSON document (SQuAD).
    Squad,
    /// Anything else: lines of text.
    Plain,
}

/// An opened, decompressed file.
pub(super) struct Input {
    pub(super) path: PathBuf,
    pub(super) reader: Box<dyn BufRead>,
    pub(super) format: Format,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let io_error = |source| DataError::Io { path: path.to_path_buf(), source };
        let file = fs::File::open(path).map_err(io_error)?.into_parts().0;
        let mut raw = BufReader::with_capacity(1 << 18, file);
        let is_gzip = raw.fill_buf().map_err(io_error)?.starts_with(&[0x1f, 0x8b]);
        let mut reader: Box<dyn BufRead> = if is_gzip {
            Box::new(BufReader::with_capacity(1 << 18, MultiGzDecoder::new(raw)))
        } else {
            Box::new(raw)
        };
        let start = reader.fill_buf().map_err(io_error)?;
        if start.starts_with(b"\xef\xbb\xbf") {
            reader.consume(3);
        }
        let start = reader.fill_buf().map_err(io_error)?;
        let format = by_name(path).unwrap_or_else(|| by_content(start));
        Ok(Self { path: path.to_path_buf(), reader, format })
    }

    pub(super) fn io_error(&self, source: io::Error) -> DataError {
        DataError::Io { path: self.path.clone(), source }
    }

    /// The rest of the file as text.
    pub(super) fn read_text(&mut self) -> Result<String, DataError> {
        let mut bytes = Vec::new();
        self.reader
            .read_to_end(&mut bytes)
            .map_err(|e| DataError::Io { path: self.path.clone(), source: e })?;
        String::from_utf8(bytes).map_err(|e| {
            let valid = &e.as_bytes()[..e.utf8_error().valid_up_to()];
            DataError::Utf8 {
                path: self.path.clone(),
                line: 1 + valid.iter().filter(|b| **b == b'\n').count(),
            }
        })
    }
}

fn by_name(path: &Path) -> Option<Format> {
    let name = path.file_name()?.to_str()?.to_ascii_lowercase();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    match name.rsplit_once('.')?.1 {
        "tsv" => Some(Format::Tsv),
        "jsonl" | "ndjson" => Some(Format::JsonLines),
        "json" => Some(Format::Squad),
        "txt" => Some(Format::Plain),
        _ => None,
    }
}

fn by_content(start: &[u8]) -> Format {
    if start.trim_ascii_start().starts_with(b"{") {
        // BEIR's first line names an `_id`; SQuAD's document does not.
        let line = start.split(|b| *b == b'\n').next().unwrap_or_default();
        let is_beir = line.windows(5).any(|w| w == b"\"_id\"");
        return if is_beir { Format::JsonLines } else { Format::Squad };
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
        assert_eq!(by_content(b"{\"version\": \"1.1\", \"data\": []}"), Format::Squad);
        assert_eq!(by_content(b"who won?\n"), Format::Plain);
    }
}
