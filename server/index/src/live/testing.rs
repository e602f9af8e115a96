//! Small indexes for the tests of this module.

use std::path::Path;

use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_files::progress::Silent;

use super::NewPassage;
use crate::vectors::VectorSet;
use crate::{IndexKind, IndexManifest, IndexOptions, build_index};

/// The numbers of a vector.
pub(super) const DIM: usize = 4;

/// Returns a passage to put, with a vector that `number` decides.
pub(super) fn new(id: &str, number: usize) -> NewPassage {
    let passage = Passage::new(id, "", format!("Text {number}."));
    NewPassage { passage, vector: Embedding::new(vector(number), DIM).unwrap() }
}

/// Publishes an exact index of the passages `p0`, `p1` and so on in `dir`, as its newest version.
pub(super) fn build(dir: &Path, count: usize) {
    build_kind(dir, count, IndexKind::Exact);
}

/// Publishes an index of another kind, as [`build`] does.
pub(super) fn build_kind(dir: &Path, count: usize, kind: IndexKind) {
    build_with(dir, count, &IndexOptions { kind, ..IndexOptions::default() });
}

/// Publishes an index by other options, as [`build`] does, and returns its manifest.
pub(super) fn build_with(dir: &Path, count: usize, options: &IndexOptions) -> IndexManifest {
    let (passages, rows): (Vec<_>, Vec<_>) =
        (0..count).map(|number| (new(&format!("p{number}"), number).passage, vector(number))).unzip();
    let set = VectorSet::new("ab".repeat(32), DIM, passages, rows.concat());
    build_index(&set, dir, options, &Silent).unwrap()
}

fn vector(number: usize) -> Vec<f32> {
    (0..DIM).map(|at| 1.0 + ((number + 1) * (at + 3) % 17) as f32).collect()
}
