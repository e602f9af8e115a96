//! What a cluster's engine says no to, and what it says when the cluster is away.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use dpr_files::progress::Silent;
use dpr_index::search::ServiceError;
use dpr_milvus::{LoadOptions, MilvusError, MilvusIndex, load};

use super::passages;
use super::server::Server;
use crate::support::corpus::set;

#[test]
fn a_cluster_that_is_down_is_said_to_be() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = format!("milvus://{free}/wiki").parse().unwrap();
    let error = MilvusIndex::open(&address, None).unwrap_err();
    assert!(matches!(error, MilvusError::Down { .. }), "{error}");
    assert!(error.to_string().contains(&free.to_string()), "{error}");
    let error = load(&address, &passages(), &LoadOptions::default(), &Silent).unwrap_err();
    assert!(matches!(error, MilvusError::Down { .. }), "{error}");
}

#[test]
fn a_cluster_that_takes_connections_and_does_not_answer_is_not_waited_for_forever() {
    // Connections are taken by the kernel; nobody reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("milvus://{}/wiki", silent.local_addr().unwrap()).parse().unwrap();
    let started = Instant::now();
    let error = MilvusIndex::open(&address, None).unwrap_err();
    assert!(matches!(error, MilvusError::Down { .. }), "{error}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_cluster_that_goes_away_makes_searches_fail_until_it_is_back() {
    let Some(mut server) = Server::get() else { return };
    let address = server.address("away");
    let vectors = set(crate::support::corpus::random_rows(50, 8), 8);
    load(&address, &vectors, &LoadOptions::default(), &Silent).unwrap();
    let index = MilvusIndex::open(&address, None).unwrap();
    let none = dpr_index::search::Filter::default();
    let question = [super::embedding(&vectors.rows[..8])];
    assert_eq!(index.search(&question, 3, &none).unwrap()[0].len(), 3);
    server.kill();
    let error = index.search(&question, 3, &none).unwrap_err();
    assert!(matches!(error, MilvusError::Service(ServiceError::Unavailable { .. })), "{error}");
    server.start_again();
    // It brings the collection back into memory by itself, which takes it a while.
    let started = Instant::now();
    let found = loop {
        match index.search(&question, 3, &none) {
            Ok(found) => break found,
            Err(error) => assert!(started.elapsed() < Duration::from_secs(120), "{error}"),
        }
    };
    assert_eq!(found[0].len(), 3);
}

#[test]
fn vectors_of_another_model_or_length_are_refused() {
    let Some(server) = Server::get() else { return };
    let address = server.address("model");
    let vectors = set(crate::support::corpus::random_rows(20, 8), 8);
    load(&address, &vectors, &LoadOptions::default(), &Silent).unwrap();
    let mut other = vectors.clone();
    other.model_fingerprint = "cd".repeat(32);
    let error = load(&address, &other, &LoadOptions::default(), &Silent).unwrap_err();
    assert!(matches!(error, MilvusError::Service(ServiceError::WrongModel { .. })), "{error}");
    let text = error.to_string();
    assert!(text.contains(&"cd".repeat(32)) && text.contains(&"ab".repeat(32)), "{text}");
    let longer = set(crate::support::corpus::random_rows(20, 9), 9);
    let error = load(&address, &longer, &LoadOptions::default(), &Silent).unwrap_err();
    assert!(
        matches!(error, MilvusError::Service(ServiceError::Dimension { expected: 8, got: 9, .. })),
        "{error}"
    );
    let index = MilvusIndex::open(&address, None).unwrap();
    assert!(index.check_model(&"cd".repeat(32), 8).is_err());
    assert_eq!(index.refresh().unwrap(), 20, "nothing was written");
}

#[test]
fn a_collection_made_anew_with_another_model_is_not_searched_or_changed() {
    use milvus::v2::prelude::{ClientV2, ConnectConfig};
    use milvus::v2::request::collection::DropCollectionRequest;
    let Some(server) = Server::get() else { return };
    let address = server.address("made_anew");
    let mut vectors = set(crate::support::corpus::random_rows(20, 8), 8);
    load(&address, &vectors, &LoadOptions::default(), &Silent).unwrap();
    let index = MilvusIndex::open(&address, None).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let uri = address.to_string().replace("milvus://", "http://").replace("/made_anew", "");
        let client = ClientV2::new(&ConnectConfig::new().uri(uri)).await.unwrap();
        let request = DropCollectionRequest::builder().collection_name("made_anew");
        client.drop_collection(request.build().unwrap()).await.unwrap();
    });
    vectors.model_fingerprint = "cd".repeat(32);
    load(&address, &vectors, &LoadOptions::default(), &Silent).unwrap();
    let error = index.refresh().unwrap_err();
    assert!(matches!(error, MilvusError::Changed { .. }), "{error}");
    assert!(error.to_string().contains("open it again"), "{error}");
    let (question, none) = (super::embedding(&vectors.rows[..8]), dpr_index::search::Filter::default());
    let error = index.search(std::slice::from_ref(&question), 3, &none).unwrap_err();
    assert!(matches!(error, MilvusError::Changed { .. }), "{error}");
    let error = index.put(&[super::new("new", "", "Text.", question.as_slice())]).unwrap_err();
    assert!(matches!(error, MilvusError::Changed { .. }), "{error}");
    let again = MilvusIndex::open(&address, None).unwrap();
    assert_eq!(again.search(&[question], 3, &none).unwrap()[0].len(), 3);
}

#[test]
fn a_collection_that_is_not_there_is_named() {
    let Some(server) = Server::get() else { return };
    let error = MilvusIndex::open(&server.address("nobody_made_it"), None).unwrap_err();
    assert!(matches!(error, MilvusError::Service(ServiceError::Missing { .. })), "{error}");
    assert!(error.to_string().contains("nobody_made_it"), "{error}");
}

#[test]
fn rows_that_cannot_be_kept_are_refused_before_anything_is_asked_of_a_cluster() {
    // Nobody is there: whoever asked would say so.
    let address = "milvus://127.0.0.1:1/wiki".parse().unwrap();
    let good = set(crate::support::corpus::random_rows(3, 8), 8);
    let refused = |change: fn(&mut dpr_index::vectors::VectorSet)| {
        let mut vectors = good.clone();
        change(&mut vectors);
        load(&address, &vectors, &LoadOptions::default(), &Silent).unwrap_err().to_string()
    };
    let nan = refused(|vectors| vectors.rows = changed(&vectors.rows, 9..10, f32::NAN));
    assert!(nan.contains("p1"), "{nan}");
    let zero = refused(|vectors| vectors.rows = changed(&vectors.rows, 16..24, 0.0));
    assert!(zero.contains("p2") && zero.contains("zero"), "{zero}");
    let twice = refused(|vectors| vectors.passages[2].id = "p0".into());
    assert!(twice.contains("p0") && twice.contains("again at row 2"), "{twice}");
    let long = refused(|vectors| vectors.passages[1].text = "가".repeat(30_000));
    assert!(long.contains("p1") && long.contains("90000") && long.contains("65535"), "{long}");
    let none = refused(|vectors| {
        vectors.passages.clear();
        vectors.rows = Vec::new().into();
    });
    assert!(none.contains("at least one passage"), "{none}");
}

/// The rows, but for some numbers of them.
fn changed(rows: &[f32], numbers: std::ops::Range<usize>, value: f32) -> dpr_index::vectors::Rows {
    let mut rows = rows.to_vec();
    rows[numbers].fill(value);
    rows.into()
}
