//! Relevance judge: the passages that are right for a question.

use std::collections::{BTreeMap, HashMap};

use rayon::prelude::*;

use super::{
    AnswerError, AnswerMatcher, EvalError, InvalidPattern, RankingError, TokenizedPassage, check_qrels,
    first_hit, trec_order,
};
use dpr_data::{Gold, Passage, Qrels, Question};
use dpr_index::ranking::ScoredRow;

/// Judges rankings of a corpus for the questions it was made for.
///
/// ```
/// use dpr_data::{Answers, Gold, Passage, Question};
/// use dpr_eval::Judge;
/// use dpr_index::ScoredRow;
///
/// let passages = ["a", "b"].map(|id| Passage::new(id, "", format!("Text {id}.")));
/// let gold = Gold { id: "b".into(), text: "Text b.".into(), answer: None };
/// let question = Question { id: "1".into(), text: "Which?".into(), answers: Answers::default(), gold: Some(gold) };
/// let questions = [question];
/// let judge = Judge::gold(&questions, &passages)?;
/// assert!(judge.is_right(0, 1) && !judge.is_right(0, 0));
/// // The rank, from 1, of the first passage that is right.
/// let ranking = vec![ScoredRow { row: 0, score: 9.0 }, ScoredRow { row: 1, score: 7.5 }];
/// assert_eq!(judge.first_right(&[ranking])?, [Some(2)]);
/// # Ok::<(), dpr_eval::EvalError>(())
/// ```
#[derive(Debug)]
pub struct Judge<'a> {
    passages: &'a [Passage],
    rules: Vec<Rule<'a>>,
    /// The passages' texts where answers are looked for: each is cut into tokens once, however many questions meet it.
    texts: Vec<TokenizedPassage<'a>>,
    gold_not_in_index: usize,
}

/// The rule that makes a passage right for one question.
#[derive(Debug)]
enum Rule<'a> {
    /// `None` when the corpus does not have it.
    Gold(Option<&'a str>),
    Answer(AnswerMatcher),
    Graded(Option<&'a BTreeMap<String, i32>>),
}

impl<'a> Judge<'a> {
    /// Returns a judge by gold passages: the passage that the question was asked about is right, and no other.
    ///
    /// # Errors
    /// [`EvalError`]: no questions, one without a gold passage, or gold passages none of which is in the corpus.
    pub fn gold(questions: &'a [Question], passages: &'a [Passage]) -> Result<Self, EvalError> {
        let golds = gold_passages(questions)?;
        let texts: HashMap<&str, &str> =
            passages.iter().map(|passage| (passage.id.as_str(), passage.text.as_str())).collect();
        // Every SQuAD file has a paragraph 0-0: the text says whether it is this one.
        let is_there =
            |gold: &&Gold| texts.get(gold.id.as_str()).is_some_and(|text| same_words(text, &gold.text));
        let rules: Vec<_> =
            golds.iter().map(|gold| Rule::Gold(is_there(gold).then_some(gold.id.as_str()))).collect();
        let absent = rules.iter().filter(|rule| matches!(rule, Rule::Gold(None))).count();
        if absent == golds.len() {
            return Err(EvalError::OtherCorpus { questions: golds.len(), first: golds[0].id.clone() });
        }
        Ok(Self { passages, rules, texts: Vec::new(), gold_not_in_index: absent })
    }

    /// Returns a judge by answers: a passage is right if its text holds an answer, which is the paper's measure
    /// (§5.1).
    ///
    /// # Errors
    /// [`EvalError`]: no questions, or one without an answer that can be looked for.
    pub fn answers(questions: &[Question], passages: &'a [Passage]) -> Result<Self, EvalError> {
        if questions.is_empty() {
            return Err(EvalError::NoQuestions);
        }
        if let Some(question) = questions.iter().find(|question| question.answers.is_empty()) {
            return Err(EvalError::NoAnswer { id: question.id.clone() });
        }
        let matchers =
            questions.par_iter().map(|question| AnswerMatcher::new(&question.id, &question.answers));
        let rules = matchers.map(|matcher| matcher.map(Rule::Answer)).collect::<Result<_, AnswerError>>()?;
        let texts = passages.iter().map(|passage| TokenizedPassage::new(&passage.text)).collect();
        Ok(Self { passages, rules, texts, gold_not_in_index: 0 })
    }

    /// Returns a judge by qrels: a passage is right if `qrels` grade it above 0.
    ///
    /// # Errors
    /// [`EvalError`]: no questions, none that the qrels judge, or a judged passage that is not in the corpus.
    pub fn graded(
        questions: &[Question],
        passages: &'a [Passage],
        qrels: &'a Qrels,
    ) -> Result<Self, EvalError> {
        if questions.is_empty() {
            return Err(EvalError::NoQuestions);
        }
        check_qrels(qrels, &passages.iter().map(|passage| passage.id.as_str()).collect())?;
        let rules: Vec<_> = questions.iter().map(|question| qrels.query(&question.id)).collect();
        if rules.iter().all(Option::is_none) {
            return Err(EvalError::Qrels(RankingError::OtherQuestions {
                rankings: questions.len(),
                questions: qrels.iter().count(),
                first: qrels.iter().next().map(|(id, _)| id.to_owned()).unwrap_or_default(),
            }));
        }
        let rules = rules.into_iter().map(Rule::Graded).collect();
        Ok(Self { passages, rules, texts: Vec::new(), gold_not_in_index: 0 })
    }

    /// Returns the number of questions whose gold passage is not in the corpus; each counts as not found.
    pub fn gold_not_in_index(&self) -> usize {
        self.gold_not_in_index
    }

    /// Returns the answer patterns that are not regular expressions and so never match, with the number of their
    /// question, from 0.
    pub fn invalid_patterns(&self) -> impl Iterator<Item = (usize, &InvalidPattern)> {
        self.rules.iter().enumerate().flat_map(|(question, rule)| {
            let patterns = match rule {
                Rule::Answer(answers) => answers.invalid_patterns(),
                _ => &[],
            };
            patterns.iter().map(move |pattern| (question, pattern))
        })
    }

    /// Returns the number of answers that are left out because nothing of them is left after normalisation.
    pub fn empty_answers(&self) -> usize {
        let empty = |rule: &Rule<'_>| match rule {
            Rule::Answer(answers) => answers.empty_answers(),
            _ => 0,
        };
        self.rules.iter().map(empty).sum()
    }

    /// Returns, for each question, whether any passage of the corpus is right for it. Accuracy over the questions for
    /// which none is cannot be above 0. Every question is compared with every passage until one is right: a minute or
    /// more for thousands of questions over hundreds of thousands of passages.
    pub fn answerable(&self) -> Vec<bool> {
        let rows = 0..self.passages.len();
        let any = |question: usize| match &self.rules[question] {
            Rule::Gold(gold) => gold.is_some(),
            _ => rows.clone().any(|row| self.is_right(question, row)),
        };
        (0..self.rules.len()).into_par_iter().map(any).collect()
    }

    /// Returns whether the passage of `row` is right for question number `question`, both from 0.
    ///
    /// # Panics
    /// When there is no such question or row.
    pub fn is_right(&self, question: usize, row: usize) -> bool {
        let id = &self.passages[row].id;
        match &self.rules[question] {
            Rule::Gold(gold) => gold.is_some_and(|gold| id == gold),
            Rule::Answer(answers) => answers.matches_passage(&self.texts[row]),
            Rule::Graded(judged) => judged.and_then(|judged| judged.get(id)).is_some_and(|grade| *grade > 0),
        }
    }

    /// Returns whether the passages of each question's ranking are right, best first: the first `depth` of them and,
    /// where none of these is right, the others up to the first that is. [`first_hit`] of a ranking's marks is its
    /// first right passage, whatever `depth`.
    ///
    /// # Errors
    /// [`EvalError::Lists`] when there is not one ranking for each question.
    pub fn marks(&self, rankings: &[Vec<ScoredRow>], depth: usize) -> Result<Vec<Vec<bool>>, EvalError> {
        if rankings.len() != self.rules.len() {
            return Err(EvalError::Lists { got: rankings.len(), expected: self.rules.len() });
        }
        let of_one = |(question, ranking): (usize, &Vec<ScoredRow>)| {
            let (mut marks, mut is_found) = (Vec::with_capacity(depth.min(ranking.len())), false);
            for hit in ranking {
                if is_found && marks.len() >= depth {
                    break;
                }
                let is_right = self.is_right(question, hit.row);
                marks.push(is_right);
                is_found |= is_right;
            }
            marks
        };
        Ok(rankings.par_iter().enumerate().map(of_one).collect())
    }

    /// Returns the rank, from 1, of the first right passage in each question's ranking, best first.
    ///
    /// # Errors
    /// [`EvalError::Lists`] when there is not one ranking for each question.
    pub fn first_right(&self, rankings: &[Vec<ScoredRow>]) -> Result<Vec<Option<usize>>, EvalError> {
        Ok(self.marks(rankings, 0)?.into_iter().map(first_hit).collect())
    }

    /// Returns the rankings by ids in [`trec_order`], as [`measure_qrels`](super::measure_qrels) takes them: of equal
    /// scores the later id comes first, so that figures are those of a run file with the same scores.
    ///
    /// # Errors
    /// [`RankingError::Score`] when a score is not a number.
    pub fn by_ids(
        &self,
        questions: &[Question],
        rankings: &[Vec<ScoredRow>],
    ) -> Result<HashMap<String, Vec<String>>, RankingError> {
        let by_ids = |(question, ranking): (&Question, &Vec<ScoredRow>)| {
            let scored: Vec<(String, f32)> =
                ranking.iter().map(|hit| (self.passages[hit.row].id.clone(), hit.score)).collect();
            trec_order(&question.id, &scored).map(|ids| (question.id.clone(), ids))
        };
        questions.iter().zip(rankings).map(by_ids).collect()
    }
}

/// Returns whether two texts have the same words. Formats that have no place for line ends put a space there.
fn same_words(text: &str, other: &str) -> bool {
    text.split_whitespace().eq(other.split_whitespace())
}

/// Returns each question's gold passage. This is cheap, so it is worth calling before an hour of encoding.
///
/// # Errors
/// [`EvalError`] when there are no questions, or one has no gold passage.
pub fn gold_passages(questions: &[Question]) -> Result<Vec<&Gold>, EvalError> {
    if questions.is_empty() {
        return Err(EvalError::NoQuestions);
    }
    questions
        .iter()
        .map(|question| question.gold.as_ref().ok_or_else(|| EvalError::NoGold { id: question.id.clone() }))
        .collect()
}

#[cfg(test)]
mod tests;
