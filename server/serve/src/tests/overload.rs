//! More searches than the server takes, and searches that last too long.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::*;
use crate::Limits;
use crate::crowded::Crowded;

fn limits(concurrency: usize, queue: usize, timeout: Duration) -> Options {
    Options { limits: Limits { concurrency, queue, timeout, ..Limits::default() }, ..Options::default() }
}

/// Waits until `/metrics` holds `line`.
pub(super) async fn until_metric(app: &Router, line: &str) {
    for _ in 0..500 {
        if get(app, "/metrics").await.text().lines().any(|found| found == line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never saw {line}:\n{}", get(app, "/metrics").await.text());
}

#[tokio::test]
async fn a_full_queue_answers_429_at_once_and_recovers() {
    let (app, open, _dir) = gated(limits(1, 1, Duration::from_secs(30)));
    let start = |app: &Router| {
        let app = app.clone();
        tokio::spawn(async move { search(&app, &good()).await })
    };
    let (first, second) = (start(&app), start(&app));
    // The request for the metrics is in flight too.
    until_metric(&app, "dpr_http_requests_in_flight 3").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let refused = search(&app, &good()).await;
    assert_eq!(refused.error(), (429, "overloaded".into()));
    assert_eq!(refused.header("retry-after"), "1");
    assert!(get(&app, "/metrics").await.text().contains("dpr_search_rejected_total 1"));
    assert_eq!(
        send(&app, post("{")).await.error(),
        (429, "overloaded".into()),
        "a body is not read before its turn"
    );
    open.send(()).unwrap();
    open.send(()).unwrap();
    assert_eq!(first.await.unwrap().status, StatusCode::OK);
    assert_eq!(second.await.unwrap().status, StatusCode::OK);
    open.send(()).unwrap();
    assert_eq!(search(&app, &good()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_request_without_a_place_beside_others_is_refused_as_any_other_is() {
    let origins = crate::Origins::parse(&["https://page.example".to_owned()]).unwrap();
    let (app, _dir) = ready(Options { origins, ..Options::default() });
    let mut request = post(good().to_string());
    request.headers_mut().insert("origin", "https://page.example".parse().unwrap());
    request.extensions_mut().insert(Crowded);
    let refused = send(&app, request).await;
    assert_eq!(refused.error(), (429, "overloaded".into()));
    assert_eq!(refused.header("retry-after"), "1");
    assert!(!refused.header("x-request-id").is_empty());
    assert_eq!(refused.header("access-control-allow-origin"), "https://page.example");
    until_metric(&app, "dpr_requests_refused_total{limit=\"connections\"} 1").await;
}

#[tokio::test]
async fn two_clients_are_served_at_once() {
    let running = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
    let seen = Arc::clone(&running);
    let (app, _dir) = ready_with(limits(2, 0, Duration::from_secs(30)), move || {
        let now = seen.0.fetch_add(1, Ordering::SeqCst) + 1;
        seen.1.fetch_max(now, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(200));
        seen.0.fetch_sub(1, Ordering::SeqCst);
    });
    let other = json!({"vector": [2, 0, 0, 0], "k": 1, "model": fingerprint()});
    let (one, two) = (good(), other);
    let (one, two) = tokio::join!(search(&app, &one), search(&app, &two));
    assert_eq!(running.1.load(Ordering::SeqCst), 2, "one waited for the other");
    assert_eq!(
        (&one.json()["hits"][0]["score"], &two.json()["hits"][0]["score"]),
        (&json!(1.0), &json!(2.0))
    );
}

#[tokio::test]
async fn a_search_past_its_deadline_is_answered_503() {
    let (app, open, _dir) = gated(limits(1, 1, Duration::from_millis(50)));
    let reply = search(&app, &good()).await;
    assert_eq!(reply.error(), (503, "timeout".into()));
    assert!(reply.message().contains("50 ms"));
    open.send(()).unwrap();
}

#[tokio::test]
async fn until_the_index_is_read_the_server_is_alive_but_not_ready() {
    let app = app(AppState::new(Options::default()));
    assert_eq!(get(&app, "/healthz").await.status, StatusCode::OK);
    for path in ["/readyz", "/v1/index", "/v1/model", "/v1/model/files/abc/config.json"] {
        let reply = get(&app, path).await;
        assert_eq!(reply.error(), (503, "not_ready".into()), "{path}");
        assert_eq!(reply.header("retry-after"), "1");
    }
    assert_eq!(search(&app, &good()).await.error(), (503, "not_ready".into()));
}
