//! Tuning of a graph: the smallest `ef_search` that reaches a recall.

use std::path::Path;

use dpr_core::Embedding;
use serde::Serialize;

use super::recall::{Truth, sample};
use super::{BuildError, HnswParams, IndexKind, LoadedIndex, QueryError, TuneError};
use crate::directory::copy::publish_with;

/// The result of tuning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tuned {
    /// The `ef_search` that the index has from now on.
    pub ef_search: usize,
    /// Recall with that `ef_search`.
    pub recall: f64,
    /// Each `ef_search` that was tried with its recall, in the order of trying.
    pub tried: Vec<(usize, f64)>,
}

/// Finds the smallest `ef_search` of the HNSW index in `dir` with which recall@k reaches `recall`, asking with up to
/// `questions` of its own vectors, and publishes the index with it as a new version.
///
/// # Errors
/// [`TuneError`] when there is no graph, another writer is at it, or [`TuneError::Recall`] when no `ef_search` short of
/// scoring every passage, and up to [`HnswParams::MAX_CANDIDATES`], is enough. The version in use then stays.
pub fn tune(dir: &Path, recall: f64, k: usize, questions: usize) -> Result<Tuned, TuneError> {
    let mut index = LoadedIndex::open_base(dir).map_err(BuildError::from)?;
    let version = index.version().to_owned();
    if index.manifest.kind != IndexKind::Hnsw {
        return Err(TuneError::NoGraph { path: dir.to_path_buf() });
    }
    let queries: Vec<Embedding> = sample(index.matrix().map_err(BuildError::from)?, questions);
    let truth = Truth::of(&index.exact().map_err(BuildError::from)?, &queries, k)?;
    // A search for k keeps at least 1.5 k.
    let (least, most) = (k + k / 2, most_candidates(index.index.len()));
    let mut tried: Vec<(usize, f64)> = Vec::new();
    let mut measure = |ef: usize, tried: &mut Vec<(usize, f64)>| -> Result<bool, QueryError> {
        index.index.set_ef_search(ef);
        let found = truth.recall(&index.index.search_batch(&queries, k)?);
        tried.push((ef, found));
        Ok(found >= recall)
    };
    let mut enough = least.min(most.max(1));
    while !measure(enough, &mut tried)? {
        if enough >= most {
            let best = tried.iter().map(|(_, recall)| *recall).fold(0.0, f64::max);
            return Err(TuneError::Recall { k, allowed: recall, best });
        }
        enough = (enough * 2).min(most);
    }
    let mut short = enough / 2;
    while enough > least && enough - short > 1 {
        let middle = usize::midpoint(short, enough);
        if measure(middle, &mut tried)? {
            enough = middle;
        } else {
            short = middle;
        }
    }
    let recall = tried.iter().rfind(|(ef, _)| *ef == enough).map_or(0.0, |(_, recall)| *recall);
    publish_with(dir, &version, |manifest, _| {
        if let Some(hnsw) = &mut manifest.hnsw {
            hnsw.ef_search = enough;
        }
        Ok(())
    })?;
    Ok(Tuned { ef_search: enough, recall, tried })
}

/// Returns the greatest `ef_search` that is tried in an index of so many rows: a search that keeps half of them looks
/// at every one, and a compaction refuses more than [`HnswParams::MAX_CANDIDATES`].
fn most_candidates(rows: usize) -> usize {
    (rows / 2).saturating_sub(1).min(HnswParams::MAX_CANDIDATES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_candidates_are_tried_than_a_compaction_can_build_a_graph_with() {
        for rows in [4, 2_000_000, 2_097_152, 2_097_154, 2_097_156, 21_000_000, u32::MAX as usize] {
            let params = HnswParams { ef_search: most_candidates(rows), ..HnswParams::default() };
            assert!(params.check().is_ok(), "{rows} rows: {}", params.ef_search);
            assert!(params.ef_search < rows / 2, "{rows} rows: {}", params.ef_search);
        }
        assert_eq!(most_candidates(2_000_000), 999_999);
        assert_eq!(most_candidates(21_000_000), HnswParams::MAX_CANDIDATES);
        let above = HnswParams { ef_search: HnswParams::MAX_CANDIDATES + 1, ..HnswParams::default() };
        let error = above.check().unwrap_err().to_string();
        assert!(error.contains("ef_search is 1048577") && error.contains("1048576"), "{error}");
    }
}
