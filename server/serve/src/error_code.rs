//! The stable names of errors, by which programs decide, and their HTTP statuses.

use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

/// The stable name of a kind of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 400: the search has no body.
    EmptyBody,
    /// 400: the body is not JSON, or not a search request.
    InvalidJson,
    /// 400: the address has a query string, where all is said in the body.
    UnexpectedQuery,
    /// 403: a question was sent as text.
    TextSearchDisabled,
    /// 403: a question was sent to be answered, and the server has no reader.
    AnswersDisabled,
    /// 403: a question was sent as a vector, or as text, where only private questions are answered.
    PlainSearchDisabled,
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
    /// 404: the server hands out no smaller question encoder.
    NoSmallModel,
    /// 404: the server offers no private search.
    NoPrivateSearch,
    /// 404: the server offers no encrypted search.
    NoEncryptedSearch,
    /// 404: nothing is at this path.
    NotFound,
    /// 405: the path does not take this method.
    MethodNotAllowed,
    /// 409: the vector is of another model than the index.
    WrongModel,
    /// 409: the question was projected by other directions than the server's.
    WrongProjection,
    /// 409: the encrypted question is for other tables than those that are served.
    WrongVersion,
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
    /// 422: an encrypted question of another head or length.
    InvalidCiphertext,
    /// 422: `k` is outside its range.
    InvalidK,
    /// 422: a level of private search that is not offered.
    InvalidLevel,
    /// 422: a filter of another form, too long, or that no passage passes.
    InvalidFilter,
    /// 422: a passage to add that is blank, given twice, or without a vector where the server cannot encode.
    InvalidPassage,
    /// 422: a search that could not end in time on all threads.
    TooCostly,
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
    /// 503: the index has changed since the private tables were built.
    OutdatedTables,
    /// 503: the request took too long.
    Timeout,
    /// 503: searches are answered, but something is broken; the message says what.
    Unhealthy,
}

impl ErrorCode {
    /// The HTTP status the code travels with.
    pub fn status(self) -> StatusCode {
        match self {
            Self::EmptyBody | Self::InvalidJson | Self::UnexpectedQuery => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::TextSearchDisabled
            | Self::AnswersDisabled
            | Self::PlainSearchDisabled
            | Self::UpdatesDisabled
            | Self::MissingScope => StatusCode::FORBIDDEN,
            Self::NotFound
            | Self::UnknownPassage
            | Self::NoModel
            | Self::NoSmallModel
            | Self::NoPrivateSearch
            | Self::NoEncryptedSearch => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::WrongModel | Self::WrongProjection | Self::WrongVersion => StatusCode::CONFLICT,
            Self::BodyTooLarge | Self::UpdateTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnknownHost => StatusCode::MISDIRECTED_REQUEST,
            Self::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::InvalidVector
            | Self::TooCostly
            | Self::InvalidQuestion
            | Self::InvalidCiphertext
            | Self::InvalidK
            | Self::InvalidLevel
            | Self::InvalidFilter
            | Self::InvalidPassage
            | Self::AnswerTooLarge => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Overloaded | Self::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::NotReady | Self::OutdatedTables | Self::Timeout | Self::Unhealthy => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }
}
