//! Filling a cluster: in pieces, by several machines, across a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpr_files::progress::Silent;
use dpr_index::search::{self, ServiceError};
use dpr_index::vectors::VectorSet;
use dpr_milvus::{LoadOptions, MilvusError, MilvusIndex, load};

use super::server::Server;
use super::{DIM, passages, plain, questions, share};
use crate::support::after::{After, crash_after};

/// The rows of a set from `from` to `to`.
fn part(set: &VectorSet, from: usize, to: usize) -> VectorSet {
    VectorSet {
        model_fingerprint: set.model_fingerprint.clone(),
        dim: DIM,
        passages: set.passages[from..to].to_vec(),
        rows: set.rows[from * DIM..to * DIM].to_vec().into(),
    }
}

#[test]
fn a_load_that_stopped_goes_on_and_writes_only_what_is_missing_or_changed() {
    let Some(server) = Server::get() else { return };
    let address = server.address("resumed");
    let mut set = passages();
    let stop = Arc::new(AtomicBool::new(false));
    let common =
        search::LoadOptions { in_flight: 1, stop: Arc::clone(&stop), ..search::LoadOptions::default() };
    let options = LoadOptions { common, ..LoadOptions::default() };
    let progress = After::new(1000, || stop.store(true, Ordering::SeqCst));
    let stopped = load(&address, &set, &options, &progress);
    assert!(matches!(stopped, Err(MilvusError::Service(ServiceError::Interrupted))), "{stopped:?}");

    set.passages[3].text = "Other words.".into();
    let report = load(&address, &set, &LoadOptions::default(), &Silent).unwrap();
    // The batch of 1,000 that was acknowledged, but for the passage that changed.
    assert_eq!((report.unchanged, report.written, report.count), (999, 1068, 2067));
    let again = load(&address, &set, &LoadOptions::default(), &Silent).unwrap();
    assert_eq!((again.unchanged, again.written, again.count), (2067, 0, 2067));
    let index = MilvusIndex::open(&address, None).unwrap();
    assert_eq!(index.passages(&["p3".into()]).unwrap()[0].text, "Other words.");
}

#[test]
fn a_cluster_that_asks_to_go_slower_is_given_time() {
    let Some(mut server) = Server::get() else { return };
    let address = server.address("slower");
    let set = passages();
    // What makes a collection takes longer than the patience below.
    load(&address, &part(&set, 0, 10), &LoadOptions::default(), &Silent).unwrap();
    server.kill();
    let limits = ["insertRate", "upsertRate"].map(|rate| format!("quotaAndLimits.dml.{rate}.max=0.1"));
    server.start_with(&format!("quotaAndLimits.dml.enabled=true {}", limits.join(" ")));
    // Until it is back in memory.
    drop(MilvusIndex::open(&address, None).unwrap());
    // 0.9 MB at 0.1 MB/s: batches are refused for many seconds.
    let common = search::LoadOptions { patience: Duration::from_secs(4), ..search::LoadOptions::default() };
    let hasty = LoadOptions { common, ..LoadOptions::default() };
    let error = load(&address, &set, &hasty, &Silent).unwrap_err();
    assert!(
        matches!(&error, MilvusError::Service(ServiceError::Unavailable { reason, .. }) if reason.contains("rate")),
        "{error}"
    );
    let report = load(&address, &set, &LoadOptions::default(), &Silent).unwrap();
    assert_eq!(report.count, 2067);
    server.kill();
    server.start_again();
}

#[test]
fn a_load_that_ended_when_the_collection_was_just_made_goes_on() {
    use milvus::v2::prelude::{ClientV2, ConnectConfig};
    use milvus::v2::request::collection::CreateCollectionRequest;
    use milvus::v2::{CollectionSchema, DataType, FieldSchema};
    let Some(server) = Server::get() else { return };
    let address = server.address("just_made");
    let mut set = part(&passages(), 0, 50);
    // A collection of the first format has no field for it, as the end of this test shows.
    let described = std::mem::take(&mut set.passages[0].metadata);
    set.passages.iter_mut().for_each(|passage| passage.metadata = dpr_data::Metadata::default());
    let field = |name, kind| FieldSchema::new().name(name).data_type(kind);
    let schema = CollectionSchema::new()
        .enable_dynamic_field(false)
        .add_field(field("id", DataType::VarChar).max_length(512).primary_key(true))
        .add_field(field("digest", DataType::Int64))
        .add_field(field("title", DataType::VarChar).max_length(65_535))
        .add_field(field("text", DataType::VarChar).max_length(65_535))
        .add_field(field("vector", DataType::FloatVector).dimension(DIM as u32));
    let description = serde_json::json!({
        "dpr_format": 1, "model_fingerprint": set.model_fingerprint, "dim": DIM, "created_by": "a test",
        "hnsw": { "m": 16, "ef_construction": 100, "ef_search": 50 }
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let uri = address.to_string().replace("milvus://", "http://").replace("/just_made", "");
        let client = ClientV2::new(&ConnectConfig::new().uri(uri)).await.unwrap();
        let request = CreateCollectionRequest::builder()
            .collection_name("just_made")
            .description(description.to_string())
            .schema(schema);
        client.create_collection(request.build().unwrap()).await.unwrap();
    });
    let report = load(&address, &set, &LoadOptions::default(), &Silent).unwrap();
    assert_eq!((report.written, report.count), (50, 50));
    let index = MilvusIndex::open(&address, None).unwrap();
    assert_eq!(index.described().hnsw.m, 16, "it keeps the parameters it was made with");
    let condition = serde_json::from_str(r#"{"field":"year","gt":0}"#).unwrap();
    let filter = dpr_index::search::Filter { condition: Some(condition), ..Default::default() };
    let refused = index.search(&questions(&passages())[..1], 3, &filter).unwrap_err();
    assert!(refused.to_string().contains("made without metadata"), "{refused}");
    set.passages[0].metadata = described;
    let refused = load(&address, &set, &LoadOptions::default(), &Silent).unwrap_err();
    assert!(refused.to_string().contains("load the vectors again into another collection"), "{refused}");
}

#[test]
fn shards_are_loaded_by_several_machines_at_once() {
    let Some(server) = Server::get() else { return };
    let address = server.address("shards");
    let set = passages();
    std::thread::scope(|scope| {
        let machines: Vec<_> = [(0, 700), (700, 1400), (1400, 2067)]
            .into_iter()
            .map(|(from, to)| {
                let (address, shard) = (&address, part(&set, from, to));
                scope.spawn(move || load(address, &shard, &LoadOptions::default(), &Silent).unwrap())
            })
            .collect();
        let written: usize = machines.into_iter().map(|machine| machine.join().unwrap().written).sum();
        assert_eq!(written, 2067);
    });
    let index = MilvusIndex::open(&address, None).unwrap();
    assert_eq!(index.refresh().unwrap(), 2067);
}

#[test]
fn a_cluster_killed_in_the_middle_of_a_load_and_started_again_loses_nothing() {
    let Some(mut server) = Server::get() else { return };
    let address = server.address("killed");
    let set = passages();
    // One batch after another, so that there is a middle.
    let patience = Duration::from_secs(180);
    let common = search::LoadOptions { in_flight: 1, patience, ..search::LoadOptions::default() };
    let options = LoadOptions { common, ..LoadOptions::default() };
    let report = crash_after(
        1000,
        |progress| load(&address, &set, &options, progress).unwrap(),
        || {
            server.kill();
            server.start_again();
        },
    );
    assert_eq!((report.written, report.count), (2067, 2067));

    let index = MilvusIndex::open(&address, None).unwrap();
    assert_eq!(index.refresh().unwrap(), 2067);
    let (none, questions) = (dpr_index::search::Filter::default(), questions(&set));
    let mut recall = 0.0;
    for (question, found) in questions.iter().zip(index.search(&questions, 20, &none).unwrap()) {
        let found: Vec<String> = found.into_iter().map(|found| found.passage.id).collect();
        recall += share(&found, &plain(&set, question, 20, |_| true)) / 100.0;
    }
    assert!(recall >= 0.99, "recall@20 {recall}");
}
