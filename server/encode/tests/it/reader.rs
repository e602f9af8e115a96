//! Readers as model directories: imported with Python's answers, or refused by name with nothing left behind.

use std::path::Path;

use crate::files::{Stored, assert_says, edit, edit_weights, fixture, fixtures, read};

use dpr_core::{Answer, DeviceChoice, ReadOptions, TitleJoin};
use dpr_encode::model::{
    CrossEncoderDir, CrossEncoderOptions, ImportOptions, ModelDir, READER_DIR, ReaderDir, ReaderOptions,
    import, import_cross_encoder, import_reader,
};
use safetensors::SafeTensors;
use safetensors::tensor::Dtype;
use serde_json::{Value, json};
use tempfile::TempDir;

fn imported(from: &Path, options: &ReaderOptions) -> (TempDir, ReaderDir) {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("model");
    import_reader(from, &path, options).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    let model = ReaderDir::open(&path).unwrap();
    (out, model)
}

fn refused(from: &Path, options: &ReaderOptions) -> String {
    let out = tempfile::tempdir().unwrap();
    let error = import_reader(from, &out.path().join("model"), options).unwrap_err().to_string();
    assert_eq!(fs_err::read_dir(out.path()).unwrap().count(), 0, "nothing is left behind");
    error
}

/// The answers in the fixtures' passages, question by question.
fn answers(model: &ReaderDir) -> Vec<Vec<Answer>> {
    let reader = model.reader(DeviceChoice::Cpu).unwrap();
    let cases: Vec<(String, Vec<[String; 2]>)> =
        serde_json::from_value(read(&fixtures().join("readers/cases.json"))).unwrap();
    let of = |(question, passages): &(String, Vec<[String; 2]>)| {
        let passages: Vec<_> = passages.iter().map(|[title, text]| (title.as_str(), text.as_str())).collect();
        let options = ReadOptions { spans: 3, ..ReadOptions::default() };
        reader.read(question, &passages, usize::MAX, options).unwrap()
    };
    cases.iter().map(of).collect()
}

fn names(dir: &Path) -> Vec<String> {
    let bytes = fs_err::read(dir.join("model.safetensors")).unwrap();
    let parsed = SafeTensors::deserialize(&bytes).unwrap();
    let mut names: Vec<_> = parsed.names().into_iter().map(ToOwned::to_owned).collect();
    names.sort();
    names
}

#[test]
fn an_imported_reader_answers_as_python_does_and_imports_again_as_it_is() {
    for name in ["dpr", "bert", "roberta"] {
        let from = fixtures().join("readers").join(name);
        let (_a, model) = imported(&from, &ReaderOptions::default());
        let manifest = model.manifest();
        assert_eq!((manifest.format_version, manifest.name.as_str(), manifest.max_tokens), (3, name, 60));
        let got = answers(&model);
        let golden = read(&from.join("golden.json"));
        let texts: Vec<Vec<&str>> =
            got.iter().map(|found| found.iter().map(|answer| answer.text.as_str()).collect()).collect();
        let expected: Vec<Vec<&str>> = golden["answers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|found| found.as_array().unwrap().iter().map(|a| a["text"].as_str().unwrap()).collect())
            .collect();
        assert_eq!(texts, expected, "{name}");

        let (_b, again) = imported(&model.path().join(READER_DIR), &ReaderOptions::default());
        assert_eq!(again.manifest().fingerprint, manifest.fingerprint);
        assert_eq!(answers(&again), got);
        // The files are those that transformers reads: the class and its own names.
        let dir = model.path().join(READER_DIR);
        assert_eq!(
            read(&dir.join("config.json"))["architectures"],
            read(&from.join("config.json"))["architectures"]
        );
        assert_eq!(names(&dir), names(&from));
    }
}

#[test]
fn the_other_classes_are_imported_from_encoders_with_two_outputs() {
    // Encoders of the other families, with a layer that points at their first two numbers.
    let cases = [
        ("electra", "electra", "ElectraForQuestionAnswering"),
        ("distilbert", "distilbert", "DistilBertForQuestionAnswering"),
        ("xlm-roberta", "roberta", "XLMRobertaForQuestionAnswering"),
        ("xlm-roberta", "roberta", "CamembertForQuestionAnswering"),
        ("mpnet", "mpnet", "MPNetForQuestionAnswering"),
    ];
    for (name, prefix, class) in cases {
        let from = fixture(&format!("cross-encoders/{name}"));
        let tokenizer = if name == "electra" || name == "distilbert" { "bert" } else { "xlm-roberta" };
        for file in ["tokenizer.json", "tokenizer_config.json"] {
            let path = fixtures().join("cross-encoders").join(tokenizer).join(file);
            fs_err::copy(path, from.path().join(file)).unwrap();
        }
        edit(&from.path().join("config.json"), |config| config["architectures"] = json!([class]));
        edit_weights(from.path(), |tensors| {
            tensors.retain(|(tensor, ..)| tensor.starts_with(prefix) && !tensor.contains("pooler"));
            let weight: Vec<u8> =
                (0..64u32).flat_map(|at| f32::from(u8::from(at % 33 == 0)).to_le_bytes()).collect();
            tensors.push(("qa_outputs.weight".into(), Dtype::F32, vec![2, 32], weight));
            tensors.push(("qa_outputs.bias".into(), Dtype::F32, vec![2], vec![0; 8]));
        });
        let (_out, model) = imported(from.path(), &ReaderOptions::default());
        assert_eq!(model.manifest().max_tokens, 48, "{class}: the tokenizer's limit");
        assert!(answers(&model).iter().all(|found| !found.is_empty()), "{class}");
        assert_eq!(names(&model.path().join(READER_DIR)), names(from.path()), "{class}");
    }
}

#[test]
fn options_decide_the_limit_and_titles() {
    let from = fixtures().join("readers/bert");
    let (_a, plain) = imported(&from, &ReaderOptions::default());
    let mut seen = vec![(plain.manifest().fingerprint.clone(), answers(&plain))];
    for options in [
        ReaderOptions { title_join: Some(TitleJoin::Space), ..Default::default() },
        ReaderOptions { title_join: Some(TitleJoin::Separator), ..Default::default() },
        ReaderOptions { max_tokens: Some(48), ..Default::default() },
    ] {
        let (_out, model) = imported(&from, &options);
        let (fingerprint, found) = (model.manifest().fingerprint.clone(), answers(&model));
        for (other, answers) in &seen {
            assert!(&fingerprint != other && &found != answers, "{options:?}");
        }
        let (_again, again) = imported(&model.path().join(READER_DIR), &ReaderOptions::default());
        assert_eq!(again.manifest().fingerprint, fingerprint, "{options:?}");
        seen.push((fingerprint, found));
    }
    let named = ReaderOptions { name: Some("another".into()), ..Default::default() };
    assert_eq!(imported(&from, &named).1.manifest().fingerprint, seen[0].0, "a name changes no answer");
    for (limit, expected) in [(65, "takes from 4 to 64 tokens"), (3, "limit of a pair is 3")] {
        let options = ReaderOptions { max_tokens: Some(limit), ..Default::default() };
        assert_says(&refused(&from, &options), &[expected]);
    }
    let joined = ReaderOptions { title_join: Some(TitleJoin::Space), ..Default::default() };
    assert_says(&refused(&fixtures().join("readers/dpr"), &joined), &["title join", "\"separator\" alone"]);

    // A model that Python gives no token types gets none.
    let untyped = fixture("readers/bert");
    let settings = untyped.path().join("tokenizer_config.json");
    edit(&settings, |c| c["model_input_names"] = json!(["input_ids", "attention_mask"]));
    let (_b, untyped) = imported(untyped.path(), &ReaderOptions::default());
    assert!(untyped.manifest().fingerprint != seen[0].0 && answers(&untyped) != seen[0].1);
}

#[test]
fn readers_encoders_and_cross_encoders_are_not_taken_for_each_other() {
    let (out, model) = imported(&fixtures().join("readers/dpr"), &ReaderOptions::default());
    let message = ModelDir::open(model.path()).unwrap_err().to_string();
    assert_says(&message, &["holds a reader", "makes no vectors"]);
    let message = CrossEncoderDir::open(model.path()).unwrap_err().to_string();
    assert_says(&message, &["it holds a reader", "give a cross-encoder"]);

    let (encoders, cross) = (out.path().join("encoders"), out.path().join("cross"));
    let question = fixtures().join("dpr-tiny/question");
    import(&question, None, &encoders, &ImportOptions::default()).unwrap();
    let pairs = fixtures().join("cross-encoders/bert");
    import_cross_encoder(&pairs, &cross, &CrossEncoderOptions::default()).unwrap();
    assert_says(&ReaderDir::open(&encoders).unwrap_err().to_string(), &["holds encoders", "give a reader"]);
    assert_says(&ReaderDir::open(&cross).unwrap_err().to_string(), &["a cross-encoder", "give a reader"]);

    // As Hugging Face directories, too.
    assert_says(
        &refused(&question, &ReaderOptions::default()),
        &["\"DPRQuestionEncoder\"", "supported readers"],
    );
    assert_says(
        &refused(&pairs, &ReaderOptions::default()),
        &["\"BertForSequenceClassification\"", "supported readers are DPRReader"],
    );
    let path = out.path().join("refused");
    for name in ["dpr", "bert", "roberta"] {
        let from = fixtures().join("readers").join(name);
        let error = import(&from, None, &path, &ImportOptions::default()).unwrap_err();
        assert_says(&error.to_string(), &["imported as a reader"]);
        let error = import_cross_encoder(&from, &path, &CrossEncoderOptions::default()).unwrap_err();
        assert_says(&error.to_string(), &["supported cross-encoders are"]);
        assert!(!path.exists());
        // A config.json that says nothing of its class is told by the tensors.
        let unnamed = fixture(&format!("readers/{name}"));
        edit(&unnamed.path().join("config.json"), |c| c["architectures"] = Value::Null);
        let error = import(unnamed.path(), None, &path, &ImportOptions::default()).unwrap_err();
        assert_says(&error.to_string(), &["no place for", "qa_outputs.weight"]);
    }
    let error = import_reader(&fixtures().join("readers/dpr"), &encoders, &ReaderOptions::default());
    assert_says(&error.unwrap_err().to_string(), &["exists"]);
    assert!(ModelDir::open(&encoders).is_ok(), "what was there is untouched");
}

#[test]
fn hostile_directories_are_refused_by_name() {
    type Change = fn(&Path);
    fn tensor<'a>(tensors: &'a mut [Stored], end: &str) -> &'a mut Stored {
        tensors.iter_mut().find(|(name, ..)| name.ends_with(end)).unwrap()
    }
    let cases: [(Change, &[&str]); 13] = [
        (
            |dir| edit_weights(dir, |t| t.retain(|(name, ..)| !name.ends_with("qa_classifier.weight"))),
            &["\"qa_classifier.weight\" is missing", "[1, 32]"],
        ),
        (
            |dir| edit_weights(dir, |t| t.retain(|(name, ..)| !name.ends_with("layer.1.output.dense.bias"))),
            &["\"encoder.layer.1.output.dense.bias\" is missing"],
        ),
        (
            |dir| {
                edit_weights(dir, |tensors| {
                    let (_, _, shape, bytes) = tensor(tensors, "qa_outputs.bias");
                    *shape = vec![3];
                    bytes.extend([0, 0]);
                });
            },
            &["\"qa_outputs.bias\" has shape [3], expected [2]"],
        ),
        (
            |dir| edit_weights(dir, |tensors| tensor(tensors, "qa_outputs.weight").3.fill(0xff)),
            &["\"qa_outputs.weight\" holds a number that is not finite"],
        ),
        (
            |dir| edit_weights(dir, |t| t.push(("classifier.bias".into(), Dtype::F32, vec![1], vec![0; 4]))),
            &["place for: 1", "\"classifier.bias\""],
        ),
        (
            // The same tensor under the name of another class.
            |dir| edit_weights(dir, |t| t.push(("qa_outputs.bias".into(), Dtype::F32, vec![2], vec![0; 8]))),
            &["\"qa_outputs.bias\" is there twice"],
        ),
        (
            |dir| edit_weights(dir, |tensors| tensor(tensors, "qa_outputs.bias").1 = Dtype::I16),
            &["\"qa_outputs.bias\" is stored as I16"],
        ),
        (
            |dir| {
                let path = dir.join("model.safetensors");
                let bytes = fs_err::read(&path).unwrap();
                fs_err::write(&path, &bytes[..bytes.len() - 7]).unwrap();
            },
            &["is not a whole safetensors file"],
        ),
        (
            |dir| fs_err::write(dir.join("model.safetensors"), [0xff; 64]).unwrap(),
            &["is not a whole safetensors file"],
        ),
        (|dir| edit(&dir.join("config.json"), |c| c["projection_dim"] = json!(8)), &["projection_dim is 8"]),
        (
            |dir| edit(&dir.join("config.json"), |c| c["architectures"] = json!(["DPRReader", "BertModel"])),
            &["\"DPRReader, BertModel\"; supported readers are"],
        ),
        (
            |dir| edit(&dir.join("tokenizer.json"), |t| t["post_processor"] = Value::Null),
            &["post_processor", "is missing"],
        ),
        (|dir| fs_err::remove_file(dir.join("tokenizer.json")).unwrap(), &["tokenizer.json"]),
    ];
    for (change, expected) in cases {
        let dir = fixture("readers/dpr");
        change(dir.path());
        assert_says(&refused(dir.path(), &ReaderOptions::default()), expected);
    }
    let overflow = fixture("readers/bert");
    edit_weights(overflow.path(), |tensors| {
        let (_, dtype, _, bytes) = tensor(tensors, "qa_outputs.weight");
        (*dtype, *bytes) = (Dtype::F32, (0..64).flat_map(|_| f32::MAX.to_le_bytes()).collect());
    });
    assert_says(&refused(overflow.path(), &ReaderOptions::default()), &["model.safetensors", "not finite"]);
}

#[test]
fn cut_and_changed_weights_end_in_errors_or_in_readers() {
    let dir = fixture("readers/dpr");
    let path = dir.path().join("model.safetensors");
    let whole = fs_err::read(&path).unwrap();
    for part in 0..12 {
        fs_err::write(&path, &whole[..whole.len() * part / 12]).unwrap();
        let message = refused(dir.path(), &ReaderOptions::default());
        assert_says(&message, &["model.safetensors is not a whole safetensors file"]);
    }
    // One byte of the header is another: names, types, shapes and places.
    let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let (mut read, mut failed) = (0, 0);
    for change in 0..24usize {
        let (at, mut bytes) = (change * 7919 % header, whole.clone());
        bytes[at] ^= 1 << (change % 7);
        fs_err::write(&path, bytes).unwrap();
        let out = tempfile::tempdir().unwrap();
        match import_reader(dir.path(), &out.path().join("model"), &ReaderOptions::default()) {
            Ok(_) => read += 1,
            Err(_) => failed += usize::from(fs_err::read_dir(out.path()).unwrap().count() == 0),
        }
    }
    assert_eq!(read + failed, 24, "nothing is left behind");
}

#[test]
fn a_damaged_model_directory_names_what_is_damaged() {
    let from = fixtures().join("readers/dpr");
    let damage = |change: fn(&Path)| {
        let (_out, model) = imported(&from, &ReaderOptions::default());
        change(model.path());
        ReaderDir::open(model.path()).unwrap_err().to_string()
    };
    let message = damage(|dir| fs_err::write(dir.join("reader/tokenizer.json"), "{}").unwrap());
    assert_says(&message, &["tokenizer.json is damaged: its size"]);
    let manifest = |change: fn(&mut Value)| {
        let (_out, model) = imported(&from, &ReaderOptions::default());
        edit(&model.path().join("model.json"), change);
        ReaderDir::open(model.path()).unwrap_err().to_string()
    };
    assert_says(&manifest(|m| m["max_tokens"] = json!(59)), &["fingerprint is not that"]);
    assert_says(&manifest(|m| m["format_version"] = json!(4)), &["format 4", "up to 3", "newer dpr"]);
    assert_says(&manifest(|m| m["kind"] = json!("cross_encoder")), &["a cross-encoder", "give a reader"]);
    assert_says(&manifest(|m| m["kind"] = json!(7)), &["its kind is 7"]);
}
