//! Data that does not ship: Wikipedia introductions and published question sets, where they are at hand.

use std::fs;
use std::path::{Path, PathBuf};

use super::FOLDER;
use crate::failure::{Failure, Outcome};
use crate::paths::dpr;
use crate::process::{command, output};

/// The folder of it.
pub(super) struct Wikipedia(PathBuf);

impl Wikipedia {
    /// Beside the repository, or where `DPR_SHARED` says; says so when it is not there.
    pub(super) fn find() -> Option<Self> {
        let shared = std::env::var_os("DPR_SHARED").map_or_else(|| PathBuf::from("../shared"), PathBuf::from);
        let data = Self(shared.join("data"));
        if Path::new(&data.passages()).is_file() {
            return Some(data);
        }
        println!(
            "skipped: Wikipedia and its questions are not beside the repository (DPR_SHARED names another place)"
        );
        None
    }

    /// Splits the introductions into blocks of 100 words; the file of blocks.
    pub(super) fn blocks(&self) -> Outcome<String> {
        fs::create_dir_all(FOLDER).map_err(|error| Failure::new(format!("cannot make {FOLDER}: {error}")))?;
        let blocks = format!("{FOLDER}/wikipedia-blocks.tsv");
        output(&mut command(dpr(), &["data", "split", "--input", &self.passages(), "--out", &blocks]))?;
        Ok(blocks)
    }

    /// The question set of this name.
    pub(super) fn questions(&self, name: &str) -> String {
        self.0.join(format!("questions/{name}.tsv")).to_string_lossy().into_owned()
    }

    fn passages(&self) -> String {
        self.0.join("wiki/passages.tsv.gz").to_string_lossy().into_owned()
    }
}
