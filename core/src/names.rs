//! Tensor names and shapes of an encoder, from its config alone.

use crate::config::{EncoderConfig, Family, FeedForward, Pooling};
use crate::head;

/// Canonical names of the modules outside the layers, without `.weight` and `.bias`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterNames {
    /// Word embedding.
    pub words: &'static str,
    /// Position embedding.
    pub positions: Option<&'static str>,
    /// Token type embedding.
    pub token_types: Option<&'static str>,
    /// LayerNorm of the embeddings' sum.
    pub embedding_norm: &'static str,
    /// LayerNorm after the last layer.
    pub final_norm: Option<&'static str>,
    /// MPNet's relative attention bias.
    pub relative_bias: Option<&'static str>,
}

impl OuterNames {
    /// Returns the names in a family's checkpoints.
    pub fn new(family: Family) -> Self {
        Self {
            words: match family {
                Family::Modernbert => "embeddings.tok_embeddings",
                _ => "embeddings.word_embeddings",
            },
            positions: (!family.is_rotary()).then_some("embeddings.position_embeddings"),
            token_types: family.has_token_types().then_some("embeddings.token_type_embeddings"),
            embedding_norm: match family {
                Family::Modernbert => "embeddings.norm",
                Family::NomicBert => "emb_ln",
                _ => "embeddings.LayerNorm",
            },
            final_norm: family.is_pre_norm().then_some("final_norm"),
            relative_bias: (family == Family::Mpnet).then_some("encoder.relative_attention_bias"),
        }
    }
}

/// Canonical names of one layer's modules, without `.weight` and `.bias`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerNames {
    /// Beginning of the names of all tensors of the layer, up to the point behind its number.
    pub beginning: String,
    /// Query, key and value of the attention: three modules, or one that holds all three in this order.
    pub qkv: Vec<String>,
    /// Output of the attention.
    pub attention_output: String,
    /// LayerNorm after the attention, or before it; ModernBERT's first layer has none.
    pub attention_norm: Option<String>,
    /// Widening layer of the feed-forward. A gated one has two parts, the activated and the linear one: two modules, or
    /// one that holds both in this order.
    pub intermediate: Vec<String>,
    /// Narrowing layer of the feed-forward.
    pub output: String,
    /// LayerNorm after the feed-forward, or before it.
    pub output_norm: String,
}

/// A place in a transformer layer where one or more linear layers read the same inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinearInput {
    /// Inputs of the query, key and value layers, `[tokens, hidden]`.
    Attention,
    /// Inputs of the attention's output layer, `[tokens, hidden]`.
    AttentionOutput,
    /// Inputs of the feed-forward's widening layer, `[tokens, hidden]`.
    FeedForward,
    /// Inputs of the feed-forward's narrowing layer, `[tokens, intermediate]`.
    FeedForwardOutput,
}

impl LayerNames {
    /// Returns the names of the linear layers that read these inputs.
    pub fn reading(&self, input: LinearInput) -> &[String] {
        match input {
            LinearInput::Attention => &self.qkv,
            LinearInput::AttentionOutput => std::slice::from_ref(&self.attention_output),
            LinearInput::FeedForward => &self.intermediate,
            LinearInput::FeedForwardOutput => std::slice::from_ref(&self.output),
        }
    }

    /// Returns the names of layer `index` in a family's checkpoints.
    pub fn new(family: Family, index: usize) -> Self {
        let (layers, qkv, attention_output, attention_norm, intermediate, output, output_norm) = match family
        {
            Family::Bert | Family::Roberta => (
                "encoder.layer",
                &["attention.self.query", "attention.self.key", "attention.self.value"][..],
                "attention.output.dense",
                "attention.output.LayerNorm",
                &["intermediate.dense"][..],
                "output.dense",
                "output.LayerNorm",
            ),
            Family::Mpnet => (
                "encoder.layer",
                &["attention.attn.q", "attention.attn.k", "attention.attn.v"][..],
                "attention.attn.o",
                "attention.LayerNorm",
                &["intermediate.dense"][..],
                "output.dense",
                "output.LayerNorm",
            ),
            Family::Distilbert => (
                "transformer.layer",
                &["attention.q_lin", "attention.k_lin", "attention.v_lin"][..],
                "attention.out_lin",
                "sa_layer_norm",
                &["ffn.lin1"][..],
                "ffn.lin2",
                "output_layer_norm",
            ),
            Family::Modernbert => {
                ("layers", &["attn.Wqkv"][..], "attn.Wo", "attn_norm", &["mlp.Wi"][..], "mlp.Wo", "mlp_norm")
            }
            Family::NomicBert => (
                "encoder.layers",
                &["attn.Wqkv"][..],
                "attn.out_proj",
                "norm1",
                &["mlp.fc12", "mlp.fc11"][..],
                "mlp.fc2",
                "norm2",
            ),
        };
        let at = |rest: &str| format!("{layers}.{index}.{rest}");
        // The embeddings have just been normalised.
        let bare = family.is_pre_norm() && index == 0;
        Self {
            beginning: at(""),
            qkv: qkv.iter().copied().map(at).collect(),
            attention_output: at(attention_output),
            attention_norm: (!bare).then(|| at(attention_norm)),
            intermediate: intermediate.iter().copied().map(at).collect(),
            output: at(output),
            output_norm: at(output_norm),
        }
    }
}

/// Returns the outputs of the widening layer, both parts of a gated one counted.
pub(crate) fn widened(config: &EncoderConfig) -> usize {
    match config.family.feed_forward() {
        FeedForward::Gelu => config.intermediate_size,
        FeedForward::GeGlu | FeedForward::SwiGlu => 2 * config.intermediate_size,
    }
}

/// Returns every tensor of the encoder with its shape; a linear layer's weight is `[output, input]`.
pub fn tensors(config: &EncoderConfig) -> Vec<(String, Vec<usize>)> {
    let (family, hidden) = (config.family, config.hidden_size);
    let outer = OuterNames::new(family);
    let mut list = List { tensors: Vec::new(), family };
    list.matrix(outer.words, config.vocab_size, hidden);
    if let Some(name) = outer.positions {
        list.matrix(name, config.max_position_embeddings, hidden);
    }
    if let Some(name) = outer.token_types {
        list.matrix(name, config.type_vocab_size, hidden);
    }
    list.norm(outer.embedding_norm, hidden);
    for index in 0..config.num_hidden_layers {
        let names = LayerNames::new(family, index);
        for name in &names.qkv {
            list.linear(name, 3 * hidden / names.qkv.len(), hidden);
        }
        list.linear(&names.attention_output, hidden, hidden);
        if let Some(name) = &names.attention_norm {
            list.norm(name, hidden);
        }
        for name in &names.intermediate {
            list.linear(name, widened(config) / names.intermediate.len(), hidden);
        }
        list.linear(&names.output, hidden, config.intermediate_size);
        list.norm(&names.output_norm, hidden);
    }
    if let Some(name) = outer.final_norm {
        list.norm(name, hidden);
    }
    if let Some(name) = outer.relative_bias {
        list.matrix(name, config.relative_attention_num_buckets, config.num_attention_heads);
    }
    list.head(config);
    list.tensors
}

struct List {
    tensors: Vec<(String, Vec<usize>)>,
    family: Family,
}

impl List {
    fn head(&mut self, config: &EncoderConfig) {
        let hidden = config.hidden_size;
        if config.pooling == Pooling::Pooler {
            self.matrix(head::POOLER, hidden, hidden);
            self.bias(head::POOLER, hidden);
        }
        for (index, (input, layer)) in head::dense_layers(&config.head, hidden).enumerate() {
            let name = head::dense_name(index);
            self.matrix(&name, layer.output, input);
            if layer.bias {
                self.bias(&name, layer.output);
            }
        }
        if config.projection_dim > 0 {
            self.matrix("encode_proj", config.projection_dim, config.kept_width());
            self.bias("encode_proj", config.projection_dim);
        }
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize) {
        self.tensors.push((format!("{name}.weight"), vec![rows, columns]));
    }

    fn bias(&mut self, name: &str, width: usize) {
        self.tensors.push((format!("{name}.bias"), vec![width]));
    }

    fn linear(&mut self, name: &str, output: usize, input: usize) {
        self.matrix(name, output, input);
        if self.family.has_linear_biases() {
            self.bias(name, output);
        }
    }

    fn norm(&mut self, name: &str, width: usize) {
        self.tensors.push((format!("{name}.weight"), vec![width]));
        if self.family.has_norm_biases() {
            self.bias(name, width);
        }
    }
}
