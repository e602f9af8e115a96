//! Tests of an index of another language than English, over a restart and with passages that are added.

use std::path::Path;

use dpr_core::Embedding;
use dpr_core::model::sha256_hex;
use dpr_data::Passage;
use dpr_files::progress::Silent;
use fs_err as fs;

use super::{Analyzer, Scoring, SparseError, SparseOptions, WordIndex as _};
use crate::vectors::VectorSet;
use crate::{
    IndexDir, IndexManifest, IndexOptions, IndexReader, IndexWriter, NewPassage, OpenError, Snapshot,
    build_index,
};

const TEXTS: [&str; 3] =
    ["Voici l'éléphant d'Afrique.", "Les trains de la gare.", "Une bibliothèque nationale, et le soir."];

fn build(dir: &Path, analyzer: Analyzer) -> IndexManifest {
    let passages = TEXTS.iter().enumerate().map(|(row, text)| Passage::new(format!("p{row}"), "", *text));
    let rows = vec![1.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    let set = VectorSet::new("ab".repeat(32), 2, passages.collect(), rows);
    let sparse = Some(SparseOptions { analyzer, threads: 1 });
    build_index(&set, dir, &IndexOptions { sparse, ..IndexOptions::default() }, &Silent).unwrap()
}

/// The ids of the passages that a question finds by BM25.
fn find(snapshot: &Snapshot, question: &str) -> Vec<String> {
    let found = snapshot.search_batch(&[question], 10, Scoring::PAPER).unwrap().remove(0);
    let mut ids: Vec<String> =
        found.iter().map(|found| snapshot.passage(found.row).unwrap().id.clone()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_question_in_french_finds_other_forms_of_its_words_in_old_and_new_passages() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = build(dir.path(), Analyzer::French);
    assert_eq!(serde_json::to_value(&manifest).unwrap()["sparse"]["analyzer"], "french");
    let ask = |question: &str| find(&IndexReader::open(dir.path()).unwrap().snapshot(), question);
    assert_eq!(ask("Éléphants ?"), ["p0"]);
    assert_eq!(ask("qu’une E\u{301}LE\u{301}PHANTE"), ["p0"]);
    assert!(ask("une gazelle").is_empty());
    assert_eq!(ask("des bibliothèques nationales"), ["p2"]);
    assert!(ask("de la, et le").is_empty(), "stop words alone");

    let writer = IndexWriter::open(dir.path(), "a test").unwrap();
    let passage = Passage::new("new", "", "Jusqu'aux éléphants d’Asie !");
    let vector = Embedding::new(vec![0.5, 0.5], 2).unwrap();
    writer.put(vec![NewPassage { passage, vector }]).unwrap();
    assert_eq!(find(&writer.live().snapshot(), "L'ÉLÉPHANT"), ["new", "p0"]);
    drop(writer);
    let writer = IndexWriter::open(dir.path(), "after a restart").unwrap();
    assert_eq!(find(&writer.live().snapshot(), "l’éléphant"), ["new", "p0"]);
    writer.compact(1, &std::sync::Arc::default(), &Silent).unwrap().unwrap();
    drop(writer);
    let index = IndexReader::open(dir.path()).unwrap().snapshot();
    assert_eq!(find(&index, "asie"), ["new"]);
    assert_eq!(
        index.base().sparse().unwrap().unwrap().analyzer(),
        Analyzer::French,
        "a compaction keeps the analyzer"
    );
}

#[test]
fn stop_words_are_found_where_the_index_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = build(dir.path(), Analyzer::French.with_stop_words());
    assert_eq!(serde_json::to_value(&manifest).unwrap()["sparse"]["analyzer"], "french_with_stop_words");
    let index = IndexReader::open(dir.path()).unwrap().snapshot();
    assert_eq!(find(&index, "de la"), ["p1"]);
    assert_eq!(find(&index, "éléphants"), ["p0"]);
}

#[test]
fn a_manifest_with_an_analyzer_of_a_newer_program_is_refused_by_its_name() {
    let dir = tempfile::tempdir().unwrap();
    build(dir.path(), Analyzer::French);
    let number = IndexDir::new(dir.path()).current_version().unwrap();
    let path = dir.path().join(format!("v-{number}")).join("manifest.json");
    let newer = fs::read_to_string(&path).unwrap().replace("\"french\"", "\"klingon\"");
    fs::remove_file(&path).unwrap();
    fs::write(&path, &newer).unwrap();
    let current = dir.path().join("current");
    fs::remove_file(&current).unwrap();
    fs::write(&current, format!("v-{number} {}\n", sha256_hex(newer.as_bytes()))).unwrap();
    let error = IndexReader::open(dir.path()).map(drop).unwrap_err();
    let is_named = matches!(&error, OpenError::Sparse(SparseError::UnknownAnalyzer { unknown, .. })
        if unknown.name == "klingon");
    assert!(is_named && error.to_string().contains("manifest.json"), "{error}");
    assert!(error.to_string().contains("french, french_with_stop_words, german"), "{error}");
}
