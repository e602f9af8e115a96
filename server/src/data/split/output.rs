//! Writing blocks as a corpus.

use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::SplitError;
use super::file::Kind;

/// What the name of the output asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Output {
    is_tsv: bool,
    is_gzip: bool,
}

/// A line of BEIR's `corpus.jsonl`.
#[derive(Serialize)]
struct BeirPassage<'a> {
    _id: &'a str,
    title: &'a str,
    text: &'a str,
}

impl Output {
    pub(super) fn named(path: &Path) -> Result<Self, SplitError> {
        let is_tsv = match Kind::by_name(path) {
            Some(Kind::Tsv) => true,
            Some(Kind::JsonLines) => false,
            _ => return Err(SplitError::UnknownOutput { path: path.to_path_buf() }),
        };
        let is_gzip = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
        Ok(Self { is_tsv, is_gzip })
    }

    /// Writes what `fill` puts into the sink, and the header and the end around it.
    pub(super) fn write(
        self,
        out: &mut dyn Write,
        fill: impl FnOnce(&mut Sink<'_>) -> Result<(), SplitError>,
    ) -> Result<(), SplitError> {
        if !self.is_gzip {
            return self.write_plain(out, fill);
        }
        let mut gzip = GzEncoder::new(out, Compression::default());
        self.write_plain(&mut gzip, fill)?;
        gzip.finish().map(drop).map_err(SplitError::Write)
    }

    fn write_plain(
        self,
        out: &mut dyn Write,
        fill: impl FnOnce(&mut Sink<'_>) -> Result<(), SplitError>,
    ) -> Result<(), SplitError> {
        let mut sink = if self.is_tsv {
            // Quotes a column when Python's csv writer does; a line ends with a line feed alone.
            let mut csv = csv::WriterBuilder::new();
            Sink::Tsv(csv.delimiter(b'\t').terminator(csv::Terminator::Any(b'\n')).from_writer(out))
        } else {
            Sink::JsonLines(out)
        };
        sink.header().map_err(SplitError::Write)?;
        fill(&mut sink)?;
        sink.flush().map_err(SplitError::Write)
    }
}

/// Where blocks go.
pub(super) enum Sink<'a> {
    Tsv(csv::Writer<&'a mut dyn Write>),
    JsonLines(&'a mut dyn Write),
}

impl Sink<'_> {
    /// One block; none of its parts has a line end.
    pub(super) fn block(&mut self, id: &str, title: &str, text: &str) -> io::Result<()> {
        match self {
            Self::Tsv(csv) => Ok(csv.write_record([id, text, title])?),
            Self::JsonLines(out) => {
                serde_json::to_writer(&mut **out, &BeirPassage { _id: id, title, text })?;
                out.write_all(b"\n")
            }
        }
    }

    fn header(&mut self) -> io::Result<()> {
        match self {
            Self::Tsv(csv) => Ok(csv.write_record(["id", "text", "title"])?),
            Self::JsonLines(_) => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tsv(csv) => csv.flush(),
            Self::JsonLines(out) => out.flush(),
        }
    }
}
