//! Cross-encoders against Python's transformers: tokens of pairs, and scores on every device and in 8 bits.

use crate::{golden, stored};

use dpr_core::device::Device;
use dpr_core::{
    CrossEncoder, CrossEncoderConfig, DeviceChoice, EncodeError, EncoderBytes, PairTokens, TextEncoder,
    TitleJoin,
};
use golden::root;
use safetensors::tensor::Dtype;
use serde_json::{Value, json};
use stored::Stored;

/// The models, and which directory holds the tokenizer of each.
const MODELS: [(&str, &str); 5] = [
    ("bert", "bert"),
    ("xlm-roberta", "xlm-roberta"),
    ("electra", "bert"),
    ("distilbert", "bert"),
    ("mpnet", "xlm-roberta"),
];

/// The largest difference of a score from Python's; the scores of a model are 0.9 to 3.2 apart.
const NEAR: f32 = 1e-4;

/// The largest difference that 8-bit weights make, and the least rank correlation of the scores; measured are at most
/// 0.043 and at least 0.9895.
const EIGHT_BITS: (f32, f64) = (0.08, 0.97);

fn read(path: &str) -> Vec<u8> {
    std::fs::read(root().join("tests/fixtures/cross-encoders").join(path)).unwrap()
}

fn read_json(path: &str) -> Value {
    serde_json::from_slice(&read(path)).unwrap()
}

/// The files of one model.
struct Files {
    config: Value,
    tokenizer: Vec<u8>,
    weights: Vec<u8>,
}

impl Files {
    fn new((model, tokenizer): (&str, &str)) -> Self {
        Self {
            config: read_json(&format!("{model}/config.json")),
            tokenizer: read(&format!("{tokenizer}/tokenizer.json")),
            weights: read(&format!("{model}/model.safetensors")),
        }
    }

    fn load(&self, choice: DeviceChoice) -> Result<CrossEncoder, String> {
        let config = self.config.to_string();
        let files = EncoderBytes {
            config: config.as_bytes(),
            tokenizer: &self.tokenizer,
            weights: &[("model.safetensors", &self.weights)],
        };
        let device = Device::open(choice).unwrap();
        CrossEncoder::load(&files, Some(48), &device).map_err(|error| error.to_string())
    }

    /// The same with a section of ours that joins titles so.
    fn joined(mut self, join: TitleJoin) -> Self {
        let config = CrossEncoderConfig::from_json(self.config.to_string().as_bytes()).unwrap();
        let form = dpr_core::TextForm { join, ..config.encoder().form.clone() };
        self.config["dpr"] = json!(config.with_form(form).unwrap().encoder().section());
        self
    }

    /// The same with its tensors under other names or with other contents.
    fn edited(self, edit: impl Fn(&str, Dtype, &[usize], &[u8]) -> Vec<Stored>) -> Self {
        Self { weights: stored::edited(&self.weights, edit), ..self }
    }

    fn in_eight_bits(self) -> Self {
        Self { weights: stored::in_eight_bits(&self.weights), ..self }
    }
}

/// Returns the questions, titles and texts.
fn pairs() -> Vec<[String; 3]> {
    serde_json::from_value(read_json("pairs.json")).unwrap()
}

fn tokens(encoder: &CrossEncoder) -> Vec<PairTokens> {
    let pairs = pairs();
    let rows = pairs.iter().map(|[question, title, text]| encoder.pair_tokens(question, title, text));
    rows.collect::<Result<_, _>>().unwrap()
}

fn golden_scores(model: &str) -> Vec<f32> {
    serde_json::from_value(read_json(&format!("{model}/golden.json"))["scores"].clone()).unwrap()
}

fn worst(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Spearman's rank correlation.
fn rank_correlation(a: &[f32], b: &[f32]) -> f64 {
    let ranks = |values: &[f32]| -> Vec<f64> {
        values.iter().map(|value| values.iter().filter(|other| *other < value).count() as f64).collect()
    };
    let squares: f64 = ranks(a).iter().zip(ranks(b)).map(|(a, b)| (a - b).powi(2)).sum();
    let n = a.len() as f64;
    1.0 - 6.0 * squares / (n * (n * n - 1.0))
}

/// Checks the scores of every model on a device, in batches of mixed length.
fn check(choice: DeviceChoice) {
    for model in MODELS {
        let encoder = Files::new(model).load(choice).unwrap();
        let expected = golden_scores(model.0);
        assert!(expected.len() == 20);
        let rows = tokens(&encoder);
        let got: Vec<f32> = rows.chunks(8).flat_map(|batch| encoder.forward(batch).unwrap()).collect();
        let worst = worst(&got, &expected);
        assert!(worst <= NEAR, "{} on {choice}: a score is {worst} off", model.0);
        println!("{} on {}: largest difference {worst:.1e}", model.0, encoder.device_name());
    }
}

#[test]
fn pairs_tokenise_as_in_python() {
    for model in ["bert", "xlm-roberta"] {
        let golden = read_json(&format!("{model}/golden.json"));
        let (ids, types): (Vec<Vec<u32>>, Vec<Vec<u8>>) = (
            serde_json::from_value(golden["ids"].clone()).unwrap(),
            serde_json::from_value(golden["types"].clone()).unwrap(),
        );
        let encoder = Files::new((model, model)).load(DeviceChoice::Cpu).unwrap();
        for ((pair, row), (ids, types)) in pairs().iter().zip(tokens(&encoder)).zip(ids.iter().zip(&types)) {
            assert_eq!((row.ids(), row.types()), (ids.as_slice(), types.as_slice()), "{model}: {pair:?}");
        }
    }
    let golden: Vec<Vec<u32>> =
        serde_json::from_value(read_json("bert/golden.json")["separator_ids"].clone()).unwrap();
    let joined = Files::new(MODELS[0]).joined(TitleJoin::Separator).load(DeviceChoice::Cpu).unwrap();
    for (pair, (row, ids)) in pairs().iter().zip(tokens(&joined).iter().zip(&golden)) {
        assert_eq!(row.ids(), ids, "{pair:?}");
    }
    // One type for all tokens, whatever the template says, where the model has no embedding of another.
    let distilbert = Files::new(MODELS[3]).load(DeviceChoice::Cpu).unwrap();
    assert!(tokens(&distilbert).iter().all(|row| row.types().iter().all(|kind| *kind == 0)));
}

#[test]
fn scores_on_the_cpu_kernels() {
    check(DeviceChoice::Cpu);
}

#[cfg(feature = "flex")]
#[test]
fn scores_on_flex() {
    check(DeviceChoice::Flex);
}

#[cfg(feature = "wgpu")]
#[test]
fn scores_on_wgpu() {
    if golden::gpu().is_some() {
        check(DeviceChoice::Wgpu);
    }
}

#[test]
fn eight_bits_rank_as_single_precision_does() {
    for model in MODELS {
        let encoder = Files::new(model).in_eight_bits().load(DeviceChoice::Cpu).unwrap();
        let (got, expected) = (encoder.forward(&tokens(&encoder)).unwrap(), golden_scores(model.0));
        let (worst, ranks) = (worst(&got, &expected), rank_correlation(&got, &expected));
        println!("{} in 8 bits: largest difference {worst:.3}, rank correlation {ranks:.4}", model.0);
        assert!(worst <= EIGHT_BITS.0 && ranks >= EIGHT_BITS.1, "{}: {worst}, {ranks}", model.0);
    }
}

#[test]
fn a_question_s_passages_are_scored_in_their_order_and_as_alone() {
    let devices = if cfg!(feature = "flex") {
        vec![(DeviceChoice::Cpu, 0.0), (DeviceChoice::Flex, 1e-5)]
    } else {
        vec![(DeviceChoice::Cpu, 0.0)]
    };
    for (choice, tolerance) in devices {
        for model in MODELS {
            let encoder = Files::new(model).load(choice).unwrap();
            let texts = pairs();
            let passages: Vec<_> =
                texts.iter().map(|[_, title, text]| (title.as_str(), text.as_str())).collect();
            let together = encoder.score("when do cats hunt", &passages).unwrap();
            for ((title, text), score) in passages.iter().zip(&together) {
                let row = encoder.pair_tokens("when do cats hunt", title, text).unwrap();
                let alone = encoder.forward(&[row]).unwrap();
                assert!((alone[0] - score).abs() <= tolerance, "{} on {choice}: {title:?}", model.0);
            }
            assert!(encoder.score("cats", &[]).unwrap().is_empty());
            assert!(matches!(encoder.score(" ", &passages), Err(EncodeError::Empty)));
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let bert = || Files::new(MODELS[0]);
    let refused = |files: Files| files.load(DeviceChoice::Cpu).map(drop).unwrap_err();
    let keep = |name: &str, dtype, shape: &[usize], bytes: &[u8]| {
        vec![(name.to_owned(), dtype, shape.to_vec(), bytes.to_vec())]
    };
    for gone in ["classifier.weight", "classifier.bias", "bert.pooler.dense.weight"] {
        let files = bert().edited(
            |name, dtype, shape, bytes| {
                if name == gone { Vec::new() } else { keep(name, dtype, shape, bytes) }
            },
        );
        let message = refused(files);
        let name = gone.trim_start_matches("bert.");
        assert!(message.contains(&format!("tensor {name:?} is missing")), "{message}");
    }
    let two = bert().edited(|name, dtype, shape, bytes| match name {
        "classifier.weight" => vec![(name.to_owned(), dtype, vec![2, 32], [bytes, bytes].concat())],
        _ => keep(name, dtype, shape, bytes),
    });
    let message = refused(two);
    assert!(message.contains("\"classifier.weight\" has shape [2, 32], expected [1, 32]"), "{message}");
    let nan = bert().edited(|name, dtype, shape, bytes| match name {
        "classifier.weight" => keep(name, dtype, shape, &[0xff; 64]),
        _ => keep(name, dtype, shape, bytes),
    });
    assert!(refused(nan).contains("\"classifier.weight\" holds a number that is not finite"));

    let mut third = bert();
    let mut tokenizer: Value = serde_json::from_slice(&third.tokenizer).unwrap();
    tokenizer["post_processor"]["pair"][3]["Sequence"]["type_id"] = json!(2);
    third.tokenizer = tokenizer.to_string().into_bytes();
    assert!(refused(third).contains("the type 2, and models of pairs have types 0 and 1"));

    // A cross-encoder is refused as an encoder, and an encoder as a cross-encoder.
    let files = bert();
    let config = files.config.to_string();
    let bytes = EncoderBytes {
        config: config.as_bytes(),
        tokenizer: &files.tokenizer,
        weights: &[("model.safetensors", &files.weights)],
    };
    let message = TextEncoder::load(&bytes, None, &Device::Kernel).map(drop).unwrap_err().to_string();
    assert!(message.contains("BertForSequenceClassification") && message.contains("re-rank"), "{message}");
    let mut encoder = bert();
    encoder.config["architectures"] = json!(["BertModel"]);
    assert!(refused(encoder).contains("\"BertModel\"; supported cross-encoders are"));

    // A score by which nothing can be ranked: weights so large that the sums overflow.
    let huge = bert().edited(|name, dtype, shape, bytes| match name {
        "classifier.weight" => {
            let values: Vec<u8> = (0..32).flat_map(|_| f32::MAX.to_le_bytes()).collect();
            vec![(name.to_owned(), Dtype::F32, shape.to_vec(), values)]
        }
        "bert.pooler.dense.bias" => {
            let values: Vec<u8> = (0..32).flat_map(|_| 9f32.to_le_bytes()).collect();
            vec![(name.to_owned(), Dtype::F32, shape.to_vec(), values)]
        }
        _ => keep(name, dtype, shape, bytes),
    });
    let encoder = huge.load(DeviceChoice::Cpu).unwrap();
    let error = encoder.score("cats", &[("", "cats"), ("", "the cats")]).unwrap_err();
    assert!(matches!(error, EncodeError::Score { row: 0 }), "{error}");
}

#[test]
fn pairs_of_another_tokenizer_are_refused_by_their_types() {
    // Both tokenizers are BERT's, but DistilBERT has no token types.
    let [bert, distilbert] = [0, 3].map(|model| Files::new(MODELS[model]).load(DeviceChoice::Cpu).unwrap());
    // BERT, trained with one type for both texts.
    let mut files = Files::new(MODELS[0]);
    let config = CrossEncoderConfig::from_json(files.config.to_string().as_bytes()).unwrap();
    files.config["dpr"] = json!(config.encoder().section());
    files.config["dpr"]["one_type"] = json!(true);
    let of_one_type = files.load(DeviceChoice::Cpu).unwrap();

    let pair = bert.pair_tokens("cats", "", "the cats").unwrap();
    assert!(pair.types().contains(&1) && bert.forward(std::slice::from_ref(&pair)).is_ok());
    for encoder in [distilbert, of_one_type] {
        let error = encoder.forward(std::slice::from_ref(&pair)).unwrap_err();
        assert!(matches!(error, EncodeError::TokenType { row: 0, kind: 1, types: 1 }), "{error}");
    }
}
