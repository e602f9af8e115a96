//! Log lines on standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line: timestamp, level, target, fields, and the request's id
    Json,
}

/// Starts logging, filtered by `DPR_LOG`.
pub(super) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("DPR_LOG").unwrap_or_else(|_| EnvFilter::new("warn,dpr=info"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start (tests run several subcommands in one process) keeps the first.
    let _ = match format {
        LogFormat::Text => lines.with_ansi(std::io::stderr().is_terminal()).with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).try_init(),
    };
}
