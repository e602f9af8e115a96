//! `cargo xtask demo`: from a fresh clone to a search page.
//!
//! The page is served as soon as it can answer, with the CPU module; the WebGPU module, which takes longer to compile
//! than all else together, is built meanwhile, and the page told when it is there.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, mpsc};

use crate::failure::{Failure, Outcome};
use crate::jobs::{self, Clock, Job, Stop, processors};
use crate::npm::{Arrival, MODULES};
use crate::paths::{DEMO_INDEX, DEMO_MODEL, PAGE, dpr};
use crate::process::{Packages, command};
use crate::{demo_data, npm, setup};

const DEFAULT_ADDRESS: &str = "127.0.0.1:7878";
const LOGS: &str = "target/logs/demo";
/// The job that builds `dpr`.
const BINARY: &str = "server";

/// Sets up, builds what has changed, serves the page, and builds the WebGPU module if it is not there.
///
/// Ctrl-C and signals end the server and what is being built.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let address = match arguments {
        [] => DEFAULT_ADDRESS,
        [flag, address] if flag == "--listen" => address,
        _ => return Err(Failure::new("demo takes only --listen ADDRESS:PORT")),
    };
    let (clock, stop) = (Clock::now(), Stop::new());
    let is_whole = MODULES[1].is_fresh()?;
    println!("demo: set-up, server, data and page; logs in {LOGS}");
    if !is_whole {
        println!("demo: the page comes with the CPU module first, the WebGPU module follows while it is up");
    }
    let (report, outcome) = jobs::run(first_jobs(is_whole), processors(), LOGS, clock, &stop);
    outcome?;
    report.print_times();
    npm::tell(if is_whole { Arrival::Ready } else { Arrival::Building })?;
    let server = serve(address, clock, &stop)?;
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

/// Everything until a page answers.
fn first_jobs(is_whole: bool) -> Vec<Job> {
    let mut jobs = setup::jobs(setup::Scope::Demo);
    jobs.push(npm::tool(Packages::Serving));
    jobs.push(npm::cpu_module());
    jobs.push(Job::new(BINARY, &[npm::TOOL], || Packages::Serving.build(&["--bin", "dpr"])));
    jobs.extend(demo_data::jobs(BINARY));
    let [cpu, webgpu] = npm::bound();
    jobs.extend([cpu, npm::scripts()]);
    if is_whole {
        jobs.push(webgpu);
        jobs.extend(npm::whole_page(npm::publish));
    } else {
        jobs.push(npm::early_page());
    }
    jobs
}

/// Builds what the first page is without, and tells the pages that are open.
fn build_webgpu(clock: Clock, stop: &Arc<Stop>) {
    let [_, bound] = npm::bound();
    let mut jobs = vec![npm::webgpu_module(), bound];
    jobs.extend(npm::whole_page(npm::publish_beside));
    let (_, outcome) = jobs::run(jobs, processors(), LOGS, clock, stop);
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
fn serve(address: &str, clock: Clock, stop: &Stop) -> Outcome<Child> {
    let arguments =
        ["serve", "--model", DEMO_MODEL, "--index", DEMO_INDEX, "--web", PAGE, "--listen", address];
    let failed = |e: std::io::Error| Failure::new(format!("cannot start `dpr serve`: {e}"));
    let mut server = command(dpr(), &arguments);
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
