//! The test runners: Rust's, Node's and Playwright's, with the lines they close with.

use super::lint;
use crate::failure::Outcome;
use crate::jobs::Done;
use crate::paths::{dpr, venv_python};
use crate::process::{Packages, command, run, run_lines};
use crate::setup;
use crate::setup::tools::chromium;

/// Runs the tests of all native crates, as a build that `lints` left them or one that does not.
pub(super) fn rust(lints: bool) -> Outcome<Done> {
    let mut cargo = Packages::All.command("test", &[]);
    if lints {
        lint::while_compiling(&mut cargo);
    }
    if let Some(python) = setup::python::milvus_python() {
        cargo.env("DPR_MILVUS_PYTHON", python);
    }
    cargo.env("DPR_POSTGRES_PYTHON", venv_python());
    // On a software adapter a kernel takes seconds to compile: fewer sizes are told apart, so that fewer are compiled.
    cargo.env("CUBECL_AUTOTUNE_LEVEL", "minimal");
    let lines = run_lines(&mut cargo)?;
    let mut closing: Vec<_> = results(&lines).map(str::to_owned).collect();
    let total = total(&lines);
    closing.push(total.clone());
    Ok(Done { note: total, closing })
}

/// Runs the npm package's tests.
pub(super) fn node() -> Outcome<Done> {
    let lines = run_lines(command("npm", &["test"]).current_dir("wasm/npm"))?;
    Ok(closed(&lines, &["# tests", "# pass", "# fail", "ℹ tests", "ℹ pass", "ℹ fail"]))
}

/// Installs the packed package into projects, builds them with other people's tools and asks their pages.
pub(super) fn bundlers(all: bool) -> Outcome<Done> {
    run(&mut command("node", &["--test", "tests/bundlers/support/support.test.mjs"]))?;
    let mut node = command("node", &["tests/bundlers/run.mjs"]);
    if !all {
        node.arg("--short");
    }
    if let Some(program) = chromium() {
        node.env("CHROMIUM", program);
    }
    let lines = run_lines(&mut node)?;
    Ok(closed(&lines, &["bundlers: "]))
}

/// Runs the tests in Chromium.
pub(super) fn browser() -> Outcome<Done> {
    let mut npm = command("npm", &["test"]);
    npm.current_dir("tests/browser").env("DPR_BIN", dpr());
    if let Some(program) = chromium() {
        npm.env("CHROMIUM", program);
    }
    let lines = run_lines(&mut npm)?;
    Ok(closed(&lines, &[" passed", " failed", " flaky", " skipped", "did not run"]))
}

/// Cargo's `test result:` lines, as it printed them.
fn results(lines: &[String]) -> impl Iterator<Item = &str> {
    lines.iter().map(|line| line.trim()).filter(|line| line.starts_with("test result: "))
}

/// Adds up cargo's `test result:` lines.
fn total(lines: &[String]) -> String {
    let mut totals = [("passed", 0_u64), ("failed", 0), ("ignored", 0)];
    let mut suites = 0;
    for result in results(lines).filter_map(|line| line.strip_prefix("test result: ")) {
        suites += 1;
        for part in result.split(['.', ';']).map(str::trim) {
            let Some((number, word)) = part.split_once(' ') else { continue };
            if let (Ok(number), Some(total)) =
                (number.parse::<u64>(), totals.iter_mut().find(|(name, _)| *name == word))
            {
                total.1 += number;
            }
        }
    }
    let [passed, failed, ignored] = totals.map(|(name, count)| format!("{count} {name}"));
    format!("test result: {passed}; {failed}; {ignored} ({suites} suites)")
}

/// The last lines that hold one of the marks.
fn closed(lines: &[String], marks: &[&str]) -> Done {
    let last = &lines[lines.len().saturating_sub(30)..];
    let marked = last.iter().filter(|line| marks.iter().any(|mark| line.contains(mark)));
    let closing: Vec<_> = marked.map(|line| line.trim().to_owned()).collect();
    Done { note: closing.join(", "), closing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_all_suites_are_added_up() {
        let lines = [
            "running 2 tests",
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.10s",
            "test result: ok. 30 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 2.00s",
        ];
        let lines = lines.map(str::to_owned);
        assert_eq!(total(&lines), "test result: 42 passed; 0 failed; 1 ignored (2 suites)");
    }
}
