//! The kinds of body that routes take, as errors name and describe them.

/// A kind of body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyKind {
    /// The body of `POST /v1/search`: a vector or several.
    Search,
    /// The body of `POST /v1/search/text`: a question as text.
    TextSearch,
    /// The body of `POST /v1/answer`: a question as text, to be answered.
    Answer,
    /// The body of `POST /v1/private/candidates`: the coordinates of a blurred question.
    Blurred,
    /// The body of `POST /v1/encrypted/rank` and `POST /v1/encrypted/fetch`: ciphertexts.
    Encrypted,
    /// The body of `POST /v1/passages`: passages to add or replace.
    Put,
    /// The body of `DELETE /v1/passages`: ids.
    Delete,
}

impl BodyKind {
    /// Returns the name, as "the body is not ..." goes on.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Search => "a search request",
            Self::TextSearch => "a search by text",
            Self::Answer => "a question to be answered",
            Self::Blurred => "a blurred question",
            Self::Encrypted => "an encrypted question",
            Self::Put => "an update",
            Self::Delete => "a deletion",
        }
    }

    /// Returns the advice to send a body of this kind.
    pub(super) fn form(self) -> &'static str {
        match self {
            Self::Search => {
                r#"send {"vector": [numbers] or base64, "k": 10, "model": "fingerprint from GET /v1/model"}"#
            }
            Self::TextSearch => {
                r#"send {"question": "text", "method": "hybrid", "bm25", "tfidf" or "dense", "k": 10}"#
            }
            Self::Answer => {
                r#"send {"question": "text", "method": "hybrid", "bm25", "tfidf" or "dense", "depth": 20, "top": 3}"#
            }
            Self::Blurred => {
                concat!(
                    r#"send {"y": base64, "level": "medium", "projection": "SHA-256 from GET /v1/private", "#,
                    r#""model": "fingerprint from GET /v1/model"}"#
                )
            }
            Self::Encrypted => {
                "send what the parameters of GET /v1/encrypted give: docs/formats.md has the messages"
            }
            Self::Put => {
                concat!(
                    r#"send {"model": "fingerprint", "passages": [{"id": "...", "title": "...", "text": "...", "#,
                    r#""vector": [numbers] or base64}]}"#
                )
            }
            Self::Delete => r#"send {"ids": ["..."]}"#,
        }
    }

    /// Returns what did not end in time, which "within 10000 ms" follows.
    pub(super) fn unfinished(self) -> &'static str {
        match self {
            Self::Answer => "the search and the reading did not end",
            Self::Search | Self::TextSearch | Self::Blurred | Self::Encrypted => "the search did not end",
            Self::Put | Self::Delete => "the body did not arrive",
        }
    }

    /// Returns the advice to send what takes less time.
    pub(super) fn quicker(self) -> &'static str {
        match self {
            Self::Search => "try again later, or with a smaller `k` or fewer `vectors`",
            Self::TextSearch => "try again later, or with a smaller `k`",
            Self::Answer => "try again later, or with a smaller `depth`",
            Self::Blurred => {
                "try again later, or with a `level` of fewer candidates: GET /v1/private lists them"
            }
            Self::Encrypted => "encrypt the question anew and try again later: never send one twice",
            Self::Put => "send it again, with fewer `passages` in a body; nothing was changed",
            Self::Delete => "send it again, with fewer `ids` in a body; nothing was deleted",
        }
    }

    /// Returns what a body of this kind asks for, where that is `k` passages, which "come to more than 100 bytes" follows.
    pub(super) fn asked(self, k: usize) -> String {
        match self {
            Self::Search | Self::TextSearch => format!("the passages for k = {k}"),
            Self::Answer => format!("the passages for depth = {k}"),
            Self::Blurred => format!("the {k} candidates of the level"),
            Self::Encrypted | Self::Put | Self::Delete => format!("{k} passages"),
        }
    }

    /// Returns the advice to ask for fewer passages at once.
    pub(super) fn fewer(self) -> &'static str {
        match self {
            Self::Search => "send a smaller `k`, or fewer `vectors`",
            Self::TextSearch => "send a smaller `k`",
            Self::Answer => "send a smaller `depth`, or a smaller `top`",
            Self::Blurred => "send a `level` of fewer candidates: GET /v1/private lists them",
            Self::Encrypted | Self::Put | Self::Delete => self.smaller(),
        }
    }

    /// Returns the advice to send a smaller body.
    pub(super) fn smaller(self) -> &'static str {
        match self {
            Self::Search => "send fewer vectors in a body, or vectors as base64",
            Self::TextSearch | Self::Answer => "send a shorter question, or a shorter filter",
            Self::Blurred | Self::Encrypted => self.form(),
            Self::Put => {
                "send fewer passages in a body, in several updates, or their vectors as base64; nothing was changed"
            }
            Self::Delete => "send fewer ids in a body, in several requests; nothing was deleted",
        }
    }
}
