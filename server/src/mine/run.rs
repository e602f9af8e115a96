//! Mining, question by question, on every processor.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::gold::GoldMap;
use super::journal::Journal;
use super::negatives::Draws;
use super::{HardNegatives, MineError, MineOptions, Pool, Positives};
use crate::data::{Passage, Question, TrainingContext, TrainingItem, corpus_sha256, write_training};
use crate::digest;
use crate::eval::AnswerMatcher;
use crate::progress::Progress;
use crate::ranking::ScoredRow;

/// Questions between two entries of the journal.
const STEP: usize = 256;

/// Draws for each random negative that is wanted, at most: nearly every passage of a tiny corpus may hold the answer.
const TRIES: usize = 50;

/// What was mined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MineReport {
    /// Questions given.
    pub questions: usize,
    /// Questions with a positive: items written.
    pub kept: usize,
    /// Questions without one.
    pub dropped: usize,
    /// Items without a hard negative.
    pub without_hard_negative: usize,
}

/// Mines `questions` over `pool` and writes DPR training json to `out`. `paragraphs` are the gold paragraphs that
/// the questions name; only [`Positives::Gold`] looks at them.
///
/// A run that was stopped or killed goes on where it was, and the file is the same to the byte; `out` appears whole,
/// gzip-compressed when its name ends in `.gz`.
///
/// # Errors
/// [`MineError`]; [`MineError::Interrupted`] once `stop` is set.
pub fn mine(
    questions: &[Question],
    paragraphs: &[Passage],
    pool: Pool<'_>,
    out: &Path,
    options: &MineOptions,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<MineReport, MineError> {
    let failed = |source| MineError::Write { path: out.to_path_buf(), source };
    if options.hard_from == HardNegatives::Dense && pool.vectors.is_none() {
        return Err(MineError::NoVectors);
    }
    let miner = Miner { pool, gold: GoldMap::new(pool.passages, paragraphs), options };
    let mut journal = Journal::open(out, &name(questions, pool, options)).map_err(failed)?;
    progress.start("mining", "questions", questions.len() as u64);
    progress.advance(journal.done() as u64);
    while journal.done() < questions.len() {
        if stop.load(Ordering::Relaxed) {
            return Err(MineError::Interrupted { done: journal.done(), questions: questions.len() });
        }
        let from = journal.done();
        let step = &questions[from..questions.len().min(from + STEP)];
        let outcomes = step.par_iter().enumerate().map(|(at, question)| miner.item(from + at, question));
        let outcomes = outcomes.collect::<Result<Vec<_>, MineError>>()?;
        journal.append(&outcomes).map_err(failed)?;
        progress.advance(outcomes.len() as u64);
    }
    progress.finish();

    let mut without_hard_negative = 0;
    let kept = write_training(out, |writer| {
        journal.items(out, |item| {
            without_hard_negative += usize::from(item.hard_negative_ctxs.is_empty());
            Ok(writer.write(&item)?)
        })?;
        match writer.count() {
            0 => Err(MineError::NothingKept { questions: questions.len() }),
            _ => Ok(()),
        }
    })?;
    journal.remove().map_err(failed)?;
    Ok(MineReport {
        questions: questions.len(),
        kept,
        dropped: questions.len() - kept,
        without_hard_negative,
    })
}

/// A name for this work: the same questions, corpus, indexes and options have the same one.
fn name(questions: &[Question], pool: Pool<'_>, options: &MineOptions) -> String {
    let mut hash = Sha256::new();
    hash.update(corpus_sha256(pool.passages));
    hash.update(format!("{:?} {options:?}", pool.words.analyzer()));
    for question in questions {
        hash.update(format!("{question:?}"));
    }
    for value in pool.vectors.iter().flat_map(|(_, vectors)| vectors.iter()).flat_map(|v| v.as_slice()) {
        hash.update(value.to_le_bytes());
    }
    digest::hex(hash)
}

struct Miner<'a> {
    pool: Pool<'a>,
    gold: GoldMap<'a>,
    options: &'a MineOptions,
}

impl Miner<'_> {
    /// The item of a question, or `None` when it has no positive.
    fn item(&self, number: usize, question: &Question) -> Result<Option<TrainingItem>, MineError> {
        let (options, passages) = (self.options, self.pool.passages);
        let answers = AnswerMatcher::new(&question.id, &question.answers)?;
        let holds = |hit: &ScoredRow| answers.matches(&passages[hit.row].text);
        let by_words = |depth| self.pool.words.search(&question.text, depth, options.scoring);
        let hits = match (options.positives, options.hard_from) {
            (Positives::Gold, HardNegatives::Dense) => Vec::new(),
            _ => by_words(options.depth)?,
        };
        let positive = match options.positives {
            Positives::Distant => hits.iter().find(|hit| holds(hit)).map(|hit| hit.row),
            Positives::Gold => {
                let id =
                    question.gold.as_ref().ok_or_else(|| MineError::NoGold { id: question.id.clone() })?;
                self.gold.find(id, &answers, self.pool.words, options.scoring)?
            }
        };
        let Some(positive) = positive else { return Ok(None) };
        let score = hits.iter().find(|hit| hit.row == positive).map(|hit| hit.score);
        let candidates = match (options.hard_from, self.pool.vectors) {
            (HardNegatives::Dense, Some((index, vectors))) => {
                index.search(&vectors[number], options.depth)?
            }
            _ => hits,
        };
        // A passage with the answer is a positive that nobody marked: it must not be pushed away.
        let hard = candidates.iter().filter(|hit| hit.row != positive && !holds(hit));
        let hard = hard.take(options.hard_negatives);
        Ok(Some(TrainingItem {
            dataset: options.dataset.clone(),
            question: question.text.clone(),
            answers: question.answers.as_slice().to_vec(),
            positive_ctxs: vec![context(&passages[positive], score)],
            negative_ctxs: self.random(number, positive, &answers),
            hard_negative_ctxs: hard.map(|hit| context(&passages[hit.row], Some(hit.score))).collect(),
        }))
    }

    fn random(&self, number: usize, positive: usize, answers: &AnswerMatcher) -> Vec<TrainingContext> {
        let (passages, wanted) = (self.pool.passages, self.options.random_negatives);
        let mut draws = Draws::new(self.options.seed, number);
        let mut rows: Vec<usize> = Vec::with_capacity(wanted);
        for _ in 0..wanted * TRIES {
            if rows.len() == wanted {
                break;
            }
            let row = draws.below(passages.len());
            if row != positive && !rows.contains(&row) && !answers.matches(&passages[row].text) {
                rows.push(row);
            }
        }
        rows.into_iter().map(|row| context(&passages[row], None)).collect()
    }
}

fn context(passage: &Passage, score: Option<f32>) -> TrainingContext {
    TrainingContext {
        title: passage.title.clone(),
        text: passage.text.clone(),
        score,
        passage_id: Some(passage.id.clone()),
    }
}
