//! Tests of the report to operators of an index that is not in order.

use std::time::Duration;

use super::*;
use dpr_index::{CancelToken, Health};

/// A backend with this health.
#[derive(Debug)]
struct Ailing(Health);

impl Backend for Ailing {
    fn search_until(
        &self,
        _: &[Embedding],
        _: usize,
        _: Option<&Filter>,
        _: &CancelToken,
    ) -> Result<Vec<Vec<Hit>>, SearchError> {
        Ok(Vec::new())
    }

    fn passages(&self, _: &[String]) -> Result<Vec<Passage>, SearchError> {
        Ok(Vec::new())
    }

    fn describe(&self) -> Description {
        FakeSearch { before: Box::new(|| {}) }.describe()
    }

    fn health(&self) -> Health {
        self.0.clone()
    }
}

fn app_of(health: Health, max_stale: Option<Duration>) -> Router {
    let state = AppState::new(Options { max_stale, ..Options::default() });
    assert!(state.publish(Arc::new(Ailing(health)), None));
    app(state)
}

#[tokio::test]
async fn a_server_whose_index_is_broken_says_that_it_is_not_ready_and_why() {
    let limit = Some(Duration::from_secs(30));
    let stale = |seconds| Health { stale_for: Some(Duration::from_secs(seconds)), ..Health::default() };
    let broken = Health { log_broken: Some("/secret/path: no space".into()), ..Health::default() };
    let away = Health { away_for: Some(Duration::from_secs(12)), ..Health::default() };
    let damaged = Health { damaged: Some("/secret/vectors.f32 is damaged".into()), ..Health::default() };
    let dead = Health { background_alive: false, ..Health::default() };
    for (health, max_stale, says) in [
        (Health::default(), limit, ""),
        (stale(30), limit, ""),
        (stale(31), limit, "31 s, at most 30"),
        (stale(31), None, ""),
        (broken, limit, "write-ahead log"),
        (damaged, None, "a file of the index is damaged"),
        (dead, None, "has ended"),
        (away, None, "has not answered for 12 s"),
    ] {
        let app = app_of(health.clone(), max_stale);
        let reply = get(&app, "/readyz").await;
        if says.is_empty() {
            assert_eq!(reply.status, StatusCode::OK, "{health:?}");
        } else {
            assert_eq!(reply.error(), (503, "unhealthy".into()), "{health:?}");
            assert!(reply.message().contains(says) && !reply.text().contains("/secret"), "{}", reply.text());
        }
        assert_eq!(get(&app, "/healthz").await.status, StatusCode::OK, "alive all the same");
    }
}

#[tokio::test]
async fn the_index_s_health_is_in_the_metrics() {
    let app = app_of(
        Health {
            log_broken: Some("no space".into()),
            stale_for: Some(Duration::from_millis(1500)),
            away_for: Some(Duration::from_millis(2500)),
            damaged: Some("vectors.f32".into()),
            compaction_failures: 3,
            log_bytes: 4096,
            background_alive: true,
        },
        None,
    );
    let text = get(&app, "/metrics").await.text();
    for line in [
        "dpr_index_stale_seconds 1.5",
        "dpr_service_away_seconds 2.5",
        "dpr_updates_broken 1",
        "dpr_index_damaged 1",
        "dpr_compaction_failures_total 3",
        "dpr_log_bytes 4096",
        "dpr_index_background_alive 1",
        r#"dpr_reload_failures_total{file="keys"} 0"#,
        "dpr_requests_cancelled_total 0",
    ] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
}

#[tokio::test]
async fn clients_that_leave_before_their_answer_are_counted() {
    let (app, open, _dir) = gated(Options::default());
    let body = good();
    let asked = tokio::time::timeout(Duration::from_millis(50), search(&app, &body));
    assert!(asked.await.is_err());
    open.send(()).unwrap();
    assert!(get(&app, "/metrics").await.text().contains("dpr_requests_cancelled_total 1"));
}
