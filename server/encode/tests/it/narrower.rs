//! Narrower vectors of a model that was trained for them: those of an import with fewer numbers, or refused by name.

use std::path::Path;

use crate::files::{copy, edit, fixtures, read};

use dpr_core::{DeviceChoice, ModelManifest, Similarity};
use dpr_encode::model::{ImportOptions, ModelDir, PASSAGE_DIR, QUESTION_DIR, import};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What sentence-transformers 6 saved under this name: the files of `heads/NAME-6` over those of `mean-6`.
fn saved(name: &str) -> TempDir {
    let (dir, all) = (tempfile::tempdir().unwrap(), fixtures().join("sentence-transformers"));
    copy(&all.join("mean-6"), dir.path());
    if name != "mean" {
        fs_err::remove_dir_all(dir.path().join("2_Normalize")).unwrap();
        copy(&all.join(format!("heads/{name}-6")), dir.path());
    }
    dir
}

fn imported(question: &Path, passage: Option<&Path>, options: &ImportOptions) -> (TempDir, ModelDir) {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("model");
    import(question, passage, &path, options).unwrap_or_else(|e| panic!("{}: {e}", question.display()));
    let model = ModelDir::open(&path).unwrap();
    (out, model)
}

fn trained() -> ImportOptions {
    ImportOptions { matryoshka: true, ..ImportOptions::default() }
}

fn at(dim: usize) -> ImportOptions {
    ImportOptions { dim: Some(dim), ..trained() }
}

fn texts() -> Vec<String> {
    serde_json::from_value(read(&fixtures().join("sentence-transformers/heads/texts.json"))).unwrap()
}

/// The vectors of both encoders, questions first.
fn vectors(model: &ModelDir) -> Vec<Vec<f32>> {
    let questions = model.question_encoder(DeviceChoice::Cpu).unwrap();
    let passages = model.passage_encoder(DeviceChoice::Cpu).unwrap();
    let mut all = Vec::new();
    for text in texts() {
        let rows = [questions.question_tokens(&text).unwrap()];
        all.push(questions.forward(&rows).unwrap());
        let rows = [passages.passage_tokens("the game", &text).unwrap()];
        all.push(passages.forward(&rows).unwrap());
    }
    all
}

#[test]
fn a_model_at_n_numbers_is_the_one_that_an_import_with_n_numbers_writes() {
    let tiny = fixtures().join("dpr-tiny");
    let (question, passage) = (tiny.join("question"), tiny.join("ctx"));
    let heads = ["mean", "prompts", "dense-tanh", "truncated", "truncated-dense"].map(saved);
    let mut cases: Vec<(&Path, Option<&Path>, usize)> = vec![(&question, Some(&passage), 32)];
    cases.extend(heads.iter().zip([8, 8, 12, 8, 12]).map(|(dir, full)| (dir.path(), None, full)));
    for (question, passage, full) in cases {
        let (_full, whole) = imported(question, passage, &at(full));
        for dim in [1, 3, full - 1, full] {
            let what = format!("{} at {dim}", question.display());
            let (_narrow, narrow) = imported(question, passage, &at(dim));
            // The wider model is cut, and the narrower one, which holds all weights, is widened or cut again.
            for from in [&whole, &imported(question, passage, &at(2)).1] {
                let cut = from.at_dim(dim).unwrap();
                assert_eq!(cut.manifest(), narrow.manifest(), "{what}");
                assert_eq!(cut.manifest().fingerprint, cut.manifest().compute_fingerprint());
                let folders =
                    if passage.is_some() { &[QUESTION_DIR, PASSAGE_DIR][..] } else { &[QUESTION_DIR] };
                for folder in folders {
                    let written = fs_err::read(narrow.path().join(folder).join("config.json")).unwrap();
                    assert_eq!(*cut.config(folder).unwrap(), written, "{what}: {folder}/config.json");
                }
                assert_eq!(vectors(&cut), vectors(&narrow), "{what}");
            }
        }
    }
}

#[test]
fn vectors_are_the_first_numbers_scaled_again_as_python_cuts_them() {
    let from = saved("truncated");
    let golden: Vec<Vec<f64>> =
        serde_json::from_value(read(&from.path().join("golden.json"))["questions"].clone()).unwrap();
    let (_out, whole) = imported(from.path(), None, &ImportOptions { dim: Some(8), ..Default::default() });
    let cut = whole.at_dim(5).unwrap();
    assert_eq!((whole.manifest().dim, cut.manifest().dim), (8, 5));
    let encoders = [&whole, &cut].map(|model| model.question_encoder(DeviceChoice::Cpu).unwrap());
    let scaled = |row: &[f64]| {
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        row.iter().map(|x| x / length).collect::<Vec<_>>()
    };
    for (text, golden) in texts().iter().zip(golden) {
        let [all, first] = [0, 1].map(|at| encoders[at].encode_question(text).unwrap().into_vec());
        let all: Vec<f64> = all.into_iter().map(f64::from).collect();
        // sentence-transformers 6 leaves the length of a cut vector to the cosine.
        for expected in [scaled(&all[..5]), scaled(&golden)] {
            let far = first.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
            assert!(first.len() == 5 && far < 1e-5, "{text}: {far} apart");
        }
    }
}

#[test]
fn a_manifest_says_that_its_model_was_trained_for_fewer_numbers_where_somebody_does() {
    let says = |model: &ModelDir| read(&model.path().join("model.json")).get("matryoshka").cloned();
    let plain = saved("mean");
    let (_a, untold) = imported(plain.path(), None, &ImportOptions::default());
    let (_b, told) = imported(plain.path(), None, &trained());
    assert_eq!((says(&untold), says(&told)), (None, Some(json!(true))));
    let fingerprint = |model: &ModelDir| model.manifest().fingerprint.clone();
    assert_eq!(fingerprint(&untold), fingerprint(&told));
    assert_eq!(told.manifest(), &ModelManifest { matryoshka: true, ..untold.manifest().clone() });

    let (_c, truncated) = imported(saved("truncated").path(), None, &ImportOptions::default());
    assert_eq!(says(&truncated), Some(json!(true)), "truncate_dim says it");
    for (field, value, expected) in [
        ("matryoshka_dimensions", json!([4, 8]), Some(json!(true))),
        ("matryoshka_dimensions", json!([]), None),
        ("matryoshka_dimensions", Value::Null, None),
        ("is_matryoshka", json!(true), Some(json!(true))),
        ("is_matryoshka", json!(false), None),
    ] {
        let dir = saved("mean");
        edit(&dir.path().join("config.json"), |config| config[field] = value.clone());
        let (_out, model) = imported(dir.path(), None, &ImportOptions::default());
        assert_eq!(says(&model), expected, "{field}: {value}");
        let asked = ImportOptions { dim: Some(4), ..ImportOptions::default() };
        let narrow = import(dir.path(), None, &dir.path().join("narrow"), &asked);
        assert_eq!(narrow.is_ok(), expected.is_some(), "{field}: {value}");
    }
    // A projection was not trained so that its first numbers rank alone.
    let (_d, projected) = imported(plain.path(), None, &ImportOptions { project: Some(16), ..trained() });
    assert_eq!(says(&projected), None);
}

#[test]
fn what_cannot_be_cut_is_refused_by_name_and_is_itself_at_its_own_size() {
    let (plain, euclidean) = (saved("mean"), saved("euclidean"));
    let distance = ImportOptions { max_passage_tokens: Some(16), max_question_tokens: Some(16), ..trained() };
    let cases: [(&Path, ImportOptions, usize, &[&str]); 6] = [
        (plain.path(), ImportOptions::default(), 4, &["first 4 of its 8 numbers", "Matryoshka", "imported"]),
        (plain.path(), trained(), 0, &["8 numbers, and 0 were asked for", "1 to 8"]),
        (plain.path(), trained(), 9, &["8 numbers, and 9 were asked for", "1 to 8"]),
        (plain.path(), ImportOptions { project: Some(16), ..trained() }, 4, &["projection to 16"]),
        (
            plain.path(),
            ImportOptions { space: Some("ab".repeat(32)), ..trained() },
            4,
            &["8 numbers", "not cut to 4", "teacher"],
        ),
        (euclidean.path(), distance, 4, &["8 numbers", "not cut to 4", "Euclidean distance"]),
    ];
    for (from, options, dim, expected) in cases {
        let (_out, model) = imported(from, None, &options);
        let message = model.at_dim(dim).unwrap_err().to_string();
        for part in expected.iter().chain([&model.path().to_str().unwrap()]) {
            assert!(message.contains(part), "no {part:?} in: {message}");
        }
        let own = model.question_encoder(DeviceChoice::Cpu).unwrap().config().dim();
        assert_eq!(model.at_dim(own).unwrap().manifest(), model.manifest());
    }
}

#[test]
fn a_model_is_found_by_the_fingerprint_and_the_size_of_vectors() {
    let from = saved("mean");
    let (_full, whole) = imported(from.path(), None, &trained());
    let (_narrow, narrow) = imported(from.path(), None, &at(4));
    let (_other, other) = imported(
        from.path(),
        None,
        &ImportOptions { normalize: Some(false), similarity: Some(Similarity::Dot), ..at(4) },
    );
    let of = |model: &ModelDir| (model.manifest().fingerprint.clone(), model.manifest().dim);
    let found = |model: &ModelDir, (fingerprint, dim): (String, usize)| {
        model.clone().of_vectors(&fingerprint, dim).unwrap().map(|model| of(&model))
    };
    for wanted in [of(&whole), of(&narrow)] {
        assert_eq!(found(&whole, wanted.clone()), Some(wanted.clone()));
        assert_eq!(found(&narrow, wanted.clone()), Some(wanted));
    }
    assert_eq!(found(&whole, of(&other)), None, "of other vectors");
    for dim in [0, 3, 8, 9] {
        assert_eq!(found(&whole, (of(&narrow).0, dim)), None, "{dim} numbers");
    }
    // Whoever made vectors of 4 numbers with this model has said that they serve.
    let (_untold, untold) = imported(from.path(), None, &ImportOptions::default());
    assert!(untold.at_dim(4).is_err());
    assert_eq!(found(&untold, of(&narrow)), Some(of(&narrow)));
    // A student has the vectors of its teacher at the teacher's size alone.
    let space = of(&whole).0;
    let (_student, student) =
        imported(from.path(), None, &ImportOptions { space: Some(space.clone()), ..trained() });
    assert!(student.clone().of_vectors(&space, 8).unwrap().is_some());
    assert_eq!(found(&student, of(&narrow)), None);
    // With the coordinate for the distance there is a number more, and none less.
    let (_l2, l2) = imported(saved("euclidean").path(), None, &ImportOptions::default());
    let (fingerprint, dim) = of(&l2);
    assert_eq!(found(&l2, (fingerprint.clone(), dim)), Some((fingerprint.clone(), dim)));
    assert_eq!(found(&l2, (fingerprint, dim - 1)), None);
}
