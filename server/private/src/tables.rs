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

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use dpr_core::model::{FileEntry, hex, sha256_hex};
use dpr_core::private::encrypted::manifest::{self, POSITIONS, PROJECTION, RANK_TABLE, TEXT_TABLE};
use dpr_core::private::encrypted::{ManifestError, Projection};
use dpr_files::{Error as FileError, Mapped, digest, plain};
use dpr_index::IndexDir;

use crate::OpenError;
use crate::delta_cache::DeltaCache;
use crate::ranks::Transforms;

/// The manifest of private tables.
pub const MANIFEST: &str = "private.json";

/// The most bytes of a manifest.
pub(crate) const MOST_MANIFEST: u64 = 64 << 10;

/// Private tables, open: every byte was checked where it is mapped, so that other tables which take the place of the
/// directory change nothing of these.
#[derive(Debug)]
pub struct Tables {
    json: Vec<u8>,
    checked: manifest::Tables,
    /// The files that everybody downloads.
    files: BTreeMap<String, Arc<Mapped>>,
    ranks: Transforms,
    /// The table of texts, `[rows, columns]`.
    texts: Arc<Mapped>,
    positions: Arc<Mapped>,
    projection: Projection,
    pub(crate) deltas: Mutex<DeltaCache>,
}

/// Returns the directory of the private tables of version `number` of the index in `index`.
pub fn dir_of_version(index: &Path, number: u64) -> PathBuf {
    IndexDir::new(index).private_path(number)
}

impl Tables {
    /// Opens the private tables of version `number` of the index in `index`, whose fingerprint is `version`, and checks
    /// sizes and checksums of all files. The rank table is transformed into memory, `4 dims` bytes a passage; the other
    /// files are mapped. Each file is mapped first and checked then, in its map.
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
        let mapped = |files: &BTreeMap<String, FileEntry>| {
            let one = |(name, file): (&String, &FileEntry)| Ok((name.clone(), open(&dir.join(name), file)?));
            files.iter().map(one).collect::<Result<BTreeMap<_, _>, FileError>>()
        };
        let (files, tables) = (mapped(&checked.manifest.files)?, mapped(&checked.manifest.tables)?);
        let of = |files: &BTreeMap<String, Arc<Mapped>>, name: &str| {
            let missing = || OpenError::manifest(&path)(ManifestError::File(name.to_owned()));
            files.get(name).cloned().ok_or_else(missing)
        };
        let rank_table = of(&tables, RANK_TABLE)?;
        let ranks = Transforms::of_table(&checked.rank, bytemuck::cast_slice(rank_table.bytes()));
        let (texts, positions) = (of(&tables, TEXT_TABLE)?, of(&tables, POSITIONS)?);
        let projection = Projection::read(&checked, of(&files, PROJECTION)?.bytes());
        let projection = projection.map_err(OpenError::manifest(&path))?;
        let deltas = Mutex::default();
        Ok(Self { json, checked, files, ranks, texts, positions, projection, deltas })
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

    /// Returns the contents of the files that everybody downloads, with their names, sizes and checksums.
    pub fn public_contents(&self) -> impl Iterator<Item = (&Arc<Mapped>, &str, &FileEntry)> {
        let listed = self.checked.manifest.files.iter();
        listed.filter_map(|(name, file)| Some((self.files.get(name)?, name.as_str(), file)))
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

/// Maps the file at `path`, and checks size and checksum of what is mapped.
fn open(path: &Path, expected: &FileEntry) -> Result<Arc<Mapped>, FileError> {
    let mapped = Mapped::open(path).map_err(FileError::read(path))?;
    let bytes = mapped.bytes().len() as u64;
    if bytes != expected.bytes {
        return Err(FileError::Size { path: path.to_path_buf(), expected: expected.bytes, got: bytes });
    }
    digest::check(path, expected, &FileEntry { bytes, sha256: sha256_hex(mapped.bytes()) })?;
    Ok(Arc::new(mapped))
}
