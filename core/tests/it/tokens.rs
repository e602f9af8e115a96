//! Token ids equal those of Python's tokenizers, line by line.

use crate::golden;

use std::io::Read as _;

use dpr_core::{EncoderConfig, TextTokenizer};
use serde_json::Value;

#[test]
fn two_thousand_lines_tokenise_as_in_python() {
    let Some(dir) = golden::fetched("minilm") else { return };
    let packed = std::fs::read(golden::root().join("tests/fixtures/tokens/golden.json.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let mut config = EncoderConfig::from_json(&std::fs::read(dir.join("config.json")).unwrap()).unwrap();
    config.max_tokens = golden["max_tokens"].as_u64().unwrap_or(512) as usize;
    let tokenizer =
        TextTokenizer::from_json(&std::fs::read(dir.join("tokenizer.json")).unwrap(), &config).unwrap();
    let (lines, ids) = (golden["lines"].as_array().unwrap(), golden["ids"].as_array().unwrap());
    assert_eq!((lines.len(), ids.len()), (2000, 2000));
    for (line, expected) in lines.iter().zip(ids) {
        let line = line.as_str().unwrap();
        let expected: Vec<u32> =
            expected.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        assert_eq!(tokenizer.question(line).unwrap(), expected, "{line:?}");
    }
}

#[test]
fn files_that_the_library_would_panic_on_are_errors() {
    let fixture = golden::root().join("tests/fixtures/dpr-tiny/question");
    let config = EncoderConfig::from_json(&std::fs::read(fixture.join("config.json")).unwrap()).unwrap();
    let whole = std::fs::read_to_string(fixture.join("tokenizer.json")).unwrap();
    assert!(TextTokenizer::from_json(whole.as_bytes(), &config).is_ok());
    let refused = |text: &str| {
        let error = TextTokenizer::from_json(text.as_bytes(), &config).map(drop).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json cannot be read"), "{error}");
    };
    // Cut short anywhere in the decoder.
    let start = whole.find("\"decoder\"").unwrap();
    (start..start + 60).for_each(|end| refused(&whole[..end]));
    refused(&whole.replacen("\"decoder\"", &format!("\"decoder\": {}", "[".repeat(200)), 1));
    let mut value: Value = serde_json::from_str(&whole).unwrap();
    for normalizer in [
        serde_json::json!({"type": "Precompiled", "precompiled_charsmap": 7}),
        serde_json::json!({"type": "Sequence", "normalizers": [{"type": "Precompiled"}]}),
    ] {
        value["normalizer"] = normalizer;
        refused(&value.to_string());
    }
}
