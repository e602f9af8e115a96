//! Token ids equal those of Python's tokenizers, line by line.

use crate::golden;

use dpr_core::{EncoderConfig, ReaderConfig, TextTokenizer, TitleJoin, TokenizerError};
use golden::unpacked;
use serde_json::Value;

/// The ids of a list of numbers.
fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

#[test]
fn two_thousand_lines_tokenise_as_in_python() {
    let Some(dir) = golden::fetched("minilm") else { return };
    let golden: Value = serde_json::from_str(&unpacked("tokens/golden.json.gz")).unwrap();
    let mut config = EncoderConfig::from_json(&std::fs::read(dir.join("config.json")).unwrap()).unwrap();
    config.max_tokens = golden["max_tokens"].as_u64().unwrap_or(512) as usize;
    let tokenizer =
        TextTokenizer::from_json(&std::fs::read(dir.join("tokenizer.json")).unwrap(), &config).unwrap();
    let (lines, expected) = (golden["lines"].as_array().unwrap(), golden["ids"].as_array().unwrap());
    assert_eq!((lines.len(), expected.len()), (2000, 2000));
    for (line, expected) in lines.iter().zip(expected) {
        let line = line.as_str().unwrap();
        assert_eq!(tokenizer.question(line).unwrap(), ids(expected), "{line:?}");
    }
}

#[test]
fn the_binary_form_has_the_tokens_of_the_file_that_it_is_made_from() {
    let Some(dir) = golden::fetched("minilm") else { return };
    let config = EncoderConfig::from_json(&std::fs::read(dir.join("config.json")).unwrap()).unwrap();
    let json = std::fs::read(dir.join("tokenizer.json")).unwrap();
    let binary = TextTokenizer::compact(&json).unwrap().expect("WordPiece of BERT's kind");
    assert!(binary.len() < json.len() / 2, "{} of {} bytes", binary.len(), json.len());
    let [ours, theirs] = [&binary, &json].map(|bytes| TextTokenizer::from_bytes(bytes, &config).unwrap());
    let (corpus, golden) = (corpus(), unpacked("tokenizers/golden.json.gz"));
    let golden: Value = serde_json::from_str(&golden).unwrap();
    let in_every_script = golden["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    let odd = [
        "",
        " \u{a0}\u{2003}\t\r\n",
        "e\u{301}\u{308} \u{1e9e}ß İi ﬁ Å",
        "\u{0}\u{fffd}\u{feff}\u{200d}\u{202e}",
        "👩‍👩‍👧‍👦🇩🇪 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𠀀漢字",
        "[CLS] [SEP][MASK] [cls] ##ing # ##",
        "don't!?—“quoted”…",
    ];
    let long = ["a".repeat(101), "a".repeat(100), "Ünïcödé".repeat(40)];
    let texts = corpus.iter().map(String::as_str).chain(in_every_script).chain(odd);
    let mut compared = 0;
    for text in texts.chain(long.iter().map(String::as_str)) {
        assert_eq!(ours.question(text).unwrap(), theirs.question(text).unwrap(), "{text:?}");
        assert_eq!(ours.passage(text, "who won").unwrap(), theirs.passage(text, "who won").unwrap());
        compared += 1;
    }
    assert!(compared > 14_000, "{compared} texts");
}

/// The passages and the questions of the demo.
fn corpus() -> Vec<String> {
    let packed = std::fs::read(golden::root().join("web-demo/corpus/squad-dev-v1.1.json.gz")).unwrap();
    let squad: Value = serde_json::from_reader(flate2::read::GzDecoder::new(packed.as_slice())).unwrap();
    let list = |value: &Value, name: &str| value[name].as_array().unwrap().clone();
    let mut texts = Vec::new();
    for paragraph in list(&squad, "data").iter().flat_map(|article| list(article, "paragraphs")) {
        texts.push(paragraph["context"].as_str().unwrap().to_owned());
        texts.extend(
            list(&paragraph, "qas").iter().map(|asked| asked["question"].as_str().unwrap().to_owned()),
        );
    }
    texts
}

/// Returns a configuration of as many tokens as `tokenizers/golden.json.gz` was made for.
fn config_of(golden: &Value) -> EncoderConfig {
    let config = serde_json::json!({"model_type": "bert", "hidden_size": 4, "num_hidden_layers": 1,
        "num_attention_heads": 1, "intermediate_size": 4, "vocab_size": 5000,
        "max_position_embeddings": golden["max_tokens"]});
    EncoderConfig::from_json(config.to_string().as_bytes()).unwrap()
}

#[test]
fn unigram_and_byte_level_tokenise_two_thousand_lines_in_every_script_as_in_python() {
    let golden: Value = serde_json::from_str(&unpacked("tokenizers/golden.json.gz")).unwrap();
    let config = config_of(&golden);
    let lines: Vec<_> =
        golden["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    let pairs = golden["pairs"].as_array().unwrap();
    assert!(lines.len() == 2000 && pairs.len() > 100);
    for (name, file) in [("unigram", "unigram"), ("byte-level", "byte-level"), ("classic", "byte-level")] {
        let mut json: Value = serde_json::from_str(&unpacked(&format!("tokenizers/{file}.json.gz"))).unwrap();
        let expected = &golden["tokenizers"][name];
        json["post_processor"] = expected["post_processor"].clone();
        let tokenizer = TextTokenizer::from_json(json.to_string().as_bytes(), &config).unwrap();
        for (line, expected) in lines.iter().zip(expected["ids"].as_array().into_iter().flatten()) {
            assert_eq!(tokenizer.question(line).unwrap(), ids(expected), "{name}: {line:?}");
        }
        for (pair, expected) in pairs.iter().zip(expected["pair_ids"].as_array().unwrap()) {
            let [title, text] = [0, 1].map(|side| lines[pair[side].as_u64().unwrap() as usize]);
            assert_eq!(tokenizer.passage(title, text).unwrap(), ids(expected), "{name}: {title:?}, {text:?}");
        }
    }
}

#[test]
fn special_tokens_that_leave_no_room_for_a_text_are_refused() {
    let fixture = golden::root().join("tests/fixtures/readers/roberta");
    let [config, json] =
        ["config.json", "tokenizer.json"].map(|name| std::fs::read(fixture.join(name)).unwrap());
    let limited_to = |tokens| {
        let config = ReaderConfig::from_json(&config).unwrap().with_max_tokens(tokens);
        TextTokenizer::from_json(&json, config.encoder())
    };
    // One at the start, two between the texts, and one at the end.
    let error = limited_to(4).map(drop).unwrap_err();
    assert!(matches!(error, TokenizerError::Room { special: 4, max_tokens: 4 }), "{error}");
    assert_eq!(limited_to(5).unwrap().passage("Cats", "Cats sleep.").unwrap().len(), 5);
}

#[test]
fn a_title_longer_than_the_limit_leaves_room_for_the_text() {
    let fixture = golden::root().join("tests/fixtures/readers/roberta");
    let [config, json] =
        ["config.json", "tokenizer.json"].map(|name| std::fs::read(fixture.join(name)).unwrap());
    let config = ReaderConfig::from_json(&config).unwrap().with_max_tokens(24);
    let config = config.with_title_join(TitleJoin::Separator).unwrap();
    let tokenizer = TextTokenizer::from_json(&json, config.encoder()).unwrap();
    // Twenty tokens of texts, without the four special ones.
    let (long, texts) = ("Ships and castles ".repeat(20), ["Cats sleep.".repeat(9), "Dogs bark.".repeat(9)]);
    let [cats, dogs] = texts.each_ref().map(|text| tokenizer.passage(&long, text).unwrap());
    assert_eq!((cats.len(), dogs.len(), &cats[..11]), (24, 24, &dogs[..11]));
    let whole = texts.each_ref().map(|text| tokenizer.passage("", text).unwrap());
    for (ids, whole) in [(&cats, &whole[0]), (&dogs, &whole[1])] {
        assert_eq!(ids[13..23], whole[1..11], "half of the tokens are the text's");
    }
    assert_ne!(cats, dogs);
    // A title that fits keeps all of its tokens, and the text loses its end.
    let (title, text) = (tokenizer.passage("", "Cats").unwrap(), &whole[1]);
    let ids = tokenizer.passage("Cats", &texts[1]).unwrap();
    let own = title.len() - 2;
    assert_eq!(ids[..=own], title[..=own]);
    assert_eq!(ids[own + 3..23], text[1..21 - own]);
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
        serde_json::json!({"type": "Precompiled", "precompiled_charsmap": "AAAA"}),
        // An empty trie, with a type and without, as the library reads both.
        serde_json::json!({"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="}),
        serde_json::json!({"precompiled_charsmap": "AAAAAA=="}),
        serde_json::json!({"type": "Sequence", "normalizers": [{"type": "Precompiled"}]}),
    ] {
        value["normalizer"] = normalizer;
        refused(&value.to_string());
    }
    value["normalizer"] = Value::Null;
    value["model"] =
        serde_json::json!({"type": "Unigram", "unk_id": 0, "vocab": [["a".repeat(1 << 20), 0.0]]});
    refused(&value.to_string());
}

#[test]
fn the_largest_id_that_a_file_can_have_is_refused_as_any_that_has_no_row() {
    let fixture = golden::root().join("tests/fixtures/dpr-tiny/question");
    let config = EncoderConfig::from_json(&std::fs::read(fixture.join("config.json")).unwrap()).unwrap();
    let mut json: Value =
        serde_json::from_slice(&std::fs::read(fixture.join("tokenizer.json")).unwrap()).unwrap();
    json["model"]["vocab"]["extra"] = u32::MAX.into();
    let error = TextTokenizer::from_json(json.to_string().as_bytes(), &config).map(drop).unwrap_err();
    assert!(matches!(error, TokenizerError::Vocabulary { .. }), "{error}");
}

#[test]
fn a_damaged_normalization_table_is_refused_or_harmless() {
    use base64::Engine as _;
    let base64 = base64::engine::general_purpose::STANDARD;
    let golden: Value = serde_json::from_str(&unpacked("tokenizers/golden.json.gz")).unwrap();
    let config = config_of(&golden);
    let mut json: Value = serde_json::from_str(&unpacked("tokenizers/unigram.json.gz")).unwrap();
    let whole = json["normalizer"]["normalizers"][0]["precompiled_charsmap"].as_str().unwrap();
    let whole = base64.decode(whole).unwrap();
    let texts: Vec<_> =
        golden["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).take(40).collect();
    let (mut refused, mut random) = (0, 1u64);
    for round in 0..24 {
        let mut table = whole.clone();
        for _ in 0..1 + round % 4 * 8 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (random >> 33) as usize % if round % 2 == 0 { table.len() } else { 2048 };
            table[at] ^= (random >> 24) as u8 | 1;
        }
        json["normalizer"]["normalizers"][0]["precompiled_charsmap"] = base64.encode(table).into();
        match TextTokenizer::from_json(json.to_string().as_bytes(), &config) {
            Ok(tokenizer) => texts.iter().for_each(|text| drop(tokenizer.question(text))),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 4, "{refused} of 24 damaged tables are refused");
}
