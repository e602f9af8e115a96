//! `pytorch_model.bin`: what is read, and what is refused. The files are by `tests/python/torch_weights.py`, except for
//! those that no PyTorch writes, which `made.rs` puts together.

mod hostile;
mod made;
mod read;
mod zips;

use std::path::PathBuf;

use dpr_core::TensorMap;
use dpr_encode::model::HuggingFaceDir;

fn fixture(name: &str) -> PathBuf {
    crate::files::fixtures().join("torch").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    fs_err::read(fixture(name)).unwrap()
}

/// A directory of Hugging Face with these weights: names and bytes.
fn directory(weights: &[(&str, &[u8])]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json"] {
        fs_err::copy(fixture(name), dir.path().join(name)).unwrap();
    }
    for (name, bytes) in weights {
        fs_err::write(dir.path().join(name), bytes).unwrap();
    }
    dir
}

/// Reads these bytes as `pytorch_model.bin`, in one directory for each test.
fn read(bytes: &[u8]) -> Result<TensorMap, String> {
    thread_local! {
        static DIRECTORY: tempfile::TempDir = directory(&[]);
    }
    DIRECTORY.with(|dir| {
        fs_err::write(dir.path().join("pytorch_model.bin"), bytes).unwrap();
        HuggingFaceDir::read(dir.path(), None).map(|read| read.tensors).map_err(|error| error.to_string())
    })
}

/// The error of these bytes, which says all of this, and the file.
fn refused(bytes: &[u8], says: &[&str]) {
    let error = read(bytes).map(|_| ()).unwrap_err();
    assert!(error.contains("pytorch_model.bin"), "{error}");
    for part in says {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
}
