//! Encoders on the CPU without a tensor library: small enough for a browser module, and made for one thread a batch.
//!
//! A batch is not padded. The rows' tokens lie one after the other in one matrix `[tokens, hidden]`, which
//! the linear layers take as a whole; attention takes each row by itself. Every sum runs in an order that
//! does not depend on the batch, so **a row in a batch equals the row alone**, to the bit.
//!
//! `linear` layers hold their weights packed for the instruction set found at load, in single precision (`gemm`)
//! or 8 bits (`gemm_q8`), as they come, or in the narrower numbers of a [`crate::Precision`] (`narrow`).
//!
//! The same encoders on Burn, `crate::encoder`, are the reference.

mod attention;
mod gate;
mod gemm_q8;
mod head;
#[cfg(not(target_arch = "wasm32"))]
mod inputs;
mod linear;
mod load;
#[cfg(not(target_arch = "wasm32"))]
mod narrow;
mod output;
mod part;
mod rotary;
#[cfg(test)]
mod tests;

use super::isa::{Isa, vectorised};
use super::math;
use crate::config::{EncoderConfig, FeedForward};
use crate::names::{LinearInput, widened};
use crate::row::{LastStates, Row};
use crate::weights::Matrix;
use attention::{Attention, AttentionScratch, RelativeBias};
use gemm_q8::InputBits;
#[cfg(target_arch = "wasm32")]
pub use gemm_q8::relaxed_products;
use head::Head;
use linear::{ConvertedInput, Epilogue, Linear};
pub(crate) use load::KernelBuilder;
use rotary::Rotary;

/// Tokens of the rows that go through the layers together: enough to use each weight many times once it is in
/// the cache, few enough for their states to stay there too.
const GROUP_TOKENS: usize = 192;

/// An encoder: token ids in, one vector a row out. Threads may share one.
#[derive(Debug)]
pub struct KernelEncoder {
    config: EncoderConfig,
    isa: Isa,
    /// Bits of the inputs where weights have 8, in [`KernelEncoder::forward_rows`].
    bits: InputBits,
    /// Narrow products in attention, as for layers in bf16 or in 8 bits: in bf16 where the processor has AMX or AVX-512
    /// BF16 and the text is not short.
    narrow: bool,
    /// `[vocab_size, hidden]`.
    words: Matrix,
    /// For each token type that rows have, `[position_limit, hidden]` with the type's embedding included; one row for
    /// all positions where these are rotary.
    positions: Vec<Vec<f32>>,
    embedding_norm: Norm,
    layers: Vec<Layer>,
    final_norm: Option<Norm>,
    relative: Option<RelativeBias>,
    /// Rotary positions of global and of local layers.
    rotary: Option<[Rotary; 2]>,
    head: Head,
}

/// One transformer layer: attention and feed-forward, each with a residual and a LayerNorm, after it or, in a family
/// that is [`crate::config::Family::is_pre_norm`], before it.
#[derive(Debug)]
struct Layer {
    /// Queries (scaled for the softmax), keys and values side by side: `hidden` to `3 * hidden`.
    qkv: Linear,
    attention_output: Linear,
    attention_norm: Option<Norm>,
    /// `hidden` to `intermediate`, or to the two parts of a gated one side by side.
    intermediate: Linear,
    output: Linear,
    output_norm: Norm,
}

/// Weights of a LayerNorm, `[hidden]` each.
#[derive(Debug)]
struct Norm {
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// Buffers of one forward; reused from group to group.
#[derive(Default)]
struct Scratch {
    /// `[tokens, hidden]`: the states.
    states: Vec<f32>,
    /// `[tokens, hidden]`: the normalised states, where a layer takes these.
    normed: Vec<f32>,
    /// `[tokens, 3 * hidden]`, and later `[tokens, intermediate]`.
    wide: Vec<f32>,
    /// `[tokens, hidden]`: the output of attention.
    context: Vec<f32>,
    converted: ConvertedInput,
    attention: AttentionScratch,
}

impl KernelEncoder {
    /// Encodes rows of token ids and returns their vectors, row-major `[rows, dim]`, pooled, projected and normalised
    /// as the config says.
    ///
    /// Rows have from 1 to [`EncoderConfig::position_limit`] ids, all below the vocabulary's size: the caller
    /// checks. Rows of like length next to each other go through the layers best.
    pub fn forward(&self, rows: &[Vec<u32>]) -> Vec<f32> {
        self.forward_rows(&Row::of_ids(rows))
    }

    /// Encodes as [`KernelEncoder::forward`] does, with the token types of the rows, which are below the number that
    /// the encoder was loaded for.
    pub(crate) fn forward_rows(&self, rows: &[Row<'_>]) -> Vec<f32> {
        self.check(rows);
        let mut vectors = Vec::with_capacity(rows.len() * self.config.dim());
        let read = self.config.pooling.reads();
        self.for_groups(rows, read, self.bits, |group, Scratch { states, converted, .. }| {
            let pooled = match read {
                LastStates::All => self.head.pool(group, states),
                LastStates::First => states.clone(),
            };
            self.head.apply(self.isa, group.len(), pooled, converted, &mut vectors);
        });
        vectors
    }

    /// Returns the last hidden states that are `read`, those of one row after those of another, of rows as
    /// [`KernelEncoder::forward_rows`] takes them. The first states alone are to the bit those among all, except that a
    /// browser module multiplies weights in 8 bits by narrower inputs for them: they put passages in order.
    pub(crate) fn states_of_rows(&self, rows: &[Row<'_>], read: LastStates) -> Vec<f32> {
        self.check(rows);
        let count: usize = rows.iter().map(|row| read.count(row)).sum();
        let mut all = Vec::with_capacity(count * self.config.hidden_size);
        let bits = if read == LastStates::First { InputBits::RANKING } else { InputBits::MOST };
        self.for_groups(rows, read, bits, |_, scratch| all.extend_from_slice(&scratch.states));
        all
    }

    /// Asserts, where debug assertions are on, what callers promise of rows.
    fn check(&self, rows: &[Row<'_>]) {
        debug_assert!(rows.iter().all(|row| (1..=self.config.position_limit()).contains(&row.len())));
        debug_assert!(rows.iter().flat_map(|row| row.ids).all(|id| (*id as usize) < self.config.vocab_size));
        debug_assert!(
            rows.iter().flat_map(|row| row.types).all(|kind| usize::from(*kind) < self.positions.len())
        );
    }

    /// Takes rows through the layers in groups, and gives `each` a group and the last states that are `read`. Weights
    /// in 8 bits are multiplied by inputs of so many `bits`.
    fn for_groups(
        &self,
        rows: &[Row<'_>],
        read: LastStates,
        bits: InputBits,
        mut each: impl FnMut(&[Row<'_>], &mut Scratch),
    ) {
        let mut scratch = Scratch { converted: ConvertedInput::of(bits), ..Scratch::default() };
        let mut rest = rows;
        while !rest.is_empty() {
            let mut tokens = 0;
            let fit = rest.iter().take_while(|row| {
                tokens += row.len();
                tokens <= GROUP_TOKENS
            });
            let (group, after) = rest.split_at(fit.count().max(1));
            self.layers(group, read, &mut scratch, &mut unseen);
            each(group, &mut scratch);
            rest = after;
        }
    }

    /// Leaves the last states that are `read` of `rows` in `scratch`: `[tokens, hidden]`, or `[rows, hidden]`. Gives
    /// `see` the inputs of every layer's linear layers.
    fn layers(
        &self,
        rows: &[Row<'_>],
        read: LastStates,
        scratch: &mut Scratch,
        see: &mut impl FnMut(usize, LinearInput, &[f32]),
    ) {
        let hidden = self.config.hidden_size;
        self.embed(rows, &mut scratch.states);
        self.norm(&self.embedding_norm, &mut scratch.states);
        let tokens = scratch.states.len() / hidden;
        scratch.context.resize(tokens * hidden, 0.0);
        scratch.wide.resize(tokens * widened(&self.config).max(3 * hidden), 0.0);
        for (index, layer) in self.layers.iter().enumerate() {
            let is_last = index + 1 == self.layers.len();
            let read = if is_last { read } else { LastStates::All };
            self.layer(index, layer, rows, read, scratch, &mut |input, states| see(index, input, states));
        }
        if let Some(norm) = &self.final_norm {
            self.norm(norm, &mut scratch.states);
        }
    }

    /// Takes the states through one layer, after whose attention only those that are `read` go on.
    fn layer(
        &self,
        index: usize,
        layer: &Layer,
        rows: &[Row<'_>],
        read: LastStates,
        scratch: &mut Scratch,
        see: &mut impl FnMut(LinearInput, &[f32]),
    ) {
        let (isa, before) = (self.isa, self.config.family.is_pre_norm());
        let Scratch { states, normed, wide, context, converted, attention, .. } = scratch;
        let hidden = self.config.hidden_size;
        let mut tokens = states.len() / hidden;
        let input = match &layer.attention_norm {
            Some(norm) if before => self.normed(norm, states, normed),
            _ => &states[..],
        };
        see(LinearInput::Attention, input);
        layer.qkv.apply(isa, input, tokens, Epilogue::Store, converted, wide);
        self.attend(index, rows, read, wide, attention, context);
        if read == LastStates::First {
            let mut start = 0;
            for (at, row) in rows.iter().enumerate() {
                states.copy_within(start * hidden..(start + 1) * hidden, at * hidden);
                start += row.len();
            }
            tokens = rows.len();
            states.truncate(tokens * hidden);
        }
        let attended = &context[..tokens * hidden];
        see(LinearInput::AttentionOutput, attended);
        layer.attention_output.apply(isa, attended, tokens, Epilogue::Add, converted, states);
        if let (Some(norm), false) = (&layer.attention_norm, before) {
            self.norm(norm, states);
        }
        let input = if before { self.normed(&layer.output_norm, states, normed) } else { &states[..] };
        see(LinearInput::FeedForward, input);
        let wide = &mut wide[..tokens * widened(&self.config)];
        let kind = self.config.family.feed_forward();
        if kind == FeedForward::Gelu {
            layer.intermediate.apply(isa, input, tokens, Epilogue::Gelu, converted, wide);
        } else {
            layer.intermediate.apply(isa, input, tokens, Epilogue::Store, converted, wide);
            gate::gate(isa, kind, self.config.intermediate_size, wide);
        }
        let narrow = &wide[..tokens * self.config.intermediate_size];
        see(LinearInput::FeedForwardOutput, narrow);
        layer.output.apply(isa, narrow, tokens, Epilogue::Add, converted, states);
        if !before {
            self.norm(&layer.output_norm, states);
        }
    }

    /// Returns a normalised copy of `states`, in `normed`.
    fn normed<'a>(&self, norm: &Norm, states: &[f32], normed: &'a mut Vec<f32>) -> &'a [f32] {
        normed.clear();
        normed.extend_from_slice(states);
        self.norm(norm, normed);
        normed
    }

    /// Replaces `states` by the sum of each token's embeddings, `[tokens, hidden]`.
    fn embed(&self, rows: &[Row<'_>], states: &mut Vec<f32>) {
        let hidden = self.config.hidden_size;
        states.clear();
        let tokens = rows.iter().flat_map(|row| {
            let types = row.types.iter().copied().chain(std::iter::repeat(0));
            row.ids.iter().zip(types).enumerate()
        });
        for (place, (id, kind)) in tokens {
            let (id, positions) = (*id as usize, &self.positions[usize::from(kind)]);
            let position = &positions[place * hidden % positions.len()..][..hidden];
            match &self.words {
                Matrix::F32(words) => {
                    let word = &words[id * hidden..][..hidden];
                    states.extend(word.iter().zip(position).map(|(word, position)| word + position));
                }
                Matrix::Q8 { values, scales } => {
                    let (word, scale) = (&values[id * hidden..][..hidden], scales[id]);
                    states.extend(word.iter().zip(position).map(|(word, p)| f32::from(*word) * scale + p));
                }
            }
        }
    }

    fn norm(&self, norm: &Norm, states: &mut [f32]) {
        let eps = self.config.layer_norm_eps as f32;
        vectorised!(self.isa, |norm: &Norm, eps: f32, states: &mut [f32]| {
            for row in states.chunks_exact_mut(norm.weight.len()) {
                math::layer_norm::<S>(row, &norm.weight, &norm.bias, eps);
            }
        });
    }

    /// Computes each row's attention in layer `index`, from queries, keys and values `[tokens, 3 * hidden]` into
    /// `context`, `[tokens, hidden]` or, where the first token's is `read`, `[rows, hidden]`.
    fn attend(
        &self,
        index: usize,
        rows: &[Row<'_>],
        read: LastStates,
        qkv: &mut [f32],
        scratch: &mut AttentionScratch,
        context: &mut [f32],
    ) {
        let hidden = self.config.hidden_size;
        let rotary = self.config.rotary.as_ref();
        let local = rotary.is_some_and(|rotary| rotary.local_layers[index]);
        let window = rotary.filter(|_| local).map(|rotary| rotary.window);
        let (mut start, mut to) = (0, 0);
        for row in rows {
            let (tokens, queries) = (row.len(), read.count(row));
            let end = start + tokens;
            let qkv = &mut qkv[start * 3 * hidden..end * 3 * hidden];
            if let Some([global, of_window]) = &self.rotary {
                let rotary = if local { of_window } else { global };
                rotary.apply(self.isa, hidden, qkv);
            }
            let attention = Attention {
                qkv,
                tokens,
                queries,
                heads: self.config.num_attention_heads,
                width: self.config.head_dim(),
                relative: self.relative.as_ref(),
                window,
                scratch,
                out: &mut context[to * hidden..(to + queries) * hidden],
            };
            attention.apply(self.isa, self.narrow);
            (start, to) = (end, to + queries);
        }
    }
}

/// Looks at no layer's inputs. A closure would be another type in each of its callers, and layers compiled for each.
fn unseen(_layer: usize, _place: LinearInput, _inputs: &[f32]) {}
