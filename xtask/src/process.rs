//! Running other programs: quietly for an answer, or with their output shown and kept in a log.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome};

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

/// Builds these targets of the native crates (`--bins`, `--example NAME`).
///
/// Always the same packages: other ones would mean other features, and a second build of all they depend on.
pub(crate) fn build_native(targets: &[&str]) -> Outcome {
    let packages = ["build", "--release", "--package", "dpr-core", "--package", "dpr-server"];
    run(cargo(&packages).args(targets))
}

/// Runs with inherited output; fails unless the exit status is 0.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = describe(command);
    let status = command.stdin(Stdio::null()).status().map_err(|e| cannot_start(&line, &e))?;
    if status.success() { Ok(()) } else { Err(Failure::new(format!("`{line}` failed ({status})"))) }
}

/// Standard output of a program that succeeds without much to say; its standard error becomes the failure.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let line = describe(command);
    let output = command.stdin(Stdio::null()).output().map_err(|e| cannot_start(&line, &e))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.lines().filter(|l| !l.trim().is_empty()).collect();
    let last = last[last.len().saturating_sub(12)..].join("\n    ");
    Err(Failure::new(format!("`{line}` failed ({})\n    {last}", output.status)))
}

/// Whether the program runs and succeeds; nothing is printed.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Like [`succeeds`], but a program that takes longer than `limit` is stopped and counts as failed.
pub(crate) fn succeeds_within(command: &mut Command, limit: Duration) -> bool {
    let Ok(mut child) = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    else {
        return false;
    };
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(100)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return false;
            }
        }
    }
}

/// Runs with output shown as it comes, kept in `log`, and returned line by line.
///
/// Standard output and standard error are merged in the order their lines arrive.
pub(crate) fn run_logged(command: &mut Command, log: &Path) -> Outcome<Vec<String>> {
    let line = describe(command);
    let failed = |e: std::io::Error| Failure::new(format!("cannot write {}: {e}", log.display()));
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut file = File::create(log).map_err(failed)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| cannot_start(&line, &e))?;
    let (sender, lines) = mpsc::channel::<String>();
    let mut readers = Vec::new();
    if let Some(out) = child.stdout.take() {
        readers.push(forward(out, sender.clone()));
    }
    if let Some(err) = child.stderr.take() {
        readers.push(forward(err, sender));
    }
    let mut kept = Vec::new();
    for text in lines {
        println!("{text}");
        writeln!(file, "{text}").map_err(failed)?;
        kept.push(text);
    }
    for reader in readers {
        let _ = reader.join();
    }
    let status = child.wait().map_err(|e| cannot_start(&line, &e))?;
    if status.success() {
        return Ok(kept);
    }
    Err(Failure::new(format!("`{line}` failed ({status})")).fix(format!("read {}", log.display())))
}

fn forward(
    stream: impl std::io::Read + Send + 'static,
    lines: mpsc::Sender<String>,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stream);
        let mut bytes = Vec::new();
        while reader.read_until(b'\n', &mut bytes).is_ok_and(|n| n > 0) {
            let text = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            if lines.send(text).is_err() {
                return;
            }
            bytes.clear();
        }
    })
}

/// The first executable file of this name on PATH.
pub(crate) fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Whether this process may install system packages.
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

    #[test]
    fn a_slow_program_is_stopped() {
        let start = Instant::now();
        assert!(!succeeds_within(&mut command("sleep", &["20"]), Duration::from_millis(200)));
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
