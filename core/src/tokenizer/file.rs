//! Reader of a `tokenizer.json`, part by part: the parts are those of the `tokenizers` library, made by its constructors.
//!
//! The library's own reader tries each part as every type there is, panics on some damaged files, and would make the
//! browser's module a tenth larger. This one goes by the `type` of each part, and its errors name the field that is wrong.

mod charsmap;
mod field;
mod model;
mod normalizer;
mod pre_tokenizer;

use serde_json::Value;
use tokenizers::{AddedToken, Tokenizer};

use field::Field;

/// The parts of a `tokenizer.json` that ids depend on.
pub(super) struct File {
    /// The tokenizer without truncation, padding, post-processor and decoder.
    pub(super) inner: Tokenizer,
    /// `added_tokens` in the order of the file; the tokenizer has them.
    pub(super) added: Vec<AddedToken>,
    /// `post_processor` as it is in the file.
    pub(super) post_processor: Value,
}

/// Reads a `tokenizer.json`.
///
/// # Errors
/// Says what in the file is wrong.
pub(super) fn read(bytes: &[u8]) -> Result<File, String> {
    let mut file: Value = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    let root = Field::root(&file);
    if let Some(version) = root.get("version").some()
        && version.text()? != "1.0"
    {
        return Err(version.is_not("\"1.0\""));
    }
    let mut inner = Tokenizer::new(model::read(&root.get("model"))?);
    if let Some(normalizer) = root.get("normalizer").some() {
        inner.with_normalizer(Some(normalizer::read(&normalizer)?));
    }
    if let Some(pre_tokenizer) = root.get("pre_tokenizer").some() {
        inner.with_pre_tokenizer(Some(pre_tokenizer::read(&pre_tokenizer)?));
    }
    let mut added = Vec::new();
    if let Some(tokens) = root.get("added_tokens").some() {
        added = tokens.items()?.map(|token| added_token(&token)).collect::<Result<_, _>>()?;
        super::added::add(&mut inner, &added)?;
    }
    Ok(File { inner, added, post_processor: file["post_processor"].take() })
}

/// Reads one of `added_tokens`.
fn added_token(token: &Field<'_>) -> Result<AddedToken, String> {
    Ok(AddedToken {
        content: token.get("content").text()?.to_owned(),
        single_word: token.get("single_word").flag()?,
        lstrip: token.get("lstrip").flag()?,
        rstrip: token.get("rstrip").flag()?,
        normalized: token.get("normalized").flag()?,
        special: token.get("special").flag()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A file with these parts around a small vocabulary.
    fn file(name: &str, part: Value) -> Vec<u8> {
        let model = json!({"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1}});
        let mut file = json!({"version": "1.0", "added_tokens": [], "model": model});
        file[name] = part;
        file.to_string().into_bytes()
    }

    /// Parts of every kind, as the library writes them.
    fn parts() -> Vec<(&'static str, Value)> {
        let normalizers = [
            json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": false, "strip_accents": null,
                "lowercase": true}),
            json!({"type": "BertNormalizer", "clean_text": false, "handle_chinese_chars": true, "strip_accents": true,
                "lowercase": false}),
            json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFD"}, {"type": "NFKC"},
                {"type": "NFKD"}, {"type": "Nmt"}, {"type": "Lowercase"}, {"type": "StripAccents"}, {"type": "ByteLevel"},
                {"type": "Strip", "strip_left": true, "strip_right": false}, {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
                {"type": "Replace", "pattern": {"String": "``"}, "content": "\""}]}),
        ];
        let pre_tokenizers = [
            json!({"type": "BertPreTokenizer"}),
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}),
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false}),
            json!({"type": "CharDelimiterSplit", "delimiter": "▁"}),
            json!({"type": "FixedLength", "length": 3}),
            json!({"type": "FixedLength"}),
            json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false}),
            json!({"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}),
            json!({"type": "Metaspace", "replacement": "▁", "add_prefix_space": false, "prepend_scheme": "never"}),
            json!({"type": "Punctuation"}),
            json!({"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "WhitespaceSplit"},
                {"type": "UnicodeScripts"}, {"type": "Digits", "individual_digits": true},
                {"type": "Punctuation", "behavior": "Contiguous"},
                {"type": "Split", "pattern": {"String": "."}, "behavior": "MergedWithPrevious", "invert": false},
                {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}(?!x)"}, "behavior": "MergedWithNext",
                    "invert": true}]}),
        ];
        let words = json!({"a": 0, "b": 1, "ab": 2, "<unk>": 3});
        let models = [
            json!({"type": "WordLevel", "unk_token": "<unk>", "vocab": words}),
            json!({"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##",
                "max_input_chars_per_word": 7, "vocab": words}),
            json!({"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
                "end_of_word_suffix": "</w>", "fuse_unk": true, "byte_fallback": true, "ignore_merges": true,
                "vocab": words, "merges": [["a", "b"]]}),
            json!({"type": "BPE", "vocab": words, "merges": ["#version: 0.2", "a b"]}),
            json!({"type": "Unigram", "unk_id": 1, "byte_fallback": false, "vocab": [["a", -1.5], ["<unk>", 0.0]]}),
            // From before there were types.
            json!({"dropout": null, "vocab": words, "merges": ["a b"]}),
            json!({"unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 7,
                "vocab": words}),
            json!({"unk_token": "<unk>", "vocab": words}),
            json!({"unk_id": null, "vocab": [["a", -1.5]]}),
        ];
        let named = |name, parts: &[Value]| parts.iter().map(|part| (name, part.clone())).collect::<Vec<_>>();
        let mut all = named("normalizer", &normalizers);
        all.extend(named("pre_tokenizer", &pre_tokenizers));
        all.extend(named("model", &models));
        all
    }

    #[test]
    fn every_part_is_the_one_that_the_library_reads() {
        for (name, part) in parts() {
            let bytes = file(name, part.clone());
            let library = Tokenizer::from_bytes(&bytes).map_err(|e| format!("{part}: {e}")).unwrap();
            let ours = read(&bytes).map_err(|e| format!("{part}: {e}")).unwrap().inner;
            let [ours, library] = [ours, library].map(|tokenizer| serde_json::to_value(&tokenizer).unwrap());
            assert_eq!(ours[name], library[name], "{part}");
        }
    }

    #[test]
    fn a_text_has_the_same_ids_with_the_dropout_of_training_as_without() {
        let with = |dropout: Value| {
            let words = json!({"a": 0, "b": 1, "ab": 2});
            let bpe = json!({"type": "BPE", "dropout": dropout, "vocab": words, "merges": [["a", "b"]]});
            read(&file("model", bpe)).unwrap().inner
        };
        let (without, with) = (with(Value::Null), with(json!(0.9)));
        assert_eq!(without.to_string(false).unwrap(), with.to_string(false).unwrap());
        let text = "ab".repeat(20);
        for tokenizer in [without, with] {
            assert_eq!(tokenizer.encode_fast(text.as_str(), false).unwrap().get_ids(), [2; 20]);
        }
    }

    #[test]
    fn added_tokens_keep_what_the_file_says_of_them() {
        let token = |id: u32, content: &str, flag: bool| {
            json!({"id": id, "content": content, "single_word": flag, "lstrip": !flag, "rstrip": flag,
                "normalized": !flag, "special": flag})
        };
        let bytes = file("added_tokens", json!([token(1, "a", true), token(2, "[NEW]", false)]));
        let (ours, library) = (read(&bytes).unwrap().inner, Tokenizer::from_bytes(&bytes).unwrap());
        assert_eq!(ours.to_string(false).unwrap(), library.to_string(false).unwrap());
    }

    #[test]
    fn a_wrong_field_is_named() {
        let words = json!({"a": 0, "b": 1, "ab": 2});
        let longer = |pattern: Value, content: &str| json!({"type": "Replace", "pattern": pattern, "content": content});
        let cases = [
            ("version", json!("2.0"), "its version is not \"1.0\""),
            ("model", Value::Null, "it lacks model.type"),
            ("model", json!({"type": "Neural"}), "its model.type is not a model that is known"),
            (
                "model",
                json!({"type": "WordLevel", "unk_token": "a", "vocab": {"a": -1}}),
                "gives \"a\" no id",
            ),
            ("model", json!({"type": "WordPiece", "vocab": words}), "it lacks model.unk_token, a string"),
            (
                "model",
                json!({"type": "BPE", "vocab": words, "merges": ["a b c"]}),
                "\"a b c\" is not two tokens",
            ),
            ("model", json!({"type": "BPE", "vocab": words, "merges": ["a x"]}), "`x`"),
            (
                "model",
                json!({"type": "BPE", "dropout": "0.1", "vocab": words, "merges": []}),
                "its model.dropout is not a number",
            ),
            // The library cuts a prefix off the second token without looking, and panics.
            (
                "model",
                json!({"type": "BPE", "vocab": words, "merges": ["a b"], "continuing_subword_prefix": "##"}),
                "is not two tokens",
            ),
            ("model", json!({"type": "Unigram", "vocab": [["a", 0.0], ["b"]]}), "entry 1 of its vocabulary"),
            ("model", json!({"type": "Unigram", "vocab": [["a".repeat(1025), 0.0]]}), "at most 1024 bytes"),
            (
                "model",
                json!({"type": "WordPiece", "unk_token": "a", "continuing_subword_prefix": "##",
                    "max_input_chars_per_word": 1001, "vocab": words}),
                "its model.max_input_chars_per_word is not at most 1,000",
            ),
            (
                "normalizer",
                json!({"type": "Sequence", "normalizers": vec![longer(json!({"String": "a"}), "aaaaaaaaaa"); 3]}),
                "its normalizer.normalizers[2] is not one that leaves a text within 256 times its length",
            ),
            (
                "normalizer",
                json!({"type": "Sequence", "normalizers": vec![longer(json!({"String": "aa"}), "aaa"); 9]}),
                "within 256 times",
            ),
            // What matches nothing is put between all characters.
            (
                "normalizer",
                json!({"type": "Sequence", "normalizers": vec![longer(json!({"Regex": "x*"}), "x"); 9]}),
                "within 256 times",
            ),
            (
                "normalizer",
                json!({"type": "Sequence", "normalizers": vec![longer(json!({"String": ""}), "x"); 9]}),
                "within 256 times",
            ),
            (
                "normalizer",
                json!({"type": "Sequence", "normalizers": vec![json!({"type": "ByteLevel"}); 9]}),
                "within 256",
            ),
            ("normalizer", json!({"lowercase": true}), "it lacks normalizer.type"),
            (
                "normalizer",
                json!({"type": "BertNormalizer", "clean_text": 1}),
                "normalizer.clean_text is not true or",
            ),
            (
                "normalizer",
                json!({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Strip"}]}),
                "it lacks normalizer.normalizers[1].strip_left",
            ),
            (
                "normalizer",
                json!({"type": "Replace", "content": "", "pattern": {"Regex": "("}}),
                "normalizer.pattern is not a regular expression",
            ),
            // Chunks of nothing, too, are a panic in the library.
            ("pre_tokenizer", json!({"type": "FixedLength", "length": 0}), "length of 0"),
            (
                "pre_tokenizer",
                json!({"type": "Metaspace", "replacement": "ab"}),
                "replacement is not one character",
            ),
            (
                "pre_tokenizer",
                json!({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": false}),
                "add_prefix_space is not what its prepend_scheme says",
            ),
            ("pre_tokenizer", json!({"type": "Punctuation", "behavior": "Loud"}), "a behavior that is known"),
            ("added_tokens", json!([{"id": 1}]), "it lacks added_tokens[0].content"),
        ];
        for (name, part, expected) in cases {
            let error = read(&file(name, part.clone())).map(drop).unwrap_err();
            assert!(error.contains(expected), "{part}: {error:?} does not say {expected:?}");
        }
    }
}
