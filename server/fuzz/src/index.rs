//! Files of an index directory: a small one is made once, and one of its files replaced by the input.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use dpr_core::Embedding;
use dpr_core::model::sha256_hex;
use dpr_data::{Metadata, Passage, Value, read_passages};
use dpr_files::lock;
use dpr_files::progress::Silent;
use dpr_index::search::{Backend as _, Filter};
use dpr_index::vectors::VectorSet;
use dpr_index::{
    HnswParams, IndexKind, IndexOptions, IndexReader, IndexWriter, NewPassage, Storage, build_index,
};
use fs_err as fs;

use crate::named;

/// Numbers in a vector.
pub(crate) const DIM: usize = 8;
/// Passages of the index.
pub(crate) const COUNT: usize = 24;
/// The file that holds the changes since version 1.
const LOG: &str = "updates-1.log";
/// The offset at which the frames of a log begin, after three sectors.
const FRAMES: usize = 1536;

/// A made index, and a copy of it that inputs are put into.
struct Index {
    /// As it was made.
    made: tempfile::TempDir,
    /// The copy that is opened.
    used: tempfile::TempDir,
}

/// The way in which the rows of a made index are chosen.
#[derive(Clone, Copy)]
pub(crate) enum Chosen {
    Graph,
    Halves,
    Signs,
    /// A graph of vectors that are long enough for it to have their signs.
    SignedGraph,
}

impl Chosen {
    /// Returns the numbers in a vector.
    fn dim(self) -> usize {
        match self {
            Self::SignedGraph => 256,
            Self::Graph | Self::Halves | Self::Signs => DIM,
        }
    }
}

/// The index of this kind; one target at a time uses it.
fn index(chosen: Chosen) -> &'static Mutex<Index> {
    static INDEXES: [OnceLock<Mutex<Index>>; 4] = [const { OnceLock::new() }; 4];
    INDEXES[chosen as usize].get_or_init(|| {
        let made = tempfile::tempdir().expect("a temporary directory");
        build(made.path(), chosen);
        let used = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(used.path().join("v-1")).expect("a new directory");
        Mutex::new(Index { made, used })
    })
}

/// Conditions that read each kind of column.
const CONDITIONS: [&str; 4] = [
    r#"{"field":"lang","eq":"en"}"#,
    r#"{"field":"year","gte":2001,"lt":2004}"#,
    r#"{"not":{"field":"draft","eq":true}}"#,
    r#"{"or":[{"field":"lang","in":["de","fr"]},{"field":"year","eq":2000}]}"#,
];

/// Makes an index of [`COUNT`] passages with metadata, and a log of two changes.
pub(crate) fn build(dir: &Path, chosen: Chosen) {
    let table = dir.join("passages.tsv");
    let lines: String = (0..COUNT).map(|row| format!("p{row}\tText {row}.\tTitle {}\n", row / 4)).collect();
    fs::write(&table, format!("id\ttext\ttitle\n{lines}")).expect("a small file");
    let passages = read_passages(&table).expect("passages that were just written");
    let passages: Vec<Passage> =
        passages.into_iter().enumerate().map(|(row, passage)| passage.with_metadata(metadata(row))).collect();
    fs::remove_file(&table).expect("a file that is there");
    let first = passages[0].clone();
    let dim = chosen.dim();
    let rows: Vec<f32> = (0..COUNT).flat_map(|row| vector_of(row, dim)).collect();
    let set = VectorSet::new(fingerprint(), dim, passages, rows);
    let (kind, storage) = match chosen {
        Chosen::Graph | Chosen::SignedGraph => (IndexKind::Hnsw, Storage::default()),
        Chosen::Halves => (IndexKind::Exact, Storage::F16),
        Chosen::Signs => (IndexKind::Exact, Storage::Binary),
    };
    // So narrow a search that it is not quicker to score all rows.
    let hnsw = HnswParams { ef_search: 4, ..HnswParams::default() };
    let options = IndexOptions { kind, storage, hnsw, ..IndexOptions::default() };
    build_index(&set, dir, &options, &Silent).expect("an index of passages that are right");
    let writer = IndexWriter::open(dir, "fuzzing").expect("an index that was just made");
    let vector = Embedding::new(vector_of(COUNT, dim), dim).expect("finite numbers");
    writer.put(vec![NewPassage { passage: first, vector }]).expect("a change");
    writer.delete(vec!["p3".to_owned()]).expect("a change");
}

/// Metadata of each type, with values that several rows share.
fn metadata(row: usize) -> Metadata {
    let fields = [
        ("lang", Value::from(if row.is_multiple_of(2) { "en" } else { "de" })),
        ("year", Value::from(2000 + row as i32 / 4)),
        ("draft", Value::from(row == 5)),
    ];
    Metadata::new(fields).expect("three short fields")
}

/// The fingerprint of the model that the vectors are said to be of.
pub(crate) fn fingerprint() -> String {
    "ab".repeat(32)
}

/// A vector `[DIM]` of length 1.
pub(crate) fn vector(seed: usize) -> Vec<f32> {
    vector_of(seed, DIM)
}

/// A vector `[dim]` of length 1.
pub(crate) fn vector_of(seed: usize, dim: usize) -> Vec<f32> {
    let values: Vec<f32> = (0..dim).map(|at| ((seed * dim + at) as f32 * 1.7).sin()).collect();
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    values.iter().map(|value| value / length).collect()
}

impl Index {
    fn version(&self) -> PathBuf {
        self.made.path().join("v-1")
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.made.path().join(name)).expect("a file of the index that was made")
    }

    /// Puts a file into the directory that is opened. A new one each time: maps of the last one may rely on it.
    fn put(&self, name: &str, bytes: &[u8]) {
        let path = self.used.path().join(name);
        let _ = fs::remove_file(&path);
        fs::write(path, bytes).expect("a small file");
    }

    /// Makes the directory what was made.
    fn restore(&self) {
        for name in ["current", LOG] {
            self.put(name, &self.read(name));
        }
        for entry in fs::read_dir(self.version()).expect("the version that was made") {
            let name = entry.expect("an entry").file_name();
            let name = format!("v-1/{}", name.to_string_lossy());
            self.put(&name, &self.read(&name));
        }
    }

    /// Makes the pointer vouch for a manifest.
    fn point_to(&self, manifest: &[u8]) {
        self.put("v-1/manifest.json", manifest);
        // The log belongs to the manifest that was made.
        let _ = fs::remove_file(self.used.path().join(LOG));
        self.put("current", format!("v-1 {}\n", sha256_hex(manifest)).as_bytes());
    }

    /// Puts `bytes` in the place of a file of the version, with all checksums as they should be.
    fn replace(&self, name: &str, bytes: &[u8]) {
        let mut manifest: serde_json::Value =
            serde_json::from_slice(&self.read("v-1/manifest.json")).expect("the manifest that was made");
        manifest["files"][name] = serde_json::json!({ "bytes": bytes.len(), "sha256": sha256_hex(bytes) });
        manifest["crc32"][name] = crc32fast::hash(bytes).into();
        self.put(&format!("v-1/{name}"), bytes);
        self.point_to(manifest.to_string().as_bytes());
    }

    /// Opens the directory in both ways and uses all of it.
    fn open(&self) {
        for open in [IndexReader::open, IndexReader::open_unchecked] {
            if let Ok(reader) = open(self.used.path()) {
                use_all(&reader);
            }
        }
    }
}

fn use_all(reader: &IndexReader) {
    use dpr_index::VectorIndex as _;
    let snapshot = reader.snapshot();
    let query = |seed: usize| Embedding::new(vector_of(seed, snapshot.dim()), snapshot.dim());
    for seed in 0..3 {
        let Ok(query) = query(seed) else { continue };
        for hit in snapshot.search_exactly(&query, 5).into_iter().flatten() {
            let _ = snapshot.passage(hit.row);
        }
        for hit in snapshot.search(&query, 5).into_iter().flatten() {
            let _ = snapshot.passage(hit.row);
        }
    }
    for condition in CONDITIONS {
        let condition = serde_json::from_str(condition).expect("a condition that is right");
        let filter = Filter { condition: Some(condition), ..Filter::default() };
        let Ok(query) = query(1) else { continue };
        let _ = reader.live().search(&[query], 5, Some(&filter));
    }
    snapshot.passages().for_each(drop);
}

/// Runs with the restored graph.
fn with_index(work: impl FnOnce(&Index)) {
    with_index_of(Chosen::Graph, work);
}

/// Runs with a restored index of this kind.
fn with_index_of(chosen: Chosen, work: impl FnOnce(&Index)) {
    // A panic of an earlier input is told by the fuzzer; what it left behind is put right here.
    let index = lock(index(chosen));
    index.restore();
    work(&index);
    index.open();
}

fn with_file(name: &str, bytes: &[u8]) {
    with_index(|index| index.replace(name, bytes));
}

fn made(name: &str) -> Vec<(String, Vec<u8>)> {
    made_of(Chosen::Graph, name)
}

fn made_of(chosen: Chosen, name: &str) -> Vec<(String, Vec<u8>)> {
    let index = lock(index(chosen));
    vec![named("made", index.read(name))]
}

pub(crate) fn pointer(bytes: &[u8]) {
    with_index(|index| index.put("current", bytes));
}

pub(crate) fn valid_pointer() -> Vec<(String, Vec<u8>)> {
    made("current")
}

pub(crate) fn manifest(bytes: &[u8]) {
    with_index(|index| index.point_to(bytes));
}

pub(crate) fn valid_manifest() -> Vec<(String, Vec<u8>)> {
    made("v-1/manifest.json")
}

pub(crate) fn graph(bytes: &[u8]) {
    with_file("graph.hnsw", bytes);
}

pub(crate) fn valid_graph() -> Vec<(String, Vec<u8>)> {
    made("v-1/graph.hnsw")
}

pub(crate) fn codes(bytes: &[u8]) {
    with_file("codes.i8", bytes);
}

pub(crate) fn valid_codes() -> Vec<(String, Vec<u8>)> {
    made("v-1/codes.i8")
}

pub(crate) fn f16_codes(bytes: &[u8]) {
    with_index_of(Chosen::Halves, |index| index.replace("codes.f16", bytes));
}

pub(crate) fn valid_f16_codes() -> Vec<(String, Vec<u8>)> {
    made_of(Chosen::Halves, "v-1/codes.f16")
}

pub(crate) fn sign_codes(bytes: &[u8]) {
    with_index_of(Chosen::Signs, |index| index.replace("codes.b1", bytes));
}

pub(crate) fn valid_sign_codes() -> Vec<(String, Vec<u8>)> {
    made_of(Chosen::Signs, "v-1/codes.b1")
}

pub(crate) fn graph_signs(bytes: &[u8]) {
    with_index_of(Chosen::SignedGraph, |index| index.replace("codes.b1", bytes));
}

pub(crate) fn valid_graph_signs() -> Vec<(String, Vec<u8>)> {
    made_of(Chosen::SignedGraph, "v-1/codes.b1")
}

pub(crate) fn columns(bytes: &[u8]) {
    with_file("metadata.columns", bytes);
}

pub(crate) fn valid_columns() -> Vec<(String, Vec<u8>)> {
    made("v-1/metadata.columns")
}

pub(crate) fn vectors(bytes: &[u8]) {
    with_file("vectors.f32", bytes);
}

pub(crate) fn valid_vectors() -> Vec<(String, Vec<u8>)> {
    made("v-1/vectors.f32")
}

/// The checksums of the vectors' blocks.
pub(crate) fn vectors_crc(bytes: &[u8]) {
    with_file("vectors.crc", bytes);
}

pub(crate) fn valid_vectors_crc() -> Vec<(String, Vec<u8>)> {
    made("v-1/vectors.crc")
}

pub(crate) fn passages(bytes: &[u8]) {
    with_file("passages.jsonl", bytes);
}

pub(crate) fn valid_passages() -> Vec<(String, Vec<u8>)> {
    made("v-1/passages.jsonl")
}

pub(crate) fn places(bytes: &[u8]) {
    with_file("passages.idx", bytes);
}

pub(crate) fn valid_places() -> Vec<(String, Vec<u8>)> {
    made("v-1/passages.idx")
}

/// A log as it lies on the disk.
pub(crate) fn wal(bytes: &[u8]) {
    with_index(|index| index.put(LOG, bytes));
}

pub(crate) fn valid_wal() -> Vec<(String, Vec<u8>)> {
    made(LOG)
}

/// The payload of a frame, after four bytes that say how many changes it has: the log around it is right.
pub(crate) fn wal_frame(bytes: &[u8]) {
    let Some((count, payload)) = bytes.split_first_chunk::<4>() else { return };
    with_index(|index| {
        let header = index.read(LOG);
        let mut frame = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
        frame.extend_from_slice(count);
        frame.extend_from_slice(&crc32fast::hash(&frame).to_le_bytes());
        frame.extend_from_slice(payload);
        frame.extend_from_slice(&crc32fast::hash(payload).to_le_bytes());
        let (end, changes) = ((FRAMES + frame.len()) as u64, u64::from(u32::from_le_bytes(*count)));
        let marks = [sector(&[0, FRAMES as u64, 0]), sector(&[1, end, changes])];
        index.put(LOG, &[&header[..512], &marks.concat(), &frame].concat());
    });
}

/// A sector of a log with its checksum.
fn sector(numbers: &[u64; 3]) -> Vec<u8> {
    let mut sector: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    sector.resize(508, 0);
    let sum = crc32fast::hash(&sector);
    sector.extend_from_slice(&sum.to_le_bytes());
    sector
}

/// The frames of the log that was made.
pub(crate) fn valid_wal_frame() -> Vec<(String, Vec<u8>)> {
    let log = made(LOG).remove(0).1;
    let mut rest = log.get(FRAMES..).unwrap_or_default();
    let mut frames = Vec::new();
    while let Some((head, tail)) = rest.split_first_chunk::<12>() {
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(payload) = tail.get(..length).filter(|payload| !payload.is_empty()) else { break };
        frames.push(named(&format!("frame-{}", frames.len()), [&head[4..8], payload].concat()));
        rest = tail.get(length + 4..).unwrap_or_default();
    }
    frames
}
