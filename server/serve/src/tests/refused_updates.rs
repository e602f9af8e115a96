//! Updates that are refused: the code, what is said of them, and what to do.

use std::time::Duration;

use tokio_util::io::ReaderStream;

use super::updates::{adding, built, change, serve, serve_model, serve_with};
use super::*;
use crate::Limits;
use dpr_index::VectorIndex as _;

/// Method, body, status, code, what the message holds.
#[tokio::test]
async fn each_kind_of_bad_update_has_its_code_and_changes_nothing() {
    let (_dir, index) = built();
    let (app, updater) = serve(&index, None);
    let one = |vector: Value| json!({"id": "a", "title": "", "text": "Text.", "vector": vector});
    let fine = one(json!([1, 2, 3, 4]));
    let with = |field: &str, value: Value| {
        let mut passage = fine.clone();
        passage[field] = value;
        adding(&[json!({"id": "b", "text": "Text.", "vector": [1, 2, 3, 4]}), passage])
    };
    let cases = [
        ("POST", json!([]), 400, "invalid_json", "not an update"),
        ("POST", json!({"passages": []}), 400, "invalid_json", "model"),
        ("POST", with("vectors", json!([])), 400, "invalid_json", "vectors"),
        ("POST", with("id", json!(7)), 400, "invalid_json", "string"),
        ("POST", with("metadata", json!({"a": {"b": 1}})), 400, "invalid_json", "field `a` is an object"),
        ("POST", with("metadata", json!({"a": null})), 400, "invalid_json", "field `a` is null"),
        ("POST", with("metadata", json!({"x".repeat(65): 1})), 400, "invalid_json", "must have 1 to 64"),
        (
            "POST",
            with("metadata", json!({"a": "x".repeat(70_000)})),
            400,
            "invalid_json",
            "more than 65536 bytes",
        ),
        ("POST", json!({"model": "beef", "passages": [fine]}), 409, "wrong_model", "beef"),
        ("POST", adding(&[]), 422, "invalid_passage", "at least one"),
        ("POST", with("vector", json!([1, 2, 3])), 422, "invalid_vector", "`passages[1].vector`"),
        ("POST", with("vector", json!([0, 0, 0, 0])), 422, "invalid_vector", "zero"),
        ("POST", with("vector", json!([1, null, 3, 4])), 422, "invalid_vector", "NaN"),
        ("POST", with("vector", json!("AADAfwAAgD8AAIA/AACAPw==")), 422, "invalid_vector", "not finite"),
        ("POST", with("vector", json!([3e38, 2e38, 0, 0])), 422, "invalid_vector", "overflow"),
        ("POST", with("vector", Value::Null), 422, "invalid_passage", "no passage encoder"),
        ("POST", with("id", json!("b")), 422, "invalid_passage", "`b` is at row 0 and again at row 1"),
        ("POST", with("id", json!(" ")), 422, "invalid_passage", "blank id"),
        (
            "POST",
            with("id", json!("a\nb")),
            422,
            "invalid_passage",
            "the passage at 1 has the control character",
        ),
        ("POST", with("text", json!("")), 422, "invalid_passage", "blank text"),
        ("POST", with("text", json!("x".repeat((1 << 20) + 1))), 422, "invalid_passage", "has 1048577 bytes"),
        ("POST", adding(&[json!({"id": "a", "text": "T."})]), 422, "invalid_passage", "no passage encoder"),
        ("DELETE", json!({"ids": []}), 422, "invalid_passage", "`ids` is empty"),
        ("DELETE", json!({"ids": ["p1", "p1"]}), 422, "invalid_passage", "the id `p1` is given twice"),
        ("DELETE", json!({"ids": ["p1", "nobody"]}), 404, "unknown_passage", "`nobody`"),
        ("DELETE", json!({"id": "p1"}), 400, "invalid_json", "id"),
    ];
    for (method, body, status, code, says) in cases {
        let reply = send(&app, change(method, &body)).await;
        assert_eq!(reply.error(), (status, code.to_owned()), "{method} {says}: {}", reply.text());
        assert!(reply.message().contains(says), "{method} {says}: {}", reply.message());
    }
    let text = adding(&[one(json!([1, 0.5, 0, 0]))]).to_string().replace("0.5", "1e999");
    let request = Request::post("/v1/passages").header("content-type", "application/json");
    let reply = send(&app, request.body(Body::from(text)).unwrap()).await;
    assert_eq!(reply.error(), (422, "invalid_vector".into()));
    let empty = Request::delete("/v1/passages").body(Body::empty()).unwrap();
    assert_eq!(send(&app, empty).await.error(), (400, "empty_body".into()));
    let snapshot = updater.live().snapshot();
    assert_eq!((snapshot.len(), snapshot.changes()), (20, 0));
}

/// Method, body, what the message holds, what the advice holds.
#[tokio::test]
async fn each_kind_of_bad_update_is_told_what_to_do_about_it() {
    let (_dir, index) = built();
    let (app, _updater) = serve(&index, None);
    let fine = json!({"id": "a", "title": "", "text": "Text.", "vector": [1, 2, 3, 4]});
    let with = |field: &str, value: Value| {
        let mut passage = fine.clone();
        passage[field] = value;
        adding(&[json!({"id": "b", "text": "Text.", "vector": [1, 2, 3, 4]}), passage])
    };
    let form = r#"send {"model": "fingerprint", "passages": [{"id""#;
    let other = json!({"model": "beef", "passages": [{"id": "a", "text": "Text."}]});
    let cases = [
        ("POST", json!([]), "the body is not an update: ", form),
        (
            "POST",
            with("id", json!(7)),
            "`passages[1].id`: invalid type: integer `7`, expected a string",
            form,
        ),
        (
            "POST",
            with("title", Value::Null),
            "`passages[1].title`: invalid type: null, expected a string",
            form,
        ),
        ("POST", with("vector", json!(true)), "`passages[1].vector`: invalid type: boolean `true`", form),
        ("POST", with("vectors", json!([])), "`passages[1]`: unknown field `vectors`", form),
        ("POST", adding(&[json!({"id": "a"})]), "`passages[0]`: missing field `text`", form),
        (
            "POST",
            json!({"model": fingerprint(), "passages": 7}),
            "`passages`: invalid type: integer `7`",
            form,
        ),
        (
            "POST",
            with("vector", json!([1, 2])),
            "has 2 numbers, expected 4: was the passage encoded with another model?",
            "send the passage encoder's output as it is",
        ),
        (
            "POST",
            other,
            "the update is for an index of model beef, this index is of model",
            "of GET /v1/index",
        ),
        ("POST", with("id", json!("i".repeat(5000))), "`passages[1].id` has 5000 bytes; ", "shorten the id;"),
        (
            "POST",
            with("title", json!("t".repeat(70_000))),
            "`passages[1].title` has 70000 bytes; an index takes at most 65536",
            "shorten the title;",
        ),
        (
            "POST",
            with("text", json!("x".repeat((1 << 20) + 1))),
            "`passages[1].text` has 1048577 bytes; ",
            "split the text into several passages",
        ),
        ("POST", with("id", json!("a\nb")), "the control character U+000A", "an id (no control characters)"),
        ("POST", with("vector", Value::Null), "no passage encoder", "vectors where the server encodes none"),
        ("DELETE", json!([]), "the body is not a deletion: ", r#"send {"ids": ["..."]}"#),
        (
            "DELETE",
            json!({"ids": ["p1", 7]}),
            "`ids[1]`: invalid type: integer `7`, expected a string",
            r#"send {"ids": ["..."]}"#,
        ),
        ("DELETE", json!({"ids": []}), "`ids` is empty", "send the ids of passages, at least one"),
        (
            "DELETE",
            json!({"ids": ["p1", "p2", "p1"]}),
            "the id `p1` is given twice, as ids[0] and ids[2]",
            "once",
        ),
    ];
    for (method, body, says, fix) in cases {
        let reply = send(&app, change(method, &body)).await;
        assert!(reply.message().contains(says), "{method} {says}: {}", reply.text());
        assert!(reply.fix().contains(fix), "{method} {says}: {}", reply.text());
        let is_whole = says.starts_with("the body is not");
        assert!(is_whole || !reply.message().contains(" column "), "{}", reply.message());
    }
    let empty = Request::delete("/v1/passages").body(Body::empty()).unwrap();
    assert_eq!(send(&app, empty).await.fix(), r#"send {"ids": ["..."]}"#);
}

#[tokio::test]
async fn an_update_over_the_limit_of_a_body_is_to_be_sent_in_parts() {
    let (_dir, index) = built();
    let limits = Limits { max_body: 100, ..Limits::default() };
    let (app, _updater) = serve_with(Options { limits, ..Options::default() }, &index, None);
    let passages = adding(&[json!({"id": "a", "text": "x".repeat(100)})]);
    let ids = json!({"ids": ["x".repeat(100)]});
    for (method, body, fix) in [("POST", passages, "fewer passages"), ("DELETE", ids, "fewer ids")] {
        let reply = send(&app, change(method, &body)).await;
        assert_eq!(reply.error(), (413, "body_too_large".into()));
        assert!(reply.fix().contains(fix), "{}", reply.text());
    }
}

#[tokio::test]
async fn an_update_whose_body_stops_half_way_is_told_that_nothing_was_changed() {
    let (_dir, index) = built();
    let limits = Limits { timeout: Duration::from_millis(50), ..Limits::default() };
    let (app, updater) = serve_with(Options { limits, ..Options::default() }, &index, None);
    for (method, fix) in [
        ("POST", "with fewer `passages` in a body; nothing was changed"),
        ("DELETE", "with fewer `ids` in a body; nothing was deleted"),
    ] {
        // The body goes on as long as its other end is there.
        let (_other_end, end) = tokio::io::duplex(64);
        let mut request = change(method, &json!({}));
        *request.body_mut() = Body::from_stream(ReaderStream::new(end));
        let reply = send(&app, request).await;
        assert_eq!(reply.error(), (503, "timeout".into()), "{method}");
        assert_eq!(reply.message(), "the body did not arrive within 50 ms", "{method}");
        assert!(reply.fix().contains(fix), "{method}: {}", reply.text());
    }
    assert_eq!(updater.live().snapshot().changes(), 0);
}

#[cfg(unix)]
#[tokio::test]
async fn a_server_whose_index_has_lost_its_lock_says_that_it_must_be_restarted() {
    let (_dir, index) = built();
    let (app, _updater) = serve(&index, None);
    let delete = || change("DELETE", &json!({"ids": ["p0"]}));
    assert!(get(&app, "/metrics").await.text().contains("dpr_updates_broken 0"));
    fs_err::remove_file(index.join(dpr_files::DirLock::NAME)).unwrap();
    for _ in 0..2 {
        let reply = send(&app, delete()).await;
        assert_eq!(reply.error(), (500, "internal".into()));
        assert!(reply.message().contains("none can be until the server is restarted"), "{}", reply.text());
        assert!(reply.fix().contains("after a restart") && !reply.fix().contains("try again"));
    }
    assert!(get(&app, "/metrics").await.text().contains("dpr_updates_broken 1"));
    let unready = get(&app, "/readyz").await;
    assert_eq!(unready.error(), (503, "unhealthy".into()));
    assert!(unready.message().contains("refused until a restart"), "{}", unready.text());
    assert_eq!(search(&app, &good()).await.status, StatusCode::OK, "searches go on");
}

#[tokio::test]
async fn a_vector_that_is_longer_than_those_of_a_normalized_model_is_refused() {
    let (dir, index) = built();
    let normalized = model_from(dir.path(), None, true);
    let (app, updater) = serve_model(Options::default(), &index, None, normalized);
    let put =
        |vector: Value| change("POST", &adding(&[json!({"id": "a", "text": "Text.", "vector": vector})]));
    for long in [json!([9e9, 0, 0, 0]), json!([1, 0, 0, 0.2]), json!([1e30, 1e30, 1e30, 1e30])] {
        let reply = send(&app, put(long.clone())).await;
        assert_eq!(reply.error(), (422, "invalid_vector".into()), "{long}");
        let text = reply.text();
        assert!(text.contains("`passages[0].vector` has length") && text.contains("1 at most"), "{text}");
    }
    assert_eq!(updater.live().snapshot().changes(), 0);
    // A vector of length 1 after rounding, and a truncated vector, which is shorter.
    for fine in [json!([1, 0, 0.1, 0]), json!([0.3, 0.3, 0, 0])] {
        assert_eq!(send(&app, put(fine.clone())).await.status, StatusCode::OK, "{fine}");
    }
}
