//! Data of a distillation: questions with the teacher's vectors, and the passages that these find.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use dpr_core::model::sha256_hex;
use dpr_core::random::SplitMix;
use dpr_core::{DeviceChoice, Similarity};
use sha2::{Digest as _, Sha256};

use super::super::data::{DEV, plain};
use super::super::draw::draw;
use super::super::encoders::{DualEncoder, TrainDevice};
use super::super::epochs::Steps;
use super::super::error::TrainError;
use super::super::prepare::shared_notes;
use super::super::sharing::Sharing;
use super::config::DistillConfig;
use super::project;
use super::taught::{Taught, taught};
use dpr_data::{DataError, FileFormat, normalise_question, read_questions, read_training};
use dpr_encode::model::ModelDir;
use dpr_files::digest;
use dpr_files::progress::Progress;
use dpr_index::vectors::VectorSet;
use dpr_index::{ExactIndex, Matrix, RECALL_DEPTH, VectorIndex as _};

/// Keys of the random draws: each purpose has random numbers of its own.
const HELD_OUT: u64 = 11;
const PASSAGES: u64 = 12;

/// Teacher, student and questions, read and checked.
pub struct DistillPrepared {
    pub(super) train: Taught,
    pub(super) dev: Taught,
    pub(super) space: Option<ExactIndex>,
    pub(super) model: DualEncoder,
    pub(super) teacher: ModelDir,
    pub(super) name: String,
    pub(super) origin: String,
    /// Steps in all.
    pub steps: usize,
    /// Notes about the data: not errors, but worth knowing.
    pub notes: Vec<String>,
}

impl DistillPrepared {
    /// Reads what `config` names and has the teacher encode the questions. The questions are read first, so that
    /// their errors show before a model is loaded.
    ///
    /// # Errors
    /// [`TrainError`] names the setting, the file or the model that cannot be used.
    pub fn new(
        config: &DistillConfig,
        choice: DeviceChoice,
        device: &TrainDevice,
        progress: &dyn Progress,
    ) -> Result<Self, TrainError> {
        config.check()?;
        device.check(config.compute.precision)?;
        config.model.dtype.map_or(Ok(()), |format| device.check_rounding(format))?;
        let (train, dev, overlap) = questions(config)?;
        let Steps { all: steps, .. } = Steps::of(train.len(), &config.run)?;

        let teacher = ModelDir::open(&config.model.teacher)?;
        let start = ModelDir::open(&config.model.start)?;
        if teacher.manifest().similarity == Similarity::L2 && !teacher.manifest().normalize {
            return Err(TrainError::Setting {
                setting: "model.teacher",
                got: format!("{}, which compares by l2", config.model.teacher.display()),
                expected: "a student learns inner products: give a teacher that compares by dot or cosine"
                    .into(),
            });
        }
        let (expected, got) = (teacher.manifest().dim, start.manifest().dim);
        if expected != got {
            return Err(TrainError::StudentDim { student: config.model.start.clone(), got, expected });
        }
        check_lengths(config, &teacher, &start)?;
        let space = space(config, &teacher)?;
        let tokens = config.model.max_question_tokens;
        let mut model = DualEncoder::load(&start, Sharing::Keep, tokens, None, device)?;
        model.encoders.truncate(1);

        let encoder = teacher.question_encoder(choice)?;
        let teach = |questions, best| taught(questions, &encoder, space.as_ref(), best, progress);
        let train = teach(train, config.data.passages_per_question)?;
        let dev = teach(dev, RECALL_DEPTH)?;
        if config.model.fit_projection {
            project::fit(&mut model, &train, config, device, progress)?;
        }
        if let Some(format) = config.model.dtype {
            model.encoders[0].round_to(format, device)?;
        }
        let notes = shared_notes(overlap, dev.questions.len(), &config.optimiser, steps);
        let origin = origin(&train, &dev, &space, &teacher, &start);
        let name = start.manifest().name.clone();
        Ok(Self { train, dev, space, model, teacher, name, origin, steps, notes })
    }
}

/// Refuses a student whose vectors are scaled to length 1 where the teacher's are not, or the other way round: a model's
/// two encoders must agree in it. With a teacher that compares by cosine, the export scales the student's vectors,
/// whatever it was imported with.
fn check_lengths(config: &DistillConfig, teacher: &ModelDir, student: &ModelDir) -> Result<(), TrainError> {
    let [expected, got] = [teacher, student].map(|model| model.manifest().normalize);
    if expected == got || teacher.manifest().similarity == Similarity::Cosine {
        return Ok(());
    }
    let which = if got { "are" } else { "are not" };
    let teachers = if expected { "are" } else { "are not" };
    Err(TrainError::Setting {
        setting: "model.start",
        got: format!("{}, whose vectors {which} scaled to length 1", config.model.start.display()),
        expected: format!("those of the teacher {teachers}: import the student with --normalize {expected}"),
    })
}

/// Returns the training questions, the dev questions, and the number of dev questions that are training questions
/// too. Each question counts once.
fn questions(config: &DistillConfig) -> Result<(Vec<String>, Vec<String>, usize), TrainError> {
    let read = |paths: &[PathBuf]| -> Result<Vec<String>, TrainError> {
        let mut seen = HashSet::new();
        let mut questions = Vec::new();
        for path in paths {
            questions.extend(texts(path)?.into_iter().filter(|text| seen.insert(plain(text))));
        }
        Ok(questions)
    };
    let mut train = read(&config.data.questions)?;
    let target = config.data.dev_questions;
    if config.data.dev.is_empty() {
        let mut random = SplitMix::keyed(&[config.run.seed, HELD_OUT]);
        random.shuffle(&mut train);
        let dev = train.split_off(train.len() - target.min(train.len() / 10));
        return Ok((train, dev, 0));
    }
    let dev = draw(read(&config.data.dev)?, target, config.run.seed, DEV);
    let questions: HashSet<String> = train.iter().map(|text| plain(text)).collect();
    let overlap = dev.iter().filter(|text| questions.contains(&plain(text))).count();
    Ok((train, dev, overlap))
}

/// Returns the questions of a file of questions, or of training data.
fn texts(path: &Path) -> Result<Vec<String>, DataError> {
    match FileFormat::detect(path)? {
        FileFormat::DprTraining => {
            read_training(path)?.map(|item| Ok(normalise_question(&item?.question))).collect()
        }
        _ => Ok(read_questions(path)?.into_iter().map(|question| question.text).collect()),
    }
}

/// Returns the passages that distributions are taken over.
fn space(config: &DistillConfig, teacher: &ModelDir) -> Result<Option<ExactIndex>, TrainError> {
    let data = &config.data;
    let Some(first) = data.vectors.first() else { return Ok(None) };
    let set = VectorSet::read(&data.vectors)?;
    let space = teacher.manifest().space();
    if set.model_fingerprint != space {
        return Err(TrainError::OtherSpace { vectors: first.clone(), teacher: teacher.path().into() });
    }
    let mut rows: Vec<usize> = (0..set.passages.len()).collect();
    if rows.len() > data.passages {
        SplitMix::keyed(&[config.run.seed, PASSAGES]).shuffle(&mut rows);
        rows.truncate(data.passages);
        rows.sort_unstable();
    }
    let vectors = rows.iter().flat_map(|row| &set.rows[row * set.dim..(row + 1) * set.dim]).copied();
    let matrix =
        Matrix::new(vectors.collect::<Vec<_>>(), rows.len(), set.dim, |row| &set.passages[rows[row]].id)?;
    Ok(Some(ExactIndex::new(matrix.into())))
}

/// Returns a digest of all that a run's steps and scores depend on besides its settings.
fn origin(
    train: &Taught,
    dev: &Taught,
    space: &Option<ExactIndex>,
    teacher: &ModelDir,
    start: &ModelDir,
) -> String {
    let mut hash = Sha256::new();
    for model in [teacher, start] {
        hash.update(&model.manifest().fingerprint);
    }
    for question in train.questions.iter().chain(&dev.questions) {
        hash.update((question.len() as u64).to_le_bytes());
        hash.update(question);
    }
    // A run without dev questions has the digest that it had before these were part of it.
    if !dev.questions.is_empty() {
        hash.update((dev.questions.len() as u64).to_le_bytes());
    }
    if let Some(space) = space {
        for row in 0..space.len() {
            space.row(row).iter().for_each(|value| hash.update(value.to_le_bytes()));
        }
    }
    sha256_hex(digest::hex(hash).as_bytes())
}
