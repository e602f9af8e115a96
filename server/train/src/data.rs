//! Training items in memory: questions, and a pool that holds each passage once.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::config::{DataFile, Negatives};
use super::error::TrainError;
use dpr_data::{TrainingContext, read_training};
use dpr_files::digest;

/// Hard and random negatives of an item that are kept, each.
const KEPT_NEGATIVES: usize = 30;

/// Passages, each once, whatever number of items names it.
#[derive(Debug, Default)]
pub struct PassagePool {
    passages: Vec<(String, String)>,
    places: HashMap<[u8; 16], u32>,
}

impl PassagePool {
    /// Title and text of a passage.
    pub fn get(&self, passage: u32) -> (&str, &str) {
        let (title, text) = &self.passages[passage as usize];
        (title, text)
    }

    /// Passages in the pool.
    pub fn len(&self) -> usize {
        self.passages.len()
    }

    /// Returns whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.passages.is_empty()
    }

    fn add(&mut self, context: TrainingContext) -> u32 {
        let mut hash = Sha256::new();
        hash.update((context.title.len() as u64).to_le_bytes());
        hash.update(&context.title);
        hash.update(&context.text);
        let digest = hash.finalize();
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        *self.places.entry(key).or_insert_with(|| {
            self.passages.push((context.title, context.text));
            self.passages.len() as u32 - 1
        })
    }
}

/// A question with its passages, as places in the pool.
#[derive(Clone, Debug)]
pub struct Item {
    /// The question.
    pub question: String,
    /// The positives, which answer the question, the best first; there is at least one.
    pub positives: Vec<u32>,
    /// The hard negatives, which look like an answer but are not one.
    pub hard: Vec<u32>,
    /// Random passages.
    pub random: Vec<u32>,
}

/// The items of one file.
#[derive(Clone, Debug)]
pub struct ItemSet {
    /// Where they come from.
    pub path: PathBuf,
    /// The number of times that each item is seen in an epoch.
    pub weight: f64,
    /// The items.
    pub items: Vec<Item>,
}

/// Everything a run reads.
#[derive(Debug, Default)]
pub struct TrainingData {
    /// The passages of all files.
    pub pool: PassagePool,
    /// Training files.
    pub train: Vec<ItemSet>,
    /// Dev items, of all dev files.
    pub dev: Vec<Item>,
    /// Dev questions that are training questions too.
    pub overlap: usize,
}

impl TrainingData {
    /// Reads the files. Each question needs negatives of the kind `negatives`; at most `dev_questions` dev questions
    /// are kept.
    ///
    /// # Errors
    /// [`TrainError::Item`] for a question without a positive, or without a negative where one is needed;
    /// [`TrainError::Data`] for a file that cannot be read.
    pub fn read(
        train: &[DataFile],
        dev: &[PathBuf],
        kind: Negatives,
        negatives: usize,
        dev_questions: usize,
    ) -> Result<Self, TrainError> {
        let mut data = Self::default();
        for file in train {
            let items = items(&file.path, &mut data.pool, usize::MAX, |item| match kind {
                Negatives::Hard if negatives > 0 && item.hard.is_empty() && item.random.is_empty() => {
                    Some(("neither hard nor random negatives", "mine some, or say negatives = \"gold\""))
                }
                Negatives::Random if negatives > 0 && item.random.is_empty() => {
                    Some(("no random negatives", "mine some"))
                }
                _ => None,
            })?;
            data.train.push(ItemSet { path: file.path.clone(), weight: file.weight, items });
        }
        for path in dev {
            let room = dev_questions - data.dev.len().min(dev_questions);
            data.dev.extend(items(path, &mut data.pool, room, |_| None)?);
        }
        let asked: HashSet<String> = data.items().map(|item| plain(&item.question)).collect();
        data.overlap = data.dev.iter().filter(|item| asked.contains(&plain(&item.question))).count();
        data.pool.places = HashMap::new();
        Ok(data)
    }

    /// Returns all training items, file after file: the numbers that batches name them by.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.train.iter().flat_map(|set| &set.items)
    }

    /// Returns a digest of everything that batches are drawn from (64 hex characters).
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        for (title, text) in &self.pool.passages {
            for field in [title, text] {
                hash.update((field.len() as u64).to_le_bytes());
                hash.update(field);
            }
        }
        for item in self.items() {
            hash.update((item.question.len() as u64).to_le_bytes());
            hash.update(&item.question);
            for passages in [&item.positives, &item.hard, &item.random] {
                hash.update((passages.len() as u64).to_le_bytes());
                passages.iter().for_each(|passage| hash.update(passage.to_le_bytes()));
            }
        }
        digest::hex(hash)
    }

    /// Returns the training item with this number.
    pub fn item(&self, number: usize) -> Option<&Item> {
        let mut rest = number;
        for set in &self.train {
            match set.items.get(rest) {
                Some(item) => return Some(item),
                None => rest -= set.items.len(),
            }
        }
        None
    }
}

/// Returns a question without the differences between two writers of the same question.
pub(super) fn plain(question: &str) -> String {
    let letters = question.chars().filter(|c| c.is_alphanumeric() || c.is_whitespace());
    let text: String = letters.flat_map(char::to_lowercase).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn items(
    path: &Path,
    pool: &mut PassagePool,
    limit: usize,
    lacks: impl Fn(&Item) -> Option<(&'static str, &'static str)>,
) -> Result<Vec<Item>, TrainError> {
    let mut items = Vec::new();
    for raw in read_training(path)?.take(limit) {
        let raw = raw?;
        let mut add = |contexts: Vec<TrainingContext>, most: usize| -> Vec<u32> {
            contexts.into_iter().take(most).map(|context| pool.add(context)).collect()
        };
        let item = Item {
            question: raw.question,
            positives: add(raw.positive_ctxs, usize::MAX),
            hard: add(raw.hard_negative_ctxs, KEPT_NEGATIVES),
            random: add(raw.negative_ctxs, KEPT_NEGATIVES),
        };
        let lacking = match item.positives.is_empty() {
            true => Some(("no positive passage", "leave it out, or give it one in positive_ctxs")),
            false => lacks(&item),
        };
        if let Some((what, fix)) = lacking {
            let (path, item_number) = (path.to_path_buf(), items.len() + 1);
            return Err(TrainError::Item { path, item: item_number, question: item.question, what, fix });
        }
        items.push(item);
    }
    Ok(items)
}
