//! The way of spans to the collector: a layer of the log's subscriber, a bounded queue, and a thread that sends.

use std::time::Duration;

use dpr_serve::{TRACE_TARGET, TraceParent};
use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Span;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::{Layer, Registry};

use super::collector::{Collector, address};
use crate::cli::CliError;

/// Time that spans which wait have to reach the collector when the program ends.
const END: Duration = Duration::from_secs(3);

/// The sending of traces, while a command runs.
///
/// Whoever opens or closes a span never waits: one that finds the queue full is dropped.
#[derive(Debug)]
pub(in crate::cli) struct Traces(SdkTracerProvider);

impl Traces {
    /// Starts the thread that sends to the collector at `endpoint`.
    ///
    /// # Errors
    /// When `endpoint` is not the address of a collector.
    pub(super) fn start(endpoint: &str, service: &str) -> Result<Self, CliError> {
        let address = address(endpoint)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(&address))
            .with_endpoint(address)
            .build()?;
        let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource =
            Resource::builder().with_service_name(service.to_owned()).with_attribute(version).build();
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
        Ok(Self(provider))
    }

    /// Returns the layer that takes the spans of requests, and nothing else.
    pub(in crate::cli) fn layer(&self) -> impl Layer<Registry> + Send + Sync + use<> {
        let layer = tracing_opentelemetry::layer()
            .with_tracer(self.0.tracer("dpr"))
            // What nobody asked for: lines of the source, threads, targets, and the time between two polls.
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_context_activation(false);
        layer.with_filter(Targets::new().with_target(TRACE_TARGET, LevelFilter::INFO))
    }

    /// Sends what waits, for a few seconds at most.
    pub(in crate::cli) fn end(self) {
        // A collector that cannot be reached has had its warning.
        let _ = self.0.shutdown_with_timeout(END);
    }
}

/// Makes the caller's span the parent of a request's.
pub(super) fn set_parent(span: &Span, parent: TraceParent) {
    let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, caller) = (TraceId::from_bytes(parent.trace_id), SpanId::from_bytes(parent.span_id));
    let caller = SpanContext::new(trace, caller, flags, true, TraceState::default());
    // Refused where no collector was given: the span has no parent then, and goes nowhere.
    let _ = span.set_parent(Context::new().with_remote_span_context(caller));
}
