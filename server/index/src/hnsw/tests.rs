use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use dpr_core::random::SplitMix;
use dpr_files::progress::Silent;

const DIM: usize = 256;
const COUNT: usize = 2500;
const K: usize = 10;

/// Returns the indexes of `rows` without and with signs, of the same graph.
fn graphs(rows: Vec<f32>) -> [HnswIndex; 2] {
    let matrix = Arc::new(Matrix::new(rows, COUNT, DIM, |row| row.to_string()).unwrap());
    let codes = Arc::new(Quantized::of(&matrix));
    let params = HnswParams { m: 12, ef_construction: 100, ef_search: 60 };
    let graph = build(&matrix, &codes, params, &AtomicBool::new(false), &Silent).unwrap();
    [None, Some(Arc::new(Binary::of(&matrix)))].map(|signs| {
        HnswIndex::new(Arc::clone(&matrix), Arc::clone(&codes), signs, graph.clone(), params.ef_search)
    })
}

fn found(index: &HnswIndex, question: &[f32], allowed: Option<&RowSet>) -> Vec<ScoredRow> {
    index.find(question, K, index.ef(K), allowed, &CancelToken::never()).unwrap().unwrap()
}

fn embedding(question: &[f32]) -> Embedding {
    Embedding::new(question.to_vec(), DIM).unwrap()
}

#[test]
fn signs_leave_out_rows_that_no_search_keeps_whatever_the_vectors_are() {
    type Number = fn(&mut SplitMix, usize, usize) -> f32;
    let vectors: [(&str, Number); 6] = [
        ("normal", |random, _, _| random.normal() as f32),
        ("around a mean", |random, _, at| random.normal() as f32 + (at % 7) as f32),
        ("of many lengths", |random, row, _| random.normal() as f32 * (1.0 + (row % 5) as f32 / 10.0)),
        ("with one great number", |random, _, at| random.normal() as f32 * if at == 3 { 200.0 } else { 1.0 }),
        ("in two groups far apart", |random, row, at| {
            let far = if row.is_multiple_of(2) { 30.0 } else { -30.0 };
            random.normal() as f32 + if at.is_multiple_of(3) { far } else { 0.0 }
        }),
        ("long", |random, _, _| 1e15 * random.normal() as f32),
    ];
    for (name, number) in vectors {
        let mut random = SplitMix::new(3);
        let rows: Vec<f32> = (0..COUNT * DIM).map(|at| number(&mut random, at / DIM, at % DIM)).collect();
        let questions: Vec<Vec<f32>> = rows
            .chunks(DIM)
            .step_by(25)
            .map(|row| row.iter().map(|v| v + random.normal() as f32).collect())
            .collect();
        let [without, with] = graphs(rows);
        let mut allowed = RowSet::none(COUNT);
        (0..COUNT).filter(|row| row % 3 > 0).for_each(|row| {
            allowed.insert(row);
        });
        for allowed in [None, Some(&allowed)] {
            let mut hits = [0, 0];
            for question in &questions {
                let best =
                    with.exact.search_until(&embedding(question), K, allowed, &CancelToken::never()).unwrap();
                for (hits, index) in hits.iter_mut().zip([&without, &with]) {
                    let found = found(index, question, allowed);
                    *hits += crate::rows_found(&best, found.iter().map(|row| row.score));
                    assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{name}");
                }
            }
            let [without, with] = hits.map(|hits| hits as f64 / (K * questions.len()) as f64);
            assert!(with >= without - 0.01, "{name}: recall {with}, and {without} without signs");
        }
    }
}

#[test]
fn a_question_of_zeros_is_answered_with_signs_as_without() {
    let mut random = SplitMix::new(4);
    let [without, with] = graphs((0..COUNT * DIM).map(|_| random.normal() as f32).collect());
    let zeros = [0.0; DIM];
    assert_eq!(found(&with, &zeros, None), found(&without, &zeros, None));
}
