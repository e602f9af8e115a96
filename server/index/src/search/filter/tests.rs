//! Filters against [`Filter::allows`], passage by passage, while an index changes and is written again.

use std::path::Path;
use std::sync::Arc;

use dpr_core::Embedding;
use dpr_core::random::SplitMix;
use dpr_data::Metadata;
use dpr_files::progress::Silent;

use super::*;
use crate::search::{Hit, SearchError, Searcher};
use crate::vectors::VectorSet;
use crate::{
    FileError, HnswParams, IndexKind, IndexOptions, IndexReader, IndexWriter, LoadedIndex, NewPassage,
    VectorIndex as _, build_index, copy_index, upgrade, verify,
};

const DIM: usize = 8;

/// A passage of revision `revision`; every tenth has no metadata.
fn passage(number: usize, revision: usize) -> Passage {
    let passage =
        Passage::new(format!("p{number}"), format!("Title {}", number % 40), format!("Text {revision}."));
    if number % 10 == 9 {
        return passage;
    }
    let mut metadata = Metadata::new([("year", 1990 + (number + revision) as i32 % 30)]).unwrap();
    metadata.insert("lang".to_owned(), ["de", "en", "fr"][number % 3].into()).unwrap();
    metadata.insert("is_new".to_owned(), (revision > 0).into()).unwrap();
    passage.with_metadata(metadata)
}

fn vector(seed: usize) -> Embedding {
    let mut random = SplitMix::new(seed as u64 + 1);
    Embedding::new((0..DIM).map(|_| random.normal() as f32).collect(), DIM).unwrap()
}

fn build(out: &Path, kind: IndexKind, passages: Vec<Passage>) {
    let rows: Vec<f32> = (0..passages.len()).flat_map(|row| vector(row).as_slice().to_vec()).collect();
    let set = VectorSet::new("ab".repeat(32), DIM, passages, rows);
    let hnsw = HnswParams { m: 8, ef_construction: 40, ef_search: 16 };
    build_index(&set, out, &IndexOptions { kind, hnsw, ..IndexOptions::default() }, &Silent).unwrap();
}

fn filter(ids: &[&str], titles: &[&str], condition: &str) -> Filter {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let condition = (!condition.is_empty()).then(|| serde_json::from_str(condition).unwrap());
    Filter { ids: names(ids), titles: names(titles), condition }
}

fn filters() -> Vec<Filter> {
    let new = r#"{"field":"is_new","eq":true}"#;
    vec![
        filter(&[], &[], ""),
        filter(&["p3", "p40", "p999", "none"], &[], ""),
        filter(&[], &["Title 3", "Title 39", "none"], ""),
        filter(&["p3", "p43", "p4"], &["Title 3"], ""),
        filter(&[], &[], r#"{"field":"lang","eq":"en"}"#),
        filter(&[], &[], r#"{"not":{"field":"lang","eq":"en"}}"#),
        filter(&[], &[], r#"{"field":"year","gte":1995,"lt":2005}"#),
        filter(&[], &[], new),
        filter(&[], &["Title 3", "Title 4"], r#"{"field":"lang","in":["de","fr"]}"#),
        filter(&["p3", "p4", "p5", "p6", "p9"], &[], r#"{"not":{"field":"lang","eq":"de"}}"#),
        filter(&["p3", "p4", "p43"], &["Title 3"], r#"{"field":"year","gt":1900}"#),
    ]
}

/// Compares every filter with what each passage says, and what a search finds with exact search among those.
fn check(snapshot: &Arc<Snapshot>) {
    let searcher = Searcher::of(Arc::clone(snapshot));
    let queries = [vector(5000), vector(5001)];
    for filter in filters() {
        let alive = (0..snapshot.rows()).filter(|row| snapshot.contains(*row));
        let expected: Vec<usize> =
            alive.filter(|row| filter.allows(&snapshot.passage(*row).unwrap())).collect();
        let rows = filter.rows(snapshot).unwrap();
        assert_eq!(rows.iter().collect::<Vec<_>>(), expected, "{filter:?}");
        let found = searcher.search_batch(&queries, 10, Some(&filter));
        if expected.is_empty() {
            assert!(matches!(found, Err(SearchError::NothingAllowed)), "{filter:?}");
            continue;
        }
        for (query, hits) in queries.iter().zip(found.unwrap()) {
            assert_eq!(hits.len(), expected.len().min(10), "{filter:?}");
            let is_allowed = |Hit { id, title, text, metadata, .. }: &Hit| {
                filter.allows(&Passage::new(id, title, text).with_metadata(metadata.clone()))
            };
            assert!(hits.iter().all(is_allowed), "{filter:?}");
            let mut scores: Vec<f32> = snapshot
                .search_exactly(query, snapshot.len())
                .unwrap()
                .into_iter()
                .filter(|found| rows.contains(found.row))
                .map(|found| found.score)
                .collect();
            scores.truncate(10);
            if snapshot.kind() == IndexKind::Exact {
                assert_eq!(hits.iter().map(|hit| hit.score).collect::<Vec<_>>(), scores, "{filter:?}");
            }
        }
    }
}

#[test]
fn filters_give_what_passages_say_while_the_index_changes_and_after_it_was_written_again() {
    for kind in [IndexKind::Exact, IndexKind::Hnsw] {
        let root = tempfile::tempdir().unwrap();
        let (dir, copy) = (root.path().join("index"), root.path().join("copy"));
        build(&dir, kind, (0..600).map(|number| passage(number, 0)).collect());
        check(&IndexReader::open(&dir).unwrap().snapshot());

        let writer = IndexWriter::open(&dir, "a test").unwrap();
        let new = |number: usize| NewPassage { passage: passage(number, 1), vector: vector(number) };
        // Replaced ones, new ones, and some of either that are deleted.
        writer.put([3, 4, 9, 43, 100, 600, 601, 640, 999].map(new).into()).unwrap();
        writer.put((200..240).map(new).collect()).unwrap();
        writer.delete(["p5", "p4", "p601", "p200"].map(String::from).into()).unwrap();
        check(&writer.live().snapshot());
        check(&IndexReader::open(&dir).unwrap().snapshot());
        assert!(verify(&dir).unwrap().problems.is_empty());
        copy_index(&dir, &copy).unwrap();
        check(&IndexReader::open(&copy).unwrap().snapshot());

        let before: Vec<Passage> = passages(&writer.live().snapshot());
        let manifest = writer.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
        assert_eq!(manifest.format_version, 4);
        let after = writer.live().snapshot();
        assert_eq!((passages(&after), after.changes()), (before, 0));
        check(&after);
        drop(writer);
        assert!(verify(&dir).unwrap().problems.is_empty());
        assert_eq!(upgrade(&dir).unwrap().now, 4);
        check(&IndexReader::open(&dir).unwrap().snapshot());
    }
}

fn passages(snapshot: &Snapshot) -> Vec<Passage> {
    snapshot.passages().map(|live| live.unwrap().0).collect()
}

#[test]
fn an_index_without_metadata_has_no_columns_until_a_passage_with_some_is_compacted() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    let plain = |number: usize| Passage { metadata: Metadata::default(), ..passage(number, 0) };
    build(dir, IndexKind::Exact, (0..100).map(plain).collect());
    let index = LoadedIndex::open(dir).unwrap();
    assert_eq!(index.manifest.format_version, 3);
    let files: Vec<_> = index.manifest.files.keys().map(String::as_str).collect();
    assert_eq!(files, ["passages.idx", "passages.jsonl", "vectors.crc", "vectors.f32"]);
    drop(index);
    check(&IndexReader::open(dir).unwrap().snapshot());

    let writer = IndexWriter::open(dir, "a test").unwrap();
    writer.put(vec![NewPassage { passage: passage(7, 1), vector: vector(7) }]).unwrap();
    check(&writer.live().snapshot());
    let manifest = writer.compact(1, &Arc::default(), &Silent).unwrap().unwrap();
    assert!(
        manifest.files.contains_key("metadata.columns") && manifest.crc32.contains_key("metadata.columns")
    );
    check(&writer.live().snapshot());
}

#[test]
fn damaged_columns_are_refused_when_the_index_is_opened() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    build(dir, IndexKind::Exact, (0..30).map(|number| passage(number, 0)).collect());
    let path = dir.join("v-1/metadata.columns");
    let whole = fs_err::read(&path).unwrap();
    for (at, byte) in whole.iter().enumerate() {
        let mut damaged = whole.clone();
        damaged[at] = byte ^ 1;
        fs_err::write(&path, damaged).unwrap();
        let error = LoadedIndex::open(dir).unwrap_err().to_string();
        assert!(error.contains("metadata.columns") && error.contains("checksum"), "byte {at}: {error}");
    }
    fs_err::write(&path, &whole[..whole.len() - 1]).unwrap();
    assert!(LoadedIndex::open(dir).is_err());
    fs_err::remove_file(&path).unwrap();
    let error = LoadedIndex::open(dir).unwrap_err();
    assert!(matches!(error, crate::OpenError::File(FileError::Missing { .. })), "{error}");
}

#[test]
fn an_empty_filter_is_no_filter() {
    let root = tempfile::tempdir().unwrap();
    build(root.path(), IndexKind::Hnsw, (0..600).map(|number| passage(number, 0)).collect());
    let searcher = Searcher::new(LoadedIndex::open(root.path()).unwrap());
    let queries = [vector(5000), vector(5001)];
    let without = searcher.search_batch(&queries, 10, None).unwrap();
    assert_eq!(searcher.search_batch(&queries, 10, Some(&Filter::default())).unwrap(), without);
    assert_eq!(Filter::default().rows(searcher.snapshot()).unwrap(), RowSet::all(600));
}
