//! Running other programs: for an answer, or with their output shown.
//!
//! In a job (see [`jobs`](crate::jobs)) output goes to the job's log, the processor time is counted, and the program
//! ends with the task.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4;

use crate::failure::{Failure, Outcome};
use crate::jobs::current;

/// What the tests' build optimises less than the release profile says: a configuration of cargo.
const TEST_PROFILE: &str = "xtask/src/test/profile.toml";

/// A program with its arguments, ready to run in the repository root.
///
/// What cargo set for this process is taken away: a nested cargo would see another package's `CARGO_PKG_*`, and
/// another rustc the library path of this one.
pub(crate) fn command<S: AsRef<OsStr>>(program: impl AsRef<OsStr>, arguments: &[S]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_remove("LD_LIBRARY_PATH");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_")
            || text.starts_with("CARGO_MANIFEST_")
            || text == "CARGO_PRIMARY_PACKAGE"
        {
            command.env_remove(&name);
        }
    }
    command
}

/// `cargo` of the toolchain that runs this task.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}

/// Returns the same program at a low priority: it takes the processors while nothing else does. What it is built beside
/// is then ready as soon as if it were built alone.
pub(crate) fn at_low_priority(program: &Command) -> Command {
    if !cfg!(unix) {
        return with_settings_of(program, Command::new(program.get_program()));
    }
    let mut nice = Command::new("nice");
    nice.args(["-n", "10"]).arg(program.get_program());
    with_settings_of(program, nice)
}

/// Gives `made` the arguments, the environment and the folder of `program`.
fn with_settings_of(program: &Command, mut made: Command) -> Command {
    made.args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => made.env(name, value),
            None => made.env_remove(name),
        };
    }
    if let Some(folder) = program.get_current_dir() {
        made.current_dir(folder);
    }
    made
}

/// A selection of packages with their features. What is built of one selection shares all dependencies; another
/// selection may give some of them other features, and so a second build.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packages {
    /// All native crates but the benches, with all features: what is tested.
    All,
    /// The same and the benches, which are linted where the tests are built, and not measured.
    Linted,
    /// A `dpr` that serves and makes what it serves, on the CPU, and the tool for the browser modules.
    Serving,
    /// The tool for the browser modules.
    Bindgen,
    /// The benches, and all they run.
    Benches,
}

impl Packages {
    /// The arguments that select them.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::All => &[
                "--release",
                "--config",
                TEST_PROFILE,
                "--workspace",
                "--exclude",
                "dpr-wasm",
                "--exclude",
                "dpr-bench",
            ],
            Self::Linted => &["--release", "--config", TEST_PROFILE, "--workspace", "--exclude", "dpr-wasm"],
            Self::Serving => &["--release", "--no-default-features", "-p", "dpr", "-p", "xtask-bindgen"],
            Self::Bindgen => &["--release", "-p", "xtask-bindgen"],
            Self::Benches => &["--release", "--workspace", "--exclude", "dpr-wasm"],
        }
    }

    /// Builds these targets of them (`--bins`, `--tests`, `--bin NAME`).
    pub(crate) fn build(self, targets: &[&str]) -> Outcome {
        run(&mut self.command("build", targets))
    }

    /// This command of cargo for these targets of them.
    pub(crate) fn command(self, subcommand: &str, targets: &[&str]) -> Command {
        let mut cargo = cargo(&[subcommand]);
        cargo.args(self.arguments()).args(targets);
        cargo
    }
}

/// Builds these programs of `dpr-bench`.
pub(crate) fn build_benches(names: &[&str]) -> Outcome {
    Packages::Benches.build(&names.iter().flat_map(|name| ["--bin", name]).collect::<Vec<_>>())
}

/// Runs with its output shown, or in the job's log; fails unless the exit status is 0.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = describe(command);
    let failed = |e: io::Error| cannot_start(&line, &e);
    if let Some(job) = current() {
        job.write(&format!("$ {line}"));
        command.stdout(job.log().map_err(failed)?).stderr(job.log().map_err(failed)?);
    }
    let status = spawn(command.stdin(Stdio::null())).and_then(wait).map_err(failed)?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{line}` failed ({status})"))) }
}

/// Like [`run`], and returns the lines that the program wrote; for jobs only, which have a log.
pub(crate) fn run_lines(command: &mut Command) -> Outcome<Vec<String>> {
    let (ran, lines) = run_and_read(command)?;
    ran.map(|()| lines)
}

/// Like [`run_lines`], and returns the lines of a program that failed too, beside how it ended.
pub(crate) fn run_and_read(command: &mut Command) -> Outcome<(Outcome, Vec<String>)> {
    let Some(job) = current() else {
        return Err(Failure::new(format!("`{}` was not started by a job", describe(command))));
    };
    let failed = |e: io::Error| Failure::new(format!("cannot read {}: {e}", job.path().display()));
    let mut log = File::open(job.path()).map_err(failed)?;
    let before = log.metadata().map_err(failed)?.len();
    let ran = run(command);
    log.seek(SeekFrom::Start(before)).map_err(failed)?;
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes).map_err(failed)?;
    Ok((ran, String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()))
}

/// Standard output of a program that succeeds without much to say; its standard error becomes the failure.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let line = describe(command);
    let (status, out, err) = captured(command).map_err(|e| cannot_start(&line, &e))?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&out).into_owned());
    }
    let said = String::from_utf8_lossy(&err);
    let last: Vec<&str> = said.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = last[last.len().saturating_sub(12)..].join("\n    ");
    Err(Failure::new(format!("`{line}` failed ({status})\n    {last}")))
}

fn captured(command: &mut Command) -> io::Result<(ExitStatus, Vec<u8>, Vec<u8>)> {
    let piped = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(piped)?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let errors = std::thread::spawn(move || read(stderr));
    let out = read(stdout)?;
    let err = errors.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    Ok((wait(child)?, out, err))
}

fn read(stream: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream.map_or(Ok(0), |mut stream| stream.read_to_end(&mut bytes))?;
    Ok(bytes)
}

/// Starts a program; one of a job ends with the job.
fn spawn(command: &mut Command) -> io::Result<Child> {
    match current() {
        Some(job) => job.stop.spawn(command),
        None => command.spawn(),
    }
}

/// Waits for a program and counts what it used.
fn wait(child: Child) -> io::Result<ExitStatus> {
    let id = child.id();
    let ended = child.wait4();
    if let Some(job) = current() {
        job.stop.ended(id);
        if let Ok(used) = &ended {
            job.used(used.rusage.utime + used.rusage.stime);
        }
    }
    ended.map(|used| used.status)
}

/// Returns whether the program runs and succeeds; nothing is printed.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    spawn(quiet).and_then(wait).is_ok_and(|status| status.success())
}

/// Like [`succeeds`], but a program that takes longer than `limit` is stopped and counts as failed.
pub(crate) fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let Ok(mut child) = spawn(quiet) else { return false };
    let start = Instant::now();
    while start.elapsed() < limit {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(100)),
            ended => {
                if let Some(job) = current() {
                    job.stop.ended(child.id());
                }
                return ended.is_ok_and(|status| status.is_some_and(|status| status.success()));
            }
        }
    }
    let _ = child.kill();
    let _ = wait(child);
    false
}

/// Returns whether the program ends by itself within this time; one that does not is stopped.
pub(crate) fn ends_within(command: &mut Command, limit: Duration) -> Outcome<bool> {
    let line = describe(command);
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().map_err(|error| cannot_start(&line, &error))?;
    let start = Instant::now();
    while start.elapsed() < limit {
        if let Ok(Some(_)) = child.try_wait() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    let _ = child.wait();
    Ok(false)
}

/// The first executable file of this name on PATH.
pub(crate) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Returns whether this process may install system packages.
pub(crate) fn is_root() -> bool {
    output(&mut command("id", &["-u"])).is_ok_and(|id| id.trim() == "0")
}

fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

fn cannot_start(line: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot start `{line}`: {error}"))
}

/// Bytes of a process in memory, by the name of a line of `/proc/PID/status`; not a number where there is none.
pub(crate) fn memory_of(pid: &str, line: &str) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let found = status.lines().find(|text| text.starts_with(line));
    let kilobytes = found.and_then(|text| text.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.map_or(f64::NAN, |kilobytes| kilobytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_named_with_its_last_words() {
        let failure =
            output(&mut command("sh", &["-c", "echo disk full >&2; exit 3"])).unwrap_err().to_string();
        assert!(failure.contains("disk full") && failure.contains("exit status: 3"), "{failure}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = run(&mut command("no-such-program-here", &["--flag"])).unwrap_err().to_string();
        assert!(failure.contains("no-such-program-here --flag"), "{failure}");
    }

    #[cfg(unix)]
    #[test]
    fn a_program_at_low_priority_has_its_arguments_its_folder_and_its_environment() {
        let mut program = command("sh", &["-c", "nice; pwd; echo $WORD"]);
        program.current_dir("/").env("WORD", "kept");
        let said = output(&mut at_low_priority(&program)).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[1..], ["/", "kept"]);
        let usual: i8 = output(&mut command("nice", &[""; 0])).unwrap().trim().parse().unwrap();
        assert_eq!(lines[0], (usual + 10).min(19).to_string());
    }

    #[test]
    fn a_slow_program_is_stopped() {
        let start = Instant::now();
        assert!(!succeeds_within(&mut command("sleep", &["20"]), Duration::from_millis(200)));
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
