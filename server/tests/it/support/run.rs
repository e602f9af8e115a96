//! Run directories: what they recorded, and killing the process that writes one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub(crate) fn metrics(run: &Path) -> Vec<Value> {
    let text = fs_err::read_to_string(run.join("metrics.jsonl")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(crate) fn losses(run: &Path) -> Vec<f64> {
    let metrics = metrics(run);
    metrics.iter().filter(|metric| metric["kind"] == "step").map(|m| m["loss"].as_f64().unwrap()).collect()
}

/// Starts the command that writes `run` and kills it, without warning, once it has taken that many steps.
pub(crate) fn kill_after(mut command: Command, run: &Path, steps: usize) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    while losses(run).len() < steps {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        assert!(started.elapsed() < Duration::from_secs(120), "no {steps} steps in two minutes");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap(); // SIGKILL
    child.wait().unwrap();
}
