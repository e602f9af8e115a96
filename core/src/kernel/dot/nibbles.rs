//! Inner products of one query with rows of 4-bit numbers, as whole numbers: the same on every instruction set.

/// Bytes of a block, which holds twice as many numbers: those of the low halves first, then those of the high ones.
pub(in super::super) const BLOCK: usize = 64;

/// A query of 8-bit numbers for rows of 4-bit numbers.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct NibbleQuery {
    /// For each block the numbers that meet the low and the high halves, zero beyond the query's.
    pub(super) blocks: Vec<[[i8; BLOCK]; 2]>,
    /// The sum of the numbers.
    total: i32,
}

impl NibbleQuery {
    /// Replaces the query's numbers, which lie between -127 and 127.
    pub(in super::super) fn set(&mut self, numbers: impl Iterator<Item = i8>) {
        self.blocks.clear();
        self.total = 0;
        for (at, number) in numbers.enumerate() {
            if at % (2 * BLOCK) == 0 {
                self.blocks.push([[0; BLOCK]; 2]);
            }
            if let Some(block) = self.blocks.last_mut() {
                block.as_flattened_mut()[at % (2 * BLOCK)] = number;
            }
            self.total += i32::from(number);
        }
    }

    /// Returns the bytes of a row.
    #[inline(always)]
    pub(in super::super) fn row_bytes(&self) -> usize {
        self.blocks.len() * BLOCK
    }

    /// Returns the sum of products with numbers `2 n - 15`, given that with the halves `n`.
    #[inline(always)]
    pub(in super::super) fn centred(&self, sum: i32) -> i32 {
        2 * sum - 15 * self.total
    }
}

/// The inner products of an instruction set with the halves of bytes, 0 to 15. A row has [`NibbleQuery::row_bytes`].
pub(in super::super) trait NibbleDots {
    /// Returns the inner product with a row.
    fn nibble_dot(query: &NibbleQuery, row: &[u8]) -> i32;

    /// Returns the inner products with four rows, which share the loads of the query.
    #[inline(always)]
    fn nibble_dots(query: &NibbleQuery, rows: [&[u8]; 4]) -> [i32; 4] {
        rows.map(|row| Self::nibble_dot(query, row))
    }
}

/// Sums in which the compiler finds the instruction that multiplies 16-bit numbers and adds two products.
pub(in super::super) struct Pairs;

impl NibbleDots for Pairs {
    #[inline(always)]
    fn nibble_dot(query: &NibbleQuery, row: &[u8]) -> i32 {
        let blocks = query.blocks.iter().zip(row.as_chunks::<BLOCK>().0);
        let sums = blocks.map(|([low, high], row)| -> i32 {
            let products = row.iter().zip(low).zip(high).map(|((byte, low), high)| {
                // A pair is at most 2 * 15 * 127: it fits 16 bits.
                i16::from(byte & 15) * i16::from(*low) + i16::from(byte >> 4) * i16::from(*high)
            });
            products.map(i32::from).sum()
        });
        sums.sum()
    }
}
