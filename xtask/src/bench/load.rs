//! `dpr serve` under load: wrk on the same machine, one search a request.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::index::{Vectors, vectors};
use super::report::verdict;
use super::{json, number};
use crate::failure::Outcome;
use crate::paths::{DEMO_MODEL, built};
use crate::process::{self, command, output};
use crate::server::Server;
use crate::setup::tools;

/// Connections open at once, in the order they are tried.
const CONNECTIONS: [&str; 4] = ["1", "16", "64", "256"];
/// Requests after which memory must be what it was.
const REQUESTS: f64 = 200_000.0;
/// Most that memory may grow by over them, in bytes.
const GROWTH: f64 = 64e6;
/// Largest share of refusals among the responses at which percentiles are printed.
pub(super) const REFUSALS: f64 = 0.01;

pub(super) fn run(is_quick: bool) -> Outcome {
    let Some(Vectors { folder, vectors, questions, blocks }) = vectors(is_quick)? else { return Ok(()) };
    let wrk = prepare(&vectors, &questions, &folder)?;
    let server = Server::start(&["--model", DEMO_MODEL, "--index", &format!("{folder}/index")], &[])?;
    let load = |connections: &str, seconds: &str| load(&wrk, &server, &folder, connections, seconds);
    let seconds = if is_quick { "5" } else { "20" };
    load("16", "3")?;
    println!(
        "\n{blocks} passages (hnsw), the best 10 of one vector a request, wrk beside the server on the same processors"
    );
    println!(
        "{:>11} {:>12} {:>9} {:>9} {:>8} {:>8}",
        "connections", "answers/s", "p50, ms", "p99, ms", "429/s", "failed"
    );
    let mut failed = 0.0;
    for connections in CONNECTIONS {
        let said = load(connections, seconds)?;
        let of = |name: &str| number(&said, name);
        let (refused, lost, seconds) = (of("refused")?, of("failed")?, of("seconds")?);
        let (speed, refusals) = ((of("requests")? - refused) / seconds, refused / seconds);
        let share = refused / of("requests")?.max(1.0);
        let [middle, late] = [of("p50")?, of("p99")?].map(|time| latency(time, share));
        failed += lost;
        println!("{connections:>11} {speed:>12.0} {middle:>9} {late:>9} {refusals:>8.0} {lost:>8.0}");
    }
    let before = server.memory();
    let mut requests = 0.0;
    while requests < REQUESTS && !is_quick {
        let said = load("16", seconds)?;
        requests += number(&said, "requests")?;
        failed += number(&said, "failed")?;
    }
    let (after, other) = (server.memory(), other_statuses(&server)?);
    let grown = after - before;
    println!(
        "memory after {requests:.0} requests more: {:.1} MB, {:.1} MB before: {:+.1}, at most {:.0}  {}",
        after / 1e6,
        before / 1e6,
        grown / 1e6,
        GROWTH / 1e6,
        verdict(grown <= GROWTH)
    );
    println!(
        "no answer but 200 and 429: {other} others, {failed} connections failed  {}",
        verdict(other == 0 && failed == 0.0)
    );
    Ok(())
}

/// Returns a percentile of the times of all responses, in milliseconds: a dash where too many are refusals, which come
/// in no time and which wrk does not tell from answers.
fn latency(milliseconds: f64, refused: f64) -> String {
    if refused > REFUSALS { "–".to_owned() } else { format!("{milliseconds:.2}") }
}

/// Builds wrk, and writes an index and the bodies of searches into `folder`; returns the program.
pub(super) fn prepare(vectors: &str, questions: &str, folder: &str) -> Outcome<PathBuf> {
    let wrk = tools::wrk()?;
    process::build_benches(&["load_bench"])?;
    output(&mut command(built("load_bench"), &[vectors, DEMO_MODEL, questions, folder]))?;
    Ok(wrk)
}

/// Returns what wrk counts over some seconds with so many connections.
pub(super) fn load(
    wrk: &Path,
    server: &Server,
    folder: &str,
    connections: &str,
    seconds: &str,
) -> Outcome<Value> {
    let threads = if connections == "1" { "1" } else { "2" };
    let arguments = ["-t", threads, "-c", connections, "-d", seconds, "-s", "tests/bench/load.lua"];
    let bodies = format!("{folder}/bodies.jsonl");
    let said = output(command(wrk, &arguments).args([server.url.as_str(), "--", &bodies]))?;
    let line = said.lines().find(|line| line.starts_with('{')).unwrap_or_default();
    json(line, "wrk")
}

/// Searches answered by neither 200 nor 429, by the server's own count.
fn other_statuses(server: &Server) -> Outcome<u64> {
    let said = server.ask("GET", "/metrics", &[], &[])?.text;
    let searches = said
        .lines()
        .filter(|line| line.starts_with("dpr_http_requests_total{") && line.contains("route=\"/v1/search\""));
    let other = searches
        .filter(|line| !["status=\"200\"", "status=\"429\""].iter().any(|status| line.contains(status)));
    Ok(other.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_percentile_is_printed_where_more_than_a_hundredth_are_refusals() {
        assert_eq!(latency(9.416, 0.0), "9.42");
        assert_eq!(latency(9.416, 0.01), "9.42");
        assert_eq!(latency(9.416, 0.011), "–");
    }
}
