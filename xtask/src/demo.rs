//! `cargo xtask demo`: from a fresh clone to a search page.
//!
//! The page is served as soon as it can answer, with the CPU module; the one for relaxed SIMD and the WebGPU module,
//! which takes longer to compile than all else together, are built meanwhile, and the page told when they are there.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, mpsc};

use crate::failure::{Failure, Outcome};
use crate::jobs::{self, Clock, Job, OnFailure, Stop, processors};
use crate::npm::Arrival;
use crate::paths::{DEMO_INDEX, DEMO_MODEL, PAGE, copy_folder, dpr};
use crate::process::{self, Packages, command};
use crate::{demo_data, npm, setup};

const DEFAULT_ADDRESS: &str = "127.0.0.1:7878";
const LOGS: &str = "target/logs/demo";
/// The job that builds `dpr`.
const BINARY: &str = "server";
/// The demo's model with a reader beside it, for `--with-reader`.
const MODEL_WITH_READER: &str = "data/model-with-reader";

/// The options on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Options {
    address: String,
    /// Model directory of a reader, for answers in the page.
    reader: Option<String>,
    /// Model directory of a smaller question encoder, which the page offers too.
    small: Option<String>,
}

/// Sets up, builds what has changed, serves the page, and builds the WebGPU module if it is not there.
///
/// Ctrl-C and signals end the server and what is being built.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let options = options(arguments)?;
    let (clock, stop) = (Clock::now(), Stop::new());
    let is_whole = npm::is_whole()?;
    println!("demo: set-up, server, data and page; logs in {LOGS}");
    if !is_whole {
        println!("demo: the page comes with the CPU module first, the WebGPU module follows while it is up");
    }
    let (report, outcome) =
        jobs::run(first_jobs(is_whole, &options), processors(), LOGS, clock, &stop, OnFailure::EndAll);
    outcome?;
    report.print_times();
    npm::tell(if is_whole { Arrival::Ready } else { Arrival::Building })?;
    let server = serve(&options, clock, &stop)?;
    // Its own: when the module cannot be built, the server goes on.
    let building = Stop::new();
    let rest = (!is_whole).then(|| {
        let building = building.clone();
        std::thread::spawn(move || build_webgpu(clock, &building))
    });
    let outcome = wait(server, &stop);
    building.pull();
    if let Some(rest) = rest {
        let _ = rest.join();
    }
    outcome
}

fn options(arguments: &[String]) -> Outcome<Options> {
    let mut options = Options { address: DEFAULT_ADDRESS.to_owned(), reader: None, small: None };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().cloned();
        match (flag.as_str(), value) {
            ("--listen", Some(address)) if address.to_socket_addrs().is_ok() => options.address = address,
            ("--listen", Some(address)) => {
                return Err(Failure::new(format!("--listen {address} is not an address with a port"))
                    .fix(format!("give both, as in {DEFAULT_ADDRESS} or [::1]:7878")));
            }
            ("--with-reader", Some(reader)) => options.reader = Some(reader),
            ("--with-reader", None) => {
                return Err(Failure::new("--with-reader needs the directory of a reader").fix(
                    "import one (`dpr import --reader`), or train one (`dpr train --config configs/reader-cpu.toml`): \
                     docs/guide/reader.md",
                ));
            }
            ("--with-small", Some(small)) => options.small = Some(small),
            ("--with-small", None) => {
                return Err(Failure::new(
                    "--with-small needs a model directory of a smaller question encoder",
                )
                .fix("make one of the demo's model (`dpr shrink`, `dpr distill`): docs/guide/training.md"));
            }
            _ => {
                return Err(Failure::new(
                    "demo takes only --listen ADDRESS:PORT, --with-reader READER and --with-small MODEL",
                ));
            }
        }
    }
    // Said before half an hour of building.
    if let Some(small) = &options.small
        && !Path::new(small).join("web/web.json").is_file()
    {
        return Err(Failure::new(format!("{small} has no weights for browsers (web/web.json)"))
            .fix("give RUN/best of `dpr distill`, after `dpr export-web --dtype q4`"));
    }
    match &options.reader {
        Some(reader) if !Path::new(reader).join("reader").is_dir() => {
            Err(Failure::new(format!("{reader} is no directory of a reader"))
                .fix("give one that `dpr import --reader` wrote, or RUN/best of `dpr train --task reader`"))
        }
        _ => Ok(options),
    }
}

/// Everything until a page answers.
fn first_jobs(is_whole: bool, options: &Options) -> Vec<Job> {
    let mut jobs = setup::jobs(setup::Scope::Demo);
    jobs.push(npm::tool(Packages::Serving));
    jobs.push(npm::cpu_module());
    jobs.push(Job::new(BINARY, &[npm::TOOL], || Packages::Serving.build(&["--bin", "dpr"])));
    jobs.extend(demo_data::jobs(BINARY));
    if let Some(reader) = options.reader.clone() {
        jobs.push(Job::new("reader", &[demo_data::MODEL], move || add_reader(&reader)));
    }
    jobs.extend([npm::bound_cpu(), npm::scripts()]);
    if is_whole {
        jobs.extend(npm::bound_later());
        jobs.extend(npm::whole_page(npm::publish));
    } else {
        jobs.push(npm::early_page());
    }
    jobs
}

/// Makes a model directory like the demo's, whose export for pages has this reader too.
fn add_reader(reader: &str) -> Outcome {
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {MODEL_WITH_READER}: {e}"));
    if Path::new(MODEL_WITH_READER).exists() {
        fs::remove_dir_all(MODEL_WITH_READER).map_err(failed)?;
    }
    copy_folder(Path::new(DEMO_MODEL), Path::new(MODEL_WITH_READER)).map_err(failed)?;
    process::run(&mut command(dpr(), &["export-web", "--model", MODEL_WITH_READER, "--reader", reader]))
}

/// Builds what the first page is without, and tells the pages that are open.
fn build_webgpu(clock: Clock, stop: &Arc<Stop>) {
    let mut jobs: Vec<Job> = npm::later_modules(npm::Needed::Later).into();
    jobs.extend(npm::bound_later());
    jobs.extend(npm::whole_page(npm::publish_beside));
    let (_, outcome) = jobs::run(jobs, processors(), LOGS, clock, stop, OnFailure::EndAll);
    let told = match &outcome {
        Ok(()) => {
            clock.line("the WebGPU module is there: an open page says so, a new one uses it");
            npm::tell(Arrival::Ready)
        }
        Err(failure) => {
            clock.line(&format!("no WebGPU module: {failure}"));
            npm::tell(Arrival::Failed)
        }
    };
    if let Err(failure) = told {
        clock.line(&failure.to_string());
    }
}

/// Starts the server and returns once it says that it listens.
fn serve(options: &Options, clock: Clock, stop: &Stop) -> Outcome<Child> {
    let model = if options.reader.is_some() { MODEL_WITH_READER } else { DEMO_MODEL };
    let arguments =
        ["serve", "--model", model, "--index", DEMO_INDEX, "--web", PAGE, "--listen", &options.address];
    let failed = |e: std::io::Error| Failure::new(format!("cannot start `dpr serve`: {e}"));
    let mut server = command(dpr(), &arguments);
    server.args(options.small.iter().flat_map(|small| ["--small", small.as_str()]));
    let mut server = stop.spawn(server.stdin(Stdio::null()).stdout(Stdio::piped())).map_err(failed)?;
    let (listens, first_line) = mpsc::channel();
    if let Some(out) = server.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                println!("{line}");
                let _ = listens.send(());
            }
        });
    }
    // No line: it ended, and its status will say why.
    if first_line.recv().is_ok() {
        clock.line("open the address above and type \"who won super bowl 50\"; Ctrl-C ends it");
    }
    Ok(server)
}

/// Waits for the server; that a signal ended it is no failure.
fn wait(mut server: Child, stop: &Stop) -> Outcome {
    let status = server.wait();
    stop.ended(server.id());
    match status {
        Ok(status) if status.success() || stop.is_pulled() => Ok(()),
        Ok(status) => {
            Err(Failure::new(format!("`dpr serve` ended ({status})")).fix("read what it said above"))
        }
        Err(error) => Err(Failure::new(format!("lost `dpr serve`: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_brings_the_set_up_that_it_needs() {
        for is_whole in [false, true] {
            let jobs = first_jobs(is_whole, &options(&[]).unwrap());
            assert_eq!(setup::missing(&jobs), [""; 0]);
        }
    }

    #[test]
    fn the_options_are_taken_in_any_order_and_a_folder_without_a_reader_is_refused_before_anything_is_built()
    {
        let options = |line: &str| options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(
            options("").unwrap(),
            Options { address: DEFAULT_ADDRESS.to_owned(), reader: None, small: None }
        );
        let folder = std::env::temp_dir().join(format!("dpr-demo-{}", std::process::id()));
        fs::create_dir_all(folder.join("reader")).unwrap();
        let reader = folder.to_str().unwrap();
        fs::create_dir_all(folder.join("web")).unwrap();
        fs::write(folder.join("web/web.json"), "{}").unwrap();
        let all =
            options(&format!("--with-reader {reader} --listen 127.0.0.1:0 --with-small {reader}")).unwrap();
        let given = Some(reader.to_owned());
        assert_eq!(all, Options { address: "127.0.0.1:0".to_owned(), reader: given.clone(), small: given });
        fs::remove_dir_all(&folder).unwrap();
        for (line, words) in [
            (format!("--with-reader {reader}"), "is no directory of a reader"),
            ("--with-reader".to_owned(), "needs the directory of a reader"),
            (format!("--with-small {reader}"), "has no weights for browsers"),
            ("--with-small".to_owned(), "needs a model directory"),
            ("--port 1".to_owned(), "--with-reader READER"),
            ("--listen".to_owned(), "--listen ADDRESS:PORT"),
            ("--listen 7878".to_owned(), "is not an address with a port"),
            ("--listen localhost".to_owned(), "is not an address with a port"),
        ] {
            assert!(options(&line).unwrap_err().to_string().contains(words), "{line}");
        }
    }
}
