//! The small routes, and what holds for all of them.

use std::io::Read as _;

use super::keys::{ROUTES, is_at};
use super::*;
use crate::{Limits, Origins, metrics_app};

#[tokio::test]
async fn the_index_is_described() {
    let (app, _dir) = ready(Options::default());
    assert_eq!(
        get(&app, "/v1/index").await.json(),
        json!({"count": 20, "dim": 4, "kind": "exact", "model": fingerprint(),
               "metric": "inner_product", "version": "v-1", "number": 1, "added": 0, "removed": 0, "changes": 0,
               "plain": true})
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
    assert_eq!(packed.header("vary"), "accept-encoding");
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    let plain = search(&app, &many).await;
    assert_eq!((plain.header("content-encoding"), plain.header("vary")), ("", "accept-encoding"));
    let hits = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap()["hits"].clone();
    assert_eq!(hits(&unpacked), hits(&plain.body));
    assert!(plain.body.len() > packed.body.len());
    let small = send(&app, {
        let mut request = post(good().to_string().replace("\"k\":3", "\"k\":1"));
        request.headers_mut().insert("accept-encoding", "gzip".parse().unwrap());
        request
    });
    assert_eq!(small.await.header("content-encoding"), "", "a small one gains nothing");
}

#[tokio::test]
async fn an_answer_of_too_many_bytes_is_refused_with_the_way_out() {
    let whole = {
        let (app, _dir) = ready(Options::default());
        search(&app, &good()).await.body.len()
    };
    // The time it took is a number of some digits.
    for (limit, status) in [(whole + 16, 200), (whole - 16, 422), (0, 422)] {
        let limits = Limits { max_answer: limit, ..Limits::default() };
        let (app, _dir) = ready(Options { limits, ..Options::default() });
        let reply = search(&app, &good()).await;
        assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
        if status == 422 {
            assert_eq!(reply.error().1, "answer_too_large");
            assert!(reply.message().contains("k = 3") && reply.message().contains(&limit.to_string()));
            assert!(reply.json()["error"]["fix"].as_str().unwrap().contains("smaller `k`"));
        }
    }
}

#[tokio::test]
async fn a_server_of_vectors_made_elsewhere_has_no_model() {
    let state = AppState::new(Options::default());
    assert!(state.publish(Arc::new(FakeSearch { before: Box::new(|| {}) }), None));
    let app = app(state);
    for path in ["/v1/model", "/v1/model/small", "/v1/model/files/abc/config.json"] {
        assert_eq!(get(&app, path).await.error(), (404, "no_model".into()), "{path}");
    }
    assert_eq!(search(&app, &good()).await.status, StatusCode::OK);
    assert_eq!(get(&app, "/v1/index").await.json()["model"], json!(fingerprint()));
}

#[tokio::test]
async fn files_of_the_model_are_found_where_the_routes_are_mounted() {
    let (app, _dir) = ready(Options::default());
    let nested = Router::new().nest("/a/search", app);
    let body = get(&nested, "/a/search/v1/model").await.json();
    let encoder = &body["encoder"];
    for file in [&encoder["config"], &encoder["tokenizer"], &encoder["vocabulary"], &body["weights"]["q8"]] {
        let url = file["url"].as_str().unwrap();
        assert!(url.starts_with("/a/search/v1/model/files/"), "{url}");
        assert_eq!(get(&nested, url).await.body.len() as u64, file["bytes"].as_u64().unwrap());
    }
}

#[tokio::test]
async fn each_answer_has_the_id_of_its_request() {
    let (app, _dir) = ready(Options::default());
    for path in ["/v1/index", "/healthz", "/nothing"] {
        assert_eq!(
            get_with(&app, path, &[("x-request-id", "mine-1")]).await.header("x-request-id"),
            "mine-1"
        );
        let made = get(&app, path).await.header("x-request-id").to_owned();
        assert!(made.len() == 21 && made != get(&app, path).await.header("x-request-id"), "{made}");
    }
}

#[tokio::test]
async fn metrics_and_health_checks_may_be_apart() {
    let directory = tempfile::tempdir().unwrap();
    let state = AppState::new(Options { metrics_apart: true, ..Options::default() });
    state.publish(Arc::new(FakeSearch { before: Box::new(|| {}) }), model(directory.path(), true));
    let (public, apart) = (app(state.clone()), metrics_app(state));
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(get(&public, path).await.error(), (404, "not_found".into()), "{path}");
        assert_eq!(get(&apart, path).await.status, StatusCode::OK, "{path}");
    }
    for path in ["/v1/index", "/v1/model", "/openapi.json", "/"] {
        assert_eq!(get(&apart, path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    assert_eq!(get(&public, "/v1/index").await.status, StatusCode::OK);
    let text = get(&apart, "/metrics").await.text();
    assert!(text.contains(r#"route="/v1/index",status="200"} 1"#), "{text}");
}

#[tokio::test]
async fn counters_apart_are_told_under_the_own_names_alone() {
    let hosts = crate::Hosts::new("127.0.0.1:1".parse().unwrap(), &[]).unwrap();
    let apart = metrics_app(AppState::new(Options { metrics_apart: true, hosts, ..Options::default() }));
    let reply = get_with(&apart, "/metrics", &[("host", "evil.example")]).await;
    assert_eq!(reply.error(), (421, "unknown_host".into()));
    assert_eq!(get_with(&apart, "/metrics", &[("host", "localhost:9")]).await.status, StatusCode::OK);
    assert_eq!(get_with(&apart, "/healthz", &[("host", "evil.example")]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn counters_apart_are_told_under_the_address_of_their_own_socket() {
    let [hosts, metrics] = ["10.0.0.4:443", "10.0.0.5:9090"]
        .map(|address| crate::Hosts::new(address.parse().unwrap(), &[]).unwrap());
    let metrics_hosts = Some(metrics);
    let options = Options { metrics_apart: true, hosts, metrics_hosts, ..Options::default() };
    let state = AppState::new(options);
    for (app, path, own, other) in [
        (metrics_app(state.clone()), "/metrics", "10.0.0.5:9090", "10.0.0.4"),
        (app(state), "/openapi.json", "10.0.0.4", "10.0.0.5:9090"),
    ] {
        assert_eq!(get_with(&app, path, &[("host", own)]).await.status, StatusCode::OK, "{path}");
        let reply = get_with(&app, path, &[("host", other)]).await;
        assert_eq!(reply.error(), (421, "unknown_host".into()), "{path}");
    }
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
    assert_eq!(
        reply.header("access-control-allow-headers"),
        "content-type,range,if-none-match,if-range,authorization,x-api-key,x-request-id"
    );
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
    let paths = document["paths"].as_object().unwrap();
    for (method, path, _) in ROUTES {
        // Files of the page, a path of no route, and what comes with GET.
        if ["/", "/index.html", "/v1/other"].contains(&path) || method == "HEAD" {
            continue;
        }
        let is_named = |(template, methods): (&String, &Value)| {
            is_at(template, path) && methods.get(method.to_ascii_lowercase()).is_some()
        };
        assert!(paths.iter().any(is_named), "{method} {path} not among {paths:?}");
    }
    let fields = document["components"]["schemas"]["SearchRequest"]["properties"].as_object().unwrap();
    assert_eq!(fields.keys().collect::<Vec<_>>(), ["filter", "k", "model", "vector", "vectors"]);
}
