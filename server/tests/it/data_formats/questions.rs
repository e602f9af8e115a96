//! Tables and lists of questions with their answers.

use std::path::Path;

use dpr_data::{Answers, FileFormat, Question, QuestionLayout, read_questions, write_questions};

use crate::support::files::{Files, gunzip, gzip};
use crate::support::shared::shared;

fn texts(answers: &[&str]) -> Answers {
    Answers::Texts(answers.iter().map(|answer| (*answer).to_owned()).collect())
}

fn question(id: &str, text: &str, answers: Answers) -> Question {
    Question { id: id.into(), text: text.into(), answers, gold: None }
}

#[test]
fn question_tables_are_read_with_their_answers() {
    let files = Files::new();
    let tsv = "who won\t['a', \"b's\"]\nwhat\u{2019}s \"this\"\t\"['c', \"\"d's\"\"]\"\n\"\"\"Quoted\"\" tab\there\"\t[]\n";
    let expected = [
        question("1", "who won", texts(&["a", "b's"])),
        question("2", "what's \"this\"", texts(&["c", "d's"])),
        question("3", "\"Quoted\" tab\there", texts(&[])),
    ];
    for path in [
        files.write("qa.tsv", tsv),
        files.write("qa.tsv.gz", gzip(tsv.as_bytes())),
        files.write("nq-dev.qa.csv", tsv),
        files.write("windows.txt", tsv.replace('\n', "\r\n")),
    ] {
        assert_eq!(read_questions(&path).unwrap(), expected, "{}", path.display());
        assert_eq!(FileFormat::detect(&path).unwrap(), FileFormat::QaTsv);
    }

    let trec = files.write("trec.tsv", "1756\tfactoid\tWhen is \"it\"?\tSept?(ember)?|\\d{2}\n");
    let pattern = Answers::Patterns(vec!["Sept?(ember)?|\\d{2}".into()]);
    assert_eq!(read_questions(&trec).unwrap(), [question("1756", "When is \"it\"?", pattern)]);

    let web = r#"[
        {"qId": "wqr1", "answers": ["Padm\u00e9"], "qText": "what character?"},
        {"qId": 2, "answers": null, "qText": "who\u2019s it?", "more": [{"a": "]"}]}]"#;
    let expected =
        [question("wqr1", "what character?", texts(&["Padmé"])), question("2", "who's it?", texts(&[]))];
    for path in [files.write("web.json", web), files.write("web.json.gz", gzip(web.as_bytes()))] {
        assert_eq!(read_questions(&path).unwrap(), expected);
    }

    let tevatron = files
        .write("t.jsonl", r#"{"query_id": 7, "query": "why", "answers": ["a"], "positive_passages": []}"#);
    assert_eq!(read_questions(&tevatron).unwrap(), [question("7", "why", texts(&["a"]))]);
}

#[test]
fn every_fault_of_a_question_file_is_named_with_its_place() {
    let files = Files::new();
    let many: String = (0..999).map(|i| format!("question {i}\t['answer {i}']\n")).collect();
    let cut = gzip(many.as_bytes());
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "call.tsv",
            "q\t['a']\nr\t[__import__('os').system('touch owned')]\n".into(),
            "line 2: the answers are not a Python list of strings: column 2: expected a quoted string, found `__import__('os')`",
        ),
        ("number.tsv", "q\t[1, 2]\n".into(), "line 1: the answers are not a Python list"),
        ("open.tsv", "q\t['a\n".into(), "column 4: expected a closing quote, found the end"),
        ("bare.tsv", "q\ta\n".into(), "expected `[`, the start of a list of strings, found `a`"),
        (
            "ragged.tsv",
            "q\t['a']\nr\n".into(),
            "line 2 has 1 columns, expected 2 separated by tabs (no `answers`)",
        ),
        ("wide.tsv", "q\t['a']\nr\t['b']\tc\n".into(), "line 2 has 3 columns, expected 2"),
        ("three.tsv", "q\t['a']\tc\n".into(), "line 1 has 3 columns: a question file has 1"),
        ("trec.tsv", "1\tfactoid\tq\tr\n2\tfactoid\tq\n".into(), "line 2 has 3 columns, expected 4"),
        ("pattern.tsv", "1\tfactoid\tq\t \n".into(), "line 1 has an empty `pattern`"),
        ("twice.tsv", "1\tf\tq\tr\n1\tf\tq\tr\n".into(), "the id `1` is at line 1 and again at line 2"),
        ("no-question.tsv", " \t['a']\nx\t[]\n".into(), "line 1 has an empty `question`"),
        ("gap.tsv", "q\t['a']\n\nr\t['b']\n".into(), "line 2 is empty"),
        ("late-tab.txt", "who won\nwhat\t['a']\n".into(), "line 2 holds a tab, but line 1 does not"),
        ("utf8.tsv", b"q\t['a']\nr\t['\xff']\n".to_vec(), "line 2 is not valid UTF-8"),
        ("cut.tsv.gz", cut[..cut.len() / 2].to_vec(), "its gzip data is cut short or damaged"),
        ("empty.json", "[]".into(), "no questions in this file"),
        ("no-text.json", "[\n{\"qId\": \"1\"}]".into(), "line 2, column 12: item 1: missing field `qText`"),
        (
            "twice.json",
            r#"[{"qId":"1","qText":"a"},{"qId":"1","qText":"b"}]"#.into(),
            "item 1 and again at item 2",
        ),
        ("blank.json", r#"[{"qId":"1","qText":" "}]"#.into(), "item 1 has an empty `qText`"),
        (
            "training.json.gz",
            gzip(br#"[{"question": "q", "answers": [], "positive_ctxs": []}]"#),
            "is DPR training json, not a file of questions: give the questions that it was made with",
        ),
        (
            "training.tsv",
            "[\n{\"question\": \"q\", \"answers\": [], \"positive_ctxs\": []}]".into(),
            "is DPR training json",
        ),
        (
            "result.json",
            r#"[{"question": "q", "answers": [], "ctxs": []}]"#.into(),
            "is DPR's retriever result, not a file of questions",
        ),
    ];
    for (name, bytes, expected) in cases {
        let path = files.write(name, bytes);
        let message = read_questions(&path).unwrap_err().to_string();
        assert!(message.contains(expected), "{name}: {message}");
        assert!(message.contains(path.to_str().unwrap()), "{name} does not name the file: {message}");
    }
    assert!(!Path::new("owned").exists());
}

#[test]
fn the_published_question_sets_are_whole() {
    for (name, format, count, answers) in [
        ("nq-dev.tsv", FileFormat::QaTsv, 8757, 10693),
        ("nq-test.tsv", FileFormat::QaTsv, 3610, 6468),
        ("trivia-dev.tsv", FileFormat::QaTsv, 8837, 121_721),
        ("wq-train.json", FileFormat::WebQuestions, 2834, 0),
        ("wq-dev.json", FileFormat::WebQuestions, 755, 0),
        ("trec-train.tsv", FileFormat::CuratedTrec, 430, 430),
    ] {
        let Some(path) = shared(&format!("questions/{name}")) else { continue };
        assert_eq!(FileFormat::detect(&path).unwrap(), format, "{name}");
        let questions = read_questions(&path).unwrap();
        assert_eq!(questions.len(), count, "{name}");
        assert!(questions.iter().all(|q| !q.answers.is_empty() && !q.text.contains('\u{2019}')), "{name}");
        let total: usize = questions.iter().map(|q| q.answers.as_slice().len()).sum();
        assert!(answers == 0 || total == answers, "{name} has {total} answers");
        let are_patterns = questions.iter().all(|q| matches!(q.answers, Answers::Patterns(_)));
        assert_eq!(are_patterns, format == FileFormat::CuratedTrec);

        // Python's csv module and `repr` made these files: what is written is the same to the byte.
        if format == FileFormat::QaTsv {
            let files = Files::new();
            let (copy, zipped) = (files.path("copy.tsv"), files.path("copy.tsv.gz"));
            write_questions(&copy, QuestionLayout::Tsv, &questions).unwrap();
            let original = fs_err::read_to_string(&path).unwrap();
            let written = fs_err::read_to_string(&copy).unwrap();
            for (number, (new, old)) in written.lines().zip(original.lines()).enumerate() {
                let (asked, list) = old.split_once('\t').unwrap();
                let old = format!("{}\t{list}", asked.trim().replace('\u{2019}', "'"));
                assert_eq!(new, old, "{name}, line {}", number + 1);
            }
            write_questions(&zipped, QuestionLayout::Tsv, &questions).unwrap();
            assert_eq!(gunzip(&zipped), written);
            assert_eq!(read_questions(&zipped).unwrap(), questions);
        }
    }
}
