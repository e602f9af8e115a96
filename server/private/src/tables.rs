//! Private tables on disk: `private-N` beside version `N` of an index.
//!
//! ```text
//! private.json      sizes, parameter sets, checksums of the files; its SHA-256 is the version
//! rank.i8           rounded coordinates, [blocks, dims, degree]                     stays on the server
//! text.i8           columns of compressed passages, bytes less 128, [rows, columns]  stays on the server
//! positions.u32     position of each row of the index, [passages]                    stays on the server
//! projection.f16    mean [dim] f32, principal directions [dims, dim] f16            for everybody
//! rank.hint         13 bits a passage (set 1)                                       for everybody
//! text.hint         [rows, 2048] u16                                                for everybody
//! columns.bin       passages of each column (u8), hashes of the columns (16 bytes)  for everybody
//! ```

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use dpr_core::model::{FileEntry, hex};
use dpr_core::private::encrypted::Projection;
use dpr_core::private::encrypted::manifest::{self, POSITIONS, PROJECTION, RANK_TABLE, TEXT_TABLE};
use dpr_files::{Error as FileError, Mapped, digest, plain};
use dpr_index::IndexDir;

use crate::OpenError;
use crate::delta_cache::DeltaCache;
use crate::ranks::Transforms;

/// The manifest of private tables.
pub const MANIFEST: &str = "private.json";

/// The most bytes of a manifest.
pub(crate) const MOST_MANIFEST: u64 = 64 << 10;

/// Private tables, open: every byte was checked.
#[derive(Debug)]
pub struct Tables {
    dir: PathBuf,
    json: Vec<u8>,
    checked: manifest::Tables,
    ranks: Transforms,
    /// The table of texts, `[rows, columns]`.
    texts: Mapped,
    positions: Mapped,
    projection: Projection,
    pub(crate) deltas: Mutex<DeltaCache>,
}

/// Returns the directory of the private tables of version `number` of the index in `index`.
pub fn dir_of_version(index: &Path, number: u64) -> PathBuf {
    IndexDir::new(index).private_path(number)
}

impl Tables {
    /// Opens the private tables of version `number` of the index in `index`, whose fingerprint is `version`, and checks
    /// sizes and checksums of all files. The rank table is transformed into memory, `4 dims` bytes a passage; the
    /// texts are mapped.
    ///
    /// # Errors
    /// [`OpenError`]: no tables, a damaged file, parameters that are refused, tables of another index.
    pub fn open(index: &Path, number: u64, version: &str) -> Result<Self, OpenError> {
        let dir = dir_of_version(index, number);
        let path = dir.join(MANIFEST);
        let json = plain::read(&path, MOST_MANIFEST).map_err(FileError::read(&path));
        let json = json.map_err(|error| match error {
            FileError::Missing { .. } => OpenError::Missing { path: index.to_path_buf() },
            error => error.into(),
        })?;
        let checked = manifest::Tables::read(&json).map_err(OpenError::manifest(&path))?;
        if checked.manifest.index_version != version {
            return Err(OpenError::OtherIndex { path });
        }
        for (name, file) in checked.manifest.files.iter().chain(&checked.manifest.tables) {
            check(&dir.join(name), file)?;
        }
        let map = |name: &str| {
            let path = dir.join(name);
            Mapped::open(&path).map_err(FileError::read(&path))
        };
        let ranks = Transforms::of_table(&checked.rank, bytemuck::cast_slice(map(RANK_TABLE)?.bytes()));
        let (texts, positions) = (map(TEXT_TABLE)?, map(POSITIONS)?);
        let projection = Projection::read(&checked, map(PROJECTION)?.bytes());
        let projection = projection.map_err(OpenError::manifest(&path))?;
        Ok(Self { dir, json, checked, ranks, texts, positions, projection, deltas: Mutex::default() })
    }

    /// Returns the manifest's bytes, as everybody downloads them.
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Returns the manifest, checked.
    pub fn checked(&self) -> &manifest::Tables {
        &self.checked
    }

    /// Returns the version of the tables: 64 hexadecimal digits.
    pub fn version(&self) -> String {
        hex(&self.checked.version)
    }

    /// Returns the files that everybody downloads, with their sizes and checksums.
    pub fn public_files(&self) -> impl Iterator<Item = (PathBuf, &str, &FileEntry)> {
        self.checked.manifest.files.iter().map(|(name, file)| (self.dir.join(name), name.as_str(), file))
    }

    pub(crate) fn ranks(&self) -> &Transforms {
        &self.ranks
    }

    /// Returns the position of each row of the index, `[passages]` little-endian numbers.
    pub(crate) fn positions(&self) -> &[[u8; 4]] {
        self.positions.bytes().as_chunks().0
    }

    pub(crate) fn projection(&self) -> &Projection {
        &self.projection
    }

    pub(crate) fn texts(&self) -> &[i8] {
        bytemuck::cast_slice(self.texts.bytes())
    }
}

fn check(path: &Path, expected: &FileEntry) -> Result<(), FileError> {
    digest::check_size(path, expected)?;
    let found = digest::of_file(path).map_err(FileError::read(path))?;
    digest::check(path, expected, &found)
}
