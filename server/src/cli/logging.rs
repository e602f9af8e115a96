//! Log lines on standard error, and the traces that may be sent beside them.

use std::env::{self, VarError};
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;

use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::traces::Traces;
use super::{CliError, flat};

/// The environment variable of the filter.
const VARIABLE: &str = "DPR_LOG";

/// The filter where none is given.
const DEFAULT: &str = "warn,dpr=info";

/// The filters that are possible.
const GIVE: &str = "give a level (error, warn, info, debug or trace), or a filter such as dpr_serve=debug";

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
        // `eprintln!` panics where standard error is closed.
        let _ = writeln!(io::stderr(), "error: {line}");
    }
}

/// Starts logging, filtered by `DPR_LOG`, and hands spans to `traces`.
///
/// # Errors
/// A filter that cannot be read; lines are then those of the default filter.
pub(super) fn start(format: LogFormat, traces: Option<&Traces>) -> Result<(), CliError> {
    FORMAT.get_or_init(|| format);
    let (directives, read) = match directives() {
        Ok(directives) => (directives, Ok(())),
        Err(error) => (DEFAULT.to_owned(), Err(error)),
    };
    // Without the filter, which may leave warnings out.
    tracing::subscriber::with_default(Registry::default().with(lines(format)), || {
        for word in unknown_words(&directives) {
            tracing::warn!(
                "{VARIABLE}: `{}` is no level: it is taken as the name of a module, whose lines are all written; levels \
                 are error, warn, info, debug and trace",
                flat(word)
            );
        }
    });
    let filter = filter(&directives);
    // A second start (tests run several subcommands in one process) keeps the first.
    let _ = match traces {
        Some(traces) => {
            // Lines have a filter of their own, so that it does not decide what is traced.
            let lines = lines(format).with_filter(filter);
            Registry::default().with(traces.layer()).with(lines).try_init()
        }
        None => Registry::default().with(filter).with(lines(format)).try_init(),
    };
    read
}

/// Returns the filter that `DPR_LOG` gives, or the default one, as text that a filter can be made of.
fn directives() -> Result<String, CliError> {
    match env::var(VARIABLE) {
        Ok(directives) => checked(directives),
        Err(VarError::NotPresent) => Ok(DEFAULT.to_owned()),
        Err(VarError::NotUnicode(_)) => Err(format!("{VARIABLE} is not UTF-8: {GIVE}").into()),
    }
}

/// Refuses text that no filter can be made of.
fn checked(directives: String) -> Result<String, CliError> {
    match EnvFilter::try_new(&directives) {
        Ok(_) => Ok(directives),
        Err(error) => Err(format!("{VARIABLE} is `{directives}`, no filter ({error}): {GIVE}").into()),
    }
}

/// Returns the words of a filter that are neither levels nor names of this program's modules.
fn unknown_words(directives: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    directives.split(',').map(str::trim).filter(move |word| {
        // The fields of a span have commas between them too.
        let is_field = depth > 0;
        for sign in word.chars() {
            match sign {
                '[' | '{' => depth += 1,
                ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        let is_name = word.starts_with("dpr") || word.contains("::");
        let is_directive = is_field || word.contains(['=', '[', ']', '{', '}']);
        !is_directive && !is_name && word.parse::<LevelFilter>().is_err()
    })
}

/// Returns the filter of the log: the one that the text gives, but never the spans of traces, which would stand in
/// every line.
fn filter(directives: &str) -> EnvFilter {
    let filter = EnvFilter::new(directives);
    match format!("{}=off", dpr_serve::TRACE_TARGET).parse() {
        Ok(no_spans) => filter.add_directive(no_spans),
        Err(_) => filter,
    }
}

fn lines<S: Subscriber + for<'a> LookupSpan<'a>>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync> {
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    match format {
        LogFormat::Text => lines.with_ansi(io::stderr().is_terminal()).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_cannot_be_read_is_refused_with_an_example() {
        for wrong in ["dpr=loud", "=debug", "dpr[span"] {
            let error = checked(wrong.to_owned()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("DPR_LOG is `{wrong}`")), "{error}");
            assert!(error.contains("or a filter such as dpr_serve=debug"), "{error}");
        }
        for right in ["debug", "off", "warn,dpr=info", "dpr_serve=debug", ""] {
            assert_eq!(checked(right.to_owned()).unwrap(), right);
        }
    }

    #[test]
    fn a_word_that_is_no_level_is_found_in_a_filter() {
        let found = |directives| unknown_words(directives).collect::<Vec<_>>();
        assert_eq!(found("verbose"), ["verbose"]);
        assert_eq!(found("warn, quiet,dpr=info"), ["quiet"]);
        assert_eq!(found("dpr[a{b,c}]=debug,loud"), ["loud"]);
        let of_spans = ["[a{b=1}]=debug", "dpr[search{a,b,c}]=debug"];
        let of_modules = ["", "DEBUG", "3", "off,dpr_serve", "hyper::proto", "hyper=trace"];
        for known in of_modules.into_iter().chain(of_spans) {
            assert_eq!(found(known), [""; 0], "{known}");
        }
    }
}
