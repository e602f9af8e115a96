//! `cargo xtask soak`: hundreds of clients that search, change and misuse one server for minutes.
//!
//! Every answer is held against what the clients know: a ledger of all passages, with the moments between which each
//! became what it is. The index is exact, so a search must find the best passages of the ledger, but for those that
//! changed while it ran. The server logs all it can, and nothing of texts, vectors or keys may be in it.

mod clients;
mod filter;
mod ledger;
mod misuse;
mod numbers;
mod passage;
mod report;
mod server;
mod wire;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::demo_data;
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, DEMO_VECTORS, dpr};
use crate::process::{command, output};
use ledger::Ledger;
use report::Report;
use server::Server;

const INDEX: &str = "target/soak/index";

/// The load and the duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Settings {
    clients: usize,
    seconds: u64,
}

/// Builds an exact index of the demo's passages and soaks a server of it.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let settings = settings(arguments)?;
    demo_data::build()?;
    soak(settings, DEMO_MODEL, DEMO_VECTORS, INDEX)
}

fn settings(arguments: &[String]) -> Outcome<Settings> {
    let mut settings = Settings { clients: 256, seconds: 600 };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().and_then(|value| value.parse::<u32>().ok()).filter(|value| *value > 0);
        match (flag.as_str(), value) {
            ("--clients", Some(value)) if value as usize >= clients::FEWEST => {
                settings.clients = value as usize
            }
            ("--seconds", Some(value)) => settings.seconds = value.into(),
            _ => return Err(Failure::new("soak takes --clients N (256) and --seconds N (600)")),
        }
    }
    Ok(settings)
}

fn soak(settings: Settings, model: &str, vectors: &str, index: &str) -> Outcome {
    let Settings { clients, seconds } = settings;
    let _ = fs::remove_dir_all(index);
    output(&mut command(dpr(), &["index", "--vectors", vectors, "--out", index, "--kind", "exact"]))?;
    let ledger = Ledger::read(index)?;
    let server = Server::start(model, index)?;
    println!("soak: {clients} clients for {seconds} s at {}, {} passages", server.address(), ledger.len());
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    let mut report = std::thread::scope(|scope| {
        let working: Vec<_> = (0..clients)
            .map(|number| {
                let (ledger, server, stop) = (&ledger, &server, &stop);
                scope.spawn(move || clients::work(number, clients, ledger, server, stop))
            })
            .collect();
        let mut memory = Vec::new();
        while started.elapsed() < Duration::from_secs(seconds) && server.is_alive() {
            std::thread::sleep(Duration::from_millis(500));
            memory.push((started.elapsed().as_secs_f64(), server.memory()));
        }
        stop.store(true, Ordering::Relaxed);
        let mut report = Report::default();
        report.memory = memory;
        for client in working {
            match client.join() {
                Ok(other) => report.add(other),
                Err(_) => report.wrong.push("a client panicked".to_owned()),
            }
        }
        report
    });
    report.version = server.version().unwrap_or_default();
    if !server.is_alive() {
        report.wrong.push("the server ended".to_owned());
    }
    report.leaked = server.end();
    report.print(started.elapsed().as_secs_f64());
    report.judge()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_numbers_above_zero() {
        let of = |line: &str| settings(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("").unwrap(), Settings { clients: 256, seconds: 600 });
        assert_eq!(of("--clients 16 --seconds 20").unwrap(), Settings { clients: 16, seconds: 20 });
        assert!(of("--clients 3").is_err() && of("--seconds").is_err() && of("16").is_err());
    }
}
