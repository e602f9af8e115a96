//! Importing models: what is written, and what each kind of damage is called.

use std::path::{Path, PathBuf};

use dpr_core::{DeviceChoice, TensorMap};
use dpr_encode::model::{ImportOptions, ModelDir, export_web, import};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(path)
}

/// A copy of a fixture's directory that a test may damage.
fn copy(path: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs_err::read_dir(fixture(path)).unwrap() {
        let entry = entry.unwrap();
        fs_err::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
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
    let path = dir.join("config.json");
    let mut config: Value = serde_json::from_slice(&fs_err::read(&path).unwrap()).unwrap();
    edit(&mut config);
    fs_err::write(path, config.to_string()).unwrap();
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
    let tokens = refused(
        "dpr-tiny/question",
        None,
        ImportOptions { max_question_tokens: Some(100_000), ..ImportOptions::default() },
    );
    assert!(tokens.contains("--max-question-tokens is 100000"), "{tokens}");
    fs_err::create_dir(&at).unwrap();
    let exists = refused("dpr-tiny/question", None, ImportOptions::default());
    assert!(exists.contains("--force"), "{exists}");
}

#[test]
fn a_flipped_byte_in_any_file_is_found() {
    let (_dir, model) = imported(&fixture("dpr-tiny/question"), None, &ImportOptions::default());
    export_web(&model).unwrap();
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
    let report = export_web(&model).unwrap();
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
