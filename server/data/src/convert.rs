//! Conversion between file formats of the same meaning, without a silent loss.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::format::Meaning;
use super::input::{Format, Input};
use super::lines::Ids;
use super::output::{Output, check_not_input, write_whole};
use super::{
    Answers, CorpusLayout, DataError, FileFormat, Passage, QrelsLayout, Question, QuestionLayout,
    TevatronIds, TevatronItem, TrainingContext, TrainingItem, read_passages, read_qrels, read_questions,
    read_tevatron, read_tevatron_ids, read_training, write_corpus, write_qrels, write_questions,
    write_training,
};

/// Options of a conversion.
#[derive(Clone, Debug, Default)]
pub struct ConvertOptions {
    /// Leave out the fields that the new format has no place for, instead of refusing the conversion.
    pub lossy: bool,
    /// The corpus that the ids of Tevatron version 2 are of.
    pub passages: Option<PathBuf>,
}

/// The result of a conversion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// Passages, questions, training items or judgements written.
    pub items: usize,
    /// What was left out, in words, and of how many items: nothing without [`ConvertOptions::lossy`].
    pub lost: BTreeMap<&'static str, usize>,
}

/// The reason why a file was not converted. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// A file that cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Formats of different meanings.
    #[error(
        "{from} holds {from_what} and cannot become {to}, {to_what}: it can become {}",
        or_nothing(choices)
    )]
    Pair {
        /// The file's format.
        from: FileFormat,
        /// The kind of content that this format holds.
        from_what: &'static str,
        /// The format wanted.
        to: FileFormat,
        /// The kind of content that the wanted format holds.
        to_what: &'static str,
        /// The formats that the file can be converted to.
        choices: Vec<FileFormat>,
    },
    /// Something the new format has no place for.
    #[error("{}: {to} has no place for {what} (first at {item}): choose another format, or allow the loss", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
        /// The format wanted.
        to: FileFormat,
        /// The content that would be lost.
        what: &'static str,
        /// As `item 3`.
        item: String,
    },
    /// Ids of Tevatron version 2 without the corpus they are of.
    #[error("{} names passages by their ids: give their corpus", path.display())]
    NoPassages {
        /// The file.
        path: PathBuf,
    },
    /// An id that the corpus does not have.
    #[error("{}: item {item} names the passage `{id}`, which {} does not have", path.display(), passages.display())]
    UnknownPassage {
        /// The file.
        path: PathBuf,
        /// From 1.
        item: usize,
        /// The id.
        id: String,
        /// The corpus.
        passages: PathBuf,
    },
    /// A passage without the id that Tevatron needs.
    #[error("{}: item {item} has a passage without `passage_id`, which {to} needs", path.display())]
    NoId {
        /// The file.
        path: PathBuf,
        /// From 1.
        item: usize,
        /// The format wanted.
        to: FileFormat,
    },
}

fn or_nothing(choices: &[FileFormat]) -> String {
    match choices {
        [] => "nothing else".to_owned(),
        _ => choices.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// Converts a file into another format of the same meaning: passages, questions, training items, or judgements.
/// `to` is written whole or not at all, and gzip-compressed when its name ends in `.gz`.
///
/// Corpora and training files pass through item by item. Questions are held in memory, and so is a corpus that
/// ids are looked up in.
///
/// # Errors
/// [`ConvertError`]: formats of different meanings, something that `to_format` has no place for unless
/// [`ConvertOptions::lossy`], or [`DataError`] with the place in the file.
pub fn convert(
    from: &Path,
    from_format: FileFormat,
    to: &Path,
    to_format: FileFormat,
    options: &ConvertOptions,
) -> Result<Converted, ConvertError> {
    for input in options.passages.iter().map(PathBuf::as_path).chain([from]) {
        check_not_input(to, input)?;
    }
    let job = Job { from, from_format, to, to_format, options, lost: RefCell::default() };
    let items = match to_format {
        _ if !from_format.meanings().iter().any(|meaning| to_format.meanings().contains(meaning)) => {
            return Err(job.pair());
        }
        FileFormat::PsgsTsv => job.passages(CorpusLayout::Tsv)?,
        FileFormat::BeirCorpus => job.passages(CorpusLayout::Beir)?,
        FileFormat::TevatronCorpus => job.passages(CorpusLayout::Tevatron)?,
        FileFormat::TevatronCorpusV1 => job.passages(CorpusLayout::TevatronV1)?,
        FileFormat::QaTsv => job.questions(QuestionLayout::Tsv)?,
        FileFormat::BeirQueries => job.questions(QuestionLayout::Beir)?,
        FileFormat::DprTraining => job.to_dpr()?,
        FileFormat::TevatronV1 => job.to_tevatron(|item, out| out.json_line(&item))?,
        FileFormat::TevatronV2 => job.to_tevatron(|item, out| out.json_line(&TevatronIds::from(item)))?,
        FileFormat::TrecQrels => job.qrels(QrelsLayout::Trec)?,
        FileFormat::BeirQrels => job.qrels(QrelsLayout::Beir)?,
        // Only read, or not made from anything else.
        _ => return Err(job.pair()),
    };
    Ok(Converted { items, lost: job.lost.into_inner() })
}

struct Job<'a> {
    from: &'a Path,
    from_format: FileFormat,
    to: &'a Path,
    to_format: FileFormat,
    options: &'a ConvertOptions,
    lost: RefCell<BTreeMap<&'static str, usize>>,
}

/// A training item and, where the file has one, its query's id.
type Identified = (Option<String>, TrainingItem);

impl Job<'_> {
    fn pair(&self) -> ConvertError {
        let what = |format: FileFormat| match format.meanings() {
            [Meaning::Passages] => "passages",
            [Meaning::Questions] => "questions",
            [Meaning::Training] => "training items",
            [Meaning::Judgements] => "judgements",
            [Meaning::Ranking] => "ranked ids",
            [Meaning::Result] => "retrieved texts",
            _ => "passages and questions",
        };
        let shares = |other: &FileFormat| {
            *other != self.from_format
                && other.is_written()
                && other.meanings().iter().any(|m| self.from_format.meanings().contains(m))
        };
        ConvertError::Pair {
            from: self.from_format,
            from_what: what(self.from_format),
            to: self.to_format,
            to_what: what(self.to_format),
            choices: FileFormat::ALL.into_iter().filter(shares).collect(),
        }
    }

    /// Refuses a loss that was not allowed, and counts one that was.
    fn lose(
        &self,
        is_lost: bool,
        what: &'static str,
        item: impl FnOnce() -> String,
    ) -> Result<(), ConvertError> {
        if !is_lost {
            return Ok(());
        }
        if self.options.lossy {
            *self.lost.borrow_mut().entry(what).or_default() += 1;
            return Ok(());
        }
        Err(ConvertError::Lost { path: self.from.to_path_buf(), to: self.to_format, what, item: item() })
    }

    /// Opens the file as the format that was named, whatever its own name says.
    fn open(&self) -> Result<Input, DataError> {
        let mut input = Input::open(self.from)?;
        input.format = match self.from_format {
            FileFormat::PsgsTsv => Format::Tsv,
            FileFormat::BeirCorpus
            | FileFormat::TevatronCorpus
            | FileFormat::TevatronCorpusV1
            | FileFormat::BeirQueries => Format::JsonLines,
            FileFormat::Squad | FileFormat::WebQuestions => Format::Json,
            _ => Format::Plain,
        };
        Ok(input)
    }

    fn passages(&self, layout: CorpusLayout) -> Result<usize, ConvertError> {
        let passages = read_passages::stream(self.open()?)?;
        let mut ids = Ids::default();
        write_corpus(self.to, layout, |out| {
            for (at, passage) in passages.enumerate() {
                let passage = self.fit_passage(passage?, layout)?;
                // Two ids may differ in nothing but the white space that is lost.
                if layout == CorpusLayout::Tsv && self.options.lossy {
                    ids.insert(&passage.id, at + 1, self.from, |number| format!("passage {number}"))?;
                }
                out.write(&passage)?;
            }
            Ok(())
        })
    }

    fn fit_passage(&self, mut passage: Passage, layout: CorpusLayout) -> Result<Passage, ConvertError> {
        let item = || format!("passage `{}`", passage.id);
        if layout != CorpusLayout::Beir {
            self.lose(!passage.metadata.is_empty(), "metadata", item)?;
        }
        match layout {
            CorpusLayout::Tsv => {
                let has_line_end = has_line_end(&passage.text) || has_line_end(&passage.title);
                self.lose(has_line_end, "line ends", item)?;
                let has_only_title = passage.text.trim().is_empty();
                self.lose(has_only_title, "a passage that is only a title", item)?;
                // Readers of TSV trim each column.
                let has_outer_space =
                    [&passage.id, &passage.title, &passage.text].into_iter().any(|text| text.trim() != text);
                self.lose(has_outer_space, "white space at the ends of ids, titles and texts", item)?;
                if has_only_title {
                    passage.text.clone_from(&passage.title);
                }
                one_line(&mut passage.text);
                one_line(&mut passage.title);
                passage.id = passage.id.trim().to_owned();
            }
            CorpusLayout::Tevatron => {
                self.lose(!passage.title.is_empty(), "titles (they are joined to the texts)", item)?;
            }
            CorpusLayout::Beir | CorpusLayout::TevatronV1 => {}
        }
        Ok(passage)
    }

    fn questions(&self, layout: QuestionLayout) -> Result<usize, ConvertError> {
        let mut questions = read_questions::read(self.open()?)?;
        for (at, question) in questions.iter_mut().enumerate() {
            let Question { id, text, answers, gold } = question;
            let item = || format!("question `{id}`");
            self.lose(gold.is_some(), "the passages that the questions were asked about", item)?;
            match layout {
                QuestionLayout::Tsv => {
                    self.lose(*id != (at + 1).to_string(), "ids other than line numbers", item)?;
                    let are_patterns = matches!(answers, Answers::Patterns(_));
                    self.lose(are_patterns, "the mark that answers are regular expressions", item)?;
                    self.lose(has_line_end(text), "line ends", item)?;
                    one_line(text);
                }
                QuestionLayout::Beir => self.lose(!answers.is_empty(), "answers", item)?,
            }
        }
        write_questions(self.to, layout, &questions)?;
        Ok(questions.len())
    }

    fn qrels(&self, layout: QrelsLayout) -> Result<usize, ConvertError> {
        let qrels = read_qrels(self.from)?;
        write_qrels(self.to, layout, &qrels)?;
        Ok(qrels.len())
    }

    fn to_dpr(&self) -> Result<usize, ConvertError> {
        write_training(self.to, |out| {
            for (at, item) in self.training()?.enumerate() {
                let (query_id, item) = item?;
                let is_named = query_id.is_some_and(|id| id != (at + 1).to_string());
                self.lose(is_named, "query ids other than item numbers", || format!("item {}", at + 1))?;
                out.write(&item)?;
            }
            Ok(())
        })
    }

    fn to_tevatron(
        &self,
        mut write: impl FnMut(TevatronItem, &mut Output<'_>) -> Result<(), DataError>,
    ) -> Result<usize, ConvertError> {
        write_whole(self.to, |out| {
            let mut count = 0;
            for item in self.training()? {
                let (query_id, item) = item?;
                count += 1;
                write(self.fit_tevatron(count, query_id, item)?, out)?;
            }
            Ok(count)
        })
    }

    fn fit_tevatron(
        &self,
        number: usize,
        query_id: Option<String>,
        item: TrainingItem,
    ) -> Result<TevatronItem, ConvertError> {
        let place = || format!("item {number}");
        let contexts = || item.positive_ctxs.iter().chain(&item.hard_negative_ctxs);
        self.lose(item.dataset.is_some(), "the name of the data set", place)?;
        self.lose(!item.negative_ctxs.is_empty(), "`negative_ctxs`", place)?;
        self.lose(contexts().any(|context| context.score.is_some()), "scores", place)?;
        if self.to_format == FileFormat::TevatronV2 {
            self.lose(!item.answers.is_empty(), "answers", place)?;
            let has_text = contexts().any(|context| !context.text.is_empty());
            self.lose(has_text, "the passages' texts (they belong in a corpus)", place)?;
        }
        let query_id = query_id.unwrap_or_else(|| number.to_string());
        TevatronItem::from_training(query_id, item).ok_or_else(|| ConvertError::NoId {
            path: self.from.to_path_buf(),
            item: number,
            to: self.to_format,
        })
    }

    fn training(
        &self,
    ) -> Result<Box<dyn Iterator<Item = Result<Identified, ConvertError>> + '_>, ConvertError> {
        let named = |item: TevatronItem| (Some(item.query_id.clone()), item.into_training());
        match self.from_format {
            FileFormat::TevatronV1 => {
                Ok(Box::new(read_tevatron(self.from)?.map(move |item| Ok(named(item?)))))
            }
            FileFormat::TevatronV2 if self.to_format == FileFormat::TevatronV2 => {
                Ok(Box::new(read_tevatron_ids(self.from)?.map(|item| Ok(only_ids(item?)))))
            }
            FileFormat::TevatronV2 => {
                let Some(path) = &self.options.passages else {
                    return Err(ConvertError::NoPassages { path: self.from.to_path_buf() });
                };
                let passages: HashMap<_, _> =
                    read_passages(path)?.into_iter().map(|passage| (passage.id.clone(), passage)).collect();
                let unknown = move |item, id| ConvertError::UnknownPassage {
                    path: self.from.to_path_buf(),
                    item,
                    id,
                    passages: path.clone(),
                };
                Ok(Box::new(read_tevatron_ids(self.from)?.enumerate().map(move |(at, item)| {
                    Ok(named(item?.resolve(&passages).map_err(|id| unknown(at + 1, id))?))
                })))
            }
            _ => Ok(Box::new(read_training(self.from)?.map(|item| Ok((None, item?))))),
        }
    }
}

/// Returns a line of ids as an item whose passages are empty, for the way back to ids.
fn only_ids(line: TevatronIds) -> Identified {
    let contexts = |ids: Vec<String>| {
        ids.into_iter()
            .map(|id| TrainingContext { passage_id: Some(id), ..TrainingContext::default() })
            .collect()
    };
    let item = TrainingItem {
        question: line.query_text,
        positive_ctxs: contexts(line.positive_document_ids),
        hard_negative_ctxs: contexts(line.negative_document_ids),
        ..TrainingItem::default()
    };
    (Some(line.query_id), item)
}

fn has_line_end(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

fn one_line(text: &mut String) {
    if has_line_end(text) {
        *text = text.split(['\n', '\r']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    }
}
