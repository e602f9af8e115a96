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
/// Inputs of a target that are kept at most, besides those that are right: the tests replay them all.
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
        if flag == "--keep" {
            settings.keep = true;
            continue;
        }
        let value = rest.next();
        let seconds = value.and_then(|n| n.parse::<u32>().ok()).filter(|seconds| *seconds > 0);
        match (flag.as_str(), value.filter(|name| targets.contains(name)), seconds) {
            ("--only", Some(target), _) => settings.only.push(target.clone()),
            ("--seconds", _, Some(seconds)) => settings.seconds = seconds,
            _ => {
                return Err(Failure::new(format!(
                    "fuzz takes --seconds N (600 a target), --keep and --only TARGET, TARGET one of {}",
                    targets.join(", ")
                )));
            }
        }
    }
    Ok(settings)
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
    let chosen = files.iter().step_by(files.len().div_ceil(MOST_KEPT).max(1)).map(|(_, path)| path.as_path());
    replace_found(Path::new(&seeds), chosen).map_err(failed)?;
    println!("fuzz: {target}: {} inputs of at most {LARGEST_KEPT} bytes reach what was reached", files.len());
    Ok(())
}

/// Puts these inputs in the place of those that were kept before. The seeds of other names, that are right or broke
/// something once, stay.
fn replace_found<'a>(seeds: &Path, chosen: impl Iterator<Item = &'a Path>) -> std::io::Result<()> {
    for entry in fs::read_dir(seeds)? {
        let entry = entry?;
        if is_found(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    for path in chosen {
        fs::copy(path, seeds.join(path.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Returns whether libFuzzer named an input that it found so: the SHA-1 of its bytes.
fn is_found(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_that_are_kept_take_the_place_of_those_kept_before() {
        let folder = std::env::temp_dir().join(format!("dpr-kept-{}", std::process::id()));
        let [seeds, best] = ["seeds", "best"].map(|name| folder.join(name));
        let [before, found] = ["a", "b"].map(|digit| digit.repeat(40));
        for path in [seeds.join(&before), seeds.join("made"), seeds.join("crash-1"), best.join(&found)] {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "bytes").unwrap();
        }
        replace_found(&seeds, [best.join(&found).as_path()].into_iter()).unwrap();
        let entries = fs::read_dir(&seeds).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, [found.as_str(), "crash-1", "made"]);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn settings_name_targets_and_seconds() {
        let targets = ["graph", "wal"].map(str::to_owned);
        let of =
            |line: &str| settings(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), &targets);
        assert_eq!(of("").unwrap(), Settings { only: Vec::new(), seconds: 600, keep: false });
        let some = of("--only wal --seconds 9 --keep").unwrap();
        assert_eq!(some, Settings { only: vec!["wal".into()], seconds: 9, keep: true });
        for wrong in ["--only other", "--seconds", "--seconds 0", "--fast", "--fast --seconds 9", "--only"] {
            let said = of(wrong).unwrap_err().to_string();
            assert!(said.contains("graph, wal"), "{wrong}: {said}");
        }
    }
}
