//! `cargo xtask lint`: rustfmt, clippy, rustdoc and the TypeScript linter. `cargo xtask test` runs them too.

use crate::failure::Outcome;
use crate::jobs::{Job, run_task};
use crate::process::{self, cargo, command, output};
use crate::setup;

pub(super) const CLIPPY: &str = "clippy";
/// The arguments of the linter of TypeScript.
const BIOME: [&str; 4] = ["lint", "--error-on-warnings", "--max-diagnostics=100", "."];

/// Runs them all.
pub(crate) fn run() -> Outcome {
    let mut jobs = setup::only(&[setup::COMPONENTS, setup::NODE, setup::TEST_PACKAGES]);
    jobs.push(format());
    jobs.extend(jobs_after(&[]));
    run_task("lint", jobs)
}

/// The format check.
pub(super) fn format() -> Job {
    Job::new("format check", &[setup::COMPONENTS], || {
        output(&mut cargo(&["fmt", "--all", "--check"]))
            .map(drop)
            .map_err(|failure| failure.fix("run `cargo fmt --all`"))
    })
}

/// The linters. Cargo lets one build at a time into a folder, so Rust's come after each other and after `builds`.
pub(super) fn jobs_after(builds: &[&'static str]) -> [Job; 3] {
    [
        Job::new("TypeScript linter", &[setup::BIOME], || {
            process::run(&mut command(setup::tools::BIOME.path(), &BIOME))
        }),
        Job::new(CLIPPY, &[&[setup::COMPONENTS], builds].concat(), || {
            process::run(&mut cargo(&of_native("clippy", &["--all-targets", "--", "-D", "warnings"])))
        }),
        Job::new("rustdoc", &[CLIPPY], || {
            process::run(cargo(&of_native("doc", &["--no-deps"])).env("RUSTDOCFLAGS", "-D warnings"))
        }),
    ]
}

/// Release builds, though nothing is compiled: build scripts and macros are the same then.
fn of_native<'a>(subcommand: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[subcommand, "--release", "--workspace", "--exclude", "dpr-wasm"], more].concat()
}
