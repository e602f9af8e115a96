//! Passages that searches find for a reader: `dpr eval answers --retrieve`.

use std::path::{Path, PathBuf};

use dpr_core::DeviceChoice;
use dpr_data::{Answers, RetrieverResult};
use dpr_index::search::Method;

use super::super::CliError;
use super::super::args::{PrecisionArgs, ThreadsArgs};
use super::super::source::Source;
use super::super::source_args::{FusionArgs, RankingArgs, SourceArgs};
use super::questions::Questions;
use super::result_files::Ranked;
use crate::location::Location;

/// Searches whose passages are read.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RetrieveArgs {
    /// Read what these methods find for the questions, side by side, in place of gold paragraphs or results
    #[arg(long, value_name = "METHOD,...", value_delimiter = ',', requires_all = ["reader", "questions", "index"],
        conflicts_with = "results")]
    retrieve: Vec<Method>,
    /// With --retrieve: index directory, milvus://HOST:PORT/COLLECTION or postgres://USER@HOST/DATABASE?table=NAME
    #[arg(long, env = "DPR_INDEX", hide_env_values = true, value_name = "DIR")]
    index: Option<Location>,
    /// With --retrieve: model directory whose question encoder searches, where vectors are compared
    #[arg(long, env = "DPR_MODEL", value_name = "DIR")]
    model: Option<PathBuf>,
    #[command(flatten)]
    ranking: RankingArgs,
    #[command(flatten)]
    fusion: FusionArgs,
    #[command(flatten)]
    numbers: PrecisionArgs,
}

/// The passages found by each method, by its name, and whether the answers are regular expressions.
pub(super) struct Retrieved {
    pub(super) by_method: Vec<(&'static str, Vec<RetrieverResult>)>,
    pub(super) are_patterns: bool,
}

impl RetrieveArgs {
    /// Returns whether a search was asked for.
    pub(super) fn is_given(&self) -> bool {
        !self.retrieve.is_empty()
    }

    /// Returns the first `depth` passages of each question of a file, of which there are at most `limit`; a passage is
    /// marked where it holds an answer.
    pub(super) fn search(
        &self,
        questions: &Path,
        limit: usize,
        depth: usize,
        device: DeviceChoice,
    ) -> Result<Retrieved, CliError> {
        let fusion = self.fusion.fusion()?;
        let set = Questions::with_answers(questions, limit)?;
        let Some(index) = self.index.clone() else { return Err("--retrieve needs --index".into()) };
        let source = SourceArgs {
            model: self.model.clone(),
            index,
            ranking: self.ranking,
            workers: ThreadsArgs::default(),
            device,
            numbers: self.numbers,
        };
        let mut methods = Vec::new();
        for method in &self.retrieve {
            if !methods.contains(method) {
                methods.push(*method);
            }
        }
        let mut source = Source::open(source, &methods)?;
        let (vectors, _) = source.encode(&set.questions)?;
        let mut by_method = Vec::with_capacity(methods.len());
        for method in methods {
            let rows = source.rank(method, &set.questions, &vectors, depth, fusion)?;
            let marks = set.judge(source.passages())?.marks(&rows, depth)?;
            let passages = source.passages();
            let ranked = Ranked { questions: &set.questions, rows: &rows, passages, marks: &marks };
            by_method.push((method.name(), ranked.results(depth).collect()));
        }
        let are_patterns =
            set.questions.iter().any(|question| matches!(question.answers, Answers::Patterns(_)));
        Ok(Retrieved { by_method, are_patterns })
    }
}
