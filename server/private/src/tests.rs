//! Both steps without files: known answers, and decoded numbers beside plain sums.

use dpr_core::kernel::ring::multiply_bytes;
use dpr_core::private::encrypted::wire::unpack;
use dpr_core::private::encrypted::{FetchHint, FetchMask, FetchShape, RankHint, RankMask, RankShape, Seed};
use dpr_core::random::SplitMix;

use crate::ranks::Transforms;
use crate::{answer, hint};

fn fixture(name: &str) -> Vec<u8> {
    fs_err::read(format!("{}/../../tests/fixtures/private/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

fn counting(first: u8) -> [u8; 32] {
    std::array::from_fn(|at| first + at as u8)
}

/// Rows `[passages, dims]` as a rank table, `[blocks, dims, degree]`.
fn table(shape: &RankShape, rows: impl Fn(usize, usize) -> i8) -> Vec<i8> {
    let degree = shape.set().degree;
    let mut table = vec![0; shape.blocks() * shape.dims() * degree];
    for passage in 0..shape.passages() {
        for dim in 0..shape.dims() {
            table[(passage / degree * shape.dims() + dim) * degree + passage % degree] = rows(passage, dim);
        }
    }
    table
}

#[test]
fn hint_and_answer_of_a_ranking_are_those_of_numpy() {
    let shape = RankShape::new(1, 32, 1024).unwrap();
    let rows = |l: usize, i: usize| ((l * 31 + i * 17 + (l * i) % 7 * 5) % 15) as i8 - 7;
    let ranks = Transforms::of_table(&shape, &table(&shape, rows));
    assert!(hint::of_ranks(&shape, &counting(0), &ranks) == fixture("rank.hint.bin"));
    let question = answer::transforms_of(&shape, &fixture("rank.question.bin"));
    let answers =
        answer::rank_answers(&shape, &ranks, &[&question, &question], vec![b"head".to_vec(); 2], &|| true)
            .unwrap();
    let expected = [b"head".as_slice(), &fixture("rank.answer.bin")].concat();
    assert!(answers == [expected.clone(), expected]);
}

#[test]
fn hint_and_answer_of_a_fetch_are_those_of_numpy() {
    let shape = FetchShape::new(16, 2048, 32).unwrap();
    let byte = |at: usize| {
        let (r, c) = (at / 2048, at % 2048);
        ((r * 97 + c * 13 + (r * c) % 31) % 256) as i16 as u8 ^ 0x80
    };
    let table: Vec<i8> = (0..32 * 2048).map(|at| byte(at) as i8).collect();
    assert!(hint::of_texts(&shape, &counting(50), &table) == fixture("text.hint.bin"));
    let question: Vec<u32> = unpack(&fixture("text.question.bin"), 26).map(|number| number << 6).collect();
    let mut sums = vec![0; 32];
    multiply_bytes(&table, &[&question], &mut sums);
    let answer: Vec<u8> = sums.into_iter().flat_map(answer::high_half).collect();
    assert_eq!(answer, fixture("text.answer.bin"));
}

/// Rows of length 44 at most: random directions, and extremes.
fn extreme_rows(count: usize, dims: usize) -> Vec<i8> {
    let mut random = SplitMix::new(11);
    let mut rows = Vec::with_capacity(count * dims);
    for at in 0..count {
        let mut row = vec![0f64; dims];
        match at % 50 {
            // Zero; all of the length in one number, of both signs; the same in all numbers.
            0 => {}
            1 => row[at / 50 % dims] = 44.0,
            2 => row[at / 50 % dims] = -44.0,
            3 => row.fill(43.0 / (dims as f64).sqrt()),
            _ => {
                row.iter_mut().for_each(|x| *x = random.normal());
                let norm = row.iter().map(|x| x * x).sum::<f64>().sqrt();
                row.iter_mut().for_each(|x| *x *= 43.0 / norm);
            }
        }
        rows.extend(row.into_iter().map(|x| x.trunc() as i8));
    }
    rows
}

#[test]
fn decoded_scores_are_plain_inner_products_and_noise_as_predicted() {
    for (set, dims, passages) in [(1, 64, 5000), (1, 192, 3000), (2, 32, 2049)] {
        let shape = RankShape::new(set, dims, passages).unwrap();
        let rows = extreme_rows(passages, dims);
        let table = table(&shape, |passage, dim| rows[passage * dims + dim]);
        let ranks = Transforms::of_table(&shape, &table);
        let public =
            RankHint::read(&shape, &counting(3), &hint::of_ranks(&shape, &counting(3), &ranks)).unwrap();
        let squares: f64 = rows.iter().map(|x| f64::from(*x).powi(2)).sum();
        // The last block is not full, so a little less noise is in it.
        let predicted = shape.noise((squares / passages as f64).sqrt());
        let mut random = SplitMix::new(5);
        let (mut sum, mut largest, mut count) = (0f64, 0f64, 0f64);
        for round in 0..12 {
            let mut z: Vec<f32> = (0..dims).map(|_| random.normal() as f32).collect();
            if round == 0 {
                // The row of greatest length itself, and its opposite below.
                z = rows[dims..2 * dims].iter().map(|x| f32::from(*x)).collect();
            }
            let norm = z.iter().map(|z| z * z).sum::<f32>().sqrt();
            z.iter_mut().for_each(|z| *z /= norm * if round == 1 { -1.0 } else { 1.0 });
            let (question, key) = RankMask::prepare(&public, Seed::random().unwrap()).encrypt(&z).unwrap();
            let question = answer::transforms_of(&shape, &question);
            let answers =
                answer::rank_answers(&shape, &ranks, &[&question], vec![Vec::new()], &|| true).unwrap();
            let scores = key.open(&answers[0]).unwrap();
            assert_eq!(scores.len(), passages);
            for (score, row) in scores.iter().zip(rows.chunks(dims)) {
                let exact: f64 = row.iter().zip(&z).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                let off = f64::from(*score) - exact;
                (sum, largest, count) = (sum + off * off, largest.max(off.abs()), count + 1.0);
            }
        }
        let measured = (sum / count).sqrt();
        assert!((measured / predicted - 1.0).abs() < 0.06, "set {set}, {dims}: {measured} {predicted}");
        assert!(largest < 7.0 * predicted, "set {set}, {dims}: {largest} {predicted}");
    }
}

#[test]
fn fetched_bytes_are_those_of_the_table_and_their_noise_as_predicted() {
    let mut random = SplitMix::new(8);
    for (columns, rows) in [(2048, 64), (8192, 33)] {
        let shape = FetchShape::new(16, columns, rows).unwrap();
        let mut table: Vec<i8> = (0..rows * columns).map(|_| random.bits() as i8).collect();
        // Rows of extremes.
        table[..columns].fill(i8::MIN);
        table[columns..2 * columns].fill(i8::MAX);
        let public =
            FetchHint::read(&shape, &counting(9), &hint::of_texts(&shape, &counting(9), &table)).unwrap();
        for column in [0, 1, 2047, columns - 1, random.below(columns), random.below(columns)] {
            let (question, key) =
                FetchMask::prepare(&public, Seed::random().unwrap()).encrypt(column).unwrap();
            assert_eq!(question.len(), shape.question_bytes());
            let numbers: Vec<u32> = unpack(&question, 26).map(|number| number << 6).collect();
            let mut sums = vec![0; rows];
            multiply_bytes(&table, &[&numbers], &mut sums);
            let answer: Vec<u8> = sums.into_iter().flat_map(answer::high_half).collect();
            let expected: Vec<u8> = (0..rows).map(|row| table[row * columns + column] as u8 ^ 0x80).collect();
            assert_eq!(key.open(&answer).unwrap(), expected, "{columns} {column}");
        }
    }
}
