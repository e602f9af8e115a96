//! Arguments that choose the vocabulary of a smaller encoder.

use std::path::{Path, PathBuf};

use dpr_data::{DataError, read_questions, stream_passages};
use dpr_encode::model::{Language, ModelDir, Vocabulary};

use super::CliError;

/// Texts that are cut into tokens at once, on all cores.
const AT_ONCE: usize = 16_384;

/// Arguments of commands that prune the vocabulary.
#[derive(Debug, clap::Args)]
pub(super) struct VocabularyArgs {
    /// Keep the tokens of these texts: passages or questions in any format that is read here, or text, one a line; may
    /// be given several times
    #[arg(long, value_name = "FILE")]
    keep_tokens: Vec<PathBuf>,
    /// Keep the tokens of these languages' letters: ISO 639-1 codes, as `ko,en`
    #[arg(long, value_name = "CODES", value_delimiter = ',')]
    languages: Vec<Language>,
    /// Largest vocabulary: the N tokens that occur most often in the texts, single letters and special tokens counted
    #[arg(long, value_name = "N", requires = "keep_tokens")]
    most_tokens: Option<usize>,
}

impl VocabularyArgs {
    /// Returns the tokens that the arguments keep; `None` where they keep all.
    ///
    /// # Errors
    /// What [`Vocabulary`] says, and [`DataError`] for a file of texts that cannot be read.
    pub(super) fn of(&self, model: &ModelDir) -> Result<Option<Vocabulary>, CliError> {
        if self.keep_tokens.is_empty() && self.languages.is_empty() {
            return Ok(None);
        }
        let mut vocabulary = Vocabulary::of(model)?;
        vocabulary.keep_languages(&self.languages);
        for path in &self.keep_tokens {
            keep(&mut vocabulary, path)?;
        }
        if let Some(most) = self.most_tokens {
            vocabulary.keep_commonest(most)?;
        }
        Ok(Some(vocabulary))
    }
}

/// Keeps the tokens of a file's passages, and of its questions where it has no passages or is a JSON document, which
/// can hold both.
fn keep(vocabulary: &mut Vocabulary, path: &Path) -> Result<(), CliError> {
    let passages = keep_passages(vocabulary, path)?;
    let name = path.to_string_lossy();
    let may_hold_both = name.trim_end_matches(".gz").ends_with(".json");
    if passages.is_ok() && !may_hold_both {
        return Ok(());
    }
    match read_questions(path) {
        Ok(questions) => {
            let texts: Vec<String> = questions.into_iter().map(|question| question.text).collect();
            Ok(vocabulary.keep_texts(&texts)?)
        }
        // The error about passages names what is wrong in a file that was meant to hold them.
        Err(error) => match passages {
            Ok(()) => Ok(()),
            Err(DataError::UnknownFormat { .. }) => Err(error.into()),
            Err(passages) => Err(passages.into()),
        },
    }
}

/// Keeps the tokens of a file's passages; the inner error says that they cannot be read.
fn keep_passages(vocabulary: &mut Vocabulary, path: &Path) -> Result<Result<(), DataError>, CliError> {
    let mut passages = match stream_passages(path) {
        Ok(passages) => passages,
        Err(error) => return Ok(Err(error)),
    };
    loop {
        let mut texts = Vec::with_capacity(AT_ONCE);
        for passage in passages.by_ref().take(AT_ONCE / 2) {
            match passage {
                Ok(passage) => texts.extend([passage.title, passage.text]),
                Err(error) => return Ok(Err(error)),
            }
        }
        if texts.is_empty() {
            return Ok(Ok(()));
        }
        vocabulary.keep_texts(&texts)?;
    }
}
