//! Files of passages and questions as people have them, good and bad.

use crate::support::files;

use std::path::Path;

use dpr_data::{DataError, corpus_sha256, read_passages, read_questions};
use files::{Files, gzip, passage};

const SQUAD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../web-demo/corpus/squad-dev-v1.1.json.gz");

#[test]
fn the_demo_corpus_is_whole() {
    let passages = read_passages(Path::new(SQUAD)).unwrap();
    assert_eq!(passages.len(), 2067);
    assert_eq!((passages[0].id.as_str(), passages[0].title.as_str()), ("0-0", "1973 oil crisis"));
    assert!(passages[0].text.starts_with("The 1973 oil crisis began in October 1973"));

    let questions = read_questions(Path::new(SQUAD)).unwrap();
    assert_eq!(questions.len(), 10570);
    assert!(questions.iter().all(|q| !q.text.contains('\u{2019}')));
    let ids: std::collections::HashSet<_> = passages.iter().map(|p| &p.id).collect();
    assert!(questions.iter().all(|q| ids.contains(&q.gold.as_ref().unwrap().id) && !q.answers.is_empty()));
}

#[test]
fn one_corpus_in_three_formats_is_the_same_corpus() {
    let files = Files::new();
    let expected = [passage("0-0", "A b", "Says \"hi\" to all."), passage("0-1", "A b", "Second.")];
    let tsv = "id\ttext\ttitle\r\n0-0\t\"Says \"\"hi\"\" to all.\"\tA b\r\n0-1\tSecond.\tA b\r\n\r\n";
    let jsonl = concat!(
        r#"{"_id": "0-0", "title": "A b", "text": "Says \"hi\" to all.", "metadata": {}}"#,
        "\n",
        r#"{"_id": "0-1", "title": "A b", "text": "Second."}"#
    );
    let own = concat!(
        r#"{"id":"0-0","title":"A b","text":"Says \"hi\" to all."}"#,
        "\n",
        r#"{"id":"0-1","title":"A b","text":"Second.","metadata":{"none":null}}"#
    );
    let squad = r#"{"version": "1.1", "data": [{"title": "A_b", "paragraphs": [
        {"context": "Says \"hi\" to all.", "qas": []}, {"context": "Second.", "qas": []}]}]}"#;
    let paths = [
        files.write("p.tsv", tsv),
        files.write("p.tsv.gz", gzip(tsv.as_bytes())),
        files.write("gzip-by-content", gzip(jsonl.as_bytes())),
        files.write("with-bom.tsv", format!("\u{feff}{tsv}")),
        files.write("corpus.jsonl", jsonl),
        files.write("passages.jsonl", own),
        files.write("squad.json", squad),
        files
            .write("two-members.tsv.gz", [gzip(&tsv.as_bytes()[..20]), gzip(&tsv.as_bytes()[20..])].concat()),
    ];
    for path in paths {
        let passages = read_passages(&path).unwrap();
        assert_eq!(passages, expected, "{}", path.display());
        assert_eq!(corpus_sha256(&passages), corpus_sha256(&expected));
    }
    let other = [passage("0-0", "A bS", "ays \"hi\" to all."), expected[1].clone()];
    assert_ne!(corpus_sha256(&other), corpus_sha256(&expected));
}

#[test]
fn columns_are_taken_by_their_names() {
    let files = Files::new();
    let path = files.write("p.tsv", "id\ttitle\ttext\n7\t\"Weird Al\" Yankovic\tA musician.\n");
    assert_eq!(read_passages(&path).unwrap(), [passage("7", "\"Weird Al\" Yankovic", "A musician.")]);
}

#[test]
fn a_missing_title_is_empty_and_a_title_alone_will_do_in_beir() {
    let files = Files::new();
    let path = files.write(
        "c.jsonl",
        "{\"_id\": 4, \"text\": \"a\"}\n{\"_id\": \"5\", \"title\": \"T\", \"text\": \"\"}\n",
    );
    assert_eq!(read_passages(&path).unwrap(), [passage("4", "", "a"), passage("5", "T", "")]);
}

#[test]
fn a_line_may_name_its_id_twice_and_none_of_its_metadata() {
    let files = Files::new();
    let both = files.write("c.jsonl", r#"{"docid": "7", "_id": "x", "text": "a"}"#);
    assert_eq!(read_passages(&both).unwrap(), [passage("x", "", "a")]);
    for (metadata, expected) in [
        (r#"{"lang": "en", "lang": "de"}"#, "the metadata field `lang` is given twice"),
        (r#"{"n": -123456789012345678901}"#, "the metadata field `n` is a whole number beyond 2^53"),
    ] {
        let line = format!(r#"{{"_id": "1", "text": "a", "metadata": {metadata}}}"#);
        let error = read_passages(&files.write("m.jsonl", line)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn ids_of_squad_may_be_numbers_and_titles_null() {
    let files = Files::new();
    let squad = r#"{"data": [{"title": null, "paragraphs": [
        {"context": "c", "qas": [{"id": 7, "question": "who", "answers": []}]}]}]}"#;
    let path = files.write("squad.json", squad);
    assert_eq!(read_passages(&path).unwrap(), [passage("0-0", "", "c")]);
    assert_eq!(read_questions(&path).unwrap()[0].id, "7");
}

#[test]
fn a_passage_of_100_000_words_is_read_whole() {
    let files = Files::new();
    let text = "word ".repeat(100_000);
    let path = files.write("p.tsv", format!("id\ttext\ttitle\n1\t{text}\tLong\n"));
    assert_eq!(read_passages(&path).unwrap()[0].text.split(' ').count(), 100_000);
}

#[test]
fn every_fault_of_a_passage_file_is_named_with_its_place() {
    let files = Files::new();
    let head = "id\ttext\ttitle\n";
    let many: String = (0..999).map(|i| format!("{i}\ttext {i}\ttitle\n")).collect();
    let cut_gzip = gzip(format!("{head}{many}").as_bytes());
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("missing-column.tsv", format!("{head}1\ta\tT\n2\tb\n").into(), "line 3 has 2 columns, expected 3"),
        ("extra-column.tsv", format!("{head}1\ta\tT\tmore\n").into(), "line 2 has 4 columns, expected 3"),
        ("empty-text.tsv", format!("{head}1\t \tT\n").into(), "line 2 has an empty `text`"),
        ("empty-id.tsv", format!("{head}\ttext\tT\n").into(), "line 2 has an empty `id`"),
        (
            "duplicate.tsv",
            format!("{head}9\ta\tT\n8\tb\tT\n9\tc\tT\n").into(),
            "`9` is at line 2 and again at line 4",
        ),
        ("no-header.tsv", "1\ta\tT\n".into(), "line 1 must name the columns"),
        ("empty-line.tsv", format!("{head}1\ta\tT\n\n2\tb\tT\n").into(), "line 3 is empty"),
        ("header-only.tsv", head.into(), "no passages in this file"),
        ("nothing.tsv", "".into(), "no passages in this file"),
        ("utf8.tsv", [head.as_bytes(), b"1\ta\tT\n2\t\xff\xfe\tT\n"].concat(), "line 3 is not valid UTF-8"),
        ("utf8.jsonl", b"{\"_id\": \"1\", \"text\": \"\xc3\"}\n".to_vec(), "line 1 is not valid UTF-8"),
        ("utf8.json", b"{\"data\":\n[\n\"\xff\"]}".to_vec(), "line 3 is not valid UTF-8"),
        (
            "bad.jsonl",
            "{\"_id\": \"1\", \"text\": \"a\"}\n{\"_id\": \"2\", text}\n".into(),
            "line 2, column 14",
        ),
        ("no-text.jsonl", "{\"_id\": \"1\"}\n".into(), "missing field `text`"),
        ("empty.jsonl", "{\"_id\": \"1\", \"text\": \"\"}\n".into(), "line 1 has an empty `text`"),
        (
            "twice.jsonl",
            "{\"_id\":\"1\",\"text\":\"a\"}\n{\"_id\":\"1\",\"text\":\"b\"}".into(),
            "line 1 and again at line 2",
        ),
        (
            "control.tsv",
            format!("{head}1\ta\tT\n2\u{7}\tb\tT\n").into(),
            r#"line 3: the id "2\u{7}" has the control character U+0007: leave it out"#,
        ),
        (
            "control.jsonl",
            r#"{"_id": "a\u0000b", "text": "a"}"#.into(),
            r#"line 1: the id "a\0b" has the control character U+0000: leave it out"#,
        ),
        ("bad.json", "{\"data\": [\n{\"title\": 3}]}".into(), "line 2, column"),
        ("none.json", "{\"data\": []}".into(), "no passages"),
        (
            "empty.json",
            r#"{"data": [{"title": "A", "paragraphs": [{"context": ""}]}]}"#.into(),
            "article 0, paragraph 0 has an empty `context`",
        ),
        ("prose", "Just some text.\n".into(), "unknown format"),
        ("cut.tsv.gz", cut_gzip[..cut_gzip.len() - 12].to_vec(), "cannot read"),
    ];
    for (name, bytes, expected) in cases {
        let path = files.write(name, bytes);
        let message = read_passages(&path).unwrap_err().to_string();
        assert!(message.contains(expected), "{name}: {message}");
        assert!(message.contains(path.to_str().unwrap()), "{name} does not name the file: {message}");
    }
    let missing = read_passages(&files.path("none.tsv")).unwrap_err();
    assert!(matches!(missing, DataError::Io { .. }));
}

#[test]
fn questions_of_each_kind() {
    let files = Files::new();
    let plain = files.write("q.txt", "who won?\n\n what\u{2019}s new \r\n");
    let questions = read_questions(&plain).unwrap();
    let read: Vec<_> = questions.iter().map(|q| (q.id.as_str(), q.text.as_str())).collect();
    assert_eq!(read, [("1", "who won?"), ("3", "what's new")]);

    let beir = files.write("queries.jsonl", "{\"_id\": \"q1\", \"text\": \"why\"}\n");
    assert_eq!(read_questions(&beir).unwrap()[0].id, "q1");

    for (name, bytes, expected) in [
        ("none.txt", "\n\n", "no questions"),
        ("lines.txt", "{\"question\": \"who won?\"}\n", "line 1 is JSON, not a question"),
        (
            "twice.json",
            r#"{"data": [{"paragraphs": [{"context": "c", "qas": [{"id": "a", "question": "q"}, {"id": "a", "question": "r"}]}]}]}"#,
            "question 0 and again at article 0, paragraph 0, question 1",
        ),
    ] {
        let message = read_questions(&files.write(name, bytes)).unwrap_err().to_string();
        assert!(message.contains(expected), "{name}: {message}");
    }
}

#[test]
fn a_line_has_at_most_64_mib_however_small_its_file_is() {
    let files = Files::new();
    let limit = 64 << 20;
    let line = |id: &str, text: usize| {
        let (start, end) = (format!("{id}\t").into_bytes(), b"\ttitle\n");
        let filler = text - start.len() - end.len() + 1;
        [start, vec![b'a'; filler], end.to_vec()].concat()
    };
    let header = b"id\ttext\ttitle\n".to_vec();
    let whole = files.write("whole.tsv.gz", gzip(&[header.clone(), line("1", limit)].concat()));
    assert_eq!(read_passages(&whole).unwrap().len(), 1);
    let long = gzip(&[header, line("1", 100), line("2", limit + 1)].concat());
    assert!(long.len() < 1 << 20, "{}", long.len());
    let error = read_passages(&files.write("long.tsv.gz", &long)).unwrap_err();
    assert!(matches!(error, DataError::LongLine { line: 3, .. }), "{error}");
    let error = error.to_string();
    assert!(error.contains("long.tsv.gz") && error.contains("line 3") && error.contains("64 MiB"), "{error}");
    // Any format of lines, and one that has no lines at all.
    let zeros = gzip(&vec![0; limit + 2]);
    let error = read_passages(&files.write("zeros.jsonl", &zeros)).unwrap_err();
    assert!(matches!(error, DataError::LongLine { line: 1, .. }), "{error}");
    let error = read_questions(&files.write("zeros.txt", &zeros)).unwrap_err();
    assert!(matches!(error, DataError::LongLine { line: 1, .. }), "{error}");
}
