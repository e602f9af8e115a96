//! Task of a reader or a reranker: the batches, the measure and the model directory of its run.

use std::path::Path;

use super::super::encoders::{DualEncoder, TrainDevice};
use super::super::error::TrainError;
use super::super::export::put_in_place;
use super::super::scores::Scores;
use super::super::step::{StepNoise, StepOutcome};
use super::super::task::Task;
use super::super::teacher::Teacher;
use super::super::trainer::{self, Setup, TrainReport};
use super::config::PairConfig;
use super::data::PairData;
use super::measure::Dev;
use super::prepare::{PairPrepared, PairSampler, step_of};
use super::start::{PairKind, PairModel};
use dpr_encode::model::{CrossEncoderOptions, ReaderOptions, import_cross_encoder, import_reader};
use dpr_files::Job;

/// Trains a reader or a reranker as `config` says in the run directory `out`, which holds no run yet, or with `resume`
/// goes on from its last checkpoint. The result is a model directory of a reader or of a cross-encoder.
///
/// # Errors
/// [`TrainError`] as from [`train`](super::super::train).
pub fn train_pairs(
    config: &PairConfig,
    out: &Path,
    resume: bool,
    prepared: PairPrepared,
    device: &TrainDevice,
    job: Job<'_>,
) -> Result<TrainReport, TrainError> {
    let PairPrepared { data, start, teacher, origin, steps, .. } = prepared;
    let PairModel { model, kind, name, .. } = start;
    let task = PairRun { config, data, kind, teacher, name };
    trainer::run(Setup { config, out, resume, task: &task, model, origin, steps }, device, job)
}

struct PairRun<'a> {
    config: &'a PairConfig,
    data: PairData,
    kind: PairKind,
    teacher: Option<Teacher>,
    name: String,
}

impl PairRun<'_> {
    fn sampler(&self) -> PairSampler<'_> {
        PairSampler {
            data: &self.data,
            config: self.config,
            kind: &self.kind,
            teacher: self.teacher.as_ref(),
        }
    }
}

impl Task for PairRun<'_> {
    fn epoch(&self, epoch: usize) -> Vec<Vec<usize>> {
        self.sampler().epoch(epoch)
    }

    fn step(
        &self,
        items: &[usize],
        epoch: usize,
        model: &DualEncoder,
        noise: StepNoise,
        scale: f32,
        device: &TrainDevice,
    ) -> Result<StepOutcome, TrainError> {
        let batch = self.sampler().compose(items, epoch, &model.question().tokenizer)?;
        step_of(&self.kind, self.config, model, &batch, noise, scale, device)
    }

    fn question(&self, item: usize) -> Option<&str> {
        self.data.item(item).map(|item| item.question.as_str())
    }

    fn has_dev(&self) -> bool {
        !self.data.dev.is_empty()
    }

    fn measure(&self, model: &DualEncoder, device: &TrainDevice, job: Job<'_>) -> Result<Scores, TrainError> {
        let dev = Dev { data: &self.data, config: self.config };
        Ok(match self.kind {
            PairKind::Reader(_) => Scores::Reader(dev.reader(&self.kind, model, device, job)?),
            PairKind::Reranker(_) => Scores::Reranker(dev.reranker(&self.kind, model, device, job)?),
        })
    }

    fn export(&self, model: &DualEncoder, out: &Path) -> Result<(), TrainError> {
        let encoder = model.question();
        let (name, max_tokens) = (Some(self.name.clone()), Some(encoder.config.max_tokens));
        put_in_place(out, |files, staged| {
            encoder.write_as(files, &self.kind.stored(encoder.tensors()?))?;
            match self.kind {
                PairKind::Reader(_) => {
                    let options = ReaderOptions { name, max_tokens, force: true, ..ReaderOptions::default() };
                    import_reader(files, staged, &options)?;
                }
                PairKind::Reranker(_) => {
                    let options = CrossEncoderOptions {
                        name,
                        max_tokens,
                        force: true,
                        ..CrossEncoderOptions::default()
                    };
                    import_cross_encoder(files, staged, &options)?;
                }
            }
            Ok(())
        })
    }
}
