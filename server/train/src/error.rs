//! Errors of training.

use std::io;
use std::path::PathBuf;

use dpr_core::{DeviceError, EncodeError, LoadError, ReadError, TokenizerError};

use dpr_data::DataError;
use dpr_encode::EncodingError;
use dpr_encode::model::ModelError;
use dpr_index::vectors::VectorsError;
use dpr_index::{MatrixError, QueryError};

/// Errors of training.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A batch that the objective is not defined for.
    #[error("a batch of {what}: fix what put it together")]
    Batch {
        /// The fault of the batch.
        what: String,
    },
    /// The device failed while it computed.
    #[error("the device failed: {what}")]
    Device {
        /// The message of the device.
        what: String,
    },
    /// The loss of a batch is not a number; a run reports it as [`TrainError::Diverged`].
    #[error("the loss is {loss}: its weights or its data are damaged, or the learning rate is too high")]
    NotFinite {
        /// The loss.
        loss: f64,
    },
    /// The loss or its gradient became NaN or infinite.
    #[error(
        "{what} at step {step}, on the questions {questions}: lower the learning rate or look at these questions; {kept}"
    )]
    Diverged {
        /// `the loss became NaN` or the like.
        what: String,
        /// The step, counted from 1.
        step: usize,
        /// The first questions of the batch.
        questions: String,
        /// Which checkpoint is left.
        kept: String,
    },
    /// Something in an encoder's directory does not fit.
    #[error("{}: {source}", dir.display())]
    Encoder {
        /// The encoder's directory.
        dir: PathBuf,
        /// The error of the files.
        source: LoadError,
    },
    /// One encoder was asked for, but there are two.
    #[error(
        "{} has two encoders, which cannot become one: say encoders = \"keep\" or \"separate\"", model.display()
    )]
    TwoEncoders {
        /// The model directory.
        model: PathBuf,
    },
    /// A student whose vectors are not as long as its teacher's.
    #[error(
        "{} makes vectors of {got} numbers, the teacher of {expected}: import the student with a projection to {expected}", student.display()
    )]
    StudentDim {
        /// The student's model directory.
        student: PathBuf,
        /// Numbers in its vectors.
        got: usize,
        /// Numbers in the teacher's.
        expected: usize,
    },
    /// Vectors of passages that the teacher did not make.
    #[error(
        "{} holds vectors of another model than the teacher {}: encode the passages with the teacher",
        vectors.display(), teacher.display()
    )]
    OtherSpace {
        /// The vectors directory.
        vectors: PathBuf,
        /// The teacher's model directory.
        teacher: PathBuf,
    },
    /// A setting that cannot be.
    #[error("{setting} is {got}; {expected}")]
    Setting {
        /// Its name in the configuration.
        setting: &'static str,
        /// Its value.
        got: String,
        /// The values that are allowed.
        expected: String,
    },
    /// A directory that is not to be written to; the message names it.
    #[error(transparent)]
    File(#[from] dpr_files::Error),
    /// The configuration cannot be read.
    #[error("{}: {reason}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The error in the file, with the line.
        reason: String,
    },
    /// An item that cannot be trained on.
    #[error("{}: item {item} ({question:?}) has {what}: {fix}", path.display())]
    Item {
        /// The data file.
        path: PathBuf,
        /// The item, counted from 1.
        item: usize,
        /// Its question.
        question: String,
        /// The part that it lacks.
        what: &'static str,
        /// Advice for the user.
        fix: &'static str,
    },
    /// Dev files without a question to measure with.
    #[error(
        "{}: no question to measure with: {reason}; give other dev files, or leave them out",
        joined(files)
    )]
    NoDevQuestions {
        /// The dev files.
        files: Vec<PathBuf>,
        /// The reason why none of their questions is taken.
        reason: String,
    },
    /// A training file that readers and rerankers are not trained on.
    #[error(
        "{} is of the format {found}, and questions with passages are read from SQuAD json, DPR training json and DPR's \
         retriever results: give one of these", path.display()
    )]
    PairFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: &'static str,
    },
    /// Answers that cannot be looked for; see [`AnswerError`](dpr_eval::AnswerError).
    #[error(transparent)]
    Answers(#[from] dpr_eval::AnswerError),
    /// Training data of a reader or a reranker of which fewer questions than a batch takes can be used.
    #[error(
        "a batch takes {batch} questions, and an epoch sees {seen}: {usable} of the training data's {all} can be \
         trained on ({reason}); {}", more_questions(*usable)
    )]
    TooFewUsable {
        /// Questions in a batch.
        batch: usize,
        /// Questions that an epoch sees, those of a file as often as its weight says.
        seen: usize,
        /// Questions that can be trained on.
        usable: usize,
        /// Questions there are.
        all: usize,
        /// The number of questions that are left out, by cause.
        reason: String,
    },
    /// Fewer questions than a batch takes.
    #[error(
        "a batch takes {batch} questions, the training data has {questions}: lower batch_size, or give more data"
    )]
    TooFewQuestions {
        /// Questions in a batch.
        batch: usize,
        /// Questions there are.
        questions: usize,
    },
    /// The run directory holds a run.
    #[error("{} holds a run: resume it, or write to another directory", dir.display())]
    Exists {
        /// The run directory.
        dir: PathBuf,
    },
    /// The directory of a new run holds parts of another run, whose settings are gone.
    #[error(
        "{} holds parts of another run ({}), whose config.toml is gone: remove these, or write to another directory",
        dir.display(), quoted(parts)
    )]
    LeftOver {
        /// The run directory.
        dir: PathBuf,
        /// The files and directories that a run has made, by their names.
        parts: Vec<String>,
    },
    /// The best model of a run is gone, and so is the checkpoint that it would be written again from.
    #[error(
        "{} is gone, and so is checkpoint {}, which holds the best weights: put one of them back, or begin a run in \
         another directory", best.display(), checkpoint.display()
    )]
    BestLost {
        /// The directory of the best model.
        best: PathBuf,
        /// The checkpoint.
        checkpoint: PathBuf,
    },
    /// The run directory holds no run.
    #[error("{} holds no run to resume", dir.display())]
    NothingToResume {
        /// The run directory.
        dir: PathBuf,
    },
    /// The settings of the run cannot be read, or are those of another command.
    #[error("the settings of the run in {} are not of this command, or damaged: {reason}", dir.display())]
    OtherRun {
        /// The run directory.
        dir: PathBuf,
        /// The error in `config.toml`, with the line.
        reason: String,
    },
    /// Another process trains in the directory.
    #[error("{} is in use by another run: wait for it, or write to another directory", dir.display())]
    InUse {
        /// The run directory.
        dir: PathBuf,
    },
    /// A run is resumed with other settings than it began with.
    #[error("{} was begun with other settings ({difference}): resume without them, or write to another directory", dir.display())]
    OtherConfig {
        /// The run directory.
        dir: PathBuf,
        /// The first lines that differ.
        difference: String,
    },
    /// A checkpoint cannot be used.
    #[error("checkpoint {}: {reason}; remove it to resume from the one before", path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// The fault that was found.
        reason: String,
    },
    /// The data or the starting model has changed since the run began.
    #[error(
        "checkpoint {} was made with other training data or dev questions, another starting model or another teacher: put back what was there, or begin a run in another directory", path.display()
    )]
    OtherOrigin {
        /// The checkpoint.
        path: PathBuf,
    },
    /// A checkpoint cannot be written.
    #[error(
        "cannot write checkpoint {}: {source}; the one before is as it was: make room and resume", path.display()
    )]
    WriteCheckpoint {
        /// The checkpoint.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Told to stop while dev questions were measured; a run reports it as [`TrainError::Interrupted`].
    #[error("stopped while the dev questions were measured")]
    Stopped,
    /// Told to stop.
    #[error("stopped after step {step} of {steps}; the run can be resumed from there")]
    Interrupted {
        /// Steps taken.
        step: usize,
        /// Steps in all.
        steps: usize,
    },
    /// See [`DataError`].
    #[error(transparent)]
    Data(#[from] DataError),
    /// See [`ModelError`].
    #[error(transparent)]
    Model(#[from] ModelError),
    /// See [`EncodingError`].
    #[error(transparent)]
    Encoding(#[from] EncodingError),
    /// See [`ReadError`].
    #[error(transparent)]
    Read(#[from] ReadError),
    /// See [`EncodeError`].
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// See [`VectorsError`].
    #[error("{0}")]
    Vectors(#[from] VectorsError),
    /// See [`MatrixError`].
    #[error("{0}")]
    Matrix(#[from] MatrixError),
    /// See [`QueryError`].
    #[error("{0}")]
    Query(#[from] QueryError),
    /// See [`DeviceError`].
    #[error(transparent)]
    OpenDevice(#[from] DeviceError),
    /// See [`TokenizerError`].
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// A file cannot be read or written; the message names it.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Returns the advice where `usable` questions are fewer than a batch takes.
fn more_questions(usable: usize) -> &'static str {
    if usable == 0 { "give more data" } else { "lower batch_size, or give more data" }
}

/// Returns names in backticks, with commas between.
fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// Returns paths with commas between.
fn joined(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
