//! Index directories: what is built is found, what is damaged is refused, what was there stays.

use crate::support::corpus;
use crate::support::files::overwrite;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use corpus::{embedding, random_rows, set, squad_rows};
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{
    BuildError, FileError, HnswParams, IndexDir, IndexKind, IndexOptions, LoadedIndex, MatrixError,
    OpenError, QueryError, build_index, recall_against_exact, verify,
};

fn build(set: &VectorSet, out: &Path, kind: IndexKind) -> LoadedIndex {
    let manifest = build_index(set, out, &options(kind), &Silent).unwrap();
    let index = LoadedIndex::open(out).unwrap();
    assert_eq!(index.manifest, manifest);
    index
}

fn options(kind: IndexKind) -> IndexOptions {
    IndexOptions { kind, ..IndexOptions::default() }
}

/// What a version with a graph is made of.
const FILES: [&str; 5] = ["vectors.f32", "codes.i8", "passages.jsonl", "passages.idx", "graph.hnsw"];

/// The file of the version in use.
fn file(out: &Path, name: &str) -> PathBuf {
    out.join(format!("v-{}", IndexDir::new(out).current_version().unwrap())).join(name)
}

/// Replaces a file, and its checksums in the manifest, as if another program had written it; without the CRC-32 as
/// programs before did, which did not know of it.
fn forge(out: &Path, name: &str, bytes: &[u8], knows_crc32: bool) {
    let manifest = file(out, "manifest.json");
    let mut said: serde_json::Value = serde_json::from_slice(&fs_err::read(&manifest).unwrap()).unwrap();
    said["files"][name]["sha256"] = dpr_core::model::sha256_hex(bytes).into();
    said["files"][name]["bytes"] = bytes.len().into();
    said["crc32"][name] = crc32fast::hash(bytes).into();
    if !knows_crc32 {
        assert!(said.as_object_mut().unwrap().remove("crc32").is_some());
    }
    overwrite(file(out, name), bytes).unwrap();
    overwrite(&manifest, said.to_string()).unwrap();
    vouch(out);
}

/// Replaces `current` so that it vouches for the manifest as it is now.
fn vouch(out: &Path) {
    let manifest = fs_err::read(file(out, "manifest.json")).unwrap();
    let version = IndexDir::new(out).current_version().unwrap();
    let sha256 = dpr_core::model::sha256_hex(&manifest);
    fs_err::write(out.join("current"), format!("v-{version} {sha256}\n")).unwrap();
}

#[test]
fn both_kinds_agree_with_scores_computed_plainly() {
    let root = tempfile::tempdir().unwrap();
    // Lengths differ, so that the longest passage is not the nearest: what the phi form is for.
    let mut rows = random_rows(1500, 24);
    for (i, row) in rows.chunks_mut(24).enumerate() {
        let scale = 0.85 + (i % 7) as f32 * 0.05;
        row.iter_mut().for_each(|value| *value *= scale);
    }
    let set = set(rows, 24);
    let exact = build(&set, &root.path().join("exact"), IndexKind::Exact);
    let hnsw = build(&set, &root.path().join("hnsw"), IndexKind::Hnsw);
    assert_eq!((exact.index.kind(), hnsw.index.kind()), (IndexKind::Exact, IndexKind::Hnsw));
    let mut same = 0;
    for query in random_rows(50, 24).chunks(24) {
        let mut plain: Vec<(f64, usize)> = set
            .rows
            .chunks(24)
            .enumerate()
            .map(|(i, row)| (row.iter().zip(query).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum(), i))
            .collect();
        plain.sort_by(|a, b| b.0.total_cmp(&a.0));
        let query = embedding(query);
        let best = exact.index.search(&query, 10).unwrap();
        for (hit, (score, row)) in best.iter().zip(&plain) {
            assert_eq!(hit.row, *row);
            assert!((f64::from(hit.score) - score).abs() < 1e-4);
        }
        same += hnsw.index.search(&query, 10).unwrap().iter().filter(|hit| best.contains(hit)).count();
    }
    // Random questions are nowhere near random passages, so less is found than of real ones (see the next test).
    assert!(same >= 475, "{same} of 500 rows, with the very same scores");
    let recall = recall_against_exact(&hnsw, 20, 200).unwrap();
    assert!(recall >= 0.97, "recall@20 of random rows {recall}");
}

#[test]
fn the_default_graph_finds_what_exact_search_finds_in_squad() {
    let root = tempfile::tempdir().unwrap();
    let set = set(squad_rows(384), 384);
    let index = build(&set, root.path(), IndexKind::Hnsw);
    let recall = recall_against_exact(&index, 20, 1000).unwrap();
    assert!(recall >= 0.99, "recall@20 {recall}");
}

#[test]
fn every_k_gives_that_many_rows_in_order() {
    let root = tempfile::tempdir().unwrap();
    let set = set(random_rows(900, 16), 16);
    for kind in [IndexKind::Exact, IndexKind::Hnsw] {
        let index = build(&set, &root.path().join(kind.to_string()), kind);
        let query = embedding(&random_rows(1, 16));
        for k in [1, 2, 20, 299, 300, 899, 900, 5000] {
            let rows = index.index.search(&query, k).unwrap();
            assert_eq!(rows.len(), k.min(900), "{kind} {k}");
            assert!(rows.windows(2).all(|w| w[0].score >= w[1].score));
        }
        assert!(matches!(index.index.search(&query, 0), Err(QueryError::K)));
        let short = embedding(&[1.0; 15]);
        assert!(matches!(
            index.index.search(&short, 1),
            Err(QueryError::Dimension { got: 15, expected: 16 })
        ));
        let huge = embedding(&[f32::MAX; 16]);
        assert!(matches!(index.index.search(&huge, 1), Err(QueryError::Overflow { .. })));
        let queries: Vec<_> = random_rows(9, 16).chunks(16).map(embedding).collect();
        let batch = index.index.search_batch(&queries, 7).unwrap();
        for (query, rows) in queries.iter().zip(batch) {
            assert_eq!(rows, index.index.search(query, 7).unwrap());
        }
    }
}

#[test]
fn repeated_passages_are_all_found_and_ranked_by_row() {
    let root = tempfile::tempdir().unwrap();
    // 1,200 rows, only three different vectors: the worst case for a graph that prunes equal neighbours.
    let three = random_rows(3, 8);
    let rows = (0..1200).flat_map(|i| three[i % 3 * 8..][..8].to_vec()).collect();
    let index = build(&set(rows, 8), root.path(), IndexKind::Hnsw);
    let hits = index.index.search(&embedding(&three[..8]), 30).unwrap();
    assert_eq!(hits.len(), 30);
    let best = hits[0].score;
    assert!(hits.iter().all(|hit| hit.score == best));
    assert!(hits.windows(2).all(|w| w[0].row < w[1].row));
}

#[test]
fn one_passage_is_an_index() {
    let root = tempfile::tempdir().unwrap();
    for kind in [IndexKind::Exact, IndexKind::Hnsw] {
        let index = build(&set(vec![0.5, 0.5], 2), &root.path().join(kind.to_string()), kind);
        assert_eq!(index.index.search(&embedding(&[1.0, 0.0]), 10).unwrap().len(), 1);
        assert_eq!(index.passage(0).unwrap().id, "p0");
    }
}

#[test]
fn the_same_vectors_give_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let set = set(random_rows(800, 12), 12);
    let versions = ["a", "b"].map(|name| {
        let index = build(&set, &root.path().join(name), IndexKind::Hnsw);
        index.version().to_owned()
    });
    assert_eq!(versions[0], versions[1]);
}

#[test]
fn any_changed_byte_in_any_file_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path();
    build(&set(random_rows(40, 4), 4), out, IndexKind::Hnsw);
    let mut files: Vec<_> = ["manifest.json"].iter().chain(&FILES).map(|name| file(out, name)).collect();
    files.push(out.join("current"));
    for path in files {
        let whole = fs_err::read(&path).unwrap();
        let step = (whole.len() / 97).max(1);
        for at in (0..whole.len()).step_by(step).chain([whole.len() - 1]) {
            for flip in [0x01, 0x20, 0x80] {
                let mut bytes = whole.clone();
                bytes[at] ^= flip;
                overwrite(&path, bytes).unwrap();
                let error = LoadedIndex::open(out).unwrap_err();
                let expected = match path.ends_with("current") {
                    true => matches!(
                        error,
                        OpenError::File(
                            FileError::Corrupt { .. }
                                | FileError::Checksum { .. }
                                | FileError::Missing { .. }
                        )
                    ),
                    false => matches!(error, OpenError::File(FileError::Checksum { .. })),
                };
                assert!(expected, "{} at {at}: {error}", path.display());
            }
        }
        overwrite(&path, whole).unwrap();
    }
    LoadedIndex::open(out).unwrap();
}

#[test]
fn missing_and_cut_files_are_named() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path();
    build(&set(random_rows(40, 4), 4), out, IndexKind::Hnsw);
    for name in FILES.into_iter().chain(["manifest.json"]) {
        let path = file(out, name);
        let whole = fs_err::read(&path).unwrap();
        if name != "manifest.json" {
            overwrite(&path, &whole[..whole.len() - 1]).unwrap();
            let error = LoadedIndex::open(out).unwrap_err();
            assert!(
                matches!(&error, OpenError::File(FileError::Size { path: p, .. }) if *p == path),
                "{error}"
            );
        }
        fs_err::remove_file(&path).unwrap();
        let error = LoadedIndex::open(out).unwrap_err();
        assert!(matches!(&error, OpenError::File(FileError::Missing { path: p }) if *p == path), "{error}");
        assert!(dpr::cli::one_line(&error).contains("dpr index"), "{error}");
        overwrite(&path, whole).unwrap();
    }
    assert!(matches!(LoadedIndex::open(&out.join("none")), Err(OpenError::NotAnIndex { .. })));
}

#[test]
fn manifests_that_contradict_their_files_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path();
    build(&set(random_rows(40, 4), 4), out, IndexKind::Hnsw);
    let manifest = file(out, "manifest.json");
    let whole = fs_err::read_to_string(&manifest).unwrap();
    type Expected = fn(&OpenError) -> bool;
    let cases: [(&str, &str, Expected); 6] = [
        ("\"format_version\": 3", "\"format_version\": 5", |e| {
            matches!(e, OpenError::File(FileError::NewerFormat { found: 5, .. }))
        }),
        ("\"dim\": 4", "\"dim\": 5", |e| matches!(e, OpenError::Count { expected: 40, got: 32, .. })),
        ("\"dim\": 4", "\"dim\": 0", |e| matches!(e, OpenError::Count { .. })),
        ("\"count\": 40", "\"count\": 41", |e| matches!(e, OpenError::File(FileError::Corrupt { .. }))),
        ("inner_product", "manhattan", |e| matches!(e, OpenError::File(FileError::Corrupt { .. }))),
        ("\"kind\": \"hnsw\"", "\"kind\": \"ivf\"", |e| {
            matches!(e, OpenError::File(FileError::Corrupt { .. }))
        }),
    ];
    for (from, to, expected) in cases {
        assert!(whole.contains(from), "{from} in {whole}");
        overwrite(&manifest, whole.replace(from, to)).unwrap();
        vouch(out);
        let error = LoadedIndex::open(out).unwrap_err();
        assert!(expected(&error), "{to}: {error}");
    }
}

#[test]
fn numbers_that_are_not_finite_are_refused_when_building_and_when_opening() {
    let root = tempfile::tempdir().unwrap();
    let mut bad = set(random_rows(40, 4), 4);
    build(&bad, root.path(), IndexKind::Exact);
    let mut rows = bad.rows.to_vec();
    rows[6 * 4 + 2] = f32::NAN;
    bad.rows = rows.into();
    let error = build_index(&bad, &root.path().join("new"), &options(IndexKind::Hnsw), &Silent).unwrap_err();
    assert!(error.to_string().contains("row 6 (passage `p6`) is not finite at 2"), "{error}");

    let bytes: Vec<u8> = bad.rows.iter().flat_map(|v| v.to_le_bytes()).collect();
    for knows_crc32 in [true, false] {
        forge(root.path(), "vectors.f32", &bytes, knows_crc32);
        let error = LoadedIndex::open(root.path()).unwrap_err();
        assert!(
            matches!(error, OpenError::Matrix(MatrixError::NotFinite { row: 6, position: 2, .. })),
            "{error}"
        );
    }
}

#[test]
fn what_another_program_wrote_wrongly_is_an_error_where_it_is_read() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path();
    let good = set(random_rows(40, 4), 4);
    let rebuilt = || {
        build(&good, out, IndexKind::Hnsw);
        FILES.map(|name| fs_err::read(file(out, name)).unwrap())
    };
    // A line that is no passage: the others are found, and `verify` says which it is.
    let [_, codes, passages, table, _] = rebuilt();
    let line = passages.split(|byte| *byte == b'\n').position(|line| line.starts_with(br#"{"id":"p7""#));
    let broken = String::from_utf8(passages).unwrap().replace(r#"{"id":"p7""#, r#"["id":"p7""#);
    forge(out, "passages.jsonl", broken.as_bytes(), true);
    let index = LoadedIndex::open(out).unwrap();
    assert_eq!((line, index.passage(8).unwrap().id.as_str()), (Some(7), "p8"));
    let error = index.passage(7).unwrap_err().to_string();
    assert!(error.contains("passages.jsonl") && error.contains("line 8"), "{error}");
    assert!(matches!(index.passage(40), Err(FileError::Corrupt { .. })));
    assert!(verify(out).unwrap().problems[0].to_string().contains("line 8"));

    // Rows and lines that are not there are refused at once.
    for (at, byte) in [(8, 0xff), (41 * 8, 41)] {
        rebuilt();
        let mut wrong = table.clone();
        wrong[at] = byte;
        forge(out, "passages.idx", &wrong, true);
        assert!(matches!(LoadedIndex::open(out), Err(OpenError::File(FileError::Corrupt { .. }))), "{at}");
    }
    // What only costs answers is found by `verify`.
    let blocks = fs_err::read(file(out, "vectors.crc")).unwrap();
    for (name, bytes) in [("passages.idx", table), ("codes.i8", codes), ("vectors.crc", blocks)] {
        rebuilt();
        let mut wrong = bytes;
        let last = wrong.len() - 1;
        wrong[last] ^= 1;
        forge(out, name, &wrong, true);
        LoadedIndex::open(out).unwrap();
        let problems = verify(out).unwrap().problems;
        let (problem, damaged) = (problems[0].to_string(), format!("{name} is damaged"));
        assert!(problems.len() == 1 && problem.contains(&damaged), "{name}: {problems:?}");
    }
}

#[test]
fn what_cannot_be_indexed_is_refused_and_the_old_index_stays() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path();
    let good = set(random_rows(40, 4), 4);
    let before = build(&good, out, IndexKind::Exact).version().to_owned();

    let mut twice = good.clone();
    twice.passages[31].id = "p7".into();
    let mut none = good.clone();
    (none.passages, none.rows) = (Vec::new(), Vec::new().into());
    let mut short = good.clone();
    short.rows = short.rows[..159].to_vec().into();
    let mut long = good.clone();
    long.rows = [&[1e30], &long.rows[1..]].concat().into();
    for (bad, expected) in [
        (&twice, "`p7` is at row 7 and again at row 31"),
        (&none, "no vectors to index"),
        (&short, "159 numbers are not 40 vectors of 4"),
        (&long, "the vector of passage `p0` has norm 1.00e30, must have 6.52e18 at most"),
    ] {
        let message = build_index(bad, out, &options(IndexKind::Exact), &Silent).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    }
    let params = HnswParams::default();
    for hnsw in [
        HnswParams { m: 1, ..params },
        HnswParams { m: 256, ..params },
        HnswParams { ef_construction: 0, ..params },
        HnswParams { ef_search: 0, ..params },
    ] {
        let options = IndexOptions { hnsw, ..options(IndexKind::Hnsw) };
        let error = build_index(&good, out, &options, &Silent).unwrap_err();
        assert!(matches!(error, BuildError::Parameter { .. }), "{error}");
    }
    let stopped = options(IndexKind::Hnsw);
    stopped.stop.store(true, Ordering::Relaxed);
    assert!(matches!(build_index(&good, out, &stopped, &Silent), Err(BuildError::Interrupted)));

    assert_eq!(LoadedIndex::open(out).unwrap().version(), before);
    let mut names: Vec<_> = fs_err::read_dir(out).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".lock", "current", "v-1"], "a failed build leaves nothing behind");
}

#[test]
fn a_new_version_takes_over_and_the_one_before_stays_for_slow_readers() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path();
    for (version, count) in [(1, 10), (2, 20), (3, 30)] {
        let index = build(&set(random_rows(count, 4), 4), out, IndexKind::Exact);
        assert_eq!(index.index.len(), count);
        assert_eq!(IndexDir::new(out).current_version().unwrap(), version);
    }
    assert!(!out.join("v-1").exists());
    assert!(out.join("v-2/vectors.f32").exists());
}

#[test]
fn two_builds_and_files_of_others_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let good = set(random_rows(10, 4), 4);
    fs_err::write(root.path().join("notes.txt"), "mine").unwrap();
    let error = build_index(&good, root.path(), &options(IndexKind::Exact), &Silent).unwrap_err();
    assert!(matches!(error, BuildError::File(FileError::Foreign { .. })), "{error}");

    let out = root.path().join("out");
    fs_err::create_dir(&out).unwrap();
    let lock = fs_err::File::create(out.join(".lock")).unwrap();
    lock.file().try_lock().unwrap();
    let error = build_index(&good, &out, &options(IndexKind::Exact), &Silent).unwrap_err();
    assert!(matches!(error, BuildError::File(FileError::Busy { .. })), "{error}");

    let below_a_file = root.path().join("notes.txt/index");
    let error = build_index(&good, &below_a_file, &options(IndexKind::Exact), &Silent).unwrap_err();
    assert!(error.to_string().contains("notes.txt/index"), "{error}");
}

#[test]
fn what_a_killed_build_left_is_removed_by_the_next() {
    let root = tempfile::tempdir().unwrap();
    let out = root.path();
    let good = set(random_rows(10, 4), 4);
    build(&good, out, IndexKind::Exact);
    fs_err::create_dir(out.join(".unfinished-abc")).unwrap();
    fs_err::write(out.join(".unfinished-abc/vectors.f32"), "half").unwrap();
    // Killed between the rename of the version and that of the pointer.
    fs_err::create_dir(out.join("v-2")).unwrap();
    LoadedIndex::open(out).unwrap();
    build(&good, out, IndexKind::Exact);
    let mut names: Vec<_> = fs_err::read_dir(out).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    // The number of a version that was never in use is given again.
    assert_eq!(names, [".lock", "current", "v-1", "v-2"]);
    assert_eq!(LoadedIndex::open(out).unwrap().number(), 2);
}
