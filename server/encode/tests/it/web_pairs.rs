//! Readers and cross-encoders in the export for pages: their scores there, and what they share with the question
//! encoder.

use std::path::Path;

use crate::files::{edit, edit_weights, fixture, fixtures, read};

use dpr_core::device::Device;
use dpr_core::{CrossEncoder, DeviceChoice, EncoderBytes, ReadOptions, Reader};
use dpr_encode::model::{
    CrossEncoderDir, CrossEncoderOptions, ImportOptions, ModelDir, ReaderDir, ReaderOptions, WebFormat,
    WebManifest, WebOptions, WebPair, WebPairs, export_web, export_web_with, import, import_cross_encoder,
    import_reader,
};
use safetensors::SafeTensors;
use serde_json::{Value, json};
use tempfile::TempDir;

/// An encoder with the reader's tensors, but for those of the layers if `trained`: those are others.
fn encoder_of(reader: &str, trained: bool) -> TempDir {
    let from = fixture(&format!("readers/{reader}"));
    edit(&from.path().join("config.json"), |config| {
        config["architectures"] = json!(["BertModel"]);
        config["model_type"] = json!("bert");
    });
    edit_weights(from.path(), |tensors| {
        tensors.retain(|(name, ..)| name.contains("bert_model."));
        for (name, _, _, bytes) in tensors {
            *name = name.rsplit_once("bert_model.").unwrap().1.to_owned();
            if trained && name.starts_with("encoder.layer.") {
                bytes.rotate_left(4);
            }
        }
    });
    from
}

/// A model directory of an encoder and one of the fixtures' reader, in one folder.
fn models(trained: bool) -> (TempDir, ModelDir, ReaderDir) {
    let out = tempfile::tempdir().unwrap();
    let [model, reader] = ["model", "reader"].map(|name| out.path().join(name));
    import(encoder_of("dpr", trained).path(), None, &model, &ImportOptions::default()).unwrap();
    import_reader(&fixtures().join("readers/dpr"), &reader, &ReaderOptions::default()).unwrap();
    let (model, reader) = (ModelDir::open(&model).unwrap(), ReaderDir::open(&reader).unwrap());
    (out, model, reader)
}

/// Loads a model of pairs as a page does: of its own files, and the tensors that the question encoder's weights have.
fn in_page<T>(
    model: &Path,
    web: &WebManifest,
    pair: &WebPair,
    dtype: &str,
    load: impl FnOnce(&EncoderBytes<'_>) -> T,
) -> T {
    let file = |path: &str| fs_err::read(model.join(path)).unwrap();
    let (question, own) = (file(&web.weights[dtype].path), &pair.weights[dtype]);
    let parsed = SafeTensors::deserialize(&question).unwrap();
    let shared = own.shares.iter().map(|name| (name.as_str(), parsed.tensor(name).unwrap()));
    let shared = safetensors::serialize(shared, None).unwrap();
    let (config, tokenizer, weights) =
        (file(&pair.config.path), file(&pair.tokenizer.path), file(&own.file.path));
    load(&EncoderBytes {
        config: &config,
        tokenizer: &tokenizer,
        weights: &[("weights", &weights), ("shared", &shared)],
    })
}

fn cases() -> Vec<(String, Vec<[String; 2]>)> {
    serde_json::from_value(read(&fixtures().join("readers/cases.json"))).unwrap()
}

/// The places of the best spans in all passages.
fn spans(reader: &Reader) -> Vec<Option<std::ops::Range<usize>>> {
    let of = |(question, passages): &(String, Vec<[String; 2]>)| {
        let passages: Vec<_> = passages.iter().map(|[title, text]| (title.as_str(), text.as_str())).collect();
        reader.read_passages(question, &passages, ReadOptions::default()).unwrap()
    };
    let readings = cases().iter().flat_map(of).collect::<Vec<_>>();
    readings.into_iter().map(|reading| reading.spans.into_iter().next().map(|span| span.bytes)).collect()
}

#[test]
fn a_reader_answers_from_the_files_of_the_page_in_every_format() {
    for trained in [false, true] {
        let (_dir, model, reader) = models(trained);
        let pairs = WebPairs { reader: Some(&reader), reranker: None };
        let options = WebOptions { pairs, formats: &WebFormat::ALL, ..WebOptions::default() };
        let web = export_web_with(&model, &options).unwrap().manifest;
        assert_eq!(model.web_exports().unwrap().unwrap(), web);
        let pair = web.reader.as_ref().unwrap();
        assert_eq!((&pair.fingerprint, pair.max_tokens), (&reader.manifest().fingerprint, 60));
        assert_eq!(web.reranker, None);
        let expected = spans(&reader.reader(DeviceChoice::Cpu).unwrap());
        // Layers of 32 random inputs have one step a row in 4 bits.
        for (dtype, least) in [("f32", 1.0), ("f16", 0.95), ("q8", 0.9), ("q4", 0.4)] {
            let page = in_page(model.path(), &web, pair, dtype, |files| {
                Reader::load(files, Some(pair.max_tokens), &Device::Kernel).unwrap()
            });
            let same = spans(&page).iter().zip(&expected).filter(|(a, b)| a == b).count();
            let share = same as f64 / expected.len() as f64;
            println!(
                "{dtype}, layers of its own {trained}: {same} of {} best spans are the same",
                expected.len()
            );
            assert!(share >= least, "{dtype}: {share}");
        }
    }
}

#[test]
fn embeddings_that_are_the_question_encoder_s_are_left_out_and_others_are_not() {
    let (_dir, model, reader) = models(true);
    let pairs = WebPairs { reader: Some(&reader), reranker: None };
    let web = export_web_with(&model, &WebOptions { pairs, ..WebOptions::default() }).unwrap().manifest;
    let weights = &web.reader.as_ref().unwrap().weights;
    let words = "embeddings.word_embeddings.weight";
    assert!(weights["q8"].shares.contains(&format!("{words}.scale")), "{:?}", weights["q8"].shares);
    for (dtype, own) in weights {
        assert!(own.shares.iter().any(|name| name.ends_with(words)), "{dtype}: {:?}", own.shares);
        let bytes = fs_err::read(model.path().join(&own.file.path)).unwrap();
        let held = SafeTensors::deserialize(&bytes).unwrap();
        assert!(!held.names().iter().any(|name| name.contains("word_embeddings")), "{dtype}");
        assert!(held.names().iter().any(|name| name.contains("encoder.layer.0.")), "{dtype}");
    }
    let alone = weights["q8"].file.entry.bytes;

    // An embedding table that differs in one number is exported with the reader, and not shared.
    let other = encoder_of("dpr", true);
    edit_weights(other.path(), |tensors| {
        let table = tensors.iter_mut().find(|(name, ..)| name == words).unwrap();
        table.3[..4].copy_from_slice(&0.5f32.to_le_bytes());
    });
    let path = other.path().join("model");
    import(other.path(), None, &path, &ImportOptions::default()).unwrap();
    let model = ModelDir::open(&path).unwrap();
    let web = export_web_with(&model, &WebOptions { pairs, ..WebOptions::default() }).unwrap().manifest;
    let own = &web.reader.unwrap().weights["q8"];
    assert!(!own.shares.iter().any(|name| name == words), "{:?}", own.shares);
    assert!(own.file.entry.bytes > alone + 156 * 32, "{} and {alone}", own.file.entry.bytes);
    // An export without it has none.
    assert_eq!(export_web(&model, None).unwrap().manifest.reader, None);
}

#[test]
fn a_reranker_scores_from_the_files_of_the_page() {
    let (dir, model, _) = models(true);
    let path = dir.path().join("reranker");
    import_cross_encoder(&fixtures().join("cross-encoders/bert"), &path, &CrossEncoderOptions::default())
        .unwrap();
    let reranker = CrossEncoderDir::open(&path).unwrap();
    let pairs = WebPairs { reader: None, reranker: Some(&reranker) };
    let options = WebOptions { pairs, formats: &WebFormat::ALL, ..WebOptions::default() };
    let web = export_web_with(&model, &options).unwrap().manifest;
    let pair = web.reranker.as_ref().unwrap();
    let passages = [("Cats", "Cats sleep most of the day."), ("", "Dogs bark at strangers.")];
    let question = "what sleeps most of the day?";
    let expected = reranker.cross_encoder(DeviceChoice::Cpu).unwrap().score(question, &passages).unwrap();
    for (dtype, near) in [("f32", 0.0), ("f16", 0.01), ("q8", 0.2), ("q4", 1.0)] {
        let page = in_page(model.path(), &web, pair, dtype, |files| {
            CrossEncoder::load(files, Some(pair.max_tokens), &Device::Kernel).unwrap()
        });
        let got = page.score(question, &passages).unwrap();
        let far = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far <= near, "{dtype}: {got:?}, {expected:?}");
    }
}

#[test]
fn a_reader_s_file_that_is_changed_or_outside_is_named() {
    let (_dir, model, reader) = models(true);
    let pairs = WebPairs { reader: Some(&reader), reranker: None };
    let web = export_web_with(&model, &WebOptions { pairs, ..WebOptions::default() }).unwrap().manifest;
    let file = model.path().join(&web.reader.unwrap().weights["q8"].file.path);
    let whole = fs_err::read(&file).unwrap();
    fs_err::write(&file, &whole[1..]).unwrap();
    let error = model.web_exports().unwrap_err().to_string();
    assert!(error.contains("reader.q8.safetensors") && error.contains("size"), "{error}");
    fs_err::write(&file, whole).unwrap();

    let manifest = model.path().join("web/web.json");
    let written = fs_err::read(&manifest).unwrap();
    type Damage = fn(&mut Value);
    let damages: [(Damage, &str); 3] = [
        (|web| web["reader"]["config"]["path"] = json!("../secret"), "../secret"),
        (|web| web["reader"]["weights"]["q8"]["shares"] = json!("all"), "web.json"),
        (|web| web["reader"]["max_tokens"] = json!(-1), "web.json"),
    ];
    for (damage, expected) in damages {
        edit(&manifest, damage);
        let error = model.web_exports().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        fs_err::write(&manifest, &written).unwrap();
    }
}
