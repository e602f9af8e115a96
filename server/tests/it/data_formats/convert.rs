//! Passages in every layout, and one format made of another.

use std::path::Path;

use dpr_data::{
    ConvertError, ConvertOptions, CorpusLayout, FileFormat, TrainingItem, convert, read_passages,
    read_questions, read_tevatron, read_training, write_corpus,
};

use super::context;
use crate::support::files::{Files, gunzip, gzip, passage};

fn lossy() -> ConvertOptions {
    ConvertOptions { lossy: true, passages: None }
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

    let metadata = dpr_data::Metadata::new([("lang", "en")]).unwrap();
    let described = passage("9", "T", "Text.").with_metadata(metadata);
    let corpus = files.path("described.jsonl");
    write_corpus(&corpus, CorpusLayout::Beir, |out| out.write(&described)).unwrap();
    let line = "{\"_id\":\"9\",\"title\":\"T\",\"text\":\"Text.\",\"metadata\":{\"lang\":\"en\"}}\n";
    assert_eq!(fs_err::read_to_string(&corpus).unwrap(), line);
    assert_eq!(read_passages(&corpus).unwrap(), [described]);
    for to in [FileFormat::PsgsTsv, FileFormat::TevatronCorpus, FileFormat::TevatronCorpusV1] {
        let out = files.path("without");
        let refused = convert(&corpus, FileFormat::BeirCorpus, &out, to, &ConvertOptions::default());
        assert!(matches!(refused, Err(ConvertError::Lost { what: "metadata", .. })), "{to}");
        assert_eq!(convert(&corpus, FileFormat::BeirCorpus, &out, to, &lossy()).unwrap().items, 1);
    }

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
    let spaced = files.write("spaced.jsonl", "{\"_id\": \"1\", \"title\": \"T\", \"text\": \" a \"}\n");
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
        (
            &spaced,
            F::BeirCorpus,
            F::PsgsTsv,
            "white space at the ends of ids, titles and texts (first at passage `1`)",
        ),
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
    // All that is left out is told, and of how many items.
    let ids = files.write("ids.tsv", "7\tfactoid\tq\tr+\n9\tfactoid\tq\ts+\n");
    let lost = convert(&ids, F::CuratedTrec, &path, F::QaTsv, &lossy()).unwrap().lost;
    let patterns = "the mark that answers are regular expressions";
    assert_eq!(lost, [("ids other than line numbers", 2), (patterns, 2)].into());
    convert(&title, F::BeirCorpus, &path, F::PsgsTsv, &lossy()).unwrap();
    assert_eq!(read_passages(&path).unwrap(), [passage("1", "T", "T")]);
    convert(&squad, F::Squad, &path, F::PsgsTsv, &lossy()).unwrap();
    assert_eq!(read_passages(&path).unwrap(), [passage("0-0", "A b", "two lines")]);
}

#[test]
fn what_is_written_at_a_loss_can_be_read() {
    let files = Files::new();
    let spaced = files.write("a.jsonl", "{\"_id\":\" 1\",\"text\":\"a\"}\n{\"_id\":\"2 \",\"text\":\"b\"}\n");
    let path = files.path("p.tsv");
    convert(&spaced, FileFormat::BeirCorpus, &path, FileFormat::PsgsTsv, &lossy()).unwrap();
    assert_eq!(read_passages(&path).unwrap(), [passage("1", "", "a"), passage("2", "", "b")]);
    let same = files.write("b.jsonl", "{\"_id\":\" 1\",\"text\":\"a\"}\n{\"_id\":\"1\",\"text\":\"b\"}\n");
    let error = convert(&same, FileFormat::BeirCorpus, &path, FileFormat::PsgsTsv, &lossy()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("the id `1` is at passage 1 and again at passage 2"), "{error}");
    assert_eq!(read_passages(&path).unwrap().len(), 2, "as it was");
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
        (&ids, F::TevatronV2, F::DprTraining, lossy(), "names passages by their ids: give their corpus"),
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
        ("k", "{\"query_id\": \"1\", \"query\": \"who\"}\n", FileFormat::BeirQueries),
        ("l", "{\"query_id\": \"1\", \"query_text\": \"who\"}\n", FileFormat::BeirQueries),
        (
            "m",
            "{\"query_id\": \"1\", \"query\": \"who\", \"positive_passages\": []}\n",
            FileFormat::TevatronV1,
        ),
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
