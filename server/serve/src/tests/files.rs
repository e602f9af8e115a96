//! `GET /v1/model` and the files it names.

use std::io::Read;

use super::keys::KeyBox;
use super::*;
use crate::Scope;

/// The address of the weights, as the model's description tells it.
async fn weights(app: &Router) -> String {
    get(app, "/v1/model").await.json()["weights"]["q8"]["url"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_model_describes_files_that_are_really_there() {
    let (app, _dir) = ready(Options::default());
    let reply = get(&app, "/v1/model").await;
    let body = reply.json();
    assert_eq!((&body["fingerprint"], &body["dim"]), (&json!(fingerprint()), &json!(DIM)));
    assert_eq!((&body["similarity"], &body["family"]), (&json!("dot"), &json!("bert")));
    let encoder = &body["encoder"];
    for file in [&encoder["config"], &encoder["tokenizer"], &encoder["vocabulary"], &body["weights"]["q8"]] {
        let reply = get(&app, file["url"].as_str().unwrap()).await;
        assert_eq!(reply.body.len() as u64, file["bytes"].as_u64().unwrap());
        assert_eq!(sha256_hex(&reply.body), file["sha256"].as_str().unwrap());
    }
    let tag = reply.header("etag").to_owned();
    let again = get_with(&app, "/v1/model", &[("if-none-match", &tag)]).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));
}

#[tokio::test]
async fn a_model_without_exports_for_browsers_is_served_without_weights() {
    let directory = tempfile::tempdir().unwrap();
    let state = AppState::new(Options::default());
    state.publish(Arc::new(FakeSearch { before: Box::new(|| {}) }), model(directory.path(), false));
    let app = app(state);
    let body = get(&app, "/v1/model").await.json();
    assert!(body.get("weights").is_none() && body["encoder"]["config"]["bytes"].is_u64(), "{body}");
    assert_eq!(search(&app, &good()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_smaller_encoder_is_described_and_served_where_the_routes_are_mounted() {
    let [whole, small, bare] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let plain = model(whole.path(), true);
    let tag = plain.tag().clone();
    let state = AppState::new(Options::default());
    let served = plain.with_small(model_of(small.path(), Some(b"weights in 4 bits")));
    assert_ne!(served.tag(), &tag, "another document");
    state.publish(Arc::new(FakeSearch { before: Box::new(|| {}) }), served);
    let app = Router::new().nest("/a", app(state));
    let whole_body = get(&app, "/a/v1/model").await.json();
    assert_eq!(whole_body["small"], "/a/v1/model/small");
    let reply = get(&app, "/a/v1/model/small").await;
    let body = reply.json();
    assert_eq!(body["fingerprint"], whole_body["fingerprint"]);
    assert!(body.get("small").is_none(), "{body}");
    assert_ne!(body["weights"], whole_body["weights"]);
    for (file, content) in
        [(&body["weights"]["q8"], &b"weights in 4 bits"[..]), (&whole_body["weights"]["q8"], WEIGHTS)]
    {
        let reply = get(&app, file["url"].as_str().unwrap()).await;
        assert_eq!((reply.status, reply.body.as_slice()), (StatusCode::OK, content));
    }
    let tag = reply.header("etag").to_owned();
    let again = get_with(&app, "/a/v1/model/small", &[("if-none-match", &tag)]).await;
    assert_eq!((again.status.as_u16(), again.body.len()), (304, 0));

    let without = model(whole.path(), true).with_small(model(bare.path(), false));
    assert!(without.small().is_none(), "one without weights is not offered");
}

#[tokio::test]
async fn a_server_without_a_smaller_encoder_says_what_to_do() {
    let (app, _dir) = ready(Options::default());
    assert!(get(&app, "/v1/model").await.json().get("small").is_none());
    let reply = get(&app, "/v1/model/small").await;
    assert_eq!(reply.error(), (404, "no_small_model".into()));
    assert!(reply.json()["error"]["fix"].as_str().unwrap().contains("dpr serve --small"), "{}", reply.json());
}

#[tokio::test]
async fn a_reader_and_a_reranker_that_were_exported_are_described_and_served_where_the_routes_are_mounted() {
    use dpr_encode::model::{
        CrossEncoderDir, ModelDir, ReaderDir, WebOptions, WebPairs, export_web_with, import,
        import_cross_encoder, import_reader,
    };
    let directory = tempfile::tempdir().unwrap();
    let [at, reader, reranker] = ["model", "reader", "reranker"].map(|name| directory.path().join(name));
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    import(&fixtures.join("dpr-tiny/question"), None, &at, &Default::default()).unwrap();
    import_reader(&fixtures.join("readers/dpr"), &reader, &Default::default()).unwrap();
    import_cross_encoder(&fixtures.join("cross-encoders/bert"), &reranker, &Default::default()).unwrap();
    let (reader, reranker) = (ReaderDir::open(&reader).unwrap(), CrossEncoderDir::open(&reranker).unwrap());
    let pairs = WebPairs { reader: Some(&reader), reranker: Some(&reranker) };
    let directory = ModelDir::open(&at).unwrap();
    let web = export_web_with(&directory, &WebOptions { pairs, ..WebOptions::default() }).unwrap().manifest;
    let state = AppState::new(Options::default());
    let model = ServedModel::open(&directory).unwrap();
    state.publish(Arc::new(FakeSearch { before: Box::new(|| {}) }), model);
    let app = Router::new().nest("/search", app(state));
    let body = get(&app, "/search/v1/model").await.json();
    for (name, exported) in [("reader", web.reader.unwrap()), ("reranker", web.reranker.unwrap())] {
        let pair = &body[name];
        let described = (&pair["fingerprint"], &pair["max_tokens"]);
        assert_eq!(described, (&json!(exported.fingerprint), &json!(exported.max_tokens)));
        let weights = pair["weights"].as_object().unwrap();
        assert_eq!(weights.keys().collect::<Vec<_>>(), ["f16", "f32", "q8"]);
        for (dtype, file) in weights {
            let shares = file.get("shares").cloned().unwrap_or(json!([]));
            assert_eq!(shares, json!(exported.weights[dtype].shares));
        }
        for file in [&pair["config"], &pair["tokenizer"]].into_iter().chain(weights.values()) {
            let url = file["url"].as_str().unwrap();
            assert!(url.starts_with("/search/v1/model/files/"), "{url}");
            let reply = get(&app, url).await;
            assert_eq!(reply.status, StatusCode::OK, "{url}");
            assert_eq!(sha256_hex(&reply.body), file["sha256"].as_str().unwrap());
            assert_eq!(reply.body.len() as u64, file["bytes"].as_u64().unwrap());
        }
    }
    // A model without them has no word of them.
    let (app, _dir) = ready(Options::default());
    let body = get(&app, "/v1/model").await.json();
    assert!(body.get("reader").is_none() && body.get("reranker").is_none(), "{body}");
}

#[tokio::test]
async fn a_file_that_needs_a_key_is_kept_by_no_cache_that_many_share() {
    let keys = KeyBox::new();
    for (open_search, sharing) in [(false, "private"), (true, "public")] {
        let (app, _dir) = ready(Options { access: keys.access(open_search), ..Options::default() });
        let key = [("x-api-key", keys.of(Scope::Search))];
        let model = get_with(&app, "/v1/model", &key).await.json();
        let reply = get_with(&app, model["weights"]["q8"]["url"].as_str().unwrap(), &key).await;
        assert_eq!(reply.status, StatusCode::OK);
        assert_eq!(reply.header("cache-control"), format!("{sharing}, max-age=31536000, immutable"));
    }
}

#[tokio::test]
async fn a_file_is_cached_for_good_and_revalidated_by_its_tag() {
    let (app, _dir) = ready(Options::default());
    let url = weights(&app).await;
    let reply = get_with(&app, &url, &[("accept-encoding", "gzip")]).await;
    assert_eq!(reply.body, WEIGHTS);
    assert_eq!(reply.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(reply.header("content-length"), "16");
    assert_eq!(reply.header("content-type"), "application/octet-stream");
    assert_eq!(reply.header("accept-ranges"), "bytes");
    assert_eq!(reply.header("content-encoding"), "");
    let tag = reply.header("etag").to_owned();
    assert_eq!(tag, format!("\"{}\"", sha256_hex(WEIGHTS)));
    for sent in [tag.clone(), format!("W/{tag}"), format!("\"x\", {tag}"), "*".into()] {
        let again = get_with(&app, &url, &[("if-none-match", &sent)]).await;
        assert_eq!((again.status.as_u16(), again.body.len()), (304, 0), "{sent}");
        assert_eq!(again.header("etag"), tag);
    }
    assert_eq!(get_with(&app, &url, &[("if-none-match", "\"x\"")]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_download_resumes_by_range() {
    let (app, _dir) = ready(Options::default());
    let url = weights(&app).await;
    let part = get_with(&app, &url, &[("range", "bytes=4-7"), ("accept-encoding", "gzip")]).await;
    assert_eq!((part.status.as_u16(), part.text().as_str()), (206, "4567"));
    assert_eq!((part.header("content-range"), part.header("content-length")), ("bytes 4-7/16", "4"));
    assert_eq!(get_with(&app, &url, &[("range", "bytes=-3")]).await.text(), "def");
    let beyond = get_with(&app, &url, &[("range", "bytes=16-")]).await;
    assert_eq!((beyond.status.as_u16(), beyond.header("content-range")), (416, "bytes */16"));
    // Several ranges, and a range of another version of the file, get the whole file.
    let stale = [("range", "bytes=4-7"), ("if-range", "\"another\"")];
    for headers in [&[("range", "bytes=0-1,4-5")][..], &stale[..]] {
        let whole = get_with(&app, &url, headers).await;
        assert_eq!((whole.status.as_u16(), whole.body.len()), (200, 16));
    }
    let tag = format!("\"{}\"", sha256_hex(WEIGHTS));
    let same = get_with(&app, &url, &[("range", "bytes=4-7"), ("if-range", &tag)]).await;
    assert_eq!(same.status.as_u16(), 206);
}

#[tokio::test]
async fn head_tells_the_length_without_the_body() {
    let (app, _dir) = ready(Options::default());
    let url = weights(&app).await;
    let reply = send(&app, Request::head(url).body(Body::empty()).unwrap()).await;
    assert_eq!((reply.status.as_u16(), reply.body.len(), reply.header("content-length")), (200, 0, "16"));
}

#[tokio::test]
async fn a_tokenizer_is_compressed_unless_a_part_is_asked_for() {
    let (app, _dir) = ready(Options::default());
    let model = get(&app, "/v1/model").await.json();
    let url = model["encoder"]["tokenizer"]["url"].as_str().unwrap();
    let plain = get(&app, url).await;
    let packed = get_with(&app, url, &[("accept-encoding", "br, gzip;q=0.8")]).await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("gzip", "accept-encoding"));
    assert!(packed.body.len() < plain.body.len() / 4);
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    assert_ne!(packed.header("etag"), plain.header("etag"), "one strong tag is one sequence of bytes");
    let refused = get_with(&app, url, &[("accept-encoding", "gzip;q=0")]).await;
    assert_eq!(refused.header("content-encoding"), "");
    let part = get_with(&app, url, &[("accept-encoding", "gzip"), ("range", "bytes=0-3")]).await;
    assert_eq!((part.status.as_u16(), part.header("content-encoding")), (206, ""));
    assert_eq!(part.body, plain.body[..4]);
}

#[tokio::test]
async fn weights_that_were_exported_compressed_are_sent_so_unless_a_part_is_asked_for() {
    use dpr_encode::model::{ModelDir, export_web, import};
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path().join("model");
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    import(&fixtures.join("dpr-tiny/question"), None, &at, &Default::default()).unwrap();
    let directory = ModelDir::open(&at).unwrap();
    let web = export_web(&directory, None).unwrap().manifest;
    let exported = &web.weights["q8"];
    let small = at.join(exported.gzip_path().expect("codes in 8 bits shrink"));
    assert!(web.weights["f16"].gzip.is_none() && web.weights["f32"].gzip.is_none());
    let state = AppState::new(Options::default());
    let model = ServedModel::open(&directory).unwrap();
    state.publish(Arc::new(FakeSearch { before: Box::new(|| {}) }), model);
    let app = app(state);
    let url = weights(&app).await;
    let packed = get_with(&app, &url, &[("accept-encoding", "gzip, br")]).await;
    assert_eq!((packed.header("content-encoding"), packed.header("vary")), ("gzip", "accept-encoding"));
    assert_eq!(packed.header("content-length"), exported.gzip.as_ref().unwrap().bytes.to_string());
    assert_eq!(packed.body, fs_err::read(&small).unwrap());
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(sha256_hex(&unpacked), exported.entry.sha256);
    // A download that broke goes on in the content, whatever was sent before.
    let rest = get_with(&app, &url, &[("accept-encoding", "gzip"), ("range", "bytes=100-")]).await;
    assert_eq!((rest.status.as_u16(), rest.header("content-encoding")), (206, ""));
    assert_eq!(rest.body, unpacked[100..]);
    assert_eq!(get(&app, &url).await.body, unpacked);
    // A file that changed while the server runs is an error, and nothing of it is sent.
    fs_err::write(&small, b"short").unwrap();
    let broken = get_with(&app, &url, &[("accept-encoding", "gzip")]).await;
    assert_eq!((broken.status.as_u16(), broken.header("content-encoding")), (500, ""));
    // A start finds it out.
    let error = ModelDir::open(&at).unwrap().web_exports().unwrap_err().to_string();
    assert!(error.contains("q8.safetensors.gz") && error.contains("size"), "{error}");
}

#[tokio::test]
async fn a_configuration_that_stands_in_no_file_is_served_as_one() {
    let (app, dir) = ready(Options::default());
    assert!(!dir.path().join("config.json").exists());
    let model = get(&app, "/v1/model").await.json();
    let url = model["encoder"]["config"]["url"].as_str().unwrap();
    let plain = get(&app, url).await;
    assert_eq!(
        (plain.text().as_str(), plain.header("content-type")),
        (r#"{"model_type":"bert"}"#, "application/json")
    );
    assert_eq!(plain.header("etag"), format!("\"{}\"", sha256_hex(&plain.body)));
    let packed = get_with(&app, url, &[("accept-encoding", "gzip")]).await;
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!((packed.header("content-encoding"), unpacked), ("gzip", plain.body));
    let part = get_with(&app, url, &[("range", "bytes=2-6")]).await;
    assert_eq!((part.status.as_u16(), part.text().as_str()), (206, "model"));
    assert_eq!((part.header("content-range"), part.header("content-length")), ("bytes 2-6/21", "5"));
    assert_eq!(get_with(&app, url, &[("range", "bytes=21-")]).await.status.as_u16(), 416);
}

#[tokio::test]
async fn nothing_but_the_models_files_can_be_had() {
    let (app, dir) = ready(Options::default());
    fs_err::write(dir.path().join("secret"), "s").unwrap();
    let sha256 = sha256_hex(WEIGHTS);
    for path in [
        format!("/v1/model/files/{sha256}/config.json"),
        format!("/v1/model/files/{sha256}/secret"),
        format!("/v1/model/files/{sha256}/..%2Fsecret"),
        format!("/v1/model/files/{sha256}/%2e%2e%2f%2e%2e%2fetc%2fpasswd"),
        format!("/v1/model/files/{}/question_encoder.q8.safetensors", "0".repeat(64)),
        "/v1/model/files/secret".into(),
        "/v1/model/files/../../secret".into(),
    ] {
        assert_eq!(get(&app, &path).await.error(), (404, "not_found".into()), "{path}");
    }
}

#[tokio::test]
async fn a_file_that_changed_on_disk_is_not_served() {
    let (app, dir) = ready(Options::default());
    let url = weights(&app).await;
    fs_err::write(dir.path().join("question_encoder.q8.safetensors"), "short").unwrap();
    assert_eq!(get(&app, &url).await.error(), (500, "internal".into()));
}
