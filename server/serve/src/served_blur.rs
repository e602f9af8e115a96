//! The blur directory that a server has.

use dpr_index::private::{BlurDir, Level, LevelEntry, PROJECTION};

use super::file::ServedFile;

/// Blurred search as it is served.
#[derive(Debug)]
pub struct ServedBlur {
    pub(super) dir: BlurDir,
    pub(super) file: ServedFile,
}

impl ServedBlur {
    /// Takes a blur directory that was read and checked. The projection is held in memory: a directory that is made
    /// again while the server runs has another.
    pub fn new(dir: BlurDir) -> Self {
        let file = ServedFile::of_bytes(PROJECTION, dir.projection().to_bytes());
        Self { dir, file }
    }

    /// Returns the blur directory.
    pub fn dir(&self) -> &BlurDir {
        &self.dir
    }

    /// Returns a level that is offered where a search returns at most `max_k` passages.
    pub(super) fn level(&self, name: &str, max_k: usize) -> Option<(Level, LevelEntry)> {
        self.levels(max_k).find(|(level, _)| level.name() == name)
    }

    pub(super) fn levels(&self, max_k: usize) -> impl Iterator<Item = (Level, LevelEntry)> {
        let levels = self.dir.manifest().levels.iter().map(|(level, entry)| (*level, *entry));
        levels.filter(move |(_, entry)| entry.candidates <= max_k)
    }
}
