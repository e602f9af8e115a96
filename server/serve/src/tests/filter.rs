//! Searches among some passages: those that are found, those that no filter allows.

use super::*;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexKind, IndexOptions, LiveIndex, LoadedIndex, Snapshot, build_index};

/// 3,000 passages with a title for each 300; `p0` is nearest to the vector that is asked with, `p2999` farthest.
pub(super) fn live_over(kind: IndexKind) -> (Arc<LiveIndex>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let passage = |at: usize| Passage {
        id: format!("p{at}"),
        title: format!("Title {}", at / 300),
        text: "Text.".into(),
    };
    let angle = |at: usize| at as f32 / 3000.0;
    let rows: Vec<f32> = (0..3000).flat_map(|at| [angle(at).cos(), angle(at).sin(), 0.0, 0.0]).collect();
    let passages = (0..3000).map(passage).collect();
    let set = VectorSet::new(fingerprint(), DIM, passages, rows);
    let index = dir.path().join("index");
    build_index(&set, &index, &IndexOptions { kind, ..IndexOptions::default() }, &Silent).unwrap();
    (Arc::new(LiveIndex::new(Arc::new(Snapshot::of(LoadedIndex::open(&index).unwrap())))), dir)
}

fn app_over(kind: IndexKind) -> (Router, tempfile::TempDir) {
    let (live, dir) = live_over(kind);
    let state = AppState::new(Options::default());
    assert!(state.publish(live, model(dir.path(), true)));
    (app(state), dir)
}

fn asking(filter: Value) -> Value {
    json!({"vector": [1, 0, 0, 0], "k": 3, "model": fingerprint(), "filter": filter})
}

fn ids(reply: &Reply) -> Vec<String> {
    let hits = reply.json()["hits"].as_array().unwrap().clone();
    hits.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_filter_leaves_what_it_allows_and_as_many_as_there_are() {
    for kind in [IndexKind::Exact, IndexKind::Hnsw] {
        let (app, _dir) = app_over(kind);
        for (filter, expected) in [
            (json!({}), vec!["p0", "p1", "p2"]),
            (json!({"titles": ["Title 7"]}), vec!["p2100", "p2101", "p2102"]),
            (json!({"titles": ["Title 7", "Title 4", "none"]}), vec!["p1200", "p1201", "p1202"]),
            (json!({"ids": ["p2999", "p5"]}), vec!["p5", "p2999"]),
            (json!({"ids": ["p2999", "p5"], "titles": ["Title 9"]}), vec!["p2999"]),
        ] {
            let reply = search(&app, &asking(filter.clone())).await;
            assert_eq!(ids(&reply), expected, "{kind}, {filter}");
        }
    }
}

#[tokio::test]
async fn a_filter_that_allows_nothing_or_makes_no_sense_is_refused() {
    let (app, _dir) = app_over(IndexKind::Exact);
    let many = vec!["p1"; 1001];
    for (filter, says) in [
        (json!({"titles": ["No such title"]}), "no passage with these"),
        (json!({"ids": ["p1"], "titles": ["Title 9"]}), "no passage with these"),
        (json!({"ids": many}), "1001 of them; a filter holds at most 1000"),
        (json!(["p1"]), "no filter"),
    ] {
        let reply = search(&app, &asking(filter)).await;
        assert_eq!(reply.error(), (422, "invalid_filter".into()));
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(says), "{message}");
    }
}
