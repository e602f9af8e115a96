//! Ranking measures: top-k accuracy, and what trec_eval calls recip_rank, ndcg_cut, map, P and recall.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

use super::counted;
use dpr_data::Qrels;

/// Ranks that top-k accuracy is reported at unless others are asked for, as in the paper's tables.
pub const DEFAULT_KS: [usize; 4] = [1, 5, 20, 100];

/// Ranks that count for the mean reciprocal rank and for nDCG.
pub(super) const CUT: usize = 10;

/// The reason why rankings cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RankingError {
    /// There is no judged question, so there is nothing to measure.
    #[error("the qrels judge no question")]
    NoQuestions,
    /// No judgement says that a passage is relevant, so that every measure would be 0.
    #[error(
        "no judged question (of {questions}) has a relevant passage, one that is graded above 0: give 1 or more to \
         what is relevant, or take more of the questions"
    )]
    NothingRelevant {
        /// Questions that the qrels judge.
        questions: usize,
    },
    /// A judged passage that is not in the corpus.
    #[error(
        "the qrels of question {question:?} name passage {passage:?}, which is not in the corpus: were they made \
         for another corpus, or for one not yet split?"
    )]
    UnknownPassage {
        /// The question's id.
        question: String,
        /// The passage's id.
        passage: String,
    },
    /// The same passage twice in a question's ranking.
    #[error("the ranking of question {question:?} holds passage {passage:?} twice")]
    DuplicatePassage {
        /// The question's id.
        question: String,
        /// The passage's id.
        passage: String,
    },
    /// A score that is not a number and has no place in an order.
    #[error("the ranking of question {question:?} has no number for the score of passage {passage:?}")]
    Score {
        /// The question's id.
        question: String,
        /// The passage's id.
        passage: String,
    },
    /// Not one ranking is for a judged question.
    #[error(
        "of {} none is one of the {} (the first is {first:?}): are both of the same set?",
        counted(*rankings, "question or ranking", "questions or rankings"),
        counted(*questions, "question of the qrels", "questions of the qrels")
    )]
    OtherQuestions {
        /// Rankings given.
        rankings: usize,
        /// Questions in the qrels.
        questions: usize,
        /// The first such passage, in the order of ids.
        first: String,
    },
}

/// Share of the questions whose gold passage, or any with the answer, is among the first `k`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TopK {
    /// Passages looked at.
    pub k: usize,
    /// From 0 to 1.
    pub accuracy: f64,
}

/// Share of a question's relevant passages that are among the first `k`, as a mean over questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RecallAt {
    /// Passages looked at.
    pub k: usize,
    /// From 0 to 1.
    pub recall: f64,
}

/// The measures that look at the first `k` alone, as means over questions, each from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CutAt {
    /// Passages looked at.
    pub k: usize,
    /// Share of `k` that is relevant, also where fewer passages are ranked: trec_eval's `P_k`.
    pub precision: f64,
    /// nDCG: gain is the relevance, discount log2(rank + 1); trec_eval's `ndcg_cut_k`.
    pub ndcg: f64,
    /// Reciprocal rank of the first relevant passage, 0 beyond rank `k`.
    pub mrr: f64,
}

/// Means over all questions of the qrels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QrelsReport {
    /// Questions measured: all that the qrels judge.
    pub questions: usize,
    /// Questions without a ranking; each counts 0, as with `trec_eval -c`.
    pub without_ranking: usize,
    /// Rankings of questions that the qrels do not judge; they do not count.
    pub without_qrels: usize,
    /// Mean reciprocal rank of the first relevant passage, 0 beyond rank 10.
    pub mrr_at_10: f64,
    /// Mean nDCG over the first 10: gain is the relevance, discount log2(rank + 1).
    pub ndcg_at_10: f64,
    /// Mean average precision over all passages that are ranked: trec_eval's `map`.
    pub map: f64,
    /// The measure at each requested `k`, ascending.
    pub recall: Vec<RecallAt>,
    /// The other measures at each requested `k`, ascending.
    pub cut: Vec<CutAt>,
}

/// One question's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QuestionScores {
    /// 1 / rank of the first relevant passage, 0 beyond rank 10.
    pub reciprocal_rank_at_10: f64,
    /// nDCG over the first 10.
    pub ndcg_at_10: f64,
    /// Average precision: the sum of the precisions at the ranks of relevant passages, over the number of relevant ones.
    pub average_precision: f64,
    /// The measure at each requested `k`, in that order; 0 where nothing is relevant.
    pub recall: Vec<f64>,
    /// The other measures at each requested `k`, in that order.
    pub cut: Vec<CutAt>,
}

/// Returns the rank, from 1, of the first hit in a ranked list.
pub fn first_hit(hits: impl IntoIterator<Item = bool>) -> Option<usize> {
    hits.into_iter().position(|hit| hit).map(|index| index + 1)
}

/// Returns the top-k accuracy (paper §5) at each of `ks`, ascending, from each question's first hit. 0 without
/// questions.
pub fn top_k(first_hits: &[Option<usize>], ks: &[usize]) -> Vec<TopK> {
    let within = |k: usize| first_hits.iter().flatten().filter(|rank| **rank <= k).count();
    ascending(ks)
        .into_iter()
        .map(|k| TopK { k, accuracy: mean(within(k) as f64, first_hits.len()) })
        .collect()
}

/// Returns the mean reciprocal rank of the first hits, 0 for those beyond rank `cut`. 0 without questions.
pub fn mean_reciprocal_rank(first_hits: &[Option<usize>], cut: usize) -> f64 {
    mean(first_hits.iter().map(|rank| reciprocal(*rank, cut)).sum(), first_hits.len())
}

/// Checks that every judged passage is in the corpus.
///
/// # Errors
/// [`RankingError::UnknownPassage`] with the first that is not, in the order of ids.
pub fn check_qrels(qrels: &Qrels, corpus: &HashSet<&str>) -> Result<(), RankingError> {
    let unknown = qrels
        .iter()
        .flat_map(|(question, judged)| judged.keys().map(move |passage| (question, passage)))
        .find(|(_, passage)| !corpus.contains(passage.as_str()));
    match unknown {
        Some((question, passage)) => {
            Err(RankingError::UnknownPassage { question: question.to_owned(), passage: passage.clone() })
        }
        None => Ok(()),
    }
}

/// Checks that some judged passage is relevant. This is cheap, so it is worth calling before an hour of encoding.
///
/// # Errors
/// [`RankingError::NoQuestions`], and [`RankingError::NothingRelevant`] where every grade is 0 or less.
pub fn check_relevant(qrels: &Qrels) -> Result<(), RankingError> {
    match qrels.iter().count() {
        0 => Err(RankingError::NoQuestions),
        _ if qrels.iter().any(|(_, judged)| judged.values().any(|grade| *grade > 0)) => Ok(()),
        questions => Err(RankingError::NothingRelevant { questions }),
    }
}

/// Returns the ids of a run's scored passages in trec_eval's order: by score, then by id, both descending. trec_eval
/// looks at neither the order nor the ranks of a run file.
///
/// # Errors
/// [`RankingError`] when a score is not a number.
pub fn trec_order(question: &str, scored: &[(String, f32)]) -> Result<Vec<String>, RankingError> {
    if let Some((passage, _)) = scored.iter().find(|(_, score)| score.is_nan()) {
        return Err(RankingError::Score { question: question.to_owned(), passage: passage.clone() });
    }
    let mut order: Vec<&(String, f32)> = scored.iter().collect();
    order.sort_unstable_by(|a, b| {
        b.1.partial_cmp(&a.1).unwrap_or(Ordering::Equal).then_with(|| b.0.cmp(&a.0))
    });
    Ok(order.into_iter().map(|(passage, _)| passage.clone()).collect())
}

/// Measures one question's ranking, best first, against its judgements.
///
/// # Errors
/// [`RankingError::DuplicatePassage`] when the ranking holds a passage twice.
pub fn score_ranking(
    question: &str,
    ranking: &[String],
    judged: &BTreeMap<String, i32>,
    ks: &[usize],
) -> Result<QuestionScores, RankingError> {
    let mut seen = HashSet::with_capacity(ranking.len());
    if let Some(passage) = ranking.iter().find(|passage| !seen.insert(passage.as_str())) {
        return Err(RankingError::DuplicatePassage {
            question: question.to_owned(),
            passage: passage.clone(),
        });
    }
    let gain = |grade: &i32| u32::try_from(*grade).unwrap_or(0);
    let gains: Vec<u32> = ranking.iter().map(|passage| judged.get(passage).map_or(0, gain)).collect();
    let mut ideal: Vec<u32> = judged.values().map(gain).filter(|gain| *gain > 0).collect();
    ideal.sort_unstable_by(|a, b| b.cmp(a));
    let found = |k: usize| gains.iter().take(k).filter(|gain| **gain > 0).count() as f64;
    let first = first_hit(gains.iter().map(|gain| *gain > 0));
    let ndcg = |k: usize| {
        let best = discounted(&ideal, k);
        if best > 0.0 { discounted(&gains, k) / best } else { 0.0 }
    };
    let ranks = gains.iter().zip(1..).filter(|(gain, _)| **gain > 0).map(|(_, rank)| rank);
    let precisions = ranks.zip(1..).map(|(rank, found): (usize, u32)| f64::from(found) / rank as f64);
    let cut = |k: usize| CutAt { k, precision: mean(found(k), k), ndcg: ndcg(k), mrr: reciprocal(first, k) };
    Ok(QuestionScores {
        reciprocal_rank_at_10: reciprocal(first, CUT),
        ndcg_at_10: ndcg(CUT),
        average_precision: mean(precisions.sum(), ideal.len()),
        recall: ks.iter().map(|k| mean(found(*k), ideal.len())).collect(),
        cut: ks.iter().map(|k| cut(*k)).collect(),
    })
}

/// Measures rankings (question id to passage ids, best first) on every question that `qrels` judge.
///
/// # Errors
/// [`RankingError`] when the qrels are empty or grade no passage above 0, no ranking is for one of their questions, or
/// a ranking holds a passage twice.
pub fn measure_qrels(
    rankings: &HashMap<String, Vec<String>>,
    qrels: &Qrels,
    ks: &[usize],
) -> Result<QrelsReport, RankingError> {
    check_relevant(qrels)?;
    let questions: Vec<(&str, &BTreeMap<String, i32>)> = qrels.iter().collect();
    let (first, _) = questions.first().ok_or(RankingError::NoQuestions)?;
    let ks = ascending(ks);
    let (mut reciprocal, mut ndcg, mut map, mut ranked) = (0.0, 0.0, 0.0, 0);
    let mut recall = vec![0.0; ks.len()];
    let mut cut: Vec<CutAt> =
        ks.iter().map(|k| CutAt { k: *k, precision: 0.0, ndcg: 0.0, mrr: 0.0 }).collect();
    for (question, judged) in &questions {
        let Some(ranking) = rankings.get(*question) else { continue };
        let scores = score_ranking(question, ranking, judged, &ks)?;
        ranked += 1;
        reciprocal += scores.reciprocal_rank_at_10;
        ndcg += scores.ndcg_at_10;
        map += scores.average_precision;
        recall.iter_mut().zip(scores.recall).for_each(|(sum, share)| *sum += share);
        for (sum, of) in cut.iter_mut().zip(scores.cut) {
            sum.precision += of.precision;
            sum.ndcg += of.ndcg;
            sum.mrr += of.mrr;
        }
    }
    let count = questions.len();
    if ranked == 0 {
        let rankings = rankings.len();
        return Err(RankingError::OtherQuestions { rankings, questions: count, first: (*first).to_owned() });
    }
    for sum in &mut cut {
        for measure in [&mut sum.precision, &mut sum.ndcg, &mut sum.mrr] {
            *measure = mean(*measure, count);
        }
    }
    Ok(QrelsReport {
        questions: count,
        without_ranking: count - ranked,
        without_qrels: rankings.len() - ranked,
        mrr_at_10: mean(reciprocal, count),
        ndcg_at_10: mean(ndcg, count),
        map: mean(map, count),
        cut,
        recall: ks.into_iter().zip(recall).map(|(k, sum)| RecallAt { k, recall: mean(sum, count) }).collect(),
    })
}

fn ascending(ks: &[usize]) -> Vec<usize> {
    let mut ks = ks.to_vec();
    ks.sort_unstable();
    ks.dedup();
    ks
}

fn mean(sum: f64, count: usize) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn reciprocal(rank: Option<usize>, cut: usize) -> f64 {
    rank.filter(|rank| *rank <= cut).map_or(0.0, |rank| 1.0 / rank as f64)
}

/// Returns the discounted cumulative gain of the first `k`.
fn discounted(gains: &[u32], k: usize) -> f64 {
    gains.iter().take(k).enumerate().map(|(index, gain)| f64::from(*gain) / (index as f64 + 2.0).log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(list: &[&str]) -> Vec<String> {
        list.iter().map(|id| (*id).to_owned()).collect()
    }

    fn judged(list: &[(&str, i32)]) -> BTreeMap<String, i32> {
        list.iter().map(|(id, grade)| ((*id).to_owned(), *grade)).collect()
    }

    fn qrels(list: &[(&str, &str, i32)]) -> Qrels {
        let mut qrels = Qrels::default();
        list.iter().for_each(|(question, passage, grade)| {
            qrels.insert(question, passage, *grade);
        });
        qrels
    }

    #[test]
    fn accuracy_counts_first_hits_within_k() {
        let hits = [first_hit([false, true]), first_hit([true]), first_hit([false; 3]), Some(20), Some(21)];
        let top: Vec<(usize, f64)> =
            top_k(&hits, &[20, 1, 5, 20]).iter().map(|top| (top.k, top.accuracy)).collect();
        assert_eq!(top, [(1, 0.2), (5, 0.4), (20, 0.6)]);
        assert_eq!(mean_reciprocal_rank(&hits, 10), (0.5 + 1.0) / 5.0);
        assert_eq!(top_k(&[], &[1])[0].accuracy, 0.0);
    }

    #[test]
    fn one_question_by_hand() {
        let judged = judged(&[("a", 2), ("b", 1), ("c", -1), ("d", 1)]);
        let scores = score_ranking("q", &ids(&["c", "b", "x", "a"]), &judged, &[1, 2, 100]).unwrap();
        assert_eq!(
            (scores.reciprocal_rank_at_10, &scores.recall[..]),
            (0.5, &[0.0, 1.0 / 3.0, 2.0 / 3.0][..])
        );
        let dcg = 1.0 / 3f64.log2() + 2.0 / 5f64.log2();
        assert!((scores.ndcg_at_10 - dcg / (2.0 + 1.0 / 3f64.log2() + 0.5)).abs() < 1e-12);
        // Relevant are the ranks 2 and 4, of three passages: (1/2 + 2/4) / 3.
        assert!((scores.average_precision - 1.0 / 3.0).abs() < 1e-12, "{scores:?}");
        let of = |cut: &CutAt| (cut.k, cut.precision, cut.mrr);
        let cuts: Vec<_> = scores.cut.iter().map(of).collect();
        // Precision at 100 divides by 100, although four passages were found.
        assert_eq!(cuts, [(1, 0.0, 0.0), (2, 0.5, 0.5), (100, 0.02, 0.5)]);
        let ndcg: Vec<f64> = scores.cut.iter().map(|cut| cut.ndcg).collect();
        let at_2 = (1.0 / 3f64.log2()) / (2.0 + 1.0 / 3f64.log2());
        assert!(ndcg[0] == 0.0 && (ndcg[1] - at_2).abs() < 1e-12 && ndcg[2] == scores.ndcg_at_10, "{ndcg:?}");
    }

    #[test]
    fn measures_of_a_set_are_means_over_its_questions() {
        let qrels = qrels(&[("1", "a", 1), ("1", "b", 1), ("2", "a", 2), ("3", "z", 1)]);
        let rankings = HashMap::from([("1".into(), ids(&["a", "x", "b"])), ("2".into(), ids(&["x", "a"]))]);
        let report = measure_qrels(&rankings, &qrels, &[2, 1]).unwrap();
        // (1/1 + 2/3) / 2, 1/2, and a question without a ranking.
        assert!((report.map - (5.0 / 6.0 + 0.5) / 3.0).abs() < 1e-12, "{report:?}");
        let [first, second] = report.cut.as_slice() else { panic!("{report:?}") };
        assert_eq!((first.k, first.precision, first.ndcg, first.mrr), (1, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0));
        assert_eq!((second.k, second.precision, second.mrr), (2, (0.5 + 0.5) / 3.0, 1.5 / 3.0));
        let discount = 1.0 / 3f64.log2();
        assert!((second.ndcg - (1.0 / (1.0 + discount) + discount) / 3.0).abs() < 1e-12, "{report:?}");
    }

    #[test]
    fn every_judged_question_counts_and_no_other_does() {
        let qrels = qrels(&[("1", "a", 1), ("2", "a", 1)]);
        let rankings = HashMap::from([("1".into(), ids(&["a"])), ("9".into(), ids(&["a"]))]);
        let report = measure_qrels(&rankings, &qrels, &[1]).unwrap();
        assert_eq!((report.questions, report.without_ranking, report.without_qrels), (2, 1, 1));
        assert_eq!((report.mrr_at_10, report.ndcg_at_10, report.recall[0].recall), (0.5, 0.5, 0.5));
    }

    #[test]
    fn an_id_of_qrels_that_is_not_in_the_corpus_is_named() {
        let qrels = qrels(&[("7", "a", 1), ("7", "z", 0), ("8", "a", 1)]);
        check_qrels(&qrels, &HashSet::from(["a", "z"])).unwrap();
        let error = check_qrels(&qrels, &HashSet::from(["a"])).unwrap_err();
        assert_eq!(error, RankingError::UnknownPassage { question: "7".into(), passage: "z".into() });
        assert!(error.to_string().contains("\"z\""));
    }

    #[test]
    fn rankings_that_cannot_be_measured_are_refused() {
        let qrels = qrels(&[("1", "a", 1)]);
        let twice = HashMap::from([("1".into(), ids(&["a", "b", "a"]))]);
        let expected = RankingError::DuplicatePassage { question: "1".into(), passage: "a".into() };
        assert_eq!(measure_qrels(&twice, &qrels, &[1]), Err(expected));
        let other = HashMap::from([("2".into(), ids(&["a"]))]);
        assert!(matches!(measure_qrels(&other, &qrels, &[1]), Err(RankingError::OtherQuestions { .. })));
        assert_eq!(measure_qrels(&other, &Qrels::default(), &[1]), Err(RankingError::NoQuestions));
        assert!(matches!(trec_order("1", &[("a".into(), f32::NAN)]), Err(RankingError::Score { .. })));
    }

    #[test]
    fn qrels_that_grade_nothing_above_0_are_refused() {
        let ranking = HashMap::from([("1".into(), ids(&["a"])), ("2".into(), ids(&["b"]))]);
        let nothing = qrels(&[("1", "a", 0), ("1", "b", -1), ("2", "b", -1)]);
        let error = measure_qrels(&ranking, &nothing, &[1]).unwrap_err();
        assert_eq!(error, RankingError::NothingRelevant { questions: 2 });
        assert!(error.to_string().contains("(of 2) has a relevant passage"), "{error}");
        // One is enough: the other question counts 0.
        let one = qrels(&[("1", "a", -1), ("2", "b", 1)]);
        assert_eq!(measure_qrels(&ranking, &one, &[1]).unwrap().mrr_at_10, 0.5);
    }

    #[test]
    fn trec_order_breaks_ties_by_the_later_id() {
        let scored =
            [("a", 1.0), ("c", -0.0), ("b", 1.0), ("d", 0.0)].map(|(id, score)| (id.to_owned(), score));
        assert_eq!(trec_order("1", &scored).unwrap(), ["b", "a", "d", "c"]);
    }
}
