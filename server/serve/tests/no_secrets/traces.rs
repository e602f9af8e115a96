//! Traces of the requests: spans, their attributes and their parents.

use std::collections::BTreeSet;

use crate::spans::Kept;
use crate::{Asked, SEEN};

/// Returns the spans of requests with this id.
fn of(asked: &Asked) -> Vec<&'static Kept> {
    SEEN.spans.iter().filter(|span| span.field("dpr.request_id") == Some(&asked.id)).collect()
}

/// Returns the route that a path belongs to, where it is not a page's.
fn route(path: &str) -> Option<String> {
    let path = path.split('?').next().unwrap();
    let files = path.split_once("/files/").map(|(before, _)| format!("{before}/files/{{sha256}}/{{name}}"));
    let delta = path.split_once("/delta/").map(|(before, _)| format!("{before}/delta/{{version}}"));
    let is_api = path.starts_with("/v1/");
    let is_other = ["/metrics", "/openapi.json", "/healthz", "/readyz"].contains(&path);
    files.or(delta).or_else(|| (is_api || is_other).then(|| path.to_owned()))
}

#[test]
fn a_request_has_one_span_with_its_route_and_status() {
    for asked in &SEEN.asked {
        let spans = of(asked);
        let [span] = spans[..] else { panic!("{} spans for {}", spans.len(), asked.id) };
        let route = route(&asked.path);
        assert_eq!(span.name, "request");
        assert_eq!(span.field("http.route"), route.as_deref(), "{}", asked.path);
        assert_eq!(span.field("http.request.method"), Some(asked.method));
        assert_eq!(span.field("http.response.status_code"), Some(asked.status.to_string().as_str()));
        assert_eq!(span.field("url.scheme"), Some(asked.scheme));
        assert_eq!(span.field("otel.kind"), Some("server"));
        let name = route.map_or(asked.method.to_owned(), |route| format!("{} {route}", asked.method));
        assert_eq!(span.field("otel.name"), Some(name.as_str()));
        assert_eq!(span.field("error.type"), None, "{} is not the server's fault", asked.status);
    }
}

#[test]
fn the_parts_of_a_request_are_children_of_its_span_whatever_thread_they_ran_on() {
    let parts = |path: &str, method: &str| {
        let answered = |asked: &&Asked| asked.status == 200 && asked.path == path && asked.method == method;
        let asked = SEEN.asked.iter().find(answered).unwrap();
        let span = of(asked)[0];
        // The id of a closed span may be that of a later one: what closes before the span is its own.
        let end = SEEN.spans.iter().position(|other| std::ptr::eq(other, span)).unwrap();
        let before = SEEN.spans[..end].iter().rev().take_while(|other| other.name != "request");
        let parts = before.filter(|other| other.is_part_of(span)).map(|part| (part.name, &part.fields));
        let mut parts: Vec<_> = parts.collect();
        parts.reverse();
        parts
    };
    let names = |path, method| parts(path, method).iter().map(|(name, _)| *name).collect::<Vec<_>>();
    let search = ["read body", "wait for a thread", "parse body", "search", "write answer"];
    assert_eq!(names("/v1/search", "POST"), search);
    assert_eq!(names("/v1/search/text", "POST"), search);
    assert_eq!(names("/v1/passages", "POST"), ["read body", "parse body", "write update"]);
    assert_eq!(names("/v1/passages", "DELETE"), ["read body", "write update"]);
    assert_eq!(names("/healthz", "GET"), [""; 0]);
    let found = parts("/v1/search", "POST");
    let counts = found.iter().find(|(name, _)| *name == "search").unwrap().1;
    assert_eq!([counts["dpr.vectors"].as_str(), counts["dpr.rows"].as_str()], ["1", "3"]);
    let all: BTreeSet<_> = SEEN.spans.iter().map(|span| span.name).collect();
    for name in ["read passages", "encode passages"] {
        assert!(all.contains(name), "{name}: {all:?}");
    }
}

#[test]
fn no_field_of_a_span_holds_a_text_a_vector_a_key_a_path_or_an_address() {
    let known = BTreeSet::from([
        "dpr.bytes",
        "dpr.passages",
        "dpr.request_id",
        "dpr.rows",
        "dpr.vectors",
        "http.request.method",
        "http.response.status_code",
        "http.route",
        "otel.kind",
        "otel.name",
        "url.scheme",
    ]);
    let fields = || SEEN.spans.iter().flat_map(|span| &span.fields);
    assert_eq!(fields().map(|(name, _)| *name).collect::<BTreeSet<_>>(), known);
    assert!(SEEN.asked.iter().any(|asked| asked.path.contains("?q=")), "a query string was sent");
    for (name, value) in fields() {
        let is_secret = |secret: &String| value.contains(secret.as_str());
        assert!(!SEEN.secrets.iter().any(is_secret), "{name}: {value}");
        assert!(!value.contains("127.0.0.1") && !value.contains("q="), "{name}: {value}");
    }
}

#[test]
fn a_caller_is_the_parent_of_a_request_if_its_header_is_well_formed() {
    let mut well_formed = 0;
    for (at, asked) in SEEN.asked.iter().enumerate() {
        let found = of(asked)[0].caller;
        if at % 3 == 0 {
            let caller = found.unwrap();
            let id = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let written = format!("00-{}-{}-01", id(&caller.trace_id), id(&caller.span_id));
            assert_eq!(asked.caller.as_ref(), Some(&written));
            assert!(caller.sampled);
            well_formed += 1;
        } else {
            assert_eq!(found, None, "{:?}", asked.caller);
        }
    }
    assert!(well_formed > 100, "{well_formed}");
}
