//! The field's formats beyond passages and plain questions: question tables, training data, judgements, runs and
//! results, written, read back, converted, and refused when they are wrong.

mod shared;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use dpr_server::data::{
    Answers, ConvertError, ConvertOptions, CorpusLayout, DataError, FileFormat, Passage, Qrels, QrelsLayout,
    Question, QuestionLayout, RankedQuery, RetrievedContext, RetrieverResult, RunHit, TrainingContext,
    TrainingItem, convert, read_passages, read_qrels, read_questions, read_results, read_run, read_tevatron,
    read_training, write_corpus, write_qrels, write_questions, write_results, write_run, write_training,
};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use shared::shared;

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs_err::write(&path, bytes).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs_err::read_dir(self.0.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn gunzip(path: &Path) -> String {
    let mut text = String::new();
    GzDecoder::new(fs_err::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

fn texts(answers: &[&str]) -> Answers {
    Answers::Texts(answers.iter().map(|answer| (*answer).to_owned()).collect())
}

fn question(id: &str, text: &str, answers: Answers) -> Question {
    Question { id: id.into(), text: text.into(), answers, gold: None }
}

fn passage(id: &str, title: &str, text: &str) -> Passage {
    Passage { id: id.into(), title: title.into(), text: text.into() }
}

fn context(title: &str, text: &str, score: Option<f32>, id: Option<&str>) -> TrainingContext {
    TrainingContext { title: title.into(), text: text.into(), score, passage_id: id.map(str::to_owned) }
}

fn lossy() -> ConvertOptions {
    ConvertOptions { lossy: true, passages: None }
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

#[test]
fn training_json_is_read_as_the_released_files_have_it() {
    let files = Files::new();
    let json = r#" [ {"question": "what\u2019s up", "answers": ["a, ]}"], "dataset": "nq",
        "positive_ctxs": [{"title": "T", "text": "a \"q\" \\", "score": 1000, "title_score": 1, "passage_id": "12"}],
        "negative_ctxs": null,
        "hard_negative_ctxs": [{"title": null, "text": "b", "score": "13.394315", "psg_id": 34}, {"text": "c"}]}
      ,{"question":"q","positive_ctxs":[]}
    ]
    "#;
    let expected = [
        TrainingItem {
            dataset: Some("nq".into()),
            question: "what's up".into(),
            answers: vec!["a, ]}".into()],
            positive_ctxs: vec![context("T", "a \"q\" \\", Some(1000.0), Some("12"))],
            negative_ctxs: vec![],
            hard_negative_ctxs: vec![
                context("", "b", Some(13.394315), Some("34")),
                context("", "c", None, None),
            ],
        },
        TrainingItem { question: "q".into(), ..TrainingItem::default() },
    ];
    for path in [files.write("t.json", json), files.write("t.json.gz", gzip(json.as_bytes()))] {
        let items: Vec<_> = read_training(&path).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(items, expected);
    }

    for name in ["copy.json", "copy.json.gz"] {
        let path = files.path(name);
        let count = write_training(&path, |out| expected.iter().try_for_each(|item| out.write(item)));
        assert_eq!(count.unwrap(), 2);
        let items: Vec<_> = read_training(&path).unwrap().collect::<Result<_, DataError>>().unwrap();
        assert_eq!(items, expected);
    }
    assert_eq!(fs_err::read_to_string(files.path("copy.json")).unwrap().lines().count(), 4);
    assert!(gunzip(&files.path("copy.json.gz")).starts_with("[\n{\"dataset\":\"nq\""));

    write_training(&files.path("none.json"), |_| Ok::<(), DataError>(())).unwrap();
    assert_eq!(read_training(&files.path("none.json")).unwrap().count(), 0);
}

#[test]
fn every_fault_of_a_training_file_is_named_with_its_place() {
    let files = Files::new();
    let item = r#"{"question": "q", "answers": [], "positive_ctxs": [{"title": "T", "text": "é"}]}"#;
    let many = format!("[{}]", vec![item; 999].join(",\n"));
    let cut = gzip(many.as_bytes());
    let cases: Vec<(&str, Vec<u8>, usize, &str)> = vec![
        (
            "nothing",
            "".into(),
            0,
            "line 1, column 1: expected `[`, the start of an array, found the end of the file",
        ),
        (
            "object",
            format!("\n  {item}").into(),
            0,
            "line 2, column 3: expected `[`, the start of an array, found `{`",
        ),
        ("open", "[".into(), 0, "expected an item or `]`, found the end of the file"),
        (
            "cut",
            format!("[{item},\n  {{\"question\": \"q]}}").into(),
            1,
            "line 2, column 3: item 2 is not closed",
        ),
        ("unclosed", format!("[{item}\n").into(), 1, "line 2, column 1: expected `,` or `]`, found the end"),
        ("comma", format!("[{item},]").into(), 1, "expected an item after `,`, found `]`"),
        ("two", format!("[{item} {item}]").into(), 1, "expected `,` or `]`, found `{`"),
        (
            "more",
            format!("[{item}]\n{item}").into(),
            1,
            "line 2, column 1: expected the end of the file after the array",
        ),
        (
            "number",
            "[\n 12, 13]".into(),
            0,
            "line 2, column 3: item 1: invalid type: integer `12`, expected a training item",
        ),
        (
            "bracket",
            format!("[{item},\n{{\"question\": ]}}, 4]").into(),
            1,
            "line 2, column 14: item 2: expected value",
        ),
        (
            "field",
            format!("[{item},\n\n{{\"question\":\n \"q\"}}]").into(),
            1,
            "line 4, column 5: item 2: missing field `positive_ctxs`",
        ),
        (
            "score",
            format!("[{}]", item.replace("\"text\"", "\"score\": \"high\", \"text\"")).into(),
            0,
            "expected a score",
        ),
        (
            "id",
            format!("[{}]", item.replace("\"text\"", "\"psg_id\": 1.5, \"text\"")).into(),
            0,
            "expected an id",
        ),
        (
            "blank",
            format!("[{item},{}]", item.replace("\"q\"", "\" \"")).into(),
            1,
            "item 2 has an empty `question`",
        ),
        ("utf8", [b"[\n{\"question\":\n\"", &b"\xff\"}]"[..]].concat(), 0, "line 3 is not valid UTF-8"),
        ("cut.gz", cut[..cut.len() - 10].to_vec(), 0, "its gzip data is cut short or damaged"),
    ];
    for (name, bytes, good, expected) in cases {
        let path = files.write(&format!("{name}.json"), bytes);
        let items: Vec<_> = read_training(&path).unwrap().collect();
        let message = items.last().unwrap().as_ref().unwrap_err().to_string();
        assert!(message.contains(expected), "{name}: {message}");
        assert!(message.contains(path.to_str().unwrap()), "{name}: {message}");
        assert!(items[..items.len() - 1].iter().all(Result::is_ok), "{name} goes on after an error");
        assert!(name == "cut.gz" || items.len() == good + 1, "{name}: {} items", items.len());
    }
}

#[test]
fn an_item_without_an_end_does_not_fill_the_memory() {
    let files = Files::new();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(b"[{\"question\": \"").unwrap();
    for _ in 0..70 {
        gzip.write_all(&vec![b'x'; 1 << 20]).unwrap();
    }
    let path = files.write("endless.json.gz", gzip.finish().unwrap());
    let message = read_training(&path).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(message.contains("line 1, column 2: item 1 does not end within 64 MiB"), "{message}");
}

#[test]
fn the_published_training_sample_comes_back_the_same() {
    let Some(path) = shared("dpr/biencoder-sample.json") else { return };
    assert_eq!(FileFormat::detect(&path).unwrap(), FileFormat::DprTraining);
    let items: Vec<_> = read_training(&path).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(items.len(), 5);
    let sizes: Vec<_> = items.iter().map(|i| (i.negative_ctxs.len(), i.hard_negative_ctxs.len())).collect();
    assert_eq!(sizes, [(50, 96), (50, 95), (50, 98), (50, 100), (50, 94)]);
    assert_eq!(items[0].positive_ctxs[0].passage_id.as_deref(), Some("11828866"));
    assert_eq!(items[0].positive_ctxs[1].score, Some(13.394315));

    let files = Files::new();
    let copy = files.path("copy.json.gz");
    convert(&path, FileFormat::DprTraining, &copy, FileFormat::DprTraining, &ConvertOptions::default())
        .unwrap();
    let again: Vec<_> = read_training(&copy).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(again, items);
}

#[test]
fn a_failed_write_leaves_what_was_there() {
    let files = Files::new();
    let path = files.write("t.json", "old");
    let failed = write_training(&path, |out| {
        out.write(&TrainingItem::default())?;
        Err(DataError::Empty { path: "elsewhere".into(), what: "luck" })
    });
    assert!(matches!(failed, Err(DataError::Empty { .. })));
    assert_eq!(fs_err::read_to_string(&path).unwrap(), "old");
    assert_eq!(files.names(), ["t.json"]);
    let nowhere = write_training(&files.path("no/such/t.json"), |_| Ok::<(), DataError>(()));
    assert!(matches!(nowhere, Err(DataError::Write { .. })));
}

#[test]
fn a_run_is_read_by_rank_and_written_back() {
    let files = Files::new();
    let text = "q2 Q0 wiki:7 2 1.5 bm25\nq1\tQ0\td1\t1\t-3e1\tbm25\nq2 Q0 d1 1 13.394315 bm25\n";
    let hit = |passage: &str, rank, score| RunHit { passage: passage.into(), rank, score };
    let expected = [
        RankedQuery { id: "q2".into(), hits: vec![hit("d1", 1, 13.394315), hit("wiki:7", 2, 1.5)] },
        RankedQuery { id: "q1".into(), hits: vec![hit("d1", 1, -30.0)] },
    ];
    for path in [files.write("bm25.run", text), files.write("bm25.run.gz", gzip(text.as_bytes()))] {
        assert_eq!(read_run(&path).unwrap(), expected);
        assert_eq!(FileFormat::detect(&path).unwrap(), FileFormat::TrecRun);
    }
    let copy = files.path("copy.run.gz");
    write_run(&copy, "bm25", &expected).unwrap();
    assert_eq!(gunzip(&copy), "q2 Q0 d1 1 13.394315 bm25\nq2 Q0 wiki:7 2 1.5 bm25\nq1 Q0 d1 1 -30 bm25\n");
    assert_eq!(read_run(&copy).unwrap(), expected);

    let spaced = [RankedQuery { id: "q".into(), hits: vec![hit("a b", 1, 0.0)] }];
    let message = write_run(&files.path("bad.run"), "x", &spaced).unwrap_err().to_string();
    assert!(message.contains("passage \"a b\"") && message.contains("white space"), "{message}");
    assert!(write_run(&files.path("bad.run"), "my run", []).is_err());
    assert!(!files.path("bad.run").exists());
}

#[test]
fn every_fault_of_a_run_is_named_with_its_place() {
    let files = Files::new();
    let cases: [(&str, &[u8], &str); 8] = [
        ("columns", b"q Q0 d 1 2.0\n", "line 1 has 5 columns, expected 6 separated by tabs (no `tag`)"),
        ("rank", b"q Q0 d first 2.0 t\n", "line 1: `first` is not a rank (a whole number)"),
        ("score", b"q Q0 d 1 NaN t\n", "line 1: `NaN` is not a score (a finite number)"),
        (
            "same-rank",
            b"q Q0 a 1 3 t\np Q0 b 1 3 t\nq Q0 c 2 2 t\nq Q0 d 1 1 t\n",
            "query `q` has rank 1 at line 1 and again at line 4",
        ),
        (
            "same-passage",
            b"q Q0 a 1 3 t\nq Q0 b 2 2 t\nq Q0 a 3 1 t\n",
            "query `q` has passage `a` at line 1 and again at line 3",
        ),
        ("gap", b"q Q0 a 1 3 t\n\nq Q0 b 2 2 t\n", "line 2 is empty"),
        ("nothing", b"", "no ranked passages in this file"),
        ("utf8", b"q Q0 \xff 1 3 t\n", "line 1 is not valid UTF-8"),
    ];
    for (name, bytes, expected) in cases {
        let path = files.write(name, bytes);
        let message = read_run(&path).unwrap_err().to_string();
        assert!(message.contains(expected), "{name}: {message}");
        assert!(message.contains(path.to_str().unwrap()), "{name}: {message}");
    }
}

#[test]
fn judgements_of_both_layouts_are_the_same_judgements() {
    let files = Files::new();
    let mut expected = Qrels::default();
    for (query, passage, grade) in [("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d 3", -1)] {
        assert_eq!(expected.insert(query, passage, grade), None);
    }
    assert_eq!((expected.len(), expected.query("q1").unwrap()["d1"]), (3, 2));
    let beir = "query-id\tcorpus-id\tscore\nq1\td1\t2\r\nq2\td 3\t-1\nq1\td2\t0\n";
    for path in [files.write("test.tsv", beir), files.write("test.tsv.gz", gzip(beir.as_bytes()))] {
        assert_eq!(read_qrels(&path).unwrap(), expected);
        assert_eq!(FileFormat::detect(&path).unwrap(), FileFormat::BeirQrels);
    }
    let copy = files.path("copy.tsv");
    write_qrels(&copy, QrelsLayout::Beir, &expected).unwrap();
    assert_eq!(read_qrels(&copy).unwrap(), expected);

    let message = write_qrels(&files.path("x"), QrelsLayout::Trec, &expected).unwrap_err().to_string();
    assert!(message.contains("passage \"d 3\""), "{message}");
    let trec = files.write("qrels.txt", "q1 0 d1 2\nq1\t0\td2\t0\n");
    let to = files.path("from-trec.tsv");
    convert(&trec, FileFormat::TrecQrels, &to, FileFormat::BeirQrels, &ConvertOptions::default()).unwrap();
    assert_eq!(fs_err::read_to_string(&to).unwrap(), "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n");
    let back = files.path("back.txt");
    convert(&to, FileFormat::BeirQrels, &back, FileFormat::TrecQrels, &ConvertOptions::default()).unwrap();
    assert_eq!(fs_err::read_to_string(&back).unwrap(), "q1 0 d1 2\nq1 0 d2 0\n");
}

#[test]
fn every_fault_of_judgements_is_named_with_its_place() {
    let files = Files::new();
    let head = "query-id\tcorpus-id\tscore\n";
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "no-header.tsv",
            "q1\td1\t1\nq1\td2\t1\n".into(),
            "line 1 must be BEIR's header `query-id<TAB>corpus-id<TAB>score`",
        ),
        (
            "ragged.tsv",
            format!("{head}q1\td1\t1\nq1\td2\n").into(),
            "line 3 has 2 columns, expected 3 separated by tabs (no `score`)",
        ),
        ("trec.txt", "q1 0 d1 1\nq1 0 d2\n".into(), "line 2 has 3 columns, expected 4"),
        ("grade.txt", "q1 0 d1 yes\n".into(), "line 1: `yes` is not a grade (a whole number)"),
        (
            "twice.txt",
            "q1 0 d1 1\nq1 0 d2 1\nq1 0 d1 0\n".into(),
            "query `q1` has passage `d1` at line 1 and again at line 3",
        ),
        ("empty-id.tsv", format!("{head}q1\t\t1\n").into(), "line 2 has an empty `corpus-id`"),
        ("header-only.tsv", head.into(), "no judgements in this file"),
        ("nothing.tsv", "".into(), "no judgements in this file"),
        ("utf8.tsv", [head.as_bytes(), b"q\t\xff\t1\n"].concat(), "line 2 is not valid UTF-8"),
        ("cut.tsv.gz", gzip(head.as_bytes())[..20].to_vec(), "its gzip data is cut short or damaged"),
    ];
    for (name, bytes, expected) in cases {
        let path = files.write(name, bytes);
        let message = read_qrels(&path).unwrap_err().to_string();
        assert!(message.contains(expected), "{name}: {message}");
        assert!(message.contains(path.to_str().unwrap()), "{name}: {message}");
    }
}

#[test]
fn retriever_results_are_streamed_both_ways() {
    let files = Files::new();
    let found = RetrievedContext {
        id: "wiki:9".into(),
        title: "T".into(),
        text: "a".into(),
        score: 81.5,
        has_answer: true,
    };
    let expected = RetrieverResult { question: "q".into(), answers: vec!["a".into()], ctxs: vec![found] };
    let dpr = r#"[{"question": "q", "answers": ["a"], "ctxs": [
        {"id": "wiki:9", "title": "T", "text": "a", "score": "81.5", "has_answer": true, "more": 1}]}]"#;
    let copy = files.path("copy.json.gz");
    assert_eq!(write_results(&copy, |out| out.write(&expected)).unwrap(), 1);
    for path in [files.write("dpr.json", dpr), copy] {
        let results: Vec<_> = read_results(&path).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(results, [expected.clone()]);
        assert_eq!(FileFormat::detect(&path).unwrap(), FileFormat::DprResult);
    }
    let bad = files.write("bad.json", dpr.replace(", \"has_answer\": true", ""));
    let message = read_results(&bad).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(
        message.contains("line 2, column") && message.contains("missing field `has_answer`"),
        "{message}"
    );
}

#[test]
fn passages_keep_their_meaning_in_every_layout() {
    let files = Files::new();
    let passages = [
        passage("wiki:1", "\"Weird Al\" Yankovic", "Says \"hi\"\tto all."),
        passage("wiki:2", "", "Plain, with 'quotes' and é."),
        passage("3", "\"\"", "\"whole\""),
    ];
    for (layout, names, first) in [
        (CorpusLayout::Tsv, ["p.tsv", "p.tsv.gz"], "id\ttext\ttitle"),
        (CorpusLayout::Beir, ["p.jsonl", "p.jsonl.gz"], r#"{"_id":"wiki:1","title":"\"Weird Al\" Yankovic""#),
        (CorpusLayout::TevatronV1, ["t.jsonl", "t.jsonl.gz"], r#"{"docid":"wiki:1","title":"#),
    ] {
        for name in names {
            let path = files.path(name);
            let count = write_corpus(&path, layout, |out| passages.iter().try_for_each(|p| out.write(p)));
            assert_eq!(count.unwrap(), 3);
            assert_eq!(read_passages(&path).unwrap(), passages, "{name}");
            let text =
                if name.ends_with(".gz") { gunzip(&path) } else { fs_err::read_to_string(&path).unwrap() };
            assert!(text.starts_with(first), "{name}: {text}");
        }
    }
    // Line for line what Python's csv.writer(delimiter="\t", lineterminator="\n") writes.
    let expected = "id\ttext\ttitle\n\
        wiki:1\t\"Says \"\"hi\"\"\tto all.\"\t\"\"\"Weird Al\"\" Yankovic\"\n\
        wiki:2\tPlain, with 'quotes' and é.\t\n\
        3\t\"\"\"whole\"\"\"\t\"\"\"\"\"\"\n";
    assert_eq!(fs_err::read_to_string(files.path("p.tsv")).unwrap(), expected);

    let tevatron = files.path("v2.jsonl");
    write_corpus(&tevatron, CorpusLayout::Tevatron, |out| out.write(&passage("7", "T", "text"))).unwrap();
    assert_eq!(
        fs_err::read_to_string(&tevatron).unwrap(),
        "{\"docid\":\"7\",\"document_text\":\"T text\"}\n"
    );
    assert_eq!(read_passages(&tevatron).unwrap(), [passage("7", "", "T text")]);

    for (bad, expected) in
        [(passage("8", "T", "two\nlines"), "line end"), (passage("8", "T", " "), "text is empty")]
    {
        let written = write_corpus(&files.path("bad.tsv"), CorpusLayout::Tsv, |out| out.write(&bad));
        let message = written.unwrap_err().to_string();
        assert!(message.contains("passage \"8\"") && message.contains(expected), "{message}");
    }
    assert!(!files.path("bad.tsv").exists());
}

#[test]
fn conversions_go_there_and_back() {
    let files = Files::new();
    let corpus = "id\ttext\ttitle\n1\tSays \"\"hi\t\"A \"\"b\"\"\"\n2\té\t\n";
    let from = files.write("p.tsv", corpus);
    let path = files.path("p.jsonl.gz");
    let options = ConvertOptions::default();
    let converted = convert(&from, FileFormat::PsgsTsv, &path, FileFormat::BeirCorpus, &options).unwrap();
    assert_eq!(converted.items, 2);
    assert_eq!(FileFormat::detect(&path).unwrap(), FileFormat::BeirCorpus);
    // A name that says nothing of the format does no harm when the format is given.
    let v1 = files.path("p.json");
    convert(&path, FileFormat::BeirCorpus, &v1, FileFormat::TevatronCorpusV1, &options).unwrap();
    let back = files.path("back.tsv");
    convert(&v1, FileFormat::TevatronCorpusV1, &back, FileFormat::PsgsTsv, &options).unwrap();
    assert_eq!(read_passages(&back).unwrap(), read_passages(&from).unwrap());

    let queries =
        files.write("q.jsonl", "{\"_id\": \"1\", \"text\": \"who\"}\n{\"_id\": \"2\", \"text\": \"why\"}\n");
    let tsv = files.path("q.tsv");
    convert(&queries, FileFormat::BeirQueries, &tsv, FileFormat::QaTsv, &options).unwrap();
    assert_eq!(fs_err::read_to_string(&tsv).unwrap(), "who\t[]\nwhy\t[]\n");
    let again = files.path("again.jsonl");
    convert(&tsv, FileFormat::QaTsv, &again, FileFormat::BeirQueries, &options).unwrap();
    assert_eq!(read_questions(&again).unwrap(), read_questions(&queries).unwrap());

    let v1 = r#"{"query_id": 1, "query": "q", "answers": ["a"], "positive_passages": [{"docid": 5, "title": "T", "text": "a"}], "negative_passages": [{"docid": "6", "title": "U", "text": "b"}]}"#;
    let v1 = files.write("v1.jsonl", v1);
    assert_eq!(FileFormat::detect(&v1).unwrap(), FileFormat::TevatronV1);
    let dpr = files.path("dpr.json");
    convert(&v1, FileFormat::TevatronV1, &dpr, FileFormat::DprTraining, &options).unwrap();
    let items: Vec<_> = read_training(&dpr).unwrap().collect::<Result<_, _>>().unwrap();
    let expected = TrainingItem {
        question: "q".into(),
        answers: vec!["a".into()],
        positive_ctxs: vec![context("T", "a", None, Some("5"))],
        hard_negative_ctxs: vec![context("U", "b", None, Some("6"))],
        ..TrainingItem::default()
    };
    assert_eq!(items, [expected]);
    let back = files.path("back.jsonl");
    convert(&dpr, FileFormat::DprTraining, &back, FileFormat::TevatronV1, &options).unwrap();
    let read = |path: &Path| read_tevatron(path).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    assert_eq!(read(&back), read(&v1));

    // Version 2 keeps the texts in a corpus: away from them by permission, back to them through the corpus.
    let v2 = files.path("v2.jsonl");
    convert(&v1, FileFormat::TevatronV1, &v2, FileFormat::TevatronV2, &lossy()).unwrap();
    assert_eq!(
        fs_err::read_to_string(&v2).unwrap(),
        "{\"query_id\":\"1\",\"query_text\":\"q\",\"positive_document_ids\":[\"5\"],\"negative_document_ids\":[\"6\"]}\n"
    );
    assert_eq!(FileFormat::detect(&v2).unwrap(), FileFormat::TevatronV2);
    let corpus = files.write("c.jsonl", "{\"docid\":\"6\",\"title\":\"U\",\"text\":\"b\"}\n{\"docid\":\"5\",\"title\":\"T\",\"text\":\"a\"}\n");
    let with_corpus = ConvertOptions { lossy: false, passages: Some(corpus) };
    let full = files.path("full.jsonl");
    convert(&v2, FileFormat::TevatronV2, &full, FileFormat::TevatronV1, &with_corpus).unwrap();
    assert_eq!(read(&full)[0].positive_passages, read(&v1)[0].positive_passages);
    let same = files.path("same.jsonl.gz");
    convert(&v2, FileFormat::TevatronV2, &same, FileFormat::TevatronV2, &options).unwrap();
    assert_eq!(gunzip(&same), fs_err::read_to_string(&v2).unwrap());
}

#[test]
fn nothing_is_lost_in_a_conversion_without_permission() {
    let files = Files::new();
    let squad = r#"{"data": [{"title": "A_b", "paragraphs": [{"context": "two\nlines", "qas": [
        {"id": "s1", "question": "q", "answers": [{"text": "two", "answer_start": 0}]}]}]}]}"#;
    let squad = files.write("squad.json", squad);
    let web = files.write("web.json", r#"[{"qId": "w1", "answers": ["a"], "qText": "q"}]"#);
    let trec = files.write("trec.tsv", "1\tfactoid\tq\tr+\n");
    let title = files.write("title.jsonl", "{\"_id\": \"1\", \"title\": \"T\", \"text\": \"\"}\n");
    let train = |extra: &str| {
        format!(r#"[{{"question": "q", "positive_ctxs": [{{"title": "T", "text": "a"{extra}}}]}}]"#)
    };
    let scored = files.write("scored.json", train(r#", "score": 3, "passage_id": 4"#));
    let easy = train(r#", "passage_id": 4"#);
    let whole = files.write("whole.json", &easy);
    let easy = files
        .write("easy.json", easy.replace("\"positive", "\"negative_ctxs\": [{\"text\": \"n\"}], \"positive"));
    let named = files.write("named.jsonl", r#"{"query_id": "t7", "query": "q", "positive_passages": []}"#);
    use FileFormat as F;
    for (from, format, to, expected) in [
        (&squad, F::Squad, F::PsgsTsv, "psgs-tsv has no place for line ends (first at passage `0-0`)"),
        (
            &squad,
            F::Squad,
            F::QaTsv,
            "the passages that the questions were asked about (first at question `s1`)",
        ),
        (&squad, F::Squad, F::TevatronCorpus, "titles"),
        (&web, F::WebQuestions, F::QaTsv, "ids other than line numbers (first at question `w1`)"),
        (&web, F::WebQuestions, F::BeirQueries, "beir-queries has no place for answers"),
        (&trec, F::CuratedTrec, F::QaTsv, "the mark that answers are regular expressions"),
        (&title, F::BeirCorpus, F::PsgsTsv, "a passage that is only a title"),
        (&scored, F::DprTraining, F::TevatronV1, "scores (first at item 1)"),
        (&easy, F::DprTraining, F::TevatronV1, "`negative_ctxs`"),
        (&whole, F::DprTraining, F::TevatronV2, "the passages' texts"),
        (&named, F::TevatronV1, F::DprTraining, "query ids other than item numbers"),
    ] {
        let to_path = files.path("converted.gz");
        let refused = convert(from, format, &to_path, to, &ConvertOptions::default()).unwrap_err();
        let message = refused.to_string();
        assert!(matches!(refused, ConvertError::Lost { .. }), "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(!to_path.exists(), "{message}");
        assert_eq!(convert(from, format, &to_path, to, &lossy()).unwrap().items, 1);
        fs_err::remove_file(to_path).unwrap();
    }
    let path = files.path("title.tsv");
    convert(&title, F::BeirCorpus, &path, F::PsgsTsv, &lossy()).unwrap();
    assert_eq!(read_passages(&path).unwrap(), [passage("1", "T", "T")]);
    convert(&squad, F::Squad, &path, F::PsgsTsv, &lossy()).unwrap();
    assert_eq!(read_passages(&path).unwrap(), [passage("0-0", "A b", "two lines")]);
}

#[test]
fn conversions_that_mean_nothing_are_refused() {
    let files = Files::new();
    let tsv = files.write("p.tsv", "id\ttext\ttitle\n1\ta\tT\n");
    let ids = files.write("v2.jsonl", r#"{"query_id": 1, "query_text": "q", "positive_document_ids": [5]}"#);
    let no_id = files.write("train.json", r#"[{"question": "q", "positive_ctxs": [{"text": "a"}]}]"#);
    let with_corpus = ConvertOptions { lossy: false, passages: Some(tsv.clone()) };
    use FileFormat as F;
    let out = files.path("out");
    for (from, format, to, options, expected) in [
        (
            &tsv,
            F::PsgsTsv,
            F::QaTsv,
            lossy(),
            "psgs-tsv holds passages and cannot become qa-tsv, questions: it can become beir-corpus, tevatron-corpus, tevatron-corpus-v1",
        ),
        (&tsv, F::PsgsTsv, F::Squad, lossy(), "it can become beir-corpus"),
        (&tsv, F::TrecRun, F::DprResult, lossy(), "it can become nothing else"),
        (&ids, F::TevatronV2, F::DprTraining, lossy(), "give their corpus (`--passages`)"),
        (&ids, F::TevatronV2, F::DprTraining, with_corpus, "item 1 names the passage `5`, which"),
        (
            &no_id,
            F::DprTraining,
            F::TevatronV1,
            lossy(),
            "item 1 has a passage without `passage_id`, which tevatron-v1 needs",
        ),
        (&tsv, F::BeirCorpus, F::PsgsTsv, lossy(), "line 1, column 1: expected value"),
    ] {
        let message = convert(from, format, &out, to, &options).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
        assert!(!out.exists());
    }
    let error = convert(&tsv, F::PsgsTsv, &tsv, F::BeirCorpus, &lossy()).unwrap_err().to_string();
    assert!(error.contains("is the input: write to another file"), "{error}");
    let odd = files.write("odd.json", "[1, 2]");
    let message = FileFormat::detect(&odd).unwrap_err().to_string();
    assert!(message.contains("cannot tell the format; it begins with `[1, 2]`"), "{message}");
}

#[test]
fn formats_are_told_by_their_beginning() {
    let files = Files::new();
    for (name, text, expected) in [
        ("a", "id\ttitle\ttext\n1\ta\tb\n", FileFormat::PsgsTsv),
        ("b", "{\"_id\": \"1\", \"title\": \"\", \"text\": \"a\"}\n", FileFormat::BeirCorpus),
        ("c", "{\"_id\": \"1\", \"text\": \"a\"}\n", FileFormat::BeirQueries),
        ("d", "{\"docid\": \"1\", \"document_text\": \"a\"}\n", FileFormat::TevatronCorpus),
        ("e", "{\"docid\": \"1\", \"title\": \"T\", \"text\": \"a\"}\n", FileFormat::TevatronCorpusV1),
        ("f", "{\n \"version\": \"1.1\",\n \"data\": []}", FileFormat::Squad),
        ("g", "1\tfactoid\twho\tme|you\n", FileFormat::CuratedTrec),
        ("h", "who won?\n", FileFormat::PlainQuestions),
        ("i", "q1 0 d1 1\n", FileFormat::TrecQrels),
        ("j", "1 Q0 2 3 4.5 tag\n", FileFormat::TrecRun),
    ] {
        assert_eq!(FileFormat::detect(&files.write(name, text)).unwrap(), expected, "{text}");
        assert_eq!(
            FileFormat::detect(&files.write(name, gzip(text.as_bytes()))).unwrap(),
            expected,
            "{text}"
        );
    }
}
