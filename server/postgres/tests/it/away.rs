//! A server that is away, silent, or refuses.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use dpr_files::progress::Silent;
use dpr_index::NewPassage;
use dpr_index::search::{Backend, ServiceError};
use dpr_postgres::{LoadOptions, PostgresAddress, PostgresError, PostgresIndex, load};

use super::server::Server;
use super::{embedding, filled, found, set};

#[test]
fn a_server_that_is_not_there_is_said_to_be() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address: PostgresAddress = format!("postgres://u:secret@{free}/d").parse().unwrap();
    let error = PostgresIndex::open(&address).unwrap_err();
    assert!(matches!(error, PostgresError::Service(ServiceError::Unavailable { .. })), "{error}");
    assert!(
        error.to_string().contains(&free.to_string()) && !error.to_string().contains("secret"),
        "{error}"
    );
}

#[test]
fn a_server_that_takes_connections_and_does_not_answer_is_not_waited_for_forever() {
    // Connections are taken by the kernel; nobody reads from them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = silent.local_addr().unwrap();
    let address = format!("postgres://u@{place}/d?connect_timeout=1").parse().unwrap();
    let started = Instant::now();
    let error = PostgresIndex::open(&address).unwrap_err();
    assert!(matches!(error, PostgresError::Service(ServiceError::Unavailable { .. })), "{error}");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn searches_and_updates_fail_while_the_server_is_away_and_go_on_when_it_is_back() {
    let Some(mut server) = Server::get() else { return };
    let set = set(50, 8);
    let index = filled(&server.address("away"), &set);
    let question = embedding(&set.rows[..8]);
    let before = found(&index, &question, 3, None);
    // Several connections of before are in the pool.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| found(&index, &question, 3, None));
        }
    });
    server.kill();
    let error = index.search(std::slice::from_ref(&question), 3, None).unwrap_err();
    assert!(matches!(error, PostgresError::Service(ServiceError::Unavailable { .. })), "{error}");
    let error = index.delete(&["p1".into()]).unwrap_err();
    assert!(matches!(error, PostgresError::Service(ServiceError::Unavailable { .. })), "{error}");
    assert_eq!(Backend::health(&index).away_for, None, "nobody has asked yet");
    assert!(Backend::refresh(&index).is_err());
    assert!(Backend::health(&index).away_for.is_some());
    server.start_again();
    assert_eq!(found(&index, &question, 3, None), before, "the first search after it is back");
    let passage = dpr_data::Passage::new("new", "", "Text.");
    index.put(&[NewPassage { passage, vector: question.clone() }]).unwrap();
    assert_eq!(index.refresh().unwrap(), 51);
    Backend::refresh(&index).unwrap();
    assert_eq!(Backend::health(&index).away_for, None);
}

#[test]
fn a_session_that_the_server_ended_is_not_noticed() {
    let Some(server) = Server::get() else { return };
    let set = set(50, 8);
    let index = filled(&server.address("ended"), &set);
    let question = embedding(&set.rows[..8]);
    for _ in 0..20 {
        assert_eq!(found(&index, &question, 3, None).len(), 3);
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dpr'");
    }
}

#[test]
fn a_search_that_takes_too_long_is_ended() {
    let Some(server) = Server::get() else { return };
    let set = set(50, 8);
    let address = server.address_with("slow", "&timeout=1");
    let index = filled(&address, &set);
    let question = embedding(&set.rows[..8]);
    let started = Instant::now();
    std::thread::scope(|scope| {
        // It waits for a lock that somebody else holds.
        let holder = scope.spawn(|| {
            server.sql("BEGIN; LOCK TABLE slow IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(4); COMMIT")
        });
        while server
            .texts(
                "SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND relation = 'slow'::regclass",
            )
            .is_empty()
        {
            std::thread::sleep(Duration::from_millis(10));
        }
        let error = index.search(std::slice::from_ref(&question), 3, None).unwrap_err();
        assert!(matches!(error, PostgresError::Service(ServiceError::Unavailable { .. })), "{error}");
        assert!(started.elapsed() < Duration::from_secs(4), "it was waited for");
        holder.join().unwrap();
    });
    assert_eq!(found(&index, &question, 3, None).len(), 3);
}

#[test]
fn what_the_server_refuses_is_told_without_the_password() {
    let Some(server) = Server::get() else { return };
    let right = server.address("x");
    let place = right.to_string().split('@').nth(1).unwrap().split('/').next().unwrap().to_owned();
    let open = |address: String| {
        let error = PostgresIndex::open(&address.parse().unwrap()).unwrap_err();
        assert!(matches!(error, PostgresError::Service(ServiceError::Refused { .. })), "{error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("wrong-secret"), "{shown}");
        shown
    };
    assert!(open(format!("postgres://dpr:wrong-secret@{place}/postgres")).contains("28P01"));
    assert!(open(format!("postgres://dpr:dpr@{place}/nowhere")).contains("3D000"));
    // This server has no TLS.
    open(format!("postgres://dpr:dpr@{place}/postgres?sslmode=require"));
    // A user who may read, and not make a table.
    server.sql("DROP ROLE IF EXISTS reader; CREATE ROLE reader LOGIN PASSWORD 'reader'");
    let address = format!("postgres://reader:reader@{place}/postgres?table=forbidden").parse().unwrap();
    let error = load(&address, &set(5, 8), &LoadOptions::default(), &Silent).unwrap_err();
    assert!(matches!(error, PostgresError::Service(ServiceError::Refused { .. })), "{error}");
}
