//! Refusals: each knows its status, its stable code, what was wrong and what to do about it.

use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dpr_core::model::short;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::Scope;

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ApiError {
    /// A search without a body.
    #[error("the request has no body")]
    EmptyBody,
    /// A body that is not JSON, or not of the documented shape.
    #[error("the body is not a search request: {0}")]
    InvalidJson(String),
    /// A field the search request does not have.
    #[error("the search request has no field `{0}`")]
    UnknownField(String),
    /// A required field is absent.
    #[error("the search request lacks the field `{0}`")]
    MissingField(&'static str),
    /// A body of another media type.
    #[error("the body's content type is {0}, not application/json")]
    UnsupportedMediaType(String),
    /// A vector that cannot be searched; the text says which and why.
    #[error("{0}")]
    InvalidVector(String),
    /// A question sent as text that cannot be searched for.
    #[error("{0}")]
    InvalidQuestion(String),
    /// `k` outside its range.
    #[error("`k` is {got}, outside 1 to {max}")]
    InvalidK {
        /// As the body had it.
        got: String,
        /// The server's limit.
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
    /// A body over the limit.
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge {
        /// The server's limit, in bytes.
        limit: usize,
    },
    /// Too many bodies at once.
    #[error("the server is busy: requests hold the {limit} bytes that it has for bodies")]
    BodiesFull {
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
    /// The request's time ran out, in the queue or in the search.
    #[error("the search did not end within {0} ms")]
    Timeout(u128),
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
    /// A change to an index that this server only searches.
    #[error("this server does not let its index be changed")]
    UpdatesDisabled,
    /// A change through a name or from a page that is not this machine's, on a server without a token; the text says
    /// which.
    #[error("this server has no token, so it takes updates from programs of its own machine only: {0}")]
    ForeignUpdate(String),
    /// A request without a key, or with one that the server does not know, where one is needed.
    #[error("{}", unauthorized(.has_sent))]
    Unauthorized {
        /// Whether a key was sent.
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
    /// All connections are in use; this one answers health checks alone.
    #[error("the server is busy: all of its connections are in use")]
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
    #[error("the passages for k = {k} come to more than the {limit} bytes that one answer holds")]
    AnswerTooLarge {
        /// Passages asked for, for each vector.
        k: usize,
        /// The server's limit, in bytes.
        limit: usize,
    },
    /// A server without a model for pages.
    #[error("this server hands out no question encoder: its vectors are made elsewhere")]
    NoModel,
    /// A server that answers, but should not be asked; the text says why.
    #[error("the server is not in order: {0}")]
    Unhealthy(String),
    /// A body that is not JSON, or not of the documented shape of an update.
    #[error("the body is not an update: {0}")]
    InvalidUpdate(String),
    /// A passage that cannot be added; the text says which and why.
    #[error("{0}")]
    InvalidPassage(String),
    /// Passages to delete that are not there.
    #[error("{0}")]
    UnknownPassage(String),
    /// A failure on the server's side; its cause is in the server's log.
    #[error("the server could not answer: {0}")]
    Internal(&'static str),
}

/// The stable name of a kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 400: the search has no body.
    EmptyBody,
    /// 400: the body is not JSON, or not a search request.
    InvalidJson,
    /// 403: a question was sent as text.
    TextSearchDisabled,
    /// 401: no key was sent where one is needed, or none that the server knows.
    Unauthorized,
    /// 403: the key that was sent opens other routes.
    MissingScope,
    /// 403: the server's index cannot be changed.
    UpdatesDisabled,
    /// 404: a passage to delete is not there.
    UnknownPassage,
    /// 404: the server hands out no question encoder.
    NoModel,
    /// 404: nothing is at this path.
    NotFound,
    /// 405: the path does not take this method.
    MethodNotAllowed,
    /// 409: the vector is of another model than the index.
    WrongModel,
    /// 413: the body is over the limit.
    BodyTooLarge,
    /// 413: an update of more passages or ids than the server takes at once.
    UpdateTooLarge,
    /// 415: the body is not declared as JSON.
    UnsupportedMediaType,
    /// 421: the request is for another host.
    UnknownHost,
    /// 422: wrong length, a number that is not finite, or all zero.
    InvalidVector,
    /// 422: a question (where text is let in) that is blank or too long, or a method that the index was not built for.
    InvalidQuestion,
    /// 422: `k` is outside its range.
    InvalidK,
    /// 422: a filter of another form, too long, or that no passage passes.
    InvalidFilter,
    /// 422: a passage to add that is blank, given twice, or without a vector where the server cannot encode.
    InvalidPassage,
    /// 422: the passages asked for come to more bytes than one answer holds.
    AnswerTooLarge,
    /// 429: all threads are busy and the queue is full, or all connections are in use.
    Overloaded,
    /// 429: this client sends more requests than it may.
    RateLimited,
    /// 500: the server failed.
    Internal,
    /// 503: the index is still being read.
    NotReady,
    /// 503: the request took too long.
    Timeout,
    /// 503: searches are answered, but something is broken; the message says what.
    Unhealthy,
}

impl ErrorCode {
    /// The HTTP status the code travels with.
    pub fn status(self) -> StatusCode {
        match self {
            Self::EmptyBody | Self::InvalidJson => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::TextSearchDisabled | Self::UpdatesDisabled | Self::MissingScope => StatusCode::FORBIDDEN,
            Self::NotFound | Self::UnknownPassage | Self::NoModel => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::WrongModel => StatusCode::CONFLICT,
            Self::BodyTooLarge | Self::UpdateTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnknownHost => StatusCode::MISDIRECTED_REQUEST,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::InvalidVector
            | Self::InvalidQuestion
            | Self::InvalidK
            | Self::InvalidFilter
            | Self::InvalidPassage
            | Self::AnswerTooLarge => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Overloaded | Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotReady | Self::Timeout | Self::Unhealthy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl ApiError {
    /// The stable code.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::EmptyBody => ErrorCode::EmptyBody,
            Self::InvalidJson(_) | Self::UnknownField(_) | Self::MissingField(_) | Self::InvalidUpdate(_) => {
                ErrorCode::InvalidJson
            }
            Self::UnsupportedMediaType(_) => ErrorCode::UnsupportedMediaType,
            Self::InvalidVector(_) | Self::TooCostly { .. } => ErrorCode::InvalidVector,
            Self::InvalidQuestion(_) => ErrorCode::InvalidQuestion,
            Self::InvalidK { .. } | Self::TooManyHits { .. } => ErrorCode::InvalidK,
            Self::InvalidFilter(_) => ErrorCode::InvalidFilter,
            Self::WrongModel { .. } => ErrorCode::WrongModel,
            Self::BodyTooLarge { .. } => ErrorCode::BodyTooLarge,
            Self::Overloaded { .. }
            | Self::BodiesFull { .. }
            | Self::ConnectionsFull
            | Self::IndexFull(_) => ErrorCode::Overloaded,
            Self::RateLimited { .. } => ErrorCode::RateLimited,
            Self::UpdateTooLarge { .. } => ErrorCode::UpdateTooLarge,
            Self::AnswerTooLarge { .. } => ErrorCode::AnswerTooLarge,
            Self::UnknownHost(_) => ErrorCode::UnknownHost,
            Self::NoModel => ErrorCode::NoModel,
            Self::Unhealthy(_) => ErrorCode::Unhealthy,
            Self::NotReady(_) => ErrorCode::NotReady,
            Self::Timeout(_) => ErrorCode::Timeout,
            Self::NotFound(_) => ErrorCode::NotFound,
            Self::MethodNotAllowed { .. } => ErrorCode::MethodNotAllowed,
            Self::TextSearchDisabled => ErrorCode::TextSearchDisabled,
            Self::UpdatesDisabled | Self::ForeignUpdate(_) => ErrorCode::UpdatesDisabled,
            Self::Unauthorized { .. } => ErrorCode::Unauthorized,
            Self::MissingScope(_) => ErrorCode::MissingScope,
            Self::InvalidPassage(_) => ErrorCode::InvalidPassage,
            Self::UnknownPassage(_) => ErrorCode::UnknownPassage,
            Self::Internal(_) => ErrorCode::Internal,
        }
    }

    /// What the caller can do.
    pub fn fix(&self) -> String {
        match self {
            Self::EmptyBody | Self::InvalidJson(_) => {
                r#"send {"vector": [numbers] or base64, "k": 10, "model": "fingerprint from GET /v1/model"}"#
                    .into()
            }
            Self::UnknownField(_) => {
                "the fields are `vector` (or `vectors` for a batch), `k`, `filter` and `model`".into()
            }
            Self::MissingField("model") => "send the `fingerprint` that GET /v1/model tells".into(),
            Self::MissingField(_) => "send `vector`, or `vectors` for a batch".into(),
            Self::UnsupportedMediaType(_) => "send the header `content-type: application/json`".into(),
            Self::InvalidVector(_) => {
                "send the question encoder's output as it is: finite numbers, not all zero, as many as \
                 `dim` of GET /v1/model"
                    .into()
            }
            Self::InvalidQuestion(_) => {
                r#"send {"question": "text", "method": "hybrid", "bm25", "tfidf" or "dense", "k": 10}"#.into()
            }
            Self::InvalidK { max, .. } => format!("send a whole number from 1 to {max}"),
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
            Self::BodyTooLarge { .. } => "send fewer vectors in a body, or vectors as base64".into(),
            Self::Overloaded { .. }
            | Self::BodiesFull { .. }
            | Self::ConnectionsFull
            | Self::IndexFull(_)
            | Self::RateLimited { .. } => "wait for the seconds in `retry-after` and try again".into(),
            Self::NotReady(_) => "try again when GET /readyz answers 200".into(),
            Self::Timeout(_) => "try again later, or with a smaller `k` or batch".into(),
            Self::NotFound(_) => "GET /openapi.json lists the paths".into(),
            Self::MethodNotAllowed { .. } => "GET /openapi.json lists the methods of each path".into(),
            Self::TextSearchDisabled => {
                "encode the question with the model of GET /v1/model (dpr-web does) and send its vector"
                    .into()
            }
            Self::UpdatesDisabled => {
                "change the index with `dpr index add` or `delete`, or start the server with --allow-updates".into()
            }
            Self::ForeignUpdate(_) => {
                "send it to localhost and from no page, or start the server with DPR_UPDATE_TOKEN and send that".into()
            }
            Self::Unauthorized { .. } => {
                "send the header `authorization: Bearer KEY` or `x-api-key: KEY`, with a key that the operator gave out".into()
            }
            Self::MissingScope(scope) => {
                format!("send a key of the scope `{scope}`, or ask the operator to add it to this one")
            }
            Self::UnknownHost(_) => {
                "call the server by a name that it knows, or start it with --allow-host and this one".into()
            }
            Self::UpdateTooLarge { .. } => "send several updates; nothing was changed".into(),
            Self::AnswerTooLarge { .. } => "send a smaller `k`, or fewer vectors".into(),
            Self::NoModel => "make vectors with the model that GET /v1/index names".into(),
            Self::Unhealthy(_) => "send requests to another server; this one's log tells the cause".into(),
            Self::InvalidUpdate(_) => {
                r#"POST {"model": "fingerprint", "passages": [{"id", "title", "text", "vector"}]}, or DELETE {"ids": []}"#
                    .into()
            }
            Self::InvalidPassage(_) => {
                "send passages with an id and a text each, every id once; nothing was changed".into()
            }
            Self::UnknownPassage(_) => "leave those ids out and send the others again".into(),
            Self::Internal(_) => "try again; the server's log tells the cause".into(),
        }
    }
}

/// The body of every response that is not a success.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// One error, for programs (`code`) and for people.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorDetail {
    /// Stable; programs decide by it.
    pub code: ErrorCode,
    /// What was wrong, with the value and the limit.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let code = self.code();
        let body = ErrorBody { error: ErrorDetail { code, message: self.to_string(), fix: self.fix() } };
        let mut response = (code.status(), Json(body)).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after() {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(challenge) = self.challenge() {
            headers.insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl ApiError {
    /// Returns the whole seconds after which the same request may succeed.
    fn retry_after(&self) -> Option<u64> {
        match (self, self.code()) {
            (Self::RateLimited { seconds }, _) => Some(*seconds),
            // Building a new version takes minutes, a search less than a second.
            (Self::IndexFull(_), _) => Some(60),
            (_, ErrorCode::Overloaded | ErrorCode::NotReady | ErrorCode::Timeout | ErrorCode::Unhealthy) => {
                Some(1)
            }
            _ => None,
        }
    }

    /// Returns what is said of the key that is needed (RFC 6750).
    fn challenge(&self) -> Option<HeaderValue> {
        match self {
            Self::Unauthorized { has_sent: false } => Some(HeaderValue::from_static("Bearer")),
            Self::Unauthorized { has_sent: true } => {
                Some(HeaderValue::from_static("Bearer error=\"invalid_token\""))
            }
            Self::MissingScope(scope) => {
                HeaderValue::from_str(&format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"")).ok()
            }
            _ => None,
        }
    }
}

/// What is said of a missing key.
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
