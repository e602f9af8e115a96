//! Calibration: how many candidates each level of blurred search needs on an index.

use std::collections::HashSet;

use dpr_core::Embedding;
use dpr_core::private::blur::{Blur, BlurError, Level};
use dpr_core::private::projection::Projection;
use dpr_core::random::SplitMix;

use super::candidates::lifted;
use crate::RECALL_DEPTH;
use crate::search::{Backend, SearchError};

/// Numbers of candidates among which the best passages are looked for.
pub const CANDIDATES: [usize; 5] = [50, 100, 200, 400, 800];

/// Questions that are searched at once.
const BLOCK: usize = 64;

/// The measurements of one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The level.
    pub level: Level,
    /// Mean share of the [`RECALL_DEPTH`] best passages among so many candidates, for each of [`CANDIDATES`].
    pub recall: [f64; CANDIDATES.len()],
}

impl Calibration {
    /// Returns the least number of candidates that holds the share that the level wants, with that share; `None` where
    /// none does.
    pub fn enough(&self) -> Option<(usize, f64)> {
        CANDIDATES.into_iter().zip(self.recall).find(|(_, recall)| *recall >= self.level.wanted_recall())
    }
}

/// Measures every level for which the projection has enough directions, by searching `backend` for `questions` as they
/// are and as they are blurred with noise made from `seed`.
///
/// # Errors
/// [`SearchError`] of the backend.
pub fn calibrate(
    backend: &dyn Backend,
    projection: &Projection,
    questions: &[Embedding],
    seed: u64,
) -> Result<Vec<Calibration>, SearchError> {
    let levels: Vec<Level> =
        Level::ALL.into_iter().filter(|level| level.blur().dims <= projection.rank()).collect();
    let mut sums = vec![[0f64; CANDIDATES.len()]; levels.len()];
    for (block, batch) in questions.chunks(BLOCK).enumerate() {
        let truth: Vec<HashSet<String>> =
            ids(backend, batch, RECALL_DEPTH)?.into_iter().map(HashSet::from_iter).collect();
        for (level, sums) in levels.iter().zip(&mut sums) {
            let blurred = batch.iter().enumerate().map(|(at, question)| {
                let key = [seed, level.blur().dims as u64, (block * BLOCK + at) as u64];
                blurred(level.blur(), projection, question, &mut SplitMix::keyed(&key))
            });
            let blurred = blurred.collect::<Result<Vec<_>, _>>()?;
            let most = CANDIDATES.into_iter().max().unwrap_or(RECALL_DEPTH);
            for (found, truth) in ids(backend, &blurred, most)?.iter().zip(&truth) {
                for (count, sum) in CANDIDATES.into_iter().zip(sums.iter_mut()) {
                    let hits = found.iter().take(count).filter(|id| truth.contains(*id)).count();
                    *sum += hits as f64 / truth.len().max(1) as f64;
                }
            }
        }
    }
    let count = questions.len().max(1) as f64;
    let of = |(level, sums): (Level, [f64; CANDIDATES.len()])| Calibration {
        level,
        recall: sums.map(|sum| sum / count),
    };
    Ok(levels.into_iter().zip(sums).map(of).collect())
}

fn blurred(
    blur: Blur,
    projection: &Projection,
    question: &Embedding,
    random: &mut SplitMix,
) -> Result<Embedding, SearchError> {
    let noise: Vec<f64> = (0..projection.dim()).map(|_| random.normal()).collect();
    let sent = blur.with_noise(projection, question.as_slice(), &noise).map_err(SearchError::Blur)?;
    lifted(projection, &sent).map_err(|_| SearchError::Blur(BlurError::NoDirection))
}

fn ids(backend: &dyn Backend, vectors: &[Embedding], k: usize) -> Result<Vec<Vec<String>>, SearchError> {
    let found = backend.search(vectors, k, None)?;
    Ok(found.into_iter().map(|hits| hits.into_iter().map(|hit| hit.id).collect()).collect())
}
