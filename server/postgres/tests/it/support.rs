//! What the tests of the other crates share.

#[path = "../../../tests/it/support/after.rs"]
pub(crate) mod after;
#[path = "../../../tests/it/support/python_server.rs"]
pub(crate) mod python_server;
