//! # Passage search inside your own axum application
//!
//! `dpr serve` is a server of its own. An application that has a server already takes the same routes as a plain
//! [`axum::Router`] and puts its own pages, its own middleware and its own socket around them. This example does that,
//! asks the application a question without any socket, and ends:
//!
//! ```sh
//! cargo run --release -p dpr-examples --example serve_from_your_axum
//! cargo run --release -p dpr-examples --example serve_from_your_axum -- --listen 127.0.0.1:7878
//! ```
//!
//! With `--listen` it serves until Ctrl-C.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use dpr_core::{DeviceChoice, Embedding, Pooling, TextEncoder};
use dpr_data::Passage;
use dpr_encode::model::{ImportOptions, ModelDir, import};
use dpr_encode::{PipelineOptions, encode_passages};
use dpr_files::progress::Silent;
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, IndexReader, build_index};
use dpr_serve::server::{self, Connections};
use dpr_serve::{AppState, Limits, Options, ServedModel};
use serde_json::{Value, json};
use tower::ServiceExt as _;

const PASSAGES: [(&str, &str); 3] = [
    ("Cats", "Cats sleep most of the day and hunt at night."),
    ("Dogs", "Dogs bark at strangers and greet their friends."),
    ("Whales", "A whale comes up to the surface of the sea to breathe."),
];

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let dir = directory.path();

    // # A model and an index
    //
    // The server hands out the question encoder, so that pages encode questions themselves, and searches the index
    // with the vectors that come back. Both must be of one model. Here it is a tiny one of random weights; the example
    // `search_your_passages` tells this part slowly.
    let encoder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/dpr-tiny/question");
    let options = ImportOptions { pooling: Some(Pooling::Mean), ..ImportOptions::default() };
    import(&encoder, None, &dir.join("model"), &options)?;
    let model = ModelDir::open(&dir.join("model"))?;
    let encoder = model.question_encoder(DeviceChoice::Cpu)?;
    build_index(&encoded(&model, &encoder)?, &dir.join("index"), &IndexOptions::default(), &Silent)?;

    // # The search routes
    //
    // `AppState` is what all handlers share; a clone is another handle to it. The routes answer from the start: until
    // an index is published, `/readyz` and searches say 503. A large index can thus be read while the server is up.
    let limits = Limits { max_k: 100, timeout: Duration::from_secs(2), ..Limits::default() };
    let state = AppState::new(Options { limits, ..Options::default() });
    let application = application(state.clone());
    assert_eq!(ask(&application, get_request("/find/readyz")?).await?.0, StatusCode::SERVICE_UNAVAILABLE);

    // The reader watches its directory. Another process may change the index with an `IndexWriter`, or put a new
    // version in its place, and the application serves it from then on.
    let reader = IndexReader::open(&dir.join("index"))?.watch(Duration::from_secs(1))?;
    state.publish(reader.live().clone(), ServedModel::open(&model)?);
    assert_eq!(ask(&application, get_request("/find/readyz")?).await?.0, StatusCode::OK);

    // # Asking
    //
    // A request carries the question's vector and the fingerprint of the model that made it, never the question. A page
    // does this with the package `dpr-web`; any other client needs an encoder, as here.
    let question = encoder.encode_question("What do cats do most of the day?")?;
    let search = json!({
        "vector": question.to_base64_f32(),
        "model": model.manifest().space(),
        "k": 2,
    });
    let request = |key: &str| {
        Request::post("/find/v1/search")
            .header(header::CONTENT_TYPE, "application/json")
            .header("x-api-key", key)
            .body(Body::from(search.to_string()))
    };
    // The application's own middleware turns strangers away before the search begins.
    assert_eq!(ask(&application, request("a guess")?).await?.0, StatusCode::UNAUTHORIZED);
    let (status, answer) = ask(&application, request(API_KEY)?).await?;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let hits = answer["hits"].as_array().ok_or("an answer without hits")?;
    for hit in hits {
        println!("{:8.3}  {}: {}", hit["score"].as_f64().unwrap_or(f64::NAN), hit["title"], hit["text"]);
    }
    assert_eq!(hits.len(), 2);
    // A page that connects to `https://your.site/find` is told where the model's files are, under the same path.
    let (_, described) = ask(&application, get_request("/find/v1/model")?).await?;
    let tokenizer = described["encoder"]["tokenizer"]["url"].as_str().ok_or("a model without a tokenizer")?;
    assert!(tokenizer.starts_with("/find/v1/model/files/"), "{tokenizer}");
    assert_eq!(ask(&application, get_request(tokenizer)?).await?.0, StatusCode::OK);
    // The application's own pages answer beside it.
    assert_eq!(ask(&application, get_request("/about")?).await?.0, StatusCode::OK);

    // # Serving
    //
    // `axum::serve` takes the application as it takes any other. `dpr_serve::server::run` does too, and also bounds the
    // connections, closes idle ones, and lets the requests in flight finish at the end.
    if let Some(address) = option("--listen") {
        let listener = server::bind(&address).await?;
        println!("listening on http://{}", listener.local_addr()?);
        server::run(listener, application, server::shutdown_signal(), Connections::default()).await;
    }
    Ok(())
}

/// The application: a page of its own, the routes of `dpr-serve`, and a middleware around both.
///
/// The search routes begin with `/v1/`, beside `/healthz`, `/readyz`, `/metrics` and `/openapi.json`. They may be
/// merged, or nested under a prefix as here: the description of the model then names its files under that prefix.
fn application(state: AppState) -> Router {
    Router::new()
        .route("/about", get(|| async { "An application with a search of its own." }))
        .nest("/find", dpr_serve::app(state))
        .layer(from_fn(with_key))
}

const API_KEY: &str = "only for this example";

/// Lets in searches that carry the key, and every other request.
async fn with_key(request: Request, next: Next) -> Response {
    let key = request.headers().get("x-api-key").and_then(|value| value.to_str().ok());
    if request.uri().path().starts_with("/find/v1/search") && key != Some(API_KEY) {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    next.run(request).await
}

/// The passages and their vectors, `[3, dim]`.
fn encoded(model: &ModelDir, encoder: &TextEncoder) -> Result<VectorSet, Box<dyn Error>> {
    let passage = |(title, text): (&str, &str)| Passage::new(title.to_lowercase(), title, text);
    let passages: Vec<Passage> = PASSAGES.map(passage).into();
    let options = PipelineOptions::for_device(encoder.device_name(), None, None);
    let vectors = encode_passages(encoder, &passages, options, &Silent)?;
    let rows: Vec<f32> = vectors.into_iter().flat_map(Embedding::into_vec).collect();
    Ok(VectorSet::new(model.manifest().space(), encoder.dim(), passages, rows))
}

fn get_request(path: &str) -> Result<Request, axum::http::Error> {
    Request::get(path).body(Body::empty())
}

/// Sends a request to the application without a socket; returns the status, and the body if it is JSON.
async fn ask(application: &Router, request: Request) -> Result<(StatusCode, Value), Box<dyn Error>> {
    let response = application.clone().oneshot(request).await?;
    let status = response.status();
    let body = to_bytes(response.into_body(), 1 << 20).await?;
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}

/// The argument after `name`, if there is one.
fn option(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}
