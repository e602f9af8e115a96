//! Tests against the real server.

mod away;
mod concurrent;
mod hostile;
mod load;
mod own_table;
mod searching;
mod server;
mod support;
mod tls;

use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_postgres::{LoadOptions, PostgresAddress, PostgresIndex, load};

/// `count` vectors `[dim]` around 16 centres, and passages `p0`, `p1`, ... of five titles.
fn set(count: usize, dim: usize) -> VectorSet {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40) as f32 / (1_u32 << 23) as f32 - 1.0
    };
    let centres: Vec<f32> = (0..16 * dim).map(|_| next()).collect();
    let mut rows = Vec::with_capacity(count * dim);
    for _ in 0..count {
        let centre = ((next() + 1.0) * 8.0) as usize % 16;
        rows.extend(centres[centre * dim..][..dim].iter().map(|value| value + 0.6 * next()));
    }
    let passage = |at| Passage::new(format!("p{at}"), format!("Title {}", at % 5), format!("Text {at}."));
    VectorSet::new("ab".repeat(32), dim, (0..count).map(passage).collect(), rows)
}

/// The rows of a set from `from` to `to`.
fn part(set: &VectorSet, from: usize, to: usize) -> VectorSet {
    let rows = set.rows[from * set.dim..to * set.dim].to_vec();
    VectorSet::new(set.model_fingerprint.clone(), set.dim, set.passages[from..to].to_vec(), rows)
}

fn embedding(values: &[f32]) -> Embedding {
    Embedding::new(values.to_vec(), values.len()).unwrap()
}

/// A table with a set in it, open.
fn filled(address: &PostgresAddress, set: &VectorSet) -> PostgresIndex {
    load(address, set, &LoadOptions::default(), &Silent).unwrap();
    PostgresIndex::open(address).unwrap()
}

/// Ids of the best `k` passages by sums in f64, of those that are wanted.
fn best(set: &VectorSet, question: &Embedding, k: usize, wanted: impl Fn(&Passage) -> bool) -> Vec<String> {
    let rows = set.passages.iter().zip(set.rows.chunks(set.dim)).filter(|(passage, _)| wanted(passage));
    let score = |row: &[f32]| -> f64 {
        row.iter().zip(question.as_slice()).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    let mut scored: Vec<_> = rows.map(|(passage, row)| (passage.id.clone(), score(row))).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    scored.into_iter().take(k).map(|(id, _)| id).collect()
}

/// Ids found for one question.
fn found(
    index: &PostgresIndex,
    question: &Embedding,
    k: usize,
    filter: Option<&dpr_index::search::Filter>,
) -> Vec<String> {
    let found = index.search(std::slice::from_ref(question), k, filter).unwrap().unwrap();
    found.into_iter().flatten().map(|hit| hit.id).collect()
}
