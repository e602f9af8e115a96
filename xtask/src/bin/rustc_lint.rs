//! A compiler for `RUSTC_WORKSPACE_WRAPPER` that lints what it compiles: rustc, then clippy, then rustdoc's lints.
//!
//! `cargo clippy` and `cargo doc` check every dependency again, since they share nothing with a build: seven minutes of
//! processor here, of which the linting is one. Called by cargo in the place of `rustc`, this program lints each crate
//! of the workspace against the metadata that the build has just written. Warnings are errors, and a crate with one
//! counts as not built, so that the next build lints it again.
//!
//! `cargo xtask lint` is the same by `cargo clippy` and `cargo doc`, without a build.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(rustc) = arguments.next().map(PathBuf::from) else {
        eprintln!("usage: RUSTC_WORKSPACE_WRAPPER=rustc-lint cargo build");
        return ExitCode::FAILURE;
    };
    let arguments: Vec<_> = arguments.collect();
    match compile_and_lint(&rustc, &arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("error: rustc-lint: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether the crate compiles and has no warning. What cargo asks of the compiler itself is passed on.
fn compile_and_lint(rustc: &Path, arguments: &[OsString]) -> Result<bool, String> {
    let is_compiled = !is_only_linted(arguments);
    // Dependency information, the list of source files, tells cargo when to lint a program again.
    let listed = |argument: &OsString| match argument.to_string_lossy().starts_with("--emit=") {
        true if !is_compiled => "--emit=dep-info".into(),
        _ => argument.clone(),
    };
    let mut compiler = Command::new(rustc);
    compiler.args(arguments.iter().map(listed));
    let Some(invocation) = Invocation::of(arguments) else { return succeeds(&mut compiler) };
    let is_linted_with_its_tests = is_library(arguments);
    if is_linted_with_its_tests {
        compiler.args(["-D", "warnings"]);
    }
    if !succeeds(&mut compiler)? {
        return Ok(false);
    }
    let output = invocation.scratch_directory();
    std::fs::create_dir_all(&output).map_err(|e| format!("cannot create {}: {e}", output.display()))?;
    let linted = if is_linted_with_its_tests { Ok(true) } else { invocation.clippy(rustc, &output) };
    let clean = linted.and_then(|clean| {
        if clean && invocation.is_documented() { invocation.rustdoc(rustc, &output) } else { Ok(clean) }
    });
    let removed = std::fs::remove_dir_all(&output);
    removed.map_err(|e| format!("cannot remove {}: {e}", output.display()))?;
    if clean == Ok(true) && !is_compiled {
        invocation.leave_a_note()?;
    }
    clean
}

/// Returns whether a crate is a library built without its tests. Clippy lints a library once, in the build of its unit
/// tests, which has all of its code; here rustc's own warnings are errors, such as code that only tests use.
fn is_library(arguments: &[OsString]) -> bool {
    let is_kind = |pair: &[OsString]| pair[0] == "--crate-type" && pair[1] == "lib";
    arguments.windows(2).any(is_kind) && !arguments.iter().any(|argument| argument == "--test")
}

/// Returns whether a crate is a program that no test runs, so that it is neither compiled to machine code nor linked:
/// those of the benches, and the examples, which the tests run as modules of one program.
fn is_only_linted(arguments: &[OsString]) -> bool {
    let texts: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    let is = |wanted: &str| texts.iter().any(|text| text == wanted);
    let is_there = |text: &str| text.starts_with("bench/") || text.starts_with("examples/");
    texts.iter().any(|text| text.ends_with(".rs") && is_there(text)) && is("bin") && !is("--test")
}

/// One call of rustc that compiles a crate.
struct Invocation {
    /// The arguments without those that say what is written and where.
    arguments: Vec<OsString>,
    out_dir: PathBuf,
    /// The crate and the hash in its file names, which differ between any two invocations of a build.
    unit: String,
    is_test: bool,
}

impl Invocation {
    /// Returns nothing if this call compiles no crate of cargo's.
    fn of(arguments: &[OsString]) -> Option<Self> {
        let (mut kept, mut out_dir, mut name, mut hash) = (Vec::new(), None, None, String::new());
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let text = argument.to_string_lossy();
            if text == "--out-dir" {
                out_dir = rest.next().map(PathBuf::from);
            } else if text.starts_with("--emit=") || text == "--test" {
            } else if let Some(kinds) = text.strip_prefix("--json=") {
                // Cargo would take the path of a second output for the crate's.
                let kinds: Vec<_> = kinds.split(',').filter(|kind| *kind != "artifacts").collect();
                kept.push(format!("--json={}", kinds.join(",")).into());
            } else {
                if name.is_none() && kept.last().is_some_and(|last: &OsString| last == "--crate-name") {
                    name = Some(text.to_string());
                }
                if let Some(suffix) = text.strip_prefix("extra-filename=") {
                    hash = suffix.to_owned();
                }
                kept.push(argument.clone());
            }
        }
        let is_test = arguments.iter().any(|argument| argument == "--test");
        Some(Self { arguments: kept, out_dir: out_dir?, unit: format!("{}{hash}", name?), is_test })
    }

    /// A directory of this invocation alone, beside what cargo writes.
    fn scratch_directory(&self) -> PathBuf {
        self.out_dir.join(format!("lint-{}", self.unit))
    }

    /// Writes a text in place of the program: cargo runs this compiler in every build while the output file is missing.
    fn leave_a_note(&self) -> Result<(), String> {
        const NOTE: &str = "Linted and not built: `cargo xtask bench` and `cargo run` build it.\n";
        let program = self.out_dir.join(format!("{}{}", self.unit, std::env::consts::EXE_SUFFIX));
        // Removed first: a program of an earlier build is a hard link, and writing would change its other name as well.
        let _ = std::fs::remove_file(&program);
        std::fs::write(&program, NOTE).map_err(|e| format!("cannot write {}: {e}", program.display()))
    }

    /// Libraries and programs have documentation; tests and build scripts have none.
    fn is_documented(&self) -> bool {
        !self.is_test && !self.unit.starts_with("build_script")
    }

    fn clippy(&self, rustc: &Path, output: &Path) -> Result<bool, String> {
        let mut clippy = Command::new(beside(rustc, "clippy-driver"));
        // How `cargo clippy` hands its lints to the driver: each argument followed by this separator.
        clippy.env("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
        clippy.arg(rustc).args(&self.arguments).args(self.is_test.then_some("--test"));
        clippy.arg("--emit=metadata").arg("--out-dir").arg(output);
        succeeds(&mut clippy)
    }

    fn rustdoc(&self, rustc: &Path, output: &Path) -> Result<bool, String> {
        let mut rustdoc = Command::new(beside(rustc, "rustdoc"));
        rustdoc.args(&self.arguments).args(["-D", "warnings"]);
        rustdoc.arg("--out-dir").arg(output);
        succeeds(&mut rustdoc)
    }
}

/// The program of the same toolchain; cargo may name the compiler without a directory.
fn beside(rustc: &Path, program: &str) -> PathBuf {
    match rustc.parent().filter(|parent| *parent != OsStr::new("")) {
        Some(directory) => directory.join(program),
        None => PathBuf::from(program),
    }
}

fn succeeds(command: &mut Command) -> Result<bool, String> {
    let status = command.status();
    status
        .map(|status| status.success())
        .map_err(|e| format!("cannot start {:?}: {e}", command.get_program()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_lint_writes_nothing_where_the_build_writes() {
        let line = "--crate-name it --edition=2024 tests/it/main.rs --json=diagnostic-rendered-ansi,artifacts \
                    --emit=dep-info,link --test -C extra-filename=-12ab --out-dir /x/deps --extern dpr=/x/libdpr.rlib";
        let invocation = Invocation::of(&words(line)).unwrap();
        let kept = "--crate-name it --edition=2024 tests/it/main.rs --json=diagnostic-rendered-ansi \
                    -C extra-filename=-12ab --extern dpr=/x/libdpr.rlib";
        assert_eq!(invocation.arguments, words(kept));
        assert_eq!(invocation.scratch_directory(), Path::new("/x/deps/lint-it-12ab"));
        assert!(invocation.is_test && !invocation.is_documented());
    }

    #[test]
    fn a_library_is_read_by_clippy_with_its_tests() {
        assert!(is_library(&words("--crate-name a core/src/lib.rs --crate-type lib")));
        assert!(!is_library(&words("--crate-name a core/src/lib.rs --test")));
        assert!(!is_library(&words("--crate-name a server/src/main.rs --crate-type bin")));
    }

    #[test]
    fn programs_that_no_test_runs_are_linted_and_not_compiled() {
        let is_only = |source: &str, more: &str| {
            is_only_linted(&words(&format!("--crate-name a {source} --emit=dep-info,link {more}")))
        };
        assert!(is_only("bench/src/bin/load_bench.rs", "--crate-type bin"));
        assert!(is_only("bench/src/bin/gpu_bench/main.rs", "--crate-type bin"));
        assert!(is_only("examples/live_index.rs", "--crate-type bin"));
        assert!(!is_only("examples/tests/run.rs", "--test"));
        assert!(!is_only("bench/src/lib.rs", "--crate-type lib"));
        assert!(!is_only("server/src/main.rs", "--crate-type bin"));
    }

    #[test]
    fn what_cargo_asks_of_the_compiler_is_not_linted() {
        assert!(Invocation::of(&words("-vV")).is_none());
        assert!(Invocation::of(&words("- --crate-name ___ --print=file-names")).is_none());
    }
}
