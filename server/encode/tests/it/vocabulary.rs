//! Browser's copies with fewer tokens: the same vectors for texts of kept tokens, tokens for others, and clear
//! refusals.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::Path;

use crate::files::fixtures;

use dpr_core::device::Device;
use dpr_core::random::SplitMix;
use dpr_core::{DeviceChoice, EncoderBytes, EncoderConfig, TextEncoder, names};
use dpr_encode::model::{ImportOptions, Language, ModelDir, Vocabulary, WebManifest, export_web, import};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;

fn unpacked(path: &str) -> Value {
    let file = fs_err::File::open(fixtures().join(path)).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn imported(dir: &Path, options: &ImportOptions) -> (TempDir, ModelDir) {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("model");
    import(dir, None, &path, options).unwrap();
    let model = ModelDir::open(&path).unwrap();
    (out, model)
}

/// A small BERT of random weights with this tokenizer.
fn random_model(tokenizer: &Value, vocab_size: usize) -> (TempDir, ModelDir) {
    let config = json!({"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 8, "vocab_size": vocab_size, "max_position_embeddings": 64, "pad_token_id": 1,
        "mask_token_id": vocab_size - 1, "type_vocab_size": 1});
    let read = EncoderConfig::from_json(config.to_string().as_bytes()).unwrap();
    let mut random = SplitMix::new(7);
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = names::tensors(&read)
        .into_iter()
        .map(|(name, shape)| {
            let numbers = (0..shape.iter().product::<usize>()).map(|_| random.normal() as f32);
            let bytes = numbers.flat_map(f32::to_le_bytes).collect();
            (name, shape, bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    let dir = tempfile::tempdir().unwrap();
    fs_err::write(dir.path().join("config.json"), config.to_string()).unwrap();
    fs_err::write(dir.path().join("tokenizer.json"), tokenizer.to_string()).unwrap();
    fs_err::write(dir.path().join("model.safetensors"), safetensors::serialize(views, None).unwrap())
        .unwrap();
    imported(dir.path(), &ImportOptions { query_prompt: Some("query: ".into()), ..ImportOptions::default() })
}

/// The encoder that a page loads.
pub(crate) fn page(model: &ModelDir, web: &WebManifest, dtype: &str) -> TextEncoder {
    let read = |path: &str| fs_err::read(model.path().join(path)).unwrap();
    let (config, tokenizer) = match &web.encoder {
        Some(own) => (read(&own.config.path), read(&own.tokenizer.path)),
        None => (read("question_encoder/config.json"), read("question_encoder/tokenizer.json")),
    };
    // As a page does, which takes the binary form where there is one.
    let tokenizer = web.vocabulary.as_ref().map_or(tokenizer, |vocabulary| read(&vocabulary.path));
    let weights = read(&web.weights[dtype].path);
    let files =
        EncoderBytes { config: &config, tokenizer: &tokenizer, weights: &[("weights", weights.as_slice())] };
    TextEncoder::load(&files, None, &Device::Kernel).unwrap()
}

/// The pieces of a tokenizer by id.
fn pieces(model: &ModelDir, path: &str) -> HashMap<u32, String> {
    let json: Value = serde_json::from_slice(&fs_err::read(model.path().join(path)).unwrap()).unwrap();
    let id = |value: &Value| value.as_u64().unwrap() as u32;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let added = json["added_tokens"].as_array().unwrap().iter().map(|t| (id(&t["id"]), text(&t["content"])));
    match &json["model"]["vocab"] {
        Value::Array(vocab) => (0..).zip(vocab.iter().map(|piece| text(&piece[0]))).chain(added).collect(),
        vocab => {
            vocab.as_object().unwrap().iter().map(|(piece, n)| (id(n), piece.clone())).chain(added).collect()
        }
    }
}

/// Exports the model with the tokens of `kept` only, and checks it: `kept` are cut into the same pieces as by the whole
/// model, the vectors of some of them are those of the whole export, bit by bit, in every number format, and some texts
/// of `others` have a vector. Returns how many of the tokens are kept, and the page's encoder.
fn check(model: &ModelDir, kept: &[&str], others: &[&str]) -> (usize, TextEncoder) {
    let mut vocabulary = Vocabulary::of(model).unwrap();
    vocabulary.keep_texts(kept).unwrap();
    let whole = export_web(model, None).unwrap().manifest;
    let whole: Vec<_> = ["f32", "f16", "q8"].map(|dtype| page(model, &whole, dtype)).into();
    let cut = export_web(model, Some(&vocabulary)).unwrap().manifest;
    assert_eq!(ModelDir::open(model.path()).unwrap().web_exports().unwrap().as_ref(), Some(&cut));
    let (all, fewer) =
        (pieces(model, "question_encoder/tokenizer.json"), pieces(model, "web/tokenizer.json"));
    let smaller = page(model, &cut, "f32");
    for text in kept {
        let (expected, got) =
            (whole[0].question_tokens(text).unwrap(), smaller.question_tokens(text).unwrap());
        assert!(expected.iter().map(|id| &all[id]).eq(got.iter().map(|id| &fewer[id])), "{text:?}");
    }
    let some = |texts: &[&str]| texts.len().div_ceil(20).max(1);
    for (dtype, whole) in ["f32", "f16", "q8"].iter().zip(&whole) {
        let smaller = page(model, &cut, dtype);
        for text in kept.iter().step_by(some(kept)) {
            let (expected, got) =
                (whole.encode_question(text).unwrap(), smaller.encode_question(text).unwrap());
            assert_eq!(got.as_slice(), expected.as_slice(), "{dtype}: {text:?}");
        }
        for text in others.iter().step_by(some(others)) {
            smaller.encode_question(text).unwrap();
        }
    }
    (cut.encoder.as_ref().unwrap().tokens, page(model, &cut, "q8"))
}

/// Lines in more than 20 scripts.
fn lines(golden: &Value) -> Vec<&str> {
    let lines = golden["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    lines.filter(|line| !line.trim().is_empty()).collect()
}

#[test]
fn texts_of_kept_tokens_have_the_same_vectors_whatever_the_tokenizer() {
    let golden = unpacked("tokenizers/golden.json.gz");
    let lines = lines(&golden);
    for (name, size) in [("unigram", 3002), ("byte-level", 3001)] {
        let mut tokenizer = unpacked(&format!("tokenizers/{name}.json.gz"));
        tokenizer["post_processor"] = golden["tokenizers"][name]["post_processor"].clone();
        let (_out, model) = random_model(&tokenizer, size);
        for (kept, others) in [(0..1000, 1000..2000), (1900..1960, 0..100), (500..501, 0..100)] {
            let end = |range: std::ops::Range<usize>| {
                &lines[range.start.min(lines.len())..range.end.min(lines.len())]
            };
            let (tokens, _) = check(&model, end(kept.clone()), end(others));
            assert!(tokens < size, "{name}: {tokens} of {size} for {kept:?}");
        }
    }
    for family in ["distilbert", "electra", "modernbert", "nomic-bert", "roberta", "xlm-roberta"] {
        let (_out, model) = imported(&fixtures().join("families").join(family), &ImportOptions::default());
        let total = Vocabulary::of(&model).unwrap().total();
        let (kept, others) = (["Cats sleep most of the day.", "dogs bark"], ["질문", "where is Nauru?"]);
        let (tokens, _) = check(&model, &kept, &others);
        assert!(tokens < total, "{family}: {tokens} of {total}");
    }
}

#[test]
fn a_tokenizer_of_berts_kind_has_a_binary_form_beside_it_and_no_other_has() {
    for (name, has_one) in [
        ("dpr-tiny/question", true),
        ("mpnet-tiny", true),
        ("families/electra", true),
        ("families/modernbert", false),
        ("families/xlm-roberta", false),
    ] {
        let (_out, model) = imported(&fixtures().join(name), &ImportOptions::default());
        let web = export_web(&model, None).unwrap().manifest;
        assert_eq!(web.vocabulary.is_some(), has_one, "{name}");
        assert_eq!(model.path().join("web/vocabulary.bin").exists(), has_one, "{name}");
        assert_eq!((web.format_version, web.encoder.is_none()), (1, true), "{name}");
        let Some(file) = web.vocabulary else { continue };
        assert_eq!(file.path, "web/vocabulary.bin");
        assert_eq!(file.gzip_path().as_deref(), Some("web/vocabulary.bin.gz"), "{name}");
        fs_err::write(model.path().join(&file.path), b"DPRVOCA1").unwrap();
        let error = model.web_exports().unwrap_err().to_string();
        assert!(error.contains("vocabulary.bin"), "{error}");
    }
}

#[test]
fn other_words_of_the_same_letters_are_cut_into_shorter_tokens() {
    let golden = unpacked("tokenizers/golden.json.gz");
    for name in ["unigram", "byte-level"] {
        let mut tokenizer = unpacked(&format!("tokenizers/{name}.json.gz"));
        tokenizer["post_processor"] = golden["tokenizers"][name]["post_processor"].clone();
        let (_out, model) = random_model(&tokenizer, 3002);
        let (_, page) = check(&model, &["the quick brown fox jumps over the lazy dog"], &[]);
        let whole = model.question_encoder(DeviceChoice::Cpu).unwrap();
        let (all, fewer) =
            (pieces(&model, "question_encoder/tokenizer.json"), pieces(&model, "web/tokenizer.json"));
        let text = "a godly tower overlooks the harbour";
        let (expected, got) = (whole.question_tokens(text).unwrap(), page.question_tokens(text).unwrap());
        let unknown = |ids: &[u32], pieces: &HashMap<u32, String>| {
            ids.iter().filter(|id| pieces[id] == "<unk>").count()
        };
        assert_eq!(unknown(&got, &fewer), unknown(&expected, &all), "{name}: {got:?}");
        assert!(got.len() > expected.len(), "{name}: {expected:?} {got:?}");
    }
    let (_out, model) = imported(&fixtures().join("dpr-tiny/question"), &ImportOptions::default());
    check(&model, &["What sleeps most of the day?"], &["everything else"]);
}

#[test]
fn languages_keep_the_tokens_of_their_letters() {
    let golden = unpacked("tokenizers/golden.json.gz");
    let mut tokenizer = unpacked("tokenizers/unigram.json.gz");
    tokenizer["post_processor"] = golden["tokenizers"]["unigram"]["post_processor"].clone();
    let (_out, model) = random_model(&tokenizer, 3002);
    let size = |codes: &[&str]| {
        let languages: Vec<Language> = codes.iter().map(|code| code.parse().unwrap()).collect();
        let mut vocabulary = Vocabulary::of(&model).unwrap();
        vocabulary.keep_languages(&languages);
        let web = export_web(&model, Some(&vocabulary)).unwrap().manifest;
        (web.encoder.as_ref().unwrap().tokens, page(&model, &web, "f32"))
    };
    let whole = page(&model, &export_web(&model, None).unwrap().manifest, "f32");
    let ((english, _), (korean, _), (both, encoder)) = (size(&["en"]), size(&["ko"]), size(&["en", "ko"]));
    assert!(english < both && korean < both && both < english + korean, "{english} {korean} {both}");
    for text in ["What sleeps most of the day, in 2024?", "누가 하루 종일 잡니까?"] {
        let (got, expected) = (encoder.encode_question(text).unwrap(), whole.encode_question(text).unwrap());
        assert_eq!(got.as_slice(), expected.as_slice(), "{text}");
    }
    let error = "klingon".parse::<Language>().unwrap_err();
    assert!(error.contains("\"klingon\"") && error.contains("en, es"), "{error}");
}

fn imported_small() -> (TempDir, ModelDir) {
    let options = ImportOptions { matryoshka: true, ..ImportOptions::default() };
    imported(&fixtures().join("dpr-tiny/question"), &options)
}

#[test]
fn a_page_of_narrower_vectors_has_their_configuration_with_all_tokens_or_a_part() {
    let (_out, model) = imported_small();
    let narrower = model.at_dim(8).unwrap();
    let texts = ["What sleeps most of the day?"];
    let mut vocabulary = Vocabulary::of(&model).unwrap();
    vocabulary.keep_texts(&texts).unwrap();
    let encoded = |model: &ModelDir| {
        let encoder = model.question_encoder(DeviceChoice::Cpu).unwrap();
        encoder.encode_question(texts[0]).unwrap()
    };
    let expected = encoded(&narrower);
    assert_eq!((expected.dim(), encoded(&model).dim()), (8, 32));
    for vocabulary in [None, Some(&vocabulary)] {
        // The export of the whole model: narrower models use its weights.
        export_web(&model, vocabulary).unwrap();
        let web = narrower.web_exports().unwrap().unwrap();
        let config = narrower.web_config(Some(&web)).unwrap();
        let read = |path: &str| fs_err::read(model.path().join(path)).unwrap();
        let tokenizer =
            web.encoder.as_ref().map_or("question_encoder/tokenizer.json", |own| &own.tokenizer.path);
        let (tokenizer, weights) = (read(tokenizer), read(&web.weights["f32"].path));
        let files = EncoderBytes {
            config: &config,
            tokenizer: &tokenizer,
            weights: &[("weights", weights.as_slice())],
        };
        let page = TextEncoder::load(&files, None, &Device::Kernel).unwrap();
        assert_eq!(page.encode_question(texts[0]).unwrap().as_slice(), expected.as_slice());

        // An export of the narrower model itself, which the whole model refuses.
        let web = export_web(&narrower, vocabulary).unwrap().manifest;
        assert_eq!(self::page(&narrower, &web, "f32").encode_question(texts[0]).unwrap(), expected);
        let error = model.web_exports().unwrap_err().to_string();
        assert!(error.contains("web.json") && error.contains("another model"), "{error}");
    }
}

#[test]
fn what_cannot_be_cut_down_is_refused_and_the_older_export_stays() {
    let golden = unpacked("tokenizers/golden.json.gz");
    let mut tokenizer = unpacked("tokenizers/byte-level.json.gz");
    tokenizer["post_processor"] = golden["tokenizers"]["byte-level"]["post_processor"].clone();
    let (_out, model) = random_model(&tokenizer, 3001);
    let before = export_web(&model, None).unwrap().manifest;

    let path = model.path().join("question_encoder/tokenizer.json");
    tokenizer["model"]["merges"].as_array_mut().unwrap().push(json!(["nowhere", "else"]));
    fs_err::write(&path, tokenizer.to_string()).unwrap();
    let error = Vocabulary::of(&model).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("tokenizer.json"), "{error}");
    fs_err::write(&path, "{").unwrap();
    assert!(Vocabulary::of(&model).is_err());
    assert_eq!(model.web_exports().unwrap(), Some(before));

    let mut vocabulary = Vocabulary::of(&imported_small().1).unwrap();
    vocabulary.keep_texts(&["cats"]).unwrap();
    let (_small, small) = imported_small();
    let good = export_web(&small, Some(&vocabulary)).unwrap().manifest;
    fs_err::write(small.path().parent().unwrap().join("secret"), "{}").unwrap();
    let spoiled = |change: &dyn Fn(&mut WebManifest)| {
        let mut spoiled = good.clone();
        change(&mut spoiled);
        fs_err::write(small.path().join("web/web.json"), serde_json::to_vec(&spoiled).unwrap()).unwrap();
        ModelDir::open(small.path()).unwrap().web_exports().unwrap_err().to_string()
    };
    let error = spoiled(&|web| web.encoder.as_mut().unwrap().config.path = "../secret".into());
    assert!(error.contains("web.json") && error.contains("../secret"), "{error}");
    let error = spoiled(&|web| web.encoder.as_mut().unwrap().tokenizer.entry.bytes += 1);
    assert!(error.contains("tokenizer.json") && error.contains("size"), "{error}");
    let error = spoiled(&|web| web.encoder.as_mut().unwrap().tokenizer.entry.sha256 = "0".repeat(64));
    assert!(error.contains("tokenizer.json") && error.contains("sha256"), "{error}");

    let web = model.path().join("web/web.json");
    let mut newer: Value = serde_json::from_slice(&fs_err::read(&web).unwrap()).unwrap();
    newer["format_version"] = json!(3);
    fs_err::write(&web, newer.to_string()).unwrap();
    let error = model.web_exports().unwrap_err().to_string();
    assert!(error.contains("web.json") && error.contains('3'), "{error}");
}
