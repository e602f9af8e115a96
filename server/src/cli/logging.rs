//! Log lines on standard error, and the traces that may be sent beside them.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use tracing::Subscriber;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::traces::Traces;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line: timestamp, level, target, fields, and the request's id
    Json,
}

/// The form that [`start`] was given.
static FORMAT: OnceLock<LogFormat> = OnceLock::new();

/// Returns whether every line on standard error is a JSON object.
pub(super) fn is_json() -> bool {
    FORMAT.get() == Some(&LogFormat::Json)
}

/// Writes the line that an error ends the program with.
pub(super) fn error(line: &str) {
    // A filter may leave out even errors.
    if is_json() && tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!("{line}");
    } else {
        eprintln!("error: {line}");
    }
}

/// Starts logging, filtered by `DPR_LOG`, and hands spans to `traces`.
pub(super) fn start(format: LogFormat, traces: Option<&Traces>) {
    FORMAT.get_or_init(|| format);
    // A second start (tests run several subcommands in one process) keeps the first.
    let _ = match traces {
        Some(traces) => {
            // Lines have a filter of their own, so that it does not decide what is traced.
            let lines = lines(format).with_filter(filter());
            Registry::default().with(traces.layer()).with(lines).try_init()
        }
        None => Registry::default().with(filter()).with(lines(format)).try_init(),
    };
}

/// Returns the filter of the log: the one that `DPR_LOG` gives, but never the spans of traces, which would stand in
/// every line.
fn filter() -> EnvFilter {
    let filter = EnvFilter::try_from_env("DPR_LOG").unwrap_or_else(|_| EnvFilter::new("warn,dpr=info"));
    match format!("{}=off", dpr_serve::TRACE_TARGET).parse() {
        Ok(no_spans) => filter.add_directive(no_spans),
        Err(_) => filter,
    }
}

fn lines<S: Subscriber + for<'a> LookupSpan<'a>>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync> {
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    }
}
