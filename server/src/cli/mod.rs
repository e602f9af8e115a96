//! The command line: one file a subcommand, each with its `Args` and its `run`.
//!
//! Subcommands parse, call the library and print; nothing is decided here that a library user would miss.
//! Results go to standard output, logs and progress to standard error. A failure is one line,
//! `error: what: why`, and exit status 1; a wrong command line exits with 2. Results that are read to the first lines
//! alone (`| head`) end the work with status 0.

use std::error::Error;
#[cfg(feature = "train")]
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use self::logging::LogFormat;
use clap::{CommandFactory as _, Parser, Subcommand};

pub mod answer;
mod args;
#[cfg_attr(
    not(all(feature = "eval", any(feature = "milvus", feature = "postgres"))),
    allow(dead_code, reason = "evaluation, collections and tables use the rest")
)]
mod by_id;
pub mod data;
#[cfg(feature = "train")]
pub mod distill;
pub mod encode;
mod encrypted;
#[cfg(feature = "eval")]
pub mod eval;
pub mod export_web;
pub mod import;
pub mod index;
pub mod keys;
mod local;
mod logging;
mod model_of_index;
mod opened;
mod output;
mod privacy;
mod progress;
#[cfg_attr(not(feature = "eval"), allow(dead_code, reason = "evaluation uses the rest"))]
mod ranked;
mod reading;
mod reference;
mod rerank;
pub mod search;
pub mod serve;
pub mod shrink;
#[cfg_attr(
    not(all(feature = "eval", any(feature = "milvus", feature = "postgres"))),
    allow(dead_code, reason = "evaluation, collections and tables use the rest")
)]
mod source;
mod source_args;
mod traces;
#[cfg(feature = "train")]
pub mod train;
#[cfg(feature = "train")]
mod train_args;
mod vocabulary_args;

pub use crate::error::CliError;

/// Dense passage retrieval: passages are encoded and indexed here, questions in the browser.
#[derive(Debug, Parser)]
#[command(
    name = "dpr",
    version,
    about,
    after_help = WORKFLOW,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    /// Print the licences of the software in this program
    #[arg(long)]
    licenses: bool,
    /// Print the help of all commands as Markdown
    #[arg(long, hide = true, conflicts_with = "licenses")]
    print_reference: bool,
    #[command(subcommand)]
    command: Option<Command>,
    /// Form of the log lines on standard error
    #[arg(
        long,
        global = true,
        env = "DPR_LOG_FORMAT",
        value_name = "FORMAT",
        value_enum,
        default_value = "text"
    )]
    log_format: LogFormat,
}

/// Notices of the licences of everything that the binary is linked of.
const THIRD_PARTY: &str = include_str!("../../THIRD_PARTY.txt");

const WORKFLOW: &str = "\
From nothing to a search page:
  dpr import --question minilm/ --out model/ --project 768
  dpr export-web --model model/
  dpr encode --model model/ --passages passages.tsv --out vectors/
  dpr index --vectors vectors/ --out index/
  dpr serve --model model/ --index index/ --web web-demo/dist/

Logging: DPR_LOG=debug (or a filter such as dpr_serve=debug), --log-format json.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Read Hugging Face encoders and write a model directory
    Import(import::Args),
    /// Write the browser's copies of the question encoder (f16, 8-bit, 4-bit) into a model directory
    ExportWeb(export_web::Args),
    /// Write a model's question encoder with fewer layers, units and tokens, for `dpr distill` to start from
    Shrink(shrink::Args),
    /// Encode passages into vectors
    Encode(encode::Args),
    /// Build a searchable index of vectors, words, or both
    Index(index::Args),
    /// Search an index with questions
    Search(search::Args),
    /// Answer questions from the passages that a search finds
    Answer(answer::Args),
    /// Serve an index, the model's files and the search page over HTTP
    Serve(Box<serve::Args>),
    /// Make API keys for `dpr serve`
    Keys(keys::Args),
    /// Prepare corpora and training data
    Data(data::Args),
    /// Train question and passage encoders
    #[cfg(feature = "train")]
    Train(train::Args),
    /// Train a small question encoder to give the vectors of a large one
    #[cfg(feature = "train")]
    Distill(distill::Args),
    /// Measure retrieval and reading on questions with known answers
    #[cfg(feature = "eval")]
    Eval(eval::Args),
}

/// The command line as clap knows it, for whoever checks or completes command lines without running them.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Ends the program at once.
type Abort = fn() -> !;

/// The way to end the program at once, in the binary alone.
static ABORT: OnceLock<Abort> = OnceLock::new();

/// Runs the process's command line. `abort` ends the program at the second Ctrl-C, where the first one ends long work
/// cleanly.
pub fn main(abort: Abort) -> ExitCode {
    ABORT.get_or_init(|| abort);
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // `--help` and `--version` arrive here too, with code 0. A closed pipe is no reason to fail.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    let traces = match &cli.command {
        Some(Command::Serve(args)) => args.traces.start(),
        _ => Ok(None),
    };
    let traces = match traces {
        Ok(traces) => traces,
        Err(error) => {
            // The error of the traces is reported; one of the log's filter, if there is any, is not.
            let _ = logging::start(cli.log_format, None);
            return failed(error.as_ref());
        }
    };
    if let Err(error) = logging::start(cli.log_format, traces.as_ref()) {
        return failed(error.as_ref());
    }
    #[cfg(unix)]
    crate::sigbus::install();
    let outcome = match cli.command {
        Some(command) => run(command),
        None if cli.licenses => output::print(THIRD_PARTY),
        None if cli.print_reference => output::print(&reference::markdown(command())),
        None => Err("there is no command to run: `dpr --help` names them".into()),
    };
    if let Some(traces) = traces {
        traces.end();
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error.as_ref()),
    }
}

/// Says what a command failed with and returns its exit status. Results that nobody reads on are no failure.
fn failed(error: &(dyn Error + 'static)) -> ExitCode {
    if error.is::<output::PipeClosed>() {
        return ExitCode::SUCCESS;
    }
    logging::error(&one_line(error));
    ExitCode::FAILURE
}

fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Import(args) => import::run(args),
        Command::ExportWeb(args) => export_web::run(args),
        Command::Shrink(args) => shrink::run(args),
        Command::Encode(args) => encode::run(args),
        Command::Index(args) => index::run(args),
        Command::Search(args) => search::run(args),
        Command::Answer(args) => answer::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::Keys(args) => keys::run(args),
        Command::Data(args) => data::run(args),
        #[cfg(feature = "train")]
        Command::Train(args) => train::run(args),
        #[cfg(feature = "train")]
        Command::Distill(args) => distill::run(args),
        #[cfg(feature = "eval")]
        Command::Eval(args) => eval::run(args),
    }
}

/// Runs a command line within the process, as a step of a longer command.
#[cfg(feature = "train")]
fn run_arguments(words: &[OsString]) -> Result<(), CliError> {
    match Cli::try_parse_from(words)?.command {
        Some(command) => run(command),
        None => Err("there is no command to run".into()),
    }
}

/// Returns the flag that Ctrl-C (or SIGTERM) sets, so that long work ends cleanly. All steps of a command have the
/// same. The second Ctrl-C ends the program at once, because a GPU driver may compile for minutes; files are whole then
/// too.
pub(crate) fn stop_on_interrupt() -> Arc<AtomicBool> {
    static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let stop = STOP.get_or_init(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        // Where another handler is set, a stop still leaves whole files.
        let _ = ctrlc::set_handler(move || {
            let is_second = flag.swap(true, Ordering::Relaxed);
            if let Some(abort) = ABORT.get().filter(|_| is_second) {
                abort();
            }
        });
        stop
    });
    Arc::clone(stop)
}

/// Returns an error, its sources and what helps in one line: `cannot read x: permission denied`.
///
/// A source whose text the line already holds is left out, since many errors print their source themselves.
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = flat(&error.to_string());
    let hint = crate::hints::hint(error);
    let mut source = error.source();
    while let Some(error) = source {
        let text = flat(&error.to_string());
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        source = error.source();
    }
    if let Some(hint) = hint {
        line.push_str(": ");
        line.push_str(&hint);
    }
    line
}

/// Returns a text in one line, with one space between its words and without the control characters by which it could
/// drive a terminal.
fn flat(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot start\nthe index")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn every_subcommand_is_well_formed_and_shows_an_example() {
        Cli::command().debug_assert();
        let mut command = Cli::command();
        command.build();
        check_examples(&mut command, "dpr");
    }

    /// Checks the help of all subcommands, those of subcommands too.
    fn check_examples(command: &mut clap::Command, before: &str) {
        for sub in command.get_subcommands_mut().filter(|sub| sub.get_name() != "help") {
            let name = format!("{before} {}", sub.get_name());
            let examples = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(examples.contains(&name), "`{name} --help` shows no example: {examples}");
            check_examples(sub, &name);
        }
    }

    #[test]
    fn a_passage_cannot_drive_the_terminal() {
        assert_eq!(flat("\u{1b}[31mred\u{7}  and\nblue\u{9b}"), "\u{fffd}[31mred\u{fffd} and blue\u{fffd}");
    }

    #[test]
    fn an_error_and_its_source_are_one_line() {
        let error = Outer(std::io::Error::other("permission denied"));
        assert_eq!(one_line(&error), "cannot start the index: permission denied");
    }

    #[test]
    fn a_source_already_told_is_not_told_twice() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read x: {0}")]
        struct Told(#[source] std::io::Error);
        assert_eq!(one_line(&Told(std::io::Error::other("gone"))), "cannot read x: gone");
    }
}
