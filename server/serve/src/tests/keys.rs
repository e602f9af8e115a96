//! Tests of rights: every route, with every kind of key, from every kind of origin; hosts, and rates.

use super::*;
use crate::{Access, Hosts, KeySources, NewKey, Origins, Rate, Scope};

/// A key of each scope, and the file that lists them.
pub(super) struct KeyBox {
    keys: Vec<(Scope, NewKey)>,
    file: tempfile::NamedTempFile,
}

impl KeyBox {
    pub(super) fn new() -> Self {
        let scopes = [Scope::Search, Scope::Write, Scope::Admin];
        let keys: Vec<_> = scopes.map(|scope| (scope, NewKey::generate().unwrap())).into();
        let file = tempfile::NamedTempFile::new().unwrap();
        let text: String = keys.iter().map(|(scope, key)| key.entry(scope.name(), &[*scope])).collect();
        fs_err::write(file.path(), text).unwrap();
        Self { keys, file }
    }

    pub(super) fn access(&self, open_search: bool) -> Access {
        let file = Some(self.file.path().to_owned());
        Access::new(KeySources { file, open_search, ..KeySources::default() }).unwrap()
    }

    pub(super) fn of(&self, scope: Scope) -> &str {
        self.keys.iter().find(|(of, _)| *of == scope).unwrap().1.secret()
    }
}

/// Method, path, and the scopes each of which opens it.
pub(super) const ROUTES: [(&str, &str, Option<&[Scope]>); 25] = [
    ("POST", "/v1/search", Some(&[Scope::Search])),
    ("POST", "/v1/search/text", Some(&[Scope::Search])),
    ("POST", "/v1/answer", Some(&[Scope::Search])),
    ("GET", "/v1/model", Some(&[Scope::Search])),
    ("HEAD", "/v1/model", Some(&[Scope::Search])),
    ("GET", "/v1/model/small", Some(&[Scope::Search])),
    ("GET", "/v1/model/files/abc/config.json", Some(&[Scope::Search])),
    ("GET", "/v1/index", Some(&[Scope::Search])),
    ("GET", "/v1/private", Some(&[Scope::Search])),
    ("GET", "/v1/private/files/abc/projection.f16", Some(&[Scope::Search])),
    ("POST", "/v1/private/candidates", Some(&[Scope::Search])),
    ("GET", "/v1/encrypted", Some(&[Scope::Search])),
    ("GET", "/v1/encrypted/files/abc/ranks.bin", Some(&[Scope::Search])),
    ("GET", "/v1/encrypted/delta/abc", Some(&[Scope::Search])),
    ("POST", "/v1/encrypted/rank", Some(&[Scope::Search])),
    ("POST", "/v1/encrypted/fetch", Some(&[Scope::Search])),
    ("POST", "/v1/passages", Some(&[Scope::Write])),
    ("DELETE", "/v1/passages", Some(&[Scope::Write])),
    ("GET", "/metrics", Some(&[Scope::Admin])),
    ("GET", "/openapi.json", Some(&[Scope::Search, Scope::Write, Scope::Admin])),
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/", None),
    ("GET", "/index.html", None),
    ("GET", "/v1/other", None),
];

/// The answer to a request with a key, as far as keys matter.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    NoKey,
    NoScope,
}

impl Verdict {
    pub(super) fn expected(needed: Option<&[Scope]>, sent: Option<Scope>, open_search: bool) -> Self {
        match (needed, sent) {
            (None, _) => Self::Passed,
            (Some([Scope::Search]), _) if open_search => Self::Passed,
            (Some(scopes), Some(sent)) if scopes.contains(&sent) => Self::Passed,
            (Some(_), Some(_)) => Self::NoScope,
            (Some(_), None) => Self::NoKey,
        }
    }

    /// Reads the verdict in an answer; a challenge goes with each refusal.
    pub(super) fn of(status: u16, body: &str, challenge: &str) -> Self {
        // What a handler refuses for its own reasons has passed.
        let verdict = match status {
            401 => Self::NoKey,
            403 if body.contains("missing_scope") => Self::NoScope,
            _ => return Self::Passed,
        };
        assert!(challenge.starts_with("Bearer"), "{challenge}");
        verdict
    }
}

/// Returns whether a path is one of those that the template of a route, as in the OpenAPI document, stands for.
pub(super) fn is_at(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template.zip(path).all(|(part, found)| part.starts_with('{') || part == found)
}

#[test]
fn every_route_of_the_interface_is_in_the_table() {
    let document: Value = serde_json::from_str(&crate::openapi_document()).unwrap();
    for (template, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let is_listed = |(of, path, _): &(&str, &str, Option<&[Scope]>)| {
                of.eq_ignore_ascii_case(method) && is_at(template, path)
            };
            assert!(ROUTES.iter().any(is_listed), "{method} {template}");
        }
    }
}

#[tokio::test]
async fn every_route_is_open_to_the_keys_of_its_scope_from_every_origin() {
    let keys = KeyBox::new();
    let origin = "https://page.example";
    let page = Origins::parse(&[origin.to_owned()]).unwrap();
    let mut checked = 0;
    for (origins, open_search) in
        [(Origins::Own, false), (page, false), (Origins::Any, false), (Origins::Own, true)]
    {
        let (any, listed) = (origins == Origins::Any, matches!(origins, Origins::Listed(_)));
        let (app, _dir) = ready(Options { access: keys.access(open_search), origins, ..Options::default() });
        for (method, path, needed) in ROUTES {
            for sent in [None, Some(Scope::Search), Some(Scope::Write), Some(Scope::Admin)] {
                for from in ["", origin] {
                    for header in ["authorization", "x-api-key"] {
                        let mut request = Request::builder().method(method).uri(path);
                        if let Some(scope) = sent {
                            let scheme = if header == "authorization" { "Bearer " } else { "" };
                            request = request.header(header, format!("{scheme}{}", keys.of(scope)));
                        }
                        if !from.is_empty() {
                            request = request.header("origin", from);
                        }
                        let reply = send(&app, request.body(Body::empty()).unwrap()).await;
                        let challenge = reply.header("www-authenticate").to_owned();
                        // HEAD has no body to tell one refusal from another by.
                        let body =
                            if challenge.contains("scope") { "missing_scope".into() } else { reply.text() };
                        let verdict = Verdict::of(reply.status.as_u16(), &body, &challenge);
                        let expected = Verdict::expected(needed, sent, open_search);
                        assert_eq!(
                            verdict,
                            expected,
                            "{method} {path} {sent:?} {from} {header}: {}",
                            reply.text()
                        );
                        let is_readable = !reply.header("access-control-allow-origin").is_empty();
                        assert_eq!(
                            is_readable,
                            path != "/v1/passages" && (any || (listed && from == origin))
                        );
                        checked += 1;
                    }
                }
            }
        }
    }
    assert_eq!(checked, 4 * ROUTES.len() * 4 * 2 * 2);
}

#[tokio::test]
async fn keys_cannot_be_guessed_quickly_and_known_ones_pass_meanwhile() {
    use axum::extract::ConnectInfo;
    let keys = KeyBox::new();
    let (app, _dir) = ready(Options { access: keys.access(false), ..Options::default() });
    let ask = async |key: &str, address: &str| {
        let request = Request::get("/v1/index").header("x-api-key", key);
        let peer: std::net::SocketAddr = address.parse().unwrap();
        send(&app, request.extension(ConnectInfo(peer)).body(Body::empty()).unwrap()).await
    };
    for guess in 0..30 {
        let reply = ask(&format!("guess-{guess}"), "192.0.2.7:1").await;
        assert_eq!(reply.error(), (401, "unauthorized".into()));
    }
    let reply = ask("guess-30", "192.0.2.7:2").await;
    assert_eq!(reply.error(), (429, "rate_limited".into()));
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(ask(keys.of(Scope::Search), "192.0.2.7:3").await.status, StatusCode::OK);
    assert_eq!(ask("guess-31", "192.0.2.8:1").await.error(), (401, "unauthorized".into()), "another address");
}

#[tokio::test]
async fn preflights_let_keys_through_for_allowed_origins_and_never_for_changes() {
    let keys = KeyBox::new();
    let origins = Origins::parse(&["https://page.example".to_owned()]).unwrap();
    let (app, _dir) = ready(Options { access: keys.access(false), origins, ..Options::default() });
    for (path, origin, allowed) in [
        ("/v1/search", "https://page.example", true),
        ("/v1/model", "https://page.example", true),
        ("/v1/search", "https://other.example", false),
        ("/v1/passages", "https://page.example", false),
    ] {
        let request = Request::options(path)
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "authorization,x-api-key");
        let reply = send(&app, request.body(Body::empty()).unwrap()).await;
        assert_eq!(reply.header("access-control-allow-origin") == origin, allowed, "{path} {origin}");
        if path == "/v1/passages" {
            assert_eq!(reply.header("access-control-allow-headers"), "");
        } else {
            let names = reply.header("access-control-allow-headers");
            assert!(names.contains("authorization") && names.contains("x-api-key"), "{names}");
        }
    }
}

#[tokio::test]
async fn a_key_that_is_taken_out_of_the_file_opens_nothing_more() {
    let keys = KeyBox::new();
    let state = AppState::new(Options { access: keys.access(false), ..Options::default() });
    let app = app(state.clone());
    let ask = async |key: &str| get_with(&app, "/metrics", &[("x-api-key", key)]).await;
    assert_eq!(ask(keys.of(Scope::Admin)).await.status, StatusCode::OK);
    fs_err::write(keys.file.path(), "[[key]]\nname = 1").unwrap();
    (0..3).for_each(|_| state.reload(None));
    let text = ask(keys.of(Scope::Admin)).await.text();
    assert!(text.contains(r#"dpr_reload_failures_total{file="keys"} 1"#), "{text}");
    let next = NewKey::generate().unwrap();
    fs_err::write(keys.file.path(), next.entry("next", &[Scope::Admin])).unwrap();
    (0..2).for_each(|_| state.reload(None));
    let refused = ask(keys.of(Scope::Admin)).await;
    assert_eq!(refused.error(), (401, "unauthorized".into()));
    assert!(!refused.text().contains(keys.of(Scope::Admin)), "what was sent is not echoed");
    assert_eq!(ask(next.secret()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn requests_for_other_hosts_are_refused_but_for_health_checks() {
    let hosts = Hosts::new("127.0.0.1:7878".parse().unwrap(), &["search.example.org".into()]).unwrap();
    let (app, _dir) = ready(Options { hosts, ..Options::default() });
    for path in ["/v1/index", "/v1/model", "/metrics", "/openapi.json", "/", "/v1/passages"] {
        for host in ["evil.example", "evil.example:7878"] {
            let reply = get_with(&app, path, &[("host", host)]).await;
            assert_eq!(reply.error(), (421, "unknown_host".into()), "{path}");
            assert!(reply.message().contains(host));
        }
        let reply = get_with(&app, path, &[("host", "search.example.org")]).await;
        assert_ne!(reply.status.as_u16(), 421, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get_with(&app, path, &[("host", "10.0.0.7")]).await.status, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn a_client_that_sends_too_much_waits_and_others_do_not() {
    let keys = KeyBox::new();
    let rate = Rate::new(0.01, 2);
    let access = keys.access(true);
    let (app, _dir) = ready(Options { access, rate, trusted_proxies: 1, ..Options::default() });
    let from = async |address: &str, key: &str| {
        get_with(&app, "/v1/index", &[("x-forwarded-for", address), ("x-api-key", key)]).await
    };
    for _ in 0..2 {
        assert_eq!(from("192.0.2.1", "").await.status, StatusCode::OK);
    }
    let refused = from("192.0.2.1", "").await;
    assert_eq!(refused.error(), (429, "rate_limited".into()));
    let seconds: u64 = refused.header("retry-after").parse().unwrap();
    assert!((90..=100).contains(&seconds), "{seconds}");
    assert_eq!(from("192.0.2.2", "").await.status, StatusCode::OK, "another address");
    assert_eq!(from("192.0.2.1, 192.0.2.3", "").await.status, StatusCode::OK, "what the client itself wrote");
    // A key counts by itself, wherever it comes from; a guessed one does not.
    let key = keys.of(Scope::Search);
    assert_eq!(from("192.0.2.1", key).await.status, StatusCode::OK);
    assert_eq!(from("192.0.2.9", key).await.status, StatusCode::OK);
    assert_eq!(from("192.0.2.8", key).await.error(), (429, "rate_limited".into()));
    assert_eq!(from("192.0.2.1", "a guess").await.error(), (429, "rate_limited".into()));
    for _ in 0..5 {
        let reply = get_with(&app, "/healthz", &[("x-forwarded-for", "192.0.2.1")]).await;
        assert_eq!(reply.status, StatusCode::OK, "health checks are not counted");
    }
    let metrics = [("x-api-key", keys.of(Scope::Admin)), ("x-forwarded-for", "192.0.2.7")];
    let text = get_with(&app, "/metrics", &metrics).await.text();
    for line in [
        r#"dpr_requests_refused_total{limit="address_rate"} 2"#,
        r#"dpr_requests_refused_total{limit="key_rate"} 1"#,
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
}
