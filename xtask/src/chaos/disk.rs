//! A disk that cannot sync: system calls made to fail by strace.

use std::process::Stdio;
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
    let mut tracer = tracer
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Failure::new(format!("cannot start strace: {error}")))?;
    sleep(Duration::from_secs(1));
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
        "all after the first",
        refused.len() + 3 >= UPDATES,
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
