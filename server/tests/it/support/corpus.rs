//! Vectors to index: random ones, and bags of words of the demo's passages.

use std::path::Path;

use dpr_core::Embedding;
use dpr_data::{Passage, corpus_sha256, read_passages};
use dpr_index::vectors::{Shard, VectorSet, VectorsSpec, VectorsWriter};

/// The demo's corpus.
pub(crate) const SQUAD: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../web-demo/corpus/squad-dev-v1.1.json.gz");

/// A small generator of numbers in [-1, 1), the same everywhere (xorshift64*).
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn next(&mut self) -> f32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 40;
        bits as f32 / (1_u32 << 23) as f32 - 1.0
    }
}

/// `[count, dim]`.
pub(crate) fn random_rows(count: usize, dim: usize) -> Vec<f32> {
    let mut numbers = Numbers::new(12345 + count as u64);
    (0..count * dim).map(|_| numbers.next()).collect()
}

/// One vector `[dim]` of unit length for each of the 2,067 SQuAD passages: the sum of a fixed random vector of each
/// of its words. Passages on one subject come out near each other, as they do from an encoder.
pub(crate) fn squad_rows(dim: usize) -> Vec<f32> {
    let mut rows = Vec::new();
    for passage in read_passages(Path::new(SQUAD)).unwrap() {
        let mut row = vec![0.0_f32; dim];
        for word in passage.text.to_lowercase().split(|c: char| !c.is_alphanumeric()).filter(|w| w.len() > 3)
        {
            let seed = word
                .bytes()
                .fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
            let mut numbers = Numbers::new(seed);
            row.iter_mut().for_each(|value| *value += numbers.next());
        }
        let norm = row.iter().map(|v| v * v).sum::<f32>().sqrt();
        rows.extend(row.iter().map(|value| value / norm));
    }
    rows
}

/// Passages `p0`, `p1`, ... with these vectors.
pub(crate) fn set(rows: Vec<f32>, dim: usize) -> VectorSet {
    let passage = |i| Passage::new(format!("p{i}"), "Title", format!("Text {i}."));
    let passages = (0..rows.len() / dim).map(passage).collect();
    VectorSet::new("ab".repeat(32), dim, passages, rows)
}

pub(crate) fn embedding(values: &[f32]) -> Embedding {
    Embedding::new(values.to_vec(), values.len()).unwrap()
}

/// `count` vectors `[dim]` of unit length around 64 centres that are the same for every `seed`.
pub(crate) fn clusters(count: usize, dim: usize, seed: u64) -> Vec<f32> {
    let mut centres = Numbers::new(99);
    let centres: Vec<f32> = (0..64 * dim).map(|_| centres.next()).collect();
    let mut numbers = Numbers::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut rows = Vec::with_capacity(count * dim);
    for _ in 0..count {
        let centre = ((numbers.next() + 1.0) * 32.0) as usize % 64;
        let row: Vec<f32> =
            centres[centre * dim..][..dim].iter().map(|value| value + 0.6 * numbers.next()).collect();
        let norm = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        rows.extend(row.iter().map(|value| value / norm));
    }
    rows
}

/// Writes a vectors directory, as `dpr encode` does.
pub(crate) fn write_vectors(dir: &Path, set: &VectorSet) {
    let spec = VectorsSpec {
        model_fingerprint: set.model_fingerprint.clone(),
        dim: set.dim,
        corpus_sha256: corpus_sha256(&set.passages),
        shard: Shard::WHOLE,
        part_size: VectorsSpec::PART_SIZE,
        precision: dpr_core::Precision::F32,
    };
    let writer = VectorsWriter::open(dir, spec, &set.passages).unwrap();
    for range in writer.missing_parts() {
        writer.write_part(&range, &set.rows[range.start * set.dim..range.end * set.dim]).unwrap();
    }
    writer.finish().unwrap();
}
