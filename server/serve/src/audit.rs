//! The audit log: one line for each change to the index, with who made it and how large it is, and nothing of its
//! content.

use std::net::IpAddr;

use axum::extract::Request;

use super::access::Caller;
use super::request_id::RequestId;
use super::state::Ready;
use dpr_index::search::Description;

/// The sender of an update, as the audit log names it.
pub(super) struct Author {
    /// The name of its key, or `-`.
    key: String,
    address: Option<IpAddr>,
    request_id: String,
}

/// A change that is on the disk.
pub(super) enum Change {
    Put { added: usize, replaced: usize },
    Deleted { deleted: usize },
}

impl Author {
    /// Returns the sender of a request.
    pub(super) fn of(request: &Request) -> Self {
        let caller = request.extensions().get::<Caller>();
        let request_id = request.extensions().get::<RequestId>().map_or("-", RequestId::as_str);
        Self {
            key: caller.map_or("-", Caller::name).to_owned(),
            address: caller.and_then(|caller| caller.address),
            request_id: request_id.to_owned(),
        }
    }

    /// Writes the line about a change that was made to this index.
    pub(super) fn log(&self, ready: &Ready, change: Change) {
        let (added, replaced, deleted) = match change {
            Change::Put { added, replaced } => (added, replaced, 0),
            Change::Deleted { deleted } => (0, 0, deleted),
        };
        let Self { key, address, request_id } = self;
        let address = address.map_or_else(|| "-".to_owned(), |address| address.to_string());
        let Description { number: version, changes, .. } = ready.serving.search.describe();
        tracing::info!(
            target: "dpr_audit",
            key, address, added, replaced, deleted, version, changes, request_id,
            "the index was changed"
        );
    }
}
