//! Models as sentence-transformers saves them, with every head: encoded as Python does, or refused by name.

use std::path::{Path, PathBuf};

use crate::files::{self, copy, edit, read};

use dpr_core::device::Device;
use dpr_core::{DeviceChoice, EncoderBytes, Pooling, Side, Similarity, TextEncoder, TitleJoin};
use dpr_encode::model::{ImportOptions, ModelDir, export_web, import};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The least cosine between a vector and Python's.
const NEAR: f64 = 0.99999;

/// Files of `mean-N` that the directories of `heads` leave out because they would be the same.
const SHARED: [&str; 6] = [
    "config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "sentence_bert_config.json",
];

fn fixtures() -> PathBuf {
    files::fixtures().join("sentence-transformers")
}

/// The directory as it was saved: the files of `heads/NAME-VERSION` over those of `mean-VERSION`.
fn saved(name: &str, version: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in SHARED {
        let path = fixtures().join(format!("mean-{version}")).join(file);
        if path.exists() {
            fs_err::copy(path, dir.path().join(file)).unwrap();
        }
    }
    copy(&fixtures().join(format!("heads/{name}-{version}")), dir.path());
    dir
}

fn imported(from: &Path, options: &ImportOptions) -> (TempDir, ModelDir) {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("model");
    import(from, None, &path, options).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let model = ModelDir::open(&path).unwrap();
    (out, model)
}

fn refused(from: &Path, options: &ImportOptions) -> String {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("model");
    let error = import(from, None, &path, options).unwrap_err().to_string();
    assert!(!path.exists(), "nothing is left behind");
    error
}

fn texts() -> Vec<String> {
    serde_json::from_value(read(&fixtures().join("heads/texts.json"))).unwrap()
}

fn vectors(golden: &Value, name: &str) -> Vec<Vec<f32>> {
    serde_json::from_value(golden[name].clone()).unwrap()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

/// Every vector of `rows` by `encoder` points where Python's does, and is as long where `scaled` is false.
fn assert_near(what: &str, encoder: &TextEncoder, rows: &[Vec<u32>], expected: &[Vec<f32>], scaled: bool) {
    let got = encoder.forward(rows).unwrap();
    let width = expected[0].len();
    assert_eq!(got.len(), rows.len() * encoder.dim(), "{what}");
    assert!(encoder.dim() == width || encoder.dim() == width + 1, "{what}: {} numbers", encoder.dim());
    for (row, (got, expected)) in got.chunks_exact(encoder.dim()).zip(expected).enumerate() {
        let near = cosine(&got[..width], expected);
        assert!(near >= NEAR, "{what}: row {row}: cosine {near}");
        let far = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(scaled || far < 1e-4, "{what}: row {row}: {far} apart");
    }
}

fn devices() -> Vec<DeviceChoice> {
    if cfg!(feature = "burn") { vec![DeviceChoice::Cpu, DeviceChoice::Flex] } else { vec![DeviceChoice::Cpu] }
}

/// A directory of `heads`, how it is imported, the numbers of a vector, and whether Python leaves it to the comparison
/// to scale vectors to length 1.
type Case = (&'static str, ImportOptions, usize, bool);

fn cases() -> Vec<Case> {
    let plain = ImportOptions::default;
    let dot = || ImportOptions { similarity: Some(Similarity::Dot), ..plain() };
    let pooler = ImportOptions {
        pooling: Some(Pooling::Pooler),
        max_question_tokens: Some(16),
        max_passage_tokens: Some(16),
        ..plain()
    };
    vec![
        ("cls", dot(), 8, false),
        ("mean", dot(), 8, false),
        ("max", dot(), 8, false),
        ("lasttoken", dot(), 8, false),
        ("weightedmean", dot(), 8, false),
        ("mean_sqrt_len_tokens", dot(), 8, false),
        ("pooler", pooler, 8, false),
        ("dense-tanh", plain(), 12, false),
        ("dense-two", dot(), 6, false),
        ("dense-relu", dot(), 7, false),
        ("normalize-first", dot(), 10, false),
        ("prompts", plain(), 8, false),
        ("prompt-default", dot(), 8, false),
        ("truncated", plain(), 5, true),
        ("truncated-dense", dot(), 7, false),
        ("cosine", plain(), 8, true),
        ("euclidean", plain(), 9, false),
    ]
}

#[test]
fn every_head_encodes_as_python_does_on_every_device_of_this_build() {
    let texts = texts();
    for (name, options, dim, scaled) in cases() {
        for version in ["5", "6"] {
            let what = format!("{name}-{version}");
            let from = saved(name, version);
            let golden = read(&from.path().join("golden.json"));
            let mut options = options.clone();
            if version == "5" && name.starts_with("truncated") {
                // This version does not save truncate_dim.
                (options.dim, options.matryoshka) = (Some(dim), true);
            }
            let (_out, model) = imported(from.path(), &options);
            assert_eq!(model.manifest().dim, dim, "{what}");
            let asked = vectors(&golden, "questions");
            let found =
                if golden["passages"].is_null() { asked.clone() } else { vectors(&golden, "passages") };
            for device in devices() {
                let what = format!("{what} on {device:?}");
                let questions = model.question_encoder(device).unwrap();
                let rows: Vec<_> =
                    texts.iter().map(|text| questions.question_tokens(text).unwrap()).collect();
                assert_near(&what, &questions, &rows, &asked, scaled);
                let passages = model.passage_encoder(device).unwrap();
                let rows: Vec<_> =
                    texts.iter().map(|text| passages.passage_tokens("", text).unwrap()).collect();
                assert_near(&what, &passages, &rows, &found, scaled);
            }
        }
    }
}

#[test]
fn prompts_and_titles_stand_where_python_puts_them() {
    let texts = texts();
    for version in ["5", "6"] {
        let from = saved("prompts", version);
        let golden = read(&from.path().join("golden.json"));
        for (join, name) in [("space", "space"), ("the {title} of {text}", "template")] {
            let title_join: TitleJoin = join.parse().unwrap();
            let options = ImportOptions { title_join: Some(title_join.clone()), ..ImportOptions::default() };
            let (_out, model) = imported(from.path(), &options);
            assert_eq!((&model.manifest().title_join, model.manifest().format_version), (&title_join, 2));
            let encoder = model.passage_encoder(DeviceChoice::Cpu).unwrap();
            let expected = vectors(&golden, name);
            let pairs = texts.iter().zip(&texts[expected.len()..]).take(expected.len());
            let rows: Vec<_> =
                pairs.map(|(title, text)| encoder.passage_tokens(title, text).unwrap()).collect();
            assert_near(&format!("{name} of version {version}"), &encoder, &rows, &expected, false);
        }
    }
    // An option takes the place of what the directory says; an empty prompt is none.
    let from = saved("prompts", "6");
    let none = ImportOptions {
        query_prompt: Some(String::new()),
        passage_prompt: Some("most of ".into()),
        ..ImportOptions::default()
    };
    let (_out, model) = imported(from.path(), &none);
    let prompts = &model.manifest().prompts;
    assert_eq!((prompts.query.as_str(), prompts.passage.as_str()), ("", "most of "));
    let long = ImportOptions { query_prompt: Some("the ".repeat(20)), ..ImportOptions::default() };
    let message = refused(from.path(), &long);
    assert!(
        message.contains("prompt of questions takes 22 tokens") && message.contains("to 16"),
        "{message}"
    );
}

#[test]
fn what_a_head_needs_that_is_not_computed_is_refused_by_name() {
    type Edit = fn(&Path);
    let pooling = "1_Pooling/config.json";
    let cases: [(&str, Edit, &[&str]); 12] = [
        (
            "mean",
            |dir| edit(&dir.join("1_Pooling/config.json"), |c| c["pooling_mode"] = json!(["cls", "mean"])),
            &[pooling, "\"cls and mean\"", "\"weightedmean\""],
        ),
        (
            "mean",
            |dir| edit(&dir.join("1_Pooling/config.json"), |c| c["pooling_mode"] = json!("attention")),
            &[pooling, "\"attention\""],
        ),
        (
            "prompts",
            |dir| edit(&dir.join("1_Pooling/config.json"), |c| c["include_prompt"] = json!(false)),
            &[pooling, "include_prompt is false"],
        ),
        (
            "dense-tanh",
            |dir| {
                edit(&dir.join("2_Dense/config.json"), |c| {
                    c["activation_function"] = json!("torch.nn.modules.activation.Softplus");
                });
            },
            &["2_Dense/config.json", "Softplus", "Tanh, GELU"],
        ),
        (
            "dense-tanh",
            |dir| edit(&dir.join("2_Dense/config.json"), |c| c["use_residual"] = json!(true)),
            &["2_Dense/config.json", "use_residual"],
        ),
        (
            "dense-tanh",
            |dir| {
                edit(&dir.join("2_Dense/config.json"), |c| c["module_input_name"] = json!("token_embeddings"))
            },
            &["2_Dense/config.json", "module_input_name", "token_embeddings"],
        ),
        (
            "dense-tanh",
            |dir| edit(&dir.join("2_Dense/config.json"), |c| c["in_features"] = json!(9)),
            &["2_Dense", "linear.weight", "[12, 8], expected [12, 9]"],
        ),
        (
            "dense-tanh",
            |dir| edit(&dir.join("2_Dense/config.json"), |c| c["bias"] = json!(false)),
            &["2_Dense", "place for: 1", "linear.bias"],
        ),
        (
            "dense-tanh",
            |dir| fs_err::remove_file(dir.join("2_Dense/model.safetensors")).unwrap(),
            &["2_Dense", "model.safetensors"],
        ),
        (
            "dense-tanh",
            |dir| fs_err::remove_file(dir.join("modules.json")).unwrap(),
            &["modules.json", "Dense of 2_Dense"],
        ),
        (
            "cosine",
            |dir| {
                edit(&dir.join("config_sentence_transformers.json"), |c| {
                    c["similarity_fn_name"] = json!("manhattan");
                });
            },
            &["config_sentence_transformers.json", "\"manhattan\"", "\"euclidean\""],
        ),
        (
            "prompt-default",
            |dir| {
                edit(&dir.join("config_sentence_transformers.json"), |c| {
                    c["default_prompt_name"] = json!("absent");
                });
            },
            &["default_prompt_name is \"absent\""],
        ),
    ];
    for (name, change, expected) in cases {
        let dir = saved(name, "6");
        change(dir.path());
        let message = refused(dir.path(), &ImportOptions::default());
        for part in expected {
            assert!(message.contains(part), "no {part:?} in: {message}");
        }
    }
    let cosine = ImportOptions {
        similarity: Some(Similarity::Cosine),
        normalize: Some(false),
        ..ImportOptions::default()
    };
    assert!(refused(saved("mean", "6").path(), &cosine).contains("leave one of them out"));
}

#[test]
fn vectors_are_scaled_by_a_folder_of_normalize_without_the_list_of_modules() {
    let from = saved("prompts", "6");
    let dot = ImportOptions { similarity: Some(Similarity::Dot), ..ImportOptions::default() };
    let (_a, listed) = imported(from.path(), &dot);
    fs_err::remove_file(from.path().join("modules.json")).unwrap();
    let (_b, found) = imported(from.path(), &dot);
    assert!(found.manifest().normalize);
    assert_eq!(found.manifest().fingerprint, listed.manifest().fingerprint);

    let folder = from.path().join("2_Normalize");
    edit(&folder.join("config.json"), |c| c["module_input_name"] = json!("token_embeddings"));
    let message = refused(from.path(), &dot);
    assert!(message.contains("2_Normalize") && message.contains("module Normalize"), "{message}");
    fs_err::rename(folder, from.path().join("3_Dense")).unwrap();
    assert!(refused(from.path(), &dot).contains("no modules.json"));
}

#[test]
fn fewer_numbers_are_kept_where_the_model_was_trained_for_them() {
    let dim = |dim| ImportOptions { dim: Some(dim), ..ImportOptions::default() };
    let whole = saved("mean", "6");
    let message = refused(whole.path(), &dim(4));
    assert!(message.contains("first 4 of its 8 numbers") && message.contains("Matryoshka"), "{message}");
    assert!(refused(whole.path(), &dim(9)).contains("8 numbers, and 9 were asked for"));
    let said = ImportOptions { matryoshka: true, ..dim(4) };
    let (_a, said) = imported(whole.path(), &said);
    assert_eq!(said.manifest().dim, 4);
    let (_b, all) = imported(whole.path(), &dim(8));
    let (_c, plain) = imported(whole.path(), &ImportOptions::default());
    assert_eq!(all.manifest().fingerprint, plain.manifest().fingerprint, "all numbers are no change");
    assert_eq!(plain.manifest().format_version, 1);

    // The directory's truncate_dim is the default; fewer or more may be asked for. A model keeps what it was told.
    let trained = saved("truncated", "6");
    for (asked, expected) in [(None, 5), (Some(3), 3), (Some(8), 8)] {
        let (_out, model) =
            imported(trained.path(), &ImportOptions { dim: asked, ..ImportOptions::default() });
        assert_eq!(model.manifest().dim, expected);
        let again = model.path().join("question_encoder");
        let (_out, again) = imported(&again, &ImportOptions::default());
        assert_eq!(again.manifest().dim, expected);
        let vector = model.question_encoder(DeviceChoice::Cpu).unwrap().encode_question("cats").unwrap();
        let length: f32 = vector.as_slice().iter().map(|x| x * x).sum();
        assert!((length - 1.0).abs() < 1e-5, "cut, then scaled: {length}");
    }
    let projected = ImportOptions { project: Some(16), ..ImportOptions::default() };
    let (_out, model) = imported(trained.path(), &projected);
    assert_eq!(model.manifest().dim, 16, "the projection takes the numbers that are kept");
}

#[test]
fn a_page_and_a_second_import_have_the_head_and_the_prompts_of_the_first() {
    let texts = texts();
    for (name, options, ..) in cases() {
        let (_out, model) = imported(saved(name, "6").path(), &options);
        let encoder = model.question_encoder(DeviceChoice::Cpu).unwrap();
        let rows: Vec<_> = texts.iter().map(|text| encoder.question_tokens(text).unwrap()).collect();
        let expected = encoder.forward(&rows).unwrap();

        let dir = model.path().join("question_encoder");
        let (_again, again) =
            imported(&dir, &ImportOptions { similarity: options.similarity, ..Default::default() });
        let (first, second) = (model.manifest(), again.manifest());
        assert_eq!(second.files["question_encoder/config.json"], first.files["question_encoder/config.json"]);
        assert_eq!((&second.prompts, second.dim), (&first.prompts, first.dim), "{name}");
        let same = again.question_encoder(DeviceChoice::Cpu).unwrap().forward(&rows).unwrap();
        assert_eq!(same, expected, "{name}");

        // The page has these bytes and nothing else.
        let web = export_web(&model, None).unwrap().manifest;
        let page = |dtype: &str| {
            let weights = fs_err::read(model.path().join(&web.weights[dtype].path)).unwrap();
            let (config, tokenizer) = (
                fs_err::read(dir.join("config.json")).unwrap(),
                fs_err::read(dir.join("tokenizer.json")).unwrap(),
            );
            let files = EncoderBytes {
                config: &config,
                tokenizer: &tokenizer,
                weights: &[("weights", weights.as_slice())],
            };
            TextEncoder::load(&files, None, &Device::Kernel).unwrap()
        };
        for (dtype, near) in [("f32", 0.999999), ("f16", 0.9999), ("q8", 0.995)] {
            let page = page(dtype);
            assert_eq!(page.dim(), first.dim, "{name} {dtype}");
            for (text, expected) in texts.iter().zip(expected.chunks_exact(first.dim)) {
                let got = cosine(page.encode_question(text).unwrap().as_slice(), expected);
                assert!(got >= near, "{name} {dtype}: {text}: cosine {got}");
            }
        }
    }
}

#[test]
fn the_fingerprint_changes_with_what_changes_vectors_and_with_nothing_else() {
    let from = saved("prompts", "6");
    let options = |change: fn(&mut ImportOptions)| {
        let mut options = ImportOptions::default();
        change(&mut options);
        options
    };
    let changes: Vec<(&str, ImportOptions)> = vec![
        ("nothing", options(|_| {})),
        ("pooling", options(|o| o.pooling = Some(Pooling::Max))),
        ("pooler", options(|o| o.pooling = Some(Pooling::Pooler))),
        ("length", options(|o| (o.similarity, o.normalize) = (Some(Similarity::Dot), Some(false)))),
        ("distance", options(|o| (o.similarity, o.normalize) = (Some(Similarity::L2), Some(false)))),
        ("projection", options(|o| o.project = Some(12))),
        ("dimensions", options(|o| (o.dim, o.matryoshka) = (Some(6), true))),
        ("query prompt", options(|o| o.query_prompt = Some("when ".into()))),
        ("no query prompt", options(|o| o.query_prompt = Some(String::new()))),
        ("passage prompt", options(|o| o.passage_prompt = Some("when ".into()))),
        ("title", options(|o| o.title_join = Some(TitleJoin::Space))),
        ("template", options(|o| o.title_join = Some("{text} {title}".parse().unwrap()))),
        ("question tokens", options(|o| o.max_question_tokens = Some(12))),
        ("passage tokens", options(|o| o.max_passage_tokens = Some(12))),
    ];
    let mut seen: Vec<(&str, String, [Vec<u8>; 2])> = Vec::new();
    for (what, options) in changes {
        let (_out, model) = imported(from.path(), &options);
        let mut sides = [Vec::new(), Vec::new()];
        let encoders = [
            (model.question_encoder(DeviceChoice::Cpu).unwrap(), Side::Question),
            (model.passage_encoder(DeviceChoice::Cpu).unwrap(), Side::Passage),
        ];
        for (bytes, (encoder, side)) in sides.iter_mut().zip(encoders) {
            for text in texts() {
                let row = match side {
                    Side::Question => encoder.question_tokens(&text).unwrap(),
                    Side::Passage => encoder.passage_tokens("the game", &text).unwrap(),
                };
                bytes.extend(encoder.forward(&[row]).unwrap().iter().flat_map(|x| x.to_le_bytes()));
            }
        }
        for (other, fingerprint, vectors) in &seen {
            assert_ne!(fingerprint, &model.manifest().fingerprint, "{what} and {other}");
            assert_ne!(vectors, &sides, "{what} and {other} give other vectors");
        }
        // What is said of one side leaves the vectors of the other as they were.
        let of_first = seen.first().map_or_else(|| sides.clone(), |(_, _, vectors)| vectors.clone());
        let [questions, passages] = [0, 1].map(|side| sides[side] == of_first[side]);
        if ["query prompt", "no query prompt", "question tokens"].contains(&what) {
            assert!(!questions && passages, "{what}");
            assert_eq!(model.manifest().max_passage_tokens, 16, "{what}");
        } else if ["passage prompt", "title", "template", "passage tokens"].contains(&what) {
            assert!(questions && !passages, "{what}");
            assert_eq!(model.manifest().max_question_tokens, 16, "{what}");
        }
        seen.push((what, model.manifest().fingerprint.clone(), sides));
    }
    // What says the same in other words, or says it to people alone.
    let first = &seen[0].1;
    let same = [
        options(|o| o.name = Some("another".into())),
        options(|o| o.matryoshka = true),
        options(|o| o.dim = Some(8)),
        options(|o| o.pooling = Some(Pooling::Mean)),
        options(|o| o.normalize = Some(true)),
        options(|o| o.similarity = Some(Similarity::Cosine)),
        options(|o| o.query_prompt = Some("who is ".into())),
        options(|o| o.title_join = Some(TitleJoin::Separator)),
        options(|o| o.max_question_tokens = Some(16)),
    ];
    for options in same {
        let (_out, model) = imported(from.path(), &options);
        assert_eq!(&model.manifest().fingerprint, first, "{options:?}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let inner = elsewhere.path().join("renamed/0_Transformer");
    fs_err::create_dir_all(&inner).unwrap();
    copy(from.path(), inner.parent().unwrap());
    for file in SHARED.iter().filter(|file| inner.parent().unwrap().join(file).exists()) {
        fs_err::rename(inner.parent().unwrap().join(file), inner.join(file)).unwrap();
    }
    edit(&inner.parent().unwrap().join("modules.json"), |m| m[0]["path"] = json!("0_Transformer"));
    let (_out, model) = imported(inner.parent().unwrap(), &ImportOptions::default());
    assert_eq!(&model.manifest().fingerprint, first, "the same files elsewhere");
}
