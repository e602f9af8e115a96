//! Changes by this program and by others, while it is searched.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dpr_data::Passage;
use dpr_files::progress::Silent;
use dpr_index::search::{Backend, Filter};
use dpr_index::{ChangeError, NewPassage, Put};
use dpr_postgres::{LoadOptions, PostgresError, PostgresIndex, load};
use tokio::runtime::Runtime;

use super::server::Server;
use super::{embedding, filled, found, set};

fn new(id: &str, vector: &[f32]) -> NewPassage {
    NewPassage { passage: Passage::new(id, "New", "Text."), vector: embedding(vector) }
}

/// A connection of another program, which may keep a transaction open.
fn other(server: &Server, runtime: &Runtime) -> tokio_postgres::Client {
    runtime.block_on(async {
        let text = server.address("any").to_string();
        let port = text.split(':').nth(2).unwrap().split('/').next().unwrap().parse().unwrap();
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(port).user("dpr").password("dpr").dbname("postgres");
        let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    })
}

#[test]
fn a_transaction_of_the_user_is_seen_by_the_next_search_when_it_is_committed() {
    let Some(server) = Server::get() else { return };
    let set = set(200, 8);
    let index = filled(&server.address("transactions"), &set);
    let far = [50.0; 8];
    let question = embedding(&far);
    let before = index.version();
    let runtime = Runtime::new().unwrap();
    let other = other(&server, &runtime);
    let run = |sql: &str| runtime.block_on(other.batch_execute(sql)).unwrap();
    run(
        "BEGIN; INSERT INTO transactions (id, text, embedding) VALUES ('theirs', 'Text.', array_fill(50, '{8}')::real[]::vector)",
    );
    assert!(!found(&index, &question, 1, None).contains(&"theirs".to_owned()), "it is not committed");
    run("COMMIT");
    assert_eq!(found(&index, &question, 1, None), ["theirs"]);
    run("UPDATE transactions SET title = 'Renamed' WHERE id = 'theirs'");
    let renamed = Filter { titles: ["Renamed".to_owned()].into(), ..Filter::default() };
    assert_eq!(found(&index, &question, 5, Some(&renamed)), ["theirs"]);
    run("DELETE FROM transactions WHERE id = 'theirs'");
    assert!(!found(&index, &question, 1, None).contains(&"theirs".to_owned()));
    // The statistics are sent when a session ends, at the latest.
    drop(other);
    let deadline = Instant::now() + Duration::from_secs(60);
    while index.version() == before {
        assert!(Instant::now() < deadline, "the version stays as it was");
        index.refresh().unwrap();
    }
}

#[test]
fn a_row_that_is_committed_while_a_load_waits_gets_its_vector_too() {
    let Some(server) = Server::get() else { return };
    let (set, address) = (set(10, 8), server.address("overtaken"));
    filled(&address, &set);
    server.sql("UPDATE overtaken SET title = 'Old' WHERE id = 'p3'; DELETE FROM overtaken WHERE id = 'p5'");
    let runtime = Runtime::new().unwrap();
    let other = other(&server, &runtime);
    let run = |sql: &str| runtime.block_on(other.batch_execute(sql)).unwrap();
    // The load waits for p3, which is as it should be then, so that p5 is first seen when rows are inserted.
    run("BEGIN; UPDATE overtaken SET title = 'Title 3' WHERE id = 'p3'; \
         INSERT INTO overtaken (id, title, text, embedding) \
         VALUES ('p5', 'Theirs', 'Text.', array_fill(50, '{8}')::real[]::vector)");
    let report = std::thread::scope(|scope| {
        let loading = scope.spawn(|| load(&address, &set, &LoadOptions::default(), &Silent).unwrap());
        let (begin, mut waits) = (Instant::now(), false);
        while !waits && !loading.is_finished() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(20));
            waits = !server.texts("SELECT pid FROM pg_locks WHERE NOT granted").is_empty();
        }
        // A load that waits would outlast a panic before this.
        run("COMMIT");
        assert!(waits, "the load waits for the transaction");
        loading.join().unwrap()
    });
    assert_eq!((report.written, report.count), (1, 10));
    let theirs = "SELECT title FROM overtaken WHERE id = 'p5'";
    assert_eq!(server.texts(theirs), ["Title 0"]);
    assert_eq!(load(&address, &set, &LoadOptions::default(), &Silent).unwrap().written, 0);
}

#[test]
fn put_and_delete_are_whole_or_not_at_all() {
    let Some(server) = Server::get() else { return };
    let set = set(30, 8);
    let index = filled(&server.address("whole"), &set);
    let before = index.version();
    assert_eq!(
        index.put(&[new("a", &[1.0; 8]), new("p3", &[2.0; 8])]).unwrap(),
        Put { added: 1, replaced: 1 }
    );
    assert_ne!(index.version(), before);
    assert_eq!(index.describe().count, 31);
    let error = index.delete(&["a".into(), "nobody".into()]).unwrap_err();
    assert!(
        matches!(&error, PostgresError::Change(ChangeError::UnknownIds { ids }) if ids == &["nobody"]),
        "{error}"
    );
    assert_eq!(index.refresh().unwrap(), 31);
    assert!(matches!(
        index.delete(&["a".into(), "a".into()]),
        Err(PostgresError::Change(ChangeError::DuplicateId { .. }))
    ));
    assert!(matches!(index.delete(&[]), Err(PostgresError::Change(ChangeError::Empty))));
    assert!(matches!(index.put(&[]), Err(PostgresError::Change(ChangeError::Empty))));
    assert!(matches!(
        index.put(&[new("x", &[1.0; 8]), new("x", &[1.0; 8])]),
        Err(PostgresError::Change(ChangeError::DuplicateId { .. }))
    ));
    assert!(matches!(
        index.put(&[new("x", &[1.0; 7])]),
        Err(PostgresError::Change(ChangeError::Vector { .. }))
    ));
    // More than one batch, in one transaction that fails at its end.
    server.sql("ALTER TABLE whole ADD CONSTRAINT not_last CHECK (id <> 'n2499')");
    let many: Vec<_> = (0..2500).map(|at| new(&format!("n{at}"), &[1.0; 8])).collect();
    assert!(matches!(index.put(&many), Err(PostgresError::Value { .. })));
    assert_eq!(index.refresh().unwrap(), 31);
    assert_eq!(index.put(&many[..2400]).unwrap(), Put { added: 2400, replaced: 0 });
    assert_eq!(index.delete(&["a".into(), "p3".into()]).unwrap(), 2);
    assert_eq!((index.count(), index.refresh().unwrap()), (2429, 2429));
}

#[test]
fn many_threads_search_while_others_write() {
    let Some(server) = Server::get() else { return };
    let set = set(500, 8);
    let index = filled(&server.address_with("busy", "&pool=6"), &set);
    let (question, stop) = (embedding(&set.rows[..8]), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let searchers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut searches = 0;
                    while !stop.load(Ordering::Relaxed) {
                        // A batch sees one state: the two that are put together are there both, or neither.
                        let found = index.search(&[question.clone(), question.clone()], 600, None);
                        let found = found.unwrap().unwrap();
                        assert_eq!(found[0], found[1]);
                        let pair = found[0].iter().filter(|hit| hit.id.starts_with("pair")).count();
                        assert!(pair % 2 == 0, "{pair}");
                        searches += 1;
                    }
                    searches
                })
            })
            .collect();
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let index: &PostgresIndex = &index;
                scope.spawn(move || {
                    for _ in 0..20 {
                        let ids = [format!("pair-{writer}-a"), format!("pair-{writer}-b")];
                        // Both writers also replace the same passages, in another order.
                        let mut shared = vec![new("p1", &[1.0; 8]), new("p2", &[1.0; 8])];
                        if writer == 1 {
                            shared.reverse();
                        }
                        shared.extend(ids.iter().map(|id| new(id, &[1.0; 8])));
                        index.put(&shared).unwrap();
                        index.delete(&ids).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        stop.store(true, Ordering::Relaxed);
        let searches: usize = searchers.into_iter().map(|searcher| searcher.join().unwrap()).sum();
        assert!(searches > 0);
    });
    assert_eq!(index.refresh().unwrap(), 500);
}
