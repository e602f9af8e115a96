//! Distillation task: the batches, the measure and the model directory of a distillation run.

use std::collections::HashSet;
use std::path::Path;

use dpr_core::Embedding;
use dpr_core::random::SplitMix;

use super::super::encoders::{DualEncoder, TrainDevice};
use super::super::epochs::batches;
use super::super::error::TrainError;
use super::super::evaluate::{check_stop, encode};
use super::super::export::{Exported, export_as};
use super::super::scores::{Scores, StudentScores};
use super::super::step::{Inputs, Loss as _, StepNoise, StepOutcome, step_by};
use super::super::task::Task;
use super::super::trainer::{self, Setup, TrainReport};
use super::config::DistillConfig;
use super::data::DistillPrepared;
use super::loss::{StudentLoss, cosine};
use super::taught::{Taught, best_rows};
use dpr_encode::model::{ModelDir, PASSAGE_DIR, QUESTION_DIR};
use dpr_files::Job;
use dpr_index::{ExactIndex, RECALL_DEPTH};

/// Questions are sorted by length within as many batches, so that a batch has little padding.
const BUCKET: usize = 16;

/// Trains a student as `config` says in the run directory `out`, which holds no run yet, or with `resume` goes on
/// from its last checkpoint. The result is a model directory with the student as question encoder and the teacher's
/// passage encoder: it searches the teacher's indexes.
///
/// # Errors
/// [`TrainError`] as from [`train`](super::super::train).
pub fn distill(
    config: &DistillConfig,
    out: &Path,
    resume: bool,
    prepared: DistillPrepared,
    device: &TrainDevice,
    job: Job<'_>,
) -> Result<TrainReport, TrainError> {
    let DistillPrepared { train, dev, space, model, teacher, name, origin, steps, .. } = prepared;
    let task = DistillTask { config, train, dev, space, teacher, name };
    trainer::run(Setup { config, out, resume, task: &task, model, origin, steps }, device, job)
}

struct DistillTask<'a> {
    config: &'a DistillConfig,
    train: Taught,
    dev: Taught,
    space: Option<ExactIndex>,
    teacher: ModelDir,
    name: String,
}

impl DistillTask<'_> {
    fn loss(&self, taught: &Taught, items: &[usize]) -> StudentLoss {
        let best = self.config.data.passages_per_question;
        StudentLoss::new(self.config.objective, taught, items, self.space.as_ref(), best)
    }
}

impl Task for DistillTask<'_> {
    fn epoch(&self, epoch: usize) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.train.questions.len()).collect();
        let mut random = SplitMix::keyed(&[self.config.run.seed, epoch as u64]);
        random.shuffle(&mut order);
        let length = |item: usize| self.train.questions[item].len();
        batches(order, self.config.run.batch_size, BUCKET, length, |item| item as u64, &mut random)
    }

    fn step(
        &self,
        items: &[usize],
        _epoch: usize,
        model: &DualEncoder,
        noise: StepNoise,
        scale: f32,
        device: &TrainDevice,
    ) -> Result<StepOutcome, TrainError> {
        let tokens = items.iter().map(|item| model.question_tokens(&self.train.questions[*item]));
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
        let loss = self.loss(&self.train, items);
        step_by(model, Inputs::of_texts([&tokens, &[]]), &loss, &self.config.compute, noise, scale, device)
    }

    fn question(&self, item: usize) -> Option<&str> {
        self.train.questions.get(item).map(String::as_str)
    }

    fn has_dev(&self) -> bool {
        !self.dev.questions.is_empty()
    }

    fn measure(&self, model: &DualEncoder, device: &TrainDevice, job: Job<'_>) -> Result<Scores, TrainError> {
        let (student, dev) = (model.question(), &self.dev);
        let (count, dim) = (dev.questions.len(), student.dim());
        let tokens = dev.questions.iter().map(|question| model.question_tokens(question));
        let tokens = tokens.collect::<Result<Vec<_>, _>>()?;
        job.progress.start("measuring", "questions", count as u64);
        let forward = |rows: &[Vec<u32>]| student.encode(rows, device);
        let vectors = encode(&tokens, dim, &self.config.compute, device, job, &forward)?;
        job.progress.finish();
        let pairs = vectors.chunks_exact(dim).zip(&dev.vectors);
        let cosine = pairs.map(|(student, teacher)| cosine(student, teacher)).sum::<f64>() / count as f64;
        let mut loss = 0.0;
        let items: Vec<usize> = (0..count).collect();
        for batch in items.chunks(self.config.run.batch_size) {
            check_stop(job)?;
            let own = batch.iter().flat_map(|item| &vectors[item * dim..(item + 1) * dim]).copied().collect();
            let outcome = self.loss(dev, batch).gradients([own, Vec::new()], dim, device)?;
            loss += outcome.loss * batch.len() as f64 / count as f64;
        }
        if !cosine.is_finite() || !loss.is_finite() {
            return Err(TrainError::NotFinite { loss });
        }
        let shared = self.space.as_ref().map(|space| self.shared(space, &vectors, dim)).transpose()?;
        Ok(Scores::Student(StudentScores { questions: count, cosine, shared, loss }))
    }

    fn export(&self, model: &DualEncoder, out: &Path) -> Result<(), TrainError> {
        let manifest = self.teacher.manifest();
        let passages = if manifest.shared { QUESTION_DIR } else { PASSAGE_DIR };
        let passages = self.teacher.path().join(passages);
        export_as(Exported {
            model,
            out,
            name: &self.name,
            similarity: manifest.similarity,
            matryoshka: false,
            max_passage_tokens: manifest.max_passage_tokens,
            passages: Some(&passages),
            space: Some(manifest.space()),
        })
    }
}

impl DistillTask<'_> {
    /// Returns the share of the teacher's best passages that are among the student's.
    fn shared(&self, space: &ExactIndex, vectors: &[f32], dim: usize) -> Result<f64, TrainError> {
        let questions = vectors.chunks_exact(dim).map(|vector| Embedding::new(vector.to_vec(), dim));
        let questions = questions
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e| TrainError::Device { what: e.to_string() })?;
        let (mut hits, mut all) = (0, 0);
        for (found, expected) in best_rows(space, &questions, RECALL_DEPTH)?.iter().zip(&self.dev.best) {
            let found: HashSet<u32> = found.iter().copied().collect();
            hits += expected.iter().filter(|row| found.contains(row)).count();
            all += expected.len();
        }
        Ok(hits as f64 / all.max(1) as f64)
    }
}
