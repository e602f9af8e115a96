//! Tests that ranking by bounds finds what scoring every posting finds, to the last bit.

use std::path::Path;

use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use fs_err as fs;

use super::shares::ShareCache;
use super::{Analyzer, Scoring, SparseError, SparseIndex, SparseOptions, WordIndex as _, build_sparse};
use crate::ranking::ScoredRow;
use crate::{CancelToken, RowSet};

const SCORINGS: [Scoring; 8] = [
    Scoring::PAPER,
    Scoring::TfIdf,
    Scoring::Bm25 { k1: 0.0, b: 0.0 },
    Scoring::Bm25 { k1: 1.2, b: 0.75 },
    Scoring::Bm25 { k1: 2.0, b: 1.0 },
    Scoring::Bm25 { k1: 3.0, b: 0.0 },
    Scoring::Bm25 { k1: 1e-30, b: 1.0 },
    Scoring::Bm25 { k1: Scoring::MAX_K1, b: 0.5 },
];

/// Passages of words whose frequencies fall as those of a language do; some passages are there twice, and some words
/// stand many times in one passage.
fn corpus(count: usize, seed: u64) -> Vec<Passage> {
    let mut random = SplitMix::new(seed);
    let mut texts: Vec<String> = Vec::with_capacity(count);
    for at in 0..count {
        if at > 10 && random.below(20) == 0 {
            texts.push(texts[random.below(at)].clone());
            continue;
        }
        let words = 1 + random.below(30) + if random.below(50) == 0 { 300 } else { 0 };
        let mut text = String::new();
        for _ in 0..words {
            text.push_str(&word(&mut random));
            text.push(' ');
        }
        if random.below(500) == 0 {
            text.push_str(&"w1 w40 ".repeat(200 + random.below(200)));
        }
        texts.push(text);
    }
    texts.into_iter().enumerate().map(|(row, text)| Passage::new(row.to_string(), "", text)).collect()
}

/// A word among three thousand: the `n`-th is about `1 / n` as frequent as the first.
fn word(random: &mut SplitMix) -> String {
    let unit = (1 + random.below(1 << 20)) as f64 / (1 << 20) as f64;
    format!("w{}", 3000f64.powf(unit) as usize)
}

fn questions(count: usize, seed: u64) -> Vec<String> {
    let mut random = SplitMix::new(seed);
    let mut questions: Vec<String> = (0..count)
        .map(|_| (0..1 + random.below(8)).map(|_| word(&mut random)).collect::<Vec<_>>().join(" "))
        .collect();
    questions.extend(["w1", "w1 w2 w3", "w1 w1 w1 w2999", "nothing of it", ""].map(str::to_owned));
    questions.push((1..400).map(|word| format!("w{word} ")).collect());
    questions
}

fn build(dir: &Path, passages: &[Passage], threads: usize) -> SparseIndex {
    let options = SparseOptions { analyzer: Analyzer::English, threads };
    build_sparse(dir, passages, options, &false.into(), &Silent).unwrap();
    SparseIndex::open(dir, Analyzer::English, passages.len()).unwrap()
}

/// Rows and the bits of their scores.
fn bits(found: &[ScoredRow]) -> Vec<(usize, u32)> {
    found.iter().map(|found| (found.row, found.score.to_bits())).collect()
}

fn compare(index: &SparseIndex, questions: &[String]) {
    let mut random = SplitMix::new(9);
    let mut half = RowSet::none(index.len());
    let mut few = RowSet::none(index.len());
    (0..index.len()).filter(|_| random.below(2) == 0).for_each(|row| _ = half.insert(row));
    (0..index.len() / 100).for_each(|_| _ = few.insert(random.below(index.len())));
    let none = RowSet::none(index.len());
    let never = CancelToken::never();
    for question in questions {
        for scoring in SCORINGS {
            let all = index.search_every_posting(question, index.len(), scoring).unwrap();
            for allowed in [None, Some(&half), Some(&few), Some(&none)] {
                let is_found = |found: &&ScoredRow| allowed.is_none_or(|rows| rows.contains(found.row));
                let expected: Vec<ScoredRow> = all.iter().filter(is_found).copied().collect();
                for k in [1, 10, 100, 1000, 10 * index.len()] {
                    let found = index.search_batch_until(&[question], k, scoring, allowed, &never).unwrap();
                    let expected = &expected[..k.min(expected.len())];
                    assert_eq!(bits(&found[0]), bits(expected), "`{question}`, {k}, {scoring:?}");
                }
            }
        }
    }
}

#[test]
fn the_best_are_those_of_scoring_every_posting_to_the_last_bit() {
    let dir = tempfile::tempdir().unwrap();
    for (count, threads) in [(1, 1), (200, 1), (3000, 2), (30_000, 1), (24_000, 3)] {
        let dir = dir.path().join(format!("{count}"));
        fs::create_dir(&dir).unwrap();
        let mut index = build(&dir, &corpus(count, count as u64), threads);
        let asked = if count < 10_000 { 20 } else { 8 };
        // Lists are kept, all or some, and none.
        compare(&index, &questions(asked, 3));
        for most_bytes in [200_000, 0] {
            index.shares = ShareCache::new(most_bytes);
            compare(&index, &questions(asked / 2, 3));
        }
    }
}

#[test]
fn an_index_of_before_there_were_impacts_finds_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let passages = corpus(12_000, 5);
    drop(build(dir.path(), &passages, 1));
    let impacts = dir.path().join("impacts.bin");
    assert!(fs::metadata(&impacts).unwrap().len() > 1000);
    fs::remove_file(&impacts).unwrap();
    let mut index = SparseIndex::open(dir.path(), Analyzer::English, passages.len()).unwrap();
    compare(&index, &questions(4, 8));
    index.shares = ShareCache::new(0);
    compare(&index, &questions(4, 8));
}

#[test]
fn a_batch_finds_what_each_question_finds() {
    let dir = tempfile::tempdir().unwrap();
    let index = build(dir.path(), &corpus(9000, 6), 2);
    let questions = questions(30, 7);
    let asked: Vec<&str> = questions.iter().map(String::as_str).collect();
    for scoring in [Scoring::PAPER, Scoring::TfIdf] {
        let batch = index.search_batch(&asked, 20, scoring).unwrap();
        for (question, found) in asked.iter().zip(batch) {
            assert_eq!(bits(&found), bits(&index.search(question, 20, scoring).unwrap()));
        }
    }
}

#[test]
fn between_searches_few_words_of_questions_are_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let index = build(dir.path(), &corpus(100, 2), 1);
    let expected = bits(&index.search("w1 w2", 10, Scoring::PAPER).unwrap());
    for word in 0..5000 {
        assert!(index.search(&format!("unheard{word}"), 10, Scoring::PAPER).unwrap().is_empty());
    }
    let remembered = index.remembered();
    assert!(remembered.iter().all(|words| *words <= 1 << 12), "{remembered:?}");
    assert!(remembered.iter().any(|words| *words > 0), "{remembered:?}");
    assert_eq!(bits(&index.search("w1 w2", 10, Scoring::PAPER).unwrap()), expected);
}

#[test]
fn impacts_that_are_cut_off_or_of_another_index_are_refused() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let passages = corpus(3000, 1);
    drop((build(one.path(), &passages, 1), build(other.path(), &passages, 1)));
    let path = one.path().join("impacts.bin");
    let whole = fs::read(&path).unwrap();
    let others = fs::read(other.path().join("impacts.bin")).unwrap();
    let (mut newer, mut longer) = (whole.clone(), whole.clone());
    newer[7] = b'2';
    longer.extend([0; 4]);
    for bytes in [&whole[..whole.len() - 4], &whole[..9], &[], &others, &newer, &longer] {
        fs::write(&path, bytes).unwrap();
        let error = SparseIndex::open(one.path(), Analyzer::English, passages.len()).unwrap_err();
        assert!(matches!(error, SparseError::File(_)), "{error}");
        assert!(error.to_string().contains("impacts.bin"), "{error}");
    }
}

#[test]
fn impacts_that_do_not_bound_their_lists_are_refused_or_find_the_same_without_them() {
    let dir = tempfile::tempdir().unwrap();
    let passages = corpus(12_000, 5);
    let index = build(dir.path(), &passages, 1);
    let questions = questions(5, 8);
    let scorings = [Scoring::PAPER, Scoring::Bm25 { k1: 2.0, b: 1.0 }];
    let asked = || questions.iter().flat_map(|question| scorings.map(|scoring| (question, scoring)));
    let every =
        |(question, scoring): (&String, _)| index.search_every_posting(question, 10, scoring).unwrap();
    let expected: Vec<_> = asked().map(|asked| bits(&every(asked))).collect();
    drop(index);
    let path = dir.path().join("impacts.bin");
    let whole = fs::read(&path).unwrap();
    let blocks = u64::from_le_bytes(*whole[56..].first_chunk().unwrap()) as usize;
    let impacts = whole.len() - 16 * blocks;
    let (mut random, mut refused, mut searched) = (SplitMix::new(4), 0, 0);
    for round in 0..150 {
        let mut bytes = whole.clone();
        let any = 4 * random.below(whole.len() / 4);
        match round {
            // No score at all, that of one posting, the least length and the greatest.
            0 => bytes[impacts..].fill(0),
            1 => bytes[impacts..].as_chunks_mut().0.fill([1, 100, 0, 0]),
            2 => bytes[impacts..].as_chunks_mut().0.fill([255, 255, 255, 255]),
            // The blocks of a list backwards; other numbers anywhere.
            3 => bytes[impacts..].reverse(),
            4 => bytes[impacts - 4 * blocks..impacts].as_chunks_mut::<4>().0.reverse(),
            _ if round % 3 == 0 => bytes[any..any + 4].fill(if round % 2 == 0 { 0 } else { 255 }),
            _ if round % 3 == 1 => bytes[any] ^= 1 << random.below(8),
            _ => bytes[64..impacts - 4 * blocks].as_chunks_mut::<4>().0.rotate_left(round % 11),
        }
        fs::write(&path, &bytes).unwrap();
        match SparseIndex::open(dir.path(), Analyzer::English, passages.len()) {
            Err(error) => {
                assert!(error.to_string().contains("impacts.bin"), "{error}");
                refused += 1;
            }
            Ok(mut index) => {
                index.shares = ShareCache::new(0);
                for (asked, expected) in asked().zip(&expected) {
                    let found = index.search(asked.0, 10, asked.1).unwrap();
                    assert_eq!(&bits(&found), expected, "round {round}, {asked:?}");
                }
                searched += 1;
            }
        }
    }
    assert!(refused > 0 && searched > 100, "{refused} refused, {searched} searched");
}

#[test]
fn the_shares_of_terms_that_are_kept_take_no_more_memory_than_allowed_and_are_of_the_constants_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut index = build(dir.path(), &corpus(20_000, 7), 1);
    let [paper, other] = [Scoring::PAPER, Scoring::Bm25 { k1: 2.0, b: 0.3 }];
    let same = |index: &SparseIndex, question: &str, scoring| {
        let expected = index.search_every_posting(question, 20, scoring).unwrap();
        assert_eq!(bits(&index.search(question, 20, scoring).unwrap()), bits(&expected), "{scoring:?}");
    };
    let questions = questions(40, 5);
    questions.iter().for_each(|question| same(&index, question, paper));
    let all = index.shares.size();
    assert!(all.0 > 10, "{all:?}");
    questions.iter().for_each(|question| same(&index, question, paper));
    assert_eq!(index.shares.size(), all, "each list once");
    questions.iter().for_each(|question| same(&index, question, other));
    assert_eq!(index.shares.size(), all, "a few questions by other constants leave the cache alone");
    (0..300).for_each(|_| same(&index, "w5", other));
    assert_eq!(index.shares.size().0, 1, "many others make it theirs");
    questions.iter().for_each(|question| same(&index, question, other));
    assert_eq!(index.shares.size(), all);

    index.shares = ShareCache::new(all.1 / 2);
    questions.iter().for_each(|question| same(&index, question, paper));
    let half = index.shares.size();
    assert!(half.0 > 0 && half.1 <= all.1 / 2, "{half:?} of {all:?}");
}
