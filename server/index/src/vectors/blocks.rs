//! Checksums of the blocks of a file of rows, by which some rows can be read before all of the file is checked.
//!
//! `vectors.crc` holds the CRC-32 of each 64 KiB of `vectors.f32`, in their order, as little-endian u32.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::FileError;
use crate::deferred::Damage;
use dpr_files::threads;

/// Bytes of a block.
pub(super) const BLOCK: usize = 64 << 10;

/// Blocks that are checked between two looks at whether to stop.
const BATCH: usize = 64;

/// The checksums of a file's blocks, and which of the blocks were checked.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// The file of the rows.
    path: PathBuf,
    sums: Vec<u32>,
    /// A bit for each block that was checked, damaged or not.
    checked: Vec<AtomicU64>,
    all_checked: AtomicBool,
    damage: Arc<Damage>,
}

impl Blocks {
    /// Takes `sums`, the bytes of `vectors.crc`, for the file of rows at `path`, which has `size` bytes. Damage is
    /// recorded in `damage`.
    ///
    /// # Errors
    /// A sentence that says why these are not the checksums of such a file.
    pub(crate) fn new(path: &Path, sums: &[u8], size: usize, damage: &Arc<Damage>) -> Result<Self, String> {
        let count = size.div_ceil(BLOCK);
        if count.checked_mul(4) != Some(sums.len()) {
            return Err(format!("{} bytes are not the checksums of {count} blocks", sums.len()));
        }
        Ok(Self {
            path: path.to_path_buf(),
            sums: sums.as_chunks().0.iter().map(|sum| u32::from_le_bytes(*sum)).collect(),
            checked: (0..count.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            all_checked: AtomicBool::new(false),
            damage: Arc::clone(damage),
        })
    }

    /// Checks the blocks of `file` in which the bytes of `range` are, those that were not checked yet.
    #[inline]
    pub(crate) fn check(&self, file: &[u8], range: Range<usize>) {
        if !self.all_checked.load(Ordering::Acquire) && !range.is_empty() {
            self.check_blocks(file, range.start / BLOCK..range.end.div_ceil(BLOCK));
        }
    }

    /// Checks all blocks that were not checked yet, on all processors.
    pub(crate) fn check_all(&self, file: &[u8]) {
        if !self.all_checked.load(Ordering::Acquire) {
            threads::map(self.batches(), |blocks| self.check_blocks(file, blocks.clone()));
            self.all_checked.store(true, Ordering::Release);
        }
    }

    /// Checks as [`check_all`](Self::check_all) does, on this thread, until `is_stopped`.
    pub(crate) fn check_until(&self, file: &[u8], is_stopped: &AtomicBool) {
        for blocks in self.batches() {
            if is_stopped.load(Ordering::Relaxed) {
                return;
            }
            self.check_blocks(file, blocks);
        }
        self.all_checked.store(true, Ordering::Release);
    }

    fn batches(&self) -> impl Iterator<Item = Range<usize>> {
        let count = self.sums.len();
        (0..count).step_by(BATCH).map(move |start| start..count.min(start + BATCH))
    }

    fn check_blocks(&self, file: &[u8], blocks: Range<usize>) {
        for block in blocks {
            let (word, bit) = (&self.checked[block / 64], 1 << (block % 64));
            if word.load(Ordering::Acquire) & bit == 0 {
                let bytes = file.get(block * BLOCK..).map_or(&[][..], |rest| &rest[..rest.len().min(BLOCK)]);
                if crc32fast::hash(bytes) != self.sums[block] {
                    self.damage.record(FileError::Checksum { path: self.path.clone() });
                } else if !are_finite(bytes) {
                    self.damage
                        .record(FileError::corrupt(&self.path, "it holds a number that is not finite"));
                }
                // Damage is recorded before the block counts as checked: whoever sees the bit sees the damage.
                word.fetch_or(bit, Ordering::Release);
            }
        }
    }
}

/// Returns `true` if all of these little-endian f32 are finite.
pub(crate) fn are_finite(bytes: &[u8]) -> bool {
    let magnitude = |number: &[u8; 4]| u32::from_le_bytes(*number) & 0x7fff_ffff;
    let greatest = bytes.as_chunks().0.iter().fold(0, |greatest, number| magnitude(number).max(greatest));
    greatest < f32::INFINITY.to_bits()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a file of so many blocks and a bit, and the checksums of its blocks.
    fn file(blocks: usize) -> (Vec<u8>, Vec<u8>) {
        let bytes: Vec<u8> =
            (0..(blocks * BLOCK + 400) / 4).flat_map(|at| (at as f32).to_le_bytes()).collect();
        let sums = sums_of(&bytes);
        (bytes, sums)
    }

    fn sums_of(bytes: &[u8]) -> Vec<u8> {
        bytes.chunks(BLOCK).flat_map(|block| crc32fast::hash(block).to_le_bytes()).collect()
    }

    #[test]
    fn damage_is_found_in_the_block_that_is_read_and_in_no_other() {
        let ((mut bytes, sums), path) = (file(200), Path::new("vectors.f32"));
        assert_eq!(sums.len(), 201 * 4);
        bytes[150 * BLOCK + 9] ^= 1;
        let damage = Arc::default();
        let blocks = Blocks::new(path, &sums, bytes.len(), &damage).unwrap();
        blocks.check(&bytes, 0..150 * BLOCK);
        blocks.check(&bytes, 151 * BLOCK..bytes.len());
        blocks.check(&bytes, 150 * BLOCK..150 * BLOCK);
        assert!(damage.check().is_ok());
        blocks.check(&bytes, 149 * BLOCK + 5..150 * BLOCK + 1);
        assert!(matches!(damage.check(), Err(FileError::Checksum { path: found }) if found == path));
    }

    #[test]
    fn all_blocks_are_checked_by_one_thread_and_by_all() {
        for by_one in [false, true] {
            let (mut bytes, sums) = file(300);
            let last = bytes.len() - 1;
            bytes[last] ^= 0x10;
            let damage = Arc::default();
            let blocks = Blocks::new(Path::new("v"), &sums, bytes.len(), &damage).unwrap();
            match by_one {
                true => blocks.check_until(&bytes, &AtomicBool::new(false)),
                false => blocks.check_all(&bytes),
            }
            assert!(damage.check().is_err());
        }
    }

    #[test]
    fn numbers_that_are_not_finite_and_sums_of_another_size_are_refused() {
        let mut numbers = vec![1.0; 2 * BLOCK / 4];
        numbers[BLOCK / 4] = f32::NAN;
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let (sums, damage) = (sums_of(&bytes), Arc::default());
        let blocks = Blocks::new(Path::new("v"), &sums, bytes.len(), &damage).unwrap();
        blocks.check_all(&bytes);
        assert!(damage.check().unwrap_err().to_string().contains("not finite"));
        for wrong in [&sums[..4], &sums[..sums.len() - 1], &[]] {
            assert!(Blocks::new(Path::new("v"), wrong, bytes.len(), &damage).is_err());
        }
    }
}
