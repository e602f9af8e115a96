//! State that all handlers share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use super::access::{Access, Rate};
use super::counters::Metrics;
use super::error::ApiError;
use super::gate::SearchGate;
use super::host_names::Hosts;
use super::limits::Limits;
use super::open::ClosedConnections;
use super::origins::Origins;
use super::rate::Rates;
use super::recall::Sampled;
use super::room::Room;
use super::served_blur::ServedBlur;
use super::served_model::ServedModel;
use super::served_reader::ServedReader;
use super::served_tables::ServedTables;
use super::service::TextSearch;
use super::trace::SetParent;
use super::updates::Updates;
use dpr_core::model::short;
use dpr_files::{read_lock, write_lock};
use dpr_index::VectorIndex as _;
use dpr_index::search::{Backend, Description};

/// Options of the HTTP interface.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bounds of requests.
    pub limits: Limits,
    /// The search page's built files; without it `/` is 404.
    pub web: Option<PathBuf>,
    /// Whose pages may call this server.
    pub origins: Origins,
    /// Under which names it may be called.
    pub hosts: Hosts,
    /// Under which names [`metrics_app`](crate::metrics_app) may be called, where they are others: its socket has an
    /// address of its own.
    pub metrics_hosts: Option<Hosts>,
    /// The rights of clients.
    pub access: Access,
    /// The rate at which each key may send, and each address without one; keys may have rates of their own.
    pub rate: Option<Rate>,
    /// Proxies in front of this server whose entries in `x-forwarded-for` are believed.
    pub trusted_proxies: usize,
    /// The time for which the index may not have been brought up to date before `/readyz` says so; without it, for
    /// ever.
    pub max_stale: Option<Duration>,
    /// `true` if [`metrics_app`](crate::metrics_app) has `/metrics`, `/healthz` and `/readyz`, in the place of
    /// [`app`](crate::app).
    pub metrics_apart: bool,
    /// `true` if only blurred and encrypted questions are answered: `POST /v1/search` and `POST /v1/search/text` are then
    /// refused with 403.
    pub private_only: bool,
    /// Makes the caller's span the parent of a request's (target [`TRACE_TARGET`](crate::TRACE_TARGET)), where a
    /// request names one in the header `traceparent`; without it, none is read. It is called before the span is
    /// entered.
    pub trace_parent: Option<SetParent>,
}

/// The shared state; a clone is another handle to it.
///
/// It starts without an index: requests that need one are told 503 `not_ready` until [`AppState::publish`].
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

struct Inner {
    options: Options,
    gate: SearchGate,
    update_gate: SearchGate,
    encode_gate: SearchGate,
    rates: Rates,
    bodies: Room,
    answers: Room,
    metrics: Metrics,
    ready: RwLock<Option<Arc<Ready>>>,
}

/// Updates that are written at once; those that come together share a wait for the disk.
const UPDATES: usize = 16;

/// Updates that wait for one of these.
const UPDATES_WAITING: usize = 64;

/// Updates whose passages wait to be encoded, after the one whose passages are.
const ENCODINGS_WAITING: usize = 32;

/// The services that a server answers from.
pub struct Serving {
    /// Finds passages for vectors.
    pub search: Arc<dyn Backend>,
    /// The question encoder that pages load; without one their vectors are made elsewhere.
    pub model: Option<ServedModel>,
    /// Takes questions as text at `POST /v1/search/text`: for services whose users agreed to that.
    pub text: Option<Arc<dyn TextSearch>>,
    /// With `text`, answers such questions at `POST /v1/answer`.
    pub reader: Option<Arc<ServedReader>>,
    /// Takes passages at `/v1/passages`.
    pub updates: Option<Updates>,
    /// Offers blurred search at `/v1/private`, by a projection of the index's model.
    pub blur: Option<Arc<ServedBlur>>,
    /// Answers encrypted questions at `/v1/encrypted`, from tables made of the index.
    pub encrypted: Option<Arc<ServedTables>>,
}

impl Serving {
    /// Searches by vector alone.
    pub fn new(search: Arc<dyn Backend>) -> Self {
        Self { search, model: None, text: None, reader: None, updates: None, blur: None, encrypted: None }
    }
}

/// The state that searches need.
pub(super) struct Ready {
    pub(super) serving: Serving,
    /// The values that vectors are checked by. Both stay the same while passages come and go.
    pub(super) dim: usize,
    pub(super) fingerprint: String,
}

impl Ready {
    /// Returns `true` once an update has failed for a reason that only a restart ends.
    pub(super) fn updates_broken(&self) -> bool {
        self.serving.updates.as_ref().is_some_and(Updates::is_broken)
    }

    /// Returns the number of rows that a search may look at, where this process holds them.
    pub(super) fn rows(&self) -> usize {
        self.serving.search.snapshot().map_or(0, |index| index.len())
    }
}

impl AppState {
    /// A state that is not ready yet.
    pub fn new(options: Options) -> Self {
        let Limits { concurrency, queue, timeout, max_answer, .. } = options.limits;
        let gate = SearchGate::new(concurrency, queue).with_timeout(timeout).with_max_answer(max_answer);
        let update_gate = SearchGate::new(UPDATES, UPDATES_WAITING);
        let [bodies, answers] = [options.limits.max_bodies, options.limits.max_answers].map(Room::new);
        let rates = Rates::new(options.rate);
        Self(Arc::new(Inner {
            options,
            gate,
            update_gate,
            // One at a time: searches keep the other processors.
            encode_gate: SearchGate::new(1, ENCODINGS_WAITING),
            rates,
            bodies,
            answers,
            metrics: Metrics::new(),
            ready: RwLock::new(None),
        }))
    }

    /// Makes the server ready. A second call puts another index in the place of the first, if it is of the same model:
    /// requests that have begun are answered from the one they began with. Whether it is taken.
    pub fn publish(&self, search: Arc<dyn Backend>, model: impl Into<Option<ServedModel>>) -> bool {
        self.publish_all(Serving { model: model.into(), ..Serving::new(search) })
    }

    /// As [`AppState::publish`], with more than searches by vector.
    pub fn publish_all(&self, serving: Serving) -> bool {
        let Description { dim, model: fingerprint, .. } = serving.search.describe();
        let mut ready = write_lock(&self.0.ready);
        if let Some(before) = ready.as_ref()
            && (before.dim, &before.fingerprint) != (dim, &fingerprint)
        {
            tracing::warn!(
                "an index of model {} is being served; one of model {} is not taken",
                short(&before.fingerprint),
                short(&fingerprint)
            );
            return false;
        }
        *ready = Some(Arc::new(Ready { serving, dim, fingerprint }));
        true
    }

    /// Returns `backend`, with a search every so often repeated exactly where it was answered by a graph, for the
    /// counters `dpr_recall_sample_found_total` and `dpr_recall_sample_wanted_total`.
    ///
    /// # Errors
    /// When no thread can be started for that.
    pub fn sample_recall(
        &self,
        backend: Arc<dyn Backend>,
        every: Duration,
    ) -> std::io::Result<Arc<dyn Backend>> {
        let (gate, counts) = (self.gate().clone(), self.metrics().recall().clone());
        Ok(Arc::new(Sampled::start(backend, gate, every, counts)?))
    }

    pub(super) fn ready(&self) -> Result<Arc<Ready>, ApiError> {
        let ready = read_lock(&self.0.ready);
        ready.clone().ok_or(ApiError::NotReady("still reading its index"))
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.0.options.limits
    }

    pub(super) fn gate(&self) -> &SearchGate {
        &self.0.gate
    }

    /// The way to the threads that write updates.
    pub(super) fn update_gate(&self) -> &SearchGate {
        &self.0.update_gate
    }

    /// The way to the thread that encodes passages of updates.
    pub(super) fn encode_gate(&self) -> &SearchGate {
        &self.0.encode_gate
    }

    pub(super) fn rates(&self) -> &Rates {
        &self.0.rates
    }

    /// # Errors
    /// [`ApiError::PlainSearchDisabled`] where only private questions are answered.
    pub(super) fn takes_plain_questions(&self) -> Result<(), ApiError> {
        if self.0.options.private_only { Err(ApiError::PlainSearchDisabled) } else { Ok(()) }
    }

    pub(super) fn options(&self) -> &Options {
        &self.0.options
    }

    /// Returns who may do what.
    pub fn access(&self) -> &Access {
        &self.0.options.access
    }

    pub(super) fn hosts(&self) -> &Hosts {
        &self.0.options.hosts
    }

    pub(super) fn metrics_hosts(&self) -> &Hosts {
        self.0.options.metrics_hosts.as_ref().unwrap_or(self.hosts())
    }

    pub(super) fn trusted_proxies(&self) -> usize {
        self.0.options.trusted_proxies
    }

    pub(super) fn bodies(&self) -> &Room {
        &self.0.bodies
    }

    /// Returns the room for answers until clients have read them.
    pub(super) fn answers(&self) -> &Room {
        &self.0.answers
    }

    /// Returns the counter that [`Connections::closed`](crate::server::Connections::closed) takes, as `/metrics` has it.
    pub fn closed_connections(&self) -> ClosedConnections {
        self.metrics().refusals().closed()
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(super) fn web(&self) -> Option<&Path> {
        self.0.options.web.as_deref()
    }

    pub(super) fn origins(&self) -> &Origins {
        &self.0.options.origins
    }
}
