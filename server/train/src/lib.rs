//! Training of the dual encoder (paper §3.2): the encoders learn to give a question and the passages that answer it
//! vectors with a large inner product.
//!
//! [`TrainConfig`] holds the settings, with those of the paper as defaults. [`Prepared`] reads the data and the
//! model, [`train()`] trains in a run directory and continues a run that was stopped, [`dry_run`] tries the largest
//! batch. [`distill()`] trains a small question encoder to imitate a large one. Below them, [`step`] gives the loss
//! and the gradients of one [`Batch`] in bounded memory, [`Objective`] is the loss, [`AdamW`] takes the step,
//! [`evaluate`] measures on dev questions. [`mine`] makes training data: positives and hard negatives from the
//! passages that an index finds.

mod allocator;
mod batch;
mod checkpoint;
mod chunks;
mod config;
mod data;
mod distill;
mod encoders;
mod error;
mod evaluate;
mod export;
pub mod mine;
mod objective;
mod optimiser;
mod options;
mod prepare;
mod retrieval_task;
mod run_dir;
mod sampler;
mod scores;
mod step;
mod task;
mod tensor_file;
mod trainer;

pub use allocator::keep_freed_memory;
pub use batch::Batch;
pub use checkpoint::{Best, Position};
pub use config::{DataFile, DataOptions, ModelOptions, Negatives, RunOptions, Settings, TrainConfig};
pub use data::{Item, ItemSet, PassagePool, TrainingData};
pub use distill::{DistillConfig, DistillData, DistillModel, DistillObjective, DistillPrepared, distill};
pub use encoders::{DualEncoder, Sharing, TrainDevice, TrainedEncoder, Weights};
pub use error::TrainError;
pub use evaluate::{DevScores, evaluate};
pub use export::export;
pub use objective::{LossKind, Objective, Targets};
pub use optimiser::{AdamW, Gradient, OptimiserOptions, norm};
pub use options::{Precision, StepOptions};
pub use prepare::{DryRun, Prepared, dry_run, peak_memory};
pub use retrieval_task::train;
pub use run_dir::{DevMetric, Metric, RunDir, StepMetric};
pub use sampler::Sampler;
pub use scores::{Scores, StudentScores};
pub use step::{StepNoise, StepOutcome, step};
pub use trainer::TrainReport;
