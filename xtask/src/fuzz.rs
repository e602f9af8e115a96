//! `cargo xtask fuzz`: searches for inputs that break a parser, guided by the code that they reach.
//!
//! libFuzzer is used through its crate, and its coverage counters come from a pass of LLVM that a stable compiler
//! runs too. These are the flags that `cargo fuzz` gives for `--sanitizer none`; its address sanitizer needs a
//! nightly compiler, and finds what safe Rust does not have. Overflows and debug assertions are checked.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};
use crate::paths::absolute;
use crate::process::{cargo, command, output, run as execute};

const SEEDS: &str = "server/fuzz/seeds";
const FOLDER: &str = "target/fuzz";
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Cdebug-assertions=yes -Coverflow-checks=yes";
/// Inputs of a target that are kept at most: the tests replay them all.
const MOST_KEPT: usize = 24;
/// Most bytes of a kept input.
const LARGEST_KEPT: u64 = 4096;

/// The targets to fuzz, the time for it, and whether to keep the inputs that were found.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    only: Vec<String>,
    seconds: u32,
    keep: bool,
}

/// Fuzzes one target after the other; ends with the first that breaks.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let targets = targets()?;
    let Settings { only, seconds, keep } = settings(arguments, &targets)?;
    let program = build()?;
    for target in targets.iter().filter(|target| only.is_empty() || only.contains(target)) {
        println!("\nfuzz: {target} for {seconds} s");
        fuzz(&program, target, seconds)?;
        if keep {
            keep_best(&program, target)?;
        }
    }
    Ok(())
}

fn settings(arguments: &[String], targets: &[String]) -> Outcome<Settings> {
    let mut settings = Settings { only: Vec::new(), seconds: 600, keep: false };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        match flag.as_str() {
            "--keep" => settings.keep = true,
            "--only" => settings.only.extend(rest.next().filter(|name| targets.contains(name)).cloned()),
            "--seconds" => settings.seconds = rest.next().and_then(|n| n.parse().ok()).unwrap_or(0),
            _ => settings.seconds = 0,
        }
    }
    let named = arguments.iter().filter(|flag| *flag == "--only").count();
    match settings.seconds > 0 && settings.only.len() == named {
        true => Ok(settings),
        false => Err(Failure::new(format!(
            "fuzz takes --seconds N (600 a target), --keep and --only TARGET, TARGET one of {}",
            targets.join(", ")
        ))),
    }
}

/// The targets that have seeds, which a test holds to be all.
fn targets() -> Outcome<Vec<String>> {
    let failed = |e: std::io::Error| Failure::new(format!("cannot read {SEEDS}: {e}"));
    let entries = fs::read_dir(SEEDS).map_err(failed)?;
    let mut names: Vec<_> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Builds the fuzzer; returns its program.
fn build() -> Outcome<PathBuf> {
    let version = output(&mut command("rustc", &["-vV"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.ok_or_else(|| Failure::new("rustc does not say what it runs on"))?;
    let folder = absolute(FOLDER).join("build");
    // With a target, so that macros and build scripts have no counters: only the fuzzer's program can link those.
    let mut build = cargo(&["build", "--release", "--package", "dpr-fuzz", "--bin", "fuzz", "--features"]);
    build.args(["libfuzzer", "--target", host]).env("CARGO_TARGET_DIR", &folder).env("RUSTFLAGS", FLAGS);
    execute(&mut build).map_err(|failure| failure.fix("libFuzzer is C++: install g++ or clang++"))?;
    Ok(folder.join(host).join("release/fuzz"))
}

/// Runs the fuzzer for a target, with its temporary files in memory; it leaves them behind.
fn run_fuzzer(program: &Path, target: &str, arguments: &[String]) -> Outcome {
    let memory = Path::new("/dev/shm");
    let base = if memory.is_dir() { memory.to_path_buf() } else { absolute(FOLDER) };
    let scratch = base.join(format!("dpr-fuzz-{}", std::process::id()));
    fs::create_dir_all(&scratch)
        .map_err(|e| Failure::new(format!("cannot make {}: {e}", scratch.display())))?;
    let outcome = execute(command(program, arguments).env("DPR_FUZZ", target).env("TMPDIR", &scratch));
    let _ = fs::remove_dir_all(&scratch);
    outcome
}

fn folder(kind: &str, target: &str) -> Outcome<String> {
    let folder = format!("{FOLDER}/{kind}/{target}");
    fs::create_dir_all(&folder).map_err(|e| Failure::new(format!("cannot make {folder}: {e}")))?;
    Ok(folder)
}

fn fuzz(program: &Path, target: &str, seconds: u32) -> Outcome {
    let (corpus, broken) = (folder("corpus", target)?, folder("broken", target)?);
    let options = [
        format!("-max_total_time={seconds}"),
        format!("-artifact_prefix={broken}/"),
        "-timeout=20".to_owned(),
        "-rss_limit_mb=2048".to_owned(),
        "-max_len=16384".to_owned(),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
        corpus,
        format!("{SEEDS}/{target}"),
    ];
    run_fuzzer(program, target, &options).map_err(|failure| {
        failure.fix(format!(
            "put the input from {broken} into {SEEDS}/{target}, and make `cargo test -p dpr-fuzz` pass"
        ))
    })
}

/// Copies inputs that together reach most of what the whole corpus reaches to the seeds: of all sizes, but not large
/// ones.
fn keep_best(program: &Path, target: &str) -> Outcome {
    let (corpus, best) = (folder("corpus", target)?, folder("best", target)?);
    let failed = |e: std::io::Error| Failure::new(format!("cannot keep inputs of {target}: {e}"));
    fs::remove_dir_all(&best).and_then(|()| fs::create_dir_all(&best)).map_err(failed)?;
    let seeds = format!("{SEEDS}/{target}");
    let merge = ["-merge=1".to_owned(), "-verbosity=0".to_owned(), best.clone(), seeds.clone(), corpus];
    run_fuzzer(program, target, &merge)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(&best).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        files.push((fs::metadata(&path).map_err(failed)?.len(), path));
    }
    files.retain(|(bytes, _)| *bytes <= LARGEST_KEPT);
    files.sort();
    for (_, path) in files.iter().step_by(files.len().div_ceil(MOST_KEPT).max(1)) {
        let name = path.file_name().unwrap_or_default();
        fs::copy(path, Path::new(&seeds).join(name)).map_err(failed)?;
    }
    println!("fuzz: {target}: {} inputs of at most {LARGEST_KEPT} bytes reach what was reached", files.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_targets_and_seconds() {
        let targets = ["graph", "wal"].map(str::to_owned);
        let of =
            |line: &str| settings(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), &targets);
        assert_eq!(of("").unwrap(), Settings { only: Vec::new(), seconds: 600, keep: false });
        let some = of("--only wal --seconds 9 --keep").unwrap();
        assert_eq!(some, Settings { only: vec!["wal".into()], seconds: 9, keep: true });
        for wrong in ["--only other", "--seconds", "--seconds 0", "--fast", "--only"] {
            let said = of(wrong).unwrap_err().to_string();
            assert!(said.contains("graph, wal"), "{wrong}: {said}");
        }
    }
}
