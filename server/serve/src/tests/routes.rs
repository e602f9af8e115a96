//! The small routes, and what holds for all of them.

use super::*;
use crate::Origins;

#[tokio::test]
async fn the_index_is_described() {
    let (app, _dir) = ready(Options::default());
    assert_eq!(
        get(&app, "/v1/index").await.json(),
        json!({"count": 20, "dim": 4, "kind": "exact", "model": fingerprint(),
               "metric": "inner_product", "version": "v-1", "number": 1, "added": 0, "removed": 0, "changes": 0})
    );
    assert_eq!(get(&app, "/readyz").await.json(), json!({"status": "ok"}));
}

#[tokio::test]
async fn metrics_count_by_route_and_status_and_hold_no_address_as_sent() {
    let (app, _dir) = ready(Options::default());
    search(&app, &good()).await;
    search(&app, &json!({})).await;
    get(&app, "/v1/nothing/secret-question?q=secret-question").await;
    let text = get(&app, "/metrics").await.text();
    for line in [
        r#"dpr_http_requests_total{method="POST",route="/v1/search",status="200"} 1"#,
        r#"dpr_http_requests_total{method="POST",route="/v1/search",status="400"} 1"#,
        r#"dpr_http_requests_total{method="GET",route="page",status="404"} 1"#,
        "dpr_index_passages 20",
        "dpr_index_version 1",
        "dpr_index_added 0",
        "dpr_index_removed 0",
        "dpr_search_seconds_count 1",
        "dpr_search_queue_seconds_count 1",
        "# EOF",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
    assert!(!text.contains("secret-question"));
}

#[tokio::test]
async fn unknown_paths_and_methods_are_errors_in_json() {
    let (app, _dir) = ready(Options::default());
    for path in ["/v1/encode", "/v1", "/", "/index.html"] {
        assert_eq!(get(&app, path).await.error(), (404, "not_found".into()), "{path}");
    }
    let delete = Request::delete("/v1/index").body(Body::empty()).unwrap();
    let reply = send(&app, delete).await;
    assert_eq!(reply.error(), (405, "method_not_allowed".into()));
    assert!(reply.header("allow").contains("GET"), "{:?}", reply.headers);
}

#[tokio::test]
async fn answers_are_compressed_for_those_who_ask() {
    let (app, _dir) = ready(Options::default());
    let mut many = good();
    many["k"] = json!(10);
    let mut request = post(many.to_string());
    request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
    let packed = send(&app, request).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    assert!(packed.body.starts_with(&[0x1f, 0x8b]));
    let plain = search(&app, &many).await;
    assert_eq!(plain.header("content-encoding"), "");
    assert!(plain.body.len() > packed.body.len());
}

#[tokio::test]
async fn other_origins_are_allowed_only_when_told() {
    let preflight = |origin: &str| {
        Request::options("/v1/search")
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type")
            .body(Body::empty())
            .unwrap()
    };
    let (own, _dir) = ready(Options::default());
    let reply = send(&own, preflight("https://other.example")).await;
    assert_eq!(reply.header("access-control-allow-origin"), "");
    assert_eq!(get(&own, "/healthz").await.header("cross-origin-resource-policy"), "same-origin");

    let origins = Origins::parse(&["https://other.example".into()]).unwrap();
    let (listed, _dir) = ready(Options { origins, ..Options::default() });
    let reply = send(&listed, preflight("https://other.example")).await;
    assert_eq!(reply.header("access-control-allow-origin"), "https://other.example");
    assert_eq!(reply.header("access-control-allow-headers"), "content-type,range,if-none-match,if-range");
    let reply = send(&listed, preflight("https://third.example")).await;
    assert_eq!(reply.header("access-control-allow-origin"), "");

    let (any, _dir) = ready(Options { origins: Origins::Any, ..Options::default() });
    let mut request = post(good().to_string());
    request.headers_mut().insert("origin", "https://third.example".parse().unwrap());
    let reply = send(&any, request).await;
    assert_eq!(reply.header("access-control-allow-origin"), "*");
    let exposed = reply.header("access-control-expose-headers");
    assert!(exposed.contains("etag") && exposed.contains("server-timing"), "{exposed}");
    assert_eq!(reply.header("cross-origin-resource-policy"), "cross-origin");
}

#[tokio::test]
async fn the_openapi_document_names_every_route() {
    let (app, _dir) = ready(Options::default());
    let document = get(&app, "/openapi.json").await.json();
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    for path in [
        "/v1/search",
        "/v1/passages",
        "/v1/model",
        "/v1/model/files/{sha256}/{name}",
        "/v1/index",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
    ] {
        assert!(paths.iter().any(|found| *found == path), "{path} not among {paths:?}");
    }
    let fields = document["components"]["schemas"]["SearchRequest"]["properties"].as_object().unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["filter", "k", "model", "vector", "vectors"]);
}
