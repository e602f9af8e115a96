//! All attackers on one mode.

use serde::Serialize;

use super::PrivacyError;
use super::clusters::{Clusters, greatest};
use super::decoder::{self, DecoderOptions};
use super::linear::{Ridge, Views, predict, products};
use super::modes::{Mode, Noise};
use super::network::{self, NetworkOptions};
use super::pieces::{Decoded, Named, Pieces};
use super::questions::{EncodedQuestion, QuestionSplit};

/// Penalties of ridge regression that are tried on held-out questions.
const PENALTIES: [f64; 4] = [0.03, 0.3, 3.0, 30.0];

/// Clusters of passages, which are the topics.
const TOPICS: usize = 64;

/// Attackers, with the data that they have before they see a view.
pub struct Attackers {
    split: QuestionSplit,
    pieces: Pieces,
    topics: Clusters,
    network: Option<NetworkOptions>,
    decoder: Option<DecoderOptions>,
}

/// Results of the attacks on a mode's views.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Attacked {
    /// Ridge regression from views to word pieces.
    pub ridge: Named,
    /// A network of one hidden layer; `None` where it was not asked for.
    pub network: Option<Named>,
    /// A network that writes the question piece after piece; `None` where it was not asked for.
    pub decoder: Option<Decoded>,
    /// Share of questions that are picked out of all questions, those of training and test, by the nearest view. A pick
    /// among n views that are equally near counts 1 / n.
    pub known: f64,
    /// Share of questions whose topic is named, one of 64 clusters of passages.
    pub topic: f64,
}

impl Attacked {
    /// Returns the content named by the best attacker.
    pub fn content(&self) -> f64 {
        let network = self.network.map_or(0.0, |named| named.content);
        self.ridge.content.max(network).max(self.decoder.map_or(0.0, |decoded| decoded.content))
    }

    /// Returns the share of questions whose bag of word pieces ridge regression or the network, whichever is better,
    /// names without a mistake.
    pub fn exact(&self) -> f64 {
        self.ridge.exact.max(self.network.map_or(0.0, |named| named.exact))
    }
}

impl Attackers {
    /// Trains nothing yet. `passages` are vectors `[dim]` of the index, of which topics are made.
    pub fn new<'a>(
        split: QuestionSplit,
        passages: impl Iterator<Item = &'a [f32]>,
        dim: usize,
        network: Option<NetworkOptions>,
        decoder: Option<DecoderOptions>,
        seed: u64,
    ) -> Self {
        let pieces = Pieces::of(&split.train);
        Self { pieces, topics: Clusters::of(passages, dim, TOPICS, seed), split, network, decoder }
    }

    /// Returns the questions.
    pub fn split(&self) -> &QuestionSplit {
        &self.split
    }

    /// Returns the number of word pieces that the attackers can name.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Returns what is named without having seen anything: the commonest pieces.
    pub fn floor(&self) -> Named {
        self.pieces.floor(&self.split.test)
    }

    /// Returns the share of test questions that have the commonest topic of the training questions.
    pub fn topic_floor(&self) -> f64 {
        let mut counts = vec![0f32; self.topics.len()];
        self.topics_of(&self.split.train).into_iter().for_each(|topic| counts[topic] += 1.0);
        let commonest = greatest(&counts);
        let topics = self.topics_of(&self.split.test);
        share(topics.iter().map(|topic| *topic == commonest))
    }

    fn topics_of(&self, questions: &[EncodedQuestion]) -> Vec<usize> {
        let rows: Vec<f32> =
            questions.iter().flat_map(|question| question.vector.as_slice()).copied().collect();
        self.topics.nearest(&rows)
    }
}

/// Trains all attackers on a mode's views of the training questions and measures them on the test questions.
///
/// # Errors
/// [`PrivacyError`] when a question cannot be sent in this mode; [`PrivacyError::NoPieces`] when the training questions
/// have no word pieces by which they differ.
pub fn attack(mode: &dyn Mode, attackers: &Attackers) -> Result<Attacked, PrivacyError> {
    let Attackers { split, pieces, network, decoder, .. } = attackers;
    if pieces.len() == 0 {
        return Err(PrivacyError::NoPieces { questions: split.train.len() });
    }
    let train = mode.views(&split.train, Noise::Drawn(0))?;
    let test = mode.views(&split.test, Noise::Device)?;
    let network = network.map(|options| network::attack(mode, split, pieces, options)).transpose()?;
    let decoder = decoder.map(|options| decoder::attack(mode, split, pieces, options)).transpose()?;
    let regression = Ridge::new(&train);
    Ok(Attacked {
        ridge: ridge(mode, attackers, &regression, &test)?,
        network,
        decoder,
        known: known(mode, split, &test)?,
        topic: topic(attackers, &regression, &test)?,
    })
}

/// Ridge regression to word pieces; the penalty is that which names most of the held-out questions' content.
fn ridge(
    mode: &dyn Mode,
    attackers: &Attackers,
    regression: &Ridge,
    test: &Views,
) -> Result<Named, PrivacyError> {
    let Attackers { split, pieces, .. } = attackers;
    let held_out = mode.views(&split.held_out, Noise::Drawn(1))?;
    let labels = pieces.labels(&split.train);
    let mut best = (f64::NEG_INFINITY, Named::default());
    for penalty in PENALTIES {
        let weights = regression.fit(&labels, pieces.len(), penalty)?;
        let chosen_by = pieces.measure(&predict(&weights, &held_out), &split.held_out).content;
        if chosen_by > best.0 {
            best = (chosen_by, pieces.measure(&predict(&weights, test), &split.test));
        }
    }
    Ok(best.1)
}

/// Returns the share of test questions whose own view without noise is the nearest to what the server saw, among those
/// of all questions. A pick among n views that are equally near counts 1 / n.
fn known(mode: &dyn Mode, split: &QuestionSplit, test: &Views) -> Result<f64, PrivacyError> {
    let all: Vec<EncodedQuestion> =
        [&split.test, &split.train, &split.held_out].into_iter().flatten().cloned().collect();
    let list = mode.views(&all, Noise::None)?;
    let lengths: Vec<f32> = list.rows().map(|row| row.iter().map(|value| value * value).sum()).collect();
    let scores = products(&test.numbers, &list.numbers, test.width);
    // The squared distance, without the part that is the same for all.
    let right = scores.chunks_exact(lengths.len().max(1)).enumerate().map(|(at, scores)| {
        let near: Vec<f32> =
            scores.iter().zip(&lengths).map(|(score, length)| 2.0 * score - length).collect();
        let nearest = near.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let alike = near.iter().filter(|near| **near == nearest).count();
        if near[at] == nearest { 1.0 / alike as f64 } else { 0.0 }
    });
    Ok(right.sum::<f64>() / split.test.len().max(1) as f64)
}

/// Ridge regression to topics.
fn topic(attackers: &Attackers, regression: &Ridge, test: &Views) -> Result<f64, PrivacyError> {
    let labels: Vec<Vec<usize>> =
        attackers.topics_of(&attackers.split.train).into_iter().map(|topic| vec![topic]).collect();
    let count = attackers.topics.len();
    let weights = regression.fit(&labels, count, PENALTIES[1])?;
    let named = predict(&weights, test);
    let right = attackers.topics_of(&attackers.split.test);
    Ok(share(named.chunks_exact(count.max(1)).zip(right).map(|(scores, right)| greatest(scores) == right)))
}

fn share(are: impl Iterator<Item = bool>) -> f64 {
    let (mut yes, mut all) = (0usize, 0usize);
    for is in are {
        yes += usize::from(is);
        all += 1;
    }
    yes as f64 / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use dpr_core::Embedding;

    use super::super::modes::Found;
    use super::*;

    /// A mode in which the server sees the question's vector without its sign.
    struct Lengths;

    impl Mode for Lengths {
        fn name(&self) -> String {
            "lengths".to_owned()
        }

        fn sees(&self) -> String {
            "1 number".to_owned()
        }

        fn views(&self, questions: &[EncodedQuestion], _: Noise) -> Result<Views, PrivacyError> {
            let view = |question: &EncodedQuestion| vec![question.vector.as_slice()[0].abs()];
            Ok(Views::of(questions.iter().map(view).collect()))
        }

        fn search(&self, _: &EncodedQuestion, _: usize) -> Result<Option<Found>, PrivacyError> {
            Ok(None)
        }
    }

    fn question(tokens: &[u32], value: f32) -> EncodedQuestion {
        let vector = Embedding::new(vec![value], 1).unwrap();
        EncodedQuestion { text: String::new(), tokens: tokens.to_vec(), vector }
    }

    fn known_of(split: &QuestionSplit) -> f64 {
        known(&Lengths, split, &Lengths.views(&split.test, Noise::Device).unwrap()).unwrap()
    }

    #[test]
    fn a_question_is_known_among_those_of_the_same_view_by_chance_alone() {
        let alike = |count: usize| vec![question(&[1], 1.0); count];
        let mut split = QuestionSplit { train: alike(180), held_out: Vec::new(), test: alike(20) };
        let known = known_of(&split);
        assert!((known - 1.0 / 200.0).abs() < 1e-9, "{known}");
        // One whose view no other has is known for certain: 19 of 199 that are alike, and this one.
        split.test[19] = question(&[1], 3.0);
        let known = known_of(&split);
        assert!((known - (19.0 / 199.0 + 1.0) / 20.0).abs() < 1e-9, "{known}");
    }

    #[test]
    fn questions_of_the_same_pieces_alone_are_refused() {
        for tokens in [&[7, 8][..], &[]] {
            let alike = |count: usize| vec![question(tokens, 1.0); count];
            let split = QuestionSplit { train: alike(120), held_out: alike(5), test: alike(5) };
            let (network, decoder) = (NetworkOptions::default(), DecoderOptions::default());
            let attackers =
                Attackers::new(split, [[1.0].as_slice()].into_iter(), 1, Some(network), Some(decoder), 1);
            let refused = attack(&Lengths, &attackers);
            assert!(matches!(refused, Err(PrivacyError::NoPieces { questions: 120 })), "{refused:?}");
        }
    }
}
