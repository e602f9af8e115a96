//! Encoding that stops and goes on, and directories that are not what they should be.

use crate::support::files::overwrite;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dpr_data::{Passage, corpus_sha256};
use dpr_index::FileError;
use dpr_index::vectors::{Shard, VectorSet, VectorsError, VectorsSpec, VectorsWriter};

const DIM: usize = 5;

fn corpus(count: usize) -> Vec<Passage> {
    let passage = |i| Passage::new(format!("p{i}"), "T", format!("text {i}"));
    (0..count).map(passage).collect()
}

fn spec(corpus: &[Passage]) -> VectorsSpec {
    VectorsSpec {
        model_fingerprint: "ab".repeat(32),
        dim: DIM,
        corpus_sha256: corpus_sha256(corpus),
        shard: Shard::WHOLE,
        part_size: 4,
        precision: dpr_core::Precision::F32,
    }
}

/// The rows an encoder would give, a function of the position in the corpus.
fn rows(range: std::ops::Range<usize>) -> Vec<f32> {
    range.flat_map(|i| (0..DIM).map(move |d| ((i * DIM + d) as f32).sin())).collect()
}

fn encode(dir: &Path, spec: VectorsSpec, passages: &[Passage], first: usize) {
    let writer = VectorsWriter::open(dir, spec, passages).unwrap();
    for range in writer.missing_parts() {
        writer.write_part(&range, &rows(first + range.start..first + range.end)).unwrap();
    }
    writer.finish().unwrap();
}

/// Writes all parts of a corpus, and does not finish.
fn unfinished(dir: &Path, corpus: &[Passage]) -> VectorsWriter {
    let writer = VectorsWriter::open(dir, spec(corpus), corpus).unwrap();
    for range in writer.missing_parts() {
        writer.write_part(&range, &rows(range.clone())).unwrap();
    }
    writer
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs_err::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries.map(|e| (e.file_name().into_string().unwrap(), fs_err::read(e.path()).unwrap())).collect()
}

#[test]
fn a_run_cut_anywhere_and_continued_ends_in_the_same_bytes() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(19);
    let whole = root.path().join("whole");
    encode(&whole, spec(&corpus), &corpus, 0);
    let expected = contents(&whole);
    assert_eq!(
        expected.keys().collect::<Vec<_>>(),
        [".lock", "manifest.json", "passages.jsonl", "vectors.f32"]
    );

    for cut in 0..5 {
        let dir = root.path().join(format!("cut-{cut}"));
        let writer = VectorsWriter::open(&dir, spec(&corpus), &corpus).unwrap();
        // Parts in any order: the last ones first.
        for range in writer.missing_parts().iter().rev().take(cut) {
            writer.write_part(range, &rows(range.clone())).unwrap();
        }
        drop(writer); // as after a kill: nothing tidies up
        fs_err::write(dir.join("parts/.unfinished-x"), "half a part").unwrap();
        let again = VectorsWriter::open(&dir, spec(&corpus), &corpus).unwrap();
        assert_eq!(again.missing_parts().len(), 5 - cut);
        drop(again);
        encode(&dir, spec(&corpus), &corpus, 0);
        assert_eq!(contents(&dir), expected, "cut after {cut} parts");
    }
}

#[test]
fn a_torn_part_is_encoded_again() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(12);
    drop(unfinished(root.path(), &corpus));
    let parts = root.path().join("parts");
    // One whose digest was never written, one with a flipped bit, one cut short.
    fs_err::remove_file(parts.join("part-000000.sha256")).unwrap();
    let mut bytes = fs_err::read(parts.join("vectors.f32")).unwrap();
    bytes[4 * DIM * 4 + 7] ^= 1;
    fs_err::write(parts.join("vectors.f32"), &bytes[..bytes.len() - 3]).unwrap();

    let writer = VectorsWriter::open(root.path(), spec(&corpus), &corpus).unwrap();
    assert_eq!(writer.missing_parts(), [0..4, 4..8, 8..12]);
    drop(writer);
    encode(root.path(), spec(&corpus), &corpus, 0);
    assert_eq!(VectorSet::read(&[root.path().to_path_buf()]).unwrap().rows[..], rows(0..12));
}

#[test]
fn a_part_that_changes_after_it_was_written_is_found_at_the_end_and_redone() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(12);
    let writer = unfinished(root.path(), &corpus);
    let path = root.path().join("parts/vectors.f32");
    let mut bytes = fs_err::read(&path).unwrap();
    bytes[4 * DIM * 4 + 7] ^= 1;
    fs_err::write(&path, bytes).unwrap();
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("rows 4 to 8 changed"), "{error}");
    let writer = VectorsWriter::open(root.path(), spec(&corpus), &corpus).unwrap();
    assert_eq!(writer.missing_parts(), vec![4..8]);
}

#[test]
fn a_run_that_ends_before_the_manifest_loses_no_rows() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(12);
    let (dir, whole) = (root.path().join("cut"), root.path().join("whole"));
    encode(&whole, spec(&corpus), &corpus, 0);
    drop(unfinished(&dir, &corpus));
    // As after a kill between the move of the rows and the manifest.
    fs_err::rename(dir.join("parts/vectors.f32"), dir.join("vectors.f32")).unwrap();
    let writer = VectorsWriter::open(&dir, spec(&corpus), &corpus).unwrap();
    assert_eq!(writer.missing_parts(), [0..0; 0]);
    writer.finish().unwrap();
    assert_eq!(contents(&dir), contents(&whole));
}

#[test]
fn parts_in_files_of_their_own_as_earlier_versions_wrote_them_are_kept() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(12);
    let (dir, whole) = (root.path().join("old"), root.path().join("whole"));
    encode(&whole, spec(&corpus), &corpus, 0);
    drop(unfinished(&dir, &corpus));
    let parts = dir.join("parts");
    let bytes = fs_err::read(parts.join("vectors.f32")).unwrap();
    for (part, rows) in bytes.chunks(4 * DIM * 4).enumerate() {
        fs_err::write(parts.join(format!("part-{part:06}.f32")), rows).unwrap();
    }
    fs_err::remove_file(parts.join("vectors.f32")).unwrap();
    // One of them is cut short.
    fs_err::write(parts.join("part-000001.f32"), &bytes[..7]).unwrap();
    let writer = VectorsWriter::open(&dir, spec(&corpus), &corpus).unwrap();
    assert_eq!(writer.missing_parts(), vec![4..8]);
    writer.write_part(&(4..8), &rows(4..8)).unwrap();
    writer.finish().unwrap();
    assert_eq!(contents(&dir), contents(&whole));
}

#[test]
fn a_finished_directory_has_nothing_left_to_do() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(6);
    encode(root.path(), spec(&corpus), &corpus, 0);
    let before = contents(root.path());
    encode(root.path(), spec(&corpus), &corpus, 0);
    assert_eq!(contents(root.path()), before);
}

#[test]
fn another_encoding_in_the_same_place_is_refused_by_the_field_that_differs() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(6);
    let first = spec(&corpus);
    let others = [
        ("model fingerprint", VectorsSpec { model_fingerprint: "cd".repeat(32), ..first.clone() }),
        ("dimension", VectorsSpec { dim: 6, ..first.clone() }),
        ("corpus digest", VectorsSpec { corpus_sha256: "0".repeat(64), ..first.clone() }),
        ("shard", VectorsSpec { shard: shard(1, 2), ..first.clone() }),
        ("part size", VectorsSpec { part_size: 8, ..first.clone() }),
        ("precision", VectorsSpec { precision: dpr_core::Precision::Bf16, ..first.clone() }),
    ];
    let unfinished = root.path().join("unfinished");
    drop(VectorsWriter::open(&unfinished, first.clone(), &corpus).unwrap());
    let finished = root.path().join("finished");
    encode(&finished, first.clone(), &corpus, 0);
    for dir in [&unfinished, &finished] {
        for (field, other) in &others {
            let message = dpr::cli::one_line(&VectorsWriter::open(dir, other.clone(), &corpus).unwrap_err());
            assert!(message.contains(field) && message.contains("--force"), "{message}");
        }
        VectorsWriter::clear(dir).unwrap();
        assert!(VectorsWriter::open(dir, others[0].1.clone(), &corpus).is_ok());
    }
}

#[test]
fn files_of_others_are_neither_joined_nor_cleared() {
    let root = tempfile::tempdir().unwrap();
    fs_err::write(root.path().join("thesis.tex"), "years of work").unwrap();
    let corpus = corpus(2);
    let open = VectorsWriter::open(root.path(), spec(&corpus), &corpus);
    assert!(matches!(open, Err(VectorsError::File(FileError::Foreign { name, .. })) if name == "thesis.tex"));
    assert!(VectorsWriter::clear(root.path()).is_err());
    assert!(root.path().join("thesis.tex").exists());
}

#[test]
fn two_writers_do_not_share_a_directory() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(2);
    let _first = VectorsWriter::open(root.path(), spec(&corpus), &corpus).unwrap();
    let second = VectorsWriter::open(root.path(), spec(&corpus), &corpus);
    assert!(matches!(second, Err(VectorsError::File(FileError::Busy { .. }))));
}

#[test]
fn bad_rows_are_refused_by_passage() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(4);
    let writer = VectorsWriter::open(root.path(), spec(&corpus), &corpus).unwrap();
    let good = rows(0..4);
    let message = |rows: &[f32]| writer.write_part(&(0..4), rows).unwrap_err().to_string();
    let mut nan = good.clone();
    nan[2 * DIM + 3] = f32::NAN;
    assert!(message(&nan).contains("passage `p2`: the vector's number at 3 is not finite"));
    let mut zero = good.clone();
    zero[DIM..2 * DIM].fill(0.0);
    assert!(message(&zero).contains("passage `p1`: the vector is all zero"));
    assert!(message(&good[1..]).contains("19 numbers"));
    assert!(matches!(writer.write_part(&(1..3), &good[..10]), Err(VectorsError::NotAPart { .. })));
    assert!(matches!(writer.finish(), Err(VectorsError::MissingParts { missing: 1, total: 1, .. })));
}

#[test]
fn an_unwritable_directory_keeps_finished_parts_and_says_so() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(8);
    let writer = VectorsWriter::open(root.path(), spec(&corpus), &corpus).unwrap();
    writer.write_part(&(0..4), &rows(0..4)).unwrap();
    // A file where a directory should be fails for root too, unlike permissions.
    let (parts, aside) = (root.path().join("parts"), root.path().join("aside"));
    fs_err::rename(&parts, &aside).unwrap();
    fs_err::write(&parts, "").unwrap();
    let error = writer.write_part(&(4..8), &rows(4..8)).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("rows 4 to 8 of") && message.contains("finished parts are kept"), "{message}");
    fs_err::remove_file(&parts).unwrap();
    fs_err::rename(&aside, &parts).unwrap();
    drop(writer);
    let writer = VectorsWriter::open(root.path(), spec(&corpus), &corpus).unwrap();
    assert_eq!(writer.missing_parts(), vec![4..8]);
}

fn shard(index: u32, of: u32) -> Shard {
    Shard::new(index, of).unwrap()
}

/// A corpus of 11 passages encoded as `of` shards.
fn shards(root: &Path, of: u32) -> (Vec<Passage>, Vec<PathBuf>) {
    let corpus = corpus(11);
    let encode_shard = |index| {
        let dir = root.join(format!("shard-{index}"));
        let range = shard(index, of).range(corpus.len()).unwrap();
        encode(
            &dir,
            VectorsSpec { shard: shard(index, of), ..spec(&corpus) },
            &corpus[range.clone()],
            range.start,
        );
        dir
    };
    let dirs = (0..of).map(encode_shard).collect();
    (corpus, dirs)
}

#[test]
fn shards_join_in_the_order_of_the_corpus() {
    let root = tempfile::tempdir().unwrap();
    let (corpus, mut dirs) = shards(root.path(), 3);
    dirs.reverse();
    let set = VectorSet::read(&dirs).unwrap();
    assert_eq!(set.passages, corpus);
    assert_eq!(set.rows[..], rows(0..11));
}

#[test]
fn shards_that_do_not_fit_together_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let (corpus, dirs) = shards(root.path(), 3);
    let message = |dirs: &[PathBuf]| VectorSet::read(dirs).unwrap_err().to_string();
    assert!(message(&dirs[..2]).contains("shard 2 of 3 is missing"));
    assert!(message(&[dirs.clone(), vec![dirs[1].clone()]].concat()).contains("shard 1 of 3 is given twice"));
    let other = root.path().join("other");
    let model = VectorsSpec { model_fingerprint: "cd".repeat(32), shard: shard(2, 3), ..spec(&corpus) };
    encode(&other, model, &corpus[8..], 8);
    assert!(message(&[dirs[0].clone(), dirs[1].clone(), other]).contains("model fingerprint differs"));
    assert!(message(&[root.path().to_path_buf()]).contains("is not a vectors directory"));
    assert!(matches!(VectorSet::read(&[]), Err(VectorsError::None)));
}

#[test]
fn an_encoding_that_was_begun_is_told_from_a_path_of_something_else_and_one_of_nothing() {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    let corpus = corpus(3);
    drop(VectorsWriter::open(&at("begun"), spec(&corpus), &corpus).unwrap());
    fs_err::create_dir(at("index")).unwrap();
    fs_err::write(at("index/current"), "1").unwrap();
    fs_err::write(at("file"), "").unwrap();
    let read = |name: &str| VectorSet::read(&[at(name)]).unwrap_err();
    assert!(matches!(read("begun"), VectorsError::Unfinished { path } if path == at("begun")));
    assert!(matches!(read("index"), VectorsError::NotVectors { path } if path == at("index")));
    assert!(matches!(read("file"), VectorsError::NotVectors { path } if path == at("file")));
    assert!(matches!(read("nowhere"), VectorsError::Missing { path } if path == at("nowhere")));
}

#[test]
fn any_changed_byte_of_a_finished_directory_is_found() {
    let root = tempfile::tempdir().unwrap();
    let corpus = corpus(3);
    encode(root.path(), spec(&corpus), &corpus, 0);
    let dirs = [root.path().to_path_buf()];
    for name in ["vectors.f32", "passages.jsonl"] {
        let path = root.path().join(name);
        let whole = fs_err::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            overwrite(&path, bytes).unwrap();
            assert!(
                matches!(VectorSet::read(&dirs), Err(VectorsError::File(FileError::Corrupt { .. }))),
                "{name} {at}"
            );
        }
        overwrite(&path, &whole[1..]).unwrap();
        assert!(matches!(VectorSet::read(&dirs), Err(VectorsError::File(FileError::Corrupt { .. }))));
        overwrite(&path, whole).unwrap();
    }
    let path = root.path().join("manifest.json");
    let newer =
        fs_err::read_to_string(&path).unwrap().replace("\"format_version\": 1", "\"format_version\": 2");
    overwrite(&path, newer).unwrap();
    assert!(matches!(
        VectorSet::read(&dirs),
        Err(VectorsError::File(FileError::NewerFormat { found: 2, .. }))
    ));
}
