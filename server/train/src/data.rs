//! Training items in memory: questions, and a pool that holds each passage once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::iter::once;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::config::{DataOptions, NegativeCounts};
use super::draw::Draw;
use super::epochs::{ItemSet, ItemSets};
use super::error::TrainError;
use dpr_data::{TrainingContext, TrainingItem, read_training};
use dpr_files::digest;

/// Key of the random draw of dev questions, of all tasks.
pub(super) const DEV: u64 = 4;

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

    /// Forgets where each passage is: no more are added.
    pub(super) fn close(&mut self) {
        self.places = HashMap::new();
    }

    /// Returns the passages, `(title, text)`, in order.
    pub(super) fn passages(&self) -> &[(String, String)] {
        &self.passages
    }

    /// Returns whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.passages.is_empty()
    }

    pub(super) fn add(&mut self, context: TrainingContext) -> u32 {
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
    /// Its answers, where passages are masked by them; else none.
    pub answers: Vec<String>,
    /// The positives, which answer the question, the best first; there is at least one.
    pub positives: Vec<u32>,
    /// The hard negatives, which look like an answer but are not one.
    pub hard: Vec<u32>,
    /// Random passages.
    pub random: Vec<u32>,
    /// The positives of all training items that ask its question, ascending, each once; `None` where no other asks it.
    pub(super) shared: Option<Arc<[u32]>>,
}

impl Item {
    /// Returns the passages that answer the question: its positives, and those of all training items that ask it too.
    pub(super) fn accepted(&self) -> &[u32] {
        match &self.shared {
            Some(shared) => shared,
            None => &self.positives,
        }
    }

    /// Returns its hard or random negatives, without those that are a positive of another item with the question.
    pub(super) fn unaccepted<'a>(&self, negatives: &'a [u32]) -> Cow<'a, [u32]> {
        let Some(shared) = &self.shared else { return negatives.into() };
        let kept = negatives.iter().filter(|passage| shared.binary_search(passage).is_err());
        kept.copied().collect::<Vec<_>>().into()
    }
}

/// Everything a run reads.
#[derive(Debug, Default)]
pub struct TrainingData {
    /// The passages of all files.
    pub pool: PassagePool,
    /// Training files.
    pub train: ItemSets<Item>,
    /// Dev items, of all dev files.
    pub dev: Vec<Item>,
    /// Dev questions that are training questions too.
    pub overlap: usize,
}

impl TrainingData {
    /// Reads the files that `options` name. Each question needs negatives of the kinds that it brings into a batch. The
    /// first hard and random ones of an item are kept ([`DataOptions::kept_negatives`]), and of these a question brings
    /// none that is a positive of another item with the same question. At most `dev_questions` dev questions are kept,
    /// drawn by `seed`.
    ///
    /// # Errors
    /// [`TrainError::Item`] for a question without a positive, or without a negative where one is needed, also where
    /// all that are kept are positives of the question in other items;
    /// [`TrainError::NoDevQuestions`] for dev files without an item; [`TrainError::Data`] for a file that cannot be
    /// read.
    pub fn read(options: &DataOptions, seed: u64) -> Result<Self, TrainError> {
        let mut data = Self::default();
        let counts = options.negative_counts();
        for file in &options.train {
            let mut items = Vec::new();
            for raw in read_training(&file.path)? {
                let item = data.item_of(raw?, options, options.kept());
                check(&item, &file.path, items.len(), lacks(&item.hard, &item.random, counts, MISSING))?;
                items.push(item);
            }
            data.train.0.push(ItemSet { path: file.path.clone(), weight: file.weight, items });
        }
        let mut dev = Draw::new(options.dev_questions, seed, DEV);
        for path in &options.dev {
            for (number, raw) in read_training(path)?.enumerate() {
                dev.offer((path, number, raw?));
            }
        }
        let kept = options.kept_negatives.max(options.dev_hard_negatives).max(options.dev_random_negatives);
        for (path, number, raw) in dev.finish() {
            let item = data.item_of(raw, options, (kept, kept));
            check(&item, path, number, None)?;
            data.dev.push(item);
        }
        if data.dev.is_empty() && !options.dev.is_empty() {
            let reason = "they hold no items".to_owned();
            return Err(TrainError::NoDevQuestions { files: options.dev.clone(), reason });
        }
        let questions = data.share_questions();
        data.check_shared(counts)?;
        data.overlap = data.dev.iter().filter(|item| questions.contains_key(&plain(&item.question))).count();
        data.pool.close();
        Ok(data)
    }

    /// Gives the training items whose question others ask too the positives of all of these. Returns the first item of
    /// each question.
    fn share_questions(&mut self) -> HashMap<String, usize> {
        let mut questions = HashMap::new();
        // The other items of a question, by its first.
        let mut repeated: HashMap<usize, Vec<usize>> = HashMap::new();
        for (number, item) in self.items().enumerate() {
            match questions.entry(plain(&item.question)) {
                Entry::Vacant(entry) => {
                    entry.insert(number);
                }
                Entry::Occupied(entry) => repeated.entry(*entry.get()).or_default().push(number),
            }
        }
        if repeated.is_empty() {
            return questions;
        }
        let mut items: Vec<&mut Item> = self.train.0.iter_mut().flat_map(|set| &mut set.items).collect();
        for (first, others) in repeated {
            let numbers = || once(first).chain(others.iter().copied());
            let of_all = numbers().flat_map(|number| items[number].positives.iter().copied());
            let mut positives: Vec<u32> = of_all.collect();
            positives.sort_unstable();
            positives.dedup();
            let shared: Arc<[u32]> = positives.into();
            numbers().for_each(|number| items[number].shared = Some(Arc::clone(&shared)));
        }
        questions
    }

    /// Refuses items whose negatives of a kind that is needed are all positives of the question in other items.
    fn check_shared(&self, counts: NegativeCounts) -> Result<(), TrainError> {
        for set in &self.train.0 {
            for (number, item) in set.items.iter().enumerate().filter(|(_, item)| item.shared.is_some()) {
                let (hard, random) = (item.unaccepted(&item.hard), item.unaccepted(&item.random));
                check(item, &set.path, number, lacks(&hard, &random, counts, ACCEPTED))?;
            }
        }
        Ok(())
    }

    /// Returns an item whose passages are in the pool, with at most so many hard and random negatives.
    fn item_of(&mut self, raw: TrainingItem, options: &DataOptions, (hard, random): (usize, usize)) -> Item {
        let mut add = |contexts: Vec<TrainingContext>, most: usize| -> Vec<u32> {
            contexts.into_iter().take(most).map(|context| self.pool.add(context)).collect()
        };
        Item {
            question: raw.question,
            answers: if options.mask_answers { raw.answers } else { Vec::new() },
            positives: add(raw.positive_ctxs, usize::MAX),
            hard: add(raw.hard_negative_ctxs, hard),
            random: add(raw.negative_ctxs, random),
            shared: None,
        }
    }

    /// Returns all training items, file after file: the numbers that batches name them by.
    pub fn items(&self) -> impl Iterator<Item = &Item> {
        self.train.iter()
    }

    /// Returns a digest of everything that batches are drawn from, and of the dev questions (64 hex characters).
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        for (title, text) in &self.pool.passages {
            for field in [title, text] {
                hash.update((field.len() as u64).to_le_bytes());
                hash.update(field);
            }
        }
        let mut add = |item: &Item| {
            hash.update((item.question.len() as u64).to_le_bytes());
            hash.update(&item.question);
            for answer in &item.answers {
                hash.update((answer.len() as u64).to_le_bytes());
                hash.update(answer);
            }
            for passages in [&item.positives, &item.hard, &item.random] {
                hash.update((passages.len() as u64).to_le_bytes());
                passages.iter().for_each(|passage| hash.update(passage.to_le_bytes()));
            }
        };
        self.items().for_each(&mut add);
        self.dev.iter().for_each(&mut add);
        // A run without dev questions has the digest that it had before these were part of it.
        if !self.dev.is_empty() {
            hash.update((self.dev.len() as u64).to_le_bytes());
        }
        digest::hex(hash)
    }

    /// Returns the training item with this number.
    pub fn item(&self, number: usize) -> Option<&Item> {
        self.train.get(number)
    }
}

/// Returns a question without the differences between two writers of the same question.
pub(super) fn plain(question: &str) -> String {
    let letters = question.chars().filter(|c| c.is_alphanumeric() || c.is_whitespace());
    let text: String = letters.flat_map(char::to_lowercase).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The part that an item lacks, and advice for the user.
type Lack = (&'static str, &'static str);

/// Lacks of an item without any negatives, and without random ones, in its file.
const MISSING: [Lack; 2] = [
    ("neither hard nor random negatives", "mine some, or say negatives = \"gold\""),
    ("no random negatives", "mine some"),
];

/// Lacks of an item whose negatives, or random ones, are all positives of the question in other items.
const ACCEPTED: [Lack; 2] = [
    (
        "nothing but positives of its question in other items among its kept negatives",
        "mine others, leave the item out, or say negatives = \"gold\"",
    ),
    (
        "nothing but positives of its question in other items among its kept random negatives",
        "mine others, or leave the item out",
    ),
];

/// Returns the lack of an item with these hard and random negatives: the first of `of` where it needs one of either
/// kind and has none, the second where it needs a random one.
fn lacks(hard: &[u32], random: &[u32], counts: NegativeCounts, of: [Lack; 2]) -> Option<Lack> {
    let [neither, no_random] = of;
    if counts.hard > 0 && hard.is_empty() && random.is_empty() {
        return Some(neither);
    }
    (counts.random > 0 && random.is_empty()).then_some(no_random)
}

/// Refuses an item, counted from 0, without a positive or with a `lack`.
fn check(item: &Item, path: &Path, number: usize, lack: Option<Lack>) -> Result<(), TrainError> {
    let lack = match item.positives.is_empty() {
        true => Some(("no positive passage", "leave it out, or give it one in positive_ctxs")),
        false => lack,
    };
    match lack {
        Some((what, fix)) => Err(TrainError::Item {
            path: path.to_path_buf(),
            item: number + 1,
            question: item.question.clone(),
            what,
            fix,
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::config::DataFile;
    use super::*;

    /// A file of `count` items with one positive, and a hard and a random negative where `negatives` says so.
    fn file(dir: &Path, name: &str, count: usize, negatives: bool) -> PathBuf {
        let context = |text: String| TrainingContext { text, ..TrainingContext::default() };
        let item = |number: usize| TrainingItem {
            question: format!("{name} {number}"),
            answers: vec!["x".into()],
            positive_ctxs: vec![context(format!("right {name} {number}"))],
            hard_negative_ctxs: if negatives { vec![context(format!("hard {number}"))] } else { Vec::new() },
            ..TrainingItem::default()
        };
        let path = dir.join(name);
        let items: Vec<_> = (0..count).map(item).collect();
        std::fs::write(&path, serde_json::to_string(&items).unwrap()).unwrap();
        path
    }

    #[test]
    fn dev_questions_are_drawn_from_all_dev_files() {
        let dir = tempfile::tempdir().unwrap();
        let dev = ["a", "b"].map(|name| file(dir.path(), name, 400, false)).to_vec();
        let options = DataOptions { dev, dev_questions: 100, ..DataOptions::default() };
        let questions = |seed: u64| -> Vec<String> {
            TrainingData::read(&options, seed).unwrap().dev.into_iter().map(|item| item.question).collect()
        };
        let drawn = questions(1);
        let of_b = drawn.iter().filter(|question| question.starts_with('b')).count();
        assert!(drawn.len() == 100 && (30..70).contains(&of_b), "{of_b} of the second file");
        assert_eq!(drawn, questions(1));
        assert_ne!(drawn, questions(2));
        let data = TrainingData::read(&options, 1).unwrap();
        assert_eq!(data.pool.len(), 100, "the passages of other dev questions are not kept");
    }

    #[test]
    fn dev_files_without_an_item_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let dev = ["a", "b"].map(|name| file(dir.path(), name, 0, false)).to_vec();
        let options = DataOptions { dev: dev.clone(), ..DataOptions::default() };
        let error = TrainingData::read(&options, 1).unwrap_err().to_string();
        assert!(dev.iter().all(|path| error.contains(path.to_str().unwrap())), "{error}");
        assert!(error.contains("no question to measure with: they hold no items"), "{error}");
        // One file with an item is enough.
        let dev = vec![dev[0].clone(), file(dir.path(), "c", 1, false)];
        let options = DataOptions { dev, ..DataOptions::default() };
        assert_eq!(TrainingData::read(&options, 1).unwrap().dev.len(), 1);
    }

    #[test]
    fn an_item_needs_negatives_of_the_kinds_that_are_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), "a", 3, true);
        let read = |counts: NegativeCounts| {
            let train = vec![DataFile { path: path.clone(), weight: 1.0 }];
            let options = DataOptions { train, mixed_negatives: Some(counts), ..DataOptions::default() };
            TrainingData::read(&options, 1).map(|_| ()).map_err(|error| error.to_string())
        };
        let none = NegativeCounts::default();
        read(NegativeCounts { hard: 1, gold: 1, ..none }).unwrap();
        let error = read(NegativeCounts { hard: 1, random: 1, ..none }).unwrap_err();
        assert!(error.contains("item 1") && error.contains("no random negatives"), "{error}");
    }

    #[test]
    fn an_item_whose_negatives_are_all_positives_of_its_question_elsewhere_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let of = |texts: &[&str]| -> Vec<TrainingContext> {
            let context = |text: &&str| TrainingContext { text: (*text).to_owned(), ..Default::default() };
            texts.iter().map(context).collect()
        };
        let item = |right: &str, hard: &[&str], random: &[&str]| TrainingItem {
            question: "q".into(),
            positive_ctxs: of(&[right]),
            hard_negative_ctxs: of(hard),
            negative_ctxs: of(random),
            ..TrainingItem::default()
        };
        let (first, second) = (dir.path().join("first"), dir.path().join("second"));
        let read = |hard: &[&str], random: &[&str], change: fn(&mut DataOptions)| {
            let items = [item("a", &["x"], &["y"]), item("b", hard, random)];
            for (path, items) in [(&first, &items[..1]), (&second, &items[1..])] {
                std::fs::write(path, serde_json::to_string(items).unwrap()).unwrap();
            }
            let file = |path: &PathBuf| DataFile { path: path.clone(), weight: 1.0 };
            let mut options =
                DataOptions { train: vec![file(&first), file(&second)], ..DataOptions::default() };
            change(&mut options);
            TrainingData::read(&options, 1).map(|_| ()).map_err(|error| error.to_string())
        };
        let refused = |hard: &[&str], random: &[&str], change: fn(&mut DataOptions), kind: &str| {
            let error = read(hard, random, change).unwrap_err();
            let expected = format!("nothing but positives of its question in other items among its {kind}");
            assert!(error.contains(&expected), "{hard:?} {random:?}: {error}");
            assert!(error.contains(second.to_str().unwrap()) && error.contains("item 1"), "{error}");
        };
        let alone: fn(&mut DataOptions) = |options| options.in_batch = false;
        let mixed: fn(&mut DataOptions) = |options| {
            options.mixed_negatives = Some(NegativeCounts { hard: 1, random: 1, gold: 0 });
        };
        let gold: fn(&mut DataOptions) = |options| {
            options.mixed_negatives = Some(NegativeCounts { hard: 0, random: 0, gold: 1 });
        };
        let one: fn(&mut DataOptions) = |options| options.kept_negatives = 1;
        // Accepted: another hard negative is left, a random one takes the place of the hard one, or the settings
        // need neither.
        read(&["a", "z"], &[], alone).unwrap();
        read(&["a"], &["a", "z"], alone).unwrap();
        read(&["a"], &["z"], mixed).unwrap();
        read(&["a"], &["a"], gold).unwrap();
        refused(&["a"], &[], alone, "kept negatives");
        refused(&["a"], &["a"], alone, "kept negatives");
        refused(&["z"], &["a"], mixed, "kept random negatives");
        // `kept_negatives` cuts the list before positives of the other item are left out.
        refused(&["a", "z"], &[], one, "kept negatives");
        read(&["z", "a"], &[], one).unwrap();
    }

    #[test]
    fn as_many_negatives_are_kept_as_a_question_brings_into_a_batch() {
        let dir = tempfile::tempdir().unwrap();
        let of = |kind: &str, count: usize| -> Vec<TrainingContext> {
            let text = |number| format!("{kind} {number}");
            (0..count).map(|number| TrainingContext { text: text(number), ..Default::default() }).collect()
        };
        let item = |hard: usize| TrainingItem {
            question: "q".into(),
            positive_ctxs: of("right", 1),
            hard_negative_ctxs: of("hard", hard),
            negative_ctxs: of("random", 60),
            ..TrainingItem::default()
        };
        let path = dir.path().join("train.json");
        std::fs::write(&path, serde_json::to_string(&[item(60), item(0)]).unwrap()).unwrap();
        let kept = |hard: usize, random: usize| -> Vec<(usize, usize)> {
            let train = vec![DataFile { path: path.clone(), weight: 1.0 }];
            let counts = NegativeCounts { hard, random, gold: 0 };
            let options = DataOptions { train, mixed_negatives: Some(counts), ..DataOptions::default() };
            let data = TrainingData::read(&options, 1).unwrap();
            data.items().map(|item| (item.hard.len(), item.random.len())).collect()
        };
        assert_eq!(kept(1, 1), [(30, 30), (0, 30)]);
        // Random negatives stand in for hard ones too.
        assert_eq!(kept(40, 15), [(40, 55), (0, 55)]);
        assert_eq!(kept(1, 35), [(30, 36), (0, 36)]);
    }

    #[test]
    fn the_digest_is_of_the_dev_questions_too() {
        let item = |question: &&str| Item {
            question: (*question).to_owned(),
            answers: vec!["x".into()],
            positives: vec![0],
            hard: vec![1],
            random: Vec::new(),
            shared: None,
        };
        let digest = |train: &[&str], dev: &[&str]| {
            let items = train.iter().map(item).collect();
            let train = ItemSets(vec![ItemSet { path: "train.json".into(), weight: 1.0, items }]);
            TrainingData { train, dev: dev.iter().map(item).collect(), ..TrainingData::default() }.sha256()
        };
        assert_ne!(digest(&["a"], &["b"]), digest(&["a"], &["c"]));
        assert_ne!(digest(&["a", "b"], &[]), digest(&["a"], &["b"]));
        let before = "f02764bc323223a5a7eae8f95c3146addc448494bf0550ee4e8f1dd038363131";
        assert_eq!(digest(&["a"], &[]), before, "runs without dev questions go on");
    }
}
