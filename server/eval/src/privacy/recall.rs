//! The recall of a mode, beside plain search by the same index, and its costs.

use std::collections::HashSet;
use std::time::Instant;

use serde::Serialize;

use super::PrivacyError;
use super::modes::{Mode, Plain};
use super::questions::EncodedQuestion;
use dpr_index::RECALL_DEPTH;
use dpr_index::private::CANDIDATES;
use dpr_index::search::Backend;

/// The recall of a mode and its costs, as means over the questions.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Searched {
    /// Share of plain search's 20 best among all candidates: recall@20 within k'.
    pub recall_within: f64,
    /// The candidates.
    pub candidates: usize,
    /// The same share among the first 20 that the user gets, after re-ranking.
    pub recall: f64,
    /// The same share among the first so many candidates, for each of [`CANDIDATES`] that the mode returns.
    pub recall_by_candidates: Vec<(usize, f64)>,
    /// Bytes of the request's body.
    pub up_bytes: f64,
    /// Bytes of the answer's body, before compression.
    pub down_bytes: f64,
    /// Milliseconds of a search without encoding the question, client and server together, on one thread.
    pub milliseconds: f64,
}

/// Searches for each question in the mode and plainly; `None` where the mode finds nothing.
///
/// # Errors
/// [`PrivacyError`] when a search fails.
pub fn search(
    mode: &dyn Mode,
    backend: &dyn Backend,
    questions: &[EncodedQuestion],
) -> Result<Option<Searched>, PrivacyError> {
    let plain = Plain::new(backend);
    let mut sum = Searched::default();
    let mut by_candidates = CANDIDATES.map(|count| (count, 0f64));
    for question in questions {
        let Some(truth) = plain.search(question, RECALL_DEPTH)? else { return Ok(None) };
        let truth: HashSet<String> = truth.hits.into_iter().collect();
        let started = Instant::now();
        let Some(found) = mode.search(question, RECALL_DEPTH)? else { return Ok(None) };
        sum.milliseconds += started.elapsed().as_secs_f64() * 1e3;
        let share = |ids: &[String]| {
            ids.iter().filter(|id| truth.contains(*id)).count() as f64 / truth.len().max(1) as f64
        };
        sum.recall_within += share(&found.candidates);
        sum.recall += share(&found.hits[..found.hits.len().min(RECALL_DEPTH)]);
        for (count, sum) in &mut by_candidates {
            *sum += share(&found.candidates[..found.candidates.len().min(*count)]);
        }
        sum.candidates = sum.candidates.max(found.candidates.len());
        sum.up_bytes += found.up_bytes as f64;
        sum.down_bytes += found.down_bytes as f64;
    }
    let count = questions.len().max(1) as f64;
    let most = sum.candidates;
    Ok(Some(Searched {
        recall_within: sum.recall_within / count,
        candidates: most,
        recall: sum.recall / count,
        recall_by_candidates: by_candidates
            .into_iter()
            .filter(|(within, _)| *within <= most)
            .map(|(within, sum)| (within, sum / count))
            .collect(),
        up_bytes: sum.up_bytes / count,
        down_bytes: sum.down_bytes / count,
        milliseconds: sum.milliseconds / count,
    }))
}
