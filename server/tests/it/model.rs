//! Importing models: what is written, and what each kind of damage is called.

use std::path::{Path, PathBuf};

use dpr_core::{DeviceChoice, Pooling, TensorMap};
use dpr_encode::model::{ImportOptions, ModelDir, export_web, import};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(path)
}

/// A copy of a fixture's directory that a test may damage.
fn copy(path: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    copy_into(&fixture(path), dir.path());
    dir
}

fn copy_into(from: &Path, to: &Path) {
    for entry in fs_err::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs_err::create_dir(&target).unwrap();
            copy_into(&entry.path(), &target);
        } else {
            fs_err::copy(entry.path(), target).unwrap();
        }
    }
}

fn imported(
    question: &Path,
    passage: Option<&Path>,
    options: &ImportOptions,
) -> (tempfile::TempDir, ModelDir) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model");
    import(question, passage, &out, options).unwrap();
    let model = ModelDir::open(&out).unwrap();
    (dir, model)
}

fn edit_config(dir: &Path, edit: impl FnOnce(&mut Value)) {
    edit_json(&dir.join("config.json"), edit);
}

fn edit_json(path: &Path, edit: impl FnOnce(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs_err::read(path).unwrap()).unwrap();
    edit(&mut value);
    fs_err::write(path, value.to_string()).unwrap();
}

/// What an import of the directory says is wrong with it.
fn refused(dir: &Path) -> String {
    let out = tempfile::tempdir().unwrap();
    let result = import(dir, None, &out.path().join("model"), &ImportOptions::default());
    match result {
        Ok(manifest) => panic!("{} was imported: {manifest:?}", dir.display()),
        Err(error) => error.to_string(),
    }
}

fn assert_says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{message:?} does not say {part:?}");
    }
}

#[test]
fn each_damage_is_named_and_leaves_nothing_behind() {
    type Damage = fn(&Path);
    let cases: [(&str, Damage, &[&str]); 8] = [
        (
            "an unknown family",
            |dir| edit_config(dir, |c| c["model_type"] = json!("t5")),
            &["\"t5\"", "mpnet"],
        ),
        (
            "a deeper config",
            |dir| edit_config(dir, |c| c["num_hidden_layers"] = json!(3)),
            &["encoder.layer.2", "missing"],
        ),
        (
            "a wider config",
            |dir| edit_config(dir, |c| c["intermediate_size"] = json!(65)),
            &["intermediate.dense.weight", "[64, 32]", "expected [65, 32]"],
        ),
        (
            "a smaller vocabulary",
            |dir| edit_config(dir, |c| c["vocab_size"] = json!(10)),
            &["word_embeddings", "expected [10, 32]"],
        ),
        (
            "truncated weights",
            |dir| {
                let path = dir.join("model.safetensors");
                let bytes = fs_err::read(&path).unwrap();
                fs_err::write(path, &bytes[..bytes.len() / 2]).unwrap();
            },
            &["model.safetensors is not a whole safetensors file", "fetch it again"],
        ),
        (
            "another model's tokenizer",
            |dir| {
                let path = dir.join("tokenizer.json");
                let mut tokenizer: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
                tokenizer["model"]["vocab"]["extra"] = json!(40_000);
                fs_err::write(path, tokenizer.to_string()).unwrap();
            },
            &["40001 tokens", "vocabulary"],
        ),
        (
            "no tokenizer",
            |dir| fs_err::remove_file(dir.join("tokenizer.json")).unwrap(),
            &["no tokenizer.json", "save_pretrained"],
        ),
        (
            "no weights",
            |dir| fs_err::remove_file(dir.join("model.safetensors")).unwrap(),
            &["no model.safetensors", "convert"],
        ),
    ];
    for (what, damage, expected) in cases {
        let dir = copy("dpr-tiny/question");
        damage(dir.path());
        let parent = tempfile::tempdir().unwrap();
        let error =
            import(dir.path(), None, &parent.path().join("model"), &ImportOptions::default()).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&dir.path().display().to_string()), "{what}: {message}");
        for part in expected {
            assert!(message.contains(part), "{what}: {message:?} does not say {part:?}");
        }
        assert_eq!(fs_err::read_dir(parent.path()).unwrap().count(), 0, "{what}: something was left behind");
    }
}

#[test]
fn shards_make_the_same_model_as_one_file() {
    let options = ImportOptions::default();
    let (_a, whole) = imported(&fixture("dpr-tiny/question"), Some(&fixture("dpr-tiny/ctx")), &options);
    let (_b, shards) =
        imported(&fixture("dpr-tiny/question-sharded"), Some(&fixture("dpr-tiny/ctx")), &options);
    assert_eq!(whole.manifest().fingerprint, shards.manifest().fingerprint);
    assert!(!whole.manifest().shared);
}

#[test]
fn what_was_written_imports_to_the_same_vectors() {
    let (_a, first) = imported(&fixture("dpr-tiny/question"), None, &ImportOptions::default());
    let (_b, second) = imported(&first.path().join("question_encoder"), None, &ImportOptions::default());
    assert_eq!(first.manifest().fingerprint, second.manifest().fingerprint);
}

#[test]
fn a_projection_keeps_inner_products() {
    for model in ["dpr-tiny/question", "mpnet-tiny"] {
        let (_a, plain) = imported(&fixture(model), None, &ImportOptions::default());
        let options = ImportOptions { project: Some(768), ..ImportOptions::default() };
        let (_b, projected) = imported(&fixture(model), None, &options);
        assert_eq!((plain.manifest().dim, projected.manifest().dim), (32, 768));
        let vectors = |model: &ModelDir| {
            let encoder = model.question_encoder(DeviceChoice::Cpu).unwrap();
            ["who won the game", "when was the war"]
                .map(|text| encoder.encode_question(text).unwrap().into_vec())
        };
        let product = |[a, b]: [Vec<f32>; 2]| a.iter().zip(&b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
        let (plain, projected) = (product(vectors(&plain)), product(vectors(&projected)));
        assert!((plain - projected).abs() < 1e-4 * plain.abs().max(1.0), "{model}: {plain} and {projected}");
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let out = tempfile::tempdir().unwrap();
    let at = out.path().join("model");
    let refused = |question: &str, passage: Option<&str>, options: ImportOptions| {
        import(&fixture(question), passage.map(fixture).as_deref(), &at, &options).unwrap_err().to_string()
    };
    let projected = refused(
        "dpr-tiny-projected/question",
        None,
        ImportOptions { project: Some(768), ..ImportOptions::default() },
    );
    assert!(projected.contains("already has a projection to 48"), "{projected}");
    let sizes = refused("dpr-tiny/question", Some("dpr-tiny-projected/ctx"), ImportOptions::default());
    assert!(sizes.contains("of 32 numbers") && sizes.contains("of 48"), "{sizes}");
    // A passage encoder whose configuration says that vectors are scaled, beside a question encoder that scales none.
    let scaled = tempfile::tempdir().unwrap();
    let ctx = scaled.path().join("ctx");
    let normalize = |normalize| ImportOptions { normalize: Some(normalize), ..ImportOptions::default() };
    import(&fixture("dpr-tiny/ctx"), None, &ctx, &normalize(true)).unwrap();
    let ctx = ctx.join("question_encoder");
    let question = fixture("dpr-tiny/question");
    let lengths = import(&question, Some(&ctx), &at, &ImportOptions::default()).unwrap_err().to_string();
    assert!(lengths.contains("question encoder says false and the passage encoder true"), "{lengths}");
    for one in [true, false] {
        let both = scaled.path().join(one.to_string());
        let manifest = import(&question, Some(&ctx), &both, &normalize(one)).unwrap();
        assert_eq!(manifest.normalize, one);
    }
    let tokens = refused(
        "dpr-tiny/question",
        None,
        ImportOptions { max_question_tokens: Some(100_000), ..ImportOptions::default() },
    );
    assert!(tokens.contains("the limit of a question is 100000"), "{tokens}");
    fs_err::create_dir(&at).unwrap();
    let exists = refused("dpr-tiny/question", None, ImportOptions::default());
    assert!(exists.contains("exists, and is replaced only"), "{exists}");
}

#[test]
fn a_flipped_byte_in_any_file_is_found() {
    let (_dir, model) = imported(&fixture("dpr-tiny/question"), None, &ImportOptions::default());
    export_web(&model, None).unwrap();
    let path = model.path().to_owned();
    let mut files: Vec<PathBuf> = model.manifest().files.keys().map(|name| path.join(name)).collect();
    files.push(path.join("web/question_encoder.q8.safetensors"));
    for file in files {
        let good = fs_err::read(&file).unwrap();
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        fs_err::write(&file, &bad).unwrap();
        let error = ModelDir::open(&path).and_then(|model| model.web_exports()).unwrap_err().to_string();
        assert!(error.contains(&file.display().to_string()) && error.contains("sha256"), "{error}");
        fs_err::write(&file, &good).unwrap();
    }
    let web = path.join("web/web.json");
    let good = fs_err::read_to_string(&web).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&good).unwrap();
    let bytes = &mut manifest["weights"]["q8"]["bytes"];
    *bytes = (bytes.as_u64().unwrap() + 1).into();
    fs_err::write(&web, manifest.to_string()).unwrap();
    let error = ModelDir::open(&path).and_then(|model| model.web_exports()).unwrap_err().to_string();
    assert!(error.contains("question_encoder.q8.safetensors") && error.contains("size"), "{error}");
    fs_err::write(&web, &good).unwrap();
    let newer = fs_err::read_to_string(path.join("model.json"))
        .unwrap()
        .replace("\"format_version\": 1", "\"format_version\": 9");
    fs_err::write(path.join("model.json"), newer).unwrap();
    let error = ModelDir::open(&path).unwrap_err().to_string();
    assert!(error.contains("format 9") && error.contains("newer dpr"), "{error}");
}

#[test]
fn the_8_bit_export_is_near_and_small() {
    let (_dir, model) = imported(&fixture("dpr-tiny/question"), None, &ImportOptions::default());
    let report = export_web(&model, None).unwrap();
    let size = |dtype: &str| report.manifest.weights[dtype].entry.bytes as f64;
    assert!(size("f16") < 0.6 * size("f32") && size("q8") < 0.5 * size("f32"));
    let read = |dtype: &str| {
        let bytes = fs_err::read(model.path().join(&report.manifest.weights[dtype].path)).unwrap();
        TensorMap::from_safetensors([(dtype, bytes.as_slice())]).unwrap()
    };
    let (mut exact, mut eighth) = (read("f32"), read("q8"));
    let name = "encoder.layer.0.intermediate.dense.weight";
    let (exact, eighth) =
        (exact.take_f32(name, &[64, 32]).unwrap(), eighth.take_f32(name, &[64, 32]).unwrap());
    for (exact, eighth) in exact.chunks(32).zip(eighth.chunks(32)) {
        let step = exact.iter().fold(0f32, |max, v| max.max(v.abs())) / 127.0;
        assert!(exact.iter().zip(eighth).all(|(a, b)| (a - b).abs() <= 0.501 * step), "within half a step");
    }
}

#[test]
fn weights_that_are_not_finite_are_refused() {
    let dir = copy("dpr-tiny/question");
    let path = dir.path().join("model.safetensors");
    let bytes = fs_err::read(&path).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let damaged: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .iter()
        .map(|(name, view)| {
            let mut data = view.data().to_vec();
            if name.ends_with("word_embeddings.weight") {
                data[40..44].copy_from_slice(&f32::NAN.to_le_bytes());
            }
            (name.to_owned(), view.shape().to_vec(), data)
        })
        .collect();
    let views = damaged.iter().map(|(name, shape, data)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap())
    });
    fs_err::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
    let out = dir.path().join("model");
    let error = import(dir.path(), None, &out, &ImportOptions::default()).unwrap_err().to_string();
    assert!(error.contains("word_embeddings.weight") && error.contains("not finite, at 10"), "{error}");
}

#[test]
fn what_sentence_transformers_saves_makes_the_vectors_that_it_makes() {
    for saved in ["sentence-transformers/mean-5", "sentence-transformers/mean-6"] {
        let golden = fs_err::read(fixture(saved).join("golden.json")).unwrap();
        let golden: Value = serde_json::from_slice(&golden).unwrap();
        let (_dir, model) = imported(&fixture(saved), None, &ImportOptions::default());
        let manifest = model.manifest();
        assert_eq!((manifest.pooling, manifest.normalize), (Pooling::Mean, true), "{saved}");
        assert_eq!((manifest.max_question_tokens, manifest.max_passage_tokens), (16, 16), "{saved}");
        let encoder = model.question_encoder(DeviceChoice::Cpu).unwrap();
        let texts = golden["texts"].as_array().unwrap();
        for (text, expected) in texts.iter().zip(golden["vectors"].as_array().unwrap()) {
            let got = encoder.encode_question(text.as_str().unwrap()).unwrap().into_vec();
            let expected: Vec<f32> = serde_json::from_value(expected.clone()).unwrap();
            let far = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
            assert!(got.len() == expected.len() && far < 1e-5, "{saved}: {text}: {got:?}, {expected:?}");
        }
    }
}

#[test]
fn pooling_is_read_in_both_forms_and_what_is_not_computed_is_refused_by_name() {
    let old = |modes: &[&str]| {
        let mut config = json!({ "word_embedding_dimension": 8, "pooling_mode_max_tokens": false });
        modes.iter().for_each(|mode| config[*mode] = json!(true));
        config
    };
    let cases: [(Value, Result<Pooling, &str>); 15] = [
        (json!({ "pooling_mode": "cls" }), Ok(Pooling::Cls)),
        (json!({ "pooling_mode": "Mean" }), Ok(Pooling::Mean)),
        (json!({ "pooling_mode": ["mean"] }), Ok(Pooling::Mean)),
        (json!({ "pooling_mode": "max" }), Ok(Pooling::Max)),
        (json!({ "pooling_mode": "lasttoken" }), Ok(Pooling::LastToken)),
        (json!({ "pooling_mode": "weightedmean" }), Ok(Pooling::WeightedMean)),
        (json!({ "pooling_mode": "mean_sqrt_len_tokens" }), Ok(Pooling::MeanSqrtLen)),
        (json!({ "pooling_mode": "attention" }), Err("\"attention\"")),
        (json!({ "pooling_mode": ["cls", "mean"] }), Err("\"cls and mean\"")),
        (json!({ "pooling_mode": 3 }), Err("\"3\"")),
        (old(&["pooling_mode_cls_token"]), Ok(Pooling::Cls)),
        (old(&[]), Ok(Pooling::Mean)),
        (old(&["pooling_mode_lasttoken"]), Ok(Pooling::LastToken)),
        (old(&["pooling_mode_mean_sqrt_len_tokens"]), Ok(Pooling::MeanSqrtLen)),
        (old(&["pooling_mode_cls_token", "pooling_mode_max_tokens"]), Err("\"cls and max\"")),
    ];
    for (config, expected) in cases {
        let dir = copy("sentence-transformers/mean-6");
        let path = dir.path().join("1_Pooling/config.json");
        fs_err::write(&path, config.to_string()).unwrap();
        match expected {
            Ok(pooling) => {
                let (_out, model) = imported(dir.path(), None, &ImportOptions::default());
                assert_eq!(model.manifest().pooling, pooling, "{config}");
            }
            Err(mode) => {
                let message = refused(dir.path());
                assert_says(
                    &message,
                    &[&path.display().to_string(), mode, "supported are \"cls\", \"mean\", \"max\""],
                );
                let options = ImportOptions { pooling: Some(Pooling::Cls), ..ImportOptions::default() };
                let (_out, model) = imported(dir.path(), None, &options);
                assert_eq!(model.manifest().pooling, Pooling::Cls, "an option says it for {config}");
            }
        }
    }
}

#[test]
fn a_text_is_cut_where_sentence_transformers_cuts_it() {
    let limit = |dir: &Path| {
        let (_out, model) = imported(dir, None, &ImportOptions::default());
        model.manifest().max_question_tokens
    };
    let dir = copy("sentence-transformers/mean-6");
    let (own, tokenizer) =
        (dir.path().join("sentence_bert_config.json"), dir.path().join("tokenizer_config.json"));
    assert_eq!(limit(dir.path()), 16, "the tokenizer's");
    edit_json(&own, |config| config["max_seq_length"] = json!(12));
    assert_eq!(limit(dir.path()), 12, "its own first");
    edit_json(&own, |config| config["max_seq_length"] = Value::Null);
    edit_json(&tokenizer, |config| config["model_max_length"] = json!(1e30));
    assert_eq!(limit(dir.path()), 32, "all positions where the tokenizer has no limit");
    edit_json(&tokenizer, |config| config["model_max_length"] = json!(2));
    assert_says(&refused(dir.path()), &["max_seq_length is 2", "from 4 to 32"]);

    let plain = copy("dpr-tiny/question");
    edit_json(&plain.path().join("tokenizer_config.json"), |config| config["model_max_length"] = json!(16));
    assert_eq!(limit(plain.path()), 128, "a directory of transformers alone says nothing of it");
}

#[test]
fn modules_that_are_not_computed_are_refused_by_name() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 5] = [
        (|modules| modules[2]["type"] = json!("sentence_transformers.models.LSTM"), "module LSTM"),
        (|modules| modules[1]["type"] = json!("custom_st.Pooling"), "custom_st.Pooling"),
        (
            |modules| modules[0]["type"] = json!("sentence_transformers.models.StaticEmbedding"),
            "StaticEmbedding",
        ),
        (|modules| modules[0]["path"] = json!("../other"), "leaves the directory"),
        (|modules| modules[1]["type"] = Value::Null, "no type"),
    ];
    for (edit, expected) in cases {
        let dir = copy("sentence-transformers/mean-6");
        let path = dir.path().join("modules.json");
        edit_json(&path, edit);
        assert_says(&refused(dir.path()), &[&path.display().to_string(), expected]);
    }

    let dir = copy("sentence-transformers/mean-6");
    edit_json(&dir.path().join("2_Normalize/config.json"), |c| {
        c["module_input_name"] = json!("token_embeddings")
    });
    assert_says(&refused(dir.path()), &["module Normalize"]);
    let dir = copy("sentence-transformers/mean-6");
    edit_json(&dir.path().join("modules.json"), |modules| modules.as_array_mut().unwrap().truncate(1));
    assert_says(&refused(dir.path()), &["pooling is \"\"", "name one of them"]);
}

#[test]
fn modules_are_found_where_their_list_says() {
    let dir = copy("sentence-transformers/mean-6");
    let (_a, flat) = imported(dir.path(), None, &ImportOptions::default());
    let inner = dir.path().join("0_Transformer");
    fs_err::create_dir(&inner).unwrap();
    for file in [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "sentence_bert_config.json",
    ] {
        fs_err::rename(dir.path().join(file), inner.join(file)).unwrap();
    }
    fs_err::rename(dir.path().join("1_Pooling"), dir.path().join("pool")).unwrap();
    edit_json(&dir.path().join("modules.json"), |modules| {
        modules[0]["path"] = json!("0_Transformer");
        modules[1]["path"] = json!("pool");
    });
    let (_b, nested) = imported(dir.path(), None, &ImportOptions::default());
    assert_eq!(flat.manifest().fingerprint, nested.manifest().fingerprint);
}

#[test]
fn a_model_that_makes_no_vectors_is_told_what_it_is() {
    let dir = copy("sentence-transformers/cross-encoder-6");
    assert_says(
        &refused(dir.path()),
        &["config_sentence_transformers.json", "a CrossEncoder", "a pair of texts", "as a cross-encoder"],
    );
    for file in ["config_sentence_transformers.json", "modules.json"] {
        fs_err::remove_file(dir.path().join(file)).unwrap();
    }
    let path = dir.path().display().to_string();
    assert_says(&refused(dir.path()), &[&path, "BertForSequenceClassification", "cross-encoder"]);
    edit_config(dir.path(), |config| config["architectures"] = Value::Null);
    assert_says(
        &refused(dir.path()),
        &[&path, "place for: 2, first", "classifier.bias", "classifier.weight", "AutoModel"],
    );

    let reader = copy("dpr-tiny/question");
    edit_config(reader.path(), |config| config["architectures"] = json!(["DPRReader"]));
    assert_says(&refused(reader.path()), &["DPRReader", "a reader"]);
}

#[test]
fn weights_and_settings_that_would_be_passed_over_are_refused() {
    type Edit = fn(&mut Value);
    let cases: [(Edit, &[&str]); 4] = [
        (|config| config["num_hidden_layers"] = json!(1), &["place for: 16, first", "encoder.layer.1."]),
        (
            |config| config["position_embedding_type"] = json!("relative_key"),
            &["\"relative_key\"", "absolute"],
        ),
        (|config| config["is_decoder"] = json!(true), &["is_decoder is true", "only encoders"]),
        (|config| config["hidden_act"] = json!("relu"), &["relu", "gelu"]),
    ];
    for (edit, expected) in cases {
        let dir = copy("dpr-tiny/question");
        edit_config(dir.path(), edit);
        assert_says(&refused(dir.path()), expected);
    }
    let dir = copy("dpr-tiny-projected/question");
    edit_config(dir.path(), |config| config["projection_dim"] = json!(0));
    assert_says(&refused(dir.path()), &["place for: 2, first", "encode_proj.bias", "encode_proj.weight"]);

    let cased = copy("sentence-transformers/mean-5");
    edit_json(&cased.path().join("sentence_bert_config.json"), |config| {
        config["do_lower_case"] = json!(true)
    });
    imported(cased.path(), None, &ImportOptions::default());
    edit_json(&cased.path().join("tokenizer.json"), |json| json["normalizer"]["lowercase"] = json!(false));
    assert_says(&refused(cased.path()), &["do_lower_case", "tokenizer.json keeps upper case"]);
}
