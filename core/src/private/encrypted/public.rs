//! Public randomness: the polynomials `a` of the samples, which the page and the server each expand from the hash of
//! the tables.
//!
//! Nobody sends them, so nobody can choose one with a trapdoor. They differ for every build of the tables.
//!
//! The masks of columns are public too, and hide nothing: they make the bytes of a table uniform.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};

/// The hash of what is searched, from which public randomness is expanded.
pub type TablesHash = [u8; 32];

/// The keystream (ChaCha20) of the SHA-256 of `"dpr private "`, the name of a set and the hash of the tables.
fn keystream(set: &str, tables: &TablesHash) -> ChaCha20Rng {
    let mut key = Sha256::new();
    key.update(b"dpr private ");
    key.update(set.as_bytes());
    key.update(tables);
    ChaCha20Rng::from_seed(key.finalize().into())
}

/// XORs the bytes of a column of texts with its mask, or takes the mask off: the keystream of the number of the column.
/// Lengths, heads of compressed texts and padding are alike in all columns, and long rows of the table make noise.
pub fn mask_column(column: usize, bytes: &mut [u8]) {
    let mut number = [0; 32];
    number[..8].copy_from_slice(&(column as u64).to_le_bytes());
    let mask = words("column", &number, bytes.len().div_ceil(4));
    for (byte, mask) in bytes.iter_mut().zip(mask.into_iter().flat_map(u32::to_le_bytes)) {
        *byte ^= mask;
    }
}

/// Returns `count` numbers uniform below `modulus`, which is above 2^27 and below 2^28: the low 28 bits of
/// little-endian 32-bit numbers, those at or above the modulus dropped.
pub fn below(set: &str, tables: &TablesHash, modulus: u32, count: usize) -> Vec<u32> {
    let mut stream = keystream(set, tables);
    let mut numbers = Vec::with_capacity(count + 256);
    let mut buffer = [0; 1024];
    while numbers.len() < count {
        stream.fill_bytes(&mut buffer);
        let drawn = buffer.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes) & 0x0fff_ffff);
        numbers.extend(drawn.filter(|number| *number < modulus));
    }
    numbers.truncate(count);
    numbers
}

/// Returns `count` numbers uniform below 2^32.
pub fn words(set: &str, tables: &TablesHash, count: usize) -> Vec<u32> {
    let mut bytes = vec![0; 4 * count];
    keystream(set, tables).fill_bytes(&mut bytes);
    bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect()
}
