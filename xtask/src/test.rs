//! `cargo xtask test`: everything the repository promises, one step after another, the first failure ending it.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};
use crate::paths::{DEMO_MODEL, absolute, dpr, venv_python};
use crate::process::{cargo, command, output, run_logged};
use crate::setup::tools::chromium;
use crate::{demo_data, npm, setup};

const LOGS: &str = "target/test-logs";
const FIXTURES: &str = "tests/fixtures";
const ROUNDTRIP: &str = "target/roundtrip";

/// A step: its name and what it does, returning the closing lines for the summary.
type Step = (&'static str, fn() -> Outcome<Vec<String>>);

const STEPS: [Step; 6] = [
    ("fmt", format_check),
    ("rust", rust_tests),
    ("npm", browser_build),
    ("node", node_tests),
    ("browser", browser_tests),
    ("python", python_tests),
];

/// Runs all steps, or those that `--only` and `--skip` leave.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let chosen = choose(arguments)?;
    let mut done: Vec<(&str, Duration, Vec<String>)> = Vec::new();
    let start = Instant::now();
    setup::run(setup::Scope::Test)?;
    done.push(("setup", start.elapsed(), Vec::new()));
    for (name, step) in chosen {
        println!("\n=== {name} ===");
        let start = Instant::now();
        match step() {
            Ok(closing) => done.push((name, start.elapsed(), closing)),
            Err(failure) => {
                summarize(&done);
                return Err(failure.during(&format!("test step `{name}`")));
            }
        }
    }
    summarize(&done);
    println!("\nall tests passed in {}", minutes(done.iter().map(|(_, took, _)| *took).sum()));
    Ok(())
}

/// Format check and clippy: a separate task, because clippy compiles everything once more.
pub(crate) fn lint() -> Outcome {
    format_check()?;
    let arguments = [
        "clippy",
        "--release",
        "--workspace",
        "--exclude",
        "dpr-wasm",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    crate::process::run(&mut cargo(&arguments))
}

fn choose(arguments: &[String]) -> Outcome<Vec<Step>> {
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
        let named = rest.next().and_then(|name| STEPS.iter().find(|(step, _)| step == name));
        let names = STEPS.map(|(name, _)| name).join(", ");
        list.push(named.ok_or_else(|| Failure::new(format!("{flag} needs one of: {names}")))?.0);
    }
    let runs = |name: &str| (only.is_empty() || only.contains(&name)) && !skip.contains(&name);
    Ok(STEPS.into_iter().filter(|(name, _)| runs(name)).collect())
}

fn format_check() -> Outcome<Vec<String>> {
    output(&mut cargo(&["fmt", "--all", "--check"]))
        .map_err(|failure| failure.fix("run `cargo fmt --all`"))?;
    Ok(Vec::new())
}

fn rust_tests() -> Outcome<Vec<String>> {
    demo_data::build()?;
    let mut cargo = cargo(&["test", "--release", "--workspace", "--exclude", "dpr-wasm"]);
    if let Some(python) = setup::python::milvus_python() {
        cargo.env("DPR_MILVUS_PYTHON", python);
    }
    let lines = run_logged(&mut cargo, &log("rust"))?;
    Ok(vec![cargo_totals(&lines)])
}

fn browser_build() -> Outcome<Vec<String>> {
    npm::build().map(|()| Vec::new())
}

fn node_tests() -> Outcome<Vec<String>> {
    let lines = run_logged(command("npm", &["test"]).current_dir("wasm/npm"), &log("node"))?;
    Ok(closing(&lines, &["# tests", "# pass", "# fail", "ℹ tests", "ℹ pass", "ℹ fail"]))
}

fn browser_tests() -> Outcome<Vec<String>> {
    demo_data::build()?;
    npm::build()?;
    let mut npm = command("npm", &["test"]);
    npm.current_dir("tests/browser").env("DPR_BIN", dpr());
    if let Some(program) = chromium() {
        npm.env("CHROMIUM", program);
    }
    let lines = run_logged(&mut npm, &log("browser"))?;
    Ok(closing(&lines, &[" passed", " failed", " flaky", " skipped", "did not run"]))
}

/// Imports the small fixtures and has Python's transformers load them and the demo's model.
fn python_tests() -> Outcome<Vec<String>> {
    demo_data::build()?;
    let import = |name: &str, sources: &[&str]| -> Outcome<String> {
        let out = format!("{ROUNDTRIP}/{name}");
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir_all(ROUNDTRIP)
            .map_err(|e| Failure::new(format!("cannot create {ROUNDTRIP}: {e}")))?;
        let mut arguments = vec!["import", "--out", &out];
        arguments.extend(sources);
        output(&mut command(dpr(), &arguments)).map(|_| out.clone())
    };
    let dpr_flags = |name: &str, question: &str| {
        let folder = format!("{FIXTURES}/{name}");
        [format!("{folder}/{question}"), format!("{folder}/ctx")]
    };
    let mut arguments = vec!["tests/python/roundtrip.py".to_owned()];
    for (fixture, question, out) in [
        ("dpr-tiny", "question", "dpr-tiny"),
        ("dpr-tiny", "question-sharded", "dpr-tiny-sharded"),
        ("dpr-tiny-projected", "question", "dpr-tiny-projected"),
    ] {
        let [question, passage] = dpr_flags(fixture, question);
        arguments.push(import(out, &["--question", &question, "--passage", &passage, "--pooling", "cls"])?);
        arguments.push(format!("{FIXTURES}/{fixture}/golden.json"));
    }
    let mpnet = format!("{FIXTURES}/mpnet-tiny");
    arguments.push(import("mpnet-tiny", &["--question", &mpnet, "--pooling", "mean", "--normalize"])?);
    arguments.push(format!("{mpnet}/golden.json"));
    arguments.push(DEMO_MODEL.to_owned());
    arguments.push(format!("{FIXTURES}/minilm/golden.json"));
    let mut python = command(venv_python(), &arguments);
    python.env("PYTHONDONTWRITEBYTECODE", "1").env("HF_HUB_OFFLINE", "1");
    let report: serde_json::Value = serde_json::from_str(&output(&mut python)?)
        .map_err(|e| Failure::new(format!("roundtrip.py printed no report: {e}")))?;
    let models = report.as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(models
        .iter()
        .map(|model| {
            let name = model["model"].as_str().unwrap_or_default();
            let class = model["encoders"]["question"]["class"].as_str().unwrap_or_default();
            let cosine = model["min_cosine"]
                .as_f64()
                .map_or_else(|| "projected".to_owned(), |c| format!("cosine {c:.7}"));
            let products = model["max_product_difference"].as_f64().unwrap_or(f64::NAN);
            format!("{name}: {class}, {cosine}, inner products within {products:.1e}")
        })
        .collect())
}

/// Adds up cargo's `test result:` lines.
fn cargo_totals(lines: &[String]) -> String {
    let mut totals = [("passed", 0_u64), ("failed", 0), ("ignored", 0)];
    let results = lines.iter().filter_map(|line| line.trim_start().strip_prefix("test result: "));
    let mut suites = 0;
    for result in results {
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
fn closing(lines: &[String], marks: &[&str]) -> Vec<String> {
    let last = &lines[lines.len().saturating_sub(30)..];
    last.iter()
        .filter(|line| marks.iter().any(|mark| line.contains(mark)))
        .map(|line| line.trim().to_owned())
        .collect()
}

fn summarize(done: &[(&str, Duration, Vec<String>)]) {
    println!("\n=== summary ===");
    for (name, took, closing) in done {
        println!("{name:<8} {:>8}", minutes(*took));
        for line in closing {
            println!("         {line}");
        }
    }
}

fn minutes(took: Duration) -> String {
    let seconds = took.as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        format!("{} m {:02} s", seconds as u64 / 60, seconds as u64 % 60)
    }
}

fn log(step: &str) -> std::path::PathBuf {
    absolute(Path::new(LOGS).join(format!("{step}.log")))
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
        assert_eq!(cargo_totals(&lines), "test result: 42 passed; 0 failed; 1 ignored (2 suites)");
    }

    #[test]
    fn only_and_skip_choose_steps_and_refuse_other_words() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let names =
            |line| choose(&words(line)).map(|steps| steps.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        assert_eq!(names("--only rust --only fmt").unwrap(), ["fmt", "rust"]);
        assert_eq!(names("--skip browser").unwrap().len(), STEPS.len() - 1);
        assert!(names("--only tests").unwrap_err().to_string().contains("python"));
        assert!(choose(&words("fast")).is_err());
    }
}
