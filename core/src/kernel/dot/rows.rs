//! Inner products of a query with rows of 8-bit numbers and with rows of signs, as whole numbers: the same on every
//! instruction set.

/// The numbers of a block: the bytes of the widest vector, the bits of a word.
pub(in super::super) const BLOCK: usize = 64;

/// Bits of a number of a query of signs.
pub(in super::super) const PLANES: usize = 4;

/// A query of 16-bit numbers, laid out for every instruction set.
///
/// A number is `256 * high + low`, both bytes with a sign. `vpdpbusd` (AVX-512 VNNI) multiplies bytes with a sign by
/// bytes without one: it takes the rows' numbers plus 128, and 128 times the query's sum is taken off again.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct QueryBytes {
    /// The numbers, for instruction sets that multiply 16-bit numbers.
    numbers: Vec<i16>,
    /// The low bytes, zero beyond the numbers.
    pub(super) low: Vec<[i8; BLOCK]>,
    /// The high bytes likewise; empty where all are 0.
    pub(super) high: Vec<[i8; BLOCK]>,
    /// The sum of the numbers.
    pub(super) total: i32,
}

impl QueryBytes {
    /// The greatest magnitude of a number: both its bytes have a sign.
    pub(in super::super) const LIMIT: i16 = 127 * 256 + 127;

    /// Replaces the query's numbers.
    #[inline(always)]
    pub(in super::super) fn set(&mut self, numbers: impl Iterator<Item = i16>) {
        self.numbers.clear();
        self.numbers.extend(numbers);
        self.low.clear();
        self.high.clear();
        self.total = 0;
        let mut is_narrow = true;
        for numbers in self.numbers.chunks(BLOCK) {
            let (mut low, mut high) = ([0; BLOCK], [0; BLOCK]);
            for ((low, high), number) in low.iter_mut().zip(&mut high).zip(numbers) {
                debug_assert!(number.unsigned_abs() <= Self::LIMIT.unsigned_abs());
                *low = *number as i8;
                *high = ((number - i16::from(*low)) >> 8) as i8;
                is_narrow &= *high == 0;
                self.total += i32::from(*number);
            }
            self.low.push(low);
            self.high.push(high);
        }
        if is_narrow {
            self.high.clear();
        }
    }

    /// Returns the number of numbers.
    #[inline(always)]
    pub(in super::super) fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// A block of a query of signs: numbers of four bits.
#[derive(Clone, Debug)]
pub(in super::super) struct SignBlock {
    /// The bits of the numbers in two's complement, the lowest plane first, for instruction sets that count bits.
    pub(in super::super) planes: [u64; PLANES],
    /// The numbers, for instruction sets that leave bytes out by a bit each.
    pub(super) numbers: [i8; BLOCK],
}

impl SignBlock {
    /// Takes numbers from -8 to 7.
    #[inline(always)]
    pub(in super::super) fn new(numbers: [i8; BLOCK]) -> Self {
        let mut planes = [0; PLANES];
        for (at, eight) in numbers.as_chunks::<8>().0.iter().enumerate() {
            let bytes = u64::from_le_bytes(eight.map(i8::cast_unsigned));
            for (bit, plane) in planes.iter_mut().enumerate() {
                // The product moves the lowest bits of eight bytes into the highest byte, the first one's first.
                let lowest = bytes >> bit & 0x0101_0101_0101_0101;
                *plane |= (lowest.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at);
            }
        }
        Self { planes, numbers }
    }
}

/// The inner products of an instruction set. Rows are as long as the query, and no sum overflows 32 bits.
pub(in super::super) trait RowDots {
    /// Returns the inner product with a row.
    fn dot(query: &QueryBytes, row: &[i8]) -> i32;

    /// Returns the inner products with four rows, which share the loads of the query.
    #[inline(always)]
    fn dots(query: &QueryBytes, rows: [&[i8]; 4]) -> [i32; 4] {
        rows.map(|row| Self::dot(query, row))
    }

    /// Returns the inner product of two rows.
    #[inline(always)]
    fn between(a: &[i8], b: &[i8]) -> i32 {
        plain(a, b)
    }

    /// Returns the sum of the query's numbers whose bits are set in `row`.
    #[inline(always)]
    fn sum_of_set(query: &[SignBlock], row: &[u64]) -> i32 {
        let mut counts = [0u32; PLANES];
        for (block, word) in query.iter().zip(row) {
            for (count, plane) in counts.iter_mut().zip(&block.planes) {
                *count += (plane & word).count_ones();
            }
        }
        let [ones, twos, fours, eights] = counts.map(|count| count as i32);
        ones + 2 * twos + 4 * fours - 8 * eights
    }

    /// Returns the sums for four rows, which share the loads of the query.
    #[inline(always)]
    fn sums_of_set(query: &[SignBlock], rows: [&[u64]; 4]) -> [i32; 4] {
        rows.map(|row| Self::sum_of_set(query, row))
    }
}

/// Sums in which the compiler finds the instruction that multiplies 16-bit numbers and adds two products, and counts of
/// bits.
pub(in super::super) struct Pairs;

impl RowDots for Pairs {
    #[inline(always)]
    fn dot(query: &QueryBytes, row: &[i8]) -> i32 {
        plain(&query.numbers, row)
    }
}

/// Returns the inner product by one plain sum.
#[inline(always)]
fn plain<N: Copy + Into<i32>>(a: &[N], b: &[i8]) -> i32 {
    a.iter().zip(b).map(|(a, b)| (*a).into() * i32::from(*b)).sum()
}
