//! `cargo xtask image`: the serving-only image, built and started.
//!
//! Where podman or docker answers, `server/deploy/Containerfile` is built and run. Elsewhere the final stage is made
//! by the same steps in a folder, and the server runs in it as in the image: in a root of its own that it cannot
//! write, as another user.

mod chroot;
mod container;

use std::time::{Duration, Instant};

use crate::demo_data;
use crate::failure::{Failure, Outcome};
use crate::jobs::{Job, run_task};
use crate::process::Packages;
use crate::server::{Process, status_of};
use crate::setup;

/// The time that a server may take to read and check the demo's index.
const PATIENCE: Duration = Duration::from_secs(60);

/// Builds the image, or what stands for it, starts a server in it and asks whether it is ready.
pub(crate) fn run() -> Outcome {
    run_task("image", jobs())?;
    match container::program() {
        Some(program) => container::run(program),
        None => {
            println!("image: neither podman nor docker answers here: the same steps in a folder");
            chroot::run()
        }
    }
}

/// What the image holds, with the set-up that it needs.
fn jobs() -> Vec<Job> {
    const BINARY: &str = "server";
    let mut jobs = setup::only(&[setup::PYTHON, setup::STARTER_MODEL]);
    jobs.push(Job::new(BINARY, &[], || Packages::Serving.build(&["--bin", "dpr"])));
    jobs.extend(demo_data::jobs(BINARY));
    jobs
}

/// A program that serves, ended when this is dropped.
struct Serving(Process);

impl Drop for Serving {
    fn drop(&mut self) {
        // Its own signal first: what stands between may have to tidy up.
        self.0.end(Duration::from_secs(10));
    }
}

impl Serving {
    /// Starts it and returns the address that its first line names.
    fn start(command: &mut std::process::Command) -> Outcome<(Self, String)> {
        let mut serving = Self(Process::start("the server in the image", command)?);
        let url = serving.0.listening().map_err(|failure| failure.fix("read what it said above"))?;
        Ok((serving, url))
    }
}

/// Waits until `/readyz` answers 200.
fn wait_until_ready(url: &str) -> Outcome {
    let started = Instant::now();
    let ready = format!("{url}/readyz");
    loop {
        let status = status_of(url, "/readyz");
        if status == 200 {
            println!("image: {ready} answers 200 after {:.1} s", started.elapsed().as_secs_f64());
            return Ok(());
        }
        if started.elapsed() > PATIENCE {
            let status = if status == 0 { "not at all".to_owned() } else { status.to_string() };
            let what = format!("{ready} did not answer 200 within {} s, but {status}", PATIENCE.as_secs());
            return Err(Failure::new(what));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_image_brings_the_set_up_that_it_needs() {
        assert_eq!(setup::missing(&jobs()), [""; 0]);
    }
}
