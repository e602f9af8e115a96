//! Searches among some passages: those that are found, those that no filter allows.

use super::*;
use dpr_data::{Metadata, Passage};
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexKind, IndexOptions, LiveIndex, LoadedIndex, Snapshot, build_index};

/// 3,000 passages with a title and a year for each 300, every tenth without metadata; `p0` is nearest to the vector
/// that is asked with, `p2999` farthest.
pub(super) fn live_over(kind: IndexKind) -> (Arc<LiveIndex>, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let passage = |at: usize| {
        let passage = Passage::new(format!("p{at}"), format!("Title {}", at / 300), "Text.");
        let mut metadata = Metadata::new([("year", 2000 + at as i32 / 300)]).unwrap();
        metadata.insert("is_even".to_owned(), at.is_multiple_of(2).into()).unwrap();
        if at % 10 == 9 { passage } else { passage.with_metadata(metadata) }
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
            (json!({"metadata": null, "ids": ["p5"]}), vec!["p5"]),
            (json!({"metadata": {"field": "is_even", "eq": false}}), vec!["p1", "p3", "p5"]),
            (json!({"metadata": {"not": {"field": "year", "lt": 2009}}}), vec!["p9", "p19", "p29"]),
            (
                json!({"metadata": {"field": "year", "in": [2004, 2008]}, "titles": ["Title 8", "Title 1"]}),
                vec!["p2400", "p2401", "p2402"],
            ),
            (
                json!({"metadata": {"or": [
                    {"and": [{"field": "year", "gte": 2003, "lt": 2005}, {"field": "is_even", "eq": true}]},
                    {"field": "year", "gt": 2008},
                ]}}),
                vec!["p900", "p902", "p904"],
            ),
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
        (json!(["p1"]), "is not a filter: `titles`: invalid type: string"),
        (json!({"title": "x"}), "is not a filter: unknown field `title`, expected one of"),
        (
            json!({"titles": 7}),
            "is not a filter: `titles`: invalid type: integer `7`, expected an array of strings",
        ),
        (
            json!({"ids": ["p1", 7]}),
            "is not a filter: `ids[1]`: invalid type: integer `7`, expected a string",
        ),
        (json!({"metadata": {"field": "year", "gt": 2009}}), "no passage with these"),
        // A field that no passage has, and a string for a number.
        (json!({"metadata": {"field": "yaer", "eq": 2000}}), "names of fields and types of values"),
        (json!({"metadata": {"field": "year", "eq": "2000"}}), "names of fields and types of values"),
        (json!({"metadata": {"field": "year", "eq": [2000]}}), "`filter.metadata`: eq is an array"),
        (json!({"metadata": {"field": "year", "like": "20%"}}), "there is no operator `like`"),
        (
            json!({"metadata": {"and": [{"field": "year", "gt": 1, "lt": "2"}]}}),
            "and[0]: one bound is a number",
        ),
        (json!({"metadata": [1]}), "an object for the condition"),
    ] {
        let reply = search(&app, &asking(filter)).await;
        assert_eq!(reply.error(), (422, "invalid_filter".into()));
        let message = reply.message();
        assert!(message.contains(says) && !message.contains(" column "), "{message}");
    }
}

#[tokio::test]
async fn filters_that_would_cost_much_are_refused_while_they_are_read() {
    let (app, _dir) = app_over(IndexKind::Exact);
    let leaf = r#"{"field":"year","eq":2000}"#;
    let repeated = |part: &str, count: usize| vec![part; count].join(",");
    for (condition, says) in [
        (format!("{}{leaf}{}", r#"{"not":"#.repeat(50_000), "}".repeat(50_000)), "filter"),
        (format!("{}{leaf}{}", r#"{"not":"#.repeat(50), "}".repeat(50)), "more than 16 conditions deep"),
        (format!(r#"{{"field":"year","in":[{}]}}"#, repeated("1", 400_000)), "more than 1000 values in all"),
        (format!(r#"{{"or":[{}]}}"#, repeated(leaf, 30_000)), "more than 256 comparisons"),
        (format!(r#"{{"and":[{}]}}"#, repeated("[]", 300_000)), "an object for and[0]"),
        (format!(r#"{{"field":"{}","eq":1}}"#, "x".repeat(900_000)), "must have 1 to 64"),
    ] {
        let body = format!(
            r#"{{"vector":[1,0,0,0],"k":3,"model":"{}","filter":{{"metadata":{condition}}}}}"#,
            fingerprint()
        );
        let reply = send(&app, post(body)).await;
        let (status, code) = reply.error();
        assert!(
            matches!((status, code.as_str()), (422, "invalid_filter") | (400, "invalid_json")),
            "{status} {code}"
        );
        let message = reply.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(says) || status == 400, "{message}");
        assert!(message.len() < 400, "{message}");
    }
}

#[tokio::test]
async fn hits_carry_the_metadata_that_their_passages_have() {
    let (app, _dir) = app_over(IndexKind::Hnsw);
    let reply = search(&app, &asking(json!({"ids": ["p8", "p9"]}))).await;
    let hits = reply.json()["hits"].clone();
    assert_eq!(hits[0]["metadata"], json!({"year": 2000, "is_even": true}));
    assert_eq!((&hits[1]["id"], hits[1].get("metadata")), (&json!("p9"), None));
}
