//! Building private tables of an index.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpr_core::model::FileEntry;
use dpr_core::private::encrypted::manifest::{
    COLUMNS, FORMAT, Manifest, POSITIONS, PROJECTION, RANK_HINT, RANK_TABLE, RankEntry, TEXT_HINT,
    TEXT_TABLE, Tables, TextEntry,
};
use dpr_core::private::encrypted::params::ROW_NORM;
use dpr_core::private::encrypted::rank::rounded_row;
use dpr_core::private::encrypted::{ManifestError, RankShape};
use dpr_files::atomic::StagedDir;
use dpr_files::progress::Progress;
use dpr_files::{DirLock, Error as FileError, digest, plain};
use dpr_index::{LoadedIndex, PRIVATE_PREFIX};
use fs_err as fs;
use half::f16;
use rayon::prelude::*;

use crate::columns::{self, Packed, Widest};
use crate::principal::Principal;
use crate::ranks::Transforms;
use crate::tables::{MANIFEST, MOST_MANIFEST, dir_of_version};
use crate::{BuildError, hint, lengths, order};

/// Options of building private tables.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Principal directions that are kept; without it [`default_dims`].
    pub dims: Option<usize>,
    /// The parameter set for ranking: 1, or 2.
    pub rank_set: u8,
    /// A flag that another thread or a signal handler sets to stop the build; what was there stays.
    pub stop: Arc<AtomicBool>,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self { dims: None, rank_set: 1, stop: Arc::default() }
    }
}

/// Private tables that were built.
#[derive(Clone, Debug)]
pub struct Built {
    /// Their directory.
    pub path: PathBuf,
    /// Their description, checked.
    pub tables: Tables,
    /// Passages whose vectors were shortened: they are more than twice as long as those of 99.9 % of the passages.
    pub shortened: usize,
    /// The passage for which columns are longer than those of all others, where that makes a large hint.
    pub widest: Option<Widest>,
}

impl Built {
    /// Returns what is worth a warning, in sentences.
    pub fn warnings(&self) -> Vec<String> {
        let shortened = (self.shortened > 0).then(|| {
            let count = self.shortened;
            format!(
                "encrypted search ranks {count} of the passages by shortened vectors, which are more than twice as long \
                 as those of 99.9 % of the passages"
            )
        });
        shortened.into_iter().chain(self.widest.as_ref().map(Widest::warning)).collect()
    }
}

/// The fewest dimensions that questions are ranked by.
const LEAST_DIMS: usize = 32;

/// Returns the number of principal directions for so many passages whose vectors have `dim` numbers.
pub fn default_dims(passages: usize, dim: usize) -> usize {
    let dims = match passages {
        0..=50_000 => 256,
        50_001..=3_000_000 => 192,
        _ => 128,
    };
    dims.min(dim)
}

/// Coordinates of the passages, as the rank table holds them.
struct Rows {
    shape: RankShape,
    /// `[blocks, dims, degree]`.
    table: Vec<i8>,
    scale: f64,
    /// Rows that are longer than the limit.
    shortened: usize,
    /// The length of the longest row.
    norm: f64,
    /// The greatest root of the mean square length of a block's rows.
    block_norm: f64,
}

/// Builds private tables of the version in use of the index in `index`, and puts them beside it. Updates that came since
/// that version are not in them: clients get those as a [delta](crate::Tables::delta).
///
/// # Errors
/// As [`build_of`], and [`BuildError`] for no index, one without vectors, and one that another process writes.
pub fn build(index: &Path, options: &BuildOptions, progress: &dyn Progress) -> Result<Built, BuildError> {
    let _lock = lock(index)?;
    build_of(&LoadedIndex::open_base(index)?, index, options, progress)
}

/// Builds private tables of a version of the index in `index`, and puts them beside it. Tables that were there stay
/// until the new ones are whole and on disk, and when anything fails. Tables of versions that are gone are removed. The
/// caller writes the index, or holds it against who does.
///
/// # Errors
/// [`BuildError`]: parameters or vectors that are refused, a passage that is too long, an unwritable directory,
/// [`BuildError::Interrupted`].
pub fn build_of(
    loaded: &LoadedIndex,
    index: &Path,
    options: &BuildOptions,
    progress: &dyn Progress,
) -> Result<Built, BuildError> {
    let (dim, count) = (loaded.index.dim(), loaded.index.len());
    if dim < LEAST_DIMS {
        return Err(BuildError::Narrow { dim, least: LEAST_DIMS });
    }
    let dims = options.dims.unwrap_or_else(|| default_dims(count, dim));
    let shape = RankShape::new(options.rank_set, dims, count)?;
    if dims > dim {
        let (name, got, most) = ("the number of dimensions", dims as u64, dim as u64);
        return Err(dpr_core::private::encrypted::ParameterError::Range { name, got, least: 32, most }.into());
    }
    let go_on = || if options.stop.load(Ordering::Relaxed) { Err(BuildError::Interrupted) } else { Ok(()) };

    progress.start("building private tables", "steps", 6);
    let vectors = loaded.matrix()?.as_slice();
    let principal = Principal::of(vectors, dim, dims)?;
    go_on()?;
    progress.advance(1);
    let coordinates = principal.project(vectors);
    let order = order::neighbours(&coordinates, dims);
    go_on()?;
    progress.advance(1);
    let rows = Rows::round(shape, &coordinates, &order)?;
    drop(coordinates);
    let passages = order.par_iter().map(|row| loaded.passage(*row as usize));
    let passages = passages.collect::<Result<Vec<_>, _>>()?;
    let packed = columns::pack(&passages)?;
    drop(passages);
    go_on()?;
    progress.advance(1);

    let target = dir_of_version(index, loaded.number());
    let staged = StagedDir::beside(&target).map_err(FileError::write)?;
    let mut writing = Writing { dir: staged.path(), tables: BTreeMap::new(), files: BTreeMap::new() };
    let texts = packed.table();
    writing.table(RANK_TABLE, bytemuck::cast_slice(&rows.table))?;
    writing.table(TEXT_TABLE, bytemuck::cast_slice(&texts))?;
    writing.table(POSITIONS, &positions(&order))?;
    go_on()?;
    progress.advance(1);
    let mut manifest = rows.manifest(loaded, &packed, columns::row_norm(&texts, packed.shape.columns()));
    manifest.tables = std::mem::take(&mut writing.tables);
    let hash = manifest.tables_hash()?;
    let transforms = Transforms::of_table(&rows.shape, &rows.table);
    writing.file(RANK_HINT, &hint::of_ranks(&rows.shape, &hash, &transforms))?;
    drop(transforms);
    go_on()?;
    progress.advance(1);
    writing.file(TEXT_HINT, &hint::of_texts(&packed.shape, &hash, &texts))?;
    writing.file(PROJECTION, &projection(&principal))?;
    writing.file(COLUMNS, &[packed.counts.clone(), packed.hashes()].concat())?;
    manifest.files = writing.files;
    let json =
        serde_json::to_vec_pretty(&manifest).map_err(std::io::Error::other).map_err(FileError::write)?;
    let tables = Tables::read(&json)?;
    fs::write(staged.path().join(MANIFEST), &json).map_err(FileError::write)?;
    go_on()?;
    staged.make_files_read_only().map_err(FileError::write)?;
    staged.replace().map_err(FileError::write)?;
    remove_others(index, loaded.number());
    progress.advance(1);
    progress.finish();
    Ok(Built { path: target, tables, shortened: rows.shortened, widest: packed.widest })
}

/// Builds private tables of a new version of the index in `index`, with the dimensions and the parameter set of those of
/// the newest version that has some, and returns `None` where none has. For a writer that is about to put the version in
/// use ([`IndexWriter::with_preparation`](dpr_index::IndexWriter::with_preparation)).
///
/// # Errors
/// As [`build_of`]; tables of an older version that cannot be read.
pub fn build_as_before(
    loaded: &LoadedIndex,
    index: &Path,
    stop: &Arc<AtomicBool>,
    progress: &dyn Progress,
) -> Result<Option<Built>, BuildError> {
    let older = numbers(index).into_iter().filter(|number| *number < loaded.number()).max();
    let Some(older) = older else { return Ok(None) };
    let path = dir_of_version(index, older).join(MANIFEST);
    let json = plain::read(&path, MOST_MANIFEST).map_err(FileError::read(&path))?;
    let rank = match Tables::read(&json) {
        Ok(tables) => Some(tables.manifest.rank),
        // The parameters of an older format are not read: the new tables have the default ones.
        Err(ManifestError::Older { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let options = BuildOptions {
        dims: rank.as_ref().map(|rank| rank.dims),
        rank_set: rank.map_or(BuildOptions::default().rank_set, |rank| rank.set),
        stop: Arc::clone(stop),
    };
    build_of(loaded, index, &options, progress).map(Some)
}

fn lock(index: &Path) -> Result<DirLock, BuildError> {
    if !index.is_dir() {
        return Err(dpr_index::OpenError::NotAnIndex { path: index.to_path_buf() }.into());
    }
    match DirLock::acquire_as(index, "a build of private tables").map_err(FileError::write)? {
        Some(lock) => Ok(lock),
        None => Err(FileError::Busy { path: index.to_path_buf(), holder: DirLock::holder(index) }.into()),
    }
}

/// Removes private tables of versions that are gone; what cannot be removed is left to the next build.
fn remove_others(index: &Path, number: u64) {
    for other in numbers(index) {
        if other != number && !index.join(format!("v-{other}")).exists() {
            let _ = fs::remove_dir_all(dir_of_version(index, other));
        }
    }
}

/// Returns `true` if a version of the index in `index` has private tables, so that the next one gets some too.
pub fn has_tables(index: &Path) -> bool {
    !numbers(index).is_empty()
}

/// Returns the versions of the index in `index` that have private tables.
fn numbers(index: &Path) -> Vec<u64> {
    let names = fs::read_dir(index).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let number = |name: OsString| {
        let digits = name.to_str()?.strip_prefix(PRIVATE_PREFIX)?;
        // As it is written: `private-007` and `private-+7` are no directory of this program's.
        digits.parse::<u64>().ok().filter(|number| number.to_string() == digits)
    };
    names.filter_map(number).collect()
}

/// Returns the file of the position of each row, where `order` has the row at each position.
fn positions(order: &[u32]) -> Vec<u8> {
    let mut positions = vec![0u32; order.len()];
    for (position, row) in order.iter().enumerate() {
        positions[*row as usize] = position as u32;
    }
    positions.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Returns the file of the mean and the directions.
fn projection(principal: &Principal) -> Vec<u8> {
    let mean = principal.mean.iter().flat_map(|number| number.to_le_bytes());
    mean.chain(principal.directions.iter().flat_map(|number| f16::from_f32(*number).to_le_bytes())).collect()
}

struct Writing<'a> {
    dir: &'a Path,
    tables: BTreeMap<String, FileEntry>,
    files: BTreeMap<String, FileEntry>,
}

impl Writing<'_> {
    fn table(&mut self, name: &str, bytes: &[u8]) -> Result<(), BuildError> {
        let entry = self.write(name, bytes)?;
        self.tables.insert(name.to_owned(), entry);
        Ok(())
    }

    fn file(&mut self, name: &str, bytes: &[u8]) -> Result<(), BuildError> {
        let entry = self.write(name, bytes)?;
        self.files.insert(name.to_owned(), entry);
        Ok(())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<FileEntry, FileError> {
        let path = self.dir.join(name);
        let mut file = fs::File::create_new(&path).map_err(FileError::write)?;
        let mut out = digest::Writer::new(&mut file);
        out.write_all(bytes).map_err(FileError::write)?;
        Ok(out.finish())
    }
}

impl Rows {
    /// Scales coordinates `[any, dims]`, as far as the parameters let them, and rounds them, in `order`. Those that are
    /// [far longer](lengths::limit) than the others are shortened.
    fn round(shape: RankShape, coordinates: &[f32], order: &[u32]) -> Result<Self, BuildError> {
        let dims = shape.dims();
        let all: Vec<f64> = coordinates.par_chunks(dims).map(lengths::of).collect();
        let most = lengths::limit(all.clone());
        if !(most.is_finite() && most > 1e-20) {
            return Err(BuildError::NoSpread);
        }
        let shortened = all.iter().filter(|length| **length > most).count();
        let scale = ROW_NORM / most;
        let rounded = |row: &[f32]| {
            let row: Vec<f64> = row.iter().map(|number| f64::from(*number)).collect();
            rounded_row(&row, scale)
        };
        let squares = |row: &[i8]| row.iter().map(|number| i64::from(*number).pow(2)).sum::<i64>();
        let longest = coordinates.par_chunks(dims).map(|row| squares(&rounded(row))).max();
        let norm = (longest.unwrap_or_default() as f64).sqrt();
        let degree = shape.set().degree;
        let mut table = vec![0i8; shape.blocks() * dims * degree];
        table.par_chunks_mut(dims * degree).zip(order.par_chunks(degree)).for_each(|(block, rows)| {
            for (place, row) in rows.iter().enumerate() {
                let row = rounded(&coordinates[*row as usize * dims..][..dims]);
                for (polynomial, number) in block.chunks_exact_mut(degree).zip(row) {
                    polynomial[place] = number;
                }
            }
        });
        let greatest = table.par_chunks(dims * degree).map(squares).max().unwrap_or_default();
        let block_norm = (greatest as f64 / degree as f64).sqrt();
        Ok(Self { shape, table, scale, shortened, norm, block_norm })
    }

    fn manifest(&self, index: &LoadedIndex, packed: &Packed, text_norm: f64) -> Manifest {
        let (set, dims) = (self.shape.set().number, self.shape.dims());
        let noise = self.shape.noise(self.block_norm) / self.scale;
        Manifest {
            format_version: FORMAT,
            index_version: index.version().to_owned(),
            model_fingerprint: index.manifest.model_fingerprint.clone(),
            dim: index.index.dim(),
            passages: self.shape.passages(),
            rank: RankEntry { set, dims, scale: self.scale, row_norm: self.norm, noise },
            text: TextEntry {
                set: packed.shape.set().number,
                columns: packed.shape.columns(),
                used: packed.used(),
                rows: packed.shape.rows(),
                row_norm: text_norm,
            },
            tables: BTreeMap::new(),
            files: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_of_versions_by_the_names_that_this_program_writes() {
        let index = tempfile::tempdir().unwrap();
        assert!(!has_tables(index.path()));
        for name in ["private-007", "private-+7", "private-", "private-x", "private-18446744073709551616"] {
            fs::create_dir(index.path().join(name)).unwrap();
        }
        assert!(!has_tables(index.path()), "none is of a version");
        fs::create_dir(dir_of_version(index.path(), 7)).unwrap();
        assert_eq!(numbers(index.path()), [7]);
    }
}
