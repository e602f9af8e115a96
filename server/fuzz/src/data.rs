//! Files of passages, questions, training items, judgements and rankings, and documents to split.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use dpr_data::split::{SplitOptions, split};
use dpr_data::{
    FileFormat, read_passages, read_qrels, read_questions, read_results, read_run, read_tevatron,
    read_tevatron_ids, read_training,
};
use dpr_files::lock;
use dpr_files::progress::Silent;
use fs_err as fs;

use crate::named;

/// Calls `work` with the folder for the inputs; one at a time, since tests run side by side.
fn with_folder<T>(work: impl FnOnce(&Path) -> T) -> T {
    static FOLDER: OnceLock<Mutex<tempfile::TempDir>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| Mutex::new(tempfile::tempdir().expect("a temporary directory")));
    work(lock(folder).path())
}

/// Writes the input to a file of the folder.
fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).expect("a small file");
    path
}

/// Reads a file as everything that it may be.
fn read_all(path: &Path) {
    let _ = FileFormat::detect(path);
    let _ = read_passages(path);
    let _ = read_questions(path);
    let _ = read_qrels(path);
    let _ = read_run(path);
    read_training(path).into_iter().flatten().for_each(drop);
    read_tevatron(path).into_iter().flatten().for_each(drop);
    read_tevatron_ids(path).into_iter().flatten().for_each(drop);
    read_results(path).into_iter().flatten().for_each(drop);
}

pub(crate) fn tsv(bytes: &[u8]) {
    with_folder(|folder| {
        read_all(&file(folder, "input.tsv", bytes));
        let _ = read_questions(&file(folder, "input.txt", bytes));
    });
}

pub(crate) fn valid_tsv() -> Vec<(String, Vec<u8>)> {
    vec![
        named("passages", "id\ttext\ttitle\n1\t\"Says \"\"hi\"\".\"\tA\n2\tSecond.\tB\r\n"),
        named("questions", "who won?\t['Denver', \"the 'Broncos'\"]\n"),
        named("curated-trec", "1\tfactoid\twho?\t(Denver|Broncos)\n"),
        named("qrels", "query-id\tcorpus-id\tscore\nq1\tp1\t2\n"),
        named("trec-qrels", "q1 0 p1 1\nq1 0 p2 0\n"),
        named("run", "q1 Q0 p1 1 9.5 dpr\nq1 Q0 p2 2 9.25 dpr\n"),
    ]
}

pub(crate) fn json_lines(bytes: &[u8]) {
    with_folder(|folder| read_all(&file(folder, "input.jsonl", bytes)));
}

pub(crate) fn valid_json_lines() -> Vec<(String, Vec<u8>)> {
    vec![
        named("beir", "{\"_id\": \"1\", \"title\": \"A\", \"text\": \"b\", \"metadata\": {}}\n"),
        named("tevatron-corpus", "{\"docid\": \"1\", \"title\": \"A\", \"text\": \"b\"}\n"),
        named(
            "tevatron",
            "{\"query_id\": \"1\", \"query\": \"who?\", \"answers\": [\"A\"], \"positive_passages\": [{\"docid\": \"1\", \
             \"title\": \"A\", \"text\": \"b\"}], \"negative_passages\": []}\n",
        ),
        named(
            "tevatron-ids",
            "{\"query_id\": \"1\", \"query\": \"who?\", \"positive_document_ids\": [\"1\"]}\n",
        ),
    ]
}

pub(crate) fn json_array(bytes: &[u8]) {
    with_folder(|folder| read_all(&file(folder, "input.json", bytes)));
}

pub(crate) fn valid_json_array() -> Vec<(String, Vec<u8>)> {
    vec![
        named(
            "training",
            r#"[{"dataset": "d", "question": "who?", "answers": ["A"], "positive_ctxs": [{"title": "t", "text": "x",
                "passage_id": "1"}], "negative_ctxs": [], "hard_negative_ctxs": []}]"#,
        ),
        named(
            "results",
            r#"[{"question": "who?", "answers": ["A"], "ctxs": [{"id": "1", "title": "t", "text": "x",
            "score": "1.5", "has_answer": true}]}]"#,
        ),
        named("web-questions", r#"[{"qId": "w1", "answers": ["a"], "qText": "q"}]"#),
        named(
            "squad",
            r#"{"version": "1.1", "data": [{"title": "A_b", "paragraphs": [{"context": "Says hi.", "qas": [
                {"id": "1", "question": "Who?", "answers": [{"text": "hi", "answer_start": 5}]}]}]}]}"#,
        ),
    ]
}

/// Any file, its kind told by its content.
pub(crate) fn gzip(bytes: &[u8]) {
    with_folder(|folder| read_all(&file(folder, "input", bytes)));
}

/// `id text title` and one passage, compressed.
pub(crate) fn valid_gzip() -> Vec<(String, Vec<u8>)> {
    with_folder(|folder| {
        let path = folder.join("made.tsv.gz");
        let table = file(folder, "made.tsv", b"id\ttext\ttitle\n1\tText.\tA\n");
        let passages = read_passages(&table).unwrap_or_default();
        let written = dpr_data::write_corpus(&path, dpr_data::CorpusLayout::Tsv, |out| {
            passages.iter().try_for_each(|passage| out.write(passage))
        });
        written.map_err(|error: dpr_data::DataError| error).expect("a small file");
        vec![named("passages", fs::read(path).expect("a file that was just written"))]
    })
}

/// A document of each kind.
pub(crate) fn documents(bytes: &[u8]) {
    let Ok(options) = SplitOptions::new(10, 2, 3) else { return };
    with_folder(|folder| {
        for name in ["document.md", "document.html", "document.txt"] {
            let _ = split(&file(folder, name, bytes), &folder.join("blocks.tsv"), &options, &Silent);
        }
    });
}

pub(crate) fn valid_documents() -> Vec<(String, Vec<u8>)> {
    vec![
        named(
            "markdown",
            "---\ntitle: A title\n---\n# Heading\n\nText with *emphasis*, `code` and [a link](x).\n\n* one\n* two\n",
        ),
        named(
            "html",
            "<!doctype html><title>A title</title><h1>Heading</h1><p>Text &amp; more<script>no</script><ul><li>one</ul>",
        ),
        named("text", "A title\n\nThe text of the document, which has more words than one block has.\n"),
    ]
}
