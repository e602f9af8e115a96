//! The command line and the server with a Milvus cluster in the place of an index directory.

use super::server::Server;
use super::service::Service;
use crate::support::common::{Bench, fail};

fn service(server: &Server, collection: &str) -> Service {
    let address = server.address(collection).to_string();
    Service { address, kind: "milvus", called: "Milvus", environment: &[] }
}

#[test]
fn a_corpus_goes_into_a_cluster_shard_by_shard_and_is_searched_measured_and_changed_there() {
    let Some(server) = Server::get() else { return };
    let bench = Bench::new();
    service(&server, "cli").takes_a_corpus(&bench);
    let refused = bench.dpr(&["index", "verify", "--index", "milvus://nowhere"]).output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("it names no collection"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_token_that_is_not_utf_8_is_refused_and_not_shown() {
    use std::os::unix::ffi::OsStrExt as _;
    let token = std::ffi::OsStr::from_bytes(b"root:secret\xff");
    let delete = ["index", "delete", "--index", "milvus://127.0.0.1:1/wiki", "p1"];
    let error = fail(Bench::new().dpr(&delete).env("DPR_MILVUS_TOKEN", token));
    assert!(error.contains("DPR_MILVUS_TOKEN is not UTF-8") && !error.contains("secret"), "{error}");
}

#[test]
fn a_server_answers_from_a_cluster() {
    let Some(server) = Server::get() else { return };
    service(&server, "served").is_served(&Bench::new(), None);
}
