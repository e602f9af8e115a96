//! Python: the interpreter with pip, and a virtual environment for the tests and benches.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::apt;
use crate::failure::{Failure, Outcome};
use crate::jobs::{lock, say};
use crate::paths::{ENCODERS_VENV, VENV, python_of, venv_python};
use crate::process::{self, command};
use crate::stamp::Stamp;

/// Requirement files: `NAME.in` is what is needed, `NAME.txt` all of it with its hashes.
const REQUIREMENTS: &str = "tests/python/requirements";

/// The port that Milvus's clients look for.
const MILVUS_PORT: u16 = 19530;

/// The port that PostgreSQL's clients look for.
const POSTGRES_PORT: u16 = 5432;

/// `true` if there is such a package for this processor.
const HAS_MILVUS: bool = cfg!(any(target_arch = "x86_64", target_os = "macos"));

pub(super) fn find_python() -> Option<String> {
    let version = process::output(&mut command("python3", &["--version"])).ok()?;
    let ready = process::succeeds(&mut command("python3", &["-c", "import pip, venv, ensurepip"]));
    ready.then(|| version.trim().to_owned())
}

pub(super) fn install_python() -> Outcome {
    apt::install(&["python3", "python3-pip", "python3-venv"])
        .map_err(|failure| failure.fix("install Python 3.11 or newer with pip and venv"))
}

pub(super) fn find_test_packages() -> Option<String> {
    find_packages("tests")
}

pub(super) fn install_test_packages() -> Outcome {
    install_packages("tests")
}

pub(super) fn find_milvus() -> Option<String> {
    match HAS_MILVUS {
        true => find_packages("milvus"),
        false => Some("none for this processor: tests against it are skipped".to_owned()),
    }
}

pub(super) fn install_milvus() -> Outcome {
    install_packages("milvus")
}

/// The Python that has the server's package, where there is one.
pub(crate) fn milvus_python() -> Option<PathBuf> {
    HAS_MILVUS.then(venv_python)
}

/// Runs the server until it is interrupted.
pub(crate) fn serve_milvus() -> Outcome {
    let Some(python) = milvus_python() else {
        return Err(Failure::new("there is no package of the Milvus server for this processor")
            .fix("run it in a container: https://milvus.io/docs/install-overview.md"));
    };
    println!(
        "\nMilvus answers at milvus://127.0.0.1:{MILVUS_PORT}/COLLECTION once it says `ready`; Ctrl-C ends it"
    );
    let port = MILVUS_PORT.to_string();
    process::run(&mut command(
        python,
        &["tests/python/milvus_server.py", "--stay", "--data", "target/milvus/own", "--port", &port],
    ))
}

pub(super) fn find_postgres() -> Option<String> {
    find_packages("postgres")
}

pub(super) fn install_postgres() -> Outcome {
    install_packages("postgres")
}

/// Runs the server until it is interrupted.
pub(crate) fn serve_postgres() -> Outcome {
    println!(
        "\nPostgreSQL answers at postgres://dpr:dpr@127.0.0.1:{POSTGRES_PORT}/postgres?table=NAME once it says `ready`; \
         Ctrl-C ends it"
    );
    let port = POSTGRES_PORT.to_string();
    process::run(&mut command(
        venv_python(),
        &["tests/python/postgres_server.py", "--stay", "--data", "target/postgres/own", "--port", &port],
    ))
}

pub(super) fn find_bench_packages() -> Option<String> {
    find_packages("bench")
}

pub(super) fn install_bench_packages() -> Outcome {
    install_packages("bench")
}

pub(super) fn find_encoders() -> Option<String> {
    find_packages_in(ENCODERS_VENV, "encoders")
}

pub(super) fn install_encoders() -> Outcome {
    install_packages_in(ENCODERS_VENV, "encoders")
}

fn find_packages(set: &str) -> Option<String> {
    find_packages_in(VENV, set)
}

/// Looks for the packages' folders: starting Python and importing them would take seconds. What they need in turn is
/// there if it was installed from the same lock.
fn find_packages_in(environment: &str, set: &str) -> Option<String> {
    if !lock_of(environment, set).ok()?.is_fresh(&[]) {
        return None;
    }
    let packages = fs::read_to_string(requirements(set, "in")).ok()?;
    let library =
        fs::read_dir(Path::new(environment).join("lib")).ok()?.flatten().next()?.path().join("site-packages");
    let there = |(name, version): (&str, &str)| {
        library.join(format!("{}-{version}.dist-info/RECORD", name.replace('-', "_"))).is_file()
    };
    let packages: Vec<_> = pinned(&packages).collect();
    packages.iter().all(|package| there(*package)).then(|| {
        packages.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
    })
}

/// Returns the stamp of a set as its lock has it.
fn lock_of(environment: &str, set: &str) -> Outcome<Stamp> {
    Stamp::of(&format!("python-{set}"), &[&requirements(set, "txt")], &[environment])
}

fn requirements(set: &str, kind: &str) -> String {
    format!("{REQUIREMENTS}/{set}.{kind}")
}

/// Names and versions in a requirement file.
fn pinned(file: &str) -> impl Iterator<Item = (&str, &str)> {
    file.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.trim().split_once("=="))
}

fn install_packages(set: &str) -> Outcome {
    install_packages_in(VENV, set)
}

fn install_packages_in(environment: &str, set: &str) -> Outcome {
    // pip does not expect another pip in its environment.
    static ENVIRONMENT: Mutex<()> = Mutex::new(());
    let _alone = lock(&ENVIRONMENT);
    let python = python_of(environment);
    if !process::succeeds(&mut command(&python, &["-m", "pip", "--version"])) {
        say(&format!("python3 -m venv {environment}"));
        process::output(&mut command("python3", &["-m", "venv", "--clear", environment]))
            .map_err(|failure| failure.fix("install Python's venv module (Debian: python3-venv)"))?;
    }
    let stamp = lock_of(environment, set)?;
    stamp.clear();
    let file = requirements(set, "txt");
    say(&format!("pip install --require-hashes -r {file}"));
    // Bytecode is compiled at the first import. Few modules of torch and transformers are imported, and compiling all of
    // them is a third of the installation's processor time.
    let arguments = ["-m", "pip", "install", "--quiet", "--no-compile"];
    let checked = ["--disable-pip-version-check", "--require-hashes", "-r", &file];
    process::output(command(python, &arguments).args(checked)).map_err(|failure| {
        failure
            .fix("check that pip reaches its index and that some 8 GB of disk are free, then run this again")
    })?;
    stamp.write()
}

/// Downloads the wheels of a set into `folder` and returns nothing: the caller looks for the files.
pub(super) fn download(set: &str, folder: &Path) -> Outcome {
    let file = requirements(set, "txt");
    say(&format!("pip download --require-hashes -r {file}"));
    let to = folder.to_string_lossy();
    let arguments = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes"];
    let mut pip = command("python3", &arguments);
    process::output(pip.args(["--no-deps", "--only-binary", ":all:", "--dest", &to, "-r", &file]))
        .map(drop)
        .map_err(|failure| failure.fix("check that pip reaches its index, then run this again"))
}

/// Unpacks a zip file or a wheel.
pub(super) fn unzip(archive: &Path, folder: &Path) -> Outcome {
    let (archive, folder) = (archive.to_string_lossy(), folder.to_string_lossy());
    process::output(&mut command("python3", &["-m", "zipfile", "-e", &archive, &folder]))
        .map(drop)
        .map_err(|failure: Failure| failure.fix("free some disk space and run this again"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::root;

    #[test]
    fn every_set_pins_what_it_names_and_every_build_by_its_hash() {
        for set in ["bench", "encoders", "milvus", "minilm", "mpnet", "postgres", "tests"] {
            let read = |kind| fs::read_to_string(root().join(requirements(set, kind))).unwrap();
            let (named, all) = (read("in"), read("txt"));
            let names: Vec<_> = pinned(&named).collect();
            assert!(!names.is_empty(), "{set}");
            for (name, version) in names {
                assert!(
                    all.contains(&format!("\n{name}=={version} \\\n"))
                        || all.starts_with(&format!("{name}=={version} \\\n")),
                    "{set}: {name}"
                );
            }
            let entries: Vec<_> =
                all.split("\n").filter(|line| line.contains("==") && !line.starts_with(' ')).collect();
            for entry in &entries {
                assert!(entry.ends_with(" \\"), "{set}: {entry} has no hash");
            }
            assert!(all.matches("--hash=sha256:").count() >= entries.len(), "{set}");
        }
    }
}
