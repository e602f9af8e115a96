//! Word, position and token type embeddings.

use burn::module::Module;
use burn::nn::Embedding;
use burn::tensor::{Int, Tensor};

use super::Norm;

/// The sum of a token's embeddings, normalised.
#[derive(Module, Debug)]
pub struct Embeddings {
    /// `[vocab_size, hidden]`.
    pub word: Embedding,
    /// `[max_position_embeddings, hidden]`.
    pub position: Embedding,
    /// `[type_vocab_size, hidden]`; MPNet has none.
    pub token_type: Option<Embedding>,
    /// Over the hidden dimension.
    pub norm: Norm,
}

impl Embeddings {
    /// Returns the states `[batch, tokens, hidden]` of ids `[batch, tokens]`; the first token takes position row
    /// `position_offset`, and every token is of type 0 as in the released bi-encoders.
    pub fn forward(&self, ids: Tensor<2, Int>, position_offset: usize) -> Tensor<3> {
        let [_, tokens] = ids.dims();
        let positions = self.position.weight.val().slice(position_offset..position_offset + tokens);
        let mut rest = positions;
        if let Some(token_type) = &self.token_type {
            rest = rest + token_type.weight.val().slice(0..1);
        }
        self.norm.forward(self.word.forward(ids) + rest.unsqueeze::<3>())
    }
}
