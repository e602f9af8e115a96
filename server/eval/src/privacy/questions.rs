//! Questions for attackers: those they are trained on and those they are tested on, none in both.

use std::collections::HashSet;

use dpr_core::Embedding;
use dpr_core::random::SplitMix;

use super::PrivacyError;

/// Fewest questions that attackers are trained on.
const LEAST: usize = 100;

/// A question, as an attacker knows those it is trained on.
#[derive(Clone, Debug)]
pub struct EncodedQuestion {
    /// The text.
    pub text: String,
    /// Token ids of the text.
    pub tokens: Vec<u32>,
    /// The vector `[dim]`.
    pub vector: Embedding,
}

/// Questions to train attackers on, and others to test them on.
#[derive(Clone, Debug)]
pub struct QuestionSplit {
    /// Attackers know these, with their texts.
    pub train: Vec<EncodedQuestion>,
    /// The settings of attackers are chosen by these.
    pub held_out: Vec<EncodedQuestion>,
    /// Attackers see what the server sees of these.
    pub test: Vec<EncodedQuestion>,
}

impl QuestionSplit {
    /// Removes duplicates, shuffles by `seed`, and takes `test` questions to test on and a tenth of the others, up to
    /// 1,000, to choose settings by. Questions are alike when their letters and digits are.
    ///
    /// # Errors
    /// [`PrivacyError::TooFew`] when fewer than 100 are left to train on.
    pub fn new(questions: Vec<EncodedQuestion>, test: usize, seed: u64) -> Result<Self, PrivacyError> {
        let mut seen = HashSet::new();
        let mut all: Vec<EncodedQuestion> =
            questions.into_iter().filter(|question| seen.insert(words_of(&question.text))).collect();
        let too_few = PrivacyError::TooFew { distinct: all.len(), test, least: LEAST };
        SplitMix::new(seed).shuffle(&mut all);
        let rest = all.len().saturating_sub(test);
        let held_out = (rest / 10).min(1000);
        if test == 0 || rest - held_out < LEAST {
            return Err(too_few);
        }
        let test = all.split_off(rest);
        let held_out = all.split_off(rest - held_out);
        Ok(Self { train: all, held_out, test })
    }
}

/// Returns the words of a text in lower case, by which duplicates are told.
fn words_of(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(text: String) -> EncodedQuestion {
        EncodedQuestion { text, tokens: vec![1], vector: Embedding::new(vec![1.0], 1).unwrap() }
    }

    #[test]
    fn no_question_is_in_two_parts() {
        let texts =
            (0..300).flat_map(|n| [format!("Who is {n}?"), format!("who is  {n}"), format!("where is {n}")]);
        let split = QuestionSplit::new(texts.map(question).collect(), 200, 7).unwrap();
        assert_eq!((split.train.len(), split.held_out.len(), split.test.len()), (360, 40, 200));
        let parts = [&split.train, &split.held_out, &split.test];
        let all: HashSet<String> =
            parts.iter().flat_map(|part| part.iter()).map(|question| words_of(&question.text)).collect();
        assert_eq!(all.len(), 600);
        let again = QuestionSplit::new((0..600).map(|n| question(n.to_string())).collect(), 200, 7).unwrap();
        let other = QuestionSplit::new((0..600).map(|n| question(n.to_string())).collect(), 200, 8).unwrap();
        assert_ne!(again.test[0].text, other.test[0].text, "the seed matters");
    }

    #[test]
    fn too_few_questions_are_refused() {
        for (count, test) in [(0, 1), (100, 50), (200, 100), (500, 0), (10, 20)] {
            let questions = (0..count).map(|n| question(n.to_string())).collect();
            assert!(
                matches!(QuestionSplit::new(questions, test, 1), Err(PrivacyError::TooFew { .. })),
                "{count}"
            );
        }
    }
}
