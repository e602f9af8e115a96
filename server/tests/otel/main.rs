//! `dpr serve --otlp-endpoint`, as a process, beside collectors that answer, hang and are not there.

#![cfg(unix)]

mod collector;
mod protobuf;
mod server;

use std::time::{Duration, Instant};

use collector::{Collector, Conduct};
use protobuf::Value;
use server::{Server, refused};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

#[test]
fn a_request_reaches_the_collector_as_a_part_of_its_callers_trace() {
    let collector = Collector::start(Conduct::Answers);
    let endpoint = collector.endpoint();
    let server = Server::start(&["--otlp-endpoint", &endpoint, "--otel-service-name", "shop"], &[]);
    let caller = format!("00-{TRACE}-{CALLER}-01");
    assert_eq!(server.search(&[("traceparent", &caller), ("x-request-id", "asked-1")]), 200);
    assert_eq!(server.get("/v1/model/files/Wiesenschaumkraut/Zebrafinken", &[]), 404);
    assert_eq!(server.get("/readyz?q=Wiesenschaumkraut", &[("x-api-key", "Quittengelee")]), 200);
    let ended = Instant::now();
    let log = server.end();
    assert!(ended.elapsed() < Duration::from_secs(10), "{:?}", ended.elapsed());
    let (spans, bytes) = (collector.spans(), collector.bytes());
    let named = |name: &str| {
        spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:?}"))
    };
    let request = named("POST /v1/search");
    assert_eq!((request.trace.as_str(), request.parent.as_str()), (TRACE, CALLER));
    assert_eq!(request.kind, 2, "of a server");
    assert_eq!(request.service, "shop");
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    for (name, value) in [
        ("http.request.method", text("POST")),
        ("http.route", text("/v1/search")),
        ("http.response.status_code", Some(Value::Number(200))),
        ("url.scheme", text("http")),
        ("dpr.request_id", text("asked-1")),
    ] {
        assert_eq!(request.attributes.get(name).cloned(), value, "{name}");
    }
    assert_eq!(request.attributes.len(), 5, "{request:?}");
    for name in ["read body", "wait for a thread", "parse body", "search", "write answer"] {
        let part = named(name);
        assert_eq!((part.trace.as_str(), &part.parent), (TRACE, &request.id), "{name}");
        assert!(request.start <= part.start && part.end <= request.end, "{name}: {part:?} in {request:?}");
    }
    assert_eq!(named("search").attributes["dpr.rows"], Value::Number(3));
    let other = named("GET /v1/model/files/{sha256}/{name}");
    assert!(other.parent.is_empty() && other.trace != TRACE, "{other:?}");
    for secret in ["Wiesenschaumkraut", "Zebrafinken", "Quittengelee", "127.0.0.1"] {
        assert!(!bytes.windows(secret.len()).any(|part| part == secret.as_bytes()), "{secret} was sent");
    }
    // Log lines are as they are without traces.
    let line = log.lines().find(|line| line.contains("POST /v1/search 200")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(line["span"], serde_json::json!({"id": "asked-1", "name": "request"}));
    assert!(!log.contains("http.route") && !log.contains("cannot be sent"), "{log}");
}

#[test]
fn a_caller_that_records_nothing_is_not_recorded_here_either() {
    let collector = Collector::start(Conduct::Answers);
    let endpoint = collector.endpoint();
    let server = Server::start(&["--otlp-endpoint", &endpoint], &[]);
    assert_eq!(server.search(&[("traceparent", &format!("00-{TRACE}-{CALLER}-00"))]), 200);
    assert_eq!(server.search(&[("traceparent", "00-of no form-01")]), 200);
    server.end();
    let requests: Vec<_> = collector.spans().into_iter().filter(|span| span.kind == 2).collect();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert!(request.parent.is_empty() && request.trace != TRACE, "{request:?}");
    assert_eq!(request.service, "dpr");
}

#[test]
fn searches_do_not_wait_for_a_collector_that_hangs_fails_or_is_not_there() {
    for conduct in [Conduct::Hangs, Conduct::Fails, Conduct::IsAway] {
        let collector = Collector::start(conduct);
        let endpoint = collector.endpoint();
        // A queue that is full at once, and batches that are sent at once.
        let variables = [
            ("OTEL_BSP_SCHEDULE_DELAY", "10"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
        ];
        let server = Server::start(&[], &variables);
        let started = Instant::now();
        for _ in 0..100 {
            assert_eq!(server.search(&[]), 200);
        }
        let took = started.elapsed();
        // The collector that hangs takes 5 s for each of more than 100 batches.
        assert!(took < Duration::from_secs(15), "{conduct:?}: {took:?}");
        // Until the first request to it has failed.
        let wait = Instant::now();
        while !server.log().contains("traces cannot be sent") && wait.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let ended = Instant::now();
        let log = server.end();
        assert!(ended.elapsed() < Duration::from_secs(8), "{conduct:?}: {:?}", ended.elapsed());
        assert_eq!(log.matches("traces cannot be sent").count(), 1, "{conduct:?}: {log}");
    }
}

#[test]
fn an_endpoint_that_is_not_an_http_address_is_refused() {
    let (status, error) = refused(&["--otlp-endpoint", "localhost:4318"]);
    assert_eq!(status, Some(1));
    assert!(
        error.starts_with("error: --otlp-endpoint \"localhost:4318\" is not an http or https address"),
        "{error}"
    );
}
