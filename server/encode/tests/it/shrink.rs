//! Pruned encoders: they have the layers, tokens and positions of the whole one, and nothing else.

use std::path::Path;

use crate::files::{assert_says, fixture, fixtures, read};
use crate::vocabulary::imported;

use dpr_core::random::SplitMix;
use dpr_core::{DeviceChoice, EncoderConfig, TextEncoder, names};
use dpr_encode::model::{ImportOptions, ModelDir, ShrinkOptions, Vocabulary, shrink};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A BERT whose layers are those of a larger one with random weights, which `layers` names.
fn of_layers(layers: &[usize]) -> (TempDir, ModelDir) {
    let dir = fixture("dpr-tiny/question");
    let mut config = read(&dir.path().join("config.json"));
    config["num_hidden_layers"] = json!(layers.len());
    let sizes = EncoderConfig::from_json(config.to_string().as_bytes()).unwrap();
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = names::tensors(&sizes)
        .into_iter()
        .map(|(name, shape)| {
            let own = (0..layers.len()).rev().fold(name.clone(), |name, place| {
                name.replace(&format!(".layer.{place}."), &format!(".layer.{}.", layers[place]))
            });
            let seed = own.bytes().fold(7, |seed, byte| seed * 31 % 1_000_003 + u64::from(byte));
            let mut random = SplitMix::new(seed);
            let numbers = (0..shape.iter().product::<usize>()).map(|_| (random.normal() * 0.3) as f32);
            (name, shape, numbers.flat_map(f32::to_le_bytes).collect())
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap())
    });
    fs_err::write(dir.path().join("model.safetensors"), safetensors::serialize(views, None).unwrap())
        .unwrap();
    fs_err::write(dir.path().join("config.json"), config.to_string()).unwrap();
    imported(dir.path(), &ImportOptions::default())
}

fn shrunk(model: &ModelDir, options: &ShrinkOptions<'_>) -> (TempDir, ModelDir) {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("small");
    shrink(model, &path, options).unwrap();
    let left: Vec<_> =
        fs_err::read_dir(out.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["small"], "nothing else stays");
    (out, ModelDir::open(&path).unwrap())
}

fn encoder(model: &ModelDir) -> TextEncoder {
    model.question_encoder(DeviceChoice::Cpu).unwrap()
}

fn vector(model: &ModelDir, text: &str) -> Vec<f32> {
    encoder(model).encode_question(text).unwrap().as_slice().to_vec()
}

#[test]
fn the_layers_that_are_kept_are_the_models_own() {
    let ((_whole, whole), (_expected, expected)) = (of_layers(&[0, 1, 2, 3]), of_layers(&[0, 2, 3]));
    let (_out, small) = shrunk(&whole, &ShrinkOptions { layers: Some(3), ..ShrinkOptions::default() });
    for text in ["who won super bowl 50", "a"] {
        assert_eq!(vector(&small, text), vector(&expected, text));
        assert_ne!(vector(&small, text), vector(&whole, text));
    }
    let (_out, same) = shrunk(&whole, &ShrinkOptions::default());
    assert_eq!(vector(&same, "who won super bowl 50"), vector(&whole, "who won super bowl 50"));
}

/// A copy of a model in which the units `dead` of every feed-forward layer answer nothing.
fn with_dead_units(model: &ModelDir, dead: &[usize]) -> (TempDir, ModelDir) {
    let dir = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json"] {
        fs_err::copy(model.path().join("question_encoder").join(file), dir.path().join(file)).unwrap();
    }
    let config = EncoderConfig::from_json(&model.config("question_encoder").unwrap()).unwrap();
    let outputs: Vec<String> = (0..config.num_hidden_layers)
        .map(|layer| format!("{}.weight", names::LayerNames::new(config.family, layer).output))
        .collect();
    let bytes = fs_err::read(model.path().join("question_encoder/model.safetensors")).unwrap();
    let stored = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = stored
        .iter()
        .map(|(name, view)| {
            let mut data = view.data().to_vec();
            if outputs.iter().any(|output| name.ends_with(output)) {
                for row in data.chunks_exact_mut(4 * config.intermediate_size) {
                    dead.iter().for_each(|unit| row[4 * unit..][..4].fill(0));
                }
            }
            (name.to_owned(), view.shape().to_vec(), data)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, data)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), data).unwrap())
    });
    fs_err::write(dir.path().join("model.safetensors"), safetensors::serialize(views, None).unwrap())
        .unwrap();
    imported(dir.path(), &ImportOptions { force: true, ..ImportOptions::default() })
}

#[test]
fn units_that_answer_nothing_are_left_out_first() {
    let families = ["distilbert", "modernbert", "nomic-bert", "roberta"]
        .map(|name| imported(&fixtures().join("families").join(name), &ImportOptions::default()));
    for (_dir, model) in families.into_iter().chain([of_layers(&[0, 1])]) {
        let config = EncoderConfig::from_json(&model.config("question_encoder").unwrap()).unwrap();
        let units = config.intermediate_size;
        let dead = [0, 5, units - 1];
        let (_whole, whole) = with_dead_units(&model, &dead);
        let kept = |units| shrunk(&whole, &ShrinkOptions { units: Some(units), ..ShrinkOptions::default() });
        let text = "who won super bowl 50";
        let expected = vector(&whole, text);
        let apart = |small: &ModelDir| {
            let config = EncoderConfig::from_json(&small.config("question_encoder").unwrap()).unwrap();
            let got = vector(small, text);
            let apart = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            (config.intermediate_size, apart)
        };
        let (_out, small) = kept(units - dead.len());
        let (left, difference) = apart(&small);
        assert_eq!(left, units - dead.len());
        assert!(difference < 1e-4, "{:?}: {difference}", config.family);
        let (_out, smaller) = kept(units / 2);
        let (left, difference) = apart(&smaller);
        assert_eq!(left, units / 2);
        assert!(difference > 1e-3, "{:?}: {difference}", config.family);
    }
}

#[test]
fn fewer_positions_cut_questions_and_change_no_shorter_one() {
    let (_whole, whole) = of_layers(&[0, 1]);
    let (_out, small) = shrunk(&whole, &ShrinkOptions { max_tokens: Some(12), ..ShrinkOptions::default() });
    assert_eq!((small.manifest().max_question_tokens, small.manifest().max_passage_tokens), (12, 12));
    let config = read(&small.path().join("question_encoder/config.json"));
    assert_eq!(config["max_position_embeddings"], 12);
    assert_eq!(vector(&small, "a b c"), vector(&whole, "a b c"));
    let long = "word ".repeat(40);
    assert_eq!(encoder(&small).question_tokens(&long).unwrap().len(), 12);
    vector(&small, &long);
}

#[test]
fn the_commonest_tokens_stay_with_their_vectors() {
    let (_whole, whole) = of_layers(&[0, 1]);
    let texts: Value = read(&fixtures().join("sentence-transformers/heads/texts.json"));
    let texts: Vec<String> = serde_json::from_value(texts).unwrap();
    let common = "who won the game";
    let mut all = vec![common; 50];
    all.extend(texts.iter().map(String::as_str));
    let kept = |most: usize| {
        let mut vocabulary = Vocabulary::of(&whole).unwrap();
        vocabulary.keep_texts(&all).unwrap();
        vocabulary.keep_commonest(most).map(|()| vocabulary)
    };
    let tokens = |model: &ModelDir| {
        read(&model.path().join("question_encoder/config.json"))["vocab_size"].as_u64().unwrap() as usize
    };
    let every = kept(usize::MAX).unwrap();
    let (_out, every) =
        shrunk(&whole, &ShrinkOptions { vocabulary: Some(&every), ..ShrinkOptions::default() });
    let most = tokens(&every) - 5;
    let fewer = kept(most).unwrap();
    let (_out, small) =
        shrunk(&whole, &ShrinkOptions { vocabulary: Some(&fewer), ..ShrinkOptions::default() });
    assert!(tokens(&small) <= most && tokens(&small) + 5 > most, "{} of {most}", tokens(&small));
    assert_eq!(vector(&small, common), vector(&whole, common));
    let changed = texts.iter().filter(|text| vector(&small, text) != vector(&whole, text)).count();
    assert!(changed > 0 && changed < texts.len(), "{changed} of {}", texts.len());
    let error = kept(3).err().unwrap().to_string();
    assert_says(&error, &["tokens at least", "more than the 3", "keep more"]);
}

#[test]
fn what_does_not_fit_is_named_and_nothing_is_written() {
    let (_whole, whole) = of_layers(&[0, 1]);
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("small");
    let refused = |model: &ModelDir, path: &Path, options: ShrinkOptions<'_>| {
        shrink(model, path, &options).unwrap_err().to_string()
    };
    let layers = |layers| ShrinkOptions { layers: Some(layers), ..ShrinkOptions::default() };
    assert_says(&refused(&whole, &path, layers(3)), &["has 2 layers", "3 are to be kept", "from 1 to 2"]);
    for units in [0, 1_000_000] {
        let options = ShrinkOptions { units: Some(units), ..ShrinkOptions::default() };
        assert_says(
            &refused(&whole, &path, options),
            &["units", &format!("{units} are to be kept"), "from 1 to"],
        );
    }
    let limit = ShrinkOptions { max_tokens: Some(100_000), ..ShrinkOptions::default() };
    assert_says(&refused(&whole, &path, limit), &["100000"]);
    let (_modern, modern) = imported(&fixtures().join("families/modernbert"), &ImportOptions::default());
    assert_says(&refused(&modern, &path, layers(1)), &["local and global attention", "keep all"]);
    assert_eq!(fs_err::read_dir(out.path()).unwrap().count(), 0);
    fs_err::create_dir(&path).unwrap();
    assert_says(&refused(&whole, &path, ShrinkOptions::default()), &["exists"]);
}
