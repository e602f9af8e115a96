//! Encoding, training and exact search on the GPU that is here, beside PyTorch where it has one: a program that reads
//! no file, so that it can be taken to another machine.

use crate::failure::Outcome;
use crate::process::{self, cargo, command};

/// The folder of the build with SPIR-V, whose Burn has other features.
const TARGET: &str = "target/gpu";

/// Files that a machine with a GPU of its own has on Linux.
const NODES: [&str; 3] = ["/dev/nvidiactl", "/dev/kfd", "/dev/dri/renderD128"];

pub(super) fn run() -> Outcome {
    let features: &[&str] = if NODES.iter().any(|node| std::path::Path::new(node).exists()) {
        &["--features", "real-gpu"]
    } else {
        println!("bench: no GPU of its own here: a software driver, and WGSL, which it takes");
        &[]
    };
    let build = ["build", "--release", "--target-dir", TARGET, "-p", "dpr-bench", "--bin", "gpu_bench"];
    process::run(cargo(&build).args(features))?;
    let program = format!("{TARGET}/release/gpu_bench");
    println!("bench: {program} runs elsewhere too: it needs a Vulkan driver and nothing else");
    process::run(&mut command(program, &["all"]))
}
