//! Loader of Burn encoders from Hugging Face tensors.

use burn::module::Param;
use burn::nn::{Embedding, Linear};
use burn::tensor::{Device, Tensor, TensorData};

use super::{Attention, Embeddings, Encoder, Layer, Norm, RelativeBias};
use crate::config::{EncoderConfig, Family, Pooling};
use crate::head;
use crate::names::{LayerNames, OuterNames, widened};
use crate::weights::{TensorMap, WeightsError};

struct Loader<'a> {
    tensors: TensorMap,
    device: &'a Device,
    family: Family,
    eps: f64,
}

impl Loader<'_> {
    fn matrix(&mut self, name: &str, rows: usize, columns: usize) -> Result<Tensor<2>, WeightsError> {
        let values = self.tensors.take_f32(name, &[rows, columns])?;
        Ok(Tensor::from_data(TensorData::new(values, [rows, columns]), self.device))
    }

    fn vector(&mut self, name: &str, length: usize) -> Result<Param<Tensor<1>>, WeightsError> {
        let values = self.tensors.take_f32(name, &[length])?;
        Ok(Param::from_tensor(Tensor::from_data(TensorData::new(values, [length]), self.device)))
    }

    fn embedding(&mut self, name: &str, rows: usize, columns: usize) -> Result<Embedding, WeightsError> {
        Ok(Embedding { weight: Param::from_tensor(self.matrix(&format!("{name}.weight"), rows, columns)?) })
    }

    /// Returns a layer stored as `[output, input]`, which Burn keeps as `[input, output]`.
    fn maybe_biased(
        &mut self,
        name: &str,
        input: usize,
        output: usize,
        bias: bool,
    ) -> Result<Linear, WeightsError> {
        let values = self.tensors.take_f32(&format!("{name}.weight"), &[output, input])?;
        let mut transposed = vec![0f32; values.len()];
        for (row, values) in values.chunks_exact(input).enumerate() {
            for (column, value) in values.iter().enumerate() {
                transposed[column * output + row] = *value;
            }
        }
        let weight = Tensor::from_data(TensorData::new(transposed, [input, output]), self.device);
        let bias = bias.then(|| self.vector(&format!("{name}.bias"), output)).transpose()?;
        Ok(Linear { weight: Param::from_tensor(weight), bias })
    }

    /// Returns a linear layer of the family's transformer.
    fn linear(&mut self, name: &str, input: usize, output: usize) -> Result<Linear, WeightsError> {
        self.maybe_biased(name, input, output, self.family.has_linear_biases())
    }

    /// Returns layers of the same inputs, which have `output` outputs in all.
    fn linears(
        &mut self,
        names: &[String],
        input: usize,
        output: usize,
    ) -> Result<Vec<Linear>, WeightsError> {
        names.iter().map(|name| self.linear(name, input, output / names.len())).collect()
    }

    fn norm(&mut self, name: &str, width: usize) -> Result<Norm, WeightsError> {
        let weight = self.vector(&format!("{name}.weight"), width)?;
        let has_bias = self.family.has_norm_biases();
        let bias = has_bias.then(|| self.vector(&format!("{name}.bias"), width)).transpose()?;
        Ok(Norm { weight, bias, epsilon: self.eps })
    }
}

impl Encoder {
    /// Builds the encoder of `config` on `device` and takes its tensors out of `tensors`.
    ///
    /// # Errors
    /// [`WeightsError`] names the first tensor that is missing, misshapen or not finite.
    pub fn load(config: &EncoderConfig, tensors: TensorMap, device: &Device) -> Result<Self, WeightsError> {
        encoder(config, tensors, device)
    }
}

fn encoder(config: &EncoderConfig, tensors: TensorMap, device: &Device) -> Result<Encoder, WeightsError> {
    let mut from = Loader { tensors, device, family: config.family, eps: config.layer_norm_eps };
    let (hidden, outer) = (config.hidden_size, OuterNames::new(config.family));
    let embeddings = Embeddings {
        word: from.embedding(outer.words, config.vocab_size, hidden)?,
        position: outer
            .positions
            .map(|name| from.embedding(name, config.max_position_embeddings, hidden))
            .transpose()?,
        token_type: outer
            .token_types
            .map(|name| from.embedding(name, config.type_vocab_size, hidden))
            .transpose()?,
        norm: from.norm(outer.embedding_norm, hidden)?,
    };
    let layers = (0..config.num_hidden_layers)
        .map(|index| layer(&mut from, config, index))
        .collect::<Result<_, _>>()?;
    let final_norm = outer.final_norm.map(|name| from.norm(name, hidden)).transpose()?;
    let relative = match outer.relative_bias {
        None => None,
        Some(name) => {
            let (buckets, heads) = (config.relative_attention_num_buckets, config.num_attention_heads);
            Some(RelativeBias { weight: from.embedding(name, buckets, heads)? })
        }
    };
    let pooler = match config.pooling {
        Pooling::Pooler => Some(from.maybe_biased(head::POOLER, hidden, hidden, true)?),
        _ => None,
    };
    let dense = head::dense_layers(&config.head, hidden).enumerate().map(|(index, (input, layer))| {
        from.maybe_biased(&head::dense_name(index), input, layer.output, layer.bias)
    });
    let dense = dense.collect::<Result<_, _>>()?;
    let projection = match config.projection_dim {
        0 => None,
        dim => Some(from.maybe_biased("encode_proj", config.kept_width(), dim, true)?),
    };
    Ok(Encoder { embeddings, layers, final_norm, relative, pooler, dense, projection })
}

fn layer(from: &mut Loader<'_>, config: &EncoderConfig, index: usize) -> Result<Layer, WeightsError> {
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);
    let names = LayerNames::new(config.family, index);
    Ok(Layer {
        attention: Attention {
            qkv: from.linears(&names.qkv, hidden, 3 * hidden)?,
            output: from.linear(&names.attention_output, hidden, hidden)?,
        },
        attention_norm: names.attention_norm.as_ref().map(|name| from.norm(name, hidden)).transpose()?,
        intermediate: from.linears(&names.intermediate, hidden, widened(config))?,
        output: from.linear(&names.output, wide, hidden)?,
        output_norm: from.norm(&names.output_norm, hidden)?,
    })
}
