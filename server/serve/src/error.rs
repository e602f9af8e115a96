//! Refused and failed requests: each knows its code and what was wrong, and its [`fix`](ApiError::fix) what to do.

use axum::extract::Request;
use dpr_core::model::short;

use super::body_kind::BodyKind;
use super::error_code::ErrorCode;
use super::vector_role::VectorRole;
use crate::scope::Scope;

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApiError {
    /// A request without the body that its route takes.
    #[error("the request has no body")]
    EmptyBody(BodyKind),
    /// A body that is not JSON, or not of the documented shape; the text says why.
    #[error("the body is not {name}: {1}", name = .0.name())]
    InvalidJson(BodyKind, String),
    /// A query string, on a route that takes a body.
    #[error("this route takes no query string: what is in an address is kept in logs and histories")]
    UnexpectedQuery,
    /// A field the search request does not have.
    #[error("the search request has no field `{0}`")]
    UnknownField(String),
    /// A required field is absent.
    #[error("the search request lacks the field `{0}`")]
    MissingField(&'static str),
    /// A body of another media type.
    #[error("the body's content type is {0}, not application/json")]
    UnsupportedMediaType(String),
    /// A vector that cannot be searched by, or for; the text says which and why.
    #[error("{1}")]
    InvalidVector(VectorRole, String),
    /// No vectors in a batch, or more than it may hold.
    #[error("`vectors` holds {got} vectors; a batch holds 1 to {max}")]
    InvalidBatch {
        /// As many as the body had.
        got: usize,
        /// The server's limit.
        max: usize,
    },
    /// A question sent as text that cannot be searched for.
    #[error("{0}")]
    InvalidQuestion(String),
    /// A method that the index was not built for; the text says why.
    #[error("{0}")]
    UnsupportedMethod(String),
    /// A weight of the inner product outside its range.
    #[error("`lambda` is {got}, outside 0 to {max}")]
    InvalidLambda {
        /// As the body had it.
        got: f32,
        /// The limit.
        max: f32,
    },
    /// `k` outside its range.
    #[error("`k` is {got}, outside 1 to {max}")]
    InvalidK {
        /// As the body had it.
        got: String,
        /// The server's limit.
        max: usize,
    },
    /// A number of passages to read, or of answers, outside its range.
    #[error("`{name}` is {got}, outside 1 to {max}")]
    InvalidDepth {
        /// The field of the body.
        name: &'static str,
        /// As the body had it.
        got: String,
        /// The limit.
        max: usize,
    },
    /// A filter that makes no sense or allows no passage.
    #[error("{0}")]
    InvalidFilter(String),
    /// More passages asked for, over a whole batch, than one response holds.
    #[error("{vectors} vectors with k = {k} ask for {} passages; one response holds {max}", .vectors * .k)]
    TooManyHits {
        /// Vectors in the batch.
        vectors: usize,
        /// Passages for each.
        k: usize,
        /// The server's limit.
        max: usize,
    },
    /// A search that all search threads together could not end in time.
    #[error(
        "a search for {vectors} vectors among {rows} passages takes this server {seconds} s or more on all its threads, and \
         has {allowed_ms} ms"
    )]
    TooCostly {
        /// Vectors that are searched for.
        vectors: usize,
        /// Passages that are searched.
        rows: usize,
        /// Seconds that it takes at least.
        seconds: u64,
        /// The server's limit, in milliseconds.
        allowed_ms: u128,
    },
    /// A vector made by another model than the index's.
    #[error("the vector was made by model {}, this index by model {}", short(.got), short(.expected))]
    WrongModel {
        /// The fingerprint in the body.
        got: String,
        /// The index's.
        expected: String,
    },
    /// Passages, or their vectors, for an index of another model.
    #[error("the update is for an index of model {}, this index is of model {}", short(.got), short(.expected))]
    WrongUpdateModel {
        /// The fingerprint in the body.
        got: String,
        /// The index's.
        expected: String,
    },
    /// A body over the limit.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// The body that the route takes.
        kind: BodyKind,
        /// The server's limit, in bytes.
        limit: usize,
    },
    /// Too many bodies at once.
    #[error("the server is busy: requests hold the {limit} bytes that it has for bodies")]
    BodiesFull {
        /// The server's limit, in bytes, for all of them.
        limit: usize,
    },
    /// Too many answers that clients have not read yet.
    #[error(
        "the server is busy: answers that clients have not read yet hold the {limit} bytes that it has for them"
    )]
    AnswersFull {
        /// The server's limit, in bytes, for all of them.
        limit: usize,
    },
    /// All search threads are busy and the queue is full.
    #[error("the server is busy: {running} searches run and {waiting} wait")]
    Overloaded {
        /// Searches running.
        running: usize,
        /// Searches waiting.
        waiting: usize,
    },
    /// An index that takes no more passages before a new version of it is built.
    #[error("{0}")]
    IndexFull(String),
    /// The index is still being read, or the server is about to stop.
    #[error("the server is {0}")]
    NotReady(&'static str),
    /// The time of a request was up: of a search while its body arrived, it waited or it was searched; of an update
    /// while its body arrived.
    #[error("{what} within {ms} ms", what = .kind.unfinished())]
    Timeout {
        /// The body that the route takes.
        kind: BodyKind,
        /// The server's limit, in milliseconds.
        ms: u128,
    },
    /// Nothing at this path.
    #[error("there is nothing at {0}")]
    NotFound(String),
    /// The path exists, the method does not.
    #[error("{path} does not take {method}")]
    MethodNotAllowed {
        /// As sent.
        method: String,
        /// Without the query string.
        path: String,
    },
    /// A question sent as text.
    #[error("this server takes vectors, not text: a question is encoded where it is asked and is never sent")]
    TextSearchDisabled,
    /// A question's plain vector, on a server that answers private questions alone.
    #[error("this server takes no question's vector: it answers private questions alone")]
    PlainSearchDisabled,
    /// A change to an index that this server only searches.
    #[error("this server does not let its index be changed")]
    UpdatesDisabled,
    /// A change through a name or a proxy, or from a page or an address, that is not this machine's, on a server
    /// without a token; the text says which.
    #[error("this server has no token, so it takes updates from programs of its own machine only: {0}")]
    ForeignUpdate(String),
    /// A request without a key, or with one that the server does not know, where one is needed.
    #[error("{}", unauthorized(.has_sent))]
    Unauthorized {
        /// `true` if a key was sent.
        has_sent: bool,
    },
    /// A key that opens other routes.
    #[error("the key that was sent does not have the scope `{0}`")]
    MissingScope(Scope),
    /// A request for another host.
    #[error("this server does not answer to the host `{0}`")]
    UnknownHost(String),
    /// More requests from one client than it may send.
    #[error("this client has sent more requests than it may; it may send the next one in {seconds} s")]
    RateLimited {
        /// Whole seconds until then.
        seconds: u64,
    },
    /// All connections are in use, or all that one client may have: this one answers health checks alone, or takes no
    /// request beside those that it has.
    #[error("the server is busy: all connections that it has, or has for one client, are in use")]
    ConnectionsFull,
    /// More passages or ids in one update than it may hold.
    #[error("the update has {got} {what}; one update holds at most {max}")]
    UpdateTooLarge {
        /// `passages` or `ids`.
        what: &'static str,
        /// As many as the body had.
        got: usize,
        /// The server's limit.
        max: usize,
    },
    /// An answer of more bytes than the server sends at once.
    #[error("{what} come to more than the {limit} bytes that one answer holds", what = .kind.asked(*.k))]
    AnswerTooLarge {
        /// The body that the route takes.
        kind: BodyKind,
        /// Passages asked for, for each vector.
        k: usize,
        /// The server's limit, in bytes.
        limit: usize,
    },
    /// A server that offers no private search.
    #[error("this server offers no private search")]
    NoPrivateSearch,
    /// A level of private search that is not offered.
    #[error("the level {got:?} is not offered, only: {offered}")]
    InvalidLevel {
        /// As the body had it.
        got: String,
        /// The levels that are offered, joined.
        offered: String,
    },
    /// A question that was projected by other directions.
    #[error("the question was projected by {}, this server's projection is {}", short(.got), short(.expected))]
    WrongProjection {
        /// SHA-256 of the client's projection.
        got: String,
        /// SHA-256 of the server's.
        expected: String,
    },
    /// A server that offers no encrypted search.
    #[error("this server offers no encrypted search")]
    NoEncryptedSearch,
    /// Private tables of an index that has changed since by more than a delta tells.
    #[error("the index has changed too much since the private tables of this server were built")]
    OutdatedTables,
    /// An encrypted question for other tables.
    #[error("the message is for version {} of the private tables; version {} is served", short(.got), short(.expected))]
    WrongVersion {
        /// As sent.
        got: String,
        /// The one that is served.
        expected: String,
    },
    /// An encrypted question that is none; the text says why.
    #[error("{0}")]
    InvalidCiphertext(String),
    /// A server without a model for pages.
    #[error("this server hands out no question encoder: its vectors are made elsewhere")]
    NoModel,
    /// A server without a smaller model for pages.
    #[error("this server hands out no smaller question encoder")]
    NoSmallModel,
    /// A question to be answered, on a server without a reader.
    #[error("this server has no reader: it finds passages, and marks no answers in them")]
    AnswersDisabled,
    /// A server that answers, but should not be asked; the text says why.
    #[error("the server is not in order: {0}")]
    Unhealthy(String),
    /// A passage that cannot be added; the text says which and why.
    #[error("{0}")]
    InvalidPassage(String),
    /// A passage that the private tables of the index cannot hold.
    #[error("`passages[{position}]`: {reason}")]
    PassageNotPacked {
        /// Place of the passage in the body, from 0.
        position: usize,
        /// The passage, its bytes and the limit.
        reason: String,
    },
    /// A part of a passage that is longer than an index takes.
    #[error("`passages[{position}].{field}` has {bytes} bytes; an index takes at most {max}")]
    PassageTooLong {
        /// Place of the passage in the body, from 0.
        position: usize,
        /// `id`, `title` or `text`.
        field: &'static str,
        /// The bytes that it has.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// Ids to delete that are none, or one of which is there twice; the text says which.
    #[error("{0}")]
    InvalidIds(String),
    /// Passages to delete that are not there.
    #[error("{0}")]
    UnknownPassage(String),
    /// A change to an index whose write-ahead log failed, which a compaction or a restart ends, or whose lock is gone,
    /// which a restart ends; its cause is in the server's log.
    #[error(
        "the update could not be written, and none can be until the server is restarted or, where the write-ahead log \
         failed, the index is compacted"
    )]
    UpdatesBroken,
    /// A failure on the server's side; its cause is in the server's log.
    #[error("the server could not answer: {0}")]
    Internal(&'static str),
}

impl ApiError {
    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::EmptyBody(_) => ErrorCode::EmptyBody,
            Self::InvalidJson(..) | Self::UnknownField(_) | Self::MissingField(_) => ErrorCode::InvalidJson,
            Self::UnexpectedQuery => ErrorCode::UnexpectedQuery,
            Self::UnsupportedMediaType(_) => ErrorCode::UnsupportedMediaType,
            Self::InvalidVector(..) | Self::InvalidBatch { .. } => ErrorCode::InvalidVector,
            Self::TooCostly { .. } => ErrorCode::TooCostly,
            Self::InvalidQuestion(_) | Self::UnsupportedMethod(_) | Self::InvalidLambda { .. } => {
                ErrorCode::InvalidQuestion
            }
            Self::InvalidK { .. } | Self::InvalidDepth { .. } | Self::TooManyHits { .. } => {
                ErrorCode::InvalidK
            }
            Self::InvalidFilter(_) => ErrorCode::InvalidFilter,
            Self::WrongModel { .. } | Self::WrongUpdateModel { .. } => ErrorCode::WrongModel,
            Self::BodyTooLarge { .. } => ErrorCode::BodyTooLarge,
            Self::Overloaded { .. }
            | Self::BodiesFull { .. }
            | Self::AnswersFull { .. }
            | Self::ConnectionsFull
            | Self::IndexFull(_) => ErrorCode::Overloaded,
            Self::RateLimited { .. } => ErrorCode::RateLimited,
            Self::UpdateTooLarge { .. } => ErrorCode::UpdateTooLarge,
            Self::AnswerTooLarge { .. } => ErrorCode::AnswerTooLarge,
            Self::UnknownHost(_) => ErrorCode::UnknownHost,
            Self::NoModel => ErrorCode::NoModel,
            Self::NoSmallModel => ErrorCode::NoSmallModel,
            Self::AnswersDisabled => ErrorCode::AnswersDisabled,
            Self::NoPrivateSearch => ErrorCode::NoPrivateSearch,
            Self::InvalidLevel { .. } => ErrorCode::InvalidLevel,
            Self::WrongProjection { .. } => ErrorCode::WrongProjection,
            Self::NoEncryptedSearch => ErrorCode::NoEncryptedSearch,
            Self::OutdatedTables => ErrorCode::OutdatedTables,
            Self::WrongVersion { .. } => ErrorCode::WrongVersion,
            Self::InvalidCiphertext(_) => ErrorCode::InvalidCiphertext,
            Self::Unhealthy(_) => ErrorCode::Unhealthy,
            Self::NotReady(_) => ErrorCode::NotReady,
            Self::Timeout { .. } => ErrorCode::Timeout,
            Self::NotFound(_) => ErrorCode::NotFound,
            Self::MethodNotAllowed { .. } => ErrorCode::MethodNotAllowed,
            Self::TextSearchDisabled => ErrorCode::TextSearchDisabled,
            Self::PlainSearchDisabled => ErrorCode::PlainSearchDisabled,
            Self::UpdatesDisabled | Self::ForeignUpdate(_) => ErrorCode::UpdatesDisabled,
            Self::Unauthorized { .. } => ErrorCode::Unauthorized,
            Self::MissingScope(_) => ErrorCode::MissingScope,
            Self::InvalidPassage(_)
            | Self::PassageTooLong { .. }
            | Self::PassageNotPacked { .. }
            | Self::InvalidIds(_) => ErrorCode::InvalidPassage,
            Self::UnknownPassage(_) => ErrorCode::UnknownPassage,
            Self::UpdatesBroken | Self::Internal(_) => ErrorCode::Internal,
        }
    }
}

/// Returns the message about a missing key.
fn unauthorized(has_sent: &bool) -> &'static str {
    match has_sent {
        true => "the key that was sent is none of this server's",
        false => "this server wants a key for this request, and none was sent",
    }
}

/// The answer to a method that a known path does not take.
pub(super) async fn method_not_allowed(request: Request) -> ApiError {
    ApiError::MethodNotAllowed { method: request.method().to_string(), path: request.uri().path().to_owned() }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[test]
    fn a_wrong_model_is_told_with_both_fingerprints_shortened() {
        let error = ApiError::WrongModel { got: "ab".repeat(32), expected: "cd".repeat(32) };
        assert_eq!(
            error.to_string(),
            "the vector was made by model abababababab…, this index by model cdcdcdcdcdcd…"
        );
        assert_eq!(error.code().status(), StatusCode::CONFLICT);
    }

    #[test]
    fn a_fingerprint_that_is_not_ascii_is_cut_between_characters() {
        assert_eq!(short("ééééééééééééé"), "éééééééééééé…");
        assert_eq!(short(""), "");
    }
}
