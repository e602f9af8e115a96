//! What searches find, with filters and without.

use std::collections::HashSet;

use dpr_data::{Metadata, Value};
use dpr_index::search::{Condition, Filter, ServiceError};
use dpr_index::vectors::VectorSet;
use dpr_index::{CancelToken, Stopped};
use dpr_postgres::PostgresError;

use super::server::Server;
use super::{best, embedding, filled, found, set};

const DIM: usize = 16;

/// A set whose passages have metadata: `n` from 0, `group` n mod 100, `lang`, and every other one `even`.
fn with_metadata(count: usize) -> VectorSet {
    let mut set = set(count, DIM);
    for (at, passage) in set.passages.iter_mut().enumerate() {
        let number = i32::try_from(at).unwrap();
        let mut fields = vec![
            ("n", Value::from(number)),
            ("group", Value::from(number % 100)),
            ("lang", Value::from(["de", "en", "fr", "ä"][at % 4])),
        ];
        if at % 2 == 0 {
            fields.push(("even", true.into()));
        }
        passage.metadata = Metadata::new(fields).unwrap();
    }
    set
}

fn of(condition: &str) -> Filter {
    Filter { condition: Some(serde_json::from_str::<Condition>(condition).unwrap()), ..Filter::default() }
}

#[test]
fn a_graph_finds_the_best_passages_with_their_scores_and_metadata() {
    let Some(server) = Server::get() else { return };
    let set = with_metadata(3000);
    for options in ["", "&type=halfvec"] {
        let address = server.address_with(&format!("best{}", options.len()), options);
        let index = filled(&address, &set);
        // Small tables would be read whole.
        let plan = server.texts(&format!(
            "SET enable_seqscan = off; EXPLAIN SELECT id FROM best{} ORDER BY embedding <#> (SELECT embedding FROM \
             best{} LIMIT 1) LIMIT 20",
            options.len(),
            options.len()
        ));
        assert!(plan.iter().any(|line| line.contains("embedding_idx")), "{plan:?}");
        let mut recall = 0.0;
        let questions: Vec<_> = (0..50).map(|at| embedding(&set.rows[at * 7 * DIM..][..DIM])).collect();
        let batch = index.search(&questions, 20, None).unwrap().unwrap();
        assert_eq!(batch.len(), 50);
        for (question, hits) in questions.iter().zip(&batch) {
            assert!(hits.is_sorted_by(|a, b| a.score >= b.score));
            let best = best(&set, question, 20, |_| true);
            recall += hits.iter().filter(|hit| best.contains(&hit.id)).count() as f64 / 1000.0;
            for hit in hits {
                let at: usize = hit.id[1..].parse().unwrap();
                let row = &set.rows[at * DIM..][..DIM];
                let score: f32 = row.iter().zip(question.as_slice()).map(|(a, b)| a * b).sum();
                assert!((hit.score - score).abs() < 0.02, "{} {score}", hit.score);
                assert_eq!(hit.clone().into_passage(), set.passages[at]);
            }
        }
        assert!(recall > 0.97, "{options}: recall@20 {recall}");
    }
}

#[test]
fn every_condition_allows_what_it_allows_in_a_directory() {
    let Some(server) = Server::get() else { return };
    let mut set = with_metadata(400);
    set.passages[7].metadata = Metadata::default();
    set.passages[8].metadata = Metadata::new([("n", "text, not a number"), ("lang", "'; DROP")]).unwrap();
    let index = filled(&server.address("conditions"), &set);
    let question = embedding(&set.rows[..DIM]);
    for condition in [
        r#"{"field": "n", "eq": 5}"#,
        r#"{"field": "n", "eq": 5.0}"#,
        r#"{"field": "n", "eq": "5"}"#,
        r#"{"field": "even", "eq": true}"#,
        r#"{"field": "even", "eq": false}"#,
        r#"{"field": "lang", "in": ["de", "ä", 7, "'; DROP"]}"#,
        r#"{"field": "n", "gte": 10, "lt": 20.5}"#,
        r#"{"field": "n", "gt": 10, "lte": 20}"#,
        r#"{"field": "n", "lt": -1}"#,
        r#"{"field": "lang", "gt": "de"}"#,
        r#"{"field": "lang", "gte": "en", "lt": "ä"}"#,
        r#"{"field": "lang", "lte": "en\u0000"}"#,
        r#"{"field": "nobody has it", "eq": 1}"#,
        r#"{"not": {"field": "even", "eq": true}}"#,
        r#"{"not": {"field": "n", "gte": 10}}"#,
        r#"{"not": {"not": {"field": "lang", "gt": "en"}}}"#,
        r#"{"not": {"and": [{"field": "even", "eq": true}, {"field": "n", "lt": 100}]}}"#,
        r#"{"not": {"or": [{"field": "even", "eq": true}, {"field": "n", "lt": 100}]}}"#,
        r#"{"and": [{"field": "lang", "eq": "en"}, {"field": "n", "gt": 300}]}"#,
        r#"{"or": [{"field": "n", "eq": 1}, {"field": "n", "eq": 2}, {"field": "lang", "eq": "fr"}]}"#,
    ] {
        let filter = of(condition);
        let expected = best(&set, &question, 400, |passage| filter.allows(passage));
        match index.search(std::slice::from_ref(&question), 400, Some(&filter)).unwrap() {
            None => assert!(expected.is_empty(), "{condition}: nothing, not {expected:?}"),
            Some(found) => {
                let found: HashSet<_> = found[0].iter().map(|hit| hit.id.clone()).collect();
                assert_eq!(found, expected.iter().cloned().collect(), "{condition}");
            }
        }
    }
}

#[test]
fn a_filter_of_any_share_leaves_as_many_as_are_asked_for() {
    let Some(server) = Server::get() else { return };
    let set = with_metadata(12_000);
    let index = filled(&server.address("shares"), &set);
    // 50, 10, 1 and 0.2 % of the passages; of the last there are 24.
    for condition in [
        r#"{"field": "even", "eq": true}"#,
        r#"{"field": "group", "lt": 10}"#,
        r#"{"field": "group", "eq": 7}"#,
        r#"{"field": "n", "lt": 24}"#,
    ] {
        let filter = of(condition);
        let mut recall = 0.0;
        for at in 0..20 {
            let question = embedding(&set.rows[at * 11 * DIM..][..DIM]);
            let found = found(&index, &question, 20, Some(&filter));
            assert_eq!(found.len(), 20, "{condition}");
            let best = best(&set, &question, 20, |passage| filter.allows(passage));
            recall += found.iter().filter(|id| best.contains(id)).count() as f64 / 400.0;
        }
        assert!(recall > 0.97, "{condition}: recall@20 {recall}");
    }
}

#[test]
fn any_k_is_answered_and_a_search_that_makes_no_sense_is_refused() {
    let Some(server) = Server::get() else { return };
    let set = set(1500, DIM);
    let index = filled(&server.address("any_k"), &set);
    let question = embedding(&set.rows[..DIM]);
    for k in [1, 999, 1000, 1001, 1499, 1500, 1501, usize::MAX] {
        let found = found(&index, &question, k, None);
        assert_eq!(found.len(), k.min(1500), "{k}");
        assert_eq!(found[..1], best(&set, &question, 1, |_| true), "{k}");
    }
    assert!(matches!(index.search(std::slice::from_ref(&question), 0, None), Err(PostgresError::K)));
    let short = index.search(&[embedding(&[1.0])], 5, None).unwrap_err();
    assert!(
        matches!(short, PostgresError::Service(ServiceError::Dimension { expected: DIM, got: 1, .. })),
        "{short}"
    );
    assert_eq!(index.search(&[], 5, None).unwrap(), Some(Vec::new()));
    let nothing = Filter { ids: ["nobody".to_owned()].into(), ..Filter::default() };
    assert_eq!(index.search(std::slice::from_ref(&question), 5, Some(&nothing)).unwrap(), None);
    server.sql("TRUNCATE any_k");
    assert_eq!(index.search(&[question], 5, None).unwrap(), Some(vec![Vec::new()]));
    assert_eq!(index.refresh().unwrap(), 0);
}

#[test]
fn a_search_stops_at_the_first_row_beyond_its_bytes_and_when_it_is_cancelled() {
    let Some(server) = Server::get() else { return };
    let mut set = set(400, DIM);
    for passage in &mut set.passages {
        passage.text = "x".repeat(10_000);
    }
    let index = filled(&server.address("large"), &set);
    let questions = [embedding(&set.rows[..DIM]), embedding(&set.rows[DIM..2 * DIM])];
    let all = Filter { titles: (0..5).map(|at| format!("Title {at}")).collect(), ..Filter::default() };
    for filter in [None, Some(&all)] {
        let search = |cancel: &CancelToken| index.search_until(&questions, 100, filter, cancel);
        let whole = search(&CancelToken::with_max_bytes(3_000_000)).unwrap().unwrap();
        assert_eq!(whole.iter().map(Vec::len).collect::<Vec<_>>(), [100, 100]);
        let stopped = search(&CancelToken::with_max_bytes(500_000)).unwrap_err();
        assert!(
            matches!(stopped, PostgresError::Stopped(Stopped::TooManyBytes { max: 500_000 })),
            "{stopped}"
        );
        let cancelled = CancelToken::new();
        cancelled.cancel();
        let stopped = search(&cancelled).unwrap_err();
        assert!(matches!(stopped, PostgresError::Stopped(Stopped::Cancelled)), "{stopped}");
        // The connection that was left is not used again.
        assert_eq!(search(&CancelToken::never()).unwrap().unwrap(), whole);
    }
}
