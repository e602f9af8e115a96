//! Indexes that change, from outside: failing disks, power failures, memory, backups while updates come in.

#[cfg(target_os = "linux")]
mod faults;
#[cfg(unix)]
mod hostile;
#[cfg(unix)]
mod killed;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod power;
#[cfg(target_os = "linux")]
mod shim;
mod snapshots;
mod unchecked;

use std::path::Path;

use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, NewPassage, build_index};

const DIM: usize = 4;

fn new(id: &str) -> NewPassage {
    let passage = Passage::new(id, "", "Text.");
    NewPassage { passage, vector: Embedding::new(vec![0.5; DIM], DIM).unwrap() }
}

fn build(dir: &Path) {
    let passages: Vec<Passage> = (0..10).map(|row| new(&format!("p{row}")).passage).collect();
    let rows: Vec<f32> = (0..10 * DIM).map(|at| 1.0 + at as f32).collect();
    let set = VectorSet::new("ab".repeat(32), DIM, passages, rows);
    build_index(&set, dir, &IndexOptions::default(), &Silent).unwrap();
}
