//! Re-ranking: what a search found, in the order of a cross-encoder's scores.

use std::path::PathBuf;

use dpr_core::{CrossEncoder, DeviceChoice, EncodeError};
use dpr_data::{Passage, Question};
use dpr_encode::model::CrossEncoderDir;
use dpr_index::ScoredRow;
use rayon::prelude::*;

use super::CliError;

/// Passages that one thread scores before it takes others.
const AT_ONCE: usize = 4;

/// Options of re-ranking, off by default.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct RerankArgs {
    /// Re-rank what the search finds by a cross-encoder: its model directory, as `dpr import --cross-encoder` wrote it.
    /// Scores are then the cross-encoder's, which are logits
    #[arg(long, value_name = "DIR")]
    rerank: Option<PathBuf>,
    /// With --rerank: the best passages of the search that are re-ranked; others stay behind them. The scores of hits
    /// beyond it are only places in the order: the lowest logit less 1, 2, …
    #[arg(long, value_name = "N", default_value_t = 50, requires = "rerank",
        value_parser = clap::value_parser!(u32).range(1..))]
    depth: u32,
}

impl RerankArgs {
    /// Returns `true` if there is a cross-encoder to load.
    pub(super) fn is_asked(&self) -> bool {
        self.rerank.is_some()
    }

    /// Loads the cross-encoder, where there is one.
    pub(super) fn open(&self, device: DeviceChoice) -> Result<Option<Reranker>, CliError> {
        let Some(path) = &self.rerank else { return Ok(None) };
        let model = CrossEncoderDir::open(path)?.cross_encoder(device)?;
        Ok(Some(Reranker { model, depth: self.depth as usize }))
    }
}

/// A loaded cross-encoder.
pub(super) struct Reranker {
    model: CrossEncoder,
    depth: usize,
}

impl Reranker {
    /// Returns the number of passages that are re-ranked.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Returns a question's ranking with its best passages in the order of their scores by the cross-encoder. Those
    /// behind them keep their order; their scores are the lowest one less 1, 2, …, which only tell the order.
    pub(super) fn rerank(
        &self,
        question: &Question,
        rows: &[ScoredRow],
        passage: impl Fn(usize) -> Result<Passage, CliError>,
    ) -> Result<Vec<ScoredRow>, CliError> {
        let (first, rest) = rows.split_at(self.depth.min(rows.len()));
        let passages = first.iter().map(|hit| passage(hit.row)).collect::<Result<Vec<_>, _>>()?;
        let texts: Vec<_> = passages.iter().map(|p| (p.title.as_str(), p.text.as_str())).collect();
        let scores = self.scores(&question.text, &texts)?;
        let mut ranked: Vec<_> =
            first.iter().zip(scores).map(|(hit, score)| ScoredRow { row: hit.row, score }).collect();
        // Stable: equal scores keep the order of the search.
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        let lowest = ranked.last().map_or(0.0, |hit| hit.score);
        let behind = rest
            .iter()
            .enumerate()
            .map(|(by, hit)| ScoredRow { row: hit.row, score: lowest - (by + 1) as f32 });
        ranked.extend(behind);
        Ok(ranked)
    }

    fn scores(&self, question: &str, passages: &[(&str, &str)]) -> Result<Vec<f32>, EncodeError> {
        // A kernel runs on one thread; the other devices take care of themselves.
        let at_once = if self.model.device_name() == "cpu" { AT_ONCE } else { passages.len().max(1) };
        let parts = passages.par_chunks(at_once).enumerate().map(|(part, passages)| {
            self.model.score(question, passages).map_err(|error| match error {
                EncodeError::Score { row } => EncodeError::Score { row: part * at_once + row },
                other => other,
            })
        });
        Ok(parts.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}
