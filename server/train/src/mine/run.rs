//! Mining run: question by question, on every processor.

use std::collections::HashSet;
use std::path::Path;

use rayon::prelude::*;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use unicode_normalization::UnicodeNormalization as _;

use super::gold::GoldMap;
use super::journal::{Journal, Mined};
use super::negatives::draws;
use super::{Denoiser, HardNegatives, MineError, MineOptions, Pool, Positives};
use dpr_data::{Answers, Passage, Question, TrainingContext, TrainingItem, write_training};
use dpr_eval::{AnswerError, AnswerMatcher};
use dpr_files::{Job, atomic, digest};
use dpr_index::ranking::ScoredRow;
use dpr_index::sparse::Analyzer;

/// Questions between two entries of the journal.
const STEP: usize = 256;

/// The same where a cross-encoder scores the passages of each, which takes a second or so.
const STEP_OF_DENOISING: usize = 16;

/// Draws for each random negative, at most: nearly every passage of a tiny corpus may hold the answer.
const TRIES: usize = 50;

/// Counts of the items mined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MineReport {
    /// Questions given.
    pub questions: usize,
    /// Questions with a positive: items written.
    pub kept: usize,
    /// Questions without one.
    pub dropped: usize,
    /// Passages that the cross-encoder scores as high as a question's positive: left out of its hard negatives.
    pub denoised: usize,
    /// Items without a hard negative.
    pub without_hard_negative: usize,
    /// Items with fewer random negatives than were asked for: most of the corpus holds their answers.
    pub short_of_random_negatives: usize,
    /// Answer patterns that are not regular expressions and never match.
    pub invalid_patterns: usize,
    /// Answers that are left out because nothing of them is left after normalisation.
    pub empty_answers: usize,
}

/// Mines `questions` over `pool` and writes DPR training json to `out`.
///
/// A run that was stopped or killed goes on where it was, and the file is the same to the byte; `out` appears whole,
/// gzip-compressed when its name ends in `.gz`.
///
/// # Errors
/// [`MineError`]; [`MineError::Interrupted`] once `job` is stopped. Errors of the questions, the options or the place
/// of `out` are returned before the first question is mined.
pub fn mine(
    questions: &[Question],
    pool: Pool<'_>,
    out: &Path,
    options: &MineOptions,
    job: Job<'_>,
) -> Result<MineReport, MineError> {
    let failed = |source| MineError::Write { path: out.to_path_buf(), source };
    atomic::check_output(out).map_err(failed)?;
    if options.hard_from == HardNegatives::Dense && pool.vectors.is_none() {
        return Err(MineError::NoVectors);
    }
    pool.words.search("", 1, options.scoring)?;
    let miner = Miner::new(questions, pool, options)?;
    let mut journal = Journal::open(out, &name(questions, pool, options))?;
    let at_once = if pool.denoiser.is_some() { STEP_OF_DENOISING } else { STEP };
    job.progress.start("mining", "questions", (questions.len() - journal.done().min(questions.len())) as u64);
    while journal.done() < questions.len() {
        if job.is_stopped() {
            let done = journal.done();
            if done == 0 {
                journal.remove().map_err(failed)?;
            }
            return Err(MineError::Interrupted { done, questions: questions.len() });
        }
        let from = journal.done();
        let step = &questions[from..questions.len().min(from + at_once)];
        let outcomes = step.par_iter().enumerate().map(|(at, question)| miner.item(from + at, question));
        let outcomes = outcomes.collect::<Result<Vec<_>, MineError>>()?;
        journal.append(&outcomes).map_err(failed)?;
        job.progress.advance(outcomes.len() as u64);
    }
    job.progress.finish();

    let mut report = MineReport {
        questions: questions.len(),
        kept: 0,
        dropped: 0,
        denoised: 0,
        without_hard_negative: 0,
        short_of_random_negatives: 0,
        invalid_patterns: miner.invalid_patterns(),
        empty_answers: miner.answers.iter().map(|answers| answers.matcher.empty_answers()).sum(),
    };
    let written = write_training(out, |writer| {
        journal.items(|Mined { item, denoised }| {
            report.denoised += denoised;
            let Some(item) = item else { return Ok(()) };
            report.without_hard_negative += usize::from(item.hard_negative_ctxs.is_empty());
            report.short_of_random_negatives +=
                usize::from(item.negative_ctxs.len() < options.random_negatives);
            Ok(writer.write(&item)?)
        })?;
        match writer.count() {
            0 => Err(MineError::NothingKept { questions: questions.len() }),
            _ => Ok(()),
        }
    });
    if matches!(written, Ok(_) | Err(MineError::NothingKept { .. })) {
        journal.remove().map_err(failed)?;
    }
    report.kept = written?;
    report.dropped = questions.len() - report.kept;
    Ok(report)
}

/// Refuses questions that nothing can be mined for: one that has no answers or, for positives from gold paragraphs,
/// names none. This is cheap, so it is worth calling before an hour of encoding.
///
/// # Errors
/// [`MineError::NoGold`] and [`MineError::Answer`].
pub fn check_questions(questions: &[Question], positives: Positives) -> Result<(), MineError> {
    check_gold(questions, positives)?;
    for question in questions {
        AnswerMatcher::new(&question.id, &question.answers)?;
    }
    Ok(())
}

fn check_gold(questions: &[Question], positives: Positives) -> Result<(), MineError> {
    match questions.iter().find(|question| question.gold.is_none()) {
        Some(question) if positives == Positives::Gold => Err(MineError::NoGold { id: question.id.clone() }),
        _ => Ok(()),
    }
}

/// Returns a name for this work: the same questions, indexes and options, mined by the same version, have the same one.
fn name(questions: &[Question], pool: Pool<'_>, options: &MineOptions) -> String {
    let mut hash = Sha256::new();
    hash.update(format!("{} {} {options:?} {:?}", env!("CARGO_PKG_VERSION"), pool.version, pool.denoiser));
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
    /// One for each question.
    answers: Vec<Held>,
}

impl<'a> Miner<'a> {
    fn new(questions: &[Question], pool: Pool<'a>, options: &'a MineOptions) -> Result<Self, MineError> {
        check_gold(questions, options.positives)?;
        let held = |question| Held::new(question, pool.words.analyzer());
        let answers = questions.par_iter().map(held).collect::<Result<_, AnswerError>>()?;
        Ok(Self { pool, gold: GoldMap::new(pool.passages), options, answers })
    }

    fn invalid_patterns(&self) -> usize {
        self.answers.iter().map(|answers| answers.matcher.invalid_patterns().len()).sum()
    }

    /// Returns the item of a question, which has none without a positive.
    fn item(&self, number: usize, question: &Question) -> Result<Mined, MineError> {
        let (options, passages) = (self.options, self.pool.passages);
        let answers = &self.answers[number];
        let holds = |hit: &ScoredRow| answers.are_in(&passages[hit.row].text);
        let by_words = |depth| self.pool.words.search(&question.text, depth, options.scoring);
        let hits = match (options.positives, options.hard_from) {
            (Positives::Gold, HardNegatives::Dense) => Vec::new(),
            _ => by_words(options.depth)?,
        };
        let positive = match options.positives {
            Positives::Distant => hits.iter().find(|hit| holds(hit)).map(|hit| hit.row),
            Positives::Gold => {
                let gold =
                    question.gold.as_ref().ok_or_else(|| MineError::NoGold { id: question.id.clone() })?;
                self.gold.find(gold, &answers.matcher, self.pool.words, options.scoring)?
            }
        };
        let Some(positive) = positive else { return Ok(Mined::default()) };
        let score = hits.iter().find(|hit| hit.row == positive).map(|hit| hit.score);
        let candidates = match (options.hard_from, self.pool.vectors) {
            (HardNegatives::Dense, Some((index, vectors))) => {
                index.search(&vectors[number], options.depth)?
            }
            _ => hits,
        };
        // A passage with the answer is a positive that nobody marked: it must not be pushed away.
        let hard = candidates.into_iter().filter(|hit| hit.row != positive && !holds(hit));
        let (hard, denoised) = match self.pool.denoiser {
            Some(denoiser) => self.denoised(denoiser, question, positive, hard.collect())?,
            None => (hard.take(options.hard_negatives).collect(), 0),
        };
        let item = TrainingItem {
            dataset: options.dataset.clone(),
            question: question.text.clone(),
            answers: question.answers.as_slice().to_vec(),
            positive_ctxs: vec![context(&passages[positive], score)],
            negative_ctxs: self.random(number, positive, answers),
            hard_negative_ctxs: hard.iter().map(|hit| context(&passages[hit.row], Some(hit.score))).collect(),
        };
        Ok(Mined { item: Some(item), denoised })
    }

    /// Returns the hard negatives among `candidates`, in their order, and the number of those that the cross-encoder
    /// scores as high as the positive less the margin.
    fn denoised(
        &self,
        denoiser: Denoiser<'_>,
        question: &Question,
        positive: usize,
        mut candidates: Vec<ScoredRow>,
    ) -> Result<(Vec<ScoredRow>, usize), MineError> {
        let target = self.options.hard_negatives;
        let score = |rows: &[ScoredRow]| {
            let passages = rows.iter().map(|hit| &self.pool.passages[hit.row]);
            let texts: Vec<_> =
                passages.map(|passage| (passage.title.as_str(), passage.text.as_str())).collect();
            let scores = denoiser.model.score(&question.text, &texts);
            scores.map_err(|source| MineError::Denoise { id: question.id.clone(), source })
        };
        // The score of the search says nothing here.
        let of_positive = score(&[ScoredRow { row: positive, score: 0.0 }])?;
        let limit = of_positive.first().copied().unwrap_or(f32::NEG_INFINITY) - denoiser.margin;
        let (mut hard, mut left_out) = (Vec::new(), 0);
        while hard.len() < target && !candidates.is_empty() {
            let rest = candidates.split_off(candidates.len().min(target - hard.len()));
            let scores = score(&candidates)?;
            let scored = candidates.len();
            let below = candidates.into_iter().zip(scores).filter(|(_, score)| *score < limit);
            let before = hard.len();
            hard.extend(below.map(|(hit, _)| hit));
            left_out += scored - (hard.len() - before);
            candidates = rest;
        }
        Ok((hard, left_out))
    }

    fn random(&self, number: usize, positive: usize, answers: &Held) -> Vec<TrainingContext> {
        let passages = self.pool.passages;
        let target = self.options.random_negatives.min(passages.len());
        let mut draws = draws(self.options.seed, number);
        let mut rows = Vec::with_capacity(target);
        let mut drawn = HashSet::from([positive]);
        for _ in 0..target.saturating_mul(TRIES) {
            if rows.len() == target || drawn.len() == passages.len() {
                break;
            }
            let row = draws.below(passages.len());
            if drawn.insert(row) && !answers.are_in(&passages[row].text) {
                rows.push(row);
            }
        }
        rows.into_iter().map(|row| context(&passages[row], None)).collect()
    }
}

/// A question's answers, to be found in passages.
struct Held {
    matcher: AnswerMatcher,
    /// For languages whose words carry endings (Korean particles) or are not set apart: the answers as they stand.
    texts: Vec<String>,
}

impl Held {
    fn new(question: &Question, analyzer: Analyzer) -> Result<Self, AnswerError> {
        let matcher = AnswerMatcher::new(&question.id, &question.answers)?;
        for pattern in matcher.invalid_patterns() {
            tracing::warn!("question {:?}: {pattern}", question.id);
        }
        let texts = match (&question.answers, analyzer) {
            (Answers::Texts(texts), Analyzer::Bigram) => {
                texts.iter().map(|text| folded(text.trim())).filter(|text| !text.is_empty()).collect()
            }
            _ => Vec::new(),
        };
        Ok(Self { matcher, texts })
    }

    /// By the paper's rule, and over an index of bigrams also within words.
    fn are_in(&self, text: &str) -> bool {
        if self.matcher.matches(text) {
            return true;
        }
        if self.texts.is_empty() {
            return false;
        }
        let text = folded(text);
        self.texts.iter().any(|answer| text.contains(answer.as_str()))
    }
}

fn folded(text: &str) -> String {
    text.nfc().collect::<String>().to_lowercase()
}

fn context(passage: &Passage, score: Option<f32>) -> TrainingContext {
    TrainingContext {
        title: passage.title.clone(),
        text: passage.text.clone(),
        score,
        passage_id: Some(passage.id.clone()),
    }
}
