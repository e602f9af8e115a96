//! The questions that rankings are measured with.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::super::CliError;
use crate::cli::output::counted;
use dpr_data::{Passage, Qrels, Question, read_qrels, read_questions};
use dpr_eval::{EvalError, Judge, RankingError, check_relevant, gold_passages};

/// Questions and how their rankings are judged.
#[derive(Debug, clap::Args)]
pub(super) struct QuestionArgs {
    /// Questions with their answers or gold passages: SQuAD or WebQuestions json, DPR's question tsv, CuratedTREC;
    /// with --qrels also BEIR jsonl. Each also .gz
    #[arg(long, value_name = "FILE")]
    pub(super) questions: PathBuf,
    /// What makes a passage right [default: the gold passage where all questions name theirs, else the answer]
    #[arg(long, value_enum, conflicts_with = "qrels")]
    by: Option<By>,
    /// Judged passages, BEIR or TREC: right is what they grade above 0
    #[arg(long, value_name = "FILE")]
    qrels: Option<PathBuf>,
    /// Leave out the first N questions
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u32,
    /// Only the first N questions, of those that --skip leaves
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl QuestionArgs {
    /// Leaves the questions that `--skip` and `--limit` ask for; the words are what one and many are, for the error.
    fn cut(&self, questions: &mut Vec<Question>, [one, many]: [&str; 2]) -> Result<(), CliError> {
        let count = questions.len();
        let skipped = (self.skip as usize).min(count);
        if skipped > 0 && skipped == count {
            let (file, skip, given) = (self.questions.display(), self.skip, counted(count, one, many));
            return Err(format!(
                "{file}: --skip {skip} leaves none of its {given} for --limit to take: skip fewer than {count}"
            )
            .into());
        }
        questions.drain(..skipped);
        questions.truncate(self.limit.map_or(count, |limit| limit as usize));
        Ok(())
    }

    fn takes_all(&self) -> bool {
        self.skip == 0 && self.limit.is_none()
    }
}

/// The rule by which a passage is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    /// It is the passage that the question was asked about
    Gold,
    /// Its text holds an answer: the paper's measure
    Answer,
    /// The qrels grade it above 0
    #[value(skip)]
    Qrels,
}

impl By {
    /// Returns what the right passage is called in tables and errors.
    pub(super) fn right_passage(self) -> &'static str {
        match self {
            Self::Gold => "the gold passage",
            Self::Answer => "a passage with the answer",
            Self::Qrels => "a relevant passage",
        }
    }
}

/// Questions, and what their rankings are judged by.
pub(super) struct Questions {
    pub(super) questions: Vec<Question>,
    pub(super) by: By,
    pub(super) qrels: Option<Qrels>,
    /// Questions of the file that the qrels do not judge: nothing can be said of them.
    pub(super) unjudged: usize,
}

impl Questions {
    /// Reads them. What can be wrong with them is said here, before an hour of encoding.
    pub(super) fn read(args: &QuestionArgs) -> Result<Self, CliError> {
        let mut questions = read_questions(&args.questions)?;
        let mut qrels = args.qrels.as_ref().map(|path| read_qrels(path)).transpose()?;
        let given = questions.len();
        if let Some(qrels) = &qrels {
            check_some_judged(&questions, qrels)?;
            questions.retain(|question| qrels.query(&question.id).is_some());
        }
        let unjudged = given - questions.len();
        let words = match qrels {
            Some(_) => ["judged question", "judged questions"],
            None => ["question", "questions"],
        };
        args.cut(&mut questions, words)?;
        if let (Some(qrels), Some(path)) = (&mut qrels, &args.qrels) {
            let ids: HashSet<&str> = questions.iter().map(|question| question.id.as_str()).collect();
            let judged = qrels.iter().count();
            qrels.retain(|query| ids.contains(query));
            check_relevant(qrels).map_err(|error| format!("{}: {error}", path.display()))?;
            let missing = judged - ids.len();
            if missing > 0 && args.takes_all() {
                let missing = counted(
                    missing,
                    "question of the qrels is not in the questions file and is left out",
                    "questions of the qrels are not in the questions file and are left out",
                );
                tracing::warn!("{missing}");
            }
        }
        let are_gold = questions.iter().all(|question| question.gold.is_some());
        let by = match args.by {
            _ if qrels.is_some() => By::Qrels,
            Some(by) => by,
            None if are_gold => By::Gold,
            None => By::Answer,
        };
        match by {
            By::Gold => drop(gold_passages(&questions)?),
            By::Answer => warn_of_answers(&questions)?,
            By::Qrels => {}
        }
        Ok(Self { questions, by, qrels, unjudged })
    }

    /// Reads the first `limit` questions of a file, to be judged by the answers that passages hold.
    pub(super) fn with_answers(path: &Path, limit: usize) -> Result<Self, CliError> {
        let mut questions = read_questions(path)?;
        questions.truncate(limit);
        warn_of_answers(&questions)?;
        Ok(Self { questions, by: By::Answer, qrels: None, unjudged: 0 })
    }

    /// Ids of the passages that rankings are judged by, where ids judge them.
    pub(super) fn judged_ids(&self) -> HashSet<&str> {
        match (self.by, &self.qrels) {
            (By::Qrels, Some(qrels)) => {
                qrels.iter().flat_map(|(_, judged)| judged.keys().map(String::as_str)).collect()
            }
            (By::Gold, _) => self
                .questions
                .iter()
                .filter_map(|question| question.gold.as_ref())
                .map(|gold| gold.id.as_str())
                .collect(),
            _ => HashSet::new(),
        }
    }

    pub(super) fn judge<'a>(&'a self, passages: &'a [Passage]) -> Result<Judge<'a>, EvalError> {
        match (self.by, &self.qrels) {
            (By::Qrels, Some(qrels)) => Judge::graded(&self.questions, passages, qrels),
            (By::Gold, _) => Judge::gold(&self.questions, passages),
            _ => Judge::answers(&self.questions, passages),
        }
    }
}

/// Warns of answers that no passage can hold.
fn warn_of_answers(questions: &[Question]) -> Result<(), EvalError> {
    let judge = Judge::answers(questions, &[])?;
    for (number, pattern) in judge.invalid_patterns() {
        tracing::warn!("question {:?}: {pattern}", questions[number].id);
    }
    if judge.empty_answers() > 0 {
        let empty = counted(
            judge.empty_answers(),
            "answer holds no letter, digit or sign and is left out",
            "answers hold no letter, digit or sign and are left out",
        );
        tracing::warn!("{empty}");
    }
    Ok(())
}

/// Refuses qrels of another set.
fn check_some_judged(questions: &[Question], qrels: &Qrels) -> Result<(), EvalError> {
    if questions.iter().any(|question| qrels.query(&question.id).is_some()) {
        return Ok(());
    }
    Err(EvalError::Qrels(RankingError::OtherQuestions {
        rankings: questions.len(),
        questions: qrels.iter().count(),
        first: qrels.iter().next().map(|(id, _)| id.to_owned()).unwrap_or_default(),
    }))
}
