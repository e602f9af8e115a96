//! Recall of filtered searches through a graph, for filters that allow much and little.

use dpr_core::Embedding;
use dpr_data::{Metadata, Passage};
use dpr_files::progress::Silent;
use dpr_index::search::{Condition, Filter, Searcher};
use dpr_index::vectors::VectorSet;
use dpr_index::{HnswParams, IndexKind, IndexOptions, LoadedIndex, VectorIndex as _, build_index};

use crate::support::corpus::{Numbers, clusters, embedding};

const ROWS: usize = 20_000;
const DIM: usize = 32;
const K: usize = 10;

/// The search keeps so few candidates that the graph is used for a tenth of the rows too.
const GRAPH: HnswParams = HnswParams { m: 16, ef_construction: 100, ef_search: 15 };

/// The cluster of a row, by its two greatest numbers: what a filter that goes with the vectors allows.
fn cluster(vector: &[f32]) -> i32 {
    let greatest = |from: usize| (from..DIM).step_by(2).max_by(|a, b| vector[*a].total_cmp(&vector[*b]));
    (greatest(0).unwrap_or(0) * DIM + greatest(1).unwrap_or(0)) as i32
}

fn index() -> (LoadedIndex, tempfile::TempDir) {
    let rows = clusters(ROWS, DIM, 3);
    let mut numbers = Numbers::new(77);
    let passage = |(row, vector): (usize, &[f32])| {
        let mut metadata = Metadata::new([("cluster", cluster(vector))]).unwrap();
        let share = (f64::from(numbers.next()) + 1.0) / 2.0 * 1000.0;
        metadata.insert("permille".to_owned(), (share as i32).into()).unwrap();
        Passage::new(format!("p{row}"), "", "Text.").with_metadata(metadata)
    };
    let passages: Vec<Passage> = rows.chunks(DIM).enumerate().map(passage).collect();
    let dir = tempfile::tempdir().unwrap();
    let options = IndexOptions { kind: IndexKind::Hnsw, hnsw: GRAPH, ..IndexOptions::default() };
    build_index(&VectorSet::new("ab".repeat(32), DIM, passages, rows), dir.path(), &options, &Silent)
        .unwrap();
    (LoadedIndex::open(dir.path()).unwrap(), dir)
}

fn filter(condition: &str) -> Filter {
    let condition: Condition = serde_json::from_str(condition).unwrap();
    Filter { condition: Some(condition), ..Filter::default() }
}

/// The share of the best `K` allowed passages that a search finds, which gives as many as there are.
fn recall(searcher: &Searcher, queries: &[Embedding], filter: &Filter) -> f64 {
    let (snapshot, allowed) = (searcher.snapshot(), filter.rows(searcher.snapshot()).unwrap());
    let exact = snapshot.base().exact().unwrap();
    let found = searcher.search_batch(queries, K, Some(filter)).unwrap();
    let (mut right, mut all) = (0, 0);
    for (query, hits) in queries.iter().zip(found) {
        let best = exact.search_among(query, K, &allowed).unwrap();
        assert_eq!(hits.len(), allowed.len().min(K));
        let ids: Vec<String> = best.iter().map(|best| format!("p{}", best.row)).collect();
        right += hits.iter().filter(|hit| ids.contains(&hit.id)).count();
        all += ids.len();
    }
    right as f64 / all as f64
}

#[test]
fn filtered_searches_find_what_unfiltered_ones_do_and_as_many_as_there_are() {
    let (index, _dir) = index();
    let searcher = Searcher::new(index);
    let queries: Vec<Embedding> = clusters(200, DIM, 8).chunks(DIM).map(embedding).collect();
    let all = filter(r#"{"field":"permille","gte":0}"#);
    let unfiltered = {
        let exact = searcher.index().exact().unwrap();
        let all = searcher.search_batch(&queries, K, None).unwrap();
        let found = queries.iter().zip(all).map(|(query, hits)| {
            let best = exact.search(query, K).unwrap();
            best.iter().filter(|best| hits.iter().any(|hit| hit.id == format!("p{}", best.row))).count()
        });
        found.sum::<usize>() as f64 / (queries.len() * K) as f64
    };
    assert!(
        (0.5..0.9999).contains(&unfiltered),
        "the graph alone finds {unfiltered}, so that there is something to lose"
    );
    let least = unfiltered - 0.005;
    assert!(recall(&searcher, &queries, &all) >= least);
    // 50, 10, 1 and 0.1 %, at random.
    for permille in [500, 100, 10, 1] {
        let filter = filter(&format!(r#"{{"field":"permille","lt":{permille}}}"#));
        let allowed = filter.rows(searcher.snapshot()).unwrap().len();
        assert!((ROWS * permille / 1000).abs_diff(allowed) < ROWS / 50, "{permille}: {allowed}");
        let found = recall(&searcher, &queries, &filter);
        assert!(found >= least, "{permille} of 1000: {found}, unfiltered {unfiltered}");
    }
    // Filters that go with the vectors: rows near one another, which are far from most questions.
    let mut sizes = Vec::new();
    for (from, to) in [(0, 512), (0, 128), (256, 288), (512, 520)] {
        let filter = filter(&format!(r#"{{"field":"cluster","gte":{from},"lt":{to}}}"#));
        sizes.push(filter.rows(searcher.snapshot()).unwrap().len());
        if sizes.last() == Some(&0) {
            continue;
        }
        let found = recall(&searcher, &queries, &filter);
        assert!(found >= least, "clusters {from} to {to}: {found}, unfiltered {unfiltered}");
    }
    assert!(
        sizes.iter().any(|size| *size > ROWS / 4) && sizes.iter().any(|size| (1..ROWS / 10).contains(size)),
        "{sizes:?}"
    );
}

#[test]
fn fewer_are_returned_only_where_there_are_fewer() {
    let (index, _dir) = index();
    let searcher = Searcher::new(index);
    let query = [embedding(&clusters(1, DIM, 9))];
    for k in [1, 7, 100, 3000] {
        for permille in [1000, 500, 100, 10, 1] {
            let filter = filter(&format!(r#"{{"field":"permille","lt":{permille}}}"#));
            let allowed = filter.rows(searcher.snapshot()).unwrap().len();
            let hits = searcher.search_batch(&query, k, Some(&filter)).unwrap().remove(0);
            assert_eq!(hits.len(), k.min(allowed), "{k} of {permille}");
            assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
        }
    }
}
