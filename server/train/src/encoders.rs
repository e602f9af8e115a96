//! Encoders in training: weights on the host, modules on the device.

use std::borrow::Cow;
use std::path::Path;

use burn::tensor::{DType, Device as BurnDevice, Tensor, TensorData};
use dpr_core::device::Device;
use dpr_core::encoder::{Encoder, ParameterInfo, TokenBatch, parameter_list};
use dpr_core::random::SplitMix;
use dpr_core::weights::StoredTensor;
use dpr_core::{DeviceChoice, DeviceError, EncoderConfig, LoadError, TensorMap, TextTokenizer};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::error::TrainError;
use super::options::Precision;
use super::sharing::Sharing;
use dpr_encode::model::{ModelDir, PASSAGE_DIR, QUESTION_DIR, WebFormat};

/// The device that training runs on.
#[derive(Clone, Debug)]
pub struct TrainDevice {
    /// Tensors off the tape.
    pub plain: BurnDevice,
    /// Tensors on the tape.
    pub taped: BurnDevice,
    /// The name of the device, for people and reports.
    pub name: String,
    /// `true` if it is a GPU, real or software: one thread then drives it.
    pub gpu: bool,
}

impl TrainDevice {
    /// Opens a device. The CPU kernels compute no gradients, so `cpu`, and `auto` without a GPU, open Burn's CPU
    /// backend.
    ///
    /// # Errors
    /// [`DeviceError`] when the requested device is not available.
    pub fn open(choice: DeviceChoice) -> Result<Self, DeviceError> {
        let device = match Device::open(choice)? {
            Device::Kernel => Device::flex()?,
            device @ Device::Burn { .. } => device,
        };
        match device {
            Device::Burn { device, name, gpu } => {
                Ok(Self { taped: device.clone().autodiff(), plain: device, name, gpu })
            }
            Device::Kernel => Err(DeviceError::NotBuilt("flex")),
        }
    }
}

impl TrainDevice {
    /// Refuses a precision that the device does not compute in.
    ///
    /// # Errors
    /// [`TrainError::Setting`].
    pub fn check(&self, precision: Precision) -> Result<(), TrainError> {
        let computes_in = |format| self.gpu && self.plain.supports_dtype(format);
        let (f16, bf16) = (computes_in(DType::F16), !self.gpu || computes_in(DType::BF16));
        let is_had = match precision {
            Precision::F32 => true,
            Precision::F16 => f16,
            Precision::Bf16 => bf16,
        };
        let say = match (f16, bf16) {
            (true, _) => "f32, f16 or the device cpu",
            (false, true) => "f32 or bf16",
            (false, false) => "f32 or the device cpu",
        };
        if is_had {
            return Ok(());
        }
        Err(TrainError::Setting {
            setting: "compute.precision",
            got: precision.name().into(),
            expected: format!("{} does not compute in it: say {say}", self.name),
        })
    }
}

impl TrainDevice {
    /// Refuses to round weights to the format of a page where they are not on the host.
    ///
    /// # Errors
    /// [`TrainError::Setting`].
    pub fn check_rounding(&self, format: WebFormat) -> Result<(), TrainError> {
        if !self.gpu {
            return Ok(());
        }
        Err(TrainError::Setting {
            setting: "model.dtype",
            got: format.name().into(),
            expected: format!("{} does not round weights: say the device cpu", self.name),
        })
    }
}

/// The weights at the start of training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Weights {
    /// The weights of the model that training starts from.
    #[default]
    Given,
    /// Random: normal with deviation 0.02, biases 0, LayerNorms 1, as BERT was before its pre-training.
    Random,
}

/// One encoder being trained.
pub struct TrainedEncoder {
    /// Sizes; `max_tokens` is the limit that its texts are cut to.
    pub config: EncoderConfig,
    /// Text to token ids.
    pub tokenizer: TextTokenizer,
    /// Names and shapes of the parameters.
    pub parameters: Vec<ParameterInfo>,
    /// The values of the parameters on the host, as the module holds them, or before they are
    /// [rounded](TrainedEncoder::round_to). After a step on a GPU they are those before it, until
    /// [`TrainedEncoder::download`].
    pub weights: Vec<Vec<f32>>,
    /// For each parameter, whether it is trained.
    pub trained: Vec<bool>,
    /// The number format of a page, which the module's weights are rounded to; those on the host are not.
    rounding: Option<WebFormat>,
    net: Encoder,
    /// `true` if the module has newer weights than `weights`: those of a step on a GPU.
    is_ahead: bool,
    config_json: Vec<u8>,
    tokenizer_json: Vec<u8>,
}

impl TrainedEncoder {
    /// Reads an encoder's directory: `config.json`, `tokenizer.json`, `model.safetensors`.
    ///
    /// # Errors
    /// [`TrainError`] names the directory and what in it does not fit.
    pub fn load(dir: &Path, max_tokens: usize, device: &TrainDevice) -> Result<Self, TrainError> {
        let bad = |source: LoadError| TrainError::Encoder { dir: dir.into(), source };
        let config_json = fs_err::read(dir.join("config.json"))?;
        let tokenizer_json = fs_err::read(dir.join("tokenizer.json"))?;
        let weights = fs_err::read(dir.join("model.safetensors"))?;
        let mut config = EncoderConfig::from_json(&config_json).map_err(|e| bad(e.into()))?;
        config.max_tokens = max_tokens.clamp(4, config.position_limit());
        let tensors = TensorMap::from_safetensors([("model.safetensors", weights.as_slice())])
            .map_err(|e| bad(e.into()))?;
        Self::from_parts(dir, config, tensors, (config_json, tokenizer_json), device)
    }

    /// Puts an encoder together from its parts: its sizes, its weights, and the files `config.json` and
    /// `tokenizer.json` that are written with it. `dir` is what errors name.
    ///
    /// # Errors
    /// [`TrainError`] names the directory and what in it does not fit.
    pub(super) fn from_parts(
        dir: &Path,
        config: EncoderConfig,
        tensors: TensorMap,
        (config_json, tokenizer_json): (Vec<u8>, Vec<u8>),
        device: &TrainDevice,
    ) -> Result<Self, TrainError> {
        let bad = |source: LoadError| TrainError::Encoder { dir: dir.into(), source };
        let tokenizer = TextTokenizer::from_json(&tokenizer_json, &config).map_err(|e| bad(e.into()))?;
        let net = Encoder::load(&config, tensors, &device.plain).map_err(|e| bad(e.into()))?;
        let parameters = parameter_list(&config);
        let weights = net.parameters().into_iter().map(numbers).collect::<Result<Vec<_>, _>>()?;
        let trained = vec![true; parameters.len()];
        let is_ahead = false;
        Ok(Self {
            config,
            tokenizer,
            parameters,
            weights,
            trained,
            rounding: None,
            net,
            is_ahead,
            config_json,
            tokenizer_json,
        })
    }

    /// Returns the number of numbers in a vector.
    pub fn dim(&self) -> usize {
        self.config.dim()
    }

    /// Returns the module with the current weights, rounded where that was asked for, off the tape.
    pub fn net(&self) -> &Encoder {
        &self.net
    }

    /// Excludes the embeddings from training.
    pub fn freeze_embeddings(&mut self) {
        for (trained, parameter) in self.trained.iter_mut().zip(&self.parameters) {
            *trained &= !parameter.is_embedding();
        }
    }

    /// Replaces the weights by random ones; see [`Weights::Random`].
    pub fn randomise(&mut self, seed: u64, device: &TrainDevice) {
        for (number, (weights, parameter)) in self.weights.iter_mut().zip(&self.parameters).enumerate() {
            let mut random = SplitMix::keyed(&[seed, number as u64]);
            match (parameter.is_vector(), parameter.name.ends_with(".bias")) {
                (false, _) => weights.iter_mut().for_each(|w| *w = (random.normal() * 0.02) as f32),
                (true, true) => weights.fill(0.0),
                (true, false) => weights.fill(1.0),
            }
        }
        self.upload(device);
    }

    /// Rounds the module's weights from now on as an export for pages in `format` does, after every step anew. The
    /// weights on the host stay as they are, and take the gradient at the rounded ones for their own: the
    /// straight-through estimator (Bengio et al. 2013, §2).
    ///
    /// # Errors
    /// [`TrainError::Setting`] on a GPU, whose weights are not on the host after a step.
    pub fn round_to(&mut self, format: WebFormat, device: &TrainDevice) -> Result<(), TrainError> {
        device.check_rounding(format)?;
        self.rounding = Some(format);
        self.upload(device);
        Ok(())
    }

    /// Brings the module up to date with the weights, which it holds rounded where that was asked for.
    pub fn upload(&mut self, device: &TrainDevice) {
        let rounded = |values: &[f32], parameter: &ParameterInfo| match self.rounding {
            Some(format) if !parameter.is_vector() => {
                let values = parameter.reorder(values, true);
                let values = format.rounded(&parameter.name, &parameter.shape, &values);
                parameter.reorder(&values, false)
            }
            Some(_) | None => values.to_vec(),
        };
        let weights = self.weights.par_iter().zip(&self.parameters);
        let weights: Vec<_> = weights.map(|(values, parameter)| rounded(values, parameter)).collect();
        let tensor = |values: Vec<f32>| {
            let length = values.len();
            Tensor::from_data(TensorData::new(values, [length]), &device.plain)
        };
        self.net = self.net.with_parameters(weights.into_iter().map(tensor).collect());
        self.is_ahead = false;
    }

    /// Gives the module other weights, which are on its device, and leaves those on the host behind.
    pub(super) fn replace(&mut self, weights: Vec<Tensor<1>>) {
        self.net = self.net.with_parameters(weights);
        self.is_ahead = true;
    }

    /// Brings the weights on the host up to date with the module.
    ///
    /// # Errors
    /// [`TrainError::Device`] when the device fails.
    pub fn download(&mut self) -> Result<(), TrainError> {
        if self.is_ahead {
            self.weights = self.current()?.into_owned();
            self.is_ahead = false;
        }
        Ok(())
    }

    /// Returns the weights of the module, a list a parameter.
    ///
    /// # Errors
    /// [`TrainError::Device`] when the device fails.
    pub(super) fn current(&self) -> Result<Cow<'_, [Vec<f32>]>, TrainError> {
        if !self.is_ahead {
            return Ok(Cow::Borrowed(&self.weights));
        }
        Ok(Cow::Owned(self.net.parameters().into_iter().map(numbers).collect::<Result<_, _>>()?))
    }

    /// Encodes token ids as one batch, without dropout, and returns the vectors `[rows, dim]`, row-major.
    ///
    /// # Errors
    /// [`TrainError::Device`] when the device fails.
    pub fn encode(&self, rows: &[Vec<u32>], device: &TrainDevice) -> Result<Vec<f32>, TrainError> {
        let batch = self.batch(rows, device);
        numbers(self.net.forward(&batch, &self.config, &device.plain))
    }

    /// Returns rows of token ids, all of type 0, padded as [`TrainedEncoder::typed_batch`] does.
    pub(super) fn batch(&self, rows: &[Vec<u32>], device: &TrainDevice) -> TokenBatch {
        let rows: Vec<_> = rows.iter().map(|ids| (ids.as_slice(), &[][..])).collect();
        self.typed_batch(&rows, device)
    }

    /// Returns rows of token ids and their types, or none where all are 0, padded to one length; kernels of a GPU are
    /// tuned and tiled by length, so few distinct lengths are used.
    pub(super) fn typed_batch(&self, rows: &[(&[u32], &[u8])], device: &TrainDevice) -> TokenBatch {
        let multiple_of = if device.gpu { 16 } else { 1 };
        TokenBatch::typed(rows, self.config.pad_token_id, multiple_of, self.config.position_limit())
    }

    /// Returns the parameters in the order and the shape of the files, under canonical names.
    ///
    /// # Errors
    /// [`TrainError::Device`] when the device fails.
    pub(super) fn tensors(&self) -> Result<Vec<StoredTensor>, TrainError> {
        let weights = self.current()?;
        let tensors = self.parameters.iter().zip(weights.iter()).map(|(parameter, values)| {
            (parameter.name.clone(), parameter.shape.clone(), parameter.reorder(values, true))
        });
        Ok(tensors.collect())
    }

    /// Writes the three files of a Hugging Face directory, with the weights under canonical names.
    ///
    /// # Errors
    /// An I/O error that names the file, and [`TrainError::Device`] when the device fails.
    pub fn write(&self, dir: &Path) -> Result<(), TrainError> {
        Ok(self.write_as(dir, &self.tensors()?)?)
    }

    /// Writes as [`TrainedEncoder::write`] does, with `tensors` for the weights.
    pub(super) fn write_as(&self, dir: &Path, tensors: &[StoredTensor]) -> std::io::Result<()> {
        super::tensor_file::write(&dir.join("model.safetensors"), tensors)?;
        fs_err::write(dir.join("config.json"), &self.config_json)?;
        fs_err::write(dir.join("tokenizer.json"), &self.tokenizer_json)
    }

    /// Returns `tokenizer.json`.
    pub(super) fn tokenizer_json(&self) -> &[u8] {
        &self.tokenizer_json
    }
}

/// Returns the numbers of a tensor, row-major.
///
/// # Errors
/// [`TrainError::Device`] when the device fails.
pub(super) fn numbers<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f32>, TrainError> {
    let data = tensor.try_into_data().map_err(|e| device_error(&format!("{e:?}")))?;
    data.convert::<f32>().try_into_vec::<f32>().map_err(|e| device_error(&format!("{e:?}")))
}

/// Returns the error of a device from its report: the line that says that memory ran out, else the last line that names
/// a cause. The others name the operations that could not be done for it.
fn device_error(report: &str) -> TrainError {
    let lines = || report.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_cause = |line: &&str| {
        let starts = ["skipped ", "(", "Caused by", "Asked at", "No backtrace", "An IO error"];
        !starts.iter().any(|start| line.starts_with(start))
    };
    let what = match lines().find(|line| line.contains("out of device memory")) {
        Some(memory) => format!("{memory}; smaller chunk_tokens and tape_tokens need less"),
        None => lines().rfind(is_cause).unwrap_or("it gave no reason").to_owned(),
    };
    TrainError::Device { what }
}

/// A question encoder and a passage encoder, which may be one.
pub struct DualEncoder {
    /// One encoder for both, or the question encoder and the passage encoder.
    pub encoders: Vec<TrainedEncoder>,
    /// Tokens a question is cut to.
    pub max_question_tokens: usize,
    /// Tokens a passage is cut to.
    pub max_passage_tokens: usize,
}

/// Refuses limits of tokens, of questions and of passages, that their encoders do not have.
///
/// # Errors
/// [`TrainError::Setting`] names the limit.
pub(super) fn check_limits(limits: [usize; 2], encoders: [&EncoderConfig; 2]) -> Result<(), TrainError> {
    let settings = ["model.max_question_tokens", "model.max_passage_tokens"];
    for ((setting, got), encoder) in settings.into_iter().zip(limits).zip(encoders) {
        let most = encoder.position_limit();
        if !(4..=most).contains(&got) {
            let expected = format!("the encoder takes from 4 to {most} tokens");
            return Err(TrainError::Setting { setting, got: got.to_string(), expected });
        }
    }
    Ok(())
}

impl DualEncoder {
    /// Loads the encoders of a model directory; the limits are the model's unless given.
    ///
    /// # Errors
    /// [`TrainError`] when the model is damaged, has two encoders where one is asked for, or takes fewer tokens.
    pub fn load(
        model: &ModelDir,
        sharing: Sharing,
        max_question_tokens: Option<usize>,
        max_passage_tokens: Option<usize>,
        device: &TrainDevice,
    ) -> Result<Self, TrainError> {
        let manifest = model.manifest();
        let shared = sharing.is_shared(model)?;
        let max_question_tokens = max_question_tokens.unwrap_or(manifest.max_question_tokens);
        let max_passage_tokens = max_passage_tokens.unwrap_or(manifest.max_passage_tokens);
        let question_dir = model.path().join(QUESTION_DIR);
        let passage_dir = if manifest.shared { question_dir.clone() } else { model.path().join(PASSAGE_DIR) };
        let mut encoders = Vec::new();
        if shared {
            let limit = max_question_tokens.max(max_passage_tokens);
            encoders.push(TrainedEncoder::load(&question_dir, limit, device)?);
        } else {
            encoders.push(TrainedEncoder::load(&question_dir, max_question_tokens, device)?);
            encoders.push(TrainedEncoder::load(&passage_dir, max_passage_tokens, device)?);
        }
        let dual = Self { encoders, max_question_tokens, max_passage_tokens };
        let limits = [max_question_tokens, max_passage_tokens];
        check_limits(limits, [&dual.question().config, &dual.passage().config])?;
        Ok(dual)
    }

    /// Returns whether vectors are scaled to length 1.
    pub fn has_unit_length(&self) -> bool {
        self.encoders.iter().any(|encoder| encoder.config.normalize)
    }

    /// Returns the question encoder.
    pub fn question(&self) -> &TrainedEncoder {
        &self.encoders[0]
    }

    /// Returns the passage encoder.
    pub fn passage(&self) -> &TrainedEncoder {
        &self.encoders[self.encoders.len() - 1]
    }

    /// Returns whether one encoder serves both.
    pub fn is_shared(&self) -> bool {
        self.encoders.len() == 1
    }

    /// Token ids of a question.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn question_tokens(&self, text: &str) -> Result<Vec<u32>, TrainError> {
        let ids = self.question().tokenizer.question(text);
        ids.map(|ids| cut(ids, self.max_question_tokens)).map_err(TrainError::from)
    }

    /// Token ids of a passage.
    ///
    /// # Errors
    /// What the tokenizer says.
    pub fn passage_tokens(&self, title: &str, text: &str) -> Result<Vec<u32>, TrainError> {
        let ids = self.passage().tokenizer.passage(title, text);
        ids.map(|ids| cut(ids, self.max_passage_tokens)).map_err(TrainError::from)
    }
}

/// Returns the ids cut to `limit`. The tokenizer of a shared encoder cuts at the larger of the two limits; the last
/// token is the end mark, and stays.
fn cut(mut ids: Vec<u32>, limit: usize) -> Vec<u32> {
    if ids.len() > limit
        && let Some(end) = ids.last().copied()
    {
        ids.truncate(limit);
        ids[limit - 1] = end;
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_s_report_becomes_its_cause() {
        let out_of_memory = "An error happened during execution\nCaused by:\n  Several failures at once\nCaused by:\n  \
            skipped `CopyKernel`: it needed memory\nCaused by:\n  An IO error happened\nCaused by:\n  \
            out of device memory allocating 202375168 bytes\nNo backtrace available\nAsked at:\nNo backtrace available";
        assert_eq!(
            device_error(out_of_memory).to_string(),
            "the device failed: out of device memory allocating 202375168 bytes; smaller chunk_tokens and tape_tokens \
             need less"
        );
        let lost =
            "An error happened during execution\nCaused by:\n  the device was lost\nNo backtrace available";
        assert_eq!(device_error(lost).to_string(), "the device failed: the device was lost");
        assert_eq!(device_error("").to_string(), "the device failed: it gave no reason");
    }
}
