//! `cargo xtask test`: everything the repository promises, as jobs that run beside each other.

pub(crate) mod lint;
mod python;
mod runners;

use crate::failure::{Failure, Outcome};
use crate::jobs::{self, Clock, Job, Stop, processors};
use crate::process::Packages;
use crate::{demo_data, npm, setup};

const LOGS: &str = "target/test-logs";
/// The job that builds the native crates.
const NATIVE: &str = "native build";

/// What `--only` and `--skip` name.
const PARTS: [&str; 7] = ["fmt", "lint", "rust", "npm", "node", "browser", "python"];

/// Runs all parts, or those that `--only` and `--skip` leave, with the set-up and the builds that they need.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let chosen = choose(arguments)?;
    let clock = Clock::now();
    println!("test: {}; logs in {LOGS}", chosen.join(", "));
    let (report, outcome) = jobs::run(plan(&chosen), processors(), LOGS, clock, &Stop::new());
    println!("\n=== summary ===");
    report.print_closing();
    println!();
    report.print_times();
    outcome?;
    println!();
    clock.line("all tests passed");
    Ok(())
}

fn choose(arguments: &[String]) -> Outcome<Vec<&'static str>> {
    let (mut only, mut skip) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let list = match flag.as_str() {
            "--only" => &mut only,
            "--skip" => &mut skip,
            other => {
                return Err(Failure::new(format!("unexpected argument `{other}`"))
                    .fix("use --only STEP or --skip STEP"));
            }
        };
        let named = rest.next().and_then(|name| PARTS.into_iter().find(|part| part == name));
        list.push(named.ok_or_else(|| Failure::new(format!("{flag} needs one of: {}", PARTS.join(", "))))?);
    }
    let runs = |part: &&str| (only.is_empty() || only.contains(part)) && !skip.contains(part);
    Ok(PARTS.into_iter().filter(runs).collect())
}

/// The jobs of these parts, those first that others wait for.
fn plan(parts: &[&str]) -> Vec<Job> {
    let any = |names: &[&str]| names.iter().any(|name| parts.contains(name));
    let has_page = any(&["npm", "browser"]);
    let has_data = any(&["rust", "browser", "python"]);
    let mut jobs = setup::jobs(setup::Scope::Test);
    if any(&["fmt"]) {
        jobs.extend([lint::format(), lint::documentation()]);
    }
    if has_page {
        jobs.push(npm::tool(Packages::All));
    }
    if has_data {
        let targets: &[&str] = if any(&["rust"]) { &["--bins", "--tests"] } else { &["--bins"] };
        jobs.push(Job::new(NATIVE, &[npm::TOOL], move || Packages::All.build(targets)));
    }
    if has_page {
        jobs.extend([npm::cpu_module(), npm::webgpu_module()]);
    }
    if has_data {
        jobs.extend(demo_data::jobs(NATIVE));
    }
    if any(&["rust"]) {
        let needs = [NATIVE, demo_data::INDEX, setup::MPNET, setup::MILVUS, setup::POSTGRES, setup::VULKAN];
        jobs.push(Job::new("Rust tests", &needs, runners::rust));
    }
    if has_page || any(&["node"]) {
        jobs.push(npm::scripts());
    }
    if has_page {
        jobs.extend(npm::bound());
        jobs.extend(npm::whole_page(npm::publish));
    }
    if any(&["browser"]) {
        let needs = [npm::PAGE, demo_data::INDEX, setup::CHROMIUM, setup::TEST_PACKAGES];
        jobs.push(Job::new("browser tests", &needs, runners::browser));
    }
    if any(&["node"]) {
        jobs.push(Job::new("Node tests", &[npm::SCRIPTS], runners::node));
    }
    if any(&["python"]) {
        jobs.push(Job::new("Python tests", &[demo_data::INDEX, setup::PYTHON_TESTS], python::python));
    }
    if any(&["lint"]) {
        // After the data, so that the tests, which take longest, start first: cargo holds a lock while it checks.
        jobs.extend(lint::jobs_after(&[npm::TOOL, NATIVE, demo_data::INDEX]));
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_and_skip_choose_parts_and_refuse_other_words() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(choose(&words("--only rust --only fmt")).unwrap(), ["fmt", "rust"]);
        assert_eq!(choose(&words("--skip browser")).unwrap().len(), PARTS.len() - 1);
        assert!(choose(&words("--only tests")).unwrap_err().to_string().contains("python"));
        assert!(choose(&words("fast")).is_err());
    }

    #[test]
    fn a_part_brings_what_it_needs_and_no_more() {
        let names = |parts: &[&str]| plan(parts).iter().map(|job| job.name).collect::<Vec<_>>();
        let python = names(&["python"]);
        assert!(python.contains(&NATIVE) && python.contains(&"Python tests"));
        assert!(!python.contains(&npm::WEBGPU) && !python.contains(&"Rust tests"));
        assert!(!names(&["node"]).contains(&NATIVE));
    }
}
