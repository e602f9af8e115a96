//! The image itself, by podman or docker.

use super::wait_until_ready;
use crate::failure::Outcome;
use crate::paths::absolute;
use crate::process::{command, output, run as execute, succeeds};

const NAME: &str = "dpr-image-test";

/// The first of the two that answers: docker's program alone, without its service, is not enough.
pub(super) fn program() -> Option<&'static str> {
    ["podman", "docker"].into_iter().find(|program| succeeds(&mut command(program, &["info"])))
}

/// Builds the image and runs it read-only, without capabilities, as its own user.
pub(super) fn run(program: &str) -> Outcome {
    // The default of podman, OCI, drops the health check. Docker has no other format.
    let format: &[&str] = if program == "podman" { &["--format", "docker"] } else { &[] };
    let mut build = command(program, &["build"]);
    execute(build.args(format).args(["-f", "server/deploy/Containerfile", "-t", NAME, "."]))?;
    let data = format!("{}:/data:ro", absolute("data").display());
    let _ = output(&mut command(program, &["rm", "--force", NAME]));
    let options =
        ["--detach", "--name", NAME, "--read-only", "--cap-drop", "all", "--env", "DPR_PUBLIC=true"];
    let mut start = command(program, &["run"]);
    output(start.args(options).args(["--publish", "127.0.0.1::7878", "--volume", &data, NAME]))?;
    let outcome = output(&mut command(program, &["port", NAME, "7878/tcp"])).and_then(|address| {
        let address = address.lines().next().unwrap_or_default().trim().to_owned();
        wait_until_ready(&format!("http://{address}"))
    });
    if outcome.is_err() {
        let _ = execute(&mut command(program, &["logs", NAME]));
    }
    output(&mut command(program, &["rm", "--force", NAME]))?;
    outcome
}
