//! Passages added and deleted while others search: who may, what is refused, what is found.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::ConnectInfo;

use super::*;
use crate::{Access, KeySources, Origins, Serving, Updates};
use dpr_data::Passage;
use dpr_encode::PassageUpdater;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{
    CompactionPolicy, DeltaLimit, HnswParams, IndexKind, IndexOptions, IndexReader, IndexWriter, build_index,
};

/// `count` vectors `[dim]` of unit length around 64 centres.
pub(super) fn clusters(count: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut random = dpr_core::random::SplitMix::new(99);
    let centres: Vec<f32> = (0..64 * dim).map(|_| number(&mut random)).collect();
    let mut random = dpr_core::random::SplitMix::new(seed);
    let mut rows = Vec::with_capacity(count * dim);
    for _ in 0..count {
        let centre = random.below(64) * dim;
        let row: Vec<f32> =
            centres[centre..centre + dim].iter().map(|value| value + 0.6 * number(&mut random)).collect();
        let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        rows.extend(row.iter().map(|value| value / norm));
    }
    rows
}

/// In `[-1, 1)`.
fn number(random: &mut dpr_core::random::SplitMix) -> f32 {
    random.below(1 << 20) as f32 / (1 << 19) as f32 - 1.0
}

/// An index of passages `p0`, `p1`, ... in `dir`.
pub(super) fn build(dir: &Path, rows: Vec<f32>, dim: usize, kind: IndexKind) {
    let passage = |i| Passage::new(format!("p{i}"), "Title", format!("p{i} as built"));
    let passages = (0..rows.len() / dim).map(passage).collect();
    let set = VectorSet::new(fingerprint(), dim, passages, rows);
    let options = IndexOptions { kind, hnsw: HnswParams::default(), ..IndexOptions::default() };
    build_index(&set, dir, &options, &Silent).unwrap();
}

/// An index of 20 passages in a folder of its own, which goes with the first value.
pub(super) fn built() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("index");
    build(&index, clusters(20, DIM, 1), DIM, IndexKind::Exact);
    (dir, index)
}

/// A server over a real index that takes updates, with this token if any.
pub(super) fn serve(dir: &Path, token: Option<&str>) -> (Router, Arc<IndexWriter>) {
    serve_with(Options::default(), dir, token)
}

pub(super) fn serve_with(options: Options, dir: &Path, token: Option<&str>) -> (Router, Arc<IndexWriter>) {
    serve_model(options, dir, token, model(dir.parent().unwrap(), true))
}

pub(super) fn serve_model(
    options: Options,
    dir: &Path,
    token: Option<&str>,
    model: ServedModel,
) -> (Router, Arc<IndexWriter>) {
    let updater = Arc::new(IndexWriter::open(dir, "a test").unwrap());
    let access =
        Access::new(KeySources { update_token: token.map(str::to_owned), ..KeySources::default() }).unwrap();
    let state = AppState::new(Options { access, ..options });
    let service = Arc::new(PassageUpdater::new(Arc::<IndexWriter>::clone(&updater), None));
    assert!(state.publish_all(Serving {
        model: Some(model),
        updates: Some(Updates::new(service)),
        ..Serving::new(Arc::<dpr_index::LiveIndex>::clone(updater.live()))
    }));
    (app(state), updater)
}

pub(super) fn change(method: &str, body: &Value) -> Request<Body> {
    Request::builder()
        .method(method)
        .uri("/v1/passages")
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap()
}

/// A body that adds passages.
pub(super) fn adding(passages: &[Value]) -> Value {
    json!({"model": fingerprint(), "passages": passages})
}

#[tokio::test]
async fn an_index_is_not_changed_unless_the_operator_lets_it() {
    let (app, _dir) = ready(Options::default());
    for (method, body) in [("POST", adding(&[])), ("DELETE", json!({"ids": ["p0"]})), ("POST", json!("no"))] {
        let reply = send(&app, change(method, &body)).await;
        assert_eq!(reply.error(), (403, "updates_disabled".into()));
    }
    let put = send(&app, change("PUT", &json!({}))).await;
    assert_eq!(put.error(), (405, "method_not_allowed".into()));
}

#[tokio::test]
async fn an_index_that_is_full_answers_429_until_a_new_version_is_built() {
    let (_dir, index) = built();
    let (app, updater) = serve(&index, None);
    let max_delta = DeltaLimit { rows: 2, ..DeltaLimit::NONE };
    let policy = CompactionPolicy { automatic: false, max_delta, ..CompactionPolicy::default() };
    let _compaction = updater.compact_in_background(policy).unwrap();
    let put = |id: &str| {
        let body = adding(&[json!({"id": id, "text": "Text.", "vector": [1, 0, 0, 0]})]);
        let mut request = change("POST", &body);
        request.headers_mut().insert("host", "localhost".parse().unwrap());
        request
    };
    for id in ["a", "b"] {
        assert_eq!(send(&app, put(id)).await.status, StatusCode::OK);
    }
    let reply = send(&app, put("c")).await;
    assert_eq!(reply.error(), (429, "overloaded".into()));
    assert_eq!(reply.header("retry-after"), "60");
    assert!(reply.message().contains("2 passages"), "{}", reply.message());
    updater.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
    assert_eq!(send(&app, put("c")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn where_there_is_a_token_an_update_must_carry_it() {
    let (_dir, index) = built();
    let (app, _updater) = serve(&index, Some("s3cret"));
    let with = |value: &str| {
        let mut request = change("DELETE", &json!({"ids": ["p0"]}));
        if !value.is_empty() {
            request.headers_mut().insert("authorization", value.parse().unwrap());
        }
        request
    };
    for wrong in ["", "s3cret", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret"] {
        let reply = send(&app, with(wrong)).await;
        assert_eq!(reply.error(), (401, "unauthorized".into()), "{wrong}");
        assert!(reply.header("www-authenticate").starts_with("Bearer"), "{wrong}");
    }
    assert_eq!(send(&app, with("bearer s3cret")).await.json(), json!({"deleted": 1}));
    assert_eq!(search(&app, &good()).await.status, StatusCode::OK, "searches need none");
}

#[tokio::test]
async fn no_page_of_another_origin_may_change_the_index_whatever_origins_may_search_it() {
    let (_dir, index) = built();
    let origin = "https://evil.example";
    for origins in [Origins::Any, Origins::parse(&[origin.to_owned()]).unwrap()] {
        let options = Options { origins, ..Options::default() };
        let (app, updater) = serve_with(options, &index, None);
        let preflight = |path: &str, method: &str| {
            Request::options(path)
                .header("host", "127.0.0.1:7878")
                .header("origin", origin)
                .header("access-control-request-method", method)
                .header("access-control-request-headers", "content-type")
                .body(Body::empty())
                .unwrap()
        };
        let allowed = |reply: &Reply| {
            let is_cors = |name: &&str| name.starts_with("access-control-allow-");
            reply.headers.keys().map(|name| name.as_str()).filter(is_cors).count()
        };
        for method in ["POST", "DELETE"] {
            let reply = send(&app, preflight("/v1/passages", method)).await;
            assert_eq!((reply.error(), allowed(&reply)), ((405, "method_not_allowed".into()), 0));
        }
        assert!(allowed(&send(&app, preflight("/v1/search", "POST")).await) > 0, "they may search");
        let mut request =
            change("POST", &adding(&[json!({"id": "x", "text": "Owned.", "vector": [1, 0, 0, 0]})]));
        request.headers_mut().insert("host", "127.0.0.1:7878".parse().unwrap());
        request.headers_mut().insert("origin", origin.parse().unwrap());
        let reply = send(&app, request).await;
        assert_eq!((reply.error(), allowed(&reply)), ((403, "updates_disabled".into()), 0));
        assert_eq!(updater.live().snapshot().changes(), 0);
    }
}

#[tokio::test]
async fn without_a_token_an_update_comes_from_a_program_of_this_machine() {
    let (_dir, index) = built();
    let from = |host: &str, origin: &str, token: &str| {
        let mut request =
            change("POST", &adding(&[json!({"id": "x", "text": "X.", "vector": [1, 0, 0, 0]})]));
        for (name, value) in [("host", host), ("origin", origin), ("authorization", token)] {
            if !value.is_empty() {
                request.headers_mut().insert(name, value.parse().unwrap());
            }
        }
        request
    };
    let (open, updater) = serve(&index, None);
    for (host, origin) in [
        ("evil.example", "http://evil.example"),
        ("evil.example:7878", ""),
        ("localhost.evil.example:7878", ""),
        ("0.0.0.0:7878", ""),
        ("10.0.0.1", ""),
        ("user@127.0.0.1.evil.example", ""),
        ("127.0.0.1:7878", "http://evil.example"),
        ("127.0.0.1:7878", "http://127.0.0.1:5173"),
        ("127.0.0.1:7878", "null"),
        ("localhost:7878", "http://127.0.0.1:7878"),
        ("", "http://evil.example"),
    ] {
        let reply = send(&open, from(host, origin, "")).await;
        assert_eq!(reply.error(), (403, "updates_disabled".into()), "{host} {origin}");
        let named = if is_foreign(host) { host } else { origin };
        assert!(reply.message().contains(named), "{host} {origin}: {}", reply.message());
        assert!(reply.json()["error"]["fix"].as_str().unwrap().contains("DPR_UPDATE_TOKEN"));
    }
    for name in ["x-forwarded-for", "forwarded", "via"] {
        let mut request = from("127.0.0.1:7878", "", "");
        request.headers_mut().insert(name, "203.0.113.77".parse().unwrap());
        let reply = send(&open, request).await;
        assert_eq!(reply.error(), (403, "updates_disabled".into()), "{name}");
        assert!(reply.message().contains(&format!("`{name}` is `203.0.113.77`")), "{}", reply.message());
    }
    for peer in ["203.0.113.77:4711", "[::ffff:10.0.0.1]:1"] {
        let mut request = from("127.0.0.1:7878", "", "");
        request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer.parse().unwrap()));
        let reply = send(&open, request).await;
        assert_eq!(reply.error(), (403, "updates_disabled".into()), "{peer}");
    }
    assert_eq!(updater.live().snapshot().changes(), 0);
    for (host, origin) in [
        ("", ""),
        ("127.0.0.1:7878", ""),
        ("localhost:7878", ""),
        ("LOCALHOST", ""),
        ("[::1]:7878", ""),
        ("127.0.0.1:7878", "http://127.0.0.1:7878"),
    ] {
        let mut request = from(host, origin, "");
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 4711))));
        assert_eq!(send(&open, request).await.status, StatusCode::OK, "{host} {origin}");
    }
    drop((open, updater));
    let (closed, _updater) = serve(&index, Some("s3cret"));
    let named = from("search.example.org", "", "Bearer s3cret");
    assert_eq!(send(&closed, named).await.status, StatusCode::OK, "with a token, through any name");
}

/// Returns `true` if a host of the test above is not this machine.
fn is_foreign(host: &str) -> bool {
    !["", "127.0.0.1:7878", "localhost:7878"].contains(&host)
}

#[tokio::test]
async fn what_is_added_is_found_and_what_is_deleted_is_not() {
    let (_dir, index) = built();
    let (app, _updater) = serve(&index, None);
    let far = [1000.0, 0.0, 0.0, 0.0];
    let text = Embedding::new(vec![900.0, 0.0, 0.0, 0.0], DIM).unwrap().to_base64_f32();
    let reply = send(
        &app,
        change(
            "POST",
            &adding(&[
                json!({"id": "new", "title": "T", "text": "A new one.", "vector": far}),
                json!({"id": "p3", "text": "p3 again.", "vector": text}),
            ]),
        ),
    )
    .await;
    assert_eq!(reply.json(), json!({"added": 1, "replaced": 1}), "{}", reply.text());
    let hits = search(&app, &good()).await.json();
    let found =
        |at: usize| (hits["hits"][at]["id"].as_str().unwrap(), hits["hits"][at]["text"].as_str().unwrap());
    assert_eq!((found(0), found(1)), (("new", "A new one."), ("p3", "p3 again.")));
    let described = get(&app, "/v1/index").await.json();
    assert_eq!(
        [&described["count"], &described["number"], &described["added"], &described["removed"]],
        [21, 1, 2, 1]
    );
    assert_eq!(described["changes"], 2);
    let reply = send(&app, change("DELETE", &json!({"ids": ["new", "p3", "p4"]}))).await;
    assert_eq!(reply.json(), json!({"deleted": 3}));
    let hits = search(&app, &good()).await.json();
    let gone = ["new", "p3", "p4"];
    assert!(hits["hits"].as_array().unwrap().iter().all(|hit| !gone.contains(&hit["id"].as_str().unwrap())));
    let metrics = get(&app, "/metrics").await.text();
    for line in [
        "dpr_index_passages 18",
        "dpr_index_version 1",
        "dpr_index_added 0",
        "dpr_index_removed 2",
        "dpr_passages_updated_total 5",
        r#"method="DELETE",route="/v1/passages",status="200"} 1"#,
    ] {
        assert!(metrics.contains(line), "no `{line}` in\n{metrics}");
    }
}

#[tokio::test]
async fn the_metadata_of_what_is_added_is_kept_and_filtered_by() {
    let (_dir, index) = built();
    let (app, updater) = serve(&index, None);
    let described = |id: &str, metadata: Value| json!({"id": id, "text": "Text.", "vector": [1, 0, 0, 0], "metadata": metadata});
    let added = adding(&[
        described("a", json!({"lang": "de", "year": 2020})),
        described("p3", json!({"lang": "en"})),
    ]);
    assert_eq!(send(&app, change("POST", &added)).await.json(), json!({"added": 1, "replaced": 1}));
    let mut asked = good();
    for compacted in [false, true] {
        asked["filter"] = json!({"metadata": {"field": "year", "gte": 2020}});
        let hits = search(&app, &asked).await.json()["hits"].clone();
        assert_eq!(hits.as_array().unwrap().len(), 1);
        assert_eq!(
            (&hits[0]["id"], &hits[0]["metadata"]),
            (&json!("a"), &json!({"lang": "de", "year": 2020}))
        );
        asked["filter"] = json!({"metadata": {"not": {"field": "lang", "eq": "de"}}});
        assert_eq!(search(&app, &asked).await.json()["hits"].as_array().unwrap().len(), 3);
        if !compacted {
            updater.compact(1, &Arc::default(), &Silent).unwrap();
        }
    }
}

#[tokio::test]
async fn another_index_of_the_same_model_takes_over_and_one_of_another_model_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let state = AppState::new(Options::default());
    let app = app(state.clone());
    let publish = |name: &str, count: usize| {
        let index = dir.path().join(name);
        build(&index, clusters(count, DIM, 1), DIM, IndexKind::Exact);
        let follower = IndexReader::open(&index).unwrap();
        state.publish(Arc::<dpr_index::LiveIndex>::clone(follower.live()), model(dir.path(), true))
    };
    assert!(publish("a", 5) && publish("b", 7));
    assert_eq!(get(&app, "/v1/index").await.json()["count"], 7);
    let other = dir.path().join("other");
    build(&other, clusters(9, DIM + 1, 1), DIM + 1, IndexKind::Exact);
    let follower = IndexReader::open(&other).unwrap();
    assert!(!state.publish(Arc::<dpr_index::LiveIndex>::clone(follower.live()), model(dir.path(), true)));
    assert_eq!(get(&app, "/v1/index").await.json()["count"], 7);
    assert_eq!(search(&app, &good()).await.status, StatusCode::OK);
}

/// Eight clients search over the routes while a tenth of the corpus is replaced over them, through two compactions.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn eight_clients_see_no_failure_and_nothing_that_was_deleted_while_a_tenth_is_replaced() {
    let (count, dim) = (3000, 32);
    let dir = tempfile::tempdir().unwrap();
    let index = dir.path().join("index");
    build(&index, clusters(count, dim, 1), dim, IndexKind::Hnsw);
    let (app, updater) = serve(&index, None);
    let (gone, stop) = (Arc::new(RwLock::new(Vec::<String>::new())), Arc::new(AtomicBool::new(false)));
    let searches = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let (app, gone, stop, searches) = (app.clone(), gone.clone(), stop.clone(), searches.clone());
            let questions = clusters(100, dim, 100 + client);
            tokio::spawn(async move {
                let mut at = 0;
                while !stop.load(Ordering::Relaxed) {
                    let vector = &questions[at % 100 * dim..][..dim];
                    at += 1;
                    let before = gone.read().unwrap().len();
                    let reply =
                        search(&app, &json!({"vector": vector, "k": 20, "model": fingerprint()})).await;
                    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
                    let body = reply.json();
                    let hits = body["hits"].as_array().unwrap();
                    assert_eq!(hits.len(), 20);
                    let gone = gone.read().unwrap();
                    let gone: HashSet<&str> = gone[..before].iter().map(String::as_str).collect();
                    for hit in hits {
                        let text = hit["text"].as_str().unwrap();
                        assert!(!gone.contains(text), "{text} was found after it was gone");
                    }
                    searches.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let fresh = clusters(count / 10, dim, 2);
    for (batch, rows) in fresh.chunks(10 * dim).enumerate() {
        let ids: Vec<String> = (0..10).map(|i| format!("p{}", (batch * 10 + i) * 10)).collect();
        // Half keep their ids, half are deleted and come back under others.
        let passage = |i: usize| {
            let id = if i < 5 { ids[i].clone() } else { format!("q{batch}-{i}") };
            json!({"id": id, "text": format!("{id} fresh"), "vector": rows[i * dim..][..dim]})
        };
        let body = adding(&(0..10).map(passage).collect::<Vec<_>>());
        let reply = send(&app, change("POST", &body)).await;
        assert_eq!(reply.json(), json!({"added": 5, "replaced": 5}), "{}", reply.text());
        let reply = send(&app, change("DELETE", &json!({"ids": ids[5..]}))).await;
        assert_eq!(reply.json(), json!({"deleted": 5}), "{}", reply.text());
        gone.write().unwrap().extend(ids.iter().map(|id| format!("{id} as built")));
        if batch % 10 == 9 {
            let updater = Arc::clone(&updater);
            let compact = move || updater.compact(1, &Arc::default(), &Silent).unwrap();
            assert!(tokio::task::spawn_blocking(compact).await.unwrap().is_some());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let described = get(&app, "/v1/index").await.json();
    assert_eq!((&described["count"], &described["number"]), (&json!(count), &json!(4)));

    // The graph that was built of what came, against comparing every vector.
    let (mut found, mut all) = (0, 0);
    let snapshot = updater.live().snapshot();
    for question in clusters(300, dim, 7).chunks(dim) {
        let body = json!({"vector": question, "k": 20, "model": fingerprint()});
        let reply = search(&app, &body).await.json();
        let mut truth: Vec<f32> = snapshot
            .passages()
            .map(|live| dpr_core::kernel::search::f32::inner_product(question, live.unwrap().1))
            .collect();
        truth.sort_unstable_by(|a, b| b.total_cmp(a));
        let hits = reply["hits"].as_array().unwrap();
        found += hits.iter().filter(|hit| hit["score"].as_f64().unwrap() as f32 >= truth[19]).count();
        all += 20;
    }
    let recall = found as f64 / all as f64;
    println!("{} searches, recall@20 {recall:.4}", searches.load(Ordering::Relaxed));
    assert!(recall >= 0.98, "recall@20 {recall}");
}
