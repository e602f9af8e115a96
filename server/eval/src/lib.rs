//! Evaluation of open-domain question answering: how well retrieval finds the right passages, and how well answers
//! are read.
//!
//! [`Judge`] says which passages are right for a question: those with an answer ([`AnswerMatcher`]), the gold passage,
//! or what qrels name; [`Accuracy`] is the paper's top-k accuracy of that. [`measure_qrels`] adds what trec_eval
//! reports, [`recall`] compares an approximate index with an exact one. [`measure_reading`] gives EM and F1 of
//! predicted answers, [`measure_depths`] those of a reader by the number of passages that it reads. [`compare`] tells a
//! better system from a luckier one, and [`accuracy_svg`] draws their accuracies. [`privacy`] attacks what a server
//! sees of questions.
//!
//! ```
//! use std::collections::HashMap;
//!
//! use dpr_data::{Answers, Passage, Question};
//! use dpr_eval::{Accuracy, Judge, ReadingRules, measure_reading};
//! use dpr_index::ScoredRow;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let passages = ["Rome is old.", "Paris lies on the Seine.", "The Seine flows through Paris."]
//!     .map(|text| Passage::new(text, "", text));
//! let questions = [("1", "Where is the Louvre?", "paris"), ("2", "What is old?", "Athens")].map(
//!     |(id, text, answer)| Question {
//!         id: id.into(),
//!         text: text.into(),
//!         answers: Answers::Texts(vec![answer.into()]),
//!         gold: None,
//!     },
//! );
//!
//! // Retrieval: a passage is right if it holds an answer. Both rankings are of rows 0, 1, 2.
//! let judge = Judge::answers(&questions, &passages)?;
//! let ranking: Vec<ScoredRow> = (0..3).map(|row| ScoredRow { row, score: 1.0 }).collect();
//! let first_right = judge.first_right(&[ranking.clone(), ranking])?;
//! assert_eq!(first_right, [Some(2), None]);
//! let accuracy = Accuracy::of(&first_right, &[1, 5]);
//! assert_eq!((accuracy.top_k[0].accuracy, accuracy.top_k[1].accuracy), (0.0, 0.5));
//!
//! // Reading: exact match and F1 of predicted answers, as SQuAD counts them.
//! let predictions = HashMap::from([("1".into(), "The Paris".into()), ("2".into(), "old Athens".into())]);
//! let report = measure_reading(&questions, &predictions, ReadingRules::Squad)?;
//! assert_eq!(report.exact_match, 0.5);
//! assert!((report.f1 - (1.0 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
//! # Ok(())
//! # }
//! ```

mod accepted;
mod accuracy;
mod answer;
mod by_depth;
mod compare;
mod counted;
mod error;
mod judge;
mod pattern;
mod plot;
pub mod privacy;
mod ranking;
mod reading;
mod recall;
mod rules;
mod tokens;

pub use accuracy::Accuracy;
pub use answer::{AnswerError, AnswerMatcher, InvalidPattern};
pub use by_depth::{DEFAULT_DEPTHS, DepthReport, ReadPassage, ReadQuestion, measure_depths};
pub use compare::{Bootstrap, CompareError, Comparison, LEAST_CLUSTERS, System, compare, compare_clusters};
use counted::counted;
pub use error::EvalError;
pub use judge::{Judge, gold_passages};
pub use plot::{Curve, PlotError, Series, accuracy_svg, log_series_svg, reading_svg, series_svg};
pub use ranking::{
    CutAt, DEFAULT_KS, QrelsReport, QuestionScores, RankingError, RecallAt, TopK, check_qrels,
    check_relevant, first_hit, mean_reciprocal_rank, measure_qrels, score_ranking, top_k, trec_order,
};
pub use reading::{ReadingError, ReadingReport, measure_reading, read_predictions};
pub use recall::{Recall, recall};
pub use rules::{ReadingRules, ReadingScore};
pub use tokens::TokenizedPassage;
