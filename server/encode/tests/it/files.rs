//! Fixtures, and directories that a test may change.

use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;
use tempfile::TempDir;

/// The folder of all fixtures.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

/// Copies the files of a folder, and its folders, into another.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs_err::create_dir_all(to).unwrap();
    for entry in fs_err::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy(&path, &to.join(name));
        } else {
            fs_err::copy(path, to.join(name)).unwrap();
        }
    }
}

/// Reads a JSON file.
pub(crate) fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap()
}

/// Changes a JSON file.
pub(crate) fn edit(path: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = read(path);
    change(&mut value);
    fs_err::write(path, value.to_string()).unwrap();
}

/// A copy of a fixture's files.
pub(crate) fn fixture(path: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy(&fixtures().join(path), dir.path());
    dir
}

/// A tensor of a file: name, type, shape and bytes.
pub(crate) type Stored = (String, Dtype, Vec<usize>, Vec<u8>);

/// Changes the tensors of a directory's weights.
pub(crate) fn edit_weights(dir: &Path, change: impl FnOnce(&mut Vec<Stored>)) {
    let path = dir.join("model.safetensors");
    let bytes = fs_err::read(&path).unwrap();
    let parsed = SafeTensors::deserialize(&bytes).unwrap();
    let mut stored: Vec<Stored> = parsed
        .iter()
        .map(|(name, view)| (name.to_owned(), view.dtype(), view.shape().to_vec(), view.data().to_vec()))
        .collect();
    change(&mut stored);
    let views = stored.iter().map(|(name, dtype, shape, bytes)| {
        (name.as_str(), TensorView::new(*dtype, shape.clone(), bytes).unwrap())
    });
    fs_err::write(path, safetensors::serialize(views, None).unwrap()).unwrap();
}

pub(crate) fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}
