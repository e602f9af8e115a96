//! Indexes that are searched before all of their files are checked: the same results, and none out of damaged bytes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use dpr_core::Embedding;
use dpr_core::random::SplitMix;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::search::{Backend as _, Filter, Hit};
use dpr_index::sparse::{Analyzer, Scoring, SparseOptions, WordIndex};
use dpr_index::vectors::VectorSet;
use dpr_index::{
    FileError, IndexDir, IndexKind, IndexOptions, IndexReader, IndexWriter, OpenError, Storage, UpdateError,
    VectorIndex as _, build_index, upgrade, verify,
};
use fs_err as fs;

use crate::new;

/// Rows of so many numbers fill several blocks of 64 KiB, and a graph of them has signs.
const DIM: usize = 256;
const COUNT: usize = 2_000;

fn build(dir: &Path, kind: IndexKind, storage: Storage) -> Vec<Embedding> {
    let mut random = SplitMix::new(5);
    let rows: Vec<f32> = (0..COUNT * DIM).map(|_| random.normal() as f32).collect();
    let passages =
        (0..COUNT).map(|row| Passage::new(format!("p{row}"), format!("T{}", row % 7), "Some text."));
    let questions =
        rows.chunks(DIM).step_by(100).map(|row| Embedding::new(row.to_vec(), DIM).unwrap()).collect();
    let set = VectorSet::new("ab".repeat(32), DIM, passages.collect(), rows);
    let sparse = Some(SparseOptions { analyzer: Analyzer::English, threads: 1 });
    let options = IndexOptions { kind, storage, sparse, ..IndexOptions::default() };
    build_index(&set, dir, &options, &Silent).unwrap();
    questions
}

fn version(dir: &Path) -> PathBuf {
    dir.join(format!("v-{}", IndexDir::new(dir).current_version().unwrap()))
}

/// Changes a byte of a file, at this share of its length.
fn damage(path: &Path, share: f64) {
    let mut bytes = fs::read(path).unwrap();
    let at = ((bytes.len() - 1) as f64 * share) as usize;
    bytes[at] ^= 4;
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

fn search(reader: &IndexReader, question: &Embedding) -> Result<Vec<Hit>, String> {
    let found = reader.live().search(std::slice::from_ref(question), 10, None);
    found.map(|mut found| found.remove(0)).map_err(|error| error.to_string())
}

/// Returns what the health of an index says of its files, as soon as it says something.
fn damage_told(reader: &IndexReader) -> String {
    let begun = Instant::now();
    loop {
        if let Some(told) = reader.live().health().damaged {
            return told;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody finds the damage");
        sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_index_finds_the_same_before_its_files_are_checked() {
    for (kind, storage) in [
        (IndexKind::Hnsw, Storage::Int8),
        (IndexKind::Exact, Storage::F32),
        (IndexKind::Exact, Storage::Int8),
        (IndexKind::Exact, Storage::Binary),
    ] {
        let root = tempfile::tempdir().unwrap();
        let questions = build(root.path(), kind, storage);
        let [checked, unchecked] =
            [IndexReader::open, IndexReader::open_unchecked].map(|open| open(root.path()).unwrap());
        let [a, b] = [&checked, &unchecked].map(|reader| reader.snapshot());
        for (k, filtered) in [(1, false), (300, true)] {
            assert_eq!(a.cost(9, k, filtered), b.cost(9, k, filtered));
        }
        let filter = Filter { titles: ["T3".to_owned()].into(), ..Filter::default() };
        for reader in [&unchecked, &checked] {
            let all = reader.live().search(&questions, 10, None).unwrap();
            let filtered = reader.live().search(&questions, 10, Some(&filter)).unwrap();
            assert_eq!(all, checked.live().search(&questions, 10, None).unwrap());
            assert_eq!(filtered, checked.live().search(&questions, 10, Some(&filter)).unwrap());
            assert!(filtered.iter().flatten().all(|hit| hit.title == "T3"));
        }
        assert_eq!(
            a.search_exactly(&questions[3], 20).unwrap(),
            b.search_exactly(&questions[3], 20).unwrap()
        );
        assert!(a.passages().map(Result::unwrap).eq(b.passages().map(Result::unwrap)));
        assert_eq!(unchecked.live().health().damaged, None);
    }
}

#[test]
fn no_search_answers_out_of_a_damaged_file_and_health_names_it() {
    for (name, kind, storage) in [
        ("vectors.f32", IndexKind::Hnsw, Storage::Int8),
        ("vectors.f32", IndexKind::Exact, Storage::F32),
        ("codes.i8", IndexKind::Hnsw, Storage::Int8),
        ("codes.b1", IndexKind::Exact, Storage::Binary),
        ("codes.b1", IndexKind::Hnsw, Storage::Int8),
        ("graph.hnsw", IndexKind::Hnsw, Storage::Int8),
        ("passages.jsonl", IndexKind::Hnsw, Storage::Int8),
        ("sparse", IndexKind::Hnsw, Storage::Int8),
    ] {
        let root = tempfile::tempdir().unwrap();
        let questions = build(root.path(), kind, storage);
        let whole = IndexReader::open(root.path()).unwrap();
        let truth: Vec<_> = questions.iter().map(|question| search(&whole, question).unwrap()).collect();
        drop(whole);
        let mut path = version(root.path()).join(name);
        if path.is_dir() {
            // The greatest file of the inverted index.
            let files = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
            path = files.max_by_key(|entry| entry.metadata().unwrap().len()).unwrap().path();
        }
        damage(&path, 0.7);
        let reader = IndexReader::open_unchecked(root.path()).unwrap();
        for (question, truth) in questions.iter().zip(&truth) {
            match search(&reader, question) {
                Ok(found) => assert_eq!(&found, truth, "{name}"),
                Err(error) => assert!(error.contains("is damaged"), "{name}: {error}"),
            }
        }
        let told = damage_told(&reader);
        assert!(told.contains(path.file_name().unwrap().to_str().unwrap()), "{name}: {told}");
        for question in &questions {
            let error = search(&reader, question).unwrap_err();
            assert!(error.contains("is damaged"), "{name}: {error}");
        }
        let snapshot = reader.snapshot();
        for scoring in [Scoring::PAPER, Scoring::TfIdf] {
            let error =
                WordIndex::search_batch(&*snapshot, &["some text"], 10, scoring).unwrap_err().to_string();
            assert_eq!(error, told, "{name}: searches by words end too");
        }
        assert!(snapshot.vector(0).is_err() && snapshot.base().matrix().is_err(), "{name}");
        assert!(snapshot.passages().any(|passage| passage.is_err()), "{name}");
        let is_found_at_once =
            matches!(IndexReader::open(root.path()), Err(OpenError::File(FileError::Checksum { .. })));
        assert!(is_found_at_once, "{name}");
    }
}

#[test]
fn of_a_damaged_index_added_passages_are_not_found_either_once_all_that_were_built_in_are_deleted() {
    let root = tempfile::tempdir().unwrap();
    super::build(root.path());
    let path = version(root.path()).join("vectors.f32");
    {
        let writer = IndexWriter::open(root.path(), "a test").unwrap();
        writer.delete((0..10).map(|row| format!("p{row}")).collect()).unwrap();
        writer.put(vec![new("added")]).unwrap();
    }
    let question = new("question").vector;
    assert_eq!(search(&IndexReader::open(root.path()).unwrap(), &question).unwrap().len(), 1);
    damage(&path, 0.5);
    let reader = IndexReader::open_unchecked(root.path()).unwrap();
    let told = damage_told(&reader);
    assert!(told.contains("vectors.f32") && search(&reader, &question).unwrap_err() == told, "{told}");
}

#[test]
fn what_is_missing_or_cut_off_is_refused_when_an_index_is_opened() {
    let root = tempfile::tempdir().unwrap();
    for name in [
        "vectors.f32",
        "vectors.crc",
        "codes.i8",
        "codes.b1",
        "graph.hnsw",
        "passages.jsonl",
        "passages.idx",
        "sparse/meta.json",
    ] {
        let dir = root.path().join(name.replace('/', "-"));
        build(&dir, IndexKind::Hnsw, Storage::Int8);
        let path = version(&dir).join(name);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let missing = IndexReader::open_unchecked(&dir).unwrap_err();
        assert!(matches!(missing, OpenError::File(FileError::Missing { .. })), "{name}: {missing}");
        fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let cut = IndexReader::open_unchecked(&dir).unwrap_err();
        assert!(matches!(cut, OpenError::File(FileError::Size { .. })), "{name}: {cut}");
    }
    // What the other files are checked by, or found through, is checked when the index is opened.
    for name in ["vectors.crc", "passages.idx"] {
        let dir = root.path().join(format!("{name}-damaged"));
        build(&dir, IndexKind::Hnsw, Storage::Int8);
        damage(&version(&dir).join(name), 0.5);
        let error = IndexReader::open_unchecked(&dir).unwrap_err();
        assert!(matches!(error, OpenError::File(FileError::Checksum { .. })), "{name}: {error}");
    }
}

#[test]
fn a_version_is_not_compacted_out_of_damaged_vectors_and_updates_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    super::build(&dir);
    let path = version(&dir).join("vectors.f32");
    let whole = fs::read(&path).unwrap();
    damage(&path, 0.5);
    let writer = IndexWriter::open_unchecked(&dir, "a test").unwrap();
    writer.put(vec![new("added")]).unwrap();
    let error = writer.compact(1, &Arc::default(), &Silent).unwrap_err();
    assert!(error.to_string().contains("vectors.f32 is damaged"), "{error}");
    assert_eq!(IndexDir::new(&dir).current_version().unwrap(), 1);
    drop(writer);
    fs::remove_file(&path).unwrap();
    fs::write(&path, whole).unwrap();
    let writer = IndexWriter::open_unchecked(&dir, "a test").unwrap();
    assert_eq!(writer.live().snapshot().len(), 11);
    assert!(writer.compact(1, &Arc::default(), &Silent).unwrap().is_some());
    assert_eq!(IndexReader::open_unchecked(&dir).unwrap().snapshot().len(), 11);
}

/// Changes the manifest, and the pointer that vouches for it.
fn change_manifest(dir: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let path = version(dir).join("manifest.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::remove_file(&path).unwrap();
    fs::write(&path, manifest.to_string()).unwrap();
    let sha256 = dpr_core::model::sha256_hex(manifest.to_string().as_bytes());
    fs::write(dir.join("current"), format!("v-1 {sha256}\n")).unwrap();
}

/// Makes a version what earlier releases built: without the file `name`.
fn without(name: &str, dir: &Path) {
    fs::remove_file(version(dir).join(name)).unwrap();
    change_manifest(dir, |manifest| {
        for list in ["files", "crc32"] {
            assert!(manifest[list].as_object_mut().unwrap().remove(name).is_some());
        }
    });
}

/// Replaces a file and what the manifest says of it.
fn forge(name: &str, dir: &Path, bytes: &[u8]) {
    let path = version(dir).join(name);
    fs::remove_file(&path).unwrap();
    fs::write(&path, bytes).unwrap();
    change_manifest(dir, |manifest| {
        manifest["files"][name]["sha256"] = dpr_core::model::sha256_hex(bytes).into();
        manifest["crc32"][name] = crc32fast::hash(bytes).into();
    });
}

#[test]
fn an_index_whose_manifest_names_a_norm_that_no_vector_has_is_checked_whole_and_finds_the_same() {
    let root = tempfile::tempdir().unwrap();
    let questions = build(root.path(), IndexKind::Exact, Storage::Int8);
    let filter = Filter { titles: ["T3".to_owned()].into(), ..Filter::default() };
    let found = |reader: &IndexReader| reader.live().search(&questions, 10, Some(&filter)).unwrap();
    let truth = found(&IndexReader::open(root.path()).unwrap());
    let long = Embedding::new(vec![1e36; DIM], DIM).unwrap();
    for phi in [-1.0, 1e300] {
        change_manifest(root.path(), |manifest| manifest["phi"] = phi.into());
        for open in [IndexReader::open, IndexReader::open_unchecked] {
            let reader = open(root.path()).unwrap();
            assert_eq!(found(&reader), truth, "{phi}");
            let error = search(&reader, &long).unwrap_err();
            assert!(error.contains("inner products overflow"), "{phi}: {error}");
        }
        let problems = verify(root.path()).unwrap().problems;
        assert!(problems.iter().any(|problem| problem.to_string().contains("`phi`")), "{phi}: {problems:?}");
    }
}

#[test]
fn a_version_without_checksums_of_blocks_is_checked_whole_until_it_is_upgraded() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    let questions = build(&dir, IndexKind::Hnsw, Storage::Int8);
    let truth = search(&IndexReader::open(&dir).unwrap(), &questions[0]).unwrap();
    without("vectors.crc", &dir);
    let path = version(&dir).join("vectors.f32");
    let whole = fs::read(&path).unwrap();
    damage(&path, 0.5);
    let error = IndexReader::open_unchecked(&dir).unwrap_err();
    assert!(matches!(error, OpenError::File(FileError::Checksum { .. })), "{error}");
    fs::remove_file(&path).unwrap();
    fs::write(&path, whole).unwrap();
    assert_eq!(search(&IndexReader::open_unchecked(&dir).unwrap(), &questions[0]).unwrap(), truth);

    let upgraded = upgrade(&dir).unwrap();
    assert!(upgraded.got_blocks && !upgraded.got_signs && upgraded.before == upgraded.now);
    assert!(!upgrade(&dir).unwrap().got_blocks && verify(&dir).unwrap().problems.is_empty());
    let reader = IndexReader::open_unchecked(&dir).unwrap();
    assert_eq!((search(&reader, &questions[0]).unwrap(), reader.snapshot().base().number()), (truth, 2));
    drop(reader);
    damage(&version(&dir).join("vectors.f32"), 0.5);
    assert!(damage_told(&IndexReader::open_unchecked(&dir).unwrap()).contains("vectors.f32"));
}

#[test]
fn a_graph_without_signs_is_searched_and_an_upgrade_adds_them() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    let questions = build(&dir, IndexKind::Hnsw, Storage::Int8);
    let all = |reader: IndexReader| -> Vec<_> {
        questions.iter().map(|question| search(&reader, question).unwrap()).collect()
    };
    let signs = fs::read(version(&dir).join("codes.b1")).unwrap();
    let truth = all(IndexReader::open(&dir).unwrap());
    without("codes.b1", &dir);
    for open in [IndexReader::open, IndexReader::open_unchecked] {
        assert_eq!(all(open(&dir).unwrap()), truth);
    }
    let upgraded = upgrade(&dir).unwrap();
    assert!(upgraded.got_signs && !upgraded.got_blocks && upgraded.before == upgraded.now);
    assert_eq!(fs::read(version(&dir).join("codes.b1")).unwrap(), signs);
    assert!(!upgrade(&dir).unwrap().got_signs && verify(&dir).unwrap().problems.is_empty());
    assert_eq!(all(IndexReader::open(&dir).unwrap()), truth);
}

#[test]
fn the_signs_of_a_graph_are_what_its_search_reads_and_verify_holds_them_to_the_vectors() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    let questions = build(&dir, IndexKind::Hnsw, Storage::Int8);
    let truth: Vec<_> = {
        let reader = IndexReader::open(&dir).unwrap();
        questions.iter().map(|question| search(&reader, question).unwrap()).collect()
    };
    let mut signs = fs::read(version(&dir).join("codes.b1")).unwrap();
    let scales = COUNT * DIM / 8..COUNT * DIM / 8 + COUNT * 4;
    // By these, every row is as good as another: what the beam is full of first stays.
    signs[scales].fill(0);
    forge("codes.b1", &dir, &signs);
    for open in [IndexReader::open, IndexReader::open_unchecked] {
        let reader = open(&dir).unwrap();
        let found: Vec<_> = questions.iter().map(|question| search(&reader, question).unwrap()).collect();
        assert_ne!(found, truth);
    }
    let problems = verify(&dir).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].to_string().contains("codes.b1"), "{problems:?}");
}

#[test]
fn an_index_of_the_second_format_gets_signs_when_it_is_upgraded_and_one_of_short_vectors_has_none() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("index");
    let questions = build(&dir, IndexKind::Hnsw, Storage::Int8);
    let truth = search(&IndexReader::open(&dir).unwrap(), &questions[2]).unwrap();
    for name in ["codes.b1", "codes.i8", "vectors.crc", "passages.idx"] {
        without(name, &dir);
    }
    change_manifest(&dir, |manifest| manifest["format_version"] = 2.into());
    assert_eq!(search(&IndexReader::open(&dir).unwrap(), &questions[2]).unwrap(), truth);
    let upgraded = upgrade(&dir).unwrap();
    assert!(upgraded.got_signs && upgraded.got_blocks && (upgraded.before, upgraded.now) == (2, 3));
    assert!(verify(&dir).unwrap().problems.is_empty() && version(&dir).join("codes.b1").exists());
    assert_eq!(search(&IndexReader::open(&dir).unwrap(), &questions[2]).unwrap(), truth);

    let (dir, dim) = (root.path().join("short"), 255);
    let mut random = SplitMix::new(5);
    let rows: Vec<f32> = (0..30 * dim).map(|_| random.normal() as f32).collect();
    let passages = (0..30).map(|row| Passage::new(format!("p{row}"), "", "Text."));
    let set = VectorSet::new("ab".repeat(32), dim, passages.collect(), rows);
    let options = IndexOptions { kind: IndexKind::Hnsw, ..IndexOptions::default() };
    build_index(&set, &dir, &options, &Silent).unwrap();
    assert!(!version(&dir).join("codes.b1").exists() && !upgrade(&dir).unwrap().got_signs);
}

#[cfg(unix)]
#[test]
fn every_file_of_an_index_can_be_read_by_the_same_users() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    build(root.path(), IndexKind::Exact, Storage::F32);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let passages = mode(&version(root.path()).join("passages.jsonl"));
    let mut words = 0;
    for entry in fs::read_dir(version(root.path()).join("sparse")).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), passages, "{}", path.display());
        words += 1;
    }
    assert!(words > 2);
}

#[test]
fn damage_to_another_file_is_not_told_as_damage_to_the_log() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), IndexKind::Exact, Storage::F32);
    let writer = IndexWriter::open(root.path(), "a test").unwrap();
    writer.delete(vec!["p1000".to_owned()]).unwrap();
    drop(writer);
    let passages = version(root.path()).join("passages.jsonl");
    // Looking an id up reads about eleven passages: some of them are damaged.
    let mut bytes = fs::read(&passages).unwrap();
    bytes.iter_mut().for_each(|byte| *byte ^= 4);
    fs::remove_file(&passages).unwrap();
    fs::write(&passages, bytes).unwrap();
    let errors = [
        IndexReader::open_unchecked(root.path()).map(drop).unwrap_err(),
        IndexWriter::open_unchecked(root.path(), "a test").map(drop).unwrap_err(),
    ];
    for error in errors.map(|error| error.to_string()) {
        assert!(error.contains("passages.jsonl") && !error.contains("updates-1.log"), "{error}");
    }
}

#[test]
fn updates_to_an_index_whose_words_are_damaged_are_refused_and_its_log_stays_as_it_was() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), IndexKind::Exact, Storage::F32);
    drop(IndexWriter::open(root.path(), "a test").unwrap());
    for entry in fs::read_dir(version(root.path()).join("sparse")).unwrap() {
        damage(&entry.unwrap().path(), 0.5);
    }
    let writer = IndexWriter::open_unchecked(root.path(), "a test").unwrap();
    let log = root.path().join("updates-1.log");
    let before = fs::read(&log).unwrap();
    let vector = Embedding::new(vec![0.5; DIM], DIM).unwrap();
    let passage = dpr_index::NewPassage { passage: Passage::new("a", "", "Text."), vector };
    for refused in [
        writer.put(vec![passage]).map(drop).unwrap_err(),
        writer.delete(vec!["p1".to_owned()]).map(drop).unwrap_err(),
    ] {
        let named = matches!(refused, UpdateError::File(_)) && refused.to_string().contains("sparse");
        assert!(named, "{refused}");
    }
    assert_eq!((writer.live().health().log_broken, fs::read(&log).unwrap()), (None, before));
}
