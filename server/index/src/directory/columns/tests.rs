//! Columns against conditions evaluated passage by passage, and damaged files.

use dpr_core::random::SplitMix;
use dpr_data::{Metadata, Number, Value};

use super::*;

/// Random metadata: fields of one kind and of several, common values and rare ones, and passages with none.
fn corpus(rows: usize) -> Vec<Metadata> {
    let mut random = SplitMix::new(5);
    let mut passage = |row: usize| {
        let mut metadata = Metadata::default();
        let mut add = |name: &str, value: Value| metadata.insert(name.to_owned(), value).unwrap();
        if row % 10 == 9 {
            return metadata;
        }
        add("lang", ["de", "en", "", "日本"][random.below(4)].into());
        add("is_draft", (random.below(100) == 0).into());
        add("number", (row as i32).into());
        add("score", Number::new(random.normal()).map(Value::Number).unwrap());
        match random.below(3) {
            0 => add("mixed", (random.below(5) as i32 - 2).into()),
            1 => add("mixed", format!("{}", random.below(5)).into()),
            _ => add("mixed", (random.below(2) == 0).into()),
        }
        metadata
    };
    (0..rows).map(&mut passage).collect()
}

/// Returns the columns of some passages, and their digest.
fn bytes_of(passages: &[Metadata]) -> (Vec<u8>, ColumnsDigest) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ColumnsWriter::new(dir.path());
    passages.iter().for_each(|metadata| writer.add(metadata).unwrap());
    let mut bytes = Vec::new();
    writer.write(&mut bytes).unwrap();
    let digests = (0..).zip(passages).map(|(row, metadata)| ColumnsDigest::of(row, metadata));
    (bytes, digests.fold(ColumnsDigest::default(), ColumnsDigest::and))
}

fn open(bytes: &[u8], rows: usize) -> Result<Columns, FileError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metadata.columns");
    fs_err::write(&path, bytes).unwrap();
    Columns::open(&path, Mapped::open(&path).unwrap(), rows)
}

#[test]
fn every_condition_gives_the_rows_for_which_it_holds() {
    let passages = corpus(9000);
    let (bytes, digest) = bytes_of(&passages);
    let columns = open(&bytes, passages.len()).unwrap();
    columns.check(digest).unwrap();
    for condition in [
        r#"{"field":"lang","eq":"en"}"#,
        r#"{"field":"lang","eq":""}"#,
        r#"{"field":"lang","eq":"fr"}"#,
        r#"{"field":"lang","eq":7}"#,
        r#"{"field":"none","eq":7}"#,
        r#"{"field":"none","in":[7]}"#,
        r#"{"field":"none","gt":7}"#,
        r#"{"not":{"field":"none","eq":7}}"#,
        r#"{"field":"lang","in":["en","日本",true,3]}"#,
        r#"{"field":"lang","gt":"de","lte":"en"}"#,
        r#"{"field":"lang","lt":"e"}"#,
        r#"{"field":"is_draft","eq":true}"#,
        r#"{"not":{"field":"is_draft","eq":true}}"#,
        r#"{"field":"number","gte":100,"lt":8000}"#,
        r#"{"field":"number","gt":100,"lte":101}"#,
        r#"{"field":"number","gt":100,"lt":101}"#,
        r#"{"field":"number","gt":200,"lt":101}"#,
        r#"{"field":"number","gte":-1e300}"#,
        r#"{"field":"score","gt":0}"#,
        r#"{"field":"score","gte":-0.5,"lte":0.5}"#,
        r#"{"field":"score","lt":"0"}"#,
        r#"{"field":"mixed","gte":-1}"#,
        r#"{"field":"mixed","gte":"1","lt":"4"}"#,
        r#"{"field":"mixed","in":[0,"0",false]}"#,
        r#"{"and":[{"field":"lang","eq":"en"},{"field":"number","lt":4000},{"not":{"field":"mixed","eq":"2"}}]}"#,
        r#"{"and":[{"field":"lang","eq":"fr"},{"field":"number","lt":4000}]}"#,
        r#"{"or":[{"field":"lang","eq":"de"},{"field":"is_draft","eq":true},{"field":"number","eq":9}]}"#,
        r#"{"not":{"or":[{"field":"lang","eq":"de"},{"not":{"field":"mixed","lt":1}}]}}"#,
    ] {
        let parsed: Condition = serde_json::from_str(condition).unwrap();
        let holds = |row: &u32| parsed.allows(&passages[*row as usize]);
        let expected: Vec<u32> = (0..passages.len() as u32).filter(holds).collect();
        assert!(
            columns.rows_with(&parsed, &CancelToken::never()).unwrap().iter().eq(expected.iter().copied()),
            "{condition}"
        );
    }
    let unbounded = Condition::Range {
        field: "mixed".to_owned(),
        from: std::ops::Bound::Unbounded,
        to: std::ops::Bound::Unbounded,
    };
    let with_field = passages.iter().filter(|metadata| unbounded.allows(metadata)).count();
    assert_eq!(columns.rows_with(&unbounded, &CancelToken::never()).unwrap().len(), with_field as u64);
}

#[test]
fn a_condition_is_not_looked_at_further_once_it_is_cancelled() {
    let passages = corpus(30_000);
    let columns = open(&bytes_of(&passages).0, passages.len()).unwrap();
    for (condition, least) in [
        // 24,000 posting lists of a row each, 37 bytes of work: a look for each 3,500 or so.
        (r#"{"field":"number","gte":0}"#, 7),
        (r#"{"not":{"and":[{"field":"score","gt":-100},{"field":"number","lt":20000}]}}"#, 13),
        (r#"{"or":[{"field":"lang","eq":"de"},{"field":"lang","eq":"en"},{"field":"none","eq":1}]}"#, 4),
    ] {
        let condition: Condition = serde_json::from_str(condition).unwrap();
        let whole = CancelToken::new();
        let rows = columns.rows_with(&condition, &whole).unwrap();
        assert!(whole.looks() >= least, "{condition:?}: {} looks", whole.looks());
        for look in 1..=whole.looks() {
            let cancel = CancelToken::at_look(look);
            let stopped = columns.rows_with(&condition, &cancel);
            assert!(matches!(stopped, Err(SearchError::Stopped(Stopped::Cancelled))), "{look}: {stopped:?}");
            assert_eq!(cancel.looks(), look, "nothing is read after the look that says to stop");
        }
        assert_eq!(columns.rows_with(&condition, &CancelToken::never()).unwrap(), rows);
    }
}

#[test]
fn the_file_is_laid_out_as_documented() {
    let passages = [
        Metadata::new([("b", Value::from(true)), ("a", Value::from("x"))]).unwrap(),
        Metadata::default(),
        Metadata::new([("a", Value::from("0.5")), ("b", Value::from(3))]).unwrap(),
    ];
    let mut expected = b"DPRMETA1".to_vec();
    expected.extend(3_u64.to_le_bytes());
    expected.extend(2_u32.to_le_bytes());
    expected.extend(b"\x01a");
    expected.extend([2_u32, 0, 0].map(u32::to_le_bytes).as_flattened());
    expected.extend([3_u64, 4].map(u64::to_le_bytes).as_flattened());
    expected.extend(b"0.5x");
    expected.extend([5_u64, 10].map(u64::to_le_bytes).as_flattened());
    expected.extend([0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend(b"\x01b");
    expected.extend([0_u32, 1, 1].map(u32::to_le_bytes).as_flattened());
    expected.extend(3_f64.to_le_bytes());
    expected.push(1);
    expected.extend([5_u64, 10].map(u64::to_le_bytes).as_flattened());
    expected.extend([0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes_of(&passages).0, expected);
}

#[test]
fn what_is_sorted_in_files_is_written_as_what_is_sorted_in_memory() {
    let passages = corpus(20_000);
    let expected = bytes_of(&passages).0;
    // From no run to more than are merged at a time.
    for (buffer, least) in [(4 << 20, 1), (500_000, 4), (20_000, 65)] {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = ColumnsWriter::with_buffer(dir.path(), buffer);
        passages.iter().for_each(|metadata| writer.add(metadata).unwrap());
        assert!(writer.spilled() >= least - 1, "{} runs of {buffer} bytes", writer.spilled());
        let mut bytes = Vec::new();
        writer.write(&mut bytes).unwrap();
        assert!(bytes == expected, "{buffer}");
        writer.finish().unwrap();
        assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 0, "nothing is left behind");
    }
    // Nor by a build that is given up.
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ColumnsWriter::with_buffer(dir.path(), 20_000);
    passages.iter().for_each(|metadata| writer.add(metadata).unwrap());
    drop(writer);
    assert_eq!(fs_err::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn values_are_sorted_by_kind_and_order_whatever_they_are() {
    let mut numbers: Vec<f64> =
        vec![0.0, 1.0, -1.0, 0.5, -0.5, 1e300, -1e300, f64::MIN_POSITIVE, 5e-324, -5e-324];
    let mut random = SplitMix::new(11);
    numbers.extend((0..500).map(|_| random.normal() * 10_f64.powi(random.below(40) as i32 - 20)));
    let texts = ["", "a", "aa", "b", "\u{0}", "ä", "日本", "\u{10ffff}"];
    let values = numbers.iter().map(|number| Number::new(*number).map(Value::Number).unwrap());
    let values = values.chain(texts.map(Value::from)).chain([true.into(), false.into()]);
    let passages: Vec<Metadata> = values.map(|value| Metadata::new([("a", value)]).unwrap()).collect();
    let (bytes, digest) = bytes_of(&passages);
    open(&bytes, passages.len()).unwrap().check(digest).unwrap();
}

#[test]
fn columns_of_other_passages_are_told() {
    let passages = corpus(50);
    let columns = open(&bytes_of(&passages).0, 50).unwrap();
    for row in [0, 20, 48] {
        let mut other = passages.clone();
        other[row] = Metadata::new([("lang", "fr")]).unwrap();
        let error = columns.check(bytes_of(&other).1).unwrap_err();
        assert!(error.to_string().contains("not made of the passages"), "{error}");
    }
    assert!(open(&bytes_of(&passages).0, 51).unwrap_err().to_string().contains("columns of 50 rows, not 51"));
}

#[test]
fn any_cut_is_refused_and_flipped_bits_are_refused_or_give_rows_of_the_index() {
    let passages = corpus(40);
    let (bytes, _) = bytes_of(&passages);
    for end in 0..bytes.len() {
        assert!(parse(&bytes[..end], 40).is_err(), "cut at {end}");
    }
    let longer = [bytes.as_slice(), &[0]].concat();
    assert!(parse(&longer, 40).unwrap_err().contains("1 bytes too many"));

    let ask = [
        r#"{"field":"lang","gte":""}"#,
        r#"{"field":"mixed","gt":-5}"#,
        r#"{"field":"is_draft","eq":false}"#,
    ];
    let ask = ask.map(|condition| serde_json::from_str::<Condition>(condition).unwrap());
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let Ok(columns) = open(&flipped, 40) else { continue };
        for condition in &ask {
            if let Ok(rows) = columns.rows_with(condition, &CancelToken::never()) {
                assert!(rows.max().is_none_or(|row| row < 40), "bit {bit}");
            }
        }
    }
}

#[test]
fn sizes_beyond_the_file_are_refused_before_anything_is_made_of_them() {
    let head = |fields: u32| {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(7_u64.to_le_bytes());
        bytes.extend(fields.to_le_bytes());
        bytes
    };
    assert!(parse(&head(u32::MAX), 7).unwrap_err().contains("it ends within"));
    let mut counts = head(1);
    counts.extend(b"\x01a");
    counts.extend([u32::MAX; 3].map(u32::to_le_bytes).as_flattened());
    assert!(parse(&counts, 7).unwrap_err().contains("it ends within the 34359738360 bytes"));
    let mut end = head(1);
    end.extend(b"\x01a");
    end.extend([1_u32, 0, 0].map(u32::to_le_bytes).as_flattened());
    end.extend(u64::MAX.to_le_bytes());
    assert!(parse(&end, 7).unwrap_err().contains("it ends within"));
    assert!(open(&end, 7).unwrap_err().to_string().contains("metadata.columns"));
}
