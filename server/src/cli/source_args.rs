//! The options of what rankings are made from, and of how they are made.

use std::path::{Path, PathBuf};

use dpr_core::{DeviceChoice, Precision};
use dpr_index::search::{Fusion, HYBRID_DEPTH};
use dpr_index::sparse::Scoring;

use super::CliError;
use super::args::{PrecisionArgs, ThreadsArgs, at_least_one};
use crate::location::Location;

/// How hybrid ranking combines.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct FusionArgs {
    /// Hybrid: weight of the inner product beside BM25; `dpr eval tune-hybrid` finds the best. The default is the
    /// paper's, whose BM25 scores were 1.9 times (k1 + 1) as large: Lucene since version 8, and this BM25, leave the
    /// factor out
    #[arg(long, value_name = "LAMBDA", default_value_t = 1.1, allow_negative_numbers = true)]
    lambda: f32,
    /// Hybrid: add reciprocal ranks instead of scores
    #[arg(long, conflicts_with = "lambda")]
    reciprocal_rank: bool,
}

impl FusionArgs {
    pub(super) fn fusion(self) -> Result<Fusion, CliError> {
        match self {
            Self { reciprocal_rank: true, .. } => Ok(Fusion::RECIPROCAL),
            Self { lambda, .. } if lambda.is_finite() && lambda >= 0.0 => Ok(Fusion::Linear { lambda }),
            Self { lambda, .. } => Err(format!("--lambda {lambda} is not a weight: give 0 or more").into()),
        }
    }
}

/// Constants of ranking by words, and of what hybrid ranking looks at.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct RankingArgs {
    /// BM25: how soon repeating a word stops to count, 0 to 1,000,000
    #[arg(long, value_name = "K1", default_value_t = 0.9, allow_negative_numbers = true)]
    k1: f32,
    /// BM25: how much longer passages are held back, 0 to 1
    #[arg(long, value_name = "B", default_value_t = 0.4, allow_negative_numbers = true)]
    b: f32,
    /// Hybrid: best passages by words, and by vectors, that are combined; at least as many as are returned
    #[arg(long, value_name = "N", default_value_t = HYBRID_DEPTH, value_parser = at_least_one)]
    pub(super) hybrid_depth: usize,
}

impl RankingArgs {
    /// Returns BM25 with the constants asked for.
    pub(super) fn bm25(self) -> Scoring {
        Scoring::Bm25 { k1: self.k1, b: self.b }
    }
}

/// Options of everything that ranks passages.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArgs {
    /// Model directory, as `dpr import` wrote it; where vectors are compared
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    pub(super) model: Option<PathBuf>,
    /// Index directory, as `dpr index` wrote it, milvus://HOST:PORT/COLLECTION, or
    /// postgres://USER@HOST/DATABASE?table=NAME; `dpr search --privacy encrypted` takes the http:// or https:// address
    /// of a server
    #[arg(long, visible_alias = "server", env = "DPR_INDEX", hide_env_values = true, value_name = "DIR")]
    pub(super) index: Location,
    #[command(flatten)]
    pub(super) ranking: RankingArgs,
    #[command(flatten)]
    pub(super) workers: ThreadsArgs,
    /// Where to encode, and `dpr eval` to search an exact index: auto (a real GPU, else the CPU), wgpu, cpu, or flex
    /// (Burn's CPU backend)
    #[arg(long, env = "DPR_DEVICE", value_name = "DEVICE", default_value = "auto")]
    pub(super) device: DeviceChoice,
    #[command(flatten)]
    pub(super) numbers: PrecisionArgs,
}

impl SourceArgs {
    pub(super) fn use_threads(&self) {
        if let Some(threads) = self.workers.count() {
            // A second call (tests run several subcommands in one process) keeps the first pool.
            let _ = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        }
    }

    /// Returns the precision of the question encoder.
    pub(super) fn precision(&self) -> Precision {
        self.numbers.precision
    }

    /// Returns where models run.
    pub(super) fn device(&self) -> DeviceChoice {
        self.device
    }

    pub(super) fn model(&self) -> Result<&Path, CliError> {
        let model = self.model.as_deref();
        model.ok_or_else(|| "dense and hybrid need --model, to encode the questions with; an index of words alone is ranked by bm25 or tfidf".into())
    }
}
