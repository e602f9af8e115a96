//! The server's counters. They hold routes and statuses, nothing of any question.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use super::recall::RecallCounts;
use super::refusals::{HealthGauges, Refusals, Refused};
use dpr_index::search::Description;

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(super) struct RequestLabels {
    pub(super) method: &'static str,
    pub(super) route: String,
    pub(super) status: u16,
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
    refusals: Refusals,
    health: HealthGauges,
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
        let (refusals, health) = (Refusals::new(&mut registry), HealthGauges::new(&mut registry));
        Self {
            refusals,
            health,
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

    pub(super) fn set_index(&self, index: &Description) {
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

    /// Returns the counters of sampling.
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

    /// Counts a search that found the queue full.
    pub(super) fn rejected(&self) {
        self.rejected.inc();
        self.refusals.refused(Refused::Queue);
    }

    /// Counts a request that was answered.
    pub(super) fn answered(&self, labels: &RequestLabels) {
        self.requests.get_or_create(labels).inc();
    }

    /// Counts a request until the returned value is dropped: also when the client leaves before its answer, which is
    /// counted as well.
    pub(super) fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        let (in_flight, cancelled) = (self.in_flight.clone(), self.refusals.cancelled.clone());
        InFlight { in_flight, cancelled, is_answered: false }
    }

    /// Returns the counters of refused and cancelled requests.
    pub(super) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Returns the gauges of the index's own report on its health.
    pub(super) fn health(&self) -> &HealthGauges {
        &self.health
    }

    /// Returns all counters in the OpenMetrics text format.
    pub(super) fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// A request that is being answered.
pub(super) struct InFlight {
    in_flight: Gauge,
    cancelled: Counter,
    is_answered: bool,
}

impl InFlight {
    pub(super) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.in_flight.dec();
        if !self.is_answered {
            self.cancelled.inc();
        }
    }
}
