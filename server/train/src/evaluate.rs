//! Evaluation of the encoders on dev questions, which they are not trained on: by average rank, which selects the
//! model in the paper's code, and by the training loss.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use burn::tensor::{Tensor, TensorData};
use dpr_core::Similarity;
use dpr_core::random::SplitMix;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::config::{DataOptions, TrainConfig};
use super::data::{Item, PassagePool, TrainingData};
use super::encoders::{DualEncoder, TrainDevice, TrainedEncoder, numbers};
use super::error::TrainError;
use super::masks::Columns;
use super::objective::{BatchVectors, Targets};
use super::options::StepOptions;
use super::sampler::negatives;
use super::step::{on_threads, threads};
use dpr_files::{Job, lock};

/// Key of the random draw of a dev question's negatives from the positives of others.
const NEGATIVES: u64 = 5;

/// Scores measured on the dev questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DevScores {
    /// Questions measured.
    pub questions: usize,
    /// Distinct passages each positive is ranked among: the positives and negatives of all dev questions.
    pub passages: usize,
    /// Mean rank of the positive, from 1; lower is better.
    pub average_rank: f64,
    /// Share of the questions whose positive ranks first.
    pub top1: f64,
    /// Share of the questions whose positive is among the first five.
    pub top5: f64,
    /// Mean loss in batches made as in training; of the negatives, only those that are among the ranked passages. A
    /// question that has no passage to be compared with is left out; 0 without any other.
    pub loss: f64,
}

/// Measures `model` on the dev questions of `data`.
///
/// A passage counts once, however many questions name it, and another positive of a question does not count against
/// it; a tie counts against the positive.
///
/// # Errors
/// [`TrainError::Device`] when the device fails, [`TrainError::NotFinite`] when a vector is not finite,
/// [`TrainError::Stopped`] once `job` is stopped.
pub fn evaluate(
    model: &DualEncoder,
    data: &TrainingData,
    config: &TrainConfig,
    device: &TrainDevice,
    job: Job<'_>,
) -> Result<DevScores, TrainError> {
    let pool = Pool::new(&data.dev, &config.data);
    let questions: Vec<Vec<u32>> =
        data.dev.iter().map(|item| model.question_tokens(&item.question)).collect::<Result<_, _>>()?;
    let passages: Vec<Vec<u32>> = pool
        .passages
        .iter()
        .map(|passage| {
            check_stop(job)?;
            let (title, text) = data.pool.get(*passage);
            model.passage_tokens(title, text)
        })
        .collect::<Result<_, _>>()?;
    job.progress.start("measuring", "texts", (questions.len() + passages.len()) as u64);
    let dim = model.question().dim();
    let by = |encoder: &TrainedEncoder, rows: &[Vec<u32>]| {
        let forward = |rows: &[Vec<u32>]| encoder.encode(rows, device);
        encode(rows, dim, &config.compute, device, job, &forward)
    };
    let question_vectors = by(model.question(), &questions)?;
    let found = by(model.passage(), &passages)?;
    job.progress.finish();
    if let Some(value) = question_vectors.iter().chain(&found).find(|value| !value.is_finite()) {
        return Err(TrainError::NotFinite { loss: f64::from(*value) });
    }
    let similarity = config.objective.similarity;
    let rank = |(question, item): (usize, &Item)| -> Result<usize, TrainError> {
        check_stop(job)?;
        let vector = &question_vectors[question * dim..(question + 1) * dim];
        let score = |place: usize| score(similarity, vector, &found[place * dim..(place + 1) * dim]);
        let places = |passages: &[u32]| -> Vec<usize> {
            passages.iter().filter_map(|passage| pool.places.get(passage).copied()).collect()
        };
        let positives = places(&item.positives);
        let Some(right) = positives.first() else { return Ok(1) };
        let best = score(*right);
        let above = (0..passages.len()).filter(|place| !positives.contains(place) && score(*place) >= best);
        Ok(1 + above.count())
    };
    let ranks: Vec<usize> = data.dev.par_iter().enumerate().map(rank).collect::<Result<_, _>>()?;
    let share = |k: usize| ranks.iter().filter(|rank| **rank <= k).count() as f64 / ranks.len().max(1) as f64;
    Ok(DevScores {
        questions: ranks.len(),
        passages: passages.len(),
        average_rank: ranks.iter().sum::<usize>() as f64 / ranks.len().max(1) as f64,
        top1: share(1),
        top5: share(5),
        loss: loss(
            &data.dev,
            &data.pool,
            &pool,
            Encoded {
                question_vectors: &question_vectors,
                found: &found,
                dim,
                unit_length: model.has_unit_length(),
            },
            config,
            device,
            job,
        )?,
    })
}

/// Returns the error of a measurement that is told to stop.
pub(super) fn check_stop(job: Job<'_>) -> Result<(), TrainError> {
    if job.is_stopped() { Err(TrainError::Stopped) } else { Ok(()) }
}

/// The passages that dev questions are ranked among.
struct Pool {
    passages: Vec<u32>,
    places: HashMap<u32, usize>,
}

impl Pool {
    fn new(items: &[Item], options: &DataOptions) -> Self {
        let mut pool = Self { passages: Vec::new(), places: HashMap::new() };
        for item in items {
            // The first positive alone: the others neither help nor count.
            let hard = item.hard.iter().take(options.dev_hard_negatives);
            let random = item.random.iter().take(options.dev_random_negatives);
            for passage in item.positives.iter().take(1).chain(hard).chain(random) {
                pool.places.entry(*passage).or_insert_with(|| {
                    pool.passages.push(*passage);
                    pool.passages.len() - 1
                });
            }
        }
        pool
    }
}

fn score(similarity: Similarity, question: &[f32], passage: &[f32]) -> f32 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    match similarity {
        Similarity::Dot => dot(question, passage),
        // The question's length is the same for all.
        Similarity::Cosine => dot(question, passage) / dot(passage, passage).sqrt().max(1e-12),
        Similarity::L2 => -question.iter().zip(passage).map(|(a, b)| (a - b) * (a - b)).sum::<f32>(),
    }
}

/// Function that encodes token ids of some rows into vectors, row-major.
type Forward<'a> = dyn Fn(&[Vec<u32>]) -> Result<Vec<f32>, TrainError> + Sync + 'a;

/// Encodes all rows by `forward`, on all threads and long rows first, and returns the vectors, `dim` numbers each, in
/// the order of the rows; [`TrainError::Stopped`] once `job` is stopped.
pub(super) fn encode(
    rows: &[Vec<u32>],
    dim: usize,
    options: &StepOptions,
    device: &TrainDevice,
    job: Job<'_>,
    forward: &Forward<'_>,
) -> Result<Vec<f32>, TrainError> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row| std::cmp::Reverse(rows[*row].len()));
    let mut batches = Vec::new();
    let mut rest = order.as_slice();
    while let Some(first) = rest.first() {
        let fit = options.chunk_tokens / rows[*first].len().max(1);
        let (now, later) = rest.split_at(fit.clamp(1, rest.len()));
        batches.push(now);
        rest = later;
    }
    let vectors = Mutex::new(vec![0f32; rows.len() * dim]);
    let next = Mutex::new(batches.into_iter());
    let work = || {
        loop {
            let batch = lock(&next).next();
            let Some(batch) = batch else { return Ok(()) };
            check_stop(job)?;
            let texts: Vec<Vec<u32>> = batch.iter().map(|row| rows[*row].clone()).collect();
            let encoded = forward(&texts)?;
            let mut vectors = lock(&vectors);
            for (row, values) in batch.iter().zip(encoded.chunks_exact(dim)) {
                vectors[row * dim..(row + 1) * dim].copy_from_slice(values);
            }
            job.progress.advance(batch.len() as u64);
        }
    };
    on_threads((0..threads(options, device)).map(|_| work))?;
    Ok(vectors.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The vectors of dev questions and of the passages that they are ranked among, row-major.
#[derive(Clone, Copy)]
struct Encoded<'a> {
    question_vectors: &'a [f32],
    found: &'a [f32],
    dim: usize,
    /// See [`BatchVectors::unit_length`].
    unit_length: bool,
}

/// Returns the mean loss over batches as training makes them, from vectors that are there already.
fn loss(
    items: &[Item],
    texts: &PassagePool,
    pool: &Pool,
    Encoded { question_vectors, found, dim, unit_length }: Encoded<'_>,
    config: &TrainConfig,
    device: &TrainDevice,
    job: Job<'_>,
) -> Result<f64, TrainError> {
    let mut sum = 0.0;
    let mut counted = 0;
    let counts = config.data.negative_counts();
    let of_item = |(number, item): (usize, &Item)| {
        let mut random = SplitMix::keyed(&[config.run.seed, NEGATIVES, number as u64]);
        let mut found = negatives(item, (items.len(), &|other| items.get(other)), counts, false, &mut random);
        found.retain(|passage| pool.places.contains_key(passage));
        (number, found)
    };
    let mut brought: Vec<(usize, Vec<u32>)> = items.iter().enumerate().map(of_item).collect();
    // Alone, a question without negatives is compared with nothing.
    brought.retain(|(_, negatives)| config.data.in_batch || !negatives.is_empty());
    for batch in brought.chunks(config.run.batch_size) {
        check_stop(job)?;
        let of_batch = batch.iter().map(|(number, _)| &items[*number]).collect::<Vec<_>>();
        let columns =
            Columns::new(batch.iter().map(|(number, found)| (items[*number].positives[0], found.clone())));
        if columns.passages.len() < 2 {
            continue;
        }
        let masked = columns.masked(&of_batch, texts, &config.data);
        let positive: Vec<usize> = (0..batch.len()).collect();
        let rows = batch.iter().flat_map(|(number, _)| &question_vectors[number * dim..(number + 1) * dim]);
        let questions = rows.copied().collect();
        let passages: Vec<f32> = columns
            .passages
            .iter()
            .filter_map(|passage| pool.places.get(passage))
            .flat_map(|place| found[place * dim..(place + 1) * dim].iter().copied())
            .collect();
        let tensor = |values: Vec<f32>| {
            let shape = [values.len() / dim, dim];
            Tensor::<2>::from_data(TensorData::new(values, shape), &device.plain)
        };
        let vectors = BatchVectors { questions: tensor(questions), passages: tensor(passages), unit_length };
        let targets = Targets { positive, masked, ..Targets::default() };
        let (_, loss) = config.objective.of_batch(&vectors, &targets, &device.plain);
        sum += f64::from(numbers(loss)?.first().copied().unwrap_or(f32::NAN)) * batch.len() as f64;
        counted += batch.len();
    }
    Ok(if counted == 0 { 0.0 } else { sum / counted as f64 })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use dpr_core::DeviceChoice;
    use dpr_data::TrainingContext;
    use dpr_files::progress::Silent;

    use super::super::config::Negatives;
    use super::*;

    /// Returns the loss of dev questions whose vectors, and those of all passages, are the same: the logarithm of the
    /// number of passages that a question is compared with.
    fn loss_of(items: &[(&[u32], &[u32])], change: impl Fn(&mut DataOptions)) -> f64 {
        let mut texts = PassagePool::default();
        for number in 0..10 {
            texts.add(TrainingContext { text: format!("passage {number}"), ..TrainingContext::default() });
        }
        let item = |(number, (hard, random)): (usize, &(&[u32], &[u32]))| Item {
            question: format!("question {number}"),
            answers: Vec::new(),
            positives: vec![number as u32],
            hard: hard.to_vec(),
            random: random.to_vec(),
            shared: None,
        };
        let items: Vec<Item> = items.iter().enumerate().map(item).collect();
        let mut config = TrainConfig::default();
        change(&mut config.data);
        let pool = Pool::new(&items, &config.data);
        let (questions, found) = (vec![0.5; items.len() * 2], vec![0.5; pool.passages.len() * 2]);
        let encoded = Encoded { question_vectors: &questions, found: &found, dim: 2, unit_length: false };
        let device = TrainDevice::open(DeviceChoice::Flex).unwrap();
        let job = Job { stop: &AtomicBool::new(false), progress: &Silent };
        loss(&items, &texts, &pool, encoded, &config, &device, job).unwrap()
    }

    fn assert_near(got: f64, passages: f64) {
        assert!((got - passages.ln()).abs() < 1e-5, "{got} is not the logarithm of {passages}");
    }

    #[test]
    fn dev_questions_have_the_positives_of_others_as_negatives_where_training_questions_have() {
        let alone = |count: usize| {
            move |options: &mut DataOptions| {
                (options.negatives, options.negatives_per_question) = (Negatives::Gold, count);
                options.in_batch = false;
            }
        };
        let items: [(&[u32], &[u32]); 4] = [(&[], &[]); 4];
        assert_near(loss_of(&items, alone(2)), 3.0);
        assert_near(loss_of(&items, alone(7)), 4.0);
        assert_near(loss_of(&items, |options| options.negatives = Negatives::Gold), 4.0);
    }

    #[test]
    fn a_dev_question_without_hard_negatives_has_random_ones_in_their_place() {
        let alone = |options: &mut DataOptions| {
            (options.negatives_per_question, options.in_batch) = (2, false);
        };
        assert_near(loss_of(&[(&[4, 5, 6], &[7])], alone), 3.0);
        assert_near(loss_of(&[(&[], &[7, 8, 9])], alone), 3.0);
        // One that has no negative at all is compared with nothing, and does not count.
        assert_near(loss_of(&[(&[4, 5], &[]), (&[], &[]), (&[], &[6, 7])], alone), 3.0);
        assert_eq!(loss_of(&[(&[], &[])], alone), 0.0);
    }

    #[test]
    fn encoding_ends_with_the_batch_in_which_it_is_stopped() {
        let device = TrainDevice::open(DeviceChoice::Flex).unwrap();
        let options = StepOptions { chunk_tokens: 4, threads: 1, ..StepOptions::default() };
        let (stop, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
        let job = Job { stop: &stop, progress: &Silent };
        let forward = |rows: &[Vec<u32>]| {
            stop.store(batches.fetch_add(1, Ordering::Relaxed) == 1, Ordering::Relaxed);
            Ok(vec![0.0; rows.len() * 2])
        };
        let rows = vec![vec![1u32; 4]; 9];
        let error = encode(&rows, 2, &options, &device, job, &forward).unwrap_err();
        assert!(matches!(error, TrainError::Stopped), "{error}");
        assert_eq!(batches.load(Ordering::Relaxed), 2, "of nine");
    }
}
