//! Word, position and token type embeddings.

use burn::module::Module;
use burn::nn::Embedding;
use burn::tensor::{Int, Tensor};

use super::Norm;
use super::layer_ops as ops;

/// The sum of a token's embeddings, normalised.
#[derive(Module, Debug)]
pub struct Embeddings {
    /// `[vocab_size, hidden]`.
    pub word: Embedding,
    /// `[max_position_embeddings, hidden]`; none where positions are rotary.
    pub position: Option<Embedding>,
    /// `[type_vocab_size, hidden]`, in some families.
    pub token_type: Option<Embedding>,
    /// Over the hidden dimension.
    pub norm: Norm,
}

impl Embeddings {
    /// Returns the states `[batch, tokens, hidden]` of ids `[batch, tokens]`; the first token takes position row
    /// `position_offset`. Without `types`, `[batch, tokens]`, every token is of type 0, as in the released bi-encoders.
    pub fn forward(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        position_offset: usize,
    ) -> Tensor<3> {
        let table = |embedding: &Embedding| embedding.weight.val();
        self.norm.forward(ops::embed(
            ids,
            types,
            table(&self.word),
            self.position.as_ref().map(table),
            self.token_type.as_ref().map(table),
            position_offset,
        ))
    }
}
