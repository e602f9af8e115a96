//! Interface that the kinds of training have in common, by which a program runs any of them from its settings.

use std::path::{Path, PathBuf};

use super::config::{DataFile, RunOptions, Settings, TrainConfig};
use super::encoders::TrainDevice;
use super::error::TrainError;
use super::optimiser::OptimiserOptions;
use super::options::StepOptions;
use super::pair::{PairConfig, PairPrepared, pair_dry_run, train_pairs};
use super::prepare::{DryRun, Prepared, dry_run};
use super::retrieval_task::train;
use super::trainer::TrainReport;
use dpr_files::Job;

/// A kind of training on questions with passages, named by its settings: of encoders ([`TrainConfig`]), or of readers
/// and rerankers ([`PairConfig`]).
pub trait Training: Settings {
    /// Data and model, read and checked.
    type Prepared;

    /// Returns the settings that all kinds have.
    fn shared(&mut self) -> SharedSettings<'_>;

    /// Reads what the settings name.
    ///
    /// # Errors
    /// As [`Prepared::new`] and [`PairPrepared::new`].
    fn prepare(&self, device: &TrainDevice) -> Result<Self::Prepared, TrainError>;

    /// Returns notes about the data: not errors, but worth knowing.
    fn notes(prepared: &Self::Prepared) -> &[String];

    /// Trains in the run directory `out`, or goes on there.
    ///
    /// # Errors
    /// As [`train()`] and [`train_pairs`].
    fn train(
        &self,
        out: &Path,
        resume: bool,
        prepared: Self::Prepared,
        device: &TrainDevice,
        job: Job<'_>,
    ) -> Result<TrainReport, TrainError>;

    /// Computes the batch of longest passages once, changing nothing.
    ///
    /// # Errors
    /// As [`dry_run`] and [`pair_dry_run`].
    fn dry_run(&self, device: &TrainDevice) -> Result<DryRun, TrainError>;
}

/// Settings that all kinds of training have, to be set in place.
pub struct SharedSettings<'a> {
    /// The model directory that training starts from.
    pub start: &'a mut PathBuf,
    /// Training files.
    pub train: &'a mut Vec<DataFile>,
    /// Dev files.
    pub dev: &'a mut Vec<PathBuf>,
    /// Negatives of each question.
    pub negatives_per_question: &'a mut usize,
    /// Settings of the run: its length, the size of its batches, and the intervals of measurements and checkpoints.
    pub run: &'a mut RunOptions,
    /// Learning rate, schedule and other constants of the optimiser.
    pub optimiser: &'a mut OptimiserOptions,
    /// Options of computing a batch.
    pub compute: &'a mut StepOptions,
}

/// Implements [`Training`] by the functions of one kind.
macro_rules! training {
    ($config:ty, $prepared:ty, $train:expr, $dry_run:expr) => {
        impl Training for $config {
            type Prepared = $prepared;

            fn shared(&mut self) -> SharedSettings<'_> {
                SharedSettings {
                    start: &mut self.model.start,
                    train: &mut self.data.train,
                    dev: &mut self.data.dev,
                    negatives_per_question: &mut self.data.negatives_per_question,
                    run: &mut self.run,
                    optimiser: &mut self.optimiser,
                    compute: &mut self.compute,
                }
            }

            fn prepare(&self, device: &TrainDevice) -> Result<$prepared, TrainError> {
                <$prepared>::new(self, device)
            }

            fn notes(prepared: &$prepared) -> &[String] {
                &prepared.notes
            }

            fn train(
                &self,
                out: &Path,
                resume: bool,
                prepared: $prepared,
                device: &TrainDevice,
                job: Job<'_>,
            ) -> Result<TrainReport, TrainError> {
                $train(self, out, resume, prepared, device, job)
            }

            fn dry_run(&self, device: &TrainDevice) -> Result<DryRun, TrainError> {
                $dry_run(self, device)
            }
        }
    };
}

training!(TrainConfig, Prepared, train, dry_run);
training!(PairConfig, PairPrepared, train_pairs, pair_dry_run);
