//! The spans of a request for distributed tracing: one for the request, and one for each part of it that takes time.
//!
//! They have the target [`TARGET`], so that a program sends them to a collector and keeps them out of its log lines,
//! and the attributes of OpenTelemetry's semantic conventions for HTTP servers. Attributes are names and counts alone:
//! no address as sent, query string, text, vector, key or address of a client. Where nobody subscribes to the target,
//! opening a span costs one check.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use super::trace_parent::TraceParent;

/// The target of all spans of this module.
pub const TARGET: &str = "otel";

/// The scheme by which a request came: an extension of requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scheme(pub(super) &'static str);

/// The span of a request: an extension of requests. Parts of the request are its children, on whatever thread they run.
#[derive(Debug, Clone)]
pub(super) struct Trace(Span);

/// Makes the caller's span the parent of a request's span, where spans are sent to a collector.
pub type SetParent = fn(&Span, TraceParent);

/// Opens the span of a request and ends it with the head of the answer.
pub(super) async fn follow(
    State(set_parent): State<Option<SetParent>>,
    mut request: Request,
    next: Next,
) -> Response {
    let span = opened(&request);
    if span.is_disabled() {
        return next.run(request).await;
    }
    if let Some(set) = set_parent
        && let Some(parent) = TraceParent::of(request.headers())
    {
        set(&span, parent);
    }
    request.extensions_mut().insert(Trace(span.clone()));
    let response = next.run(request).instrument(span.clone()).await;
    record_status(&span, response.status());
    response
}

fn opened(request: &Request) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "request",
        otel.name = Empty,
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = Empty,
        http.route = Empty,
        http.response.status_code = Empty,
        url.scheme = Empty,
        "error.type" = Empty,
        dpr.request_id = Empty,
    );
    if span.is_disabled() {
        return span;
    }
    let (known, route) = (method(request.method()), request.extensions().get::<MatchedPath>());
    span.record("http.request.method", known.unwrap_or("_OTHER"));
    let verb = known.unwrap_or("HTTP");
    match route.map(MatchedPath::as_str) {
        // The route as it was declared, such as `/v1/model/files/{sha256}/{name}`.
        Some(route) => {
            span.record("http.route", route).record("otel.name", format!("{verb} {route}"));
        }
        None => {
            span.record("otel.name", verb);
        }
    }
    if let Some(Scheme(scheme)) = request.extensions().get::<Scheme>() {
        span.record("url.scheme", *scheme);
    }
    span
}

/// Returns the name of a method, where it is not one that the client made up.
fn method(method: &Method) -> Option<&'static str> {
    Some(match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::CONNECT => "CONNECT",
        _ => return None,
    })
}

/// Records how a request was answered. What the client did wrong is not an error of the server's span.
fn record_status(span: &Span, status: StatusCode) {
    span.record("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        span.record("otel.status_code", "ERROR").record("error.type", status.as_str());
    }
}

/// Opens the span of a part of a request, with a name and counts.
macro_rules! part {
    ($trace:expr, $name:literal $(, $field:ident . $of:ident = $count:expr)*) => {
        // Signed, since attributes of OpenTelemetry are.
        tracing::info_span!(
            target: TARGET,
            parent: &$trace.0,
            $name,
            $($field.$of = i64::try_from($count).unwrap_or(i64::MAX),)*
        )
    };
}

impl Trace {
    /// Returns the trace of a request.
    pub(super) fn of(request: &Request) -> Self {
        request.extensions().get().cloned().unwrap_or(Self(Span::none()))
    }

    /// Records the id that log lines about the request and its answer have.
    pub(super) fn record_id(&self, id: &str) {
        self.0.record("dpr.request_id", id);
    }

    /// Returns the span of reading the body from the client.
    pub(super) fn read_body(&self) -> Span {
        part!(self, "read body")
    }

    /// Returns the span of waiting for a thread.
    pub(super) fn queue(&self) -> Span {
        part!(self, "wait for a thread")
    }

    /// Returns the span of parsing and checking the body.
    pub(super) fn parse(&self, bytes: usize) -> Span {
        part!(self, "parse body", dpr.bytes = bytes)
    }

    /// Returns the span of a search for these many vectors or questions among these many rows.
    pub(super) fn search(&self, vectors: usize, rows: usize) -> Span {
        part!(self, "search", dpr.vectors = vectors, dpr.rows = rows)
    }

    /// Returns the span of a reader that reads these many passages.
    pub(super) fn read_passages(&self, passages: usize) -> Span {
        part!(self, "read passages", dpr.passages = passages)
    }

    /// Returns the span of printing the answer as JSON and compressing it.
    pub(super) fn write_answer(&self) -> Span {
        part!(self, "write answer")
    }

    /// Returns the span of encoding these many passages of an update.
    pub(super) fn encode(&self, passages: usize) -> Span {
        part!(self, "encode passages", dpr.passages = passages)
    }

    /// Returns the span of writing or deleting these many passages.
    pub(super) fn update(&self, passages: usize) -> Span {
        part!(self, "write update", dpr.passages = passages)
    }
}
