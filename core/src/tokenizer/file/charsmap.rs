//! Check of SentencePiece's normalization table (`precompiled_charsmap`) before the `tokenizers` library reads it: the
//! library follows the numbers of the table without looking whether they lead out of it.
//!
//! The table is a length in bytes, as many bytes of a trie, and replacements that each end with a NUL. The trie is a
//! double array of darts-clone: from a node, byte `c` leads to unit `node ^ c`, which belongs to the node if its label
//! is `c`; the unit's offset leads to the next node, where the value stands if the unit says that there is one.

use base64::Engine as _;

use super::field::Field;

/// The longest replacement in bytes. The longest of SentencePiece's own tables is a phrase of 33 bytes, for U+FDFA; a
/// table whose replacements are long would make a question as large as it likes.
const MAX_REPLACEMENT: usize = 1024;

/// Reads a table, base64 of it, and checks it.
///
/// # Errors
/// Says what in the table is wrong.
pub(super) fn read(table: &Field<'_>) -> Result<Vec<u8>, String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(table.text()?);
    let bytes = bytes.map_err(|e| table.is_not(&format!("base64: {e}")))?;
    check(&bytes).map_err(|reason| format!("its precompiled_charsmap is damaged: {reason}"))?;
    Ok(bytes)
}

/// Checks one table.
fn check(bytes: &[u8]) -> Result<(), &'static str> {
    let (length, rest) = bytes.split_first_chunk::<4>().ok_or("it is shorter than its length")?;
    let units = u32::from_le_bytes(*length) as usize / 4;
    let trie = units.checked_mul(4).and_then(|end| rest.get(..end)).ok_or("its trie is cut short")?;
    let replacements = str::from_utf8(&rest[trie.len()..]).map_err(|_| "its replacements are not UTF-8")?;
    let trie: Vec<u32> = trie.as_chunks::<4>().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
    walk(&trie, replacements)
}

/// Walks to every node that any text can lead to, and checks all steps from it and all values.
fn walk(trie: &[u32], replacements: &str) -> Result<(), &'static str> {
    const OUTSIDE: &str = "its trie leads out of itself";
    let mut seen = vec![false; trie.len()];
    let mut open = vec![offset(*trie.first().ok_or("its trie is empty")?)];
    while let Some(node) = open.pop() {
        if std::mem::replace(seen.get_mut(node).ok_or(OUTSIDE)?, true) {
            continue;
        }
        for byte in 1..=255usize {
            let unit = *trie.get(node ^ byte).ok_or(OUTSIDE)?;
            if unit & ((1 << 31) | 0xff) != byte as u32 {
                continue;
            }
            let next = node ^ byte ^ offset(unit);
            if (unit >> 8) & 1 == 1 {
                check_value(*trie.get(next).ok_or(OUTSIDE)? & !(1 << 31), replacements)?;
            }
            open.push(next);
        }
    }
    Ok(())
}

/// Returns the offset of a unit: 22 bits, counted in 256 if bit 9 is set.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}

/// Checks that a replacement begins at `value` and ends soon.
fn check_value(value: u32, replacements: &str) -> Result<(), &'static str> {
    let replacement = replacements.get(value as usize..).ok_or("a value leads out of its replacements")?;
    let length = replacement.bytes().take(MAX_REPLACEMENT + 1).take_while(|byte| *byte != 0).count();
    if length > MAX_REPLACEMENT { Err("a replacement is longer than 1,024 bytes") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that replaces "a" by what stands at `value`: the root is unit 0 with offset 256.
    fn table(value: u32, replacements: &[u8]) -> Vec<u8> {
        let mut trie = vec![0u32; 1024];
        trie[0] = 256 << 10;
        // The next node is 512: the value stands there, and nothing goes on.
        trie[256 ^ 97] = ((256 ^ 97 ^ 512) << 10) | (1 << 8) | 97;
        trie[512] = value | (1 << 31);
        joined(&trie, replacements)
    }

    fn joined(trie: &[u32], replacements: &[u8]) -> Vec<u8> {
        let mut bytes = (trie.len() as u32 * 4).to_le_bytes().to_vec();
        bytes.extend(trie.iter().flat_map(|unit| unit.to_le_bytes()));
        bytes.extend(replacements);
        bytes
    }

    fn precompiled(bytes: &[u8]) -> Result<String, String> {
        let text = base64::engine::general_purpose::STANDARD.encode(bytes);
        let value = serde_json::json!({"type": "Precompiled", "precompiled_charsmap": text});
        let sequence = serde_json::json!({"type": "Sequence", "normalizers": [value]});
        let normalizer = super::super::normalizer::read(&Field::root(&sequence))?;
        let mut text = tokenizers::NormalizedString::from("banana");
        tokenizers::Normalizer::normalize(&normalizer, &mut text).unwrap();
        Ok(text.get().to_owned())
    }

    #[test]
    fn a_table_that_passes_is_read_by_the_library() {
        assert_eq!(precompiled(&table(0, b"o\0")).unwrap(), "bonono");
        assert_eq!(precompiled(&table(2, b"o\0\xc3\xa4\0")).unwrap(), "bänänä");
        assert_eq!(precompiled(&table(2, b"o\0")).unwrap(), "bnn", "an empty replacement at the very end");
    }

    #[test]
    fn a_table_that_leads_astray_is_refused() {
        let whole = table(0, b"o\0");
        let mut wide = vec![0u32; 256];
        wide[0] = 256 << 10;
        let mut far = vec![0u32; 1024];
        far[0] = 256 << 10;
        far[256 ^ 97] = (0x1f_ffff << 10) | 97;
        let cases: [(Vec<u8>, &str); 10] = [
            (vec![], "shorter than its length"),
            (vec![0, 0, 0, 0], "trie is empty"),
            (vec![0xff, 0xff, 0xff, 0xff, 1, 2], "cut short"),
            (whole[..whole.len() - 3].to_vec(), "cut short"),
            (joined(&wide, b""), "out of itself"),
            (joined(&far, b""), "out of itself"),
            (table(3, b"o\0"), "out of its replacements"),
            (table(1, b"\xc3\xa4\0"), "out of its replacements"),
            (table(0, b"\xff\0"), "not UTF-8"),
            (table(0, &[b'o'; 2000]), "longer than 1,024"),
        ];
        for (bytes, expected) in cases {
            let reason = precompiled(&bytes).unwrap_err();
            assert!(reason.contains(expected), "{reason:?} does not say {expected:?}");
        }
    }

    #[test]
    fn a_trie_that_goes_in_circles_ends() {
        let mut trie = vec![0u32; 512];
        trie[0] = 256 << 10;
        trie[256 ^ 97] = (97 << 10) | 97;
        assert_eq!(precompiled(&joined(&trie, b"")).unwrap(), "banana");
    }
}
