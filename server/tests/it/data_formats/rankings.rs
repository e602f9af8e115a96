//! Judgements, runs and retriever results.

use dpr_data::{
    ConvertOptions, FileFormat, Qrels, QrelsLayout, RankedQuery, RetrievedContext, RetrieverResult, RunHit,
    convert, read_qrels, read_results, read_run, read_scored_run, write_qrels, write_results, write_run,
};

use crate::support::files::{Files, gunzip, gzip};

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
fn a_run_that_is_read_by_scores_may_have_one_rank_for_all() {
    let files = Files::new();
    let run = files.write("run", "q Q0 b 0 1.5 t\np Q0 b 0 1 t\nq Q0 a 0 3 t\n");
    let queries = read_scored_run(&run).unwrap();
    let hits = |at: usize| queries[at].hits.iter().map(|hit| (hit.passage.as_str(), hit.rank, hit.score));
    assert_eq!(hits(0).collect::<Vec<_>>(), [("b", 0, 1.5), ("a", 0, 3.0)]);
    assert_eq!(hits(1).collect::<Vec<_>>(), [("b", 0, 1.0)]);
    assert!(read_run(&run).unwrap_err().to_string().contains("query `q` has rank 0 at line 1"));
    let twice = files.write("twice", "q Q0 a 0 3 t\nq Q0 b 0 2 t\nq Q0 a 1 1 t\n");
    let error = read_scored_run(&twice).unwrap_err().to_string();
    assert!(error.contains("query `q` has passage `a` at line 1 and again at line 3"), "{error}");
}

#[test]
fn every_fault_of_a_run_is_named_with_its_place() {
    let files = Files::new();
    let cases: [(&str, &[u8], &str); 8] = [
        (
            "columns",
            b"q Q0 d 1 2.0\n",
            "line 1 has 5 columns, expected 6 separated by white space (no `tag`)",
        ),
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
        (
            "trec.txt",
            "q1 0 d1 1\nq1 0 d2\n".into(),
            "line 2 has 3 columns, expected 4 separated by white space (no `grade`)",
        ),
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
        assert_eq!(results, std::slice::from_ref(&expected));
        assert_eq!(FileFormat::detect(&path).unwrap(), FileFormat::DprResult);
    }
    let bad = files.write("bad.json", dpr.replace(", \"has_answer\": true", ""));
    let message = read_results(&bad).unwrap().next().unwrap().unwrap_err().to_string();
    assert!(
        message.contains("line 2, column") && message.contains("missing field `has_answer`"),
        "{message}"
    );
    let item = dpr.trim_start_matches('[').trim_end_matches(']');
    let blank = files.write("blank.json", format!("[{item},{}]", item.replace("\"q\"", "\" \"")));
    let mut results = read_results(&blank).unwrap();
    assert!(results.next().unwrap().is_ok());
    let message = results.next().unwrap().unwrap_err().to_string();
    assert!(message.contains("blank.json: item 2 has an empty `question`"), "{message}");
    assert!(results.next().is_none());
}
