//! A disk that cannot sync: system calls made to fail by strace.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::json;

use super::{Report, folder, index_copy};
use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, dpr};
use crate::process::{command, find_on_path, output};
use crate::server::Server;

/// Updates sent while the disk fails.
const UPDATES: usize = 10;
/// The least of them that must be refused: the first calls to sync succeed.
const REFUSED: usize = 7;

pub(super) fn run(report: &mut Report) -> Outcome {
    let Some(strace) = find_on_path("strace") else {
        println!("skipped: strace, which makes system calls fail, is not installed");
        return Ok(());
    };
    let folder = folder("disk")?;
    let index = index_copy(&folder)?;
    let server = Server::start(&["--model", DEMO_MODEL, "--index", &index, "--allow-updates"], &[])?;
    let model = server.json("/v1/model")?;
    let put = |number: usize| {
        let vector = vec![0.036_f32 * (1.0 + number as f32 / 100.0); 768];
        let passage =
            json!({"id": format!("disk-{number}"), "title": "", "text": "synced or not", "vector": vector});
        let body = json!({"model": model["fingerprint"], "passages": [passage]}).to_string();
        server.ask("POST", "/v1/passages", &[], body.as_bytes())
    };
    if put(0)?.status != 200 {
        return Err(Failure::new("an update is refused before anything fails"));
    }
    let process = server.id().to_string();
    let fail = "inject=fdatasync,fsync:error=EIO:when=4+";
    let mut tracer =
        command(strace, &["-f", "-qq", "-e", fail, "-e", "trace=fdatasync,fsync", "-p", &process]);
    // The calls go nowhere, so that what strace says itself is all that it says.
    tracer.args(["-o", "/dev/null"]);
    let mut tracer = tracer
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start strace: {error}")))?;
    sleep(Duration::from_secs(1));
    still_attached(&mut tracer)?;
    let mut acknowledged = vec!["disk-0".to_owned()];
    let mut refused = Vec::new();
    for number in 1..=UPDATES {
        let answer = put(number)?;
        match answer.status {
            200 => acknowledged.push(format!("disk-{number}")),
            _ => refused.push((answer.status, answer.body().to_owned())),
        }
    }
    let metrics = server.ask("GET", "/metrics", &[], &[])?.text;
    let ready = server.ask("GET", "/readyz", &[], &[])?.status;
    let _ = tracer.kill();
    let _ = tracer.wait();
    report.line(
        "updates refused once syncing fails",
        &format!("{} of {UPDATES}", refused.len()),
        &format!("at least {REFUSED}"),
        refused.len() >= REFUSED,
    );
    let why = refused.last().is_some_and(|(status, text)| *status >= 500 && text.contains("error"));
    report.line("the last one says why", if why { "yes" } else { "no" }, "yes", why);
    report.line("/readyz of a writer whose log is broken", &ready.to_string(), "503", ready == 503);
    let told = metrics.lines().any(|line| line.starts_with("dpr_updates_broken") && line.ends_with(" 1"));
    report.line("dpr_updates_broken", if told { "1" } else { "0" }, "1", told);
    drop(server);
    output(&mut command(dpr(), &["index", "verify", "--index", &index]))?;
    let server = Server::start(&["--model", DEMO_MODEL, "--index", &index, "--allow-updates"], &[])?;
    let body = json!({"ids": acknowledged}).to_string();
    let status = server.ask("DELETE", "/v1/passages", &[], body.as_bytes())?.status;
    report.line(
        &format!("{} acknowledged updates after kill and restart", acknowledged.len()),
        if status == 200 { "all there" } else { "missing" },
        "all there",
        status == 200,
    );
    Ok(())
}

/// Returns what strace said if it has ended: it could not attach to the server, and no call fails.
fn still_attached(tracer: &mut Child) -> Outcome {
    let ended = tracer.try_wait().map_err(|error| Failure::new(format!("lost strace: {error}")))?;
    let Some(status) = ended else { return Ok(()) };
    let mut said = String::new();
    if let Some(mut errors) = tracer.stderr.take() {
        let _ = errors.read_to_string(&mut said);
    }
    Err(Failure::new(format!("strace did not attach to the server ({status}): {}", said.trim()))
        .fix("allow it to trace: as root, with CAP_SYS_PTRACE, or with kernel.yama.ptrace_scope 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracer_that_did_not_attach_is_an_error_with_what_it_said() {
        let start = |script: &str| command("sh", &["-c", script]).stderr(Stdio::piped()).spawn().unwrap();
        let mut refused = start("echo 'attach: Operation not permitted' >&2; exit 1");
        refused.wait().unwrap();
        let said = still_attached(&mut refused).unwrap_err().to_string();
        assert!(said.contains("Operation not permitted") && said.contains("CAP_SYS_PTRACE"), "{said}");
        let mut attached = start("exec sleep 60");
        assert_eq!(still_attached(&mut attached), Ok(()));
        attached.kill().unwrap();
        attached.wait().unwrap();
    }
}
