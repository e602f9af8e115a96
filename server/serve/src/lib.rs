//! The HTTP interface: searches by vector, hands out the question encoder, serves the search page.
//!
//! [`app`] is a plain [`axum::Router`]; [`server::run`] puts it on a socket. Handlers check what a client sent, call
//! a [`Backend`](dpr_index::search::Backend) on a bounded set of threads ([`gate`]) and turn errors into statuses
//! ([`ApiError`]); nothing below this module knows HTTP. Question text has no way in unless the operator opens one
//! ([`Serving::text`]), the index cannot be changed unless they do ([`Serving::updates`]), and bodies, vectors and
//! query strings are never logged.
//!
//! ```
//! use axum::body::{Body, to_bytes};
//! use axum::http::{Request, StatusCode};
//! use dpr_data::Passage;
//! use dpr_encode::model::{ImportOptions, ModelDir, import};
//! use dpr_files::progress::Silent;
//! use dpr_index::vectors::VectorSet;
//! use dpr_index::{IndexOptions, IndexReader, build_index};
//! use dpr_serve::{AppState, Options, ServedModel, app};
//! use serde_json::{Value, json};
//! use tower::ServiceExt as _;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let temporary = tempfile::tempdir()?;
//! # let dir = temporary.path();
//! # let encoder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/dpr-tiny/question");
//! // The model tells pages how to encode a question, and its fingerprint which vectors are its own.
//! import(&encoder, None, &dir.join("model"), &ImportOptions::default())?;
//! let model = ServedModel::open(&ModelDir::open(&dir.join("model"))?)?;
//! let fingerprint = model.fingerprint().to_owned();
//!
//! // Three passages, each with a vector of 32 numbers that points along an axis of its own.
//! let passage = |n: usize| Passage::new(format!("p{n}"), "", format!("Passage {n}."));
//! let passages: Vec<Passage> = (0..3).map(passage).collect();
//! let rows: Vec<f32> = (0..3 * 32).map(|i| if i % 32 == i / 32 { 1.0 } else { 0.0 }).collect();
//! let vectors = VectorSet::new(&fingerprint, 32, passages, rows);
//! build_index(&vectors, &dir.join("index"), &IndexOptions::default(), &Silent)?;
//! let reader = IndexReader::open(&dir.join("index"))?;
//!
//! // Until an index is published, searches are told that the server is not ready.
//! let state = AppState::new(Options::default());
//! let app = app(state.clone());
//! state.publish(reader.live().clone(), model);
//!
//! let mut vector = vec![0.0; 32];
//! vector[2] = 1.5;
//! let body = json!({ "vector": vector, "k": 1, "model": fingerprint }).to_string();
//! let request = Request::post("/v1/search").header("content-type", "application/json").body(Body::from(body))?;
//! let response = app.oneshot(request).await?;
//! assert_eq!(response.status(), StatusCode::OK);
//! let answer: Value = serde_json::from_slice(&to_bytes(response.into_body(), 1 << 20).await?)?;
//! assert_eq!((&answer["hits"][0]["id"], &answer["hits"][0]["score"]), (&json!("p2"), &json!(1.5)));
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate, SizeAbove};

use self::refusals::Refused;

mod access;
mod activity;
mod answer;
mod assets;
mod audit;
mod authorize;
mod body;
mod body_kind;
mod bounded;
mod connection;
mod counters;
mod crowded;
mod document;
mod encrypted;
mod error;
mod error_answer;
mod error_code;
mod failure;
mod file;
mod fix;
mod forwarded;
pub mod gate;
mod headers;
mod health;
mod host_names;
mod hosts;
mod index;
mod limits;
mod metadata;
mod metrics;
mod model;
mod nested;
mod open;
mod openapi;
mod origins;
mod passages;
mod patient;
mod places;
mod private;
mod range;
mod rate;
mod reading;
mod recall;
mod refusals;
mod reload;
mod request;
mod request_id;
mod room;
mod scope;
mod search;
mod served_blur;
mod served_model;
mod served_reader;
mod served_tables;
pub mod server;
mod service;
mod state;
#[cfg(test)]
mod tests;
mod text;
mod tls;
mod trace;
mod trace_parent;
mod updates;
mod vector;
mod vector_role;
mod watched;

pub use access::{
    Access, AccessError, KeySources, KeysError, NewKey, RandomError, Rate, is_name as is_key_name,
};
pub use answer::{HitList, SearchHit, SearchResponse};
pub use body_kind::BodyKind;
pub use error::ApiError;
pub use error_answer::{ErrorBody, ErrorDetail};
pub use error_code::ErrorCode;
pub use file::ServedFile;
pub use health::HealthBody;
pub use host_names::{HostError, Hosts};
pub use index::IndexBody;
pub use limits::Limits;
pub use open::ClosedConnections;
pub use openapi::document as openapi_document;
pub use origins::{OriginError, Origins};
pub use passages::{DeleteRequest, DeleteResponse, NewPassageBody, PutRequest, PutResponse};
pub use private::{
    BlurredBody, CandidateBody, CandidatesRequest, CandidatesResponse, LevelBody, PrivateBody,
};
pub use reading::{AnswerRequest, AnswerResponse, FoundAnswer};
pub use request::{FilterBody, SearchRequest};
pub use scope::{Scope, ScopeError};
pub use served_blur::ServedBlur;
pub use served_model::{
    ChunksBody, EncoderBody, EncoderFiles, FileBody, ModelBody, PairBody, PairFiles, PairWeightsBody,
    ServedModel,
};
pub use served_reader::ServedReader;
pub use served_tables::ServedTables;
pub use service::TextSearch;
pub use state::{AppState, Options, Serving};
pub use text::TextSearchRequest;
pub use tls::{Tls, TlsError};
pub use trace::{SetParent, TARGET as TRACE_TARGET};
pub use trace_parent::TraceParent;
pub use updates::Updates;
pub use vector_role::VectorRole;

/// All routes. Pages of other origins, where they are let in, may search but not change the index: what it is changed
/// by is not behind the layer that answers their preflights.
pub fn app(state: AppState) -> Router {
    let mut pages = guarded(for_pages(&state), &state);
    if !state.options().metrics_apart {
        pages = pages
            .merge(guarded(counters_route(&state), &state))
            .merge(with_common_layers(health_routes(), &state));
    }
    let pages = match state.origins().layer() {
        Some(cors) => pages.layer(cors),
        None => pages,
    };
    let passages = post(passages::put).delete(passages::delete);
    let passages = Router::new().route("/v1/passages", open_to(Scope::Write, passages, &state));
    let passages = passages.method_not_allowed_fallback(error::method_not_allowed);
    observed(pages.merge(guarded(passages, &state)), state)
}

/// `/metrics`, `/healthz` and `/readyz` alone, for a socket that only the operator reaches
/// ([`Options::metrics_apart`]).
pub fn metrics_app(state: AppState) -> Router {
    let counters = counters_route(&state)
        .layer(from_fn_with_state(state.clone(), authorize::admit))
        .layer(from_fn_with_state(Arc::new(state.metrics_hosts().clone()), hosts::check));
    let routes = with_common_layers(health_routes().merge(counters), &state);
    observed(routes, state)
}

/// `/healthz` and `/readyz` alone, for connections above the limit ([`server::Connections::health`]).
pub fn health_app(state: AppState) -> Router {
    let routes = health_routes().fallback(busy);
    observed(with_common_layers(routes, &state), state)
}

/// Routes whose requests have a span, and an id in their log lines and answers.
fn observed(routes: Router<AppState>, state: AppState) -> Router {
    let routes = routes.layer(from_fn(request_id::assign));
    routes.layer(from_fn_with_state(state.options().trace_parent, trace::follow)).with_state(state)
}

/// Answers what comes over a connection above the limit.
async fn busy(State(state): State<AppState>) -> ApiError {
    state.metrics().refusals().refused(Refused::Connections);
    ApiError::ConnectionsFull
}

/// The routes that pages use.
fn for_pages(state: &AppState) -> Router<AppState> {
    let search = ending(BodyKind::Search, post(search::search), state);
    let text = ending(BodyKind::TextSearch, post(text::search_text), state);
    let answer = ending(BodyKind::Answer, post(reading::answer), state);
    let candidates = ending(BodyKind::Blurred, post(private::candidates_of), state);
    let rank = ending(BodyKind::Encrypted, post(encrypted::rank), state);
    let fetch = ending(BodyKind::Encrypted, post(encrypted::fetch), state);
    let description = get(openapi::openapi_json);
    let description = description.route_layer(from_fn_with_state(state.clone(), authorize::require_any));
    Router::new()
        .route("/v1/private", open_to(Scope::Search, get(private::private), state))
        .route("/v1/private/files/{sha256}/{name}", open_to(Scope::Search, get(private::projection), state))
        .route("/v1/private/candidates", open_to(Scope::Search, candidates, state))
        .route("/v1/encrypted", open_to(Scope::Search, get(encrypted::manifest), state))
        .route("/v1/encrypted/files/{sha256}/{name}", open_to(Scope::Search, get(encrypted::file), state))
        .route("/v1/encrypted/delta/{version}", open_to(Scope::Search, get(encrypted::delta), state))
        .route("/v1/encrypted/rank", open_to(Scope::Search, rank, state))
        .route("/v1/encrypted/fetch", open_to(Scope::Search, fetch, state))
        .route("/v1/search", open_to(Scope::Search, search, state))
        .route("/v1/search/text", open_to(Scope::Search, text, state))
        .route("/v1/answer", open_to(Scope::Search, answer, state))
        .route("/v1/model", open_to(Scope::Search, get(model::model), state))
        .route("/v1/model/small", open_to(Scope::Search, get(model::small), state))
        .route("/v1/model/files/{sha256}/{name}", open_to(Scope::Search, get(model::file), state))
        .route("/v1/index", open_to(Scope::Search, get(index::index), state))
        .route("/openapi.json", description)
        .fallback(assets::page)
        .method_not_allowed_fallback(error::method_not_allowed)
}

fn health_routes() -> Router<AppState> {
    let routes = Router::new().route("/healthz", get(health::healthz)).route("/readyz", get(health::readyz));
    routes.method_not_allowed_fallback(error::method_not_allowed)
}

fn counters_route(state: &AppState) -> Router<AppState> {
    let routes = Router::new().route("/metrics", open_to(Scope::Admin, get(metrics::metrics), state));
    routes.method_not_allowed_fallback(error::method_not_allowed)
}

/// A route for requests whose key has this scope, where keys are needed.
fn open_to(scope: Scope, route: MethodRouter<AppState>, state: &AppState) -> MethodRouter<AppState> {
    route.route_layer(from_fn_with_state((state.clone(), scope), authorize::require))
}

/// Returns a route for searches with a body of this kind, which are answered 503 when their time is up.
fn ending(kind: BodyKind, route: MethodRouter<AppState>, state: &AppState) -> MethodRouter<AppState> {
    route.layer(from_fn_with_state((state.clone(), kind), search::deadline))
}

/// Routes that answer to this server's hosts, and to clients that do not send too often.
fn guarded(routes: Router<AppState>, state: &AppState) -> Router<AppState> {
    let routes = routes
        .layer(from_fn_with_state(state.clone(), authorize::admit))
        .layer(from_fn_with_state(Arc::new(state.hosts().clone()), hosts::check));
    with_common_layers(routes, state)
}

fn with_common_layers(routes: Router<AppState>, state: &AppState) -> Router<AppState> {
    routes
        .layer(from_fn_with_state(state.clone(), crowded::refuse))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(state.clone(), metrics::track))
        .layer(from_fn_with_state(state.clone(), headers::common))
        .layer(CompressionLayer::new().gzip(true).compress_when(Text.and(SizeAbove::new(1024))))
}

/// Responses that are compressed as they are sent: text and WebAssembly, but no part of a file, no weights, and
/// nothing that would take a thread of the sockets for long. Answers of searches are compressed by the threads that
/// search.
#[derive(Debug, Clone, Copy)]
struct Text;

impl Predicate for Text {
    fn should_compress<B: HttpBody>(&self, response: &Response<B>) -> bool {
        let media_type = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
        let media_type = media_type.unwrap_or_default();
        let compressible: [&[u8]; 6] = [
            b"application/json",
            b"application/openmetrics-text",
            b"application/wasm",
            b"image/svg+xml",
            b"text/",
            b"application/javascript",
        ];
        // A strong tag stands for exact bytes; files that carry one bring their own compressed form.
        let exact =
            response.headers().get(header::ETAG).is_some_and(|tag| !tag.as_bytes().starts_with(b"W/"));
        let declared = || response.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok();
        let bytes = response.body().size_hint().exact().or_else(declared);
        let is_small = bytes.is_some_and(|bytes| bytes <= LARGEST_COMPRESSED);
        is_small && !exact && compressible.iter().any(|prefix| media_type.starts_with(prefix))
    }
}

/// Bytes of the largest response that is compressed as it is sent.
const LARGEST_COMPRESSED: u64 = 256 << 10;

fn panicked(_: Box<dyn std::any::Any + Send>) -> axum::response::Response {
    tracing::error!("a request handler panicked");
    ApiError::Internal("an unexpected failure").into_response()
}
