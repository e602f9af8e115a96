//! Paths of the repository. All are relative to its root, which every task makes its working directory.

use std::fs;
use std::path::{Path, PathBuf};

/// Tools that set-up installs for this repository alone.
pub(crate) const TOOLS: &str = "target/tools";
/// The Python environment of the tests and benches.
pub(crate) const VENV: &str = "target/venv";
/// Engines that encode beside ours in the benches; they need another torch than the tests.
pub(crate) const ENCODERS_VENV: &str = "target/venv-encoders";
/// Hugging Face directory of the starter model.
pub(crate) const MINILM: &str = "target/models/minilm";
/// Hugging Face directory of all-mpnet-base-v2: a peer of the tests, the teacher of the distillation.
pub(crate) const MPNET: &str = "target/models/mpnet";
/// The demo's model directory.
pub(crate) const DEMO_MODEL: &str = "data/model";
/// The demo's vectors.
pub(crate) const DEMO_VECTORS: &str = "data/vectors";
/// The demo's index.
pub(crate) const DEMO_INDEX: &str = "data/index";
/// The demo's corpus and the tests' questions.
pub(crate) const SQUAD: &str = "web-demo/corpus/squad-dev-v1.1.json.gz";
/// The built search page.
pub(crate) const PAGE: &str = "web-demo/dist";

/// The repository root.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// A path under the working directory made absolute, for tools that run in another one.
pub(crate) fn absolute(path: impl AsRef<Path>) -> PathBuf {
    std::path::absolute(path.as_ref()).unwrap_or_else(|_| path.as_ref().to_path_buf())
}

/// The `dpr` binary.
pub(crate) fn dpr() -> PathBuf {
    built("dpr")
}

/// A program of this repository, as it was built last.
pub(crate) fn built(name: &str) -> PathBuf {
    absolute(target_dir().join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
}

/// Python inside the environment of the tests.
pub(crate) fn venv_python() -> PathBuf {
    python_of(VENV)
}

/// Python inside a virtual environment.
pub(crate) fn python_of(environment: &str) -> PathBuf {
    absolute(Path::new(environment).join("bin").join("python"))
}

/// Returns the folder of native builds.
pub(crate) fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// Copies a folder with all in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Bytes of the files in a folder.
pub(crate) fn bytes_in(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}
