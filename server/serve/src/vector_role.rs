//! What vectors of a body are used for.

/// The use of a vector, by which errors speak of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorRole {
    /// A question's vector.
    Question,
    /// The vector of a passage to add.
    Passage,
    /// The coordinates of a blurred question.
    Blurred,
}

impl VectorRole {
    /// Returns the advice on a vector that is none.
    pub(super) fn fix(self) -> &'static str {
        match self {
            Self::Question => {
                "send the question encoder's output as it is: finite numbers, not all zero, as many as \
                 `dim` of GET /v1/model"
            }
            Self::Passage => {
                "send the passage encoder's output as it is: finite numbers, not all zero, as many as \
                 `dim` of GET /v1/index; nothing was changed"
            }
            Self::Blurred => {
                "send base64 of as many numbers as `dims` of the level in GET /v1/private: finite, not all zero"
            }
        }
    }
}
