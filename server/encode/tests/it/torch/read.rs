//! Files as PyTorch writes them.

use std::path::Path;

use dpr_core::{DeviceChoice, TensorMap};
use dpr_encode::model::{ImportOptions, ModelDir, import};
use half::{bf16, f16};

use super::made::{Made, legacy, numbers, state, zip};
use super::{bytes, directory, made, read};

/// The model that an import of these weights writes.
fn imported(question: &Path, passage: Option<&Path>) -> (tempfile::TempDir, ModelDir) {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("model");
    import(question, passage, &path, &ImportOptions { name: Some("m".into()), ..ImportOptions::default() })
        .unwrap();
    let model = ModelDir::open(&path).unwrap();
    (out, model)
}

fn weights(model: &ModelDir, encoder: &str) -> Vec<u8> {
    fs_err::read(model.path().join(encoder).join("model.safetensors")).unwrap()
}

#[test]
fn every_way_of_saving_is_imported_to_the_same_file() {
    let dir = directory(&[("model.safetensors", &bytes("question.safetensors"))]);
    let (_a, expected) = imported(dir.path(), None);
    for name in [
        "question.bin",
        "question-legacy.bin",
        "question-f64.bin",
        "question-views.bin",
        "question-views-legacy.bin",
        "question-protocol-4.bin",
        "question-protocol-5.bin",
        "question-no-crc.bin",
    ] {
        let dir = directory(&[("pytorch_model.bin", &bytes(name))]);
        let (_b, model) = imported(dir.path(), None);
        assert_eq!(weights(&model, "question_encoder"), weights(&expected, "question_encoder"), "{name}");
        assert_eq!(model.manifest().fingerprint, expected.manifest().fingerprint, "{name}");
    }
}

#[test]
fn sixteen_bits_are_read_as_they_were_rounded() {
    let all = |mut map: TensorMap| {
        let names: Vec<_> = map.names().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect();
        names
            .into_iter()
            .map(|(name, shape)| (map.take_f32(&name, &shape).unwrap(), name))
            .collect::<Vec<_>>()
    };
    type Round = fn(f32) -> f32;
    let cases: [(&str, Round); 2] = [
        ("question-f16.bin", |number| f16::from_f32(number).to_f32()),
        ("question-bf16.bin", |number| bf16::from_f32(number).to_f32()),
    ];
    for (name, round) in cases {
        let mut expected = all(read(&bytes("question.bin")).unwrap());
        assert_eq!(expected.len(), 21, "5 of the embeddings, 16 of the layer");
        expected.iter_mut().flat_map(|(numbers, _)| numbers).for_each(|number| *number = round(*number));
        assert_eq!(all(read(&bytes(name)).unwrap()), expected, "{name}");
    }
}

#[test]
fn shards_are_one_file() {
    let names = [
        "pytorch_model-00001-of-00002.bin",
        "pytorch_model-00002-of-00002.bin",
        "pytorch_model.bin.index.json",
    ];
    let files = names.map(|name| bytes(&format!("sharded/{name}")));
    let shards: Vec<_> = names.iter().zip(&files).map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let sharded = directory(&shards);
    let whole = directory(&[("pytorch_model.bin", &bytes("question.bin"))]);
    let ((_a, sharded), (_b, whole)) = (imported(sharded.path(), None), imported(whole.path(), None));
    assert_eq!(weights(&sharded, "question_encoder"), weights(&whole, "question_encoder"));

    let out = tempfile::tempdir().unwrap();
    let refused = |shards: &[(&str, &[u8])]| {
        let dir = directory(shards);
        import(dir.path(), None, &out.path().join("model"), &ImportOptions::default())
            .unwrap_err()
            .to_string()
    };
    let missing = refused(&shards[1..]);
    assert!(missing.contains(names[0]), "{missing}");
    let twice = refused(&[shards[0], (names[1], shards[0].1), shards[2]]);
    assert!(twice.contains(names[1]) && twice.contains("is there twice"), "{twice}");
    let outside = refused(&[(names[2], br#"{"weight_map": {"a": "../pytorch_model.bin"}}"#)]);
    assert!(outside.contains(names[2]) && outside.contains("holds a path"), "{outside}");
}

#[test]
fn vectors_of_a_pair_are_those_of_transformers() {
    let pair = |name: &str, question: &str, ctx: &str| {
        let question = directory(&[(name, &bytes(question))]);
        let ctx = directory(&[(name, &bytes(ctx))]);
        imported(question.path(), Some(ctx.path()))
    };
    let (_a, expected) = pair("model.safetensors", "question.safetensors", "ctx.safetensors");
    let golden: serde_json::Value = serde_json::from_slice(&bytes("golden.json")).unwrap();
    for ctx in ["ctx.bin", "ctx-legacy.bin"] {
        let (_b, model) = pair("pytorch_model.bin", "question.bin", ctx);
        for encoder in ["question_encoder", "passage_encoder"] {
            assert_eq!(weights(&model, encoder), weights(&expected, encoder), "{ctx} {encoder}");
        }
        let questions = model.question_encoder(DeviceChoice::Cpu).unwrap();
        let passages = model.passage_encoder(DeviceChoice::Cpu).unwrap();
        for (row, text) in golden["texts"].as_array().unwrap().iter().enumerate() {
            let text = text.as_str().unwrap();
            let question = questions.encode_question(text).unwrap().as_slice().to_vec();
            let passage = passages.forward(&[passages.passage_tokens("", text).unwrap()]).unwrap();
            for (ours, golden) in [(question, &golden["question"][row]), (passage, &golden["ctx"][row])] {
                let golden: Vec<f32> = serde_json::from_value(golden.clone()).unwrap();
                let far = ours.iter().zip(&golden).map(|(a, b)| (a - b).abs()).fold(0f32, f32::max);
                assert!(ours.len() == golden.len() && far < 1e-5, "{text:?}: {far}");
            }
        }
    }
}

#[test]
fn safetensors_go_first_and_a_directory_without_weights_names_both() {
    let both =
        [("model.safetensors", &bytes("question.safetensors")[..]), ("pytorch_model.bin", b"not read")];
    imported(directory(&both).path(), None);
    let dir = directory(&[]);
    let out = tempfile::tempdir().unwrap();
    let error = import(dir.path(), None, &out.path().join("model"), &ImportOptions::default()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("no model.safetensors and no pytorch_model.bin: fetch"), "{error}");
}

#[test]
fn files_put_together_by_hand_are_read_too() {
    let transposed = Made { shape: vec![3, 2], strides: vec![1, 3], name: "b", ..Made::whole() };
    let slice = Made { shape: vec![2], strides: vec![1], offset: 4, name: "c", ..Made::whole() };
    let expanded = Made { shape: vec![2, 2], strides: vec![0, 1], name: "d", ..Made::whole() };
    let empty = Made { shape: vec![0, 3], strides: vec![3, 1], offset: 6, name: "e", ..Made::whole() };
    let number = Made { shape: vec![], strides: vec![], offset: 5, name: "f", ..Made::whole() };
    let object = state(&[Made::whole(), transposed, slice, expanded, empty, number]);
    let mut entries = made::entries();
    entries[0] = made::entry("archive/data.pkl", object.clone());
    for file in [zip(&entries), legacy(&object, &[("0", 6, numbers())])] {
        let mut map = read(&file).unwrap();
        let mut take = |name: &str, shape: &[usize]| map.take_f32(name, shape).unwrap();
        assert_eq!(take("a", &[2, 3]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(take("b", &[3, 2]), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        assert_eq!(take("c", &[2]), [4.0, 5.0]);
        assert_eq!(take("d", &[2, 2]), [0.0, 1.0, 0.0, 1.0]);
        assert!(take("e", &[0, 3]).is_empty());
        assert_eq!(take("f", &[]), [5.0]);
    }
}
