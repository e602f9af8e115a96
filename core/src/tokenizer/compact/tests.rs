use serde_json::{Value, json};

use super::super::{TextTokenizer, TokenizerError};
use super::*;
use crate::config::EncoderConfig;

/// A file of BERT's kind with these tokens, and with `change` made to it.
fn file(change: impl Fn(&mut Value)) -> Vec<u8> {
    let token = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": id == 3,
            "normalized": id == 1, "special": true})
    };
    let words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "who", "won", "##s", "ü", "e", "漢"];
    let vocab: serde_json::Map<_, _> = (0..).zip(words).map(|(id, word)| (word.into(), json!(id))).collect();
    let mut file = json!({
        "version": "1.0",
        "truncation": {"max_length": 128, "strategy": "LongestFirst", "stride": 0},
        "added_tokens": [token(3, "[SEP]"), token(1, "[UNK]"), token(2, "[CLS]")],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocab},
    });
    change(&mut file);
    file.to_string().into_bytes()
}

fn written(change: impl Fn(&mut Value)) -> Option<Vec<u8>> {
    TextTokenizer::compact(&file(change)).unwrap()
}

fn config() -> EncoderConfig {
    let config = json!({"model_type": "bert", "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 1,
        "intermediate_size": 4, "vocab_size": 10, "max_position_embeddings": 32});
    EncoderConfig::from_json(config.to_string().as_bytes()).unwrap()
}

/// Where the settings of [`file`] end and its tokens begin.
fn tokens_at(bytes: &[u8]) -> usize {
    bytes.windows(6).position(|window| window == b"[PAD]\n").unwrap()
}

#[test]
fn all_settings_are_held() {
    let texts = ["Who wons Ü e\u{301} é 漢字 \u{1}who\u{a0}won", "[SEP]  who [CLS]won[UNK]", "", "whos whox"];
    for bits in 0..8 {
        for accents in [Value::Null, json!(true), json!(false)] {
            let change = |file: &mut Value| {
                let is = |bit: u32| json!(bits & bit != 0);
                file["normalizer"] = json!({"type": "BertNormalizer", "clean_text": is(1),
                    "handle_chinese_chars": is(2), "strip_accents": accents, "lowercase": is(4)});
                file["model"]["max_input_chars_per_word"] = json!(4);
            };
            let (json, config) = (file(change), config());
            let [ours, theirs] = [&written(change).unwrap(), &json]
                .map(|bytes| TextTokenizer::from_bytes(bytes, &config).unwrap());
            for text in texts {
                assert_eq!(ours.question(text).unwrap(), theirs.question(text).unwrap(), "{bits} {text:?}");
                assert_eq!(ours.passage("who", text).unwrap(), theirs.passage("who", text).unwrap());
            }
        }
    }
}

#[test]
fn what_the_form_does_not_hold_has_none() {
    assert!(written(|_| ()).is_some());
    let changes: [fn(&mut Value); 9] = [
        |file| file["normalizer"] = json!({"type": "Lowercase"}),
        |file| file["normalizer"] = Value::Null,
        |file| file["pre_tokenizer"] = json!({"type": "Whitespace"}),
        |file| file["pre_tokenizer"] = Value::Null,
        |file| file["model"] = json!({"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0}}),
        |file| file["model"]["unk_token"] = json!("[NONE]"),
        // An id without a token, a token with a line feed, and an added token that is not in the vocabulary.
        |file| file["model"]["vocab"]["漢"] = json!(11),
        |file| file["model"]["vocab"]["a\nb"] = json!(10),
        |file| file["added_tokens"][0]["content"] = json!("[NEW]"),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert_eq!(written(change), None, "change {at}");
    }
    let damaged = TextTokenizer::compact(b"{}").unwrap_err();
    assert!(matches!(damaged, TokenizerError::Format(_)), "{damaged}");
}

#[test]
fn a_form_that_is_cut_short_or_longer_is_refused() {
    let whole = written(|_| ()).unwrap();
    for end in 0..whole.len() {
        assert!(read(&whole[..end]).is_err(), "cut to {end} of {} bytes", whole.len());
    }
    assert!(read(&[whole.as_slice(), b"x\n"].concat()).is_err());
    read(&whole).unwrap();
}

#[test]
fn a_changed_byte_is_an_error_or_another_tokenizer_and_never_a_panic() {
    let (whole, config) = (written(|_| ()).unwrap(), config());
    for at in 0..whole.len() {
        for by in [1, 7, 128, 255] {
            let mut changed = whole.clone();
            changed[at] = changed[at].wrapping_add(by);
            if let Ok(tokenizer) = TextTokenizer::from_bytes(&changed, &config) {
                let _ = tokenizer.passage("who won", "漢字 whos");
            }
        }
    }
}

#[test]
fn what_is_wrong_is_named() {
    let whole = written(|_| ()).unwrap();
    let tokens = tokens_at(&whole);
    let changed = |at: usize, bytes: &[u8]| {
        let mut changed = whole.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    // The settings begin behind the first 8 bytes, and have a prefix of 2 bytes.
    let most = u32::MAX.to_le_bytes();
    let cases = [
        (b"DPRVOCA2".to_vec(), "does not begin with"),
        (changed(8, &[32]), "bits 0x20 of its settings are not all known"),
        (changed(10, &[0xff]), "its prefix is not UTF-8"),
        (changed(12, &1001u32.to_le_bytes()), "words may have more than 1,000 characters"),
        (changed(16, &most), "its unknown token has the id 4294967295, and there are 10 tokens"),
        (changed(20, &most), "does not hold the 4294967295 tokens that it promises"),
        (changed(24, &most), "promises 4294967295 bytes of tokens and has"),
        (changed(tokens - 5, &most), "its added token has the id 4294967295"),
        (changed(tokens - 1, &[64]), "bits 0x40 of its added tokens are not all known"),
        (changed(tokens, b"\n"), "does not hold the 10 tokens"),
        (changed(tokens, b"[UNK]"), "its tokens 0 and 1 are both \"[UNK]\""),
        (changed(tokens, &[0xff]), "its tokens are not UTF-8"),
        (changed(whole.len() - 1, b"x"), "does not hold the 10 tokens"),
    ];
    for (bytes, expected) in cases {
        let error = read(&bytes).map(drop).unwrap_err();
        assert!(error.contains(expected), "{error:?} does not say {expected:?}");
    }
    let few = EncoderConfig { vocab_size: 9, ..config() };
    let error = TextTokenizer::from_bytes(&whole, &few).map(drop).unwrap_err();
    assert!(matches!(error, TokenizerError::Vocabulary { tokens: 10, vocab_size: 9 }), "{error}");
    let error = TextTokenizer::from_bytes(&whole[..20], &config()).map(drop).unwrap_err().to_string();
    assert!(
        error.starts_with("the binary vocabulary cannot be read: it ends within its settings;"),
        "{error}"
    );
}

#[test]
fn a_token_of_more_bytes_than_any_vocabulary_has_is_refused() {
    let long = "a".repeat(MAX_TOKEN + 1);
    let change = |file: &mut Value| file["model"]["vocab"][&long] = json!(10);
    assert_eq!(written(change), None);
    let mut bytes = written(|file| file["model"]["vocab"][&long[1..]] = json!(10)).unwrap();
    let length = u32::from_le_bytes(bytes[24..28].try_into().unwrap()) + 1;
    bytes[24..28].copy_from_slice(&length.to_le_bytes());
    bytes.insert(bytes.len() - 1, b'a');
    assert_eq!(read(&bytes).map(drop).unwrap_err(), "its token 10 has not from 1 to 1024 bytes");
}

#[test]
fn added_tokens_that_stand_for_nothing_are_refused_in_both_forms() {
    let whole = written(|_| ()).unwrap();
    let of = |token: &[u8]| whole.windows(5).position(|window| window == token).unwrap();
    // [UNK] is normalized, and [SEP] takes the white space behind it along.
    for (at, token, said) in [(1, b"[UNK]", "\u{1}\u{1}\u{1}\u{1}\u{1}"), (0, b"[SEP]", "     ")] {
        let error = format!("the added token {said:?} stands for nothing: a text has it everywhere");
        let mut binary = whole.clone();
        binary[of(token)..][..5].copy_from_slice(said.as_bytes());
        assert_eq!(read(&binary).map(drop).unwrap_err(), error);
        let json = file(|file| file["added_tokens"][at]["content"] = json!(said));
        let refused = TextTokenizer::from_bytes(&json, &config()).map(drop).unwrap_err().to_string();
        assert!(refused.contains(&error), "{refused}");
        assert!(TextTokenizer::compact(&json).is_err());
    }
}
