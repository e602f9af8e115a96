//! `cargo xtask image`: the serving-only image, built and started.
//!
//! Where podman or docker answers, `server/deploy/Containerfile` is built and run. Elsewhere the final stage is made
//! by the same steps in a folder, and the server runs in it as in the image: in a root of its own that it cannot
//! write, as another user.

mod chroot;
mod container;

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::demo_data;
use crate::failure::{Failure, Outcome};
use crate::jobs::{Job, run_task};
use crate::process::{Packages, command, output};
use crate::setup;

/// The time that a server may take to read and check the demo's index.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds the image, or what stands for it, starts a server in it and asks whether it is ready.
pub(crate) fn run() -> Outcome {
    const BINARY: &str = "server";
    let mut jobs = setup::only(&[setup::PYTHON, setup::STARTER_MODEL]);
    jobs.push(Job::new(BINARY, &[], || Packages::Serving.build(&["--bin", "dpr"])));
    jobs.extend(demo_data::jobs(BINARY));
    run_task("image", jobs)?;
    match container::program() {
        Some(program) => container::run(program),
        None => {
            println!("image: neither podman nor docker answers here: the same steps in a folder");
            chroot::run()
        }
    }
}

/// A program that serves, ended when this is dropped.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        // Its own signal first: what stands between may have to tidy up.
        let _ = output(&mut command("kill", &["-TERM", &self.0.id().to_string()]));
        for _ in 0..100 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Serving {
    /// Starts it and returns the address that its first line names.
    fn start(command: &mut std::process::Command) -> Outcome<(Self, String)> {
        let failed = |what: String| Failure::new(format!("the server in the image: {what}"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut serving = Self(child.map_err(|e| failed(e.to_string()))?);
        let mut line = String::new();
        if let Some(out) = serving.0.stdout.take() {
            BufReader::new(out).read_line(&mut line).map_err(|e| failed(e.to_string()))?;
        }
        let told: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        match told["listening"].as_str() {
            Some(url) => Ok((serving, url.to_owned())),
            None => Err(failed("it ended before it listened; read what it said above".to_owned())),
        }
    }
}

/// Waits until `/readyz` answers 200.
fn wait_until_ready(url: &str) -> Outcome {
    let started = Instant::now();
    let ready = format!("{url}/readyz");
    loop {
        let status = output(&mut command("curl", &["-s", "-o", "/dev/null", "-w", "%{http_code}", &ready]));
        if status.as_ref().is_ok_and(|status| status == "200") {
            println!("image: {ready} answers 200 after {:.1} s", started.elapsed().as_secs_f64());
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            let status = status.unwrap_or_else(|failure| failure.to_string());
            let what = format!("{ready} did not answer 200 within {} s, but {status}", PATIENCE.as_secs());
            return Err(Failure::new(what));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}
