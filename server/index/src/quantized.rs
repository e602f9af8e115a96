//! Quantized vectors (the quantized codes of an index): a second copy of its vectors in eight bits, in half precision
//! (f16) or in one bit, by which rows are chosen to be scored.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use dpr_core::kernel::search::batch_i8::{QuantizedBatch, RowWords};
use dpr_core::kernel::search::f16::{f16_products, scale_query, to_f16};
use dpr_core::kernel::search::gather_i8::{GatherQuery, gathered_products, row_product, scanned_products};
use dpr_core::kernel::search::i8::quantize_row;
use dpr_core::kernel::search::prefetch;
use rayon::prelude::*;

use super::binary::Binary;
use super::codes::{Codes, Values};
use super::sums::magnitudes;
use super::{Matrix, Storage};
use crate::vectors::rows;
use dpr_files::Mapped;

/// The files of quantized vectors in a version of an index.
const CODES_INT8: &str = "codes.i8";
const CODES_F16: &str = "codes.f16";
pub(super) const CODES_BINARY: &str = "codes.b1";

/// The number type of quantized vectors: `i8`, or the bits of an f16 in a `u16`.
pub(super) trait Code: Pod + Default + Send + Sync + Debug {
    /// A query in the form that rows are scored by: a question, or a row whose neighbours are looked for.
    type Query: Clone + Default + Send + Sync;

    /// Quantizes `row` into `codes`, which is as long, and returns the scale.
    fn encode(row: &[f32], codes: &mut [Self]) -> f32;

    /// Prepares a question. Its norm is left out of the scores, which only compare rows, so that no score underflows.
    fn query(question: &[f32]) -> Self::Query;

    /// Computes the products with `rows` (`[scores, dim]`), without the scales of the rows.
    fn products(query: &mut Self::Query, rows: &[Self], scores: &mut [f32]);

    /// Returns the number in the byte order of files.
    fn to_le(self) -> Self;
}

/// Quantized vectors `[count, dim]`, `i8` or f16, with a scale each.
///
/// `codes.i8` and `codes.f16` hold the scales as little-endian f32, then the numbers. Formats before the third have no
/// such file: vectors are then quantized when an index is opened.
#[derive(Debug)]
pub(super) struct Quantized<C = i8> {
    values: Values<C>,
    scales: Vec<f32>,
    dim: usize,
}

impl<C: Code> Quantized<C> {
    /// Quantizes the vectors of `matrix`.
    pub(super) fn of(matrix: &Matrix) -> Self {
        let (dim, count) = (matrix.dim(), matrix.count());
        let (mut values, mut scales) = (vec![C::default(); count * dim], vec![0.0; count]);
        matrix.rows().for_each_block(dim, |start, block| {
            let codes = values[start * dim..].par_chunks_mut(dim).zip(block.par_chunks(dim));
            let rows = codes.zip(&mut scales[start..]).with_min_len(64);
            rows.for_each(|((codes, row), scale)| *scale = C::encode(row, codes));
        });
        Self { values: Values::Owned(values), scales, dim }
    }

    /// Quantizes the vectors of `matrix` into a file, block by block: in memory are the scales alone.
    fn write_of(matrix: &Matrix, out: &mut dyn Write) -> io::Result<()> {
        let (dim, mut all, mut codes, mut scales) = (matrix.dim(), Vec::new(), Vec::new(), Vec::new());
        all.reserve_exact(matrix.count());
        let mut quantize = |block: &[f32], codes: &mut Vec<C>| {
            codes.resize(block.len(), C::default());
            scales.resize(block.len() / dim, 0.0);
            let rows = codes.par_chunks_mut(dim).zip(block.par_chunks(dim)).zip(&mut scales);
            rows.with_min_len(64).for_each(|((codes, row), scale)| *scale = C::encode(row, codes));
            scales.clone()
        };
        // The scales are the first in the file, so that every row is quantized twice.
        matrix.rows().for_each_block(dim, |_, block| all.extend(quantize(block, &mut codes)));
        rows::write(&all, out)?;
        let mut written = Ok(());
        matrix.rows().for_each_block(dim, |_, block| {
            if written.is_ok() {
                quantize(block, &mut codes);
                written = write_codes(&codes, out);
            }
        });
        written
    }

    /// Takes a file of `count` quantized vectors of `dim` numbers. The error says what is wrong with it.
    fn of_file(file: Mapped, count: usize, dim: usize) -> Result<Self, String> {
        let (start, got) = (count * size_of::<f32>(), file.bytes().len());
        let size = count.checked_mul(dim).and_then(|numbers| numbers.checked_mul(size_of::<C>()));
        if size.and_then(|size| size.checked_add(start)) != Some(got) {
            return Err(format!("{got} bytes are not those of {count} vectors of {dim} numbers"));
        }
        let scales = file.bytes()[..start].as_chunks().0.iter();
        let scales: Vec<f32> = scales.map(|scale| f32::from_le_bytes(*scale)).collect();
        if let Some(row) = scales.iter().position(|scale| !scale.is_finite()) {
            return Err(format!("the scale of row {row} is not finite"));
        }
        let mut values = Values::Mapped(file, start..got);
        if cfg!(target_endian = "big") && size_of::<C>() > 1 {
            values = Values::Owned(values.as_slice().iter().map(|code: &C| code.to_le()).collect());
        }
        Ok(Self { values, scales, dim })
    }

    /// Writes the file.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        rows::write(&self.scales, out)?;
        write_codes(self.values.as_slice(), out)
    }

    /// Returns `true` if quantizing `matrix` gives the very same numbers.
    fn are_of(&self, matrix: &Matrix) -> bool {
        let made = Self::of(matrix);
        let [ours, made_now] =
            [self, &made].map(|codes| bytemuck::cast_slice::<_, u8>(codes.values.as_slice()));
        made.scales == self.scales && ours == made_now
    }

    fn rows(&self, start: usize, count: usize) -> &[C] {
        &self.values.as_slice()[start * self.dim..][..count * self.dim]
    }
}

fn write_codes<C: Code>(codes: &[C], out: &mut dyn Write) -> io::Result<()> {
    if cfg!(target_endian = "little") || size_of::<C>() == 1 {
        return out.write_all(bytemuck::cast_slice(codes));
    }
    codes.iter().try_for_each(|code| out.write_all(bytemuck::bytes_of(&code.to_le())))
}

impl<C: Code> Codes for Quantized<C> {
    type Query = C::Query;

    fn query(&self, question: &[f32]) -> C::Query {
        C::query(question)
    }

    fn scores(&self, query: &mut C::Query, start: usize, scores: &mut [f32]) {
        C::products(query, self.rows(start, scores.len()), scores);
        scores.iter_mut().zip(&self.scales[start..]).for_each(|(score, scale)| *score *= scale);
    }
}

/// A query of vectors quantized to eight bits.
#[derive(Clone, Debug, Default)]
pub(super) struct Int8Query {
    numbers: GatherQuery,
    sums: Vec<i32>,
}

impl Code for i8 {
    type Query = Int8Query;

    fn encode(row: &[f32], codes: &mut [Self]) -> f32 {
        quantize_row(row, codes)
    }

    fn query(question: &[f32]) -> Int8Query {
        let mut query = Int8Query::default();
        query.numbers.set(question);
        query
    }

    fn products(query: &mut Int8Query, rows: &[Self], scores: &mut [f32]) {
        query.sums.resize(scores.len(), 0);
        scanned_products(&query.numbers, rows, &mut query.sums);
        scores.iter_mut().zip(&query.sums).for_each(|(score, sum)| *score = *sum as f32);
    }

    fn to_le(self) -> Self {
        self
    }
}

/// The bits of an `f16`.
impl Code for u16 {
    type Query = Vec<f32>;

    fn encode(row: &[f32], codes: &mut [Self]) -> f32 {
        to_f16(row, codes)
    }

    fn query(question: &[f32]) -> Vec<f32> {
        let mut scaled = Vec::new();
        scale_query(question, &mut scaled);
        scaled
    }

    fn products(query: &mut Vec<f32>, rows: &[Self], scores: &mut [f32]) {
        f16_products(query, rows, scores);
    }

    fn to_le(self) -> Self {
        self.to_le()
    }
}

/// Quantized vectors of any type, as [`Storage`] names them.
#[derive(Clone, Debug)]
pub(super) enum AnyQuantized {
    Int8(Arc<Quantized>),
    F16(Arc<Quantized<u16>>),
    Binary(Arc<Binary>),
}

impl AnyQuantized {
    /// Quantizes the vectors of `matrix`; `None` where `storage` is of the vectors themselves.
    pub(super) fn of(matrix: &Matrix, storage: Storage) -> Option<Self> {
        match storage {
            Storage::F32 => None,
            Storage::Int8 => Some(Self::Int8(Arc::new(Quantized::of(matrix)))),
            Storage::F16 => Some(Self::F16(Arc::new(Quantized::of(matrix)))),
            Storage::Binary => Some(Self::Binary(Arc::new(Binary::of(matrix)))),
        }
    }

    /// Takes the file of quantized vectors that [`AnyQuantized::file_name`] names.
    pub(super) fn of_file(file: Mapped, matrix: &Matrix, storage: Storage) -> Result<Option<Self>, String> {
        let (count, dim) = (matrix.count(), matrix.dim());
        Ok(match storage {
            Storage::F32 => None,
            Storage::Int8 => Some(Self::Int8(Arc::new(Quantized::of_file(file, count, dim)?))),
            Storage::F16 => Some(Self::F16(Arc::new(Quantized::of_file(file, count, dim)?))),
            Storage::Binary => Some(Self::Binary(Arc::new(Binary::of_file(file, count, dim)?))),
        })
    }

    /// Returns the form of the vectors that these are.
    pub(super) fn storage(&self) -> Storage {
        match self {
            Self::Int8(_) => Storage::Int8,
            Self::F16(_) => Storage::F16,
            Self::Binary(_) => Storage::Binary,
        }
    }

    /// Returns the name of the file of quantized vectors, if `storage` has one.
    pub(super) fn file_name(storage: Storage) -> Option<&'static str> {
        match storage {
            Storage::F32 => None,
            Storage::Int8 => Some(CODES_INT8),
            Storage::F16 => Some(CODES_F16),
            Storage::Binary => Some(CODES_BINARY),
        }
    }

    /// Quantizes the vectors of `matrix` into the file that [`AnyQuantized::file_name`] names. Those of eight bits and
    /// of f16 are never all in memory.
    pub(super) fn write_of(matrix: &Matrix, storage: Storage, out: &mut dyn Write) -> io::Result<()> {
        match storage {
            Storage::F32 => Ok(()),
            Storage::Int8 => Quantized::<i8>::write_of(matrix, out),
            Storage::F16 => Quantized::<u16>::write_of(matrix, out),
            Storage::Binary => Binary::of(matrix).write(out),
        }
    }

    /// Writes the file.
    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Int8(codes) => codes.write(out),
            Self::F16(codes) => codes.write(out),
            Self::Binary(codes) => codes.write(out),
        }
    }

    /// Returns `true` if quantizing `matrix` gives the very same numbers.
    pub(super) fn are_of(&self, matrix: &Matrix) -> bool {
        match self {
            Self::Int8(codes) => codes.are_of(matrix),
            Self::F16(codes) => codes.are_of(matrix),
            Self::Binary(codes) => codes.are_of(matrix),
        }
    }
}

/// A question whose scores by 8-bit codes bound those by the vectors.
#[derive(Debug)]
pub(super) struct Bounds {
    query: GatherQuery,
    error: CodeError,
    sums: Vec<i32>,
}

/// The most that scores by 8-bit codes are below those by the vectors, for a question.
#[derive(Clone, Copy, Debug)]
pub(super) struct CodeError {
    /// The factor that the question's codes are multiplied by.
    scale: f64,
    /// The most that a score by codes is below that by the vector, for a row whose scale is 1.
    step: f64,
    /// The most that rounding in f32 and numbers below the least code add to that, for any row.
    rest: f64,
}

/// A question, or a row whose neighbours are looked for, by which the rows of a graph are scored.
#[derive(Clone, Debug, Default)]
pub(super) struct GraphQuery {
    query: GatherQuery,
    /// What scores are multiplied by, beside the scales of the rows.
    scale: f32,
    /// What was left out of the scores.
    unit: f32,
    sums: Vec<i32>,
}

impl GraphQuery {
    /// Prepares a question. Its norm is left out of the scores, which only compare rows, so that no score underflows.
    pub(super) fn of(question: &[f32]) -> Self {
        let mut query = Self { scale: 1.0, ..Self::default() };
        query.unit = query.query.set(question);
        query
    }

    /// Returns what a score is multiplied by to be an inner product.
    pub(super) fn unit(&self) -> f32 {
        self.unit
    }
}

/// The products that a graph is built and searched by, and those of a batch of questions.
impl Quantized {
    /// Fills `scores` (`[rows, questions]`) with the scores of these rows.
    pub(super) fn batch_scores(
        &self,
        questions: &QuantizedBatch,
        rows: Range<usize>,
        words: &mut RowWords,
        scores: &mut [f32],
    ) {
        questions.products(self.rows(rows.start, rows.len()), &self.scales[rows], words, scores);
    }

    /// Prepares a question whose scores by the vectors are off by `rounding` at most.
    pub(super) fn bounds(&self, question: &[f32], rounding: f32) -> Bounds {
        let mut query = GatherQuery::default();
        let scale = query.set(question);
        Bounds { query, error: self.code_error(question, rounding, scale), sums: Vec::new() }
    }

    /// Returns by how much scores by codes are below those by the vectors, which are off by `rounding` at most. The
    /// question's codes are multiplied by `scale`.
    fn code_error(&self, question: &[f32], rounding: f32, scale: f32) -> CodeError {
        // Half a step of a row's and of the question's numbers, and some of what f32 rounds.
        const HALF_ROW: f64 = 0.501;
        const HALF_QUESTION: f64 = 0.51;
        // Numbers of a row below this have the code 0, and sums of products round by less, each; of a question likewise.
        let (least, least_asked) =
            (f64::from(f32::MIN_POSITIVE) * 128.0, f64::from(f32::MIN_POSITIVE) * 32768.0);
        let (scale, dim, magnitudes) = (f64::from(scale), self.dim as f64, magnitudes(question));
        let step = HALF_ROW * magnitudes + 128.0 * dim * (HALF_QUESTION * scale).max(least_asked);
        CodeError { scale, step, rest: f64::from(rounding) + (magnitudes + dim) * least }
    }

    /// Gives `found` each of these rows and a number that its score does not exceed.
    pub(super) fn bounds_at(&self, query: &mut Bounds, rows: &[u32], mut found: impl FnMut(u32, f64)) {
        gathered_products(&query.query, self.values.as_slice(), rows, &mut query.sums);
        let CodeError { scale, step, rest } = query.error;
        for (row, sum) in rows.iter().zip(&query.sums) {
            found(*row, f64::from(self.scales[*row as usize]) * (f64::from(*sum) * scale + step) + rest);
        }
    }

    /// Returns by how much the scores of [`scores_at`](Self::scores_at) are below those by the vectors, which are off by
    /// `rounding` at most.
    pub(super) fn error_of(&self, query: &GraphQuery, question: &[f32], rounding: f32) -> CodeError {
        self.code_error(question, rounding, query.unit)
    }

    /// Returns a number that the score of a row by its vector does not exceed, given its score by
    /// [`scores_at`](Self::scores_at).
    pub(super) fn bound(&self, error: CodeError, row: u32, score: f32) -> f64 {
        // Two roundings to f32, each by half a unit in the last place, or to nothing.
        let score = f64::from(score);
        let most = score + score.abs() * f64::from(f32::EPSILON) + f64::from(f32::MIN_POSITIVE);
        most * error.scale + f64::from(self.scales[row as usize]) * error.step + error.rest
    }

    pub(super) fn count(&self) -> usize {
        self.scales.len()
    }

    /// Prefetches a row.
    pub(super) fn prefetch(&self, row: u32) {
        prefetch(self.row(row));
    }

    fn row(&self, row: u32) -> &[i8] {
        self.rows(row as usize, 1)
    }

    /// Makes `query` of a row.
    pub(super) fn query_of_row(&self, row: u32, query: &mut GraphQuery) {
        query.query.set_row(self.row(row));
        query.scale = self.scales[row as usize];
    }

    /// Replaces `scores` by the scores of these rows.
    pub(super) fn scores_at(&self, query: &mut GraphQuery, rows: &[u32], scores: &mut Vec<f32>) {
        gathered_products(&query.query, self.values.as_slice(), rows, &mut query.sums);
        scores.clear();
        let scaled = rows.iter().zip(&query.sums);
        scores.extend(scaled.map(|(row, sum)| *sum as f32 * (query.scale * self.scales[*row as usize])));
    }

    /// Returns a hash of the codes of a row: rows with the same codes have the same.
    pub(super) fn hash(&self, row: u32) -> u64 {
        let mut hasher = DefaultHasher::new();
        hasher.write(bytemuck::cast_slice(self.row(row)));
        hasher.finish()
    }

    /// Returns `true` if two rows have the same codes, and scales that differ by a hundred-thousandth at most: those of
    /// one text that was encoded twice.
    pub(super) fn is_copy(&self, a: u32, b: u32) -> bool {
        let [scale, other] = [a, b].map(|row| self.scales[row as usize]);
        (scale - other).abs() <= scale.max(other) * 1e-5 && self.row(a) == self.row(b)
    }

    /// Returns the scale of a row.
    pub(super) fn scale(&self, row: u32) -> f32 {
        self.scales[row as usize]
    }

    /// Returns the inner product of two rows.
    pub(super) fn product(&self, a: u32, b: u32) -> f32 {
        let scale = self.scales[a as usize] * self.scales[b as usize];
        row_product(self.row(a), self.row(b)) as f32 * scale
    }
}
