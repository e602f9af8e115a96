//! Files of private search: a projection, and the manifest of a blur directory.

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use dpr_core::private::blur::Level;
use dpr_core::private::projection::Projection;
use dpr_core::project::orthonormal;
use dpr_files::lock;
use dpr_index::private::{BlurDir, BlurManifest, Calibration};
use fs_err as fs;

use crate::named;

/// A projection of vectors of so many numbers, on as many directions.
pub(crate) fn made(dim: usize) -> Projection {
    Projection::new(vec![0.01; dim], &orthonormal(dim, dim, 1)).expect("orthonormal rows")
}

/// Writes a blur directory of this model, which offers the levels that the projection has rows for.
pub(crate) fn write(dir: &Path, model: &str, dim: usize) -> BlurDir {
    let projection = made(dim);
    let levels = Level::ALL.into_iter().filter(|level| level.blur().dims <= dim);
    let calibrations: Vec<Calibration> =
        levels.map(|level| Calibration { level, recall: [1.0; 5] }).collect();
    let manifest = BlurManifest::new(model, &projection, 100, (10, "passages"), &calibrations);
    BlurDir::write(dir, manifest, projection).expect("a directory that can be written")
}

/// A projection's file.
pub(crate) fn projection(bytes: &[u8]) {
    if let Ok(projection) = Projection::from_bytes(bytes) {
        assert_eq!(projection.lift(&projection.project(projection.mean(), 3)).len(), projection.dim());
    }
}

pub(crate) fn valid_projection() -> Vec<(String, Vec<u8>)> {
    vec![named("small", made(5).to_bytes())]
}

/// The manifest of a blur directory whose projection is right.
pub(crate) fn blur(bytes: &[u8]) {
    static DIR: OnceLock<Mutex<tempfile::TempDir>> = OnceLock::new();
    let dir = DIR.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a temporary directory");
        write(&dir.path().join("blur"), "a model", 64);
        Mutex::new(dir)
    });
    let dir = lock(dir);
    let blur = dir.path().join("blur");
    fs::write(blur.join("blur.json"), bytes).expect("a small file");
    if let Ok(dir) = BlurDir::open(&blur) {
        assert!(dir.manifest().levels.values().all(|level| level.blur.dims <= dir.projection().rank()));
    }
}

pub(crate) fn valid_blur() -> Vec<(String, Vec<u8>)> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    write(&dir.path().join("blur"), "a model", 64);
    vec![named(
        "two-levels",
        fs::read(dir.path().join("blur/blur.json")).expect("a file that was just written"),
    )]
}
