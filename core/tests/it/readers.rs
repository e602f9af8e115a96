//! Readers against Python: inputs, scores on every device and in 8 bits, and answers by a decoding of its own.

use std::collections::HashSet;

use crate::{golden, stored};

use dpr_core::device::Device;
use dpr_core::reader::{ReaderInput, ReaderLogits, best_answers};
use dpr_core::{
    Answer, CrossEncoder, DeviceChoice, EncodeError, EncoderBytes, ReadError, ReadOptions, Reader,
    ReaderConfig, TextEncoder, TitleJoin,
};
use golden::root;
use safetensors::tensor::Dtype;
use serde_json::{Value, json};
use stored::Stored;

const MODELS: [&str; 3] = ["dpr", "bert", "roberta"];

/// The largest difference of a logit from Python's, and of a score of an answer.
const NEAR: f64 = 1e-4;

/// The largest difference of a logit that 8-bit weights make, and the least share of passages with the same best span;
/// measured are at most 0.123 and at least 52 of 56.
const EIGHT_BITS: (f64, f64) = (0.25, 0.9);

/// The settings that the answers of the fixtures were found with.
const OPTIONS: ReadOptions = ReadOptions { spans: 3, max_answer_tokens: 10 };

fn read(path: &str) -> Vec<u8> {
    std::fs::read(root().join("tests/fixtures/readers").join(path)).unwrap()
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
    fn new(model: &str) -> Self {
        Self {
            config: read_json(&format!("{model}/config.json")),
            tokenizer: read(&format!("{model}/tokenizer.json")),
            weights: read(&format!("{model}/model.safetensors")),
        }
    }

    fn with<T>(&self, use_files: impl FnOnce(&EncoderBytes<'_>) -> T) -> T {
        let config = self.config.to_string();
        use_files(&EncoderBytes {
            config: config.as_bytes(),
            tokenizer: &self.tokenizer,
            weights: &[("model.safetensors", &self.weights)],
        })
    }

    fn load(&self, choice: DeviceChoice) -> Result<Reader, String> {
        let device = Device::open(choice).unwrap();
        self.with(|files| Reader::load(files, Some(60), &device)).map_err(|error| error.to_string())
    }

    fn edited(self, edit: impl Fn(&str, Dtype, &[usize], &[u8]) -> Vec<Stored>) -> Self {
        Self { weights: stored::edited(&self.weights, edit), ..self }
    }

    /// The same with another title join.
    fn joined(mut self, join: TitleJoin) -> Self {
        let config = ReaderConfig::from_json(self.config.to_string().as_bytes()).unwrap();
        self.config["dpr"] = json!(config.with_title_join(join).unwrap().encoder().section());
        self
    }
}

fn keep(name: &str, dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Vec<Stored> {
    vec![(name.to_owned(), dtype, shape.to_vec(), bytes.to_vec())]
}

/// A question, and the titles and texts of its passages.
type Case = (String, Vec<[String; 2]>);

fn cases() -> Vec<Case> {
    serde_json::from_value(read_json("cases.json")).unwrap()
}

fn passages(case: &Case) -> Vec<(&str, &str)> {
    case.1.iter().map(|[title, text]| (title.as_str(), text.as_str())).collect()
}

/// The inputs of the passages whose logits the fixture has.
fn inputs(reader: &Reader, rows: usize) -> Vec<ReaderInput> {
    let cases = cases();
    let texts =
        cases.iter().flat_map(|(question, passages)| passages.iter().map(move |texts| (question, texts)));
    texts.take(rows).map(|(question, [title, text])| reader.input(question, title, text).unwrap()).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    serde_json::from_value(value.clone()).unwrap()
}

/// Returns the largest difference of a logit of a row from the fixture's.
fn worst(row: &Value, got: &ReaderLogits) -> f64 {
    let pairs = [(&row["start"], &got.start), (&row["end"], &got.end)];
    let spans = pairs.into_iter().flat_map(|(expected, got)| {
        let expected = numbers(expected);
        assert_eq!(expected.len(), got.len());
        expected.into_iter().zip(got.clone()).map(|(a, b)| (a - f64::from(b)).abs()).collect::<Vec<_>>()
    });
    let selection = row["selection"].as_f64().zip(got.selection).map(|(a, b)| (a - f64::from(b)).abs());
    assert_eq!(row["selection"].is_null(), got.selection.is_none());
    spans.chain(selection).fold(0.0, f64::max)
}

/// Checks inputs, scores and answers of every model on a device.
fn check(choice: DeviceChoice) {
    for model in MODELS {
        let (reader, golden) =
            (Files::new(model).load(choice).unwrap(), read_json(&format!("{model}/golden.json")));
        let rows = golden["rows"].as_array().unwrap();
        let inputs = inputs(&reader, rows.len());
        for (row, input) in rows.iter().zip(&inputs) {
            assert_eq!((&row["ids"], &row["types"]), (&json!(input.ids()), &json!(input.types())), "{model}");
        }
        let logits = inputs.chunks(4).flat_map(|batch| reader.logits(batch).unwrap());
        let worst = rows.iter().zip(logits).map(|(row, got)| worst(row, &got)).fold(0.0, f64::max);
        println!("{model} on {}: largest difference of a logit {worst:.1e}", reader.device_name());
        assert!(worst <= NEAR, "{model} on {choice}: {worst}");

        let mut most = 0f64;
        for (case, expected) in cases().iter().zip(golden["answers"].as_array().unwrap()) {
            let found = reader.read(&case.0, &passages(case), usize::MAX, OPTIONS).unwrap();
            let expected = expected.as_array().unwrap();
            assert_eq!(found.len(), expected.len(), "{model}: {case:?}");
            for (found, expected) in found.iter().zip(expected) {
                let chars = found.chars(&case.1[found.passage][1]);
                let place = json!([found.passage, found.text, chars.start, chars.end]);
                let fields = ["passage", "text", "start", "end"].map(|field| expected[field].clone());
                assert_eq!(place, json!(fields), "{model}: {case:?}");
                let scores = [("selection", found.selection), ("score", found.score)];
                for (field, got) in scores {
                    most = most.max((got - expected[field].as_f64().unwrap()).abs());
                }
            }
        }
        println!("{model}: largest difference of a probability {most:.1e}");
        assert!(most <= NEAR, "{model} on {choice}: {most}");

        // Without spans the passages are chosen as with them.
        for case in cases() {
            let [with, without] = [1, 0].map(|spans| {
                reader.read_passages(&case.0, &passages(&case), ReadOptions { spans, ..OPTIONS }).unwrap()
            });
            for (with, without) in with.iter().zip(&without) {
                assert!(without.spans.is_empty());
                let [with, without] = [with, without].map(|reading| reading.selection);
                assert_eq!(with.is_some(), without.is_some(), "{model} on {choice}");
                let apart = with.zip(without).map_or(0.0, |(with, without)| (with - without).abs());
                assert!(apart <= if choice == DeviceChoice::Cpu { 0.0 } else { NEAR }, "{model}: {apart}");
            }
        }
    }
}

#[test]
fn answers_on_the_cpu_kernels() {
    check(DeviceChoice::Cpu);
}

#[cfg(feature = "flex")]
#[test]
fn answers_on_flex() {
    check(DeviceChoice::Flex);
}

#[cfg(feature = "wgpu")]
#[test]
fn answers_on_wgpu() {
    if golden::gpu().is_some() {
        check(DeviceChoice::Wgpu);
    }
}

#[test]
fn eight_bits_read_as_single_precision_does() {
    for model in MODELS {
        let files = Files::new(model);
        let whole = files.load(DeviceChoice::Cpu).unwrap();
        let weights = stored::in_eight_bits(&files.weights);
        let eight = Files { weights, ..files }.load(DeviceChoice::Cpu).unwrap();
        let golden = read_json(&format!("{model}/golden.json"));
        let rows = golden["rows"].as_array().unwrap();
        let logits = eight.logits(&inputs(&eight, rows.len())).unwrap();
        let worst = rows.iter().zip(&logits).map(|(row, got)| worst(row, got)).fold(0.0, f64::max);
        let (mut same, mut all) = (0, 0);
        for case in cases() {
            let of = |reader: &Reader| reader.read_passages(&case.0, &passages(&case), OPTIONS).unwrap();
            for (a, b) in of(&whole).iter().zip(of(&eight)) {
                let [a, b] = [a, &b].map(|reading| reading.spans.first().map(|span| span.bytes.clone()));
                all += 1;
                same += usize::from(a == b);
            }
        }
        let share = f64::from(same as u32) / f64::from(all);
        println!(
            "{model} in 8 bits: largest difference of a logit {worst:.3}, {same} of {all} best spans are the same"
        );
        assert!(worst <= EIGHT_BITS.0 && share >= EIGHT_BITS.1, "{model}: {worst}, {share}");
    }
}

#[test]
fn answers_are_words_of_their_passages_and_passages_do_not_change_each_other() {
    for model in MODELS {
        let reader = Files::new(model).load(DeviceChoice::Cpu).unwrap();
        for case in cases() {
            let together = reader.read_passages(&case.0, &passages(&case), OPTIONS).unwrap();
            for (passage, reading) in passages(&case).iter().zip(&together) {
                let alone = reader.read_passages(&case.0, &[*passage], OPTIONS).unwrap();
                assert_eq!(&alone[0], reading, "{model}: to the bit");
                let mut bytes = HashSet::new();
                for span in &reading.spans {
                    assert_eq!(&passage.1[span.bytes.clone()], span.text);
                    assert!(span.text.trim() == span.text && !span.text.is_empty());
                    assert!(span.bytes.clone().all(|byte| bytes.insert(byte)), "spans overlap: {reading:?}");
                }
            }
            // The first k of them are chosen among as if they were all.
            let first = reader.read(&case.0, &passages(&case)[..2], 9, OPTIONS).unwrap();
            assert_eq!(best_answers(&together[..2], 9), first);
        }
    }
}

#[test]
fn a_span_has_at_most_as_many_tokens_as_are_allowed() {
    let reader = Files::new("dpr").load(DeviceChoice::Cpu).unwrap();
    let text = "bread wine stone sea alps cats ships dusk mice birds bread wine stone sea alps";
    for most in [0, 1, 3] {
        let options = ReadOptions { spans: 4, max_answer_tokens: most };
        let found = reader.read("what is bread", &[("", text)], 9, options).unwrap();
        assert_eq!(found.is_empty(), most == 0);
        assert!(found.iter().all(|answer| answer.text.split(' ').count() <= most), "{most}: {found:?}");
    }
    let none = ReadOptions { spans: 0, ..ReadOptions::default() };
    assert_eq!(reader.read("what is bread", &[("", text)], 9, none).unwrap(), []);
}

#[test]
fn what_cannot_be_read_is_an_error_or_has_no_answer() {
    for model in MODELS {
        let reader = Files::new(model).load(DeviceChoice::Cpu).unwrap();
        let read = |question: &str, passages: &[(&str, &str)]| reader.read(question, passages, 3, OPTIONS);
        let some = [("Rhine", "The Rhine rises in the Alps.")];
        assert_eq!(read("where", &[]).unwrap(), []);
        for blank in ["", " \n", "\u{200b}", "\u{0}"] {
            let found = read(blank, &some);
            // A byte-level tokenizer has tokens of every sign.
            assert!(
                matches!(found, Err(ReadError::Empty)) || (model == "roberta" && !blank.trim().is_empty())
            );
        }
        let long = "castles ".repeat(600);
        let message = read(&long, &some).unwrap_err().to_string();
        assert!(message.contains("and the reader takes 60") && message.contains("shorten"), "{message}");
        // A question that leaves one token for the passage, and passages without a token or a word.
        assert_eq!(read("where", &[("", ""), ("", " \n\t "), ("Rhine", "")]).unwrap(), []);
        let mixed = read("where", &[("", ""), some[0], ("", " ")]).unwrap();
        assert!(!mixed.is_empty() && mixed.iter().all(|answer| answer.passage == 1), "{mixed:?}");
        let sum = read("where", &[some[0], some[0]]).unwrap();
        assert!((sum[0].selection - 0.5).abs() < 1e-9, "equal passages are as likely: {sum:?}");
        // A hundred thousand words, in one passage and in one word; the answer is in what the reader sees.
        let words = "The Rhine rises in the Alps. ".repeat(16_700);
        let found = read("where does it rise", &[("Rhine", &words)]).unwrap();
        assert!(found.iter().all(|answer| answer.bytes.end < 1_000), "{found:?}");
        let word = "a".repeat(100_000);
        for answer in read("where does it rise", &[("", &word), (&word, "Alps"), (&word, &word)]).unwrap() {
            assert!(
                answer.text == word || answer.text == "Alps",
                "a whole word: {} bytes",
                answer.text.len()
            );
        }
    }
}

#[test]
fn a_title_is_read_and_never_part_of_an_answer() {
    let text = "The Rhine rises in the Alps and flows north.";
    let mut seen: Vec<Vec<Answer>> = Vec::new();
    for join in ["{text}", "space", "separator", "{title}: {text} (end)"] {
        let join: TitleJoin = join.parse().unwrap();
        let reader = Files::new("bert").joined(join.clone()).load(DeviceChoice::Cpu).unwrap();
        let input = reader.input("where", "Ships and castles", text).unwrap();
        let alone = Files::new("bert").load(DeviceChoice::Cpu).unwrap().input("where", "", text).unwrap();
        let ids = |input: &ReaderInput| input.ids()[input.passage()].to_vec();
        assert_eq!(ids(&input), ids(&alone), "{join:?}");
        let options = ReadOptions { spans: 9, ..OPTIONS };
        let found = reader.read("where", &[("Ships and castles", text)], 9, options).unwrap();
        assert!(found.iter().all(|answer| text[answer.bytes.clone()] == answer.text), "{join:?}: {found:?}");
        assert!(!seen.contains(&found), "{join:?} changes no score");
        seen.push(found);
    }
}

#[test]
fn a_title_longer_than_the_input_leaves_room_for_the_text() {
    let text = "The Rhine rises in the Alps and flows north.";
    let title = "Ships and castles ".repeat(40);
    for join in ["separator", "space", "{title}: {text} (end)"] {
        let reader = Files::new("bert").joined(join.parse().unwrap()).load(DeviceChoice::Cpu).unwrap();
        let input = reader.input("where", &title, text).unwrap();
        let alone = reader.input("where", "", text).unwrap();
        let (long, short) = (&input.ids()[input.passage()], &alone.ids()[alone.passage()]);
        assert_eq!(input.ids().len(), reader.max_tokens(), "{join}");
        assert!(long.len() >= 10 && short.starts_with(long), "{join}: {long:?}");
        if join == "separator" {
            let separator = input.ids().last();
            assert_eq!(input.ids().get(input.passage().start - 1), separator, "between title and text");
        }
    }
}

#[test]
fn the_input_of_a_dpr_reader_loses_its_end_alone() {
    let (text, castles) = ("The Rhine rises in the Alps. ".repeat(9), |count| "castles ".repeat(count));
    let reader = Files::new("dpr").load(DeviceChoice::Cpu).unwrap();
    let input = |title: &str, text: &str| reader.input("where", title, text).unwrap();
    let short = input("castles", "");
    let (least, each) = (short.ids().len(), input("castles castles", "").ids().len() - short.ids().len());
    let most = 1 + (reader.max_tokens() - least) / each;
    // A title that leaves one word's tokens to the text, and one that leaves none.
    let title = castles(most - 1);
    let (alone, both) = (input(&title, ""), input(&title, &text));
    assert_eq!(both.ids().len(), reader.max_tokens());
    assert_eq!(both.passage(), alone.ids().len()..reader.max_tokens());
    assert!(both.passage().len() >= each && both.ids().starts_with(alone.ids()));
    let title = castles(most + 1);
    assert!(input(&title, &text).passage().is_empty());
    assert_eq!(input(&title, &text).ids(), input(&title, "").ids());
    assert_eq!(reader.read("where", &[(&title, &text)], 9, OPTIONS).unwrap(), []);
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let refused = |files: Files| files.load(DeviceChoice::Cpu).map(drop).unwrap_err();
    for gone in ["qa_outputs.weight", "qa_outputs.bias", "qa_classifier.weight"] {
        let files = Files::new("dpr").edited(|name, dtype, shape, bytes| match name.ends_with(gone) {
            true => Vec::new(),
            false => keep(name, dtype, shape, bytes),
        });
        let message = refused(files);
        assert!(message.contains(&format!("tensor {gone:?} is missing")), "{message}");
    }
    let three = Files::new("bert").edited(|name, dtype, shape, bytes| match name {
        "qa_outputs.weight" => vec![(name.to_owned(), dtype, vec![3, 32], [bytes, &bytes[..64]].concat())],
        _ => keep(name, dtype, shape, bytes),
    });
    let message = refused(three);
    assert!(message.contains("\"qa_outputs.weight\" has shape [3, 32], expected [2, 32]"), "{message}");
    let nan = Files::new("bert").edited(|name, dtype, shape, bytes| match name {
        "qa_outputs.bias" => keep(name, dtype, shape, &[0xff; 4]),
        _ => keep(name, dtype, shape, bytes),
    });
    assert!(refused(nan).contains("\"qa_outputs.bias\" holds a number that is not finite"));

    // Readers, encoders and cross-encoders are not taken for each other.
    for model in MODELS {
        let files = Files::new(model);
        let encoder =
            files.with(|files| TextEncoder::load(files, None, &Device::Kernel).map(drop)).unwrap_err();
        assert!(encoder.to_string().contains("imported as a reader"), "{encoder}");
        let cross =
            files.with(|files| CrossEncoder::load(files, None, &Device::Kernel).map(drop)).unwrap_err();
        assert!(cross.to_string().contains("supported cross-encoders are"), "{cross}");
    }
    let mut encoder = Files::new("bert");
    encoder.config["architectures"] = json!(["BertModel"]);
    assert!(refused(encoder).contains("\"BertModel\"; supported readers are DPRReader, "));

    // Scores by which nothing can be chosen: weights so large that the sums overflow.
    for model in ["dpr", "bert"] {
        let huge =
            Files::new(model).edited(|name, dtype, shape, bytes| match name.ends_with("qa_outputs.weight") {
                true => {
                    let values: Vec<u8> = (0..64).flat_map(|_| f32::MAX.to_le_bytes()).collect();
                    vec![(name.to_owned(), Dtype::F32, shape.to_vec(), values)]
                }
                false => keep(name, dtype, shape, bytes),
            });
        let reader = huge.load(DeviceChoice::Cpu).unwrap();
        let passages = [("", "The Alps rise."), ("", "Cats.")];
        let error = reader.read("cats", &passages, 1, OPTIONS).unwrap_err();
        assert!(matches!(error, ReadError::NotFinite { .. }), "{error}");
    }
    // An input that another tokenizer made.
    let (bert, roberta) = (Files::new("bert"), Files::new("roberta"));
    let (bert, roberta) = (bert.load(DeviceChoice::Cpu).unwrap(), roberta.load(DeviceChoice::Cpu).unwrap());
    let foreign = roberta.input("한강은", "", "한강은 서울을 지나").unwrap();
    let error = bert.logits(&[foreign]).unwrap_err();
    assert!(matches!(error, ReadError::Encode(EncodeError::TokenId { .. })), "{error}");
    // The other way round the ids fit, and the types do not.
    let foreign = bert.input("cats", "", "Cats sleep.").unwrap();
    assert!(foreign.types().contains(&1) && bert.logits(std::slice::from_ref(&foreign)).is_ok());
    let error = roberta.logits(&[foreign]).unwrap_err();
    let is_of_types =
        matches!(error, ReadError::Encode(EncodeError::TokenType { row: 0, kind: 1, types: 1 }));
    assert!(is_of_types, "{error}");
    assert!(error.to_string().contains("token type 1; the encoder has types below 1"), "{error}");
}
