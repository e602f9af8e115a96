//! `cargo xtask test`: everything the repository promises, as jobs that run beside each other.

pub(crate) mod lint;
mod python;
mod runners;

use crate::failure::{Failure, Outcome};
use crate::jobs::{self, Clock, Job, OnFailure, Stop, processors};
use crate::process::{self, Packages};
use crate::{demo_data, npm, setup};
use runners::RustTests;

const LOGS: &str = "target/test-logs";
/// The job that builds the program `dpr`.
const PROGRAM: &str = "native program";
/// The job that builds the tests of the native crates, and what is linted only.
const NATIVE: &str = "native tests";

/// The parts that `--only` and `--skip` name.
const PARTS: [&str; 8] = ["fmt", "lint", "rust", "npm", "node", "bundlers", "browser", "python"];

/// Runs all parts, or those that `--only` and `--skip` leave, with the set-up and the builds that they need.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let chosen = choose(arguments)?;
    let clock = Clock::now();
    println!("test: {}; logs in {LOGS}", chosen.parts.join(", "));
    let (report, outcome) =
        jobs::run(plan(&chosen), processors(), LOGS, clock, &Stop::new(), chosen.on_failure);
    println!("\n=== summary ===");
    report.print_closing();
    println!();
    report.print_times();
    outcome?;
    println!();
    clock.line("all tests passed");
    Ok(())
}

/// The parts and options of a run.
struct Chosen {
    parts: Vec<&'static str>,
    /// Every case of `bundlers`, which take some ten minutes, and not the short set.
    all_bundlers: bool,
    on_failure: OnFailure,
}

fn choose(arguments: &[String]) -> Outcome<Chosen> {
    let (mut only, mut skip) = (Vec::new(), Vec::new());
    let mut on_failure = OnFailure::EndAll;
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let list = match flag.as_str() {
            "--only" => &mut only,
            "--skip" => &mut skip,
            "--keep-going" => {
                on_failure = OnFailure::GoOn;
                continue;
            }
            other => {
                return Err(Failure::new(format!("unexpected argument `{other}`"))
                    .fix("use --only STEP, --skip STEP or --keep-going"));
            }
        };
        let named = rest.next().and_then(|name| PARTS.into_iter().find(|part| part == name));
        list.push(named.ok_or_else(|| Failure::new(format!("{flag} needs one of: {}", PARTS.join(", "))))?);
    }
    let runs = |part: &&str| (only.is_empty() || only.contains(part)) && !skip.contains(part);
    let all_bundlers = only.contains(&"bundlers");
    let parts: Vec<_> = PARTS.into_iter().filter(runs).collect();
    match parts.is_empty() {
        true => Err(Failure::new("--only and --skip leave no step to run")
            .fix("leave out --skip for the steps that --only names")),
        false => Ok(Chosen { parts, all_bundlers, on_failure }),
    }
}

/// The jobs of these parts, those first that others wait for.
fn plan(chosen: &Chosen) -> Vec<Job> {
    let any = |names: &[&str]| names.iter().any(|name| chosen.parts.contains(name));
    let has_page = any(&["npm", "browser"]);
    let has_package = has_page || any(&["bundlers"]);
    let has_data = any(&["rust", "browser", "python"]);
    let mut jobs = setup::jobs(setup::Scope::Test);
    if any(&["fmt"]) {
        jobs.extend([lint::format(), lint::documentation()]);
    }
    if has_package {
        jobs.push(npm::tool(Packages::All));
    }
    let lints = any(&["rust"]) && any(&["lint"]);
    if has_data {
        jobs.push(program(lints));
    }
    if has_package {
        jobs.push(npm::cpu_module());
        jobs.extend(npm::later_modules(npm::Needed::Now));
    }
    if has_data {
        jobs.extend(demo_data::jobs(PROGRAM));
    }
    let needs_of_rust =
        [NATIVE, demo_data::INDEX, setup::MPNET, setup::MILVUS, setup::POSTGRES, setup::VULKAN];
    if has_package || any(&["node"]) {
        jobs.push(npm::scripts());
    }
    if has_package {
        jobs.push(npm::bound_cpu());
        jobs.extend(npm::bound_later());
    }
    if has_page {
        jobs.extend(npm::whole_page(npm::publish));
    } else if has_package {
        jobs.push(npm::package());
    }
    if any(&["browser"]) {
        let needs = [npm::PAGE, demo_data::INDEX, setup::CHROMIUM, setup::TEST_PACKAGES];
        // They wait for pages two thirds of their time.
        jobs.push(Job::new("browser tests", &needs, runners::browser).waiting());
    }
    if any(&["rust"]) {
        jobs.push(native_tests(lints));
        // It waits for the engines' servers most of the time.
        let engines = move || runners::rust(RustTests::Engines, lints);
        jobs.push(Job::new("Rust tests of engines", &needs_of_rust, engines).waiting());
        jobs.push(Job::new("Rust tests of dpr", &needs_of_rust, move || {
            runners::rust(RustTests::Dpr, lints)
        }));
        jobs.push(Job::new("Rust tests", &needs_of_rust, move || runners::rust(RustTests::Others, lints)));
    }
    if any(&["bundlers"]) {
        let needs = [npm::PACKAGE, setup::CHROMIUM, setup::FIREFOX, setup::WEBKIT, setup::TEST_PACKAGES];
        let all = chosen.all_bundlers;
        jobs.push(Job::new("bundlers", &needs, move || runners::bundlers(all)));
    }
    if any(&["node"]) {
        jobs.push(Job::new("Node tests", &[npm::SCRIPTS], runners::node));
    }
    if any(&["python"]) {
        jobs.push(Job::new("Python tests", &[demo_data::INDEX, setup::PYTHON_TESTS], python::python));
    }
    if any(&["lint"]) {
        jobs.push(lint::typescript());
    }
    if any(&["lint"]) && !lints {
        jobs.extend(lint::rust_after(&[npm::TOOL, NATIVE, demo_data::INDEX]));
    }
    jobs
}

/// The build of `dpr`, which pages and Python ask; it lints the crates that it consists of where that is asked for.
fn program(lints: bool) -> Job {
    Job::new(PROGRAM, &[npm::TOOL, setup::COMPONENTS], move || {
        if lints {
            lint::build_compiler()?;
        }
        build(lints, false, &["--bin", "dpr"])
    })
}

/// The build of the tests, while the browser's run, which wait two thirds of their time and have pages to answer in the
/// rest: at a low priority. Benches and examples too where crates are linted: they are no tests, and linted like all
/// else.
fn native_tests(lints: bool) -> Job {
    Job::new(NATIVE, &[PROGRAM], move || {
        let targets: &[&str] =
            if lints { &["--bins", "--tests", "--examples"] } else { &["--bins", "--tests"] };
        build(lints, true, targets)
    })
}

/// Builds these targets of the native crates.
fn build(lints: bool, at_low_priority: bool, targets: &[&str]) -> Outcome {
    let packages = if lints { Packages::Linted } else { Packages::All };
    let mut cargo = packages.command("build", targets);
    if lints {
        lint::while_compiling(&mut cargo);
    }
    process::run(&mut if at_low_priority { process::at_low_priority(&cargo) } else { cargo })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_and_skip_choose_parts_and_refuse_other_words() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let parts = |line: &str| choose(&words(line)).map(|chosen| chosen.parts);
        assert_eq!(parts("--only rust --only fmt").unwrap(), ["fmt", "rust"]);
        assert_eq!(parts("--skip browser").unwrap().len(), PARTS.len() - 1);
        assert!(parts("--only tests").unwrap_err().to_string().contains("python"));
        assert!(choose(&words("fast")).is_err());
        assert!(parts("--only rust --skip rust").unwrap_err().to_string().contains("leave no step"));
    }

    #[test]
    fn all_bundlers_run_where_they_are_named_and_a_short_set_of_them_otherwise() {
        assert!(!choose(&[]).unwrap().all_bundlers);
        assert!(choose(&["--only", "bundlers"].map(str::to_owned)).unwrap().all_bundlers);
    }

    #[test]
    fn a_part_brings_what_it_needs_and_no_more() {
        let names = |parts: &[&'static str]| {
            let chosen = Chosen { parts: parts.to_vec(), all_bundlers: false, on_failure: OnFailure::EndAll };
            plan(&chosen).iter().map(|job| job.name).collect::<Vec<_>>()
        };
        let python = names(&["python"]);
        assert!(python.contains(&PROGRAM) && python.contains(&"Python tests"));
        assert!(!python.contains(&NATIVE), "no tests are built where none are run");
        assert!(!python.contains(&npm::WEBGPU) && !python.contains(&"Rust tests of dpr"));
        assert!(!names(&["node"]).contains(&PROGRAM));
        let rust = names(&["rust"]);
        assert!(
            ["Rust tests of engines", "Rust tests of dpr", "Rust tests"].iter().all(|job| rust.contains(job))
        );
        let bundlers = names(&["bundlers"]);
        assert!(bundlers.contains(&npm::PACKAGE) && bundlers.contains(&npm::WEBGPU));
        assert!(!bundlers.contains(&npm::PAGE) && !bundlers.contains(&PROGRAM));
    }

    #[test]
    fn every_part_brings_the_set_up_that_it_needs() {
        for part in PARTS {
            let chosen = Chosen { parts: vec![part], all_bundlers: false, on_failure: OnFailure::EndAll };
            assert_eq!(setup::missing(&plan(&chosen)), [""; 0], "{part}");
        }
    }

    #[test]
    fn crates_are_linted_by_the_build_of_the_tests_or_else_without_a_build() {
        let linted = |parts: &[&'static str]| {
            let jobs =
                plan(&Chosen { on_failure: OnFailure::EndAll, parts: parts.to_vec(), all_bundlers: false });
            let has = |name| jobs.iter().any(|job| job.name == name);
            (has(NATIVE), has(lint::CLIPPY), has("TypeScript linter"))
        };
        assert_eq!(linted(&["rust", "lint"]), (true, false, true));
        assert_eq!(linted(&["rust"]), (true, false, false));
        assert_eq!(linted(&["lint"]), (false, true, true));
    }

    #[test]
    fn the_tests_profile_names_crates_of_the_lock_file() {
        let lock = std::fs::read_to_string(crate::paths::root().join("Cargo.lock")).unwrap();
        let profile = include_str!("profile.toml");
        let named = profile.lines().filter_map(|line| line.strip_prefix("[profile.release.package."));
        let unknown: Vec<_> = named
            .map(|line| line.trim_end_matches(']'))
            .filter(|name| !lock.contains(&format!("name = \"{name}\"\n")))
            .collect();
        assert!(unknown.is_empty() && profile.contains("burn-cubecl"), "{unknown:?}");
    }
}
