//! Python: the interpreter with pip, and a virtual environment for the tests and benches.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::apt;
use crate::failure::{Failure, Outcome};
use crate::jobs::say;
use crate::paths::{VENV, venv_python};
use crate::process::{self, command};

/// Loads models that dpr wrote. The whole of torch is several GB; there is no smaller one on the package index.
const TEST_PACKAGES: [(&str, &str); 5] = [
    ("numpy", "2.4.6"),
    ("safetensors", "0.8.0"),
    ("tokenizers", "0.23.3"),
    ("torch", "2.15.0"),
    ("transformers", "5.23.0"),
];

/// The server as its makers packed it for Python.
const MILVUS: [(&str, &str); 1] = [("milvus", "2.3.5")];

/// The port that Milvus's clients look for.
const MILVUS_PORT: u16 = 19530;

/// Whether there is such a package for this processor.
const HAS_MILVUS: bool = cfg!(any(target_arch = "x86_64", target_os = "macos"));

/// What the speed is held against.
const BENCH_PACKAGES: [(&str, &str); 9] = [
    ("bm25s", "0.3.16"),
    ("faiss-cpu", "1.15.1"),
    ("hnswlib", "0.8.0"),
    ("numba", "0.68.1"),
    ("onnx", "1.23.2"),
    ("onnxruntime", "1.31.1"),
    ("pystemmer", "3.1.0"),
    ("sentence-transformers", "6.2.0"),
    ("usearch", "2.26.6"),
];

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
    find_packages(&TEST_PACKAGES)
}

pub(super) fn install_test_packages() -> Outcome {
    install_packages(&TEST_PACKAGES)
}

pub(super) fn find_milvus() -> Option<String> {
    match HAS_MILVUS {
        true => find_packages(&MILVUS),
        false => Some("none for this processor: tests against it are skipped".to_owned()),
    }
}

pub(super) fn install_milvus() -> Outcome {
    install_packages(&MILVUS)
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

pub(super) fn find_bench_packages() -> Option<String> {
    find_packages(&BENCH_PACKAGES)
}

pub(super) fn install_bench_packages() -> Outcome {
    install_packages(&BENCH_PACKAGES)
}

/// Looks for the packages' folders: starting Python and importing them would take seconds.
fn find_packages(packages: &[(&str, &str)]) -> Option<String> {
    let library =
        fs::read_dir(Path::new(VENV).join("lib")).ok()?.flatten().next()?.path().join("site-packages");
    let there = packages.iter().all(|(name, version)| {
        library.join(format!("{}-{version}.dist-info/RECORD", name.replace('-', "_"))).is_file()
    });
    there.then(|| {
        packages.iter().map(|(name, version)| format!("{name} {version}")).collect::<Vec<_>>().join(", ")
    })
}

fn install_packages(packages: &[(&str, &str)]) -> Outcome {
    // pip does not expect another pip in its environment.
    static ENVIRONMENT: Mutex<()> = Mutex::new(());
    let _alone = ENVIRONMENT.lock().unwrap_or_else(PoisonError::into_inner);
    if !process::succeeds(&mut command(venv_python(), &["-m", "pip", "--version"])) {
        say(&format!("python3 -m venv {VENV}"));
        process::output(&mut command("python3", &["-m", "venv", "--clear", VENV]))
            .map_err(|failure| failure.fix("install Python's venv module (Debian: python3-venv)"))?;
    }
    let pinned: Vec<String> = packages.iter().map(|(name, version)| format!("{name}=={version}")).collect();
    say(&format!("pip install {}", pinned.join(" ")));
    let mut arguments = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    arguments.extend(pinned.iter().map(String::as_str));
    process::output(&mut command(venv_python(), &arguments)).map(drop).map_err(|failure| {
        failure
            .fix("check that pip reaches its index and that some 8 GB of disk are free, then run this again")
    })
}

/// Downloads wheels without their dependencies into `folder` and returns nothing: the caller looks for the files.
pub(super) fn download(packages: &[String], folder: &Path) -> Outcome {
    say(&format!("pip download {}", packages.join(" ")));
    let to = folder.to_string_lossy();
    let mut arguments =
        vec!["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", &to];
    arguments.extend(packages.iter().map(String::as_str));
    process::output(&mut command("python3", &arguments))
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
