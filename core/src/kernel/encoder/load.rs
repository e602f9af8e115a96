//! Loader of the CPU encoder: Hugging Face tensors into packed panels.

use super::super::isa::Isa;
use super::attention::RelativeBias;
use super::gemm_q8::InputBits;
use super::head::{Dense, Head};
use super::linear::{Linear, Part};
use super::rotary::Rotary;
use super::{KernelEncoder, Layer, Norm};
use crate::config::{EncoderConfig, Family, Pooling};
use crate::head;
use crate::names::{LayerNames, OuterNames, widened};
use crate::precision::Precision;
use crate::weights::{Matrix, TensorMap, WeightsError};

struct Loader {
    tensors: TensorMap,
    isa: Isa,
    /// The precision of the transformer's layers.
    precision: Precision,
    family: Family,
}

impl Loader {
    /// Returns one layer stored as `[output, input]`; without biases they are 0.
    fn biased_part(&mut self, name: &str, n: usize, k: usize, biased: bool) -> Result<Part, WeightsError> {
        let weight = self.tensors.take_matrix(&format!("{name}.weight"), &[n, k])?;
        let bias = match biased {
            true => self.tensors.take_f32(&format!("{name}.bias"), &[n])?,
            false => vec![0.0; n],
        };
        Ok(Part { weight, bias, factor: 1.0 })
    }

    /// Returns one layer of the family's transformer.
    fn part(&mut self, name: &str, n: usize, k: usize) -> Result<Part, WeightsError> {
        self.biased_part(name, n, k, self.family.has_linear_biases())
    }

    /// Returns layers of the same inputs side by side, `n` outputs in all.
    fn side_by_side(&mut self, names: &[String], n: usize, k: usize) -> Result<Vec<Part>, WeightsError> {
        names.iter().map(|name| self.part(name, n / names.len(), k)).collect()
    }

    fn linear(&mut self, name: &str, n: usize, k: usize) -> Result<Linear, WeightsError> {
        let part = self.part(name, n, k)?;
        Ok(self.packed(vec![part], k))
    }

    /// Returns layers of the same `k` inputs as one of the transformer.
    fn packed(&self, parts: Vec<Part>, k: usize) -> Linear {
        Linear::at(self.isa, self.precision, parts, k)
    }

    fn head(&mut self, config: &EncoderConfig) -> Result<Head, WeightsError> {
        let (isa, hidden) = (self.isa, config.hidden_size);
        let precision = self.precision;
        let mut linear = |name: &str, n, k, biased| -> Result<Linear, WeightsError> {
            Ok(Linear::of_head(isa, precision, self.biased_part(name, n, k, biased)?, k))
        };
        let pooler = match config.pooling {
            Pooling::Pooler => Some(linear(head::POOLER, hidden, hidden, true)?),
            _ => None,
        };
        let dense = head::dense_layers(&config.head, hidden).enumerate().map(|(index, (k, layer))| {
            let linear = linear(&head::dense_name(index), layer.output, k, layer.bias)?;
            Ok(Dense { linear, activation: layer.activation })
        });
        let dense = dense.collect::<Result<_, WeightsError>>()?;
        let projection = match config.projection_dim {
            0 => None,
            dim => Some(linear("encode_proj", dim, config.kept_width(), true)?),
        };
        Ok(Head::new(config, pooler, dense, projection))
    }

    fn norm(&mut self, name: &str, width: usize) -> Result<Norm, WeightsError> {
        let weight = self.tensors.take_f32(&format!("{name}.weight"), &[width])?;
        let bias = match self.family.has_norm_biases() {
            true => self.tensors.take_f32(&format!("{name}.bias"), &[width])?,
            false => vec![0.0; width],
        };
        Ok(Norm { weight, bias })
    }

    /// Returns the word embedding, `[vocab_size, hidden]`.
    fn words(&mut self, config: &EncoderConfig) -> Result<Matrix, WeightsError> {
        let name = format!("{}.weight", OuterNames::new(config.family).words);
        self.tensors.take_matrix(&name, &[config.vocab_size, config.hidden_size])
    }

    /// Returns the position rows that tokens can take, `[position_limit, hidden]`, for each of the first `types` token
    /// types with its embedding already added. Where positions are rotary, it is one row, and where there are no token
    /// types, one table.
    fn positions(&mut self, config: &EncoderConfig, types: usize) -> Result<Vec<Vec<f32>>, WeightsError> {
        let (rows, hidden) = (config.max_position_embeddings, config.hidden_size);
        let outer = OuterNames::new(config.family);
        let mut positions = match outer.positions {
            Some(name) => self.tensors.take_f32(&format!("{name}.weight"), &[rows, hidden])?,
            None => vec![0.0; hidden],
        };
        positions.drain(..(config.position_offset() * hidden).min(positions.len()));
        let Some(name) = outer.token_types else { return Ok(vec![positions]) };
        let embeddings =
            self.tensors.take_f32(&format!("{name}.weight"), &[config.type_vocab_size, hidden])?;
        let with = |kind: &[f32]| {
            let rows = positions.chunks_exact(hidden);
            rows.flat_map(|row| row.iter().zip(kind).map(|(position, kind)| position + kind)).collect()
        };
        Ok(embeddings.chunks_exact(hidden).take(types).map(with).collect())
    }

    fn layer(&mut self, config: &EncoderConfig, index: usize) -> Result<Layer, WeightsError> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let names = LayerNames::new(config.family, index);
        let scale = 1.0 / (config.head_dim() as f32).sqrt();
        let qkv = self.side_by_side(&names.qkv, 3 * hidden, hidden)?;
        let qkv = match <[Part; 1]>::try_from(qkv) {
            Ok([fused]) => fused.split(&[scale, 1.0, 1.0]),
            Err(mut parts) => {
                parts[0].factor = scale;
                parts
            }
        };
        let attention_norm = names.attention_norm.as_ref().map(|name| self.norm(name, hidden)).transpose()?;
        let intermediate = self.side_by_side(&names.intermediate, widened(config), hidden)?;
        Ok(Layer {
            qkv: self.packed(qkv, hidden),
            attention_output: self.linear(&names.attention_output, hidden, hidden)?,
            attention_norm,
            intermediate: self.packed(intermediate, hidden),
            output: self.linear(&names.output, hidden, wide)?,
            output_norm: self.norm(&names.output_norm, hidden)?,
        })
    }
}

impl KernelEncoder {
    /// Packs the encoder of `config`, taking its tensors out of `tensors`. A layer whose matrices are stored
    /// in 8 bits computes in 8 bits.
    ///
    /// # Errors
    /// [`WeightsError`] names the first tensor that is missing, misshapen or not finite.
    pub fn new(config: &EncoderConfig, tensors: TensorMap) -> Result<Self, WeightsError> {
        Self::with_types(config, tensors, 1, Precision::F32)
    }

    /// Packs an encoder as [`KernelEncoder::new`] does, for rows whose tokens are of the first `types` types, with
    /// layers that multiply in `precision`.
    ///
    /// # Errors
    /// As from [`KernelEncoder::new`].
    pub(crate) fn with_types(
        config: &EncoderConfig,
        tensors: TensorMap,
        types: usize,
        precision: Precision,
    ) -> Result<Self, WeightsError> {
        encoder(config, tensors, Isa::detect(), types, precision)
    }
}

/// Packs the encoder of `config` for `isa`. Tensors leave the map one layer at a time, so that the weights
/// are never in memory twice.
pub(super) fn encoder(
    config: &EncoderConfig,
    tensors: TensorMap,
    isa: Isa,
    types: usize,
    precision: Precision,
) -> Result<KernelEncoder, WeightsError> {
    let from = Loader { tensors, isa, precision, family: config.family };
    KernelBuilder::with(config, from, types).finish()
}

/// An encoder whose tensors come one after another.
pub(crate) struct KernelBuilder {
    config: EncoderConfig,
    from: Loader,
    types: usize,
    words: Option<Matrix>,
    /// Packed layers, `[num_hidden_layers]`; `None` for a layer that still waits for tensors.
    layers: Vec<Option<Layer>>,
}

impl KernelBuilder {
    /// Returns an encoder of `config` of which nothing is packed, for rows whose tokens are of the first `types` types.
    pub(crate) fn new(config: &EncoderConfig, tensors: TensorMap, types: usize) -> Self {
        let (isa, precision) = (Isa::detect(), Precision::F32);
        Self::with(config, Loader { tensors, isa, precision, family: config.family }, types)
    }

    fn with(config: &EncoderConfig, from: Loader, types: usize) -> Self {
        let layers = (0..config.num_hidden_layers).map(|_| None).collect();
        Self { config: config.clone(), from, types, words: None, layers }
    }

    /// Returns the tensors that are not packed, to add others.
    pub(crate) fn tensors_mut(&mut self) -> &mut TensorMap {
        &mut self.from.tensors
    }

    /// Packs every part of the encoder whose tensors are all there; `is_there` says so by the beginning of their canonical
    /// names.
    ///
    /// # Errors
    /// [`WeightsError`] names the first tensor that is missing, misshapen or not finite.
    pub(crate) fn pack(&mut self, is_there: impl Fn(&str) -> bool) -> Result<(), WeightsError> {
        let Self { config, from, words, layers, .. } = self;
        if words.is_none() && is_there(OuterNames::new(config.family).words) {
            *words = Some(from.words(config)?);
        }
        for (index, layer) in layers.iter_mut().enumerate() {
            if layer.is_none() && is_there(&LayerNames::new(config.family, index).beginning) {
                *layer = Some(from.layer(config, index)?);
            }
        }
        Ok(())
    }

    /// Packs what is left, and returns the encoder.
    ///
    /// # Errors
    /// As from [`KernelBuilder::pack`].
    pub(crate) fn finish(self) -> Result<KernelEncoder, WeightsError> {
        let Self { config, mut from, types, words, layers } = self;
        let (isa, hidden, outer) = (from.isa, config.hidden_size, OuterNames::new(config.family));
        let words = words.map_or_else(|| from.words(&config), Ok)?;
        let positions = from.positions(&config, types)?;
        let embedding_norm = from.norm(outer.embedding_norm, hidden)?;
        let layers = layers.into_iter().enumerate();
        let layers = layers.map(|(index, layer)| layer.map_or_else(|| from.layer(&config, index), Ok));
        let layers = layers.collect::<Result<_, _>>()?;
        let final_norm = outer.final_norm.map(|name| from.norm(name, hidden)).transpose()?;
        let relative = match outer.relative_bias {
            None => None,
            Some(name) => {
                let (buckets, heads) = (config.relative_attention_num_buckets, config.num_attention_heads);
                let weight = from.tensors.take_f32(&format!("{name}.weight"), &[buckets, heads])?;
                Some(RelativeBias::new(&weight, heads, config.position_limit()))
            }
        };
        let rotary = config.rotary.as_ref().map(|rotary| {
            [rotary.theta, rotary.local_theta]
                .map(|theta| Rotary::new(theta, config.head_dim(), config.position_limit()))
        });
        let head = from.head(&config)?;
        Ok(KernelEncoder {
            config,
            isa,
            // Encoders of pairs of texts make scores, the others vectors.
            bits: if types > 1 { InputBits::RANKING } else { InputBits::MOST },
            narrow: from.precision != Precision::F32,
            words,
            positions,
            embedding_norm,
            layers,
            final_norm,
            relative,
            rotary,
            head,
        })
    }
}
