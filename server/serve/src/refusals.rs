//! Counters of what was refused, abandoned or failed, and gauges of what is broken.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use dpr_index::Health;

use super::open::ClosedConnections;

/// The limit at which a request was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// Searches running and waiting.
    Queue,
    /// Updates being written and waiting.
    Updates,
    /// Updates whose passages wait to be encoded.
    Encoding,
    /// Bytes of bodies.
    Bodies,
    /// Bytes of answers that clients have not read yet.
    Answers,
    /// Connections.
    Connections,
    /// Requests of one key.
    KeyRate,
    /// Requests of one address.
    AddressRate,
}

impl Refused {
    const ALL: [Self; 8] = [
        Self::Queue,
        Self::Updates,
        Self::Encoding,
        Self::Bodies,
        Self::Answers,
        Self::Connections,
        Self::KeyRate,
        Self::AddressRate,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Updates => "updates",
            Self::Encoding => "encoding",
            Self::Bodies => "bodies",
            Self::Answers => "answers",
            Self::Connections => "connections",
            Self::KeyRate => "key_rate",
            Self::AddressRate => "address_rate",
        }
    }
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RefusedLabels {
    limit: &'static str,
}

/// A file that is read again when it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reloaded {
    /// The list of keys.
    Keys,
    /// Certificate and private key.
    Certificate,
}

impl Reloaded {
    fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Certificate => "certificate",
        }
    }
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReloadLabels {
    file: &'static str,
}

/// Counters of what was not done.
pub(super) struct Refusals {
    refused: Family<RefusedLabels, Counter>,
    reload_failures: Family<ReloadLabels, Counter>,
    pub(super) cancelled: Counter,
    closed: ClosedConnections,
}

impl Refusals {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let (refused, reload_failures) = (Family::default(), Family::default());
        let (cancelled, closed) = (Counter::default(), ClosedConnections::default());
        registry.register("requests_refused", "Requests refused, by the limit they met", refused.clone());
        registry.register(
            "requests_cancelled",
            "Requests whose clients left before the answer",
            cancelled.clone(),
        );
        registry.register(
            "client_connections_closed",
            "Connections closed at once because their client had as many as it may",
            closed.0.clone(),
        );
        registry.register(
            "reload_failures",
            "Changed files of keys or certificates that could not be used",
            reload_failures.clone(),
        );
        // Present from the start, so that alerts can watch them.
        for limit in Refused::ALL {
            drop(refused.get_or_create(&RefusedLabels { limit: limit.name() }));
        }
        for file in [Reloaded::Keys, Reloaded::Certificate] {
            drop(reload_failures.get_or_create(&ReloadLabels { file: file.name() }));
        }
        Self { refused, reload_failures, cancelled, closed }
    }

    pub(super) fn refused(&self, limit: Refused) {
        self.refused.get_or_create(&RefusedLabels { limit: limit.name() }).inc();
    }

    /// Returns the counter of connections closed at once.
    pub(super) fn closed(&self) -> ClosedConnections {
        self.closed.clone()
    }

    pub(super) fn reload_failed(&self, file: Reloaded) {
        self.reload_failures.get_or_create(&ReloadLabels { file: file.name() }).inc();
    }
}

/// Gauges of the index's health, set when they are read.
pub(super) struct HealthGauges {
    stale_seconds: Gauge<f64, AtomicU64>,
    away_seconds: Gauge<f64, AtomicU64>,
    updates_broken: Gauge,
    damaged: Gauge,
    background_alive: Gauge,
    compaction_failures: Counter,
    log_bytes: Gauge,
}

impl HealthGauges {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let [updates_broken, damaged, background_alive, log_bytes] = [(); 4].map(|()| Gauge::default());
        let stale_seconds = Gauge::<f64, AtomicU64>::default();
        let away_seconds = Gauge::<f64, AtomicU64>::default();
        let compaction_failures = Counter::default();
        registry.register_with_unit(
            "service_away",
            "Time for which PostgreSQL or Milvus has not answered; 0 while it does",
            Unit::Seconds,
            away_seconds.clone(),
        );
        registry.register_with_unit(
            "index_stale",
            "Time for which the index could not be brought up to date; 0 while it can",
            Unit::Seconds,
            stale_seconds.clone(),
        );
        registry.register(
            "updates_broken",
            "1 while updates are refused: the write-ahead log failed, an update panicked, or the index lost its lock",
            updates_broken.clone(),
        );
        registry.register(
            "index_damaged",
            "1 when a file of the index was found to be damaged, so that searches fail",
            damaged.clone(),
        );
        registry.register(
            "index_background_alive",
            "0 when the thread that follows, compacts or counts the index has ended or fails each time",
            background_alive.clone(),
        );
        registry.register("compaction_failures", "Compactions that failed", compaction_failures.clone());
        registry.register_with_unit("log", "Size of the write-ahead log", Unit::Bytes, log_bytes.clone());
        Self {
            stale_seconds,
            away_seconds,
            updates_broken,
            damaged,
            background_alive,
            compaction_failures,
            log_bytes,
        }
    }

    /// Sets the gauges; `updates_broken` is whether an update has failed for good.
    pub(super) fn set(&self, health: &Health, updates_broken: bool) {
        let seconds = |time: Option<Duration>| time.map_or(0.0, |time| time.as_secs_f64());
        self.stale_seconds.set(seconds(health.stale_for));
        self.away_seconds.set(seconds(health.away_for));
        self.updates_broken.set((updates_broken || health.log_broken.is_some()).into());
        self.damaged.set(health.damaged.is_some().into());
        self.background_alive.set(health.background_alive.into());
        self.compaction_failures.inner().store(health.compaction_failures, Ordering::Relaxed);
        self.log_bytes.set(i64::try_from(health.log_bytes).unwrap_or(i64::MAX));
    }
}
