//! `POST /v1/search` with one client.

use super::*;
use crate::Limits;

#[tokio::test]
async fn a_vector_finds_passages_best_first() {
    let (app, _dir) = ready(Options::default());
    let reply = search(&app, &good()).await;
    assert_eq!(reply.status, StatusCode::OK);
    let body = reply.json();
    let hits = body["hits"].as_array().unwrap();
    assert_eq!(hits.iter().map(|hit| hit["id"].as_str().unwrap()).collect::<Vec<_>>(), ["p0", "p1", "p2"]);
    assert_eq!(hits[1]["score"], 0.5);
    assert_eq!(hits[0]["title"], "Title 0");
    assert!(body["took_ms"].as_f64().unwrap() >= 0.0);
    assert!(reply.header("server-timing").contains("search;dur="), "{}", reply.header("server-timing"));
    assert_eq!(reply.header("cache-control"), "no-store");
}

#[tokio::test]
async fn a_batch_is_answered_in_its_order_and_k_defaults_to_ten() {
    let (app, _dir) = ready(Options::default());
    let body = json!({"vectors": [[1, 0, 0, 0], [4, 0, 0, 0]], "model": fingerprint()});
    let reply = search(&app, &body).await.json();
    let results = reply["results"].as_array().unwrap();
    assert_eq!((results.len(), results[0]["hits"].as_array().unwrap().len()), (2, 10));
    assert_eq!(
        (&results[0]["hits"][0]["score"], &results[1]["hits"][0]["score"]),
        (&json!(1.0), &json!(4.0))
    );
    assert!(reply.get("hits").is_none());
}

#[tokio::test]
async fn a_bad_body_has_a_status_a_code_and_a_fix() {
    let (app, _dir) = ready(Options::default());
    let with = |field: &str, value: Value| {
        let mut body = good();
        body[field] = value;
        body.to_string()
    };
    let cases = [
        (String::new(), (400, "empty_body")),
        ("{\"vector\":".into(), (400, "invalid_json")),
        (with("limit", json!(3)), (400, "invalid_json")),
        (with("vector", json!(vec![1.0; 767])), (422, "invalid_vector")),
        (with("vector", json!([0, 0, 0, 0])), (422, "invalid_vector")),
        (with("vector", json!("AADAfwAAgD8AAIA/AACAPw==")), (422, "invalid_vector")),
        (good().to_string().replace("0.5", "1e999"), (422, "invalid_vector")),
        (with("vector", json!([3e38, 2e38, 0, 0])), (422, "invalid_vector")),
        (with("k", json!(0)), (422, "invalid_k")),
        (with("k", json!(1001)), (422, "invalid_k")),
        (with("model", json!("0".repeat(64))), (409, "wrong_model")),
        (with("question", json!("who won super bowl 50")), (403, "text_search_disabled")),
    ];
    for (body, (status, code)) in cases {
        let reply = send(&app, post(body.clone())).await;
        assert_eq!(reply.error(), (status, code.to_owned()), "{body}");
        assert!(!reply.text().contains("super bowl"), "a question must not be echoed");
    }
}

#[tokio::test]
async fn a_bad_batch_or_a_body_over_the_limit_is_told_what_to_do() {
    let (app, _dir) = ready(Options::default());
    for count in [0, 65] {
        let reply =
            search(&app, &json!({"vectors": vec![[1, 0, 0, 0]; count], "model": fingerprint()})).await;
        assert_eq!(reply.error(), (422, "invalid_vector".into()));
        assert_eq!(reply.fix(), "send 1 to 64 vectors in a body");
        assert!(reply.message().contains(&format!("`vectors` holds {count} vectors")), "{}", reply.text());
    }
    let wrong = search(&app, &json!({"vector": [1, 0], "model": fingerprint()})).await;
    assert!(wrong.message().contains("was the question encoded with another model?"), "{}", wrong.text());
    assert!(wrong.fix().contains("the question encoder's output"), "{}", wrong.text());
    let limits = Limits { max_body: 10, ..Limits::default() };
    let (app, _dir) = ready(Options { limits, ..Options::default() });
    assert!(search(&app, &good()).await.fix().contains("fewer vectors"));
}

#[tokio::test]
async fn a_wrong_model_is_told_both_fingerprints() {
    let (app, _dir) = ready(Options::default());
    let mut body = good();
    body["model"] = json!("0".repeat(64));
    let message = search(&app, &body).await.message();
    assert!(message.contains("000000000000…") && message.contains(&fingerprint()[..12]), "{message}");
}

#[tokio::test]
async fn the_content_type_must_be_json() {
    let (app, _dir) = ready(Options::default());
    for media_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let request = Request::post("/v1/search").header("content-type", media_type);
        let reply = send(&app, request.body(Body::from(good().to_string())).unwrap()).await;
        assert_eq!(reply.error(), (415, "unsupported_media_type".into()), "{media_type}");
    }
    let request = Request::post("/v1/search").header("content-type", "application/json; charset=utf-8");
    let reply = send(&app, request.body(Body::from(good().to_string())).unwrap()).await;
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_one_at_the_limit_is_not() {
    let body = good().to_string();
    for (limit, status) in [(body.len(), 200), (body.len() - 1, 413)] {
        let limits = Limits { max_body: limit, ..Limits::default() };
        let (app, _dir) = ready(Options { limits, ..Options::default() });
        let reply = send(&app, post(body.clone())).await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
        if status == 413 {
            assert_eq!(reply.error().1, "body_too_large");
            assert!(reply.message().contains(&limit.to_string()));
        }
    }
}

#[tokio::test]
async fn a_question_in_the_address_is_refused() {
    let (app, _dir) = ready(Options::default());
    let mut request = post(good().to_string());
    *request.uri_mut() = "/v1/search?q=who+won".parse().unwrap();
    let reply = send(&app, request).await;
    assert_eq!(reply.error(), (400, "unexpected_query".into()));
    assert!(reply.message().contains("no query string") && !reply.text().contains("who"), "{}", reply.text());
    assert_eq!(get(&app, "/v1/search?q=who+won").await.error(), (405, "method_not_allowed".into()));
}

#[tokio::test]
async fn a_panic_in_a_search_is_one_500_and_the_next_search_works() {
    let (app, _dir) = ready(Options::default());
    let mut body = good();
    body["vector"][0] = json!(PANICS);
    assert_eq!(search(&app, &body).await.error(), (500, "internal".into()));
    assert_eq!(search(&app, &good()).await.status, StatusCode::OK);
}
