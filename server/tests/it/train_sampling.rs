//! Which questions and passages make a batch.

#[allow(dead_code)]
use crate::support::golden;

use std::collections::BTreeMap;
use std::path::PathBuf;

use dpr_train::{
    DataFile, DataOptions, NegativeCounts, Negatives, RunOptions, Sampler, TrainError, TrainingData,
};
use serde_json::json;

/// `items` questions about passages of their own; every third also accepts the next one's passage.
fn file(dir: &tempfile::TempDir, name: &str, items: usize) -> PathBuf {
    let passage = |kind: &str, item: usize| {
        let text = format!("{kind} {name} {item} {}", "word ".repeat(1 + item * 7 % 40));
        json!({ "title": "", "text": text })
    };
    let item = |number: usize| {
        let mut positives = vec![passage("right", number)];
        if number.is_multiple_of(3) {
            positives.push(passage("right", (number + 1) % items));
        }
        json!({
            "question": format!("{name} question {number}"),
            "answers": ["x"],
            "positive_ctxs": positives,
            "hard_negative_ctxs": [passage("hard", number), passage("hard", number + 1000)],
            "negative_ctxs": [passage("random", number)],
        })
    };
    let path = dir.path().join(name);
    fs_err::write(&path, json!((0..items).map(item).collect::<Vec<_>>()).to_string()).unwrap();
    path
}

fn read(sets: &[(&str, usize, f64)]) -> TrainingData {
    let dir = tempfile::tempdir().unwrap();
    let files: Vec<DataFile> = sets
        .iter()
        .map(|(name, items, weight)| DataFile { path: file(&dir, name, *items), weight: *weight })
        .collect();
    TrainingData::read(&DataOptions { train: files, ..DataOptions::default() }, 1).unwrap()
}

fn run(batch_size: usize) -> RunOptions {
    RunOptions { batch_size, ..RunOptions::default() }
}

#[test]
fn an_epoch_sees_every_question_as_often_as_its_set_s_weight_says() {
    let data = read(&[("a", 40, 1.0), ("b", 10, 2.0), ("c", 40, 0.5)]);
    let options = DataOptions::default();
    let sampler = Sampler::new(&data, &options, &run(8)).unwrap();
    assert_eq!((sampler.questions(), sampler.batches()), (80, 10));
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for item in sampler.epoch(0).concat() {
        *counts.entry(item).or_default() += 1;
    }
    let of = |range: std::ops::Range<usize>| {
        range.map(|item| counts.get(&item).copied().unwrap_or(0)).collect::<Vec<_>>()
    };
    assert_eq!((of(0..40), of(40..50)), (vec![1; 40], vec![2; 10]));
    assert_eq!(of(50..90).iter().sum::<usize>(), 20, "half of the third set");
    assert_ne!(sampler.epoch(0), sampler.epoch(1), "another order in each epoch");
    assert_eq!(
        sampler.epoch(1),
        Sampler::new(&data, &options, &run(8)).unwrap().epoch(1),
        "but the same again"
    );
    let other = RunOptions { seed: 1, ..run(8) };
    assert_ne!(sampler.epoch(0), Sampler::new(&data, &options, &other).unwrap().epoch(0));
}

#[test]
fn batches_hold_passages_of_like_length() {
    let data = read(&[("a", 160, 1.0)]);
    let spread = |bucket: usize| {
        let options = DataOptions { bucket, ..DataOptions::default() };
        let sampler = Sampler::new(&data, &options, &run(8)).unwrap();
        let length = |item: &usize| data.pool.get(data.item(*item).unwrap().positives[0]).1.len();
        let of = |batch: &Vec<usize>| {
            batch.iter().map(length).max().unwrap() - batch.iter().map(length).min().unwrap()
        };
        sampler.epoch(0).iter().map(of).sum::<usize>()
    };
    assert!(spread(20) * 3 < spread(1), "{} {}", spread(20), spread(1));
}

#[test]
fn a_batch_has_its_positives_first_and_masks_what_answers_too() {
    let data = read(&[("a", 30, 1.0)]);
    let model = golden::dual_encoder("dpr", &golden::device());
    let first = DataOptions { shuffle_negatives: false, ..DataOptions::default() };
    let sampler = Sampler::new(&data, &first, &run(4)).unwrap();
    // Question 3 accepts the passage of question 4, its neighbour in the batch.
    let batch = sampler.compose(&[3, 4, 8, 11], 0, &model).unwrap();
    batch.check().unwrap();
    assert_eq!((batch.questions.len(), batch.passages.len()), (4, 8));
    assert_eq!(batch.targets.positive, [0, 1, 2, 3]);
    assert_eq!(batch.targets.masked, [(0, 1)]);
    let (title, text) = data.pool.get(data.item(8).unwrap().hard[0]);
    assert_eq!(batch.passages[6], model.passage_tokens(title, text).unwrap(), "the hardest negative");
    let gold = DataOptions { negatives: Negatives::Gold, ..DataOptions::default() };
    let sampler = Sampler::new(&data, &gold, &run(4)).unwrap();
    assert_eq!(sampler.compose(&[3, 4, 8, 11], 0, &model).unwrap().passages.len(), 4);
}

#[test]
fn negatives_of_several_kinds_stand_beside_each_positive() {
    let data = read(&[("a", 30, 1.0)]);
    let model = golden::dual_encoder("dpr", &golden::device());
    let counts = NegativeCounts { hard: 2, random: 1, gold: 3 };
    let mixed = DataOptions { mixed_negatives: Some(counts), in_batch: false, ..DataOptions::default() };
    let sampler = Sampler::new(&data, &mixed, &run(4)).unwrap();
    let items = [3, 5, 8, 11];
    let batch = sampler.compose(&items, 0, &model).unwrap();
    batch.check().unwrap();
    assert_eq!((batch.questions.len(), batch.passages.len()), (4, 4 * (1 + 6)));
    let tokens = |passage: u32| {
        let (title, text) = data.pool.get(passage);
        model.passage_tokens(title, text).unwrap()
    };
    for (question, number) in items.into_iter().enumerate() {
        let item = data.item(number).unwrap();
        let own = &batch.passages[4 + question * 6..4 + (question + 1) * 6];
        for passage in item.hard.iter().chain(&item.random) {
            assert!(own.contains(&tokens(*passage)), "question {number} lacks one of its own");
        }
        let positives: Vec<_> = item.positives.iter().map(|passage| tokens(*passage)).collect();
        let others: Vec<_> = data.items().map(|other| tokens(other.positives[0])).collect();
        assert_eq!(own.iter().filter(|row| others.contains(row) && !positives.contains(row)).count(), 3);
        // Its positive and its own six count; the other 21 do not.
        let masked = batch.targets.masked.iter().filter(|(of, _)| *of == question);
        let masked: Vec<usize> = masked.map(|(_, column)| *column).collect();
        assert_eq!(masked.len(), 3 + 18);
        assert!(
            !masked.contains(&question)
                && (4 + question * 6..10 + question * 6).all(|c| !masked.contains(&c))
        );
    }
    assert_eq!(batch.passages, sampler.compose(&items, 0, &model).unwrap().passages);
    assert_ne!(batch.passages, sampler.compose(&items, 1, &model).unwrap().passages);
}

#[test]
fn data_that_does_not_fill_a_batch_is_refused() {
    let data = read(&[("a", 5, 1.0)]);
    let options = DataOptions::default();
    let refused = Sampler::new(&data, &options, &run(6)).unwrap_err();
    assert!(matches!(refused, TrainError::TooFewQuestions { batch: 6, questions: 5 }), "{refused}");
}
