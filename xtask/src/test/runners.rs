//! The test runners: Rust's, Node's and Playwright's, with the lines they close with.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::lint;
use crate::failure::{Failure, Outcome};
use crate::jobs::Done;
use crate::paths::{dpr, venv_python};
use crate::process::{Packages, at_low_priority, command, run, run_and_read, run_lines};
use crate::setup;
use crate::setup::browsers;

/// Rust's tests, in parts that run beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RustTests {
    /// The integration tests of the binary `dpr` that want a search engine's server, which they have one at a time and
    /// wait for most of the time. Then the one of training that runs on another driver than the rest of its program.
    Engines,
    /// The other integration tests of the binary `dpr`.
    Dpr,
    /// All others, and those of the documentation.
    Others,
}

/// Runs a part of the tests of all native crates, as a build that `lints` left them or one that does not.
///
/// Cargo runs one program of tests after the other; here three run beside each other, and all of them even where one
/// fails.
pub(super) fn rust(part: RustTests, lints: bool) -> Outcome<Done> {
    let cargo = |more: &[&str]| {
        let mut cargo = Packages::All.command("test", more);
        if lints {
            lint::while_compiling(&mut cargo);
        }
        cargo
    };
    let programs = TestProgram::listed(&run_lines(&mut cargo(&["--no-run", "--message-format=json"]))?)?;
    let (mut lines, mut failed) = (Vec::new(), Vec::new());
    for program in programs.iter().filter(|program| program.is_in(part)) {
        for run in program.runs(part, software_driver().as_deref()) {
            // An engine's server and its clients have deadlines; the other tests may wait for them.
            let mut run = if part == RustTests::Engines { run } else { at_low_priority(&run) };
            let (ran, said) = run_and_read(&mut run)?;
            if ran.is_err() {
                failed.push(named(&program.name(), &failed_tests(&said)));
            }
            lines.extend(said);
        }
    }
    if part == RustTests::Others {
        match run_lines(&mut cargo(&["--doc", "--no-fail-fast"])) {
            Ok(said) => lines.extend(said),
            Err(_) => failed.push("doc tests".to_owned()),
        }
    }
    if !failed.is_empty() {
        return Err(Failure::new(format!("these failed: {}", failed.join(", "))));
    }
    let mut closing: Vec<_> = results(&lines).map(str::to_owned).collect();
    let total = total(&lines);
    closing.push(total.clone());
    Ok(Done { note: total, closing })
}

/// The module of `server/tests/it` that holds the tests of [`RustTests::Engines`], as a filter of libtest.
const ENGINES: &str = "engines::";

/// Tests that SwiftShader has no f16 or no memory for: the folder of the package, and the name in its program `it`.
const ON_INSTALLED_DRIVER: [(&str, &str); 2] = [
    ("core", "parity::minilm_on_wgpu"),
    ("server", "train_step::half_precision_leads_where_single_precision_does"),
];

/// A program of tests, as cargo built it.
#[derive(Debug, PartialEq, Eq)]
struct TestProgram {
    path: PathBuf,
    /// The name of its target: `it` of integration tests.
    target: String,
    /// The folder of its package.
    folder: PathBuf,
}

impl TestProgram {
    /// Returns the programs that `cargo test --no-run --message-format=json` names.
    fn listed(lines: &[String]) -> Outcome<Vec<Self>> {
        let program = |line: &String| {
            let message: Value = serde_json::from_str(line).ok()?;
            let is_test = message["profile"]["test"].as_bool().unwrap_or(false);
            let path = message["executable"].as_str().filter(|_| is_test)?;
            let folder = Path::new(message["manifest_path"].as_str()?).parent()?;
            let target = message["target"]["name"].as_str()?.to_owned();
            Some(Self { path: path.into(), target, folder: folder.into() })
        };
        let programs: Vec<_> = lines.iter().filter_map(program).collect();
        match programs.is_empty() {
            true => Err(Failure::new("cargo names no program of tests")),
            false => Ok(programs),
        }
    }

    /// Returns whether some of its tests are of the part.
    fn is_in(&self, part: RustTests) -> bool {
        let of_dpr = self.target == "it" && self.folder.ends_with("server");
        of_dpr == (part != RustTests::Others)
    }

    /// Returns the names of its package's folder and of its target.
    fn name(&self) -> String {
        format!("{} {}", self.folder.file_name().unwrap_or_default().to_string_lossy(), self.target)
    }

    /// Returns the commands that together run the program's tests of the part.
    ///
    /// With a software `driver`, the tests of `core` and of training that want a GPU run on it, but for
    /// [`ON_INSTALLED_DRIVER`]: that of `dpr` is of the part [`RustTests::Engines`], which ends before the other.
    fn runs(&self, part: RustTests, driver: Option<&Path>) -> Vec<Command> {
        let named = |(package, _): &&(&str, &str)| self.name() == format!("{package} it");
        let exception = driver.zip(ON_INSTALLED_DRIVER.iter().find(named));
        let mut most = self.command();
        match part {
            RustTests::Engines => most.arg(ENGINES),
            RustTests::Dpr => most.args(["--skip", ENGINES]),
            RustTests::Others => &mut most,
        };
        let Some((driver, (_, test))) = exception else { return vec![most] };
        if part != RustTests::Engines {
            most.env("VK_DRIVER_FILES", driver).args(["--skip", test]);
        }
        let alone = (part != RustTests::Dpr).then(|| {
            let mut alone = self.command();
            alone.args(["--exact", test]);
            alone
        });
        std::iter::once(most).chain(alone).collect()
    }

    /// Returns the program as cargo runs it: in the folder of its package.
    fn command(&self) -> Command {
        let mut program = command::<&str>(&self.path, &[]);
        program.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        if let Some(python) = setup::python::milvus_python() {
            program.env("DPR_MILVUS_PYTHON", python);
        }
        program.env("DPR_POSTGRES_PYTHON", venv_python());
        // On a software adapter a kernel takes seconds to compile: fewer sizes are told apart, so that fewer are
        // compiled.
        program.env("CUBECL_AUTOTUNE_LEVEL", "minimal");
        program
    }
}

/// Returns SwiftShader's manifest where there is no GPU and the environment names no driver.
fn software_driver() -> Option<PathBuf> {
    let variables =
        ["VK_DRIVER_FILES", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES", "VK_LOADER_DRIVERS_SELECT"];
    let named = variables.iter().any(|name| std::env::var_os(name).is_some());
    let devices = ["/dev/dri", "/dev/nvidiactl", "/dev/dxg", "/dev/kgsl-3d0"];
    let has_gpu = devices.iter().any(|device| Path::new(device).exists());
    if named || has_gpu || !cfg!(target_os = "linux") { None } else { browsers::swiftshader() }
}

/// Runs the npm package's tests.
pub(super) fn node() -> Outcome<Done> {
    let lines = tested(command("npm", &["test"]).current_dir("wasm/npm"))?;
    Ok(closed(&lines, &["# tests", "# pass", "# fail", "ℹ tests", "ℹ pass", "ℹ fail"]))
}

/// Installs the packed package into projects, builds them with other people's tools and asks their pages.
pub(super) fn bundlers(all: bool) -> Outcome<Done> {
    run(&mut command("node", &["--test", "tests/bundlers/support/support.test.mjs"]))?;
    let mut node = command("node", &["tests/bundlers/run.mjs"]);
    for browser in ["chromium", "firefox", "webkit"] {
        node.args(["--browser", browser]);
    }
    if !all {
        node.arg("--short");
    }
    node.envs(browsers::variables());
    let lines = run_lines(&mut node)?;
    Ok(closed(&lines, &["bundlers: "]))
}

/// Runs the tests in Chromium.
pub(super) fn browser() -> Outcome<Done> {
    let mut npm = command("npm", &["test"]);
    npm.current_dir("tests/browser").env("DPR_BIN", dpr());
    npm.envs(browsers::variables());
    let lines = tested(&mut npm)?;
    Ok(closed(&lines, &[" passed", " failed", " flaky", " skipped", "did not run"]))
}

/// Runs a runner of tests; its failure names those that failed.
fn tested(runner: &mut Command) -> Outcome<Vec<String>> {
    let (ran, lines) = run_and_read(runner)?;
    match ran {
        Ok(()) => Ok(lines),
        Err(failure) => Err(Failure::new(named(&failure.to_string(), &failed_tests(&lines)))),
    }
}

fn named(runner: &str, failed: &[String]) -> String {
    if failed.is_empty() { runner.to_owned() } else { format!("{runner}: {}", failed.join(", ")) }
}

/// Returns the tests that failed, each once, of the output of cargo, Node or Playwright.
fn failed_tests(lines: &[String]) -> Vec<String> {
    let mut failed: Vec<String> = Vec::new();
    for line in lines.iter().map(|line| line.trim()) {
        let of_cargo = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"));
        let of_node = line.strip_prefix("not ok ").and_then(|line| line.split_once(" - "));
        // Playwright marks a failure with a cross and ends its line with the time.
        let of_playwright = line.strip_prefix("✘").map(|line| {
            let line = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
            line.rsplit_once(" (").map_or(line, |(name, _)| name)
        });
        if let Some(name) = of_cargo.or(of_node.map(|(_, name)| name)).or(of_playwright)
            && !failed.iter().any(|known| known == name)
        {
            failed.push(name.to_owned());
        }
    }
    failed
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
    fn programs_are_those_of_tests_and_each_test_is_in_one_run() {
        let artifact = |folder: &str, target: &str, test: bool, executable: &str| {
            serde_json::json!({
                "reason": "compiler-artifact", "manifest_path": format!("{folder}/Cargo.toml"),
                "target": { "name": target }, "profile": { "test": test }, "executable": executable,
            })
            .to_string()
        };
        let lines = [
            "   Compiling dpr v0.1.0".to_owned(),
            artifact("/clone/server", "it", true, "/clone/target/it-1"),
            artifact("/clone/server", "dpr", false, "/clone/target/dpr"),
            artifact("/clone/core", "it", true, "/clone/target/it-2"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let programs = TestProgram::listed(&lines).unwrap();
        let names: Vec<_> = programs.iter().map(TestProgram::name).collect();
        assert_eq!(names, ["server it", "core it"]);
        assert!(TestProgram::listed(&lines[4..]).is_err());
        let [server, core] = programs.try_into().unwrap();
        let parts = [RustTests::Engines, RustTests::Dpr, RustTests::Others];
        assert_eq!(parts.map(|part| server.is_in(part)), [true, true, false]);
        assert_eq!(parts.map(|part| core.is_in(part)), [false, false, true]);
        for (folder, target) in [("/clone/server/postgres", "it"), ("/clone/server", "otel")] {
            let program = TestProgram { path: "/it".into(), target: target.into(), folder: folder.into() };
            assert_eq!(parts.map(|part| program.is_in(part)), [false, false, true]);
        }

        // Each test runs once, whatever the driver: a software one is for most, and the test that it cannot run has a
        // run of its own.
        let driver = Path::new("/driver.json");
        let runs = |program: &TestProgram, part, driver| -> Vec<(String, bool)> {
            let on_driver = |run: &Command| {
                run.get_envs()
                    .any(|(name, value)| name == "VK_DRIVER_FILES" && value == Some("/driver.json".as_ref()))
            };
            let line = |run: &Command| {
                run.get_args().map(|argument| argument.to_string_lossy()).collect::<Vec<_>>().join(" ")
            };
            program.runs(part, driver).iter().map(|run| (line(run), on_driver(run))).collect()
        };
        let [(_, of_core), (_, of_server)] = ON_INSTALLED_DRIVER;
        let is = |found: Vec<(String, bool)>, expected: &[(&str, bool)]| {
            let found: Vec<_> = found.iter().map(|(line, on_driver)| (line.as_str(), *on_driver)).collect();
            assert_eq!(found, expected);
        };
        is(runs(&core, RustTests::Others, None), &[("", false)]);
        is(runs(&server, RustTests::Dpr, None), &[("--skip engines::", false)]);
        is(runs(&server, RustTests::Engines, None), &[("engines::", false)]);
        let [skip, alone] = ["--skip", "--exact"].map(|flag| format!("{flag} {of_core}"));
        is(runs(&core, RustTests::Others, Some(driver)), &[(&skip, true), (&alone, false)]);
        let skip = format!("--skip engines:: --skip {of_server}");
        is(runs(&server, RustTests::Dpr, Some(driver)), &[(&skip, true)]);
        let alone = format!("--exact {of_server}");
        is(runs(&server, RustTests::Engines, Some(driver)), &[("engines::", false), (&alone, false)]);
    }

    #[test]
    fn tests_that_failed_are_named_once_whichever_runner_says_so() {
        let lines = [
            "test model::a_flipped_byte ... ok",
            "test encrypted::a_restart ... FAILED",
            "test encrypted::a_restart ... FAILED",
            "not ok 3 - refuses a k of 0",
            "  ✓   12 page.spec.ts:10:1 › the page is (in time) (1.2s)",
            "  ✘   13 small.spec.ts:22:5 › the student (of 7 MB) answers (2.0m)",
        ];
        let failed = failed_tests(&lines.map(str::to_owned));
        let named_once = [
            "encrypted::a_restart",
            "refuses a k of 0",
            "small.spec.ts:22:5 › the student (of 7 MB) answers",
        ];
        assert_eq!(failed, named_once);
        assert_eq!(named("server it", &failed[..1]), "server it: encrypted::a_restart");
        assert_eq!(named("server it", &[]), "server it");
    }

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
