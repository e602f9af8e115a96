//! Kinds of input files, by their names.

use std::path::Path;

/// The kind of content of a file.
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
    /// One document, HTML written as XML.
    Xhtml,
}

impl Kind {
    /// Returns the kind by the ending of the name, without `.gz`.
    pub(super) fn by_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_string_lossy();
        match split_name(&name).1.to_ascii_lowercase().as_str() {
            "tsv" => Some(Self::Tsv),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "txt" | "text" => Some(Self::Plain),
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            "xhtml" => Some(Self::Xhtml),
            _ => None,
        }
    }

    /// Returns whether the file is one document.
    pub(super) fn is_document(self) -> bool {
        matches!(self, Self::Plain | Self::Markdown | Self::Html | Self::Xhtml)
    }
}

/// Returns a file's name without its ending, and the ending without its dot; `.gz` belongs to neither.
pub(super) fn split_name(name: &str) -> (&str, &str) {
    let name = match name.len().checked_sub(3).and_then(|at| name.split_at_checked(at)) {
        Some((name, gz)) if gz.eq_ignore_ascii_case(".gz") => name,
        _ => name,
    };
    name.rsplit_once('.').unwrap_or((name, ""))
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
            ("chapter.xhtml", "chapter", Some(Kind::Xhtml)),
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
