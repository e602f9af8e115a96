//! The command line and the server with a table of PostgreSQL in the place of an index directory.

use super::postgres_server::Server;
use super::service::Service;
use crate::support::common::{Bench, fail};

/// A table, whose password is in the environment and not in the address.
fn service(server: &Server, table: &str) -> Service {
    Service {
        address: server.address(table).to_string(),
        kind: "postgres",
        called: "PostgreSQL",
        environment: &[("PGPASSWORD", "dpr")],
    }
}

#[test]
fn a_corpus_goes_into_a_table_shard_by_shard_and_is_searched_measured_and_changed_there() {
    let Some(server) = Server::get() else { return };
    let (bench, service) = (Bench::new(), service(&server, "cli"));
    service.takes_a_corpus(&bench);
    assert_eq!(server.texts("SELECT count(*) FROM cli"), ["60"]);
    let search = |index: &str| service.dpr(&bench, &["search", "--model", "model", "--index", index, "w31"]);
    let error = fail(&mut search(&format!("{}_not", service.address)));
    assert!(error.contains("the table does not exist") && error.contains("dpr index --vectors"), "{error}");
    let error = fail(search(&service.address).env("PGPASSWORD", "no"));
    assert!(error.contains("28P01"), "{error}");
    let verify = ["index", "verify", "--index", "postgres://u:secret@nowhere"];
    let refused = service.dpr(&bench, &verify).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("it names no database"), "{error}");
    assert!(error.contains("--index") && !error.contains("secret"), "{error}");
}

#[test]
fn a_server_answers_from_a_table_and_sees_what_others_change() {
    let Some(server) = Server::get() else { return };
    // A transaction of the application that owns the database.
    let change = || server.sql("UPDATE served SET text = 'Changed.' WHERE id = 'new'");
    service(&server, "served").is_served(&Bench::new(), Some((&change, "Changed.")));
}
