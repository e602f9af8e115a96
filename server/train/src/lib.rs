//! Training of the dual encoder (paper §3.2): the encoders learn to give a question and the passages that answer it
//! vectors with a large inner product.
//!
//! [`TrainConfig`] holds the settings, with those of the paper as defaults. [`Prepared`] reads the data and the
//! model, [`train()`] trains in a run directory and continues a run that was stopped, [`dry_run`] tries the largest
//! batch. [`distill()`] trains a small question encoder to imitate a large one, and [`train_pairs`] a reader or a
//! reranker. Below them, [`step`] gives the loss
//! and the gradients of one [`Batch`] in bounded memory, [`Objective`] is the loss, [`AdamW`] takes the step,
//! [`evaluate`] measures on dev questions. [`mine`] makes training data: positives and hard negatives from the
//! passages that an index finds.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use dpr_train::{Targets, TrainConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config: TrainConfig = toml::from_str(
//!     r#"
//!     [model]
//!     start = "model/"
//!     [[data.train]]
//!     path = "train.json.gz"
//!     [run]
//!     batch_size = 32
//!     "#,
//! )?;
//! config.check()?;
//! // What the file does not say is the paper's.
//! assert_eq!((config.run.batch_size, config.run.epochs), (32, 40));
//!
//! // The loss of a batch of two questions [2, dim] and their two passages [2, dim], from the scores [2, 2].
//! let device = Device::flex();
//! let questions = Tensor::<2>::from_data([[1.0f32, 0.0], [0.0, 1.0]], &device);
//! let passages = Tensor::<2>::from_data([[1.0f32, 0.0], [0.0, 1.0]], &device);
//! let scores = config.objective.scores(questions, passages);
//! let targets = Targets { positive: vec![0, 1], ..Targets::default() };
//! let loss: f32 = config.objective.loss(scores, &targets, &device).into_scalar();
//! // Each question scores 1 with its own passage and 0 with the other: -log(e / (e + 1)).
//! assert!((loss - 0.313_261_7).abs() < 1e-6);
//! # Ok(())
//! # }
//! ```

mod allocator;
mod batch;
mod checkpoint;
mod chunks;
mod config;
mod data;
mod distill;
mod draw;
mod encoders;
mod epochs;
mod error;
mod evaluate;
mod export;
mod gradient;
mod masks;
pub mod mine;
mod objective;
mod optimiser;
mod options;
mod pair;
mod prepare;
mod retrieval_task;
mod run_dir;
mod sampler;
mod scores;
mod sharing;
mod spread;
mod start;
mod step;
mod task;
mod teacher;
mod tensor_file;
mod trainer;
mod training;

pub use allocator::keep_freed_memory;
pub use batch::Batch;
pub use checkpoint::{Best, Position};
pub use config::{
    DataFile, DataOptions, ModelOptions, NegativeCounts, Negatives, RetrievalTask, RunOptions, Settings,
    TrainConfig,
};
pub use data::{Item, PassagePool, TrainingData};
pub use distill::{DistillConfig, DistillData, DistillModel, DistillObjective, DistillPrepared, distill};
pub use encoders::{DualEncoder, TrainDevice, TrainedEncoder, Weights};
pub use epochs::{ItemSet, ItemSets};
pub use error::TrainError;
pub use evaluate::{DevScores, evaluate};
pub use export::export;
pub use gradient::{Gradient, norm};
pub use objective::{LossKind, Objective, Targets, Taught, TeacherLoss};
pub use optimiser::{AdamW, OptimiserOptions, Update};
pub use options::{Precision, StepOptions};
pub use pair::{
    PairBatch, PairConfig, PairDataOptions, PairKind, PairModel, PairModelOptions, PairObjective,
    PairPrepared, PairTask, RankLoss, Ranking, pair_dry_run, reader_step, reranker_step, train_pairs,
};
pub use prepare::{DryRun, Prepared, check_before_mining, dry_run, peak_memory};
pub use retrieval_task::train;
pub use run_dir::{DevMetric, Metric, RunDir, SkippedMetric, StepMetric};
pub use sampler::Sampler;
pub use scores::{ReaderScores, RerankerScores, Scores, StudentScores};
pub use sharing::Sharing;
pub use step::{StepNoise, StepOutcome, step};
pub use trainer::TrainReport;
pub use training::{SharedSettings, Training};
