//! `GET /metrics`: counters for Prometheus. They hold routes and statuses, nothing of any question.

use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::error::ApiError;
use super::recall::RecallCounts;
use super::state::AppState;
use dpr_index::search::Description;

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: u16,
}

/// The server's counters.
pub(super) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    in_flight: Gauge,
    search_seconds: Histogram,
    queue_seconds: Histogram,
    rejected: Counter,
    updated: Counter,
    passages: Gauge,
    version: Gauge,
    added: Gauge,
    removed: Gauge,
    recall: RecallCounts,
}

impl Metrics {
    pub(super) fn new() -> Self {
        let mut registry = Registry::with_prefix("dpr");
        let requests = Family::default();
        let in_flight = Gauge::default();
        // 0.1 ms to 26 s.
        let search_seconds = Histogram::new(exponential_buckets(1e-4, 2.0, 19));
        let queue_seconds = Histogram::new(exponential_buckets(1e-4, 2.0, 19));
        let rejected = Counter::default();
        let passages = Gauge::default();
        registry.register("http_requests", "Requests answered", requests.clone());
        registry.register("http_requests_in_flight", "Requests being answered", in_flight.clone());
        registry.register_with_unit(
            "search",
            "Time to search all vectors of a request",
            Unit::Seconds,
            search_seconds.clone(),
        );
        registry.register_with_unit(
            "search_queue",
            "Time a search waited for a thread",
            Unit::Seconds,
            queue_seconds.clone(),
        );
        registry.register("search_rejected", "Searches refused because the queue was full", rejected.clone());
        let updated = Counter::default();
        let [version, added, removed] = [(); 3].map(|()| Gauge::default());
        registry.register("passages_updated", "Passages added, replaced or deleted", updated.clone());
        registry.register("index_passages", "Passages in the index", passages.clone());
        registry.register("index_version", "Number of the version in use", version.clone());
        registry.register("index_added", "Passages added since that version was built", added.clone());
        registry.register("index_removed", "Passages of that version that are gone", removed.clone());
        let recall = RecallCounts::default();
        registry.register(
            "recall_sample_wanted",
            "Best 20 passages of sampled searches, by exact search",
            recall.wanted.clone(),
        );
        registry.register(
            "recall_sample_found",
            "Those of them that the graph had found; over the wanted ones: recall",
            recall.found.clone(),
        );
        Self {
            registry,
            requests,
            in_flight,
            search_seconds,
            queue_seconds,
            rejected,
            updated,
            passages,
            version,
            added,
            removed,
            recall,
        }
    }

    fn set_index(&self, index: &Description) {
        let gauges = [
            (&self.passages, index.count as u64),
            (&self.version, index.number),
            (&self.added, index.added as u64),
            (&self.removed, index.removed as u64),
        ];
        for (gauge, value) in gauges {
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }

    /// What sampling counts.
    pub(super) fn recall(&self) -> &RecallCounts {
        &self.recall
    }

    pub(super) fn updated(&self, passages: usize) {
        self.updated.inc_by(passages as u64);
    }

    pub(super) fn searched(&self, waited: Duration, took: Duration) {
        self.queue_seconds.observe(waited.as_secs_f64());
        self.search_seconds.observe(took.as_secs_f64());
    }

    pub(super) fn rejected(&self) {
        self.rejected.inc();
    }
}

/// Counts a request; also when the client leaves before its answer.
struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The middleware that counts. Its log line has the route's pattern, never the address as sent.
pub(super) async fn track(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let metrics = state.metrics();
    let method = match *request.method() {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    };
    let route = request.extensions().get::<MatchedPath>().map_or("page", MatchedPath::as_str).to_owned();
    metrics.in_flight.inc();
    let counted = InFlight(metrics.in_flight.clone());
    let start = std::time::Instant::now();
    let response = next.run(request).await;
    drop(counted);
    let status = response.status().as_u16();
    let ms = start.elapsed().as_secs_f64() * 1e3;
    tracing::debug!(target: "dpr_server::http", "{method} {route} {status} {ms:.1} ms");
    metrics.requests.get_or_create(&RequestLabels { method, route, status }).inc();
    response
}

/// Counters in the OpenMetrics text format.
///
/// `dpr_recall_sample_found_total` over `dpr_recall_sample_wanted_total` is recall@20 as served: of the best 20 passages (or `k`,
/// if that is less) of some searches, repeated exactly, the share that the graph had found.
#[utoipa::path(get, path = "/metrics", tag = "operation", responses(
    (status = 200, description = "Counters for Prometheus", body = String,
     content_type = "application/openmetrics-text"),
))]
pub(super) async fn metrics(State(state): State<AppState>) -> Result<Response, ApiError> {
    if let Ok(ready) = state.ready() {
        state.metrics().set_index(&ready.serving.search.describe());
    }
    let mut text = String::new();
    encode(&mut text, &state.metrics().registry)
        .map_err(|_| ApiError::Internal("the counters cannot be written"))?;
    let media_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, media_type)], text).into_response())
}
