//! Advice to the client of a refused or failed request.
//!
//! An answer over HTTP is an edge, as the command line is: the advice in it is for clients, who can do nothing with
//! flags, and for the operator of the server, whom it tells the flag of `dpr serve`.

use super::body_kind::BodyKind;
use super::error::ApiError;
use super::text::MAX_CHARACTERS;

impl ApiError {
    /// Returns advice for the caller.
    pub fn fix(&self) -> String {
        match self {
            Self::EmptyBody(kind) | Self::InvalidJson(kind, _) => kind.form().into(),
            Self::UnexpectedQuery => "send the address without `?` and what follows, and all else in the body".into(),
            Self::UnknownField(_) => {
                "the fields are `vector` (or `vectors` for a batch), `k`, `filter` and `model`".into()
            }
            Self::MissingField("model") => "send the `fingerprint` that GET /v1/model tells".into(),
            Self::MissingField(_) => "send `vector`, or `vectors` for a batch".into(),
            Self::UnsupportedMediaType(_) => "send the header `content-type: application/json`".into(),
            Self::InvalidVector(role, _) => role.fix().into(),
            Self::InvalidBatch { max, .. } => format!("send 1 to {max} vectors in a body"),
            Self::InvalidQuestion(_) => {
                format!(
                    "send a `question` of at least one word and at most {MAX_CHARACTERS} characters, or a shorter one"
                )
            }
            Self::UnsupportedMethod(_) => {
                concat!(
                    r#"send a `method` that the index was built for: "bm25" and "tfidf" need words, "#,
                    r#""dense" vectors, "hybrid" both"#
                )
                .into()
            }
            Self::InvalidLambda { max, .. } => format!("send a number from 0 to {max}, or leave `lambda` out"),
            Self::InvalidK { max, .. } | Self::InvalidDepth { max, .. } => format!("send a whole number from 1 to {max}"),
            Self::InvalidFilter(_) => {
                r#"send {"titles": ["..."], "ids": ["..."], "metadata": {"field": "...", "eq": ...}} with names and values as searches show them, or leave it out"#.into()
            }
            Self::TooCostly { .. } => {
                "send fewer vectors at once; if one is too many, the operator has to give searches more time or threads, \
                 or an index with a graph"
                    .into()
            }
            Self::TooManyHits { .. } => "send fewer vectors, or a smaller `k`".into(),
            Self::WrongModel { .. } => {
                "read GET /v1/model, load that question encoder and encode the question again".into()
            }
            Self::WrongUpdateModel { .. } => {
                "send the `model` of GET /v1/index, with vectors of its passage encoder or, where the server encodes \
                 passages, without any; nothing was changed"
                    .into()
            }
            Self::BodyTooLarge { kind, .. } => kind.smaller().into(),
            Self::Overloaded { .. }
            | Self::BodiesFull { .. }
            | Self::AnswersFull { .. }
            | Self::ConnectionsFull
            | Self::IndexFull(_)
            | Self::RateLimited { .. } => "wait for the seconds in `retry-after` and try again".into(),
            Self::NotReady(_) => "try again when GET /readyz answers 200".into(),
            Self::Timeout { kind, .. } => kind.quicker().into(),
            Self::NotFound(_) => "GET /openapi.json lists the paths".into(),
            Self::MethodNotAllowed { .. } => "GET /openapi.json lists the methods of each path".into(),
            Self::TextSearchDisabled => {
                "encode the question with the model of GET /v1/model (dpr-web does) and send its vector"
                    .into()
            }
            Self::PlainSearchDisabled => {
                "ask by a mode that GET /v1/private or GET /v1/encrypted offers (`privacy` of dpr-web)".into()
            }
            Self::UpdatesDisabled => {
                "change the index where it is kept, or ask the operator of the server to allow updates".into()
            }
            Self::ForeignUpdate(_) => {
                "send it to localhost, through no proxy and from no page, or start the server with DPR_UPDATE_TOKEN and send that".into()
            }
            Self::Unauthorized { .. } => {
                "send the header `authorization: Bearer KEY` or `x-api-key: KEY`, with a key that the operator gave out".into()
            }
            Self::MissingScope(scope) => {
                format!("send a key of the scope `{scope}`, or ask the operator to add it to this one")
            }
            Self::UnknownHost(_) => {
                "call the server by a name that it knows, or ask its operator to allow this one".into()
            }
            Self::UpdateTooLarge { .. } => "send several updates; nothing was changed".into(),
            Self::AnswerTooLarge { kind, .. } => kind.fewer().into(),
            Self::NoEncryptedSearch => {
                "use another server, or ask the operator of this one to offer encrypted search".into()
            }
            Self::OutdatedTables => {
                "search another way meanwhile, until the index has been compacted and its private tables built anew"
                    .into()
            }
            Self::WrongVersion { .. } => {
                "read GET /v1/encrypted again, with its files, and encrypt the question anew: never send one twice".into()
            }
            Self::InvalidCiphertext(_) => BodyKind::Encrypted.form().into(),
            Self::NoSmallModel => {
                "load the encoder of GET /v1/model, or ask the operator of the server for `dpr serve --small`".into()
            }
            Self::NoModel => {
                "make vectors with the model that GET /v1/index names, or ask the operator of the server for \
                 `dpr serve --model`"
                    .into()
            }
            Self::AnswersDisabled => {
                "ask POST /v1/search/text for passages, or the operator of the server to load a reader".into()
            }
            Self::NoPrivateSearch => {
                "use another server, or ask the operator of this one to offer blurred search".into()
            }
            Self::InvalidLevel { .. } => "send a level that GET /v1/private lists".into(),
            Self::WrongProjection { .. } => {
                "read GET /v1/private, load that projection and blur the question again".into()
            }
            Self::Unhealthy(_) => "send requests to another server; this one's log tells the cause".into(),
            Self::InvalidPassage(_) => {
                "send passages with an id (no control characters) and a text each, every id once, \
                 and vectors where the server encodes none; nothing was changed"
                    .into()
            }
            Self::PassageTooLong { field: "text", .. } | Self::PassageNotPacked { .. } => {
                "split the text into several passages; nothing was changed".into()
            }
            Self::PassageTooLong { field, .. } => format!("shorten the {field}; nothing was changed"),
            Self::InvalidIds(_) => "send the ids of passages, at least one and each once; nothing was deleted".into(),
            Self::UnknownPassage(_) => "leave those ids out and send the others again".into(),
            Self::UpdatesBroken => {
                "send the update again once GET /readyz answers 200: after a restart of the server or, where its \
                 write-ahead log failed, after a compaction; the server's log tells the cause"
                    .into()
            }
            Self::Internal(_) => "try again; the server's log tells the cause".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Returns the fields of a body of this kind, as they are sent.
    fn fields(kind: BodyKind) -> Vec<String> {
        let schema = match kind {
            BodyKind::Search => "SearchRequest",
            BodyKind::TextSearch => "TextSearchRequest",
            BodyKind::Answer => "AnswerRequest",
            BodyKind::Blurred => "CandidatesRequest",
            BodyKind::Put => "PutRequest",
            BodyKind::Delete => "DeleteRequest",
            BodyKind::Encrypted => return Vec::new(),
        };
        let document: Value = serde_json::from_str(&crate::openapi_document()).unwrap();
        let fields = document["components"]["schemas"][schema]["properties"].as_object().unwrap();
        fields.keys().cloned().collect()
    }

    #[test]
    fn advice_on_time_and_bytes_names_only_fields_of_the_body_that_was_sent() {
        for kind in [
            BodyKind::Search,
            BodyKind::TextSearch,
            BodyKind::Answer,
            BodyKind::Blurred,
            BodyKind::Encrypted,
            BodyKind::Put,
            BodyKind::Delete,
        ] {
            let fields = fields(kind);
            for error in [
                ApiError::Timeout { kind, ms: 400 },
                ApiError::AnswerTooLarge { kind, k: 5, limit: 300 },
                ApiError::BodyTooLarge { kind, limit: 300 },
            ] {
                let fix = error.fix();
                for named in fix.split('`').skip(1).step_by(2) {
                    assert!(fields.iter().any(|field| field == named), "{kind:?}, {error}: {fix}");
                }
                let says_k = error.to_string().contains("k = 5");
                assert!(!says_k || fields.contains(&"k".to_owned()), "{kind:?}: {error}");
            }
        }
    }
}
