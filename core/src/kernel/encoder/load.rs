//! Loader of the CPU encoder: Hugging Face tensors into packed panels.

use super::super::isa::Isa;
use super::attention::RelativeBias;
use super::head::{Dense, Head};
use super::linear::{Linear, Part};
use super::{KernelEncoder, Layer, Norm};
use crate::config::{EncoderConfig, Family, Pooling};
use crate::head;
use crate::names::LayerNames;
use crate::weights::{Matrix, TensorMap, WeightsError};

struct Loader {
    tensors: TensorMap,
    isa: Isa,
}

impl Loader {
    /// Returns one layer stored as `[output, input]`, with its outputs times `factor`.
    fn part(&mut self, name: &str, n: usize, k: usize, factor: f32) -> Result<Part, WeightsError> {
        let weight = self.tensors.take_matrix(&format!("{name}.weight"), &[n, k])?;
        let bias = self.tensors.take_f32(&format!("{name}.bias"), &[n])?;
        Ok(Part { weight, bias, factor })
    }

    fn linear(&mut self, name: &str, n: usize, k: usize) -> Result<Linear, WeightsError> {
        let part = self.part(name, n, k, 1.0)?;
        Ok(Linear::new(self.isa, vec![part], k))
    }

    fn head(&mut self, config: &EncoderConfig) -> Result<Head, WeightsError> {
        let hidden = config.hidden_size;
        let pooler = match config.pooling {
            Pooling::Pooler => Some(self.linear(head::POOLER, hidden, hidden)?),
            _ => None,
        };
        let mut dense = Vec::new();
        for (index, (k, layer)) in head::dense_layers(&config.head, hidden).enumerate() {
            let (name, n) = (head::dense_name(index), layer.output);
            let weight = self.tensors.take_matrix(&format!("{name}.weight"), &[n, k])?;
            let bias = match layer.bias {
                true => self.tensors.take_f32(&format!("{name}.bias"), &[n])?,
                false => vec![0.0; n],
            };
            let linear = Linear::new(self.isa, vec![Part { weight, bias, factor: 1.0 }], k);
            dense.push(Dense { linear, activation: layer.activation });
        }
        let projection = match config.projection_dim {
            0 => None,
            dim => Some(self.linear("encode_proj", dim, config.kept_width())?),
        };
        Ok(Head::new(config, pooler, dense, projection))
    }

    fn norm(&mut self, name: &str, width: usize) -> Result<Norm, WeightsError> {
        let weight = self.tensors.take_f32(&format!("{name}.weight"), &[width])?;
        let bias = self.tensors.take_f32(&format!("{name}.bias"), &[width])?;
        Ok(Norm { weight, bias })
    }

    /// Returns the position rows that tokens can take, `[position_limit, hidden]`, each with the one token type that
    /// the released bi-encoders give every token already added.
    fn positions(&mut self, config: &EncoderConfig) -> Result<Vec<f32>, WeightsError> {
        let (rows, hidden) = (config.max_position_embeddings, config.hidden_size);
        let mut positions =
            self.tensors.take_f32("embeddings.position_embeddings.weight", &[rows, hidden])?;
        positions.drain(..(config.position_offset() * hidden).min(positions.len()));
        if config.family == Family::Bert {
            let name = "embeddings.token_type_embeddings.weight";
            let types = self.tensors.take_f32(name, &[config.type_vocab_size, hidden])?;
            for row in positions.chunks_exact_mut(hidden) {
                row.iter_mut().zip(&types).for_each(|(position, kind)| *position += kind);
            }
        }
        Ok(positions)
    }

    fn layer(&mut self, config: &EncoderConfig, index: usize) -> Result<Layer, WeightsError> {
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let names = LayerNames::new(config.family, index);
        let scale = 1.0 / (config.head_dim() as f32).sqrt();
        let parts = vec![
            self.part(&names.query, hidden, hidden, scale)?,
            self.part(&names.key, hidden, hidden, 1.0)?,
            self.part(&names.value, hidden, hidden, 1.0)?,
        ];
        Ok(Layer {
            qkv: Linear::new(self.isa, parts, hidden),
            attention_output: self.linear(&names.attention_output, hidden, hidden)?,
            attention_norm: self.norm(&names.attention_norm, hidden)?,
            intermediate: self.linear(&names.intermediate, wide, hidden)?,
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
        encoder(config, tensors, Isa::detect())
    }
}

/// Packs the encoder of `config` for `isa`. Tensors leave the map one layer at a time, so that the weights
/// are never in memory twice.
pub(super) fn encoder(
    config: &EncoderConfig,
    tensors: TensorMap,
    isa: Isa,
) -> Result<KernelEncoder, WeightsError> {
    let mut from = Loader { tensors, isa };
    let hidden = config.hidden_size;
    let words: Matrix =
        from.tensors.take_matrix("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?;
    let positions = from.positions(config)?;
    let embedding_norm = from.norm("embeddings.LayerNorm", hidden)?;
    let layers =
        (0..config.num_hidden_layers).map(|index| from.layer(config, index)).collect::<Result<_, _>>()?;
    let relative = match config.family {
        Family::Bert => None,
        Family::Mpnet => {
            let (buckets, heads) = (config.relative_attention_num_buckets, config.num_attention_heads);
            let weight =
                from.tensors.take_f32("encoder.relative_attention_bias.weight", &[buckets, heads])?;
            Some(RelativeBias::new(&weight, heads, config.position_limit()))
        }
    };
    let head = from.head(config)?;
    let config = config.clone();
    Ok(KernelEncoder { config, isa, words, positions, embedding_norm, layers, relative, head })
}
