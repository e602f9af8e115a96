//! What all handlers share.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::error::ApiError;
use super::gate::SearchGate;
use super::index::IndexBody;
use super::limits::Limits;
use super::metrics::Metrics;
use super::model::ServedModel;
use super::origins::Origins;
use super::service::{PassageSearch, TextSearch};

/// How the HTTP interface behaves.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bounds of requests.
    pub limits: Limits,
    /// The search page's built files; without it `/` is 404.
    pub web: Option<PathBuf>,
    /// Whose pages may call this server.
    pub origins: Origins,
}

/// The shared state; a clone is another handle to it.
///
/// It starts without an index: requests that need one are told 503 `not_ready` until [`AppState::publish`].
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

struct Inner {
    options: Options,
    gate: SearchGate,
    metrics: Metrics,
    ready: OnceLock<Ready>,
}

/// What searches need.
pub(super) struct Ready {
    pub(super) search: Arc<dyn PassageSearch>,
    pub(super) index: IndexBody,
    pub(super) model: ServedModel,
    /// Only where questions may be sent as text.
    pub(super) text: Option<Arc<dyn TextSearch>>,
}

impl AppState {
    /// A state that is not ready yet.
    pub fn new(options: Options) -> Self {
        let gate = SearchGate::new(options.limits.concurrency, options.limits.queue);
        Self(Arc::new(Inner { options, gate, metrics: Metrics::new(), ready: OnceLock::new() }))
    }

    /// Makes the server ready. A second call is ignored: a running server keeps its index.
    pub fn publish(&self, search: Arc<dyn PassageSearch>, model: ServedModel) {
        self.publish_with(search, model, None);
    }

    /// As [`AppState::publish`], and takes questions as text at `POST /v1/search/text`: for services whose users
    /// agreed to that.
    pub fn publish_with_text(
        &self,
        search: Arc<dyn PassageSearch>,
        model: ServedModel,
        text: Arc<dyn TextSearch>,
    ) {
        self.publish_with(search, model, Some(text));
    }

    fn publish_with(
        &self,
        search: Arc<dyn PassageSearch>,
        model: ServedModel,
        text: Option<Arc<dyn TextSearch>>,
    ) {
        let index = search.describe();
        self.0.metrics.set_passages(index.count);
        if self.0.ready.set(Ready { search, index, model, text }).is_err() {
            tracing::warn!("an index is already being served; the new one is ignored");
        }
    }

    pub(super) fn ready(&self) -> Result<&Ready, ApiError> {
        self.0.ready.get().ok_or(ApiError::NotReady("still reading its index"))
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.0.options.limits
    }

    pub(super) fn gate(&self) -> &SearchGate {
        &self.0.gate
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
