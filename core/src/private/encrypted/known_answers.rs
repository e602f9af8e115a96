//! Known answers by numpy (`tests/python/private_reference.py`): public randomness, questions from given seeds, and
//! what is read from given answers.

use serde_json::Value;

use super::{FetchHint, FetchMask, FetchShape, RankHint, RankMask, RankShape, Seed, fetch, rank};
use crate::model::sha256_hex;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/../tests/fixtures/private/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn known() -> Value {
    serde_json::from_slice(&fixture("known-answers.json")).unwrap()
}

fn counting(first: u8) -> [u8; 32] {
    std::array::from_fn(|at| first + at as u8)
}

fn sha256(numbers: &[u32]) -> String {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    sha256_hex(&bytes)
}

#[test]
fn a_ranking_is_that_of_numpy() {
    let (shape, known) = (RankShape::new(1, 32, 1024).unwrap(), &known()["rank"]);
    assert_eq!(sha256(&rank::randomness(&shape, &counting(0))), known["randomness_sha256"]);
    let hint = RankHint::read(&shape, &counting(0), &fixture("rank.hint.bin")).unwrap();
    let z: Vec<f32> = (0..32).map(|at| (at * 7 % 11 - 5) as f32 / 64.0).collect();
    let mask = RankMask::prepare(&hint, Seed::of_test(counting(100)));
    let (question, key) = mask.encrypt(&z).unwrap();
    assert!(question == fixture("rank.question.bin"));
    let scores = key.open(&fixture("rank.answer.bin")).unwrap();
    for (at, expected) in known["scores"].as_array().unwrap().iter().enumerate() {
        // The half of an answer's step is rounded down to a whole number here.
        assert!((f64::from(scores[at]) - expected.as_f64().unwrap()).abs() < 2e-6, "passage {at}");
        let plain = known["scores_of_plain_products"][at].as_f64().unwrap();
        assert!((f64::from(scores[at]) - plain).abs() < 7.0 * shape.noise(24.5), "passage {at}");
    }
}

#[test]
fn a_fetch_is_that_of_numpy() {
    let (shape, known) = (FetchShape::new(16, 2048, 32).unwrap(), &known()["text"]);
    assert_eq!(sha256(&fetch::randomness(&shape, &counting(50))), known["randomness_sha256"]);
    let hint = FetchHint::read(&shape, &counting(50), &fixture("text.hint.bin")).unwrap();
    let mask = FetchMask::prepare(&hint, Seed::of_test(counting(7)));
    let (question, key) = mask.encrypt(known["column"].as_u64().unwrap() as usize).unwrap();
    assert!(question == fixture("text.question.bin"));
    let bytes = key.open(&fixture("text.answer.bin")).unwrap();
    assert_eq!(serde_json::to_value(bytes).unwrap(), known["bytes"]);
}

#[test]
fn hints_and_answers_of_another_length_are_refused() {
    let shape = RankShape::new(1, 32, 1024).unwrap();
    let hint = fixture("rank.hint.bin");
    assert!(RankHint::read(&shape, &counting(0), &hint[1..]).is_err());
    // The largest numbers that its bits can hold are above the modulus.
    let public = RankHint::read(&shape, &counting(0), &vec![0xff; hint.len()]).unwrap();
    for answer in [0, 1023, 1025] {
        let (_, key) = RankMask::prepare(&public, Seed::random().unwrap()).encrypt(&[0.0; 32]).unwrap();
        assert!(key.open(&vec![0; answer]).is_err());
    }
    for z in [vec![0.0; 31], vec![f32::NAN; 32], vec![f32::INFINITY; 32], vec![1.0; 32]] {
        assert!(RankMask::prepare(&public, Seed::random().unwrap()).encrypt(&z).is_err());
    }
    let shape = FetchShape::new(16, 2048, 32).unwrap();
    let hint = fixture("text.hint.bin");
    assert!(FetchHint::read(&shape, &counting(0), &hint[2..]).is_err());
    let public = FetchHint::read(&shape, &counting(0), &hint).unwrap();
    assert!(FetchMask::prepare(&public, Seed::random().unwrap()).encrypt(2048).is_err());
    let (_, key) = FetchMask::prepare(&public, Seed::random().unwrap()).encrypt(2047).unwrap();
    assert!(key.open(&[0; 63]).is_err());
}
