//! Files of a model directory.

use std::path::Path;
use std::sync::{Mutex, OnceLock};

use dpr_core::{EncoderBytes, EncoderConfig, TensorMap, TextEncoder, TextTokenizer};
use dpr_encode::model::HuggingFaceDir;
use dpr_files::lock;

use crate::named;

/// The small encoder of the tests.
fn fixture(name: &str) -> Vec<u8> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dpr-tiny/question").join(name);
    fs_err::read(path).expect("a file of the tests' fixtures")
}

/// Its files, as far as they are not the input.
fn files() -> &'static [Vec<u8>; 3] {
    static FILES: OnceLock<[Vec<u8>; 3]> = OnceLock::new();
    FILES.get_or_init(|| ["config.json", "tokenizer.json", "model.safetensors"].map(fixture))
}

pub(crate) fn safetensors(bytes: &[u8]) {
    if let Ok(tensors) = TensorMap::from_safetensors([("model.safetensors", bytes)]) {
        take_all(tensors);
    }
}

fn take_all(mut tensors: TensorMap) {
    let named: Vec<_> = tensors.names().map(|(name, shape)| (name.to_owned(), shape.to_vec())).collect();
    for (name, shape) in named {
        let _ = tensors.take_matrix(&name, &shape);
        let _ = tensors.take_f32(&name, &shape);
    }
    let _ = tensors.all_taken();
}

/// Two tensors; the fixture's 200 KB would be slow to change.
pub(crate) fn valid_safetensors() -> Vec<(String, Vec<u8>)> {
    let header = r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"F16","shape":[3],"data_offsets":[16,22]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..4).flat_map(|value| (value as f32).to_le_bytes()));
    bytes.extend([0x00, 0x3c, 0x00, 0x40, 0x00, 0xbc]);
    let quantized = r#"{"w":{"dtype":"I8","shape":[2,2],"data_offsets":[0,4]},"w.scale":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#;
    let mut q8 = (quantized.len() as u64).to_le_bytes().to_vec();
    q8.extend_from_slice(quantized.as_bytes());
    q8.extend([1, 2, 3, 255]);
    q8.extend([0.5_f32, 2.0].iter().flat_map(|value| value.to_le_bytes()));
    vec![named("floats", bytes), named("quantized", q8)]
}

/// `pytorch_model.bin`, in a directory with the small encoder's other files.
pub(crate) fn torch(bytes: &[u8]) {
    static DIRECTORY: OnceLock<Mutex<tempfile::TempDir>> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for name in ["config.json", "tokenizer.json"] {
            fs_err::write(directory.path().join(name), fixture(name)).expect("a small file");
        }
        Mutex::new(directory)
    });
    // One input at a time, since tests run side by side.
    let directory = lock(directory);
    fs_err::write(directory.path().join("pytorch_model.bin"), bytes).expect("a small file");
    let Ok(read) = HuggingFaceDir::read(directory.path(), None) else { return };
    take_all(read.tensors);
}

/// Small ones by hand: the fixtures' 12 kB would be slow to change.
pub(crate) fn valid_torch() -> Vec<(String, Vec<u8>)> {
    let begin = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01X\x01\0\0\0aq\x02ctorch._utils\n_rebuild_tensor_v2\n(\
        (X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x02";
    // Behind the storage's length the older format has the view of it, which is None.
    let tensor = |view: &[u8]| [&begin[..], view, b"tQK\0K\x02\x85K\x01\x85\x89}tRs."].concat();
    let numbers: Vec<u8> = [1.0_f32, 2.0].iter().flat_map(|number| number.to_le_bytes()).collect();
    let legacy = [
        &b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03."[..],
        b"\x80\x02}X\x0d\0\0\0little_endian\x88s.",
        &tensor(b"N"),
        b"\x80\x02]X\x01\0\0\x000a.\x02\0\0\0\0\0\0\0",
        &numbers,
    ];
    let (mut zip, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes) in
        [("a/data.pkl", &tensor(b"")[..]), ("a/byteorder", &b"little"[..]), ("a/data/0", &numbers[..])]
    {
        // Without checksums, so that changed bytes reach what is behind them.
        let size = (bytes.len() as u32).to_le_bytes();
        let head = [&[0; 14][..], &size, &size, &(name.len() as u32).to_le_bytes()].concat();
        let place = (zip.len() as u32).to_le_bytes();
        zip.extend([&b"PK\x03\x04"[..], &head, name.as_bytes(), bytes].concat());
        directory.extend([&b"PK\x01\x02\0\0"[..], &head, &[0; 10], &place, name.as_bytes()].concat());
    }
    let (place, length) = ((zip.len() as u32).to_le_bytes(), (directory.len() as u32).to_le_bytes());
    zip.extend([&directory[..], &b"PK\x05\x06\0\0\0\0\x03\0\x03\0"[..], &length, &place, &[0; 2]].concat());
    vec![named("legacy", legacy.concat()), named("zip", zip)]
}

pub(crate) fn tokenizer(bytes: &[u8]) {
    let Ok(config) = EncoderConfig::from_json(&files()[0]) else { return };
    let Ok(tokenizer) = TextTokenizer::from_bytes(bytes, &config) else { return };
    for text in ["who won super bowl 50", "Überraschung: 漢字 und ¿qué?", ""] {
        let _ = tokenizer.question(text);
        let _ = tokenizer.passage("a title", text);
    }
}

pub(crate) fn valid_tokenizer() -> Vec<(String, Vec<u8>)> {
    let small = r###"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[
        {"id":0,"content":"[PAD]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
        {"id":1,"content":"[UNK]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
        {"id":2,"content":"[CLS]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
        {"id":3,"content":"[SEP]","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true}],
        "normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},
        "pre_tokenizer":{"type":"BertPreTokenizer"},
        "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],
        "pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},{"SpecialToken":{"id":"[SEP]","type_id":1}}],
        "special_tokens":{"[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}},
        "decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
        "model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
        "vocab":{"[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3,"who":4,"won":5,"super":6,"bowl":7,"a":8,"##s":9}}}"###;
    let compact =
        TextTokenizer::compact(small.as_bytes()).ok().flatten().expect("a tokenizer of BERT's kind");
    vec![named("small", small), named("unigram", unigram()), named("compact", compact)]
}

/// A SentencePiece tokenizer, whose normalization table replaces "a" by "o".
fn unigram() -> Vec<u8> {
    let table = format!("AAQ{}BhhQE{}BvAA==", "A".repeat(519), "A".repeat(843));
    format!(
        r#"{{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],
        "normalizer":{{"type":"Sequence","normalizers":[{{"type":"Precompiled","precompiled_charsmap":"{table}"}}]}},
        "pre_tokenizer":{{"type":"Metaspace","replacement":"▁","prepend_scheme":"always","split":true}},
        "post_processor":{{"type":"Sequence","processors":[{{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,
        "use_regex":true}},{{"type":"RobertaProcessing","sep":["</s>",2],"cls":["<s>",0],"trim_offsets":true,
        "add_prefix_space":false}}]}},"decoder":null,
        "model":{{"type":"Unigram","unk_id":1,"vocab":[["<s>",0.0],["<unk>",0.0],["</s>",0.0],["▁who",-2.5],["n",-4.0],["o",-3.0]]}}}}"#
    )
    .into_bytes()
}

/// A configuration, with the weights and the tokenizer of the small encoder.
pub(crate) fn config(bytes: &[u8]) {
    let [_, tokenizer, weights] = files();
    let files = EncoderBytes { config: bytes, tokenizer, weights: &[("model.safetensors", weights)] };
    let Ok(device) = dpr_core::device::Device::open(dpr_core::DeviceChoice::Cpu) else { return };
    if let Ok(encoder) = TextEncoder::load(&files, None, &device) {
        let _ = encoder.encode_question("who won super bowl 50");
    }
}

pub(crate) fn valid_config() -> Vec<(String, Vec<u8>)> {
    vec![named("tiny", fixture("config.json"))]
}
