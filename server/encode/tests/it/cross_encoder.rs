//! Cross-encoders as model directories: imported with Python's scores, or refused by name with nothing left behind.

use std::path::Path;

use crate::files::{assert_says, edit, edit_weights, fixture as copy, fixtures, read};

use dpr_core::{DeviceChoice, TitleJoin};
use dpr_encode::model::{
    CROSS_ENCODER_DIR, CrossEncoderDir, CrossEncoderOptions, ImportOptions, ModelDir, import,
    import_cross_encoder,
};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

fn imported(from: &Path, options: &CrossEncoderOptions) -> (TempDir, CrossEncoderDir) {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("model");
    import_cross_encoder(from, &path, options).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let model = CrossEncoderDir::open(&path).unwrap();
    (out, model)
}

fn refused(from: &Path, options: &CrossEncoderOptions) -> String {
    let out = tempfile::tempdir().unwrap();
    let error = import_cross_encoder(from, &out.path().join("model"), options).unwrap_err().to_string();
    assert_eq!(fs_err::read_dir(out.path()).unwrap().count(), 0, "nothing is left behind");
    error
}

fn pairs() -> Vec<[String; 3]> {
    serde_json::from_value(read(&fixtures().join("cross-encoders/pairs.json"))).unwrap()
}

fn scores(model: &CrossEncoderDir) -> Vec<f32> {
    let encoder = model.cross_encoder(DeviceChoice::Cpu).unwrap();
    let rows = pairs();
    let rows = rows.iter().map(|[question, title, text]| encoder.pair_tokens(question, title, text));
    encoder.forward(&rows.collect::<Result<Vec<_>, _>>().unwrap()).unwrap()
}

#[test]
fn an_imported_cross_encoder_scores_as_python_does_and_imports_again_as_it_is() {
    for name in ["bert", "xlm-roberta"] {
        let from = fixtures().join("cross-encoders").join(name);
        let expected: Vec<f32> =
            serde_json::from_value(read(&from.join("golden.json"))["scores"].clone()).unwrap();
        let (_a, model) = imported(&from, &CrossEncoderOptions::default());
        let manifest = model.manifest();
        assert_eq!((manifest.format_version, manifest.name.as_str(), manifest.max_tokens), (3, name, 48));
        assert_eq!(manifest.title_join, TitleJoin::Space);
        let got = scores(&model);
        for (pair, (got, expected)) in pairs().iter().zip(got.iter().zip(&expected)) {
            assert!((got - expected).abs() <= 1e-4, "{name}: {pair:?}: {got}, not {expected}");
        }

        let (_b, again) = imported(&model.path().join(CROSS_ENCODER_DIR), &CrossEncoderOptions::default());
        assert_eq!(again.manifest().fingerprint, manifest.fingerprint);
        assert_eq!(scores(&again), got);

        // The files are those that transformers reads: the class and its own names.
        let dir = model.path().join(CROSS_ENCODER_DIR);
        let classes = &read(&dir.join("config.json"))["architectures"];
        assert!(classes[0].as_str().unwrap().ends_with("ForSequenceClassification"));
        let [ours, theirs] = [&dir, &from].map(|dir| {
            let bytes = fs_err::read(dir.join("model.safetensors")).unwrap();
            let parsed = SafeTensors::deserialize(&bytes).unwrap();
            let mut names: Vec<_> = parsed.names().into_iter().map(ToOwned::to_owned).collect();
            names.sort();
            names
        });
        assert_eq!(ours, theirs);
    }
}

#[test]
fn the_other_classes_are_imported_with_their_heads() {
    for (name, tokenizer) in [("electra", "bert"), ("distilbert", "bert"), ("mpnet", "xlm-roberta")] {
        let from = copy(&format!("cross-encoders/{name}"));
        for file in ["tokenizer.json", "tokenizer_config.json"] {
            let path = fixtures().join("cross-encoders").join(tokenizer).join(file);
            fs_err::copy(path, from.path().join(file)).unwrap();
        }
        let expected: Vec<f32> =
            serde_json::from_value(read(&from.path().join("golden.json"))["scores"].clone()).unwrap();
        let (_out, model) = imported(from.path(), &CrossEncoderOptions::default());
        let worst = scores(&model).iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(worst <= 1e-4, "{name}: {worst}");
    }
}

#[test]
fn options_and_settings_decide_prompts_titles_and_the_limit() {
    let from = copy("cross-encoders/bert");
    let (_a, plain) = imported(from.path(), &CrossEncoderOptions::default());
    let changes = [
        CrossEncoderOptions { title_join: Some(TitleJoin::Separator), ..Default::default() },
        CrossEncoderOptions { query_prompt: Some("when ".into()), ..Default::default() },
        CrossEncoderOptions { passage_prompt: Some("the ".into()), ..Default::default() },
        CrossEncoderOptions { max_tokens: Some(24), ..Default::default() },
    ];
    let mut seen = vec![(plain.manifest().fingerprint.clone(), scores(&plain))];
    for options in &changes {
        let (_out, model) = imported(from.path(), options);
        for (fingerprint, scored) in &seen {
            assert_ne!(&model.manifest().fingerprint, fingerprint, "{options:?}");
            assert_ne!(&scores(&model), scored, "{options:?}");
        }
        let dir = model.path().join(CROSS_ENCODER_DIR);
        let (_again, again) = imported(&dir, &CrossEncoderOptions::default());
        assert_eq!(again.manifest().fingerprint, model.manifest().fingerprint, "{options:?}");
        seen.push((model.manifest().fingerprint.clone(), scores(&model)));
    }
    let named = CrossEncoderOptions { name: Some("another".into()), ..Default::default() };
    let (_b, named) = imported(from.path(), &named);
    assert_eq!(named.manifest().fingerprint, seen[0].0, "a name changes no score");

    // sentence-transformers puts the default prompt before the first text of a pair.
    let settings = from.path().join("config_sentence_transformers.json");
    let says = json!({"model_type": "CrossEncoder", "prompts": {"w": "when "}, "default_prompt_name": "w"});
    fs_err::write(settings, says.to_string()).unwrap();
    let (_c, prompted) = imported(from.path(), &CrossEncoderOptions::default());
    assert_eq!(prompted.manifest().fingerprint, seen[2].0);

    // Without a limit of the tokenizer's, there are as many tokens as positions.
    edit(&from.path().join("tokenizer_config.json"), |config| config["model_max_length"] = Value::Null);
    let (_d, long) = imported(from.path(), &CrossEncoderOptions::default());
    assert_eq!(long.manifest().max_tokens, 64);
    for (limit, expected) in
        [(65, "takes from 4 to 64 tokens"), (3, "limit of a pair is 3"), (4, "the prompt of pairs")]
    {
        let options = CrossEncoderOptions { max_tokens: Some(limit), ..Default::default() };
        assert_says(&refused(from.path(), &options), &[expected]);
    }
}

#[test]
fn a_model_that_python_gives_no_token_types_gets_none() {
    let from = copy("cross-encoders/bert");
    let golden = read(&from.path().join("golden.json"));
    let expected: Vec<f32> = serde_json::from_value(golden["untyped_scores"].clone()).unwrap();
    for (name, value) in [
        ("model_input_names", json!(["input_ids", "attention_mask"])),
        ("tokenizer_class", json!("TokenizersBackend")),
    ] {
        let from = copy("cross-encoders/bert");
        edit(&from.path().join("tokenizer_config.json"), |config| config[name] = value);
        let (_a, model) = imported(from.path(), &CrossEncoderOptions::default());
        let worst = scores(&model).iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
        assert!(worst <= 1e-4, "{name}: {worst}");
        let (_b, again) = imported(&model.path().join(CROSS_ENCODER_DIR), &CrossEncoderOptions::default());
        assert_eq!(again.manifest().fingerprint, model.manifest().fingerprint);
    }
}

#[test]
fn what_sentence_transformers_saves_is_imported() {
    let from = copy("sentence-transformers/cross-encoder-6");
    let (_out, model) = imported(from.path(), &CrossEncoderOptions::default());
    assert_eq!(model.manifest().max_tokens, 32);
    let encoder = model.cross_encoder(DeviceChoice::Cpu).unwrap();
    assert_eq!(encoder.score("who won the game", &[("", "cats"), ("", "the war")]).unwrap().len(), 2);

    let modules = from.path().join("modules.json");
    edit(&modules, |modules| {
        let dense =
            json!({"idx": 1, "name": "1", "path": "1_Dense", "type": "sentence_transformers.models.Dense"});
        modules.as_array_mut().unwrap().push(dense);
    });
    let message = refused(from.path(), &CrossEncoderOptions::default());
    assert_says(&message, &["modules.json", "models.Dense follows the Transformer"]);
    fs_err::remove_file(modules).unwrap();
    edit(&from.path().join("config_sentence_transformers.json"), |c| {
        c["model_type"] = json!("SparseEncoder")
    });
    let message = refused(from.path(), &CrossEncoderOptions::default());
    assert_says(
        &message,
        &["config_sentence_transformers.json", "\"SparseEncoder\"", "give a cross-encoder"],
    );
}

#[test]
fn encoders_and_cross_encoders_are_not_taken_for_each_other() {
    let (_a, model) = imported(&fixtures().join("cross-encoders/bert"), &CrossEncoderOptions::default());
    let message = ModelDir::open(model.path()).unwrap_err().to_string();
    assert_says(&message, &["holds a cross-encoder", "makes no vectors"]);

    let out = tempfile::tempdir().unwrap();
    let encoders = out.path().join("model");
    let question = fixtures().join("dpr-tiny/question");
    import(&question, None, &encoders, &ImportOptions::default()).unwrap();
    let message = CrossEncoderDir::open(&encoders).unwrap_err().to_string();
    assert_says(&message, &["holds encoders", "give a cross-encoder"]);

    // As Hugging Face directories, too.
    let message = refused(&question, &CrossEncoderOptions::default());
    assert_says(
        &message,
        &["DPRQuestionEncoder", "supported cross-encoders", "BertForSequenceClassification"],
    );
    for from in ["cross-encoders/bert", "sentence-transformers/cross-encoder-6"] {
        let path = out.path().join("refused");
        let error = import(&fixtures().join(from), None, &path, &ImportOptions::default()).unwrap_err();
        assert_says(&error.to_string(), &["imported as a cross-encoder"]);
        assert!(!path.exists());
    }
    let error = import_cross_encoder(
        &fixtures().join("cross-encoders/bert"),
        &encoders,
        &CrossEncoderOptions::default(),
    );
    assert_says(&error.unwrap_err().to_string(), &["exists"]);
    assert!(ModelDir::open(&encoders).is_ok(), "what was there is untouched");
}

#[test]
fn hostile_directories_are_refused_by_name() {
    type Change = fn(&Path);
    let cases: [(Change, &[&str]); 11] = [
        (
            |dir| edit(&dir.join("config.json"), |c| c["id2label"] = json!({"0": "no", "1": "yes"})),
            &["has 2 labels", "num_labels 1"],
        ),
        (
            |dir| edit_weights(dir, |t| t.retain(|(name, ..)| name != "classifier.weight")),
            &["\"classifier.weight\" is missing", "[1, 32]"],
        ),
        (
            |dir| edit_weights(dir, |t| t.retain(|(name, ..)| name != "bert.pooler.dense.bias")),
            &["\"pooler.dense.bias\" is missing"],
        ),
        (
            |dir| {
                edit_weights(dir, |t| {
                    t.push(("classifier.dense.bias".into(), Dtype::F32, vec![1], vec![0; 4]))
                })
            },
            &["place for: 1", "\"classifier.dense.bias\""],
        ),
        (
            |dir| edit_weights(dir, |t| t.push(("dense.0.bias".into(), Dtype::F32, vec![1], vec![0; 4]))),
            &["is there twice"],
        ),
        (
            |dir| {
                edit_weights(dir, |tensors| {
                    for (name, _, _, bytes) in tensors {
                        if name == "classifier.weight" {
                            bytes.fill(0xff);
                        }
                    }
                });
            },
            &["\"classifier.weight\" holds a number that is not finite"],
        ),
        (
            |dir| {
                edit_weights(dir, |tensors| {
                    for (name, _, shape, bytes) in tensors {
                        if name == "classifier.bias" {
                            *shape = vec![2];
                            bytes.extend([0, 0]);
                        }
                    }
                });
            },
            &["\"classifier.bias\" has shape [2], expected [1]"],
        ),
        (
            |dir| {
                edit(&dir.join("tokenizer.json"), |t| {
                    t["post_processor"]["pair"][3]["Sequence"]["type_id"] = json!(5);
                });
            },
            &["the type 5"],
        ),
        (
            |dir| {
                edit(&dir.join("config.json"), |c| {
                    c["dpr"] = json!({"pooling": "cls", "normalize": false, "max_tokens": 48});
                });
            },
            &["the section \"dpr\"", "the head of BertForSequenceClassification"],
        ),
        (
            |dir| fs_err::write(dir.join("sentence_bert_config.json"), r#"{"do_lower_case": true}"#).unwrap(),
            &[],
        ),
        (|dir| fs_err::remove_file(dir.join("tokenizer.json")).unwrap(), &["tokenizer.json"]),
    ];
    for (change, expected) in cases {
        let dir = copy("cross-encoders/bert");
        change(dir.path());
        if expected.is_empty() {
            // The tokenizer lowercases by itself; one that does not is refused.
            imported(dir.path(), &CrossEncoderOptions::default());
            edit(&dir.path().join("tokenizer.json"), |t| t["normalizer"]["lowercase"] = json!(false));
            assert_says(&refused(dir.path(), &CrossEncoderOptions::default()), &["do_lower_case"]);
            continue;
        }
        assert_says(&refused(dir.path(), &CrossEncoderOptions::default()), expected);
    }
}

#[test]
fn a_damaged_model_directory_names_what_is_damaged() {
    let from = fixtures().join("cross-encoders/bert");
    let damage = |change: fn(&Path)| {
        let (_out, model) = imported(&from, &CrossEncoderOptions::default());
        change(model.path());
        CrossEncoderDir::open(model.path()).unwrap_err().to_string()
    };
    let manifest = |change: fn(&mut Value)| {
        let (_out, model) = imported(&from, &CrossEncoderOptions::default());
        edit(&model.path().join("model.json"), change);
        [
            CrossEncoderDir::open(model.path()).unwrap_err().to_string(),
            ModelDir::open(model.path()).unwrap_err().to_string(),
        ]
    };
    let message = damage(|dir| fs_err::write(dir.join("cross_encoder/tokenizer.json"), "{}").unwrap());
    assert_says(&message, &["tokenizer.json is damaged: its size"]);
    let message = damage(|dir| fs_err::remove_file(dir.join("cross_encoder/model.safetensors")).unwrap());
    assert_says(&message, &["model.safetensors"]);
    assert_says(&manifest(|m| m["max_tokens"] = json!(47))[0], &["fingerprint is not that"]);
    assert_says(&manifest(|m| m["format_version"] = json!(4))[0], &["format 4", "up to 3", "newer dpr"]);
    for message in manifest(|m| m["kind"] = json!("writer")) {
        assert_says(&message, &["its kind is \"writer\""]);
    }
    assert_says(&manifest(|m| m["kind"] = Value::Null)[0], &["holds encoders"]);
    // An older version, which knows no kinds, reads the version first.
    assert_says(&manifest(|m| m["kind"] = Value::Null)[1], &["format 3", "up to 2"]);
}
