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
    /// `position_offset`. Without `types`, `[batch, tokens]`, every token is of type 0, as in the released bi-encoders.
    pub fn forward(
        &self,
        ids: Tensor<2, Int>,
        types: Option<Tensor<2, Int>>,
        position_offset: usize,
    ) -> Tensor<3> {
        let [_, tokens] = ids.dims();
        let positions = self
            .position
            .as_ref()
            .map(|position| position.weight.val().slice(position_offset..position_offset + tokens));
        let words = self.word.forward(ids);
        let (kind, words) = match (&self.token_type, types) {
            (Some(kind), Some(types)) => (None, words + kind.forward(types)),
            (kind, _) => (kind.as_ref().map(|kind| kind.weight.val().slice(0..1)), words),
        };
        let rest = match (positions, kind) {
            (Some(positions), Some(kind)) => Some(positions + kind),
            (positions, kind) => positions.or(kind),
        };
        self.norm.forward(match rest {
            Some(rest) => words + rest.unsqueeze::<3>(),
            None => words,
        })
    }
}
