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
    /// `[max_position_embeddings, hidden]`; none where positions are rotary.
    pub position: Option<Embedding>,
    /// `[type_vocab_size, hidden]`, in some families.
    pub token_type: Option<Embedding>,
    /// Over the hidden dimension.
    pub norm: Norm,
}

impl Embeddings {
    /// Returns the states `[batch, tokens, hidden]` of ids `[batch, tokens]`; the first token takes position row
    /// `position_offset`, and every token is of type 0 as in the released bi-encoders.
    pub fn forward(&self, ids: Tensor<2, Int>, position_offset: usize) -> Tensor<3> {
        let [_, tokens] = ids.dims();
        let positions = self
            .position
            .as_ref()
            .map(|position| position.weight.val().slice(position_offset..position_offset + tokens));
        let kind = self.token_type.as_ref().map(|kind| kind.weight.val().slice(0..1));
        let rest = match (positions, kind) {
            (Some(positions), Some(kind)) => Some(positions + kind),
            (positions, kind) => positions.or(kind),
        };
        let words = self.word.forward(ids);
        self.norm.forward(match rest {
            Some(rest) => words + rest.unsqueeze::<3>(),
            None => words,
        })
    }
}
