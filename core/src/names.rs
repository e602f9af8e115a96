//! Tensor names and shapes of an encoder, from its config alone.

use crate::config::{EncoderConfig, Family, Pooling};
use crate::head;

/// Canonical names of one layer's modules, without `.weight` and `.bias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerNames {
    /// Query of the attention.
    pub query: String,
    /// Key of the attention.
    pub key: String,
    /// Value of the attention.
    pub value: String,
    /// Output of the attention.
    pub attention_output: String,
    /// LayerNorm after the attention.
    pub attention_norm: String,
    /// Widening layer of the feed-forward.
    pub intermediate: String,
    /// Narrowing layer of the feed-forward.
    pub output: String,
    /// LayerNorm after the feed-forward.
    pub output_norm: String,
}

impl LayerNames {
    /// Returns the names of layer `index` in a family's checkpoints.
    pub fn new(family: Family, index: usize) -> Self {
        let at = |rest: &str| format!("encoder.layer.{index}.{rest}");
        let [query, key, value, attention_output, attention_norm] = match family {
            Family::Bert => [
                "attention.self.query",
                "attention.self.key",
                "attention.self.value",
                "attention.output.dense",
                "attention.output.LayerNorm",
            ],
            Family::Mpnet => [
                "attention.attn.q",
                "attention.attn.k",
                "attention.attn.v",
                "attention.attn.o",
                "attention.LayerNorm",
            ],
        };
        Self {
            query: at(query),
            key: at(key),
            value: at(value),
            attention_output: at(attention_output),
            attention_norm: at(attention_norm),
            intermediate: at("intermediate.dense"),
            output: at("output.dense"),
            output_norm: at("output.LayerNorm"),
        }
    }
}

/// Returns every tensor of the encoder with its shape; a linear layer's weight is `[output, input]`.
pub fn tensors(config: &EncoderConfig) -> Vec<(String, Vec<usize>)> {
    let mut list = List(Vec::new());
    let hidden = config.hidden_size;
    list.matrix("embeddings.word_embeddings", config.vocab_size, hidden);
    list.matrix("embeddings.position_embeddings", config.max_position_embeddings, hidden);
    if config.family == Family::Bert {
        list.matrix("embeddings.token_type_embeddings", config.type_vocab_size, hidden);
    }
    list.norm("embeddings.LayerNorm", hidden);
    for index in 0..config.num_hidden_layers {
        let names = LayerNames::new(config.family, index);
        for name in [&names.query, &names.key, &names.value, &names.attention_output] {
            list.linear(name, hidden, hidden);
        }
        list.norm(&names.attention_norm, hidden);
        list.linear(&names.intermediate, config.intermediate_size, hidden);
        list.linear(&names.output, hidden, config.intermediate_size);
        list.norm(&names.output_norm, hidden);
    }
    if config.family == Family::Mpnet {
        let (buckets, heads) = (config.relative_attention_num_buckets, config.num_attention_heads);
        list.matrix("encoder.relative_attention_bias", buckets, heads);
    }
    list.head(config);
    list.0
}

struct List(Vec<(String, Vec<usize>)>);

impl List {
    fn head(&mut self, config: &EncoderConfig) {
        let hidden = config.hidden_size;
        if config.pooling == Pooling::Pooler {
            self.linear(head::POOLER, hidden, hidden);
        }
        for (index, (input, layer)) in head::dense_layers(&config.head, hidden).enumerate() {
            let name = head::dense_name(index);
            self.matrix(&name, layer.output, input);
            if layer.bias {
                self.0.push((format!("{name}.bias"), vec![layer.output]));
            }
        }
        if config.projection_dim > 0 {
            self.linear("encode_proj", config.projection_dim, config.kept_width());
        }
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) {
        self.0.push((format!("{name}.weight"), vec![rows, columns]));
    }

    fn linear(&mut self, name: &str, output: usize, input: usize) {
        self.matrix(name, output, input);
        self.0.push((format!("{name}.bias"), vec![output]));
    }

    fn norm(&mut self, name: &str, width: usize) {
        self.0.push((format!("{name}.weight"), vec![width]));
        self.0.push((format!("{name}.bias"), vec![width]));
    }
}
