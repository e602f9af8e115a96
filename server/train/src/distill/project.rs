//! Least-squares fit of a student's last layer.

use std::sync::atomic::AtomicBool;

use dpr_core::encoder::Encoder;
use nalgebra::DMatrix;

use super::super::draw::draw;
use super::super::encoders::{DualEncoder, TrainDevice, numbers};
use super::super::error::TrainError;
use super::super::evaluate::encode;
use super::config::DistillConfig;
use super::taught::Taught;
use dpr_files::Job;
use dpr_files::progress::Progress;

/// Questions that the layer is fitted to, at most, drawn by the seed: several times the numbers in a state.
const QUESTIONS: usize = 10_000;

/// Key of the random draw of these.
const FITTED: u64 = 13;

/// Ridge that is added to the diagonal, as a share of its mean, so that linearly dependent states do no harm.
const RIDGE: f64 = 1e-3;

/// Sets `encode_proj` of the student, which is the question encoder of `model`, if it has one, so that it maps the
/// pooled states of the questions, cut as in training, to the teacher's vectors with the least squared error. Training
/// then starts from the best that a last layer alone can reach.
///
/// # Errors
/// [`TrainError`] when the device fails, or when the questions do not determine a layer.
pub(super) fn fit(
    model: &mut DualEncoder,
    taught: &Taught,
    config: &DistillConfig,
    device: &TrainDevice,
    progress: &dyn Progress,
) -> Result<(), TrainError> {
    let student = model.question();
    let place = |name: &str| student.parameters.iter().position(|parameter| parameter.name == name);
    let (Some(weight), Some(bias)) = (place("encode_proj.weight"), place("encode_proj.bias")) else {
        return Ok(());
    };
    let (hidden, dim) = (student.config.kept_width(), student.dim());
    // Files come one after another, each with questions of one kind: the first ones would stand for the first file.
    let rows = draw(0..taught.questions.len(), QUESTIONS, config.run.seed, FITTED);
    let count = rows.len();
    let tokens = rows.iter().map(|row| model.question_tokens(&taught.questions[*row]));
    let tokens = tokens.collect::<Result<Vec<_>, _>>()?;

    let net = Encoder { projection: None, ..student.net().clone() };
    let mut pooled = student.config.clone();
    (pooled.normalize, pooled.projection_dim) = (false, 0);
    let forward =
        |rows: &[Vec<u32>]| numbers(net.forward(&student.batch(rows, device), &pooled, &device.plain));
    // A stop flag that is never set: an interrupted fit could not be resumed, as it precedes the run directory.
    let never = AtomicBool::new(false);
    let job = Job { stop: &never, progress };
    progress.start("fitting the last layer to", "questions", count as u64);
    let states = encode(&tokens, hidden, &config.compute, device, job, &forward)?;
    progress.finish();

    // A last state that is always 1 takes the bias.
    let state = |row: usize, column: usize| match column {
        column if column == hidden => 1.0,
        column => f64::from(states[row * hidden + column]),
    };
    let states = DMatrix::from_fn(count, hidden + 1, state);
    let goals =
        DMatrix::from_fn(count, dim, |row, column| f64::from(taught.vectors[rows[row]].as_slice()[column]));
    let mut square = states.tr_mul(&states);
    let ridge = RIDGE * square.trace() / (hidden + 1) as f64;
    for place in 0..=hidden {
        square[(place, place)] += ridge;
    }
    let undetermined = || TrainError::Setting {
        setting: "model.fit_projection",
        got: "true".into(),
        expected: "the questions do not determine a last layer: give other questions, or say false".into(),
    };
    let layer = square.cholesky().ok_or_else(undetermined)?.solve(&states.tr_mul(&goals));
    let student = &mut model.encoders[0];
    // Column by column in nalgebra, row by row in the module.
    student.weights[weight] = layer.rows(0, hidden).transpose().iter().map(|value| *value as f32).collect();
    student.weights[bias] = layer.row(hidden).iter().map(|value| *value as f32).collect();
    student.upload(device);
    Ok(())
}
