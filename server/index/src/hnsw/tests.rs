use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::*;
use dpr_core::random::SplitMix;
use dpr_files::progress::Silent;

/// Numbers of the vectors: too few for rows to be estimated before they are scored, and enough.
const DIMS: [usize; 2] = [256, 512];
const COUNT: usize = 2500;

/// Returns the indexes of `rows` without and with signs, of the same graph.
fn graphs(rows: Vec<f32>, dim: usize) -> [HnswIndex; 2] {
    let matrix = Arc::new(Matrix::new(rows, COUNT, dim, |row| row.to_string()).unwrap());
    let codes = Arc::new(Quantized::of(&matrix));
    let params = HnswParams { m: 12, ef_construction: 100, ef_search: 60 };
    let graph = build(&matrix, &codes, params, &AtomicBool::new(false), &Silent).unwrap();
    [None, Some(Arc::new(Binary::of(&matrix)))].map(|signs| {
        HnswIndex::new(Arc::clone(&matrix), Arc::clone(&codes), signs, graph.clone(), params.ef_search)
    })
}

fn found(index: &HnswIndex, question: &[f32], k: usize, allowed: Option<&RowSet>) -> Vec<ScoredRow> {
    index.find(question, k, index.ef(k), allowed, &CancelToken::never()).unwrap().unwrap()
}

fn embedding(question: &[f32]) -> Embedding {
    Embedding::new(question.to_vec(), question.len()).unwrap()
}

#[test]
fn a_search_that_keeps_any_number_of_candidates_costs_a_look_at_every_row_at_most() {
    for ef_search in [usize::MAX / 20, usize::MAX / 2, usize::MAX] {
        for filtered in [false, true] {
            assert_eq!(cost(ef_search, (COUNT, 8), 10, filtered), 8 * COUNT as u64, "{ef_search}");
        }
    }
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
    for ((name, number), dim) in vectors.iter().flat_map(|vectors| DIMS.map(|dim| (*vectors, dim))) {
        let mut random = SplitMix::new(3);
        let rows: Vec<f32> = (0..COUNT * dim).map(|at| number(&mut random, at / dim, at % dim)).collect();
        let questions: Vec<Vec<f32>> = rows
            .chunks(dim)
            .step_by(25)
            .map(|row| row.iter().map(|v| v + random.normal() as f32).collect())
            .collect();
        let [without, with] = graphs(rows, dim);
        assert!(!with.ask(&questions[0]).estimates, "{name}: estimates do not order its neighbours");
        let mut allowed = RowSet::none(COUNT);
        (0..COUNT).filter(|row| row % 3 > 0).for_each(|row| {
            allowed.insert(row);
        });
        // The last of many rows are near the worst that a search keeps.
        for (k, allowed) in [(10, None), (10, Some(&allowed)), (200, None)] {
            let mut hits = [0, 0];
            for question in &questions {
                let best =
                    with.exact.search_until(&embedding(question), k, allowed, &CancelToken::never()).unwrap();
                for (hits, index) in hits.iter_mut().zip([&without, &with]) {
                    let found = found(index, question, k, allowed);
                    *hits += crate::rows_found(&best, found.iter().map(|row| row.score));
                    assert!(found.is_sorted_by(|a, b| a.score >= b.score), "{name}");
                }
            }
            let [without, with] = hits.map(|hits| hits as f64 / (k * questions.len()) as f64);
            assert!(
                with >= without - 0.01,
                "{name}, {dim} numbers, k {k}: recall {with}, and {without} without signs"
            );
        }
    }
}

/// A layer that counts the rows that a search meets, from when its beam is full where it has no estimates, and those of
/// them that are scored.
struct Counted<'a> {
    layer: Asked<'a>,
    is_counted: bool,
    met: usize,
    scored: usize,
}

impl LayerView for Counted<'_> {
    fn links(&self, row: u32) -> &[u32] {
        self.layer.links(row)
    }

    fn score(&mut self, rows: &mut Vec<u32>, floor: f32, scores: &mut Vec<f32>) {
        self.layer.score(rows, floor, scores);
        self.scored += if self.is_counted { rows.len() } else { 0 };
    }

    fn estimate(&mut self, rows: &mut Vec<u32>, floor: f32, scores: &mut Vec<f32>) -> bool {
        // Asked for first, whether the layer has estimates or not.
        let met = rows.len();
        let has_estimates = self.layer.estimate(rows, floor, scores);
        self.is_counted = has_estimates || floor > f32::NEG_INFINITY;
        self.met += if self.is_counted { met } else { 0 };
        has_estimates
    }

    fn margin(&self, row: u32) -> f32 {
        self.layer.margin(row)
    }
}

/// Returns the share of the rows met that searches for 10 of these questions score.
fn share(index: &HnswIndex, questions: &[Vec<f32>]) -> f64 {
    let (mut met, mut scored) = (0, 0);
    for question in questions {
        let mut layer = Counted { layer: index.ask(question), is_counted: false, met: 0, scored: 0 };
        let start = Candidate { score: f32::MIN, row: index.graph.entry() };
        let never = CancelToken::never();
        search_layer(&[start], (30, 10), None, &mut buffers::Buffers::new(COUNT), &never, &mut layer);
        (met, scored) = (met + layer.met, scored + layer.scored);
    }
    scored as f64 / met as f64
}

#[test]
fn with_signs_most_rows_that_a_full_beam_meets_are_not_scored() {
    for dim in DIMS {
        let mut random = SplitMix::new(6);
        let mut number = || random.normal() as f32;
        // Groups around centres, as passages are around topics.
        let centres: Vec<f32> = (0..50 * dim).map(|_| 2.0 * number()).collect();
        let rows: Vec<f32> =
            (0..COUNT * dim).map(|at| centres[(at / dim % 50) * dim + at % dim] + number()).collect();
        let questions: Vec<Vec<f32>> =
            centres.chunks(dim).map(|centre| centre.iter().map(|v| v + number()).collect()).collect();
        let shares = graphs(rows, dim).map(|index| share(&index, &questions));
        assert!(shares[0] == 1.0 && shares[1] < 0.5, "{dim} numbers: {shares:?}");
    }
}

#[test]
fn rows_that_estimates_order_are_scored_once_they_are_among_the_best() {
    const DIRECTIONS: usize = 8;
    let dim = DIMS[1];
    let mut random = SplitMix::new(12);
    let mut number = || random.normal() as f32;
    // Few directions, in which neighbours differ by more than estimates err.
    let directions: Vec<f32> = (0..DIRECTIONS * dim).map(|_| number()).collect();
    let mut vector = || -> Vec<f32> {
        let weights: Vec<f32> = (0..DIRECTIONS).map(|_| number()).collect();
        let part = |at: usize| -> f32 {
            weights.iter().zip(directions.chunks(dim)).map(|(weight, numbers)| weight * numbers[at]).sum()
        };
        (0..dim).map(part).collect()
    };
    let rows: Vec<f32> = (0..COUNT).flat_map(|_| vector()).collect();
    let questions: Vec<Vec<f32>> = (0..100).map(|_| vector()).collect();
    let [without, with] = graphs(rows, dim);
    assert!(with.ask(&questions[0]).estimates && !without.ask(&questions[0]).estimates);
    let share = share(&with, &questions);
    assert!(share < 0.3, "{share}");
    for k in [1, 10, 100, 500] {
        let mut hits = [0, 0];
        for question in &questions {
            let never = CancelToken::never();
            let best = with.exact.search_until(&embedding(question), k, None, &never).unwrap();
            for (hits, index) in hits.iter_mut().zip([&without, &with]) {
                *hits +=
                    crate::rows_found(&best, found(index, question, k, None).iter().map(|row| row.score));
            }
        }
        let [without, with] = hits.map(|hits| hits as f64 / (k * questions.len()) as f64);
        assert!(with >= without - 0.01, "k {k}: recall {with}, and {without} without signs");
    }
}

#[test]
fn a_question_of_zeros_is_answered_with_signs_as_without() {
    for dim in DIMS {
        let mut random = SplitMix::new(4);
        let [without, with] = graphs((0..COUNT * dim).map(|_| random.normal() as f32).collect(), dim);
        let zeros = vec![0.0; dim];
        assert_eq!(found(&with, &zeros, 10, None), found(&without, &zeros, 10, None));
    }
}

#[test]
fn rows_that_a_corpus_repeats_cost_the_others_no_neighbours() {
    let (clusters, dim, m) = (50, 32, 12);
    let mut random = SplitMix::new(6);
    let centres: Vec<f32> = (0..clusters * dim).map(|_| random.normal() as f32).collect();
    let mut near = |cluster: usize, spread: f32| -> Vec<f32> {
        let centre = &centres[cluster * dim..][..dim];
        centre.iter().map(|value| value + spread * random.normal() as f32).collect()
    };
    // One text of each of four clusters is there 150 times, more often than `ef_construction`.
    let repeated: Vec<Vec<f32>> = (0..4).map(|cluster| near(cluster, 0.5)).collect();
    let row = |row: usize| {
        if row.is_multiple_of(5) { repeated[row / 5 % 4].clone() } else { near(row % clusters, 0.5) }
    };
    let rows: Vec<f32> = (0..3000).flat_map(row).collect();
    let matrix = Arc::new(Matrix::new(rows, 3000, dim, |row| row.to_string()).unwrap());
    let codes = Arc::new(Quantized::of(&matrix));
    let params = HnswParams { m, ef_construction: 60, ef_search: 60 };
    let graph = build(&matrix, &codes, params, &AtomicBool::new(false), &Silent).unwrap();
    let most = (0..3000).map(|row| graph.links(0, row).len()).max().unwrap();
    assert!(most <= 4 * m, "{most} links");
    let index = HnswIndex::new(Arc::clone(&matrix), codes, None, graph, params.ef_search);
    let questions: Vec<&[f32]> =
        (0..3000).filter(|row| row % 5 > 0).step_by(8).map(|row| matrix.row(row)).collect();
    let hits = questions.iter().map(|question| {
        let best = index.exact.search(&embedding(question), 10).unwrap();
        crate::rows_found(&best, found(&index, question, 10, None).iter().map(|row| row.score))
    });
    let recall = hits.sum::<usize>() as f64 / (10 * questions.len()) as f64;
    assert!(recall >= 0.99, "recall@10 {recall}");
}
