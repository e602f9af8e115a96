//! Encoders that are built while their weights arrive.

use dpr_core::device::Device;
use dpr_core::model::sha256_hex;
use dpr_core::{EncoderBytes, LoadError, TextEncoder, TextEncoderBuilder, WeightsError};
use dpr_encode::model::{ImportOptions, WebFormat, WebOptions, export_web_with};

use crate::files::fixtures;
use crate::vocabulary::imported;

/// An encoder of weights that arrive in pieces of so many bytes.
fn built(files: &EncoderBytes<'_>, size: usize) -> Result<TextEncoder, LoadError> {
    let [(_, weights)] = files.weights else { panic!("one file of weights") };
    let mut builder = TextEncoderBuilder::new(files.config, files.tokenizer, weights.len(), &Device::Kernel)?;
    for piece in weights.chunks(size) {
        builder.push(piece)?;
    }
    assert_eq!(builder.sha256(), sha256_hex(weights));
    builder.finish()
}

#[test]
fn vectors_are_those_of_the_whole_file_bit_by_bit_in_every_family_and_format() {
    let names = ["distilbert", "electra", "modernbert", "nomic-bert", "roberta", "xlm-roberta"];
    let families = names.map(|name| format!("families/{name}"));
    for name in ["dpr-tiny/question", "mpnet-tiny"].into_iter().chain(families.iter().map(String::as_str)) {
        let (_out, model) = imported(&fixtures().join(name), &ImportOptions::default());
        let web = export_web_with(&model, &WebOptions { formats: &WebFormat::ALL, ..WebOptions::default() });
        let read = |path: &str| fs_err::read(model.path().join(path)).unwrap();
        let (config, tokenizer) =
            (read("question_encoder/config.json"), read("question_encoder/tokenizer.json"));
        for (dtype, file) in web.unwrap().manifest.weights {
            let weights = read(&file.path);
            let weights = [("weights", weights.as_slice())];
            let files = EncoderBytes { config: &config, tokenizer: &tokenizer, weights: &weights };
            let whole = TextEncoder::load(&files, None, &Device::Kernel).unwrap();
            for size in [97, 4096, usize::MAX] {
                let encoder = built(&files, size).unwrap();
                for text in ["What sleeps most of the day?", "who won super bowl 50", "漢字"] {
                    let (got, expected) =
                        (encoder.encode_question(text).unwrap(), whole.encode_question(text).unwrap());
                    let bits = |vector: &[f32]| vector.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                    let (got, expected) = (bits(got.as_slice()), bits(expected.as_slice()));
                    assert_eq!(got, expected, "{name} in {dtype}, pieces of {size} bytes: {text:?}");
                }
            }
        }
    }
}

#[test]
fn weights_that_do_not_fit_or_do_not_end_are_refused_as_they_are_when_whole() {
    let (_out, model) = imported(&fixtures().join("dpr-tiny/question"), &ImportOptions::default());
    let read = |name: &str| fs_err::read(model.path().join("question_encoder").join(name)).unwrap();
    let (config, tokenizer, weights) =
        (read("config.json"), read("tokenizer.json"), read("model.safetensors"));
    let load = |weights: &[u8]| {
        let weights = [("weights", weights)];
        let files = EncoderBytes { config: &config, tokenizer: &tokenizer, weights: &weights };
        let whole = TextEncoder::load(&files, None, &Device::Kernel).map(drop).unwrap_err().to_string();
        (built(&files, 1000).map(drop).unwrap_err().to_string(), whole)
    };
    for end in [0, 7, 8, 100, weights.len() - 1] {
        let (built, whole) = load(&weights[..end]);
        assert_eq!(built, whole);
        assert!(built.contains("not a whole safetensors file"), "{built}");
    }
    // A tensor under another name: one that the encoder needs is missing.
    let renamed = replaced(&weights, b"layer.0.output.dense.weight", b"layer.0.output.dense.weighs");
    let (built, whole) = load(&renamed);
    assert_eq!(built, whole);
    assert!(built.contains("is missing"), "{built}");

    let mut builder = TextEncoderBuilder::new(&config, &tokenizer, 10, &Device::Kernel).unwrap();
    let error = builder.push(&weights[..11]).unwrap_err();
    assert!(matches!(error, LoadError::Weights(WeightsError::Format { bytes: 10, .. })), "{error}");
}

/// The bytes with the first place of `from` changed to `to`, which is as long.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}
