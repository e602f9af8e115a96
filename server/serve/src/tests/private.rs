//! `/v1/private`: what is offered, the projection, and candidates for blurred questions.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dpr_core::private::blur::{DeviceKey, Level};
use dpr_core::private::projection::Projection;
use dpr_core::private::rerank::Reranker;
use dpr_core::random::SplitMix;
use dpr_files::progress::Silent;
use dpr_index::private::{BlurDir, BlurManifest, Calibration, principal_directions};
use dpr_index::vectors::VectorSet;
use dpr_index::{IndexOptions, IndexReader, build_index};

use super::*;
use crate::{ServedBlur, Serving};

const WIDE: usize = 128;

/// An index of 300 passages around 10 centres, with a blur directory that offers `light` and `medium`.
struct Bench {
    app: Router,
    blur: BlurDir,
    rows: Vec<f32>,
    _dir: tempfile::TempDir,
}

fn bench(options: Options) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let mut random = SplitMix::new(6);
    let centres: Vec<f32> = (0..10 * WIDE).map(|_| random.normal() as f32).collect();
    let mut rows = Vec::new();
    for at in 0..300 {
        let centre = &centres[at % 10 * WIDE..][..WIDE];
        let row: Vec<f32> = centre.iter().map(|value| value + 0.7 * random.normal() as f32).collect();
        let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        rows.extend(row.iter().map(|value| value / length));
    }
    let passages =
        (0..300).map(|n| Passage::new(format!("p{n}"), "Title", format!("Passage {n}."))).collect();
    let set = VectorSet::new(fingerprint(), WIDE, passages, rows.clone());
    build_index(&set, &dir.path().join("index"), &IndexOptions::default(), &Silent).unwrap();
    let reader = IndexReader::open(&dir.path().join("index")).unwrap();
    let vectors: Vec<&[f32]> = rows.chunks(WIDE).collect();
    let (projection, _) = principal_directions(&vectors, WIDE).unwrap();
    let enough = |level, recall: [f64; 5]| Calibration { level, recall };
    let calibrations = [
        enough(Level::Light, [0.5, 1.0, 1.0, 1.0, 1.0]),
        enough(Level::Medium, [0.5, 0.7, 0.99, 1.0, 1.0]),
        enough(Level::Strong, [0.0; 5]),
    ];
    let manifest = BlurManifest::new(&fingerprint(), &projection, 300, (10, "passages"), &calibrations);
    let blur = BlurDir::write(&dir.path().join("blur"), manifest, projection).unwrap();
    let state = AppState::new(options);
    assert!(state.publish_all(Serving {
        blur: Some(Arc::new(ServedBlur::new(blur.clone()))),
        ..Serving::new(reader.live().clone())
    }));
    Bench { app: app(state), blur, rows, _dir: dir }
}

impl Bench {
    fn sent(&self, question: &[f32], level: Level) -> Vec<f32> {
        let (projection, key) = (self.blur.projection(), DeviceKey::new([3; 32]));
        level.blur().apply(projection, question, &key, &fingerprint(), &[1, 2, 3]).unwrap()
    }

    fn body(&self, question: &[f32], level: Level) -> Value {
        let sent = self.sent(question, level);
        json!({
            "y": Embedding::new(sent, level.blur().dims).unwrap().to_base64_f16(),
            "level": level.name(),
            "projection": self.blur.projection().sha256(),
            "model": fingerprint(),
        })
    }

    async fn candidates(&self, body: &Value) -> Reply {
        send(&self.app, post_to("/v1/private/candidates", body.to_string())).await
    }
}

fn post_to(path: &str, body: String) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").body(Body::from(body)).unwrap()
}

#[tokio::test]
async fn a_client_that_knows_nothing_but_the_address_finds_what_plain_search_finds() {
    let bench = bench(Options::default());
    let offered = get(&bench.app, "/v1/private").await.json();
    assert_eq!(offered["modes"], json!(["plain", "blurred"]));
    let blurred = &offered["blurred"];
    assert_eq!((&blurred["dim"], &blurred["model"]), (&json!(WIDE), &json!(fingerprint())));
    let levels: Vec<&String> = blurred["levels"].as_object().unwrap().keys().collect();
    assert_eq!(levels, ["light", "medium"]);
    assert_eq!(
        blurred["levels"]["medium"],
        json!({ "dims": 64, "noise": 0.3, "candidates": 200, "recall": 0.99 })
    );

    let file = get(&bench.app, blurred["projection"]["url"].as_str().unwrap()).await;
    let projection = Projection::from_bytes(&file.body).unwrap();
    assert_eq!(projection.sha256(), blurred["projection"]["sha256"]);

    let question = bench.rows[7 * WIDE..][..WIDE].to_vec();
    let reply = bench.candidates(&bench.body(&question, Level::Medium)).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
    let answer = reply.json();
    let found = answer["candidates"].as_array().unwrap();
    assert_eq!(found.len(), 200);
    let codes: Vec<Vec<u8>> =
        found.iter().map(|found| STANDARD.decode(found["code"].as_str().unwrap()).unwrap()).collect();
    let best = Reranker::new(&projection, &question).rank(codes.iter().map(Vec::as_slice), 5).unwrap();
    let ids: Vec<&str> = best.iter().map(|(at, _)| found[*at]["id"].as_str().unwrap()).collect();

    let plain = json!({ "vector": question, "k": 5, "model": fingerprint() });
    let plain = search(&bench.app, &plain).await.json();
    let plain: Vec<&str> =
        plain["hits"].as_array().unwrap().iter().map(|hit| hit["id"].as_str().unwrap()).collect();
    // Codes of 8 bits may swap neighbours.
    assert_eq!(ids[0], plain[0]);
    let common = ids.iter().filter(|id| plain.contains(id)).count();
    assert!(common >= 4, "{ids:?} {plain:?}");
    assert!((best[0].1 - 1.0).abs() < 0.02, "{best:?}");
    assert_eq!(found[best[0].0]["text"], "Passage 7.");
}

#[tokio::test]
async fn a_bad_body_has_a_status_and_a_code_and_is_not_answered_plainly() {
    let bench = bench(Options::default());
    let question = bench.rows[..WIDE].to_vec();
    let good = bench.body(&question, Level::Medium);
    let with = |field: &str, value: Value| {
        let mut body = good.clone();
        body[field] = value;
        body.to_string()
    };
    let y = |values: Vec<f32>| {
        json!(STANDARD.encode(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()))
    };
    let without = |field: &str| {
        let mut body = good.clone();
        body.as_object_mut().unwrap().remove(field);
        body.to_string()
    };
    let cases = [
        (String::new(), (400, "empty_body")),
        ("[]".to_owned(), (400, "invalid_json")),
        (without("y"), (400, "invalid_json")),
        (without("level"), (400, "invalid_json")),
        (without("projection"), (400, "invalid_json")),
        (with("k", json!(1000)), (400, "invalid_json")),
        (with("candidates", json!(1_000_000)), (400, "invalid_json")),
        (with("question", json!("who won super bowl 50")), (400, "invalid_json")),
        (with("y", json!([1, 2, 3])), (400, "invalid_json")),
        (with("y", json!("not base64!")), (422, "invalid_vector")),
        (with("y", json!("")), (422, "invalid_vector")),
        (with("y", y(vec![1.0; 63])), (422, "invalid_vector")),
        (with("y", y(vec![1.0; 65])), (422, "invalid_vector")),
        (with("y", y(vec![1.0; WIDE])), (422, "invalid_vector")),
        (with("y", y(vec![0.0; 64])), (422, "invalid_vector")),
        (with("y", y(vec![f32::NAN; 64])), (422, "invalid_vector")),
        (with("y", y([&[f32::INFINITY][..], &[0.0; 63]].concat())), (422, "invalid_vector")),
        (with("y", y(vec![3e38; 64])), (422, "invalid_vector")),
        // The coordinates of another level.
        (with("level", json!("light")), (422, "invalid_vector")),
        (with("level", json!("strong")), (422, "invalid_level")),
        (with("level", json!("plain")), (422, "invalid_level")),
        (with("level", json!("é".repeat(100_000))), (422, "invalid_level")),
        (with("projection", json!("0".repeat(64))), (409, "wrong_projection")),
        (with("projection", json!("é".repeat(100_000))), (409, "wrong_projection")),
        (with("model", json!("0".repeat(64))), (409, "wrong_model")),
    ];
    for (body, (status, code)) in cases {
        let reply = send(&bench.app, post_to("/v1/private/candidates", body.clone())).await;
        let shown: String = body.chars().take(200).collect();
        assert_eq!(reply.error(), (status, code.to_owned()), "{shown}");
        assert!(
            !reply.text().contains("super bowl") && reply.text().len() < 2000,
            "{shown}: {}",
            reply.text()
        );
    }
    for (body, fix) in [
        (without("projection"), r#"send {"y": base64, "level": "medium""#),
        (with("y", y(vec![1.0; 63])), "`dims` of the level in GET /v1/private"),
        (with("y", y(vec![3e38; 64])), "`dims` of the level in GET /v1/private"),
    ] {
        let reply = send(&bench.app, post_to("/v1/private/candidates", body)).await;
        assert!(reply.fix().contains(fix) && !reply.fix().contains("\"vector\""), "{}", reply.text());
    }
    assert_eq!(bench.candidates(&good).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_level_with_more_candidates_than_a_search_returns_is_not_offered() {
    let limits = crate::Limits { max_k: 199, ..crate::Limits::default() };
    let bench = bench(Options { limits, ..Options::default() });
    let offered = get(&bench.app, "/v1/private").await.json();
    let levels: Vec<&String> = offered["blurred"]["levels"].as_object().unwrap().keys().collect();
    assert_eq!(levels, ["light"]);
    let reply = bench.candidates(&bench.body(&bench.rows[..WIDE], Level::Medium)).await;
    assert_eq!(reply.error(), (422, "invalid_level".to_owned()));
    assert!(reply.text().contains("only: light"), "{}", reply.text());
}

#[tokio::test]
async fn a_server_that_takes_no_vectors_does_not_offer_plain_search() {
    let bench = bench(Options { private_only: true, ..Options::default() });
    assert_eq!(get(&bench.app, "/v1/private").await.json()["modes"], json!(["blurred"]));
}

#[tokio::test]
async fn a_server_without_private_search_says_so() {
    let (app, _dir) = ready(Options::default());
    for path in ["/v1/private", "/v1/private/files/00/projection.f16"] {
        assert_eq!(get(&app, path).await.error(), (404, "no_private_search".to_owned()), "{path}");
    }
    let reply = send(&app, post_to("/v1/private/candidates", "{}".to_owned())).await;
    assert_eq!(reply.error(), (404, "no_private_search".to_owned()));
    let bench = bench(Options::default());
    let sha256 = bench.blur.projection().sha256();
    for path in [
        format!("/v1/private/files/{sha256}/blur.json"),
        format!("/v1/private/files/{}/projection.f16", "0".repeat(64)),
        format!("/v1/private/files/{sha256}/..%2Fblur.json"),
    ] {
        assert_eq!(get(&bench.app, &path).await.error(), (404, "not_found".to_owned()), "{path}");
    }
}
