//! Evaluation of open-domain question answering: how well retrieval finds the right passages, and how well answers
//! are read.
//!
//! [`Judge`] says which passages are right for a question: those with an answer ([`AnswerMatcher`]), the gold
//! passage, or what qrels name; [`Accuracy`] is the paper's top-k accuracy of that. [`measure_qrels`] adds what
//! trec_eval reports, [`recall`] compares an approximate index with an exact one. [`measure_reading`] gives EM and F1
//! of predicted answers. [`compare`] tells a better system from a luckier one, and [`accuracy_svg`] draws their
//! accuracies.

mod accuracy;
mod answer;
mod compare;
mod error;
mod judge;
mod pattern;
mod plot;
mod ranking;
mod reading;
mod recall;
mod tokens;

pub use accuracy::Accuracy;
pub use answer::{AnswerError, AnswerMatcher, InvalidPattern};
pub use compare::{Bootstrap, CompareError, Comparison, System, compare};
pub use error::EvalError;
pub use judge::{Judge, gold_passages};
pub use plot::{Curve, PlotError, Series, accuracy_svg, series_svg};
pub use ranking::{
    DEFAULT_KS, QrelsReport, QuestionScores, RankingError, RecallAt, TopK, check_qrels, first_hit,
    mean_reciprocal_rank, measure_qrels, score_ranking, top_k, trec_order,
};
pub use reading::{
    ReadingError, ReadingReport, ReadingRules, ReadingScore, measure_reading, read_predictions,
};
pub use recall::{Recall, recall};
pub use tokens::TokenizedPassage;
