//! Traces for a collector of OpenTelemetry: `dpr serve --otlp-endpoint`, in builds with the feature `otel`.

#[cfg(feature = "otel")]
mod collector;
#[cfg(feature = "otel")]
mod export;

#[cfg(feature = "otel")]
pub(super) use export::Traces;

use dpr_serve::TraceParent;
use tracing::Span;

use super::CliError;

/// The function that makes a caller's span the parent of a request's, in builds that send traces.
#[cfg(feature = "otel")]
pub(super) const SET_PARENT: Option<fn(&Span, TraceParent)> = Some(export::set_parent);
#[cfg(not(feature = "otel"))]
pub(super) const SET_PARENT: Option<fn(&Span, TraceParent)> = None;

/// Where traces are sent.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Traces")]
pub(super) struct TraceArgs {
    /// Collector of OpenTelemetry: traces of requests are sent to URL/v1/traces, as OTLP over HTTP
    #[arg(long, value_name = "URL")]
    #[cfg_attr(feature = "otel", arg(env = "OTEL_EXPORTER_OTLP_ENDPOINT", hide_env_values = true))]
    #[cfg_attr(not(feature = "otel"), arg(hide = true))]
    otlp_endpoint: Option<String>,
    /// With --otlp-endpoint: the name of this service in its traces
    #[arg(long, value_name = "NAME", default_value = "dpr")]
    #[cfg_attr(feature = "otel", arg(env = "OTEL_SERVICE_NAME"))]
    #[cfg_attr(not(feature = "otel"), arg(hide = true))]
    otel_service_name: String,
}

impl TraceArgs {
    /// Starts to send traces, if they are wanted. An empty address is as none, as OpenTelemetry's specification says of
    /// variables.
    pub(super) fn start(&self) -> Result<Option<Traces>, CliError> {
        match self.otlp_endpoint.as_deref() {
            None | Some("") => Ok(None),
            Some(endpoint) => Traces::start(endpoint, &self.otel_service_name).map(Some),
        }
    }
}

/// The sending of traces, which this build does not have.
#[cfg(not(feature = "otel"))]
#[derive(Debug)]
pub(super) enum Traces {}

#[cfg(not(feature = "otel"))]
impl Traces {
    fn start(_endpoint: &str, _service: &str) -> Result<Self, CliError> {
        Err("--otlp-endpoint needs a `dpr` with the feature `otel`: cargo build --release -p dpr --features otel"
            .into())
    }

    pub(super) fn layer(&self) -> tracing_subscriber::layer::Identity {
        match *self {}
    }

    pub(super) fn end(self) {
        match self {}
    }
}
