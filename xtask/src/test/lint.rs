//! `cargo xtask lint`: rustfmt, clippy, rustdoc and the TypeScript linter. `cargo xtask test` runs them too.

use std::path::PathBuf;
use std::process::Command;

use crate::failure::{Failure, Outcome};
use crate::jobs::{Job, run_task};
use crate::paths::{TOOLS, absolute, built};
use crate::process::{self, cargo, command, output};
use crate::setup;

pub(super) const CLIPPY: &str = "clippy";
/// The arguments of the linter of TypeScript.
const BIOME: [&str; 4] = ["lint", "--error-on-warnings", "--max-diagnostics=100", "."];

/// Builds the compiler that lints what it compiles; see `xtask/src/bin/rustc_lint.rs`.
pub(crate) fn build_compiler() -> Outcome {
    process::run(&mut cargo(&["build", "--release", "-p", "xtask", "--bin", "rustc-lint"]))?;
    let copied = std::fs::create_dir_all(TOOLS).and_then(|()| std::fs::copy(built("rustc-lint"), compiler()));
    copied.map(drop).map_err(|e| Failure::new(format!("cannot write {}: {e}", compiler().display())))
}

/// Makes a cargo command lint each crate of the workspace as it compiles it.
///
/// All builds of a run must do so: cargo keeps what this compiler built apart from what rustc alone built.
pub(crate) fn while_compiling(cargo: &mut Command) -> &mut Command {
    cargo.env("RUSTC_WORKSPACE_WRAPPER", compiler())
}

/// Returns the path of the compiler that lints: where cargo puts it, a build of all programs replaces it.
fn compiler() -> PathBuf {
    absolute(TOOLS).join(format!("rustc-lint{}", std::env::consts::EXE_SUFFIX))
}

/// Runs them all.
pub(crate) fn run() -> Outcome {
    run_task("lint", jobs())
}

/// All of them, with the set-up that they need.
fn jobs() -> Vec<Job> {
    let mut jobs = setup::only(&[setup::COMPONENTS, setup::NODE, setup::BIOME, setup::TEST_PACKAGES]);
    jobs.extend([format(), documentation(), typescript()]);
    jobs.extend(rust_after(&[]));
    jobs
}

/// The format check.
pub(super) fn format() -> Job {
    Job::new("format check", &[setup::COMPONENTS], || {
        output(&mut cargo(&["fmt", "--all", "--check"]))
            .map(drop)
            .map_err(|failure| failure.fix("run `cargo fmt --all`"))
    })
}

/// The check of the documentation's links, tasks and versions.
pub(super) fn documentation() -> Job {
    Job::new("documentation check", &[], crate::docs::check_sources)
}

/// The linter of TypeScript.
pub(super) fn typescript() -> Job {
    Job::new("TypeScript linter", &[setup::BIOME], || {
        process::run(&mut command(setup::tools::BIOME.path(), &BIOME))
    })
}

/// The linters of Rust, without a build. Cargo lets one command at a time into a folder, so they come after each other
/// and after `builds`.
pub(super) fn rust_after(builds: &[&'static str]) -> [Job; 2] {
    [
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_linters_bring_the_set_up_that_they_need() {
        let jobs = jobs();
        assert!(jobs.iter().any(|job| job.name == setup::BIOME));
        assert_eq!(setup::missing(&jobs), [""; 0]);
    }
}
