//! Filling a table: in pieces, again, across a crash.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dpr_data::Metadata;
use dpr_files::progress::Silent;
use dpr_index::HnswParams;
use dpr_index::search::ServiceError;
use dpr_index::vectors::VectorSet;
use dpr_postgres::{LoadOptions, PostgresError, PostgresIndex, load};

use super::server::Server;
use super::{filled, part, set};
use crate::support::after::{After, crash_after};

#[test]
fn a_load_that_stopped_goes_on_and_writes_only_what_is_missing_or_changed() {
    let Some(server) = Server::get() else { return };
    let address = server.address("resumed");
    let mut set = set(2500, 8);
    let stop = Arc::new(AtomicBool::new(false));
    let options = LoadOptions { in_flight: 1, stop: Arc::clone(&stop), ..LoadOptions::default() };
    let progress = After::new(1000, || stop.store(true, Ordering::SeqCst));
    let stopped = load(&address, &set, &options, &progress);
    assert!(matches!(stopped, Err(PostgresError::Service(ServiceError::Interrupted))), "{stopped:?}");
    assert_eq!(server.texts("SELECT count(*) FROM resumed"), ["1000"]);

    set.passages[3].text = "Other words.".into();
    set.passages[4].metadata = Metadata::new([("a", 1)]).unwrap();
    let report = load(&address, &set, &LoadOptions::default(), &Silent).unwrap();
    assert_eq!((report.unchanged, report.written, report.count), (998, 1502, 2500));
    let versions = "SELECT xmin::text || ' ' || xmax::text FROM resumed ORDER BY id";
    let before = server.texts(versions);
    let again = load(&address, &set, &LoadOptions::default(), &Silent).unwrap();
    assert_eq!((again.unchanged, again.written, again.count), (2500, 0, 2500));
    assert_eq!(server.texts(versions), before, "a row was locked or written again");
    let index = PostgresIndex::open(&address).unwrap();
    assert_eq!(index.passages(&["p3".into()]).unwrap()[0].text, "Other words.");
    assert_eq!(index.passages(&["p4".into()]).unwrap()[0].metadata, set.passages[4].metadata);

    // A passage that loses its metadata loses it in the table.
    set.passages[4].metadata = Metadata::default();
    assert_eq!(load(&address, &set, &LoadOptions::default(), &Silent).unwrap().written, 1);
    assert!(index.passages(&["p4".into()]).unwrap()[0].metadata.is_empty());
}

#[test]
fn the_table_is_what_the_documentation_says() {
    let Some(server) = Server::get() else { return };
    let address = server.address_with("documented", "&type=halfvec");
    let hnsw = HnswParams { m: 8, ef_construction: 40, ef_search: 33 };
    load(&address, &set(20, 8), &LoadOptions { hnsw, ..LoadOptions::default() }, &Silent).unwrap();
    let columns = server.texts(
        "SELECT attname || ' ' || format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' not null' ELSE '' END \
         FROM pg_attribute WHERE attrelid = 'documented'::regclass AND attnum > 0 ORDER BY attnum",
    );
    assert_eq!(
        columns,
        [
            "id text not null",
            "title text not null",
            "text text not null",
            "metadata jsonb not null",
            "embedding halfvec(8) not null"
        ]
    );
    let comment = server.texts("SELECT obj_description('documented'::regclass)").remove(0);
    let comment: serde_json::Value = serde_json::from_str(&comment).unwrap();
    let expected =
        serde_json::json!({ "dpr_format": 1, "dim": 8, "metric": "inner_product", "table_made": true });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&comment[name], value, "{name}");
    }
    assert_eq!(comment["model_fingerprint"], "ab".repeat(32));
    let indexes =
        server.texts("SELECT indexdef FROM pg_indexes WHERE tablename = 'documented' ORDER BY 1").join("\n");
    for part in [
        "hnsw (embedding halfvec_ip_ops)",
        "m='8'",
        "ef_construction='40'",
        "hash (title)",
        "gin (metadata jsonb_path_ops)",
    ] {
        assert!(indexes.contains(part), "{part}: {indexes}");
    }
    // A second load builds no index again.
    load(&address, &set(20, 8), &LoadOptions::default(), &Silent).unwrap();
    assert_eq!(server.texts("SELECT count(*) FROM pg_indexes WHERE tablename = 'documented'"), ["4"]);
    assert_eq!(PostgresIndex::open(&address).unwrap().described().hnsw, hnsw, "it keeps its parameters");
}

#[test]
fn shards_are_loaded_by_several_machines_at_once() {
    let Some(server) = Server::get() else { return };
    let address = server.address("shards");
    let set = set(2067, 8);
    let written: usize = std::thread::scope(|scope| {
        let machines: Vec<_> = [(0, 700), (700, 1400), (1400, 2067)]
            .into_iter()
            .map(|(from, to)| {
                let (address, shard) = (&address, part(&set, from, to));
                scope.spawn(move || load(address, &shard, &LoadOptions::default(), &Silent).unwrap())
            })
            .collect();
        machines.into_iter().map(|machine| machine.join().unwrap().written).sum()
    });
    assert_eq!(written, 2067);
    assert_eq!(PostgresIndex::open(&address).unwrap().refresh().unwrap(), 2067);
    let graphs = "SELECT count(*) FROM pg_indexes WHERE tablename = 'shards' AND indexdef LIKE '%hnsw%'";
    assert_eq!(server.texts(graphs), ["1"]);
}

#[test]
fn a_server_killed_in_the_middle_of_a_load_and_started_again_loses_nothing() {
    let Some(mut server) = Server::get() else { return };
    let address = server.address("killed");
    let set = set(4000, 8);
    // One batch after another, so that there is a middle.
    let options = LoadOptions { in_flight: 1, patience: Duration::from_secs(120), ..LoadOptions::default() };
    let report = crash_after(
        1000,
        |progress| load(&address, &set, &options, progress).unwrap(),
        || {
            server.kill();
            server.start_again();
        },
    );
    assert_eq!((report.written + report.unchanged, report.count), (4000, 4000));
    let rows = server.texts("SELECT count(*) || ' ' || count(DISTINCT text) FROM killed");
    assert_eq!(rows, ["4000 4000"]);
    let again = load(&address, &set, &LoadOptions::default(), &Silent).unwrap();
    assert_eq!((again.written, again.unchanged), (0, 4000));
}

#[test]
fn rows_that_cannot_be_kept_are_refused_before_anything_is_asked_of_a_server() {
    // Nobody is there: whoever asked would say so.
    let address = "postgres://u@127.0.0.1:1/d".parse().unwrap();
    let good = set(3, 8);
    let refused = |change: fn(&mut VectorSet)| {
        let mut vectors = good.clone();
        change(&mut vectors);
        load(&address, &vectors, &LoadOptions::default(), &Silent).unwrap_err().to_string()
    };
    let with = |vectors: &VectorSet, numbers: std::ops::Range<usize>, value: f32| {
        let mut rows = vectors.rows.to_vec();
        rows[numbers].fill(value);
        rows
    };
    let nan = with(&good, 9..10, f32::NAN);
    let mut vectors = VectorSet::new(good.model_fingerprint.clone(), 8, good.passages.clone(), nan);
    let error = load(&address, &vectors, &LoadOptions::default(), &Silent).unwrap_err().to_string();
    assert!(error.contains("p1") && error.contains("finite"), "{error}");
    vectors =
        VectorSet::new(good.model_fingerprint.clone(), 8, good.passages.clone(), with(&good, 16..24, 0.0));
    let error = load(&address, &vectors, &LoadOptions::default(), &Silent).unwrap_err().to_string();
    assert!(error.contains("p2") && error.contains("zero"), "{error}");
    assert!(refused(|vectors| vectors.passages[2].id = "p0".into()).contains("again at row 2"));
    assert!(refused(|vectors| vectors.passages[2].title = "\0".into()).contains("NUL"));
    let none = refused(|vectors| {
        vectors.passages.clear();
        vectors.rows = Vec::new().into();
    });
    assert!(none.contains("at least one passage"), "{none}");
    let options =
        LoadOptions { hnsw: HnswParams { m: 101, ..HnswParams::default() }, ..LoadOptions::default() };
    let error = load(&address, &good, &options, &Silent).unwrap_err().to_string();
    assert!(error.contains("2 to 100"), "{error}");
}

#[test]
fn vectors_of_another_model_or_length_are_refused() {
    let Some(server) = Server::get() else { return };
    let address = server.address("model");
    let vectors = set(20, 8);
    let index = filled(&address, &vectors);
    let mut other = vectors.clone();
    other.model_fingerprint = "cd".repeat(32);
    let error = load(&address, &other, &LoadOptions::default(), &Silent).unwrap_err();
    assert!(matches!(error, PostgresError::Service(ServiceError::WrongModel { .. })), "{error}");
    let text = error.to_string();
    assert!(text.contains(&"cd".repeat(32)) && text.contains(&"ab".repeat(32)), "{text}");
    let error = load(&address, &set(20, 9), &LoadOptions::default(), &Silent).unwrap_err();
    assert!(
        matches!(error, PostgresError::Service(ServiceError::Dimension { expected: 8, got: 9, .. })),
        "{error}"
    );
    assert!(
        index.check_model(&"cd".repeat(32), 8).is_err() && index.check_model(&"ab".repeat(32), 8).is_ok()
    );
    assert_eq!(index.refresh().unwrap(), 20, "nothing was written");

    // Somebody else fills the table anew while it is open.
    let comment = server.texts("SELECT obj_description('model'::regclass)").remove(0);
    server.sql(&format!("COMMENT ON TABLE model IS '{}'", comment.replace("abab", "cdcd")));
    assert!(matches!(index.refresh(), Err(PostgresError::Changed { .. })));
    let question = super::embedding(&vectors.rows[..8]);
    let refused = index.search(&[question], 3, None);
    assert!(matches!(refused, Err(PostgresError::Changed { .. })), "{refused:?}");
    server.sql("COMMENT ON TABLE model IS 'my articles'");
    let error = PostgresIndex::open(&address).unwrap_err();
    assert!(matches!(error, PostgresError::NoModel { .. }), "{error}");
    server.sql("COMMENT ON TABLE model IS '{\"dpr_format\": 2}'");
    let error = PostgresIndex::open(&address).unwrap_err();
    assert!(matches!(error, PostgresError::Service(ServiceError::NewerFormat { found: 2, .. })), "{error}");
}
