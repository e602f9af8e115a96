//! `GET /openapi.json`: the interface described, from the types that implement it.

use axum::Json;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::{Modify, OpenApi};

use super::error_answer::ErrorBody;
use super::{encrypted, health, index, metrics, model, passages, private, reading, search, text};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "dpr",
        description = "Dense passage retrieval. Questions are encoded where they are asked; this interface \
            takes their vectors and returns passages. Unless the operator let text in, there is no way to send it.",
        license(name = "MIT OR Apache-2.0"),
    ),
    paths(
        search::search,
        text::search_text,
        reading::answer,
        private::private,
        private::projection,
        private::candidates_of,
        encrypted::manifest,
        encrypted::file,
        encrypted::delta,
        encrypted::rank,
        encrypted::fetch,
        passages::put,
        passages::delete,
        index::index,
        model::model,
        model::small,
        model::file,
        health::healthz,
        health::readyz,
        metrics::metrics,
        openapi_json,
    ),
    modifiers(&KeyHeaders),
    tags(
        (name = "search", description = "Search, and what is searched"),
        (name = "passages", description = "Changes to the index, where the operator lets them in"),
        (name = "model", description = "The question encoder, for whoever encodes"),
        (name = "operation", description = "For whoever runs the server"),
    )
)]
struct Document;

/// The two headers in which a key may be sent.
struct KeyHeaders;

impl Modify for KeyHeaders {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let Some(components) = &mut document.components else { return };
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
            "A key of the scope that the route needs, where the operator set keys: `search` for searches, the model and the \
             index, `write` for changes, `admin` for counters; any of them opens this document",
        ));
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer.build()));
        let header = ApiKeyValue::with_description(
            "x-api-key",
            "The same key, for clients that cannot send the other header",
        );
        components.add_security_scheme("api_key", SecurityScheme::ApiKey(ApiKey::Header(header)));
    }
}

/// The document as it is committed: indented JSON with a final newline.
pub fn document() -> String {
    let mut text = Document::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

/// This document.
#[utoipa::path(get, path = "/openapi.json", tag = "operation",
    security((), ("bearer" = []), ("api_key" = [])), responses(
    (status = 200, description = "The interface in OpenAPI 3.1", body = Object),
    (status = 401, description = "`unauthorized`: without a key, where there are keys", body = ErrorBody),
))]
pub(super) async fn openapi_json() -> Json<utoipa::openapi::OpenApi> {
    Json(Document::openapi())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_committed_document_is_current() {
        let committed = include_str!("../../openapi.json");
        assert!(
            committed == super::document(),
            "server/openapi.json differs from the code; write it again with\n  \
             cargo run --release -p dpr -- serve --print-openapi > server/openapi.json"
        );
    }
}
