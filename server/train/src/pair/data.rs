//! Questions with passages that hold the answer and passages that do not, from SQuAD json, DPR training json and DPR's
//! retriever results.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use super::super::config::DataFile;
use super::super::data::{DEV, PassagePool, plain};
use super::super::draw::draw;
use super::super::epochs::{ItemSet, ItemSets};
use super::super::error::TrainError;
use super::config::{PairConfig, PairTask};
use dpr_data::{
    Answers, FileFormat, RetrievedContext, TrainingContext, read_passages, read_questions, read_results,
    read_training,
};
use dpr_eval::{AnswerMatcher, TokenizedPassage};
use dpr_files::digest;

/// Positives of a question that are kept, of which each epoch draws one.
const KEPT_POSITIVES: usize = 10;

/// A question with its passages, as places in the pool.
#[derive(Clone, Debug)]
pub(super) struct PairItem {
    pub(super) question: String,
    pub(super) answers: Vec<String>,
    /// Passages that answer it, the best first.
    pub(super) positives: Vec<u32>,
    /// Passages that do not, the hardest first.
    pub(super) negatives: Vec<u32>,
}

/// Everything a run reads.
#[derive(Default)]
pub(super) struct PairData {
    pub(super) pool: PassagePool,
    pub(super) train: ItemSets<PairItem>,
    pub(super) dev: Vec<PairItem>,
    /// Dev questions that are training questions too.
    pub(super) overlap: usize,
    /// Training questions without a passage that answers them, which are left out.
    pub(super) unanswered: usize,
    /// Dev questions likewise.
    pub(super) unanswered_dev: usize,
}

impl PairData {
    /// Reads the files that `config` names.
    ///
    /// # Errors
    /// [`TrainError::Item`] for a question without answers, where a reader is trained, for one whose answers are all
    /// empty, and for a DPR training item without a positive; [`TrainError::NoDevQuestions`] for dev files without a
    /// question to measure with; [`TrainError::PairFormat`] for a file of another kind; [`TrainError::Data`] for one
    /// that cannot be read.
    pub(super) fn read(config: &PairConfig) -> Result<Self, TrainError> {
        let mut data = Self::default();
        // The items of a file that have a positive, and the number of those that have none.
        let mut read = |path: &Path| -> Result<(Vec<PairItem>, usize), TrainError> {
            let mut items = items(path, &mut data.pool, config)?;
            let before = items.len();
            items.retain(|item| !item.positives.is_empty());
            let without = before - items.len();
            Ok((items, without))
        };
        let mut train = Vec::new();
        for DataFile { path, weight } in &config.data.train {
            let (items, without) = read(path)?;
            train.push(ItemSet { path: path.clone(), weight: *weight, items });
            data.unanswered += without;
        }
        let mut dev = Vec::new();
        for path in &config.data.dev {
            let (items, without) = read(path)?;
            dev.extend(items);
            data.unanswered_dev += without;
        }
        if dev.is_empty() && !config.data.dev.is_empty() {
            let reason = match data.unanswered_dev {
                0 => "they hold no questions".to_owned(),
                count => format!("none of their questions ({count}) has a passage that answers it"),
            };
            return Err(TrainError::NoDevQuestions { files: config.data.dev.clone(), reason });
        }
        let dev = draw(dev, config.data.dev_questions, config.run.seed, DEV);
        (data.train, data.dev) = (ItemSets(train), dev);
        data.pool.close();
        data.without_answers(config.data.kept())?;
        let questions: HashSet<String> = data.items().map(|item| plain(&item.question)).collect();
        data.overlap = data.dev.iter().filter(|item| questions.contains(&plain(&item.question))).count();
        Ok(data)
    }

    /// Removes the negatives that hold an answer of their question, and those beyond `kept`.
    fn without_answers(&mut self, kept: usize) -> Result<(), TrainError> {
        let texts: Vec<_> =
            self.pool.passages().iter().map(|(_, text)| TokenizedPassage::new(text)).collect();
        let sets = self.train.0.iter_mut().map(|set| &mut set.items).chain([&mut self.dev]);
        let items: Vec<&mut PairItem> = sets.flatten().collect();
        items.into_par_iter().try_for_each(|item| {
            let positives: HashSet<u32> = item.positives.iter().copied().collect();
            let mut seen = HashSet::new();
            item.negatives.retain(|passage| !positives.contains(passage) && seen.insert(*passage));
            if !item.answers.is_empty() {
                let answers = Answers::Texts(item.answers.clone());
                let matcher = AnswerMatcher::new(&item.question, &answers)?;
                item.negatives.retain(|passage| !matcher.matches_passage(&texts[*passage as usize]));
            }
            item.negatives.truncate(kept);
            Ok(())
        })
    }

    /// Returns all training items, file after file: the numbers that batches name them by.
    pub(super) fn items(&self) -> impl Iterator<Item = &PairItem> {
        self.train.iter()
    }

    /// Returns the training item with this number.
    pub(super) fn item(&self, number: usize) -> Option<&PairItem> {
        self.train.get(number)
    }

    /// Returns a digest of everything that batches are drawn from, and of the dev questions (64 hex characters).
    pub(super) fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        let mut text = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        for (title, passage) in self.pool.passages() {
            text(title);
            text(passage);
        }
        for item in self.items().chain(&self.dev) {
            text(&item.question);
            item.answers.iter().for_each(|answer| text(answer));
            for passages in [&item.positives, &item.negatives] {
                text(&format!("{passages:?}"));
            }
        }
        // A run without dev questions has the digest that it had before these were part of it.
        if !self.dev.is_empty() {
            text(&self.dev.len().to_string());
        }
        digest::hex(hash)
    }
}

/// Returns the items of a file.
fn items(path: &Path, pool: &mut PassagePool, config: &PairConfig) -> Result<Vec<PairItem>, TrainError> {
    let items = match FileFormat::detect(path)? {
        FileFormat::Squad => squad(path, pool, config.data.kept())?,
        FileFormat::DprTraining => training(path, pool)?,
        FileFormat::DprResult => results(path, pool)?,
        found => return Err(TrainError::PairFormat { path: path.into(), found: found.name() }),
    };
    let refused = |number: usize, what, fix| TrainError::Item {
        path: path.into(),
        item: number + 1,
        question: items[number].question.clone(),
        what,
        fix,
    };
    let silent = items.iter().position(|item| item.answers.is_empty());
    if let Some(number) = silent.filter(|_| config.task == PairTask::Reader) {
        return Err(refused(number, "no answers", "leave it out: a reader learns to mark answers"));
    }
    // An item without a positive is left out, whatever its answers are.
    let is_blank = |item: &PairItem| {
        !item.answers.is_empty()
            && !item.positives.is_empty()
            && AnswerMatcher::new(&item.question, &Answers::Texts(item.answers.clone())).is_err()
    };
    match items.par_iter().position_first(is_blank) {
        Some(number) => Err(refused(
            number,
            "only answers that are empty after normalisation (no letter, digit or sign is left)",
            "correct them, or leave the question out",
        )),
        None => Ok(items),
    }
}

/// Questions with their paragraphs; the negatives are the paragraphs of the same article that come after it, and then
/// those before it. A question that its paragraph does not answer, as SQuAD 2.0 marks it by listing no answers, has no
/// passages.
fn squad(path: &Path, pool: &mut PassagePool, kept: usize) -> Result<Vec<PairItem>, TrainError> {
    let mut places = HashMap::new();
    let mut articles: HashMap<String, Vec<u32>> = HashMap::new();
    for passage in read_passages(path)? {
        let article = article_of(&passage.id).to_owned();
        let context =
            TrainingContext { title: passage.title, text: passage.text, ..TrainingContext::default() };
        let place = pool.add(context);
        let paragraphs = articles.entry(article).or_default();
        places.insert(passage.id, (place, paragraphs.len()));
        paragraphs.push(place);
    }
    let questions = read_questions(path)?.into_iter();
    let items = questions.map(|question| {
        let gold = question.gold.as_ref().filter(|_| !question.answers.is_empty());
        let gold = gold.and_then(|gold| places.get(&gold.id).map(|place| (&gold.id, place)));
        let (mut positives, mut negatives) = (Vec::new(), Vec::new());
        if let Some((id, (place, number))) = gold {
            positives.push(*place);
            let paragraphs = articles.get(article_of(id)).map_or(&[][..], Vec::as_slice);
            // More than are kept, since those with the answer are left out.
            let around = paragraphs.iter().cycle().skip(number + 1).take(paragraphs.len().saturating_sub(1));
            negatives.extend(around.take(kept.saturating_mul(2)));
        }
        let answers = question.answers.as_slice().to_vec();
        PairItem { question: question.text, answers, positives, negatives }
    });
    Ok(items.collect())
}

/// Returns the article of a paragraph's id, `ARTICLE-PARAGRAPH`.
fn article_of(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(article, _)| article)
}

fn training(path: &Path, pool: &mut PassagePool) -> Result<Vec<PairItem>, TrainError> {
    let mut items = Vec::new();
    for raw in read_training(path)? {
        let raw = raw?;
        if raw.positive_ctxs.is_empty() {
            return Err(TrainError::Item {
                path: path.into(),
                item: items.len() + 1,
                question: raw.question,
                what: "no positive passage",
                fix: "leave it out, or give it one in positive_ctxs",
            });
        }
        let mut add = |contexts: Vec<TrainingContext>| -> Vec<u32> {
            contexts.into_iter().map(|context| pool.add(context)).collect()
        };
        let mut positives = add(raw.positive_ctxs);
        positives.truncate(KEPT_POSITIVES);
        let negatives = [add(raw.hard_negative_ctxs), add(raw.negative_ctxs)].concat();
        items.push(PairItem { question: raw.question, answers: raw.answers, positives, negatives });
    }
    Ok(items)
}

fn results(path: &Path, pool: &mut PassagePool) -> Result<Vec<PairItem>, TrainError> {
    let mut items = Vec::new();
    for raw in read_results(path)? {
        let raw = raw?;
        let (mut positives, mut negatives) = (Vec::new(), Vec::new());
        for RetrievedContext { title, text, has_answer, .. } in raw.ctxs {
            let place = pool.add(TrainingContext { title, text, ..TrainingContext::default() });
            if has_answer { positives.push(place) } else { negatives.push(place) }
        }
        positives.truncate(KEPT_POSITIVES);
        let question = dpr_data::normalise_question(&raw.question);
        items.push(PairItem { question, answers: raw.answers, positives, negatives });
    }
    Ok(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(question: &str) -> PairItem {
        let (question, answers) = (question.to_owned(), vec!["x".to_owned()]);
        PairItem { question, answers, positives: vec![0], negatives: vec![1] }
    }

    #[test]
    fn the_digest_is_of_the_dev_questions_too() {
        let digest = |train: &[&str], dev: &[&str]| {
            let items = train.iter().map(|question| item(question)).collect();
            let train = ItemSets(vec![ItemSet { path: "train.json".into(), weight: 1.0, items }]);
            let dev = dev.iter().map(|question| item(question)).collect();
            PairData { train, dev, ..PairData::default() }.sha256()
        };
        assert_ne!(digest(&["a"], &["b"]), digest(&["a"], &["c"]));
        assert_ne!(digest(&["a", "b"], &[]), digest(&["a"], &["b"]));
        let before = "a23e50689997ee5853671bc2668bf1811ee1cc7ce9d20b86522daee3cc5a5e09";
        assert_eq!(digest(&["a"], &[]), before, "runs without dev questions go on");
    }

    /// Returns the data that a reranker is trained on, with a training file of this text, and a dev file where one is
    /// given.
    fn read(train: &str, dev: Option<&str>) -> Result<PairData, String> {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let mut config = PairConfig { task: PairTask::Reranker, ..PairConfig::default() };
        config.data.train = vec![DataFile { path: write("train.json", train), weight: 1.0 }];
        config.data.dev = dev.map(|text| write("dev.json", text)).into_iter().collect();
        PairData::read(&config).map_err(|error| error.to_string())
    }

    #[test]
    fn a_paragraph_is_no_positive_of_a_question_that_it_does_not_answer() {
        let squad = serde_json::json!({"version": "v2.0", "data": [{"title": "Rhine", "paragraphs": [
            {"context": "The Rhine rises in the Alps.", "qas": [
                {"id": "1", "question": "Where does it rise?", "is_impossible": false,
                    "answers": [{"text": "the Alps", "answer_start": 19}]},
                {"id": "2", "question": "Where does the Elbe rise?", "is_impossible": true, "answers": [],
                    "plausible_answers": [{"text": "the Alps", "answer_start": 19}]},
            ]},
            {"context": "It is long.", "qas": []},
        ]}]});
        let data = read(&squad.to_string(), None).unwrap();
        let questions: Vec<&str> = data.items().map(|item| item.question.as_str()).collect();
        assert_eq!((questions, data.unanswered), (vec!["Where does it rise?"], 1));
        assert_eq!(data.item(0).unwrap().negatives, [1]);
    }

    #[test]
    fn dev_files_without_a_question_to_measure_with_are_refused() {
        let item = |has_answer: bool| {
            serde_json::json!([{"question": "who?", "answers": ["me"], "ctxs": [
                {"id": "1", "title": "", "text": "me", "score": 1.0, "has_answer": has_answer}]}])
        };
        let train = item(true).to_string();
        assert_eq!(read(&train, Some(&train)).unwrap().dev.len(), 1);
        let both = serde_json::json!([item(true)[0], item(false)[0]]).to_string();
        let (one, other) = (read(&both, Some(&train)).unwrap(), read(&train, Some(&both)).unwrap());
        assert_eq!((one.unanswered, one.unanswered_dev), (1, 0));
        assert_eq!((other.unanswered, other.unanswered_dev), (0, 1));
        let error = read(&train, Some(&item(false).to_string())).map(|_| ()).unwrap_err();
        let reason = "dev.json: no question to measure with: none of their questions (1) has a passage that answers it";
        assert!(error.contains(reason), "{error}");
    }

    #[test]
    fn an_item_whose_answers_are_all_empty_is_named_with_its_file() {
        let item = |answer: &str| {
            serde_json::json!({"question": "who?", "answers": [answer], "positive_ctxs": [{"title": "", "text": "me"}],
                "hard_negative_ctxs": [], "negative_ctxs": []})
        };
        let error = read(&serde_json::json!([item("me"), item("\u{200b}")]).to_string(), None);
        let error = error.map(|_| ()).unwrap_err();
        let named =
            error.contains("train.json: item 2 (\"who?\")") && error.contains("empty after normalisation");
        assert!(named, "{error}");
    }

    #[test]
    fn as_many_negatives_are_kept_as_a_question_is_given() {
        let dir = tempfile::tempdir().unwrap();
        let of = |kind: &str, count: usize| -> Vec<TrainingContext> {
            let text = |number| format!("{kind} {number}");
            (0..count).map(|number| TrainingContext { text: text(number), ..Default::default() }).collect()
        };
        let raw = dpr_data::TrainingItem {
            question: "q".into(),
            answers: vec!["right".into()],
            positive_ctxs: of("right", 1),
            hard_negative_ctxs: of("hard", 300),
            ..Default::default()
        };
        let path = dir.path().join("train.json");
        std::fs::write(&path, serde_json::to_string(&[raw]).unwrap()).unwrap();
        let kept = |negatives: usize| {
            let mut config = PairConfig::default();
            config.data.train = vec![DataFile { path: path.clone(), weight: 1.0 }];
            config.data.negatives_per_question = negatives;
            PairData::read(&config).unwrap().items().next().unwrap().negatives.len()
        };
        assert_eq!((kept(23), kept(150)), (100, 150));
    }
}
