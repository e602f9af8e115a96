//! The model that the training of a reader or a reranker starts from: an encoder, a reader or a cross-encoder, with the
//! layers that it lacks drawn by the seed.

use std::path::{Path, PathBuf};

use dpr_core::random::SplitMix;
use dpr_core::weights::StoredTensor;
use dpr_core::{
    ConfigError, CrossEncoderConfig, EncoderConfig, LoadError, ReaderConfig, TensorMap, TextTokenizer,
    WeightsError, names,
};
use safetensors::tensor::Dtype;
use serde_json::{Value, json};

use super::super::encoders::{DualEncoder, TrainDevice, TrainedEncoder, Weights};
use super::super::error::TrainError;
use super::config::{PairModelOptions, PairTask, TOKENS};
use dpr_encode::model::{
    CROSS_ENCODER_DIR, CrossEncoderDir, ModelDir, ModelError, PASSAGE_DIR, QUESTION_DIR, READER_DIR,
    ReaderDir,
};

/// Key of the random draws of layers.
const LAYERS: u64 = 21;

/// Deviation of the weights that are drawn, as BERT's.
const DEVIATION: f64 = 0.02;

/// The layers of a reader: starts and ends, and selection.
const SPANS: &str = "qa_outputs";
const SELECTION: &str = "qa_classifier";

/// The layer that holds a reader's scores while it is trained.
const SCORES: &str = "dense.0";

/// Classes of transformers for one score of two texts, by `model_type`.
const CLASSES: [(&str, &str); 9] = [
    ("bert", "BertForSequenceClassification"),
    ("dpr", "BertForSequenceClassification"),
    ("roberta", "RobertaForSequenceClassification"),
    ("xlm-roberta", "XLMRobertaForSequenceClassification"),
    ("camembert", "CamembertForSequenceClassification"),
    ("electra", "ElectraForSequenceClassification"),
    ("distilbert", "DistilBertForSequenceClassification"),
    ("mpnet", "MPNetForSequenceClassification"),
    // Named so that the error names the class that is missing.
    ("modernbert", "ModernBertForSequenceClassification"),
];

/// The kind of model that is trained, with the configuration by which its inputs are made.
pub enum PairKind {
    /// A reader.
    Reader(ReaderConfig),
    /// A cross-encoder.
    Reranker(CrossEncoderConfig),
}

/// A model at the start of training.
pub struct PairModel {
    /// The reader or the cross-encoder, as one encoder for both sides.
    pub model: DualEncoder,
    /// The kind of the model.
    pub kind: PairKind,
    /// A name for people, from the model that training starts from.
    pub name: String,
    /// The fingerprint of that model.
    pub fingerprint: String,
    /// Layers that were drawn, by their names.
    pub drawn: Vec<String>,
}

/// A model directory's files.
struct Source {
    dir: PathBuf,
    config: Value,
    tokenizer: Vec<u8>,
    tensors: TensorMap,
    name: String,
    fingerprint: String,
    /// `true` if it is a cross-encoder, whose layers after the encoder have their own names.
    is_cross_encoder: bool,
}

impl Source {
    fn read(path: &Path) -> Result<Self, TrainError> {
        let (folder, name, fingerprint) = match ModelDir::open(path) {
            Ok(dir) => {
                let manifest = dir.manifest();
                let folder = if manifest.shared { QUESTION_DIR } else { PASSAGE_DIR };
                (folder, manifest.name.clone(), manifest.fingerprint.clone())
            }
            Err(ModelError::IsReader(_)) => {
                let dir = ReaderDir::open(path)?;
                (READER_DIR, dir.manifest().name.clone(), dir.manifest().fingerprint.clone())
            }
            Err(ModelError::IsCrossEncoder(_)) => {
                let dir = CrossEncoderDir::open(path)?;
                (CROSS_ENCODER_DIR, dir.manifest().name.clone(), dir.manifest().fingerprint.clone())
            }
            Err(error) => return Err(error.into()),
        };
        let dir = path.join(folder);
        let bad = |source: LoadError| TrainError::Encoder { dir: dir.clone(), source };
        let config = serde_json::from_slice(&fs_err::read(dir.join("config.json"))?)
            .map_err(|e| bad(ConfigError::Json(e.to_string()).into()))?;
        let tokenizer = fs_err::read(dir.join("tokenizer.json"))?;
        let weights = fs_err::read(dir.join("model.safetensors"))?;
        let tensors = TensorMap::from_safetensors([("model.safetensors", weights.as_slice())])
            .map_err(|e| bad(e.into()))?;
        let is_cross_encoder = folder == CROSS_ENCODER_DIR;
        Ok(Self { dir, config, tokenizer, tensors, name, fingerprint, is_cross_encoder })
    }

    fn error(&self, source: impl Into<LoadError>) -> TrainError {
        TrainError::Encoder { dir: self.dir.clone(), source: source.into() }
    }

    fn model_type(&self) -> &str {
        self.config["model_type"].as_str().unwrap_or_default()
    }

    /// Makes `config.json` that of another class: what it said of its own head and its numbers is left out.
    fn become_class(&mut self, model_type: &str, class: &str) {
        if let Value::Object(config) = &mut self.config {
            for field in ["dpr", "projection_dim", "dtype", "torch_dtype", "_name_or_path", "num_labels"] {
                config.remove(field);
            }
        }
        self.config["model_type"] = json!(model_type);
        self.config["architectures"] = json!([class]);
    }
}

impl PairModel {
    /// Reads the model directory that `options` name, as the beginning of what `task` trains.
    ///
    /// # Errors
    /// [`TrainError`] for a directory that is no model, an encoder that the task has no class for, and a limit of
    /// tokens that it does not have.
    pub fn start(
        task: PairTask,
        options: &PairModelOptions,
        seed: u64,
        device: &TrainDevice,
    ) -> Result<Self, TrainError> {
        let mut source = Source::read(&options.start)?;
        let kind = match task {
            PairTask::Reader => PairKind::Reader(reader(&mut source, options)?),
            PairTask::Reranker => PairKind::Reranker(reranker(&mut source, options)?),
        };
        let config = kind.trained_encoder();
        let mut heads = Heads { seed, drawn: Vec::new() };
        let tensors = heads.complete(&mut source, &config)?;
        let config_json = serde_json::to_vec_pretty(&source.config).map_err(std::io::Error::other)?;
        let files = (config_json, std::mem::take(&mut source.tokenizer));
        let mut encoder = TrainedEncoder::from_parts(&source.dir, config, tensors, files, device)?;
        if options.weights == Weights::Random {
            encoder.randomise(seed, device);
        }
        if options.freeze_embeddings {
            encoder.freeze_embeddings();
        }
        let tokens = encoder.config.max_tokens;
        let model =
            DualEncoder { encoders: vec![encoder], max_question_tokens: tokens, max_passage_tokens: tokens };
        let Source { name, fingerprint, .. } = source;
        Ok(Self { model, kind, name, fingerprint, drawn: heads.drawn })
    }
}

/// Returns the limit of tokens, by default the paper's or the encoder's, or the error of one that it cannot have.
fn limit(options: &PairModelOptions, encoder: &EncoderConfig) -> Result<usize, TrainError> {
    let most = encoder.position_limit();
    match options.max_tokens.unwrap_or(TOKENS.min(most)) {
        tokens if (8..=most).contains(&tokens) => Ok(tokens),
        tokens => Err(TrainError::Setting {
            setting: "model.max_tokens",
            got: tokens.to_string(),
            expected: format!("the model takes from 8 to {most} tokens of a question and a passage"),
        }),
    }
}

fn reader(source: &mut Source, options: &PairModelOptions) -> Result<ReaderConfig, TrainError> {
    let model_type = source.model_type().to_owned();
    if !["bert", "dpr"].contains(&model_type.as_str()) {
        return Err(TrainError::Setting {
            setting: "model.start",
            got: format!("{}, whose encoder is of type {model_type:?}", options.start.display()),
            expected: "a reader is a DPRReader, whose encoder is a BERT: start from one".into(),
        });
    }
    source.become_class("dpr", "DPRReader");
    let config =
        ReaderConfig::from_json(source.config.to_string().as_bytes()).map_err(|e| source.error(e))?;
    let limit = limit(options, config.encoder())?;
    Ok(config.with_max_tokens(limit))
}

fn reranker(source: &mut Source, options: &PairModelOptions) -> Result<CrossEncoderConfig, TrainError> {
    let read = |source: &Source| {
        CrossEncoderConfig::from_json(source.config.to_string().as_bytes()).map_err(|e| source.error(e))
    };
    // What a cross-encoder says of its texts is read before its section is left out.
    let own = if source.is_cross_encoder { Some(read(source)?) } else { None };
    let model_type = source.model_type().to_owned();
    let class = CLASSES.iter().find(|(name, _)| *name == model_type).map_or("", |(_, class)| class);
    source.become_class(if model_type == "dpr" { "bert" } else { &model_type }, class);
    source.config["id2label"] = json!({"0": "LABEL_0"});
    source.config["label2id"] = json!({"LABEL_0": 0});
    let mut config = read(source)?;
    let limit = limit(options, config.encoder())?;
    if let Some(own) = own {
        config.rename_head(&mut source.tensors).map_err(|e| source.error(e))?;
        let own = own.encoder();
        config = config.with_form(own.form.clone()).map_err(|e| source.error(e))?.with_one_type(own.one_type);
        // The export takes these from the section.
        source.config["dpr"] = json!(config.encoder().section());
    }
    Ok(config.with_max_tokens(limit))
}

impl PairKind {
    /// Returns the encoder with all layers that are trained.
    fn trained_encoder(&self) -> EncoderConfig {
        match self {
            Self::Reader(config) => config.trained_encoder(),
            Self::Reranker(config) => config.encoder().clone(),
        }
    }

    /// Returns the tokenizer of a model whose `tokenizer.json` is `bytes`.
    ///
    /// # Errors
    /// [`TrainError::Tokenizer`].
    pub(super) fn tokenizer(&self, bytes: &[u8]) -> Result<TextTokenizer, TrainError> {
        Ok(match self {
            Self::Reader(config) => TextTokenizer::from_json(bytes, config.encoder())?,
            Self::Reranker(config) => TextTokenizer::from_json(bytes, config.encoder())?,
        })
    }

    /// Returns a trained model's tensors under the names that the class of its `config.json` has, without the encoder's
    /// prefix.
    pub(super) fn stored(&self, tensors: Vec<StoredTensor>) -> Vec<StoredTensor> {
        match self {
            Self::Reranker(config) => tensors
                .into_iter()
                .map(|(name, shape, values)| (config.name_in_files(&name), shape, values))
                .collect(),
            Self::Reader(_) => tensors.into_iter().flat_map(apart).collect(),
        }
    }
}

/// Returns a reader's scores, `[3, hidden]` and `[3]`, as its two layers; any other tensor as it is.
fn apart((name, shape, mut values): StoredTensor) -> Vec<StoredTensor> {
    let Some(part) = name.strip_prefix(SCORES) else { return vec![(name, shape, values)] };
    let (each, mut of_each) = (values.len() / 3, shape.clone());
    let selection = values.split_off(2 * each);
    of_each[0] = 2;
    let spans = (format!("{SPANS}{part}"), of_each.clone(), values);
    of_each[0] = 1;
    vec![spans, (format!("{SELECTION}{part}"), of_each, selection)]
}

/// The layers after the encoder: those that a model has, and those that are drawn.
struct Heads {
    seed: u64,
    drawn: Vec<String>,
}

impl Heads {
    /// Takes the tensors of `config` out of `source`, and draws those of its head that are not there.
    fn complete(&mut self, source: &mut Source, config: &EncoderConfig) -> Result<TensorMap, TrainError> {
        let bare = EncoderConfig { pooling: dpr_core::Pooling::Cls, head: Vec::new(), ..config.clone() };
        let of_encoder = names::tensors(&bare).len();
        let is_reader = source.config["architectures"] == json!(["DPRReader"]);
        let mut complete = TensorMap::default();
        for (number, (name, shape)) in names::tensors(config).into_iter().enumerate() {
            let part = name.strip_prefix(SCORES).filter(|_| is_reader);
            let values = match part {
                Some(part) => {
                    let mut rows = |layer: &str, count: usize| {
                        let shape = [&[count][..], &shape[1..]].concat();
                        self.take(source, &format!("{layer}{part}"), &shape)
                    };
                    [rows(SPANS, 2)?, rows(SELECTION, 1)?].concat()
                }
                None if number < of_encoder => {
                    source.tensors.take_f32(&name, &shape).map_err(|e| source.error(e))?
                }
                // An encoder's own dense layers are not those of a cross-encoder.
                None if name.starts_with("dense.") && !source.is_cross_encoder => self.draw(&name, &shape),
                None => self.take(source, &name, &shape)?,
            };
            let bytes = || Ok(values.iter().flat_map(|value| value.to_le_bytes()).collect());
            complete.insert::<WeightsError>(&name, Dtype::F32, &shape, bytes).map_err(|e| source.error(e))?;
        }
        Ok(complete)
    }

    /// Returns a tensor of `source` where it has it in this shape, else one that is drawn.
    fn take(&mut self, source: &mut Source, name: &str, shape: &[usize]) -> Result<Vec<f32>, TrainError> {
        match source.tensors.shape(name) == Some(shape) {
            true => source.tensors.take_f32(name, shape).map_err(|e| source.error(e)),
            false => Ok(self.draw(name, shape)),
        }
    }

    fn draw(&mut self, name: &str, shape: &[usize]) -> Vec<f32> {
        let mut random = SplitMix::keyed(&[self.seed, LAYERS, self.drawn.len() as u64]);
        self.drawn.push(name.to_owned());
        let length = shape.iter().product();
        match shape.len() {
            1 => vec![0.0; length],
            _ => (0..length).map(|_| (random.normal() * DEVIATION) as f32).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use dpr_core::DeviceChoice;
    use dpr_encode::model::{ImportOptions, import};

    use super::*;

    #[test]
    fn without_a_limit_a_model_of_fewer_positions_than_the_paper_s_has_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let encoder =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/dpr-tiny/question"));
        let start = dir.path().join("model");
        import(encoder, None, &start, &ImportOptions::default()).unwrap();
        let device = TrainDevice::open(DeviceChoice::Flex).unwrap();
        for task in [PairTask::Reader, PairTask::Reranker] {
            let of = |max_tokens| {
                let options =
                    PairModelOptions { start: start.clone(), max_tokens, ..PairModelOptions::default() };
                let model = PairModel::start(task, &options, 1, &device).map(|start| start.model);
                model.map(|model| model.max_passage_tokens).map_err(|error| error.to_string())
            };
            assert_eq!((of(None), of(Some(64))), (Ok(128), Ok(64)));
            let error = of(Some(200)).unwrap_err();
            assert!(error.contains("model.max_tokens is 200; the model takes from 8 to 128"), "{error}");
        }
    }

    #[test]
    fn the_scores_of_a_reader_are_two_layers_in_its_files() {
        let weight = apart(("dense.0.weight".into(), vec![3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        let expected = [
            ("qa_outputs.weight".to_owned(), vec![2, 2], vec![1.0, 2.0, 3.0, 4.0]),
            ("qa_classifier.weight".to_owned(), vec![1, 2], vec![5.0, 6.0]),
        ];
        assert_eq!(weight, expected);
        let bias = apart(("dense.0.bias".into(), vec![3], vec![1.0, 2.0, 3.0]));
        assert_eq!((bias[0].1.as_slice(), bias[1].2.as_slice()), (&[2][..], &[3.0][..]));
        let other = ("encoder.layer.0.output.dense.bias".to_owned(), vec![3], vec![0.0; 3]);
        assert_eq!(apart(other.clone()), [other]);
    }
}
