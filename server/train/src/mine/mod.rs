//! Mining of training data from questions and a corpus (paper §4.2): positives by distant supervision or from gold
//! paragraphs, and hard negatives that share words with the question but do not hold the answer.

mod cloze;
mod generate;
mod gold;
mod journal;
mod negatives;
mod run;
mod sentences;

use std::path::PathBuf;
use std::{fmt, io};

use dpr_core::{CrossEncoder, Embedding, EncodeError};

use dpr_data::{DataError, Passage};
use dpr_eval::AnswerError;
use dpr_index::sparse::{Scoring, SparseError, SparseIndex};
use dpr_index::{QueryError, VectorIndex};

pub use cloze::{ClozeOptions, ClozeReport, cloze};
pub use generate::{GenerateOptions, GenerateReport, GeneratedFiles, QuestionKind, generate};
pub use run::{MineReport, check_questions, mine};

/// The source of positives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positives {
    /// The best BM25 passage of the first [`MineOptions::depth`] that holds the answer. A question without one is
    /// dropped.
    Distant,
    /// The passage the question was asked about, or the block of the corpus that took over most of it and holds
    /// the answer. A question without one is dropped.
    Gold,
}

/// The source of hard negatives: passages that rank high and do not hold the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardNegatives {
    /// BM25, as in the paper.
    Bm25,
    /// A dense index, as in ANCE (Xiong et al. 2021).
    Dense,
}

/// The source of mined passages: a corpus and its indexes.
#[derive(Clone, Copy, Debug)]
pub struct Pool<'a> {
    /// The corpus; row `i` of both indexes is passage `i`.
    pub passages: &'a [Passage],
    /// Identity of the indexes: their [`version`](dpr_index::LoadedSparse::version). Mining another version is other
    /// work.
    pub version: &'a str,
    /// By words.
    pub words: &'a SparseIndex,
    /// The dense index with the vectors of the questions (`[dim]` each, in their order), for
    /// [`HardNegatives::Dense`].
    pub vectors: Option<(&'a dyn VectorIndex, &'a [Embedding])>,
    /// Finds positives that nobody marked among the hard negatives.
    pub denoiser: Option<Denoiser<'a>>,
}

/// A cross-encoder that denoises hard negatives (RocketQA; Qu et al. 2021, §4.2): a passage that it scores as high as
/// the positive may well answer the question in other words, and is left out.
#[derive(Clone, Copy)]
pub struct Denoiser<'a> {
    /// Scores a question and a passage.
    pub model: &'a CrossEncoder,
    /// The model's fingerprint. Mining with another model is other work.
    pub fingerprint: &'a str,
    /// Score that a hard negative must be below the positive's, 0 or above.
    pub margin: f32,
}

impl fmt::Debug for Denoiser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Denoiser")
            .field("fingerprint", &self.fingerprint)
            .field("margin", &self.margin)
            .finish_non_exhaustive()
    }
}

/// Options of mining.
#[derive(Clone, Debug)]
pub struct MineOptions {
    /// The data set's name, put into every item.
    pub dataset: Option<String>,
    /// The source of positives.
    pub positives: Positives,
    /// Passages looked at for each question; the paper's 100.
    pub depth: usize,
    /// The source of hard negatives.
    pub hard_from: HardNegatives,
    /// Hard negatives kept, at most: the best passages without the answer.
    pub hard_negatives: usize,
    /// Random passages without the answer.
    pub random_negatives: usize,
    /// BM25's constants.
    pub scoring: Scoring,
    /// Decides the random negatives.
    pub seed: u64,
}

impl Default for MineOptions {
    fn default() -> Self {
        Self {
            dataset: None,
            positives: Positives::Distant,
            depth: 100,
            hard_from: HardNegatives::Bm25,
            hard_negatives: 30,
            random_negatives: 30,
            scoring: Scoring::PAPER,
            seed: 12345,
        }
    }
}

/// The reason why training data was not mined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MineError {
    /// Not one question kept a positive.
    #[error(
        "none of {questions} questions has a positive in this corpus, so there is nothing to train on: does the corpus hold their answers?"
    )]
    NothingKept {
        /// Questions given.
        questions: usize,
    },
    /// No passage has a sentence that it could be asked by.
    #[error(
        "none of {blocks} passages has two sentences, one of them of {min_words} words or more: there is nothing to train on; give passages of several sentences"
    )]
    NoSentences {
        /// Passages given.
        blocks: usize,
        /// Words that a sentence must have.
        min_words: usize,
    },
    /// No rule makes a question of any passage.
    #[error(
        "{}: no rule makes a question of any of {passages} passages: give passages with titles, or with dates, numbers and names in English sentences",
        path.display()
    )]
    NoQuestions {
        /// The corpus.
        path: PathBuf,
        /// Passages looked at.
        passages: usize,
    },
    /// A question that names no passage, where one is needed.
    #[error(
        "question {id:?} does not name the paragraph it is about: give SQuAD json, or mine by distant supervision"
    )]
    NoGold {
        /// The question's id.
        id: String,
    },
    /// Dense hard negatives without a dense index.
    #[error("hard negatives from a dense index need one, built of vectors and of words, and a model")]
    NoVectors,
    /// A passage that the cross-encoder cannot score.
    #[error("question {id:?}: {source}")]
    Denoise {
        /// The question's id.
        id: String,
        /// The encoder's error.
        source: EncodeError,
    },
    /// Another process is at it.
    #[error("{} is being mined by another process: wait for it, or write to another file", path.display())]
    Busy {
        /// The output.
        path: PathBuf,
    },
    /// A file that is at the path of the journal.
    #[error("{} is in the way: what is mined is kept there until it is whole. Move it, or write to another file", path.display())]
    NoJournal {
        /// The file.
        path: PathBuf,
    },
    /// The run was stopped; the next run continues there.
    #[error("stopped after {done} of {questions} questions: the same command goes on from there")]
    Interrupted {
        /// Questions done.
        done: usize,
        /// Questions given.
        questions: usize,
    },
    /// See [`AnswerError`].
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// See [`SparseError`].
    #[error("{0}")]
    Sparse(#[from] SparseError),
    /// See [`QueryError`].
    #[error("{0}")]
    Query(#[from] QueryError),
    /// See [`DataError`].
    #[error(transparent)]
    Data(#[from] DataError),
    /// The output, or the journal beside it, cannot be read or written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
