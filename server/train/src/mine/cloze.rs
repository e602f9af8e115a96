//! Inverse cloze task (Lee et al. 2019, ORQA): training data without questions. A sentence of a block stands for a
//! question, the rest of the block for the passage that answers it.

use std::path::Path;

use dpr_core::random::SplitMix;
use serde::Serialize;

use super::MineError;
use super::sentences::sentences;
use dpr_data::{Passage, TrainingContext, TrainingItem, stream_passages, write_training};

/// Options of cutting blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct ClozeOptions {
    /// Share of the items whose passage keeps the sentence, so that the encoders also learn to match words; ORQA's
    /// 0.1.
    pub keep: f64,
    /// Words of a sentence that may be a question, at least.
    pub min_words: usize,
    /// Items, at most, drawn at random from the whole corpus.
    pub limit: Option<usize>,
    /// Decides the sentences.
    pub seed: u64,
}

impl Default for ClozeOptions {
    fn default() -> Self {
        Self { keep: 0.1, min_words: 5, limit: None, seed: 12345 }
    }
}

/// Counts of the items made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ClozeReport {
    /// Blocks read.
    pub blocks: usize,
    /// Items written.
    pub items: usize,
    /// Blocks of one sentence, or without one long enough.
    pub too_short: usize,
}

/// Writes an item for each block of `corpus` to `out` as DPR training json, without negatives: the other passages of a
/// batch serve as these.
///
/// # Errors
/// [`MineError::NoSentences`] when no block has two sentences, [`MineError::Data`] for a file that cannot be read or
/// written.
pub fn cloze(corpus: &Path, out: &Path, options: &ClozeOptions) -> Result<ClozeReport, MineError> {
    let chosen = match options.limit {
        Some(limit) => Some(spread(stream_passages(corpus)?.count(), limit, options.seed)),
        None => None,
    };
    let (mut blocks, mut too_short) = (0, 0);
    let items = write_training(out, |writer| {
        for (number, passage) in stream_passages(corpus)?.enumerate() {
            let passage = passage?;
            if chosen.as_ref().is_some_and(|chosen| chosen.binary_search(&number).is_err()) {
                continue;
            }
            blocks += 1;
            match item(&passage, number, options) {
                Some(item) => writer.write(&item)?,
                None => too_short += 1,
            }
        }
        match writer.count() {
            0 => Err(MineError::NoSentences { blocks, min_words: options.min_words }),
            _ => Ok(()),
        }
    })?;
    Ok(ClozeReport { blocks, items, too_short })
}

/// Returns `limit` of the numbers below `count`, drawn at random, ascending.
pub(super) fn spread(count: usize, limit: usize, seed: u64) -> Vec<usize> {
    let mut numbers: Vec<usize> = (0..count).collect();
    SplitMix::keyed(&[seed]).shuffle(&mut numbers);
    numbers.truncate(limit);
    numbers.sort_unstable();
    numbers
}

fn item(passage: &Passage, number: usize, options: &ClozeOptions) -> Option<TrainingItem> {
    let sentences = sentences(&passage.text);
    let long: Vec<usize> = (0..sentences.len())
        .filter(|sentence| sentences[*sentence].split_whitespace().count() >= options.min_words)
        .collect();
    if sentences.len() < 2 || long.is_empty() {
        return None;
    }
    let mut random = SplitMix::keyed(&[options.seed, number as u64]);
    let drawn = long[random.below(long.len())];
    let keeps = (random.bits() >> 11) as f64 / (1u64 << 53) as f64 <= options.keep;
    let rest = sentences.iter().enumerate().filter(|(sentence, _)| keeps || *sentence != drawn);
    let text: Vec<&str> = rest.map(|(_, sentence)| *sentence).collect();
    let positive = TrainingContext {
        title: passage.title.clone(),
        text: text.join(" "),
        score: None,
        passage_id: Some(passage.id.clone()),
    };
    let question = sentences[drawn].to_owned();
    Some(TrainingItem { question, positive_ctxs: vec![positive], ..TrainingItem::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_of_ten_passages_lack_their_sentence() {
        let text = "The first sentence has seven words here. The second one has as many words. Short one.";
        let passage = |number: usize| Passage::new(number.to_string(), "T", text);
        let options = ClozeOptions::default();
        let items: Vec<_> =
            (0..2000).map(|number| item(&passage(number), number, &options).unwrap()).collect();
        let kept = items.iter().filter(|item| item.positive_ctxs[0].text.contains(&item.question)).count();
        assert!((150..250).contains(&kept), "{kept} of 2000 keep it");
        assert!(items.iter().all(|item| item.question != "Short one."));
        let first = items.iter().filter(|item| item.question.starts_with("The first")).count();
        assert!((900..1100).contains(&first), "{first} ask by the first sentence");
        assert_eq!(item(&passage(7), 7, &options), item(&passage(7), 7, &options));
        let one = Passage { text: "Only one sentence is in here".into(), ..passage(1) };
        assert_eq!(item(&one, 0, &options), None);
    }

    #[test]
    fn a_limit_takes_blocks_from_the_whole_corpus() {
        let dir = tempfile::tempdir().unwrap();
        let corpus = dir.path().join("c.tsv");
        let line =
            |n: usize| format!("{n}\tBlock {n} begins with these words. It then ends with these words.\tT\n");
        let text: String = (0..500).map(line).collect();
        fs_err::write(&corpus, format!("id\ttext\ttitle\n{text}")).unwrap();
        let out = dir.path().join("ict.json");
        let options = ClozeOptions { limit: Some(50), ..ClozeOptions::default() };
        let report = cloze(&corpus, &out, &options).unwrap();
        assert_eq!(report, ClozeReport { blocks: 50, items: 50, too_short: 0 });
        let items: Vec<_> = dpr_data::read_training(&out).unwrap().collect::<Result<_, _>>().unwrap();
        let ids =
            items.iter().filter_map(|item| item.positive_ctxs[0].passage_id.as_ref()?.parse::<usize>().ok());
        assert!(ids.clone().min() < Some(50) && ids.max() > Some(450));
    }
}
