//! Runs the real binary on small files.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fs_err as fs;
use serde_json::Value;

/// A temporary directory with a model in it.
pub(crate) struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    /// With the tiny DPR model imported as `model`.
    pub(crate) fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        bench.import("dpr-tiny", "model");
        bench
    }

    /// Imports a fixture's two encoders.
    pub(crate) fn import(&self, fixture: &str, name: &str) {
        let encoders = fixtures().join(fixture);
        let mut command = self.dpr(&["import"]);
        command.arg("--question").arg(encoders.join("question")).arg("--passage").arg(encoders.join("ctx"));
        succeed(command.arg("--out").arg(self.path(name)));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    /// `passages` as `corpus.tsv`, ids from `p0`.
    pub(crate) fn corpus(&self, passages: usize) -> PathBuf {
        self.write("corpus.tsv", corpus(passages))
    }

    /// The binary, in the temporary directory.
    pub(crate) fn dpr(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_dpr"));
        command.args(arguments).current_dir(self.dir.path());
        for name in ["DPR_MODEL", "DPR_INDEX", "DPR_DEVICE", "DPR_LOG"] {
            command.env_remove(name);
        }
        command
    }

    /// `dpr encode` of `corpus.tsv` by `model` on the CPU, with a JSON summary.
    pub(crate) fn encode(&self, out: &str, more: &[&str]) -> Command {
        let mut command =
            self.dpr(&["encode", "--model", "model", "--passages", "corpus.tsv", "--device", "cpu"]);
        command.args(["--json", "--out", out]).args(more);
        command
    }

    /// An exact index of `corpus.tsv` in `index`.
    pub(crate) fn index(&self) {
        succeed(&mut self.encode("vectors", &[]));
        succeed(&mut self.dpr(&["index", "--vectors", "vectors", "--out", "index", "--kind", "exact"]));
    }
}

pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures")
}

/// Passages of 3 to 122 different words.
pub(crate) fn corpus(passages: usize) -> String {
    let mut lines = String::from("id\ttext\ttitle\n");
    for row in 0..passages {
        let words: Vec<_> =
            (0..3 + row * 37 % 120).map(|word| format!("w{}", (row * 31 + word * 7) % 997)).collect();
        lines.push_str(&format!("p{row}\t{}\tTitle {}\n", words.join(" "), row / 10));
    }
    lines
}

/// Runs it; its standard output, which must come with status 0.
#[track_caller]
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// As [`succeed`], read as JSON.
#[track_caller]
pub(crate) fn json(command: &mut Command) -> Value {
    serde_json::from_str(&succeed(command)).unwrap()
}

/// Runs it; the `error:` line, which must be one line and come with status 1.
#[track_caller]
pub(crate) fn fail(command: &mut Command) -> String {
    error_of(&command.output().unwrap())
}

#[track_caller]
pub(crate) fn error_of(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let errors: Vec<_> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{stderr}");
    errors[0].to_owned()
}
