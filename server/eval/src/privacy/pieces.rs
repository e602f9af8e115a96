//! Word pieces: what attackers name, and how much of a question that is.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::questions::EncodedQuestion;

/// The commonest pieces, which are no content: who, the, of.
const COMMON: usize = 60;

/// Guesses for the content of a question, for each of its pieces.
const GUESSES: usize = 2;

/// Shares of the test questions' word pieces that an attacker names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Named {
    /// Mean share of a question's content pieces, which are those beyond the 60 commonest, among the attacker's best
    /// guesses, two for each piece of the question. Questions without content do not count.
    pub content: f64,
    /// Mean F1 of the pieces named, as many as the question has: the attacker is told how many.
    pub f1: f64,
    /// Share of questions of which exactly the right pieces are named, which is all but their order.
    pub exact: f64,
}

/// Shares of the test questions that the decoder writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Decoded {
    /// Mean share of a question's content pieces among those of the best texts that it writes, two for each piece of
    /// the question: as of [`Named`].
    pub content: f64,
    /// Share of questions that are written piece for piece in their order. One without pieces counts as not written.
    pub exact: f64,
}

/// The texts that a decoder writes for a question, as columns of pieces, the best first.
pub(super) type Written = Vec<Vec<usize>>;

/// The word pieces of the questions that attackers are trained on, by how often they occur.
pub(super) struct Pieces {
    /// Column of each piece, the commonest first.
    columns: BTreeMap<u32, usize>,
    /// Questions that have the piece, by column.
    counts: Vec<usize>,
    /// Pieces that no question lacks, such as those that mark its ends.
    everywhere: BTreeSet<u32>,
}

/// The pieces of a question that is attacked.
struct QuestionPieces {
    /// Pieces, known to the attacker or not.
    count: usize,
    /// Columns of those that are known.
    columns: Vec<usize>,
    /// Pieces beyond the commonest, known or not.
    content: usize,
}

impl Pieces {
    /// Counts the pieces of the questions.
    pub(super) fn of(questions: &[EncodedQuestion]) -> Self {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for question in questions {
            for piece in question.tokens.iter().collect::<BTreeSet<_>>() {
                *counts.entry(*piece).or_default() += 1;
            }
        }
        let everywhere: BTreeSet<u32> =
            counts.iter().filter(|(_, count)| **count == questions.len()).map(|(piece, _)| *piece).collect();
        counts.retain(|piece, _| !everywhere.contains(piece));
        let mut order: Vec<(u32, usize)> = counts.into_iter().collect();
        order.sort_by_key(|(piece, count)| (std::cmp::Reverse(*count), *piece));
        let columns = order.iter().enumerate().map(|(column, (piece, _))| (*piece, column)).collect();
        Self { columns, counts: order.into_iter().map(|(_, count)| count).collect(), everywhere }
    }

    /// Returns the number of pieces.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Returns the number of questions that have each piece.
    pub(super) fn counts(&self) -> &[usize] {
        &self.counts
    }

    /// Returns the columns of each question's pieces, without those that are not known.
    pub(super) fn labels(&self, questions: &[EncodedQuestion]) -> Vec<Vec<usize>> {
        questions.iter().map(|question| self.pieces_of(question).columns).collect()
    }

    /// Returns the columns of a question's pieces in their order, without those that no question lacks; `None` stands
    /// for a piece that is not known.
    pub(super) fn sequence(&self, question: &EncodedQuestion) -> Vec<Option<usize>> {
        let pieces = question.tokens.iter().filter(|piece| !self.everywhere.contains(piece));
        pieces.map(|piece| self.columns.get(piece).copied()).collect()
    }

    /// Measures a decoder by what it wrote for each question.
    pub(super) fn measure_written(&self, written: &[Written], questions: &[EncodedQuestion]) -> Decoded {
        let (mut sum, mut with_content) = (Decoded::default(), 0usize);
        for (texts, question) in written.iter().zip(questions) {
            let (truth, right) = (self.pieces_of(question), self.sequence(question));
            let mut guesses: Vec<usize> = Vec::new();
            for column in texts.iter().flatten() {
                if guesses.len() < GUESSES * truth.count && !guesses.contains(column) {
                    guesses.push(*column);
                }
            }
            // A question without pieces, whose text is empty, is never written.
            let is_right = !right.is_empty()
                && texts.first().is_some_and(|text| text.iter().copied().map(Some).eq(right));
            sum.exact += f64::from(u8::from(is_right));
            if truth.content > 0 {
                let content = truth.columns.iter().filter(|column| **column >= COMMON);
                let hits = content.filter(|column| guesses.contains(column)).count();
                sum.content += hits as f64 / truth.content as f64;
                with_content += 1;
            }
        }
        Decoded {
            content: sum.content / with_content.max(1) as f64,
            exact: sum.exact / questions.len().max(1) as f64,
        }
    }

    fn pieces_of(&self, question: &EncodedQuestion) -> QuestionPieces {
        let pieces: BTreeSet<u32> =
            question.tokens.iter().copied().filter(|piece| !self.everywhere.contains(piece)).collect();
        let columns: Vec<usize> =
            pieces.iter().filter_map(|piece| self.columns.get(piece).copied()).collect();
        let common = columns.iter().filter(|column| **column < COMMON).count();
        QuestionPieces { count: pieces.len(), content: pieces.len() - common, columns }
    }

    /// Measures an attacker by its `scores` `[questions, columns]`.
    pub(super) fn measure(&self, scores: &[f32], questions: &[EncodedQuestion]) -> Named {
        let (mut sum, mut with_content) = (Named::default(), 0usize);
        for (scores, question) in scores.chunks_exact(self.len().max(1)).zip(questions) {
            let truth = self.pieces_of(question);
            let best = best(scores, GUESSES * truth.count);
            let hits = |guesses: &[usize], from: usize| {
                truth.columns.iter().filter(|column| **column >= from && guesses.contains(column)).count()
            };
            let right = hits(&best[..truth.count.min(best.len())], 0);
            if truth.count > 0 {
                sum.f1 += right as f64 / truth.count as f64;
                sum.exact += f64::from(u8::from(right == truth.count));
            }
            if truth.content > 0 {
                sum.content += hits(&best, COMMON) as f64 / truth.content as f64;
                with_content += 1;
            }
        }
        let count = questions.len().max(1) as f64;
        Named {
            content: sum.content / with_content.max(1) as f64,
            f1: sum.f1 / count,
            exact: sum.exact / count,
        }
    }

    /// Measures an attacker that names the commonest pieces and has seen nothing.
    pub(super) fn floor(&self, questions: &[EncodedQuestion]) -> Named {
        let counts: Vec<f32> = self.counts.iter().map(|count| *count as f32).collect();
        self.measure(&counts.repeat(questions.len()), questions)
    }
}

/// Returns the columns of the `count` greatest scores, the greatest first.
fn best(scores: &[f32], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    let by_score = |a: &usize, b: &usize| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b));
    if count < order.len() {
        order.select_nth_unstable_by(count, by_score);
        order.truncate(count);
    }
    order.sort_unstable_by(by_score);
    order
}

#[cfg(test)]
mod tests {
    use dpr_core::Embedding;

    use super::*;

    fn question(tokens: &[u32]) -> EncodedQuestion {
        let vector = Embedding::new(vec![1.0], 1).unwrap();
        EncodedQuestion { text: String::new(), tokens: tokens.to_vec(), vector }
    }

    #[test]
    fn content_is_what_is_not_common_and_unknown_pieces_are_missed() {
        // 7 is in every question; 100 to 159 are the 60 commonest; 300 and 301 are content.
        let mut train: Vec<EncodedQuestion> = (100..160).map(|piece| question(&[7, piece, 7])).collect();
        train.extend((100..160).map(|piece| question(&[7, piece])));
        train.extend([question(&[7, 300]), question(&[7, 301])]);
        let pieces = Pieces::of(&train);
        assert_eq!((pieces.len(), pieces.counts()[0], pieces.counts()[61]), (62, 2, 1));
        assert_eq!(pieces.labels(&[question(&[7, 301, 100, 999])]), [[0, 61]]);

        let mut scores = vec![0f32; 62];
        scores[0] = 3.0;
        scores[61] = 2.0;
        let named = |tokens: &[u32]| pieces.measure(&scores, &[question(tokens)]);
        assert_eq!(named(&[7, 100, 301]), Named { content: 1.0, f1: 1.0, exact: 1.0 });
        // The third piece is one that the attacker has never seen: no guess can name it.
        assert_eq!(named(&[7, 100, 301, 999]), Named { content: 0.5, f1: 2.0 / 3.0, exact: 0.0 });
        // Two guesses for one piece: 300 would be the third.
        assert_eq!(named(&[7, 300]), Named { content: 0.0, f1: 0.0, exact: 0.0 });
        // Without content, nothing is said of it.
        assert_eq!(named(&[7, 100]), Named { content: 0.0, f1: 1.0, exact: 1.0 });
        assert_eq!(named(&[7]), Named::default());
        // Who has seen nothing names common pieces alone.
        assert_eq!(pieces.floor(&[question(&[7, 301, 100])]), Named { content: 0.0, f1: 0.5, exact: 0.0 });
    }

    #[test]
    fn a_question_without_pieces_is_not_written_by_an_empty_text() {
        let train = [question(&[7, 1]), question(&[7, 2])];
        let pieces = Pieces::of(&train);
        let empty: Written = vec![Vec::new()];
        let decoded = pieces.measure_written(std::slice::from_ref(&empty), &[question(&[7])]);
        assert_eq!(decoded, Decoded::default());
        let written = [empty, vec![vec![0]]];
        let decoded = pieces.measure_written(&written, &[question(&[7]), question(&[7, 1])]);
        assert_eq!(decoded, Decoded { content: 0.0, exact: 0.5 });
    }
}
