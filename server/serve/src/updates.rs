//! Rights to change the index: whoever has a key for it or, where there are no keys, programs of this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Uri, header};

use super::access::Caller;
use super::error::ApiError;
use super::forwarded::FORWARDED;
use super::host_names::{host_named_by, is_local};
use dpr_core::Embedding;
use dpr_data::Passage;
use dpr_encode::{PassageUpdater, UpdateError};
use dpr_index::search::WriteError;
use dpr_index::{FileError, NewPassage, Put, UpdateError as IndexError};

/// The writing side of a server.
#[derive(Clone, Debug)]
pub struct Updates {
    service: Arc<PassageUpdater>,
    /// `true` once the index had lost its lock.
    is_broken: Arc<AtomicBool>,
}

impl Updates {
    /// Lets in updates that carry a key of the scope `write`, where the server has keys. Without any it lets in those
    /// that neither another machine nor a page of another site can have sent, which is for a server that only its own
    /// machine reaches.
    pub fn new(service: Arc<PassageUpdater>) -> Self {
        Self { service, is_broken: Arc::default() }
    }

    /// Returns the writing side, for a request whose key, if `is_keyed`, was checked.
    pub(super) fn admit(updates: Option<&Self>, is_keyed: bool, request: &Request) -> Result<Self, ApiError> {
        let updates = updates.ok_or(ApiError::UpdatesDisabled)?;
        if !is_keyed {
            refuse_foreign(request.uri(), request.headers())?;
            refuse_remote(request.headers(), request.extensions().get())?;
        }
        Ok(updates.clone())
    }

    /// See [`PassageUpdater::encode`].
    pub(super) fn encode(
        &self,
        passages: Vec<(Passage, Option<Embedding>)>,
        stop: &AtomicBool,
    ) -> Result<Vec<NewPassage>, ApiError> {
        Ok(self.service.encode(passages, stop)?)
    }

    /// See [`PassageUpdater::put`].
    pub(super) fn put(&self, passages: Vec<NewPassage>) -> Result<Put, ApiError> {
        self.written(self.service.put(passages))
    }

    /// See [`PassageUpdater::delete`].
    pub(super) fn delete(&self, ids: Vec<String>) -> Result<usize, ApiError> {
        self.written(self.service.delete(ids))
    }

    /// Returns `true` once an update has failed for a reason that only a restart ends. A log that failed is not one: a
    /// new version has another, and the health of the index tells which it is.
    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    fn written<T>(&self, result: Result<T, UpdateError>) -> Result<T, ApiError> {
        let result = result.inspect_err(|error| {
            if has_lost_lock(error) {
                self.is_broken.store(true, Ordering::Relaxed);
            }
        });
        result.map_err(ApiError::from)
    }
}

/// Returns whether an update failed because the index has lost the lock of its directory.
fn has_lost_lock(error: &UpdateError) -> bool {
    let UpdateError::Write(WriteError::Failed(cause)) = error else { return false };
    matches!(cause.downcast_ref::<IndexError>(), Some(IndexError::File(FileError::LockLost { .. })))
}

/// Refuses what a browser sends for a page that is not this machine's own: a page whose name was made to lead to this
/// machine says so in `host`, or in the `:authority` of HTTP/2, which is in the target, and one of another site in
/// `origin`.
fn refuse_foreign(target: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let mut host = texts(headers, &header::HOST)?;
    host.extend(target.authority().map(Authority::as_str));
    if let Some(host) = host.iter().find(|host| !is_of_this_machine(host)) {
        return Err(foreign(&header::HOST, host));
    }
    let is_own = |origin: &str| {
        let (scheme, at) = origin.split_once("://").unwrap_or_default();
        matches!(scheme, "http" | "https") && host.iter().any(|host| host.eq_ignore_ascii_case(at))
    };
    match texts(headers, &header::ORIGIN)?.into_iter().find(|origin| !is_own(origin)) {
        Some(origin) => Err(foreign(&header::ORIGIN, origin)),
        None => Ok(()),
    }
}

/// Refuses what another machine sends: through a proxy, which says so in a header, or from its own address.
fn refuse_remote(headers: &HeaderMap, caller: Option<&Caller>) -> Result<(), ApiError> {
    for name in [HeaderName::from_static(FORWARDED), header::FORWARDED, header::VIA] {
        if let Some(value) = headers.get(&name) {
            return Err(foreign(&name, &String::from_utf8_lossy(value.as_bytes())));
        }
    }
    match caller.and_then(|caller| caller.address) {
        Some(address) if !address.to_canonical().is_loopback() => {
            Err(ApiError::ForeignUpdate(format!("the request comes from {address}")))
        }
        _ => Ok(()),
    }
}

/// All values of a header.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Vec<&'a str>, ApiError> {
    let values =
        headers.get_all(name).iter().map(|value| value.to_str().map_err(|_| foreign(name, "no text")));
    values.collect()
}

fn foreign(name: &HeaderName, value: &str) -> ApiError {
    let value: String = value.chars().take(100).collect();
    ApiError::ForeignUpdate(format!("the header `{name}` is `{value}`"))
}

/// Returns whether a `host` names the machine that the request was sent on.
fn is_of_this_machine(host: &str) -> bool {
    host_named_by(host).is_some_and(|host| is_local(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_refused(target: &str, headers: &[(HeaderName, &'static str)]) -> bool {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        refuse_foreign(&target.parse().unwrap(), &headers).is_err()
    }

    #[test]
    fn only_an_index_that_has_lost_its_lock_is_broken_until_a_restart() {
        let path = || std::path::PathBuf::from("index/updates-1.log");
        let failed = |error: IndexError| UpdateError::from(WriteError::from(error));
        assert!(has_lost_lock(&failed(FileError::LockLost { path: path() }.into())));
        // The next compaction begins another log.
        assert!(!has_lost_lock(&failed(IndexError::LogBroken { path: path(), reason: "no space".into() })));
        assert!(!has_lost_lock(&failed(FileError::Missing { path: path() }.into())));
    }

    #[test]
    fn pages_of_this_machine_may_update_over_both_versions_of_http_and_no_others() {
        const PATH: &str = "/v1/passages";
        const WHOLE: &str = "https://localhost:7878/v1/passages";
        let own = (header::ORIGIN, "https://localhost:7878");
        let host = (header::HOST, "localhost:7878");
        for (target, headers, expected) in [
            (PATH, vec![host.clone(), own.clone()], false),
            (PATH, vec![host.clone()], false),
            (WHOLE, vec![own.clone()], false),
            (WHOLE, vec![(header::ORIGIN, "https://page.example")], true),
            (WHOLE, vec![(header::ORIGIN, "https://localhost:7879")], true),
            ("https://page.example/v1/passages", vec![own.clone()], true),
            ("https://page.example/v1/passages", vec![(header::ORIGIN, "https://page.example")], true),
            ("https://page.example/v1/passages", vec![], true),
            (PATH, vec![own], true),
            (PATH, vec![(header::HOST, "page.example")], true),
            (PATH, vec![(header::HOST, "localhost.:7878")], false),
            (PATH, vec![(header::HOST, "app.localhost:7878")], false),
            (PATH, vec![(header::HOST, "localhost.page.example")], true),
        ] {
            assert_eq!(is_refused(target, &headers), expected, "{target} {headers:?}");
        }
    }
}
