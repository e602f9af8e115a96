//! Fuzz targets: the parsers of `dpr` that read a file or a request, as functions of bytes.
//!
//! Encrypted search has targets for its formats: the manifest, the messages and the delta. The files of private tables,
//! and the checks of a message's content, have tests in `dpr-private`.
//!
//! A target returns whatever the bytes are; a panic, an overflow, a hang or memory without bound is a bug. Each goes
//! through the public function that reads the file or the body, with checksums put right, so that the parser behind
//! them is reached.
//!
//! `cargo xtask fuzz` searches for inputs, guided by the code that they reach; `tests/seeds.rs` runs the kept ones.

mod access;
mod data;
mod directories;
mod encrypted;
mod http;
mod index;
mod made;
mod model;
mod private;
mod site;

/// A parser, as a function of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of the folder of its seeds.
    pub name: &'static str,
    /// Parses the bytes.
    pub run: fn(&[u8]),
    /// Returns inputs that are right, to begin with, by names.
    pub valid: fn() -> Vec<(String, Vec<u8>)>,
}

/// All targets.
pub const TARGETS: [Target; 41] = [
    Target { name: "pointer", run: index::pointer, valid: index::valid_pointer },
    Target { name: "manifest", run: index::manifest, valid: index::valid_manifest },
    Target { name: "graph", run: index::graph, valid: index::valid_graph },
    Target { name: "codes", run: index::codes, valid: index::valid_codes },
    Target { name: "codes-f16", run: index::f16_codes, valid: index::valid_f16_codes },
    Target { name: "codes-b1", run: index::sign_codes, valid: index::valid_sign_codes },
    Target { name: "graph-signs", run: index::graph_signs, valid: index::valid_graph_signs },
    Target { name: "columns", run: index::columns, valid: index::valid_columns },
    Target { name: "vectors", run: index::vectors, valid: index::valid_vectors },
    Target { name: "vectors-crc", run: index::vectors_crc, valid: index::valid_vectors_crc },
    Target { name: "passages", run: index::passages, valid: index::valid_passages },
    Target { name: "places", run: index::places, valid: index::valid_places },
    Target { name: "wal", run: index::wal, valid: index::valid_wal },
    Target { name: "wal-frame", run: index::wal_frame, valid: index::valid_wal_frame },
    Target { name: "vectors-manifest", run: directories::vectors, valid: directories::valid_vectors },
    Target { name: "model-manifest", run: directories::model, valid: directories::valid_model },
    Target { name: "web-manifest", run: directories::web, valid: directories::valid_web },
    Target { name: "safetensors", run: model::safetensors, valid: model::valid_safetensors },
    Target { name: "torch", run: model::torch, valid: model::valid_torch },
    Target { name: "tokenizer", run: model::tokenizer, valid: model::valid_tokenizer },
    Target { name: "config", run: model::config, valid: model::valid_config },
    Target { name: "tsv", run: data::tsv, valid: data::valid_tsv },
    Target { name: "json-lines", run: data::json_lines, valid: data::valid_json_lines },
    Target { name: "json-array", run: data::json_array, valid: data::valid_json_array },
    Target { name: "gzip", run: data::gzip, valid: data::valid_gzip },
    Target { name: "documents", run: data::documents, valid: data::valid_documents },
    Target { name: "projection", run: private::projection, valid: private::valid_projection },
    Target { name: "blur", run: private::blur, valid: private::valid_blur },
    Target { name: "search", run: http::search, valid: http::valid_search },
    Target { name: "question", run: http::question, valid: http::valid_question },
    Target { name: "filter", run: http::filter, valid: http::valid_filter },
    Target { name: "updates", run: http::updates, valid: http::valid_updates },
    Target { name: "keys", run: access::keys, valid: access::valid_keys },
    Target { name: "private-manifest", run: encrypted::manifest, valid: encrypted::valid_manifest },
    Target { name: "private-message", run: encrypted::message, valid: encrypted::valid_message },
    Target { name: "private-delta", run: encrypted::delta, valid: encrypted::valid_delta },
    Target { name: "site-manifest", run: site::manifest, valid: site::valid_manifest },
    Target { name: "site-codes", run: site::codes, valid: site::valid_codes },
    Target { name: "site-texts", run: site::texts, valid: site::valid_texts },
    Target { name: "site-centroids", run: site::centroids, valid: site::valid_centroids },
    Target { name: "site-bucket", run: site::bucket, valid: site::valid_bucket },
];

/// Returns the target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}

/// Returns an input by its name, and its bytes.
fn named(name: &str, bytes: impl AsRef<[u8]>) -> (String, Vec<u8>) {
    (name.to_owned(), bytes.as_ref().to_vec())
}
