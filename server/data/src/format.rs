//! File formats of the field: their names, and the detection of a file's format.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::input::{Format, Input};
use super::{DataError, QrelsLayout, qrels, tsv};

/// A file format, by what the file means and how it is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Passages: `psgs_w100.tsv`, header `id text title`.
    PsgsTsv,
    /// Passages: BEIR `corpus.jsonl`.
    BeirCorpus,
    /// Passages: Tevatron version 2, `docid`, `document_text`.
    TevatronCorpus,
    /// Passages: Tevatron version 1, `docid`, `title`, `text`.
    TevatronCorpusV1,
    /// Passages and questions: SQuAD v1.1 or KorQuAD json. Read only.
    Squad,
    /// Questions: `question<TAB>['answer', ...]`.
    QaTsv,
    /// Questions: BEIR `queries.jsonl`, also under Tevatron's names.
    BeirQueries,
    /// Questions: CuratedTREC, with patterns. Read only.
    CuratedTrec,
    /// Questions: WebQuestions json. Read only.
    WebQuestions,
    /// Questions: one a line. Read only.
    PlainQuestions,
    /// Training items: DPR json.
    DprTraining,
    /// Training items: Tevatron version 1, with the passages.
    TevatronV1,
    /// Training items: Tevatron version 2, with the passages' ids.
    TevatronV2,
    /// Judgements: TREC qrels.
    TrecQrels,
    /// Judgements: BEIR qrels.
    BeirQrels,
    /// Retrieved passages: a TREC run.
    TrecRun,
    /// Retrieved passages: DPR's retriever result.
    DprResult,
}

/// The meaning of a file. Formats of one meaning can be converted into each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Passages,
    Questions,
    Training,
    Judgements,
    Ranking,
    Result,
}

impl FileFormat {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::PsgsTsv,
        Self::BeirCorpus,
        Self::TevatronCorpus,
        Self::TevatronCorpusV1,
        Self::Squad,
        Self::QaTsv,
        Self::BeirQueries,
        Self::CuratedTrec,
        Self::WebQuestions,
        Self::PlainQuestions,
        Self::DprTraining,
        Self::TevatronV1,
        Self::TevatronV2,
        Self::TrecQrels,
        Self::BeirQrels,
        Self::TrecRun,
        Self::DprResult,
    ];

    /// Returns the name of the format on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::PsgsTsv => "psgs-tsv",
            Self::BeirCorpus => "beir-corpus",
            Self::TevatronCorpus => "tevatron-corpus",
            Self::TevatronCorpusV1 => "tevatron-corpus-v1",
            Self::Squad => "squad",
            Self::QaTsv => "qa-tsv",
            Self::BeirQueries => "beir-queries",
            Self::CuratedTrec => "curated-trec",
            Self::WebQuestions => "web-questions",
            Self::PlainQuestions => "plain-questions",
            Self::DprTraining => "dpr-training",
            Self::TevatronV1 => "tevatron-v1",
            Self::TevatronV2 => "tevatron-v2",
            Self::TrecQrels => "trec-qrels",
            Self::BeirQrels => "beir-qrels",
            Self::TrecRun => "trec-run",
            Self::DprResult => "dpr-result",
        }
    }

    /// Returns whether files of another format can be converted into this one.
    pub(super) fn is_written(self) -> bool {
        !matches!(
            self,
            Self::Squad
                | Self::CuratedTrec
                | Self::WebQuestions
                | Self::PlainQuestions
                | Self::TrecRun
                | Self::DprResult
        )
    }

    pub(super) fn meanings(self) -> &'static [Meaning] {
        match self {
            Self::PsgsTsv | Self::BeirCorpus | Self::TevatronCorpus | Self::TevatronCorpusV1 => {
                &[Meaning::Passages]
            }
            Self::Squad => &[Meaning::Passages, Meaning::Questions],
            Self::QaTsv
            | Self::BeirQueries
            | Self::CuratedTrec
            | Self::WebQuestions
            | Self::PlainQuestions => &[Meaning::Questions],
            Self::DprTraining | Self::TevatronV1 | Self::TevatronV2 => &[Meaning::Training],
            Self::TrecQrels | Self::BeirQrels => &[Meaning::Judgements],
            Self::TrecRun => &[Meaning::Ranking],
            Self::DprResult => &[Meaning::Result],
        }
    }

    /// Tells the format of a file by its first lines, or its first bytes where it is one JSON document.
    ///
    /// # Errors
    /// [`DataError`] when the file cannot be read, or its beginning is none of these formats.
    pub fn detect(path: &Path) -> Result<Self, DataError> {
        // What was read of a pipe to look at it would be missing when it is read.
        if fs_err::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir()) {
            return Err(DataError::Pipe { path: path.to_path_buf() });
        }
        let mut input = Input::open(path)?;
        let named = input.format;
        let start = String::from_utf8_lossy(input.peek()?).into_owned();
        let start = start.trim_start();
        let Some(first) = start.lines().next() else {
            return Err(DataError::Blank { path: path.to_path_buf() });
        };
        let format = match start.chars().next() {
            Some('[') => array(start),
            Some('{') => object(first, start),
            Some(_) => table(first, named),
            None => None,
        };
        format.ok_or_else(|| DataError::Undetected {
            path: path.to_path_buf(),
            found: first.chars().take(60).collect(),
        })
    }
}

fn has(text: &str, key: &str) -> bool {
    text.match_indices(key).any(|(at, _)| {
        text[..at].ends_with('"')
            && text[at + key.len()..].trim_start_matches('"').trim_start().starts_with(':')
    })
}

/// Tells the format of an array by its beginning.
pub(super) fn array(start: &str) -> Option<FileFormat> {
    let known = [
        ("qText", FileFormat::WebQuestions),
        ("positive_ctxs", FileFormat::DprTraining),
        ("ctxs", FileFormat::DprResult),
    ];
    known.into_iter().find(|(key, _)| has(start, key)).map(|(_, format)| format)
}

fn object(first: &str, start: &str) -> Option<FileFormat> {
    let known = [
        ("document_text", FileFormat::TevatronCorpus),
        ("positive_document_ids", FileFormat::TevatronV2),
        ("positive_passages", FileFormat::TevatronV1),
        ("docid", FileFormat::TevatronCorpusV1),
    ];
    if let Some((_, format)) = known.into_iter().find(|(key, _)| has(first, key)) {
        return Some(format);
    }
    if has(first, "query_id") && ["query", "query_text"].iter().any(|key| has(first, key)) {
        return Some(FileFormat::BeirQueries);
    }
    match has(first, "_id") {
        true if has(first, "title") => Some(FileFormat::BeirCorpus),
        true => Some(FileFormat::BeirQueries),
        false if has(start, "data") || has(start, "paragraphs") => Some(FileFormat::Squad),
        // A `passages.jsonl` of `dpr`, which is read alike.
        false => ["id", "title", "text"].iter().all(|key| has(first, key)).then_some(FileFormat::BeirCorpus),
    }
}

fn table(first: &str, named: Format) -> Option<FileFormat> {
    let words: Vec<_> = first.split_ascii_whitespace().collect();
    let tabs = first.split('\t').count();
    if qrels::layout(first) == Some(QrelsLayout::Beir) {
        return Some(FileFormat::BeirQrels);
    }
    if words.len() == 6 && words[3].parse::<usize>().is_ok() && words[4].parse::<f64>().is_ok() {
        return Some(FileFormat::TrecRun);
    }
    if words.len() == 4 && words[1].parse::<i64>().is_ok() && words[3].parse::<i64>().is_ok() {
        return Some(FileFormat::TrecQrels);
    }
    let header = first.to_ascii_lowercase();
    if ["id", "text", "title"].iter().all(|name| header.split('\t').any(|column| column.trim() == *name)) {
        return Some(FileFormat::PsgsTsv);
    }
    match tsv::split(first).len() {
        1 => matches!(named, Format::Plain | Format::Tsv).then_some(FileFormat::PlainQuestions),
        2 => Some(FileFormat::QaTsv),
        _ => (tabs == 4).then_some(FileFormat::CuratedTrec),
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is not the name of a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no format is named `{0}`: give one of {written}, or, where a file is read, of {only_read}",
    written = names(true),
    only_read = names(false)
)]
pub struct UnknownFormatName(String);

/// Returns the names of the formats that are written, or of those that are only read.
fn names(are_written: bool) -> String {
    let formats = FileFormat::ALL.into_iter().filter(|format| format.is_written() == are_written);
    formats.map(FileFormat::name).collect::<Vec<_>>().join(", ")
}

impl FromStr for FileFormat {
    type Err = UnknownFormatName;

    fn from_str(text: &str) -> Result<Self, UnknownFormatName> {
        let found = Self::ALL.into_iter().find(|format| format.name() == text);
        found.ok_or_else(|| UnknownFormatName(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_back_to_its_format() {
        for format in FileFormat::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let message = "beir".parse::<FileFormat>().unwrap_err().to_string();
        assert!(
            message.contains("no format is named `beir`: give one of psgs-tsv, beir-corpus"),
            "{message}"
        );
        let (written, only_read) = message.split_once(", or, where a file is read, of ").unwrap();
        assert!(written.ends_with("trec-qrels, beir-qrels") && !written.contains("squad"), "{written}");
        assert_eq!(
            only_read, "squad, curated-trec, web-questions, plain-questions, trec-run, dpr-result",
            "no file is converted into these"
        );
    }
}
