//! Training data as DPR released it.

use std::io::Write as _;

use dpr_data::{ConvertOptions, DataError, FileFormat, TrainingItem, convert, read_training, write_training};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::context;
use crate::support::files::{Files, gunzip, gzip};
use crate::support::shared::shared;

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
