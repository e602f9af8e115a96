//! Calls to a cluster, for threads that wait for them, and the policy of retries.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use milvus::v2::error::Error;
use milvus::v2::prelude::{ClientV2, ConnectConfig};
use milvus::v2::{RetryConfig, TelemetryConfig};
use tokio::runtime::{Builder, Runtime};

use super::{MilvusAddress, MilvusError};
use dpr_index::search::ServiceError;

/// Timeout of a connection, but for a load's, which has [`CALL`].
const CONNECT: Duration = Duration::from_secs(10);

/// Timeout of one call.
const CALL: Duration = Duration::from_secs(60);

/// Timeout of a search with its retries: that of a request to `dpr serve`.
pub(super) const SEARCH: Duration = Duration::from_secs(10);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A connection.
pub(super) struct Client {
    pub(super) address: MilvusAddress,
    sdk: ClientV2,
    /// The time that one try, the first connection's too, and work of the cluster that makes no progress, may take even
    /// where a call has less patience than that.
    pub(super) least: Duration,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // Dropping a runtime waits for it, which must not happen on a thread that serves sockets.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Client {
    /// Connects for searches and changes, whose tries end with their patience; `token` is `user:password` or an API key.
    pub(super) fn connect(address: &MilvusAddress, token: Option<&str>) -> Result<Arc<Self>, MilvusError> {
        Self::connect_with(address, token, Duration::ZERO)
    }

    /// Connects for a load: its patience is for a cluster that is away or limits the rate, and one that answers slowly
    /// has [`CALL`] for each try.
    pub(super) fn connect_to_load(
        address: &MilvusAddress,
        token: Option<&str>,
    ) -> Result<Arc<Self>, MilvusError> {
        Self::connect_with(address, token, CALL)
    }

    fn connect_with(
        address: &MilvusAddress,
        token: Option<&str>,
        least: Duration,
    ) -> Result<Arc<Self>, MilvusError> {
        if token.is_some() && address.is_clear() {
            tracing::warn!("{address}: the credentials cross the network unencrypted: use milvus+tls://");
        }
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name("milvus").enable_all().build();
        let runtime = runtime.map_err(ServiceError::Runtime)?;
        let connect = CONNECT.max(least);
        let mut config = ConnectConfig::new()
            .uri(address.uri())
            .connect_timeout(connect)
            .rpc_timeout(CALL)
            // `call` decides which calls are tried again.
            .retry(RetryConfig::new().max_attempts(1))
            .telemetry(TelemetryConfig::new().enabled(false));
        if let Some(database) = address.database() {
            config = config.database(database);
        }
        if let Some(token) = token {
            config = config.token(token);
        }
        let connected = runtime.block_on(ClientV2::new(&config));
        let sdk = connected.map_err(|error| not_connected(address, connect, &error))?;
        Ok(Arc::new(Self { address: address.clone(), sdk, least, runtime: Some(runtime) }))
    }

    /// Waits for a future, on a thread outside of any runtime.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("a client is used before it is dropped"),
        }
    }

    /// Makes a call, and makes it again for `patience` while the cluster is away, busy or limits the rate.
    pub(super) async fn call<T, F>(
        &self,
        what: &'static str,
        patience: Duration,
        ask: impl Fn(ClientV2) -> F,
    ) -> Result<T, MilvusError>
    where
        F: Future<Output = milvus::v2::error::Result<T>>,
    {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let left = patience.saturating_sub(started.elapsed()).max(self.least);
            let reason = match tokio::time::timeout(left.min(CALL), ask(self.sdk.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if is_final(&error) => return Err(refused(&self.address, what, &error)),
                Ok(Err(error)) => said(what, &error),
                Err(_) => "no answer".to_owned(),
            };
            if started.elapsed() + pause >= patience {
                let (address, seconds) = (self.address.to_string(), started.elapsed().as_secs());
                return Err(ServiceError::Unavailable { address, what, seconds, reason }.into());
            }
            tracing::debug!("{}: {what}: {reason}; again in {pause:?}", self.address);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns the error of an answer that cannot be understood; `what` must not quote a passage.
    pub(super) fn nonsense(&self, what: impl Into<String>) -> MilvusError {
        MilvusError::Answer { address: self.address.to_string(), what: what.into() }
    }
}

/// Returns the error of a collection that is not there.
pub(super) fn missing(address: &MilvusAddress) -> ServiceError {
    ServiceError::Missing { address: address.to_string(), what: "collection" }
}

/// Returns the error of a first connection that was not made, with its cause.
fn not_connected(address: &MilvusAddress, timeout: Duration, error: &Error) -> MilvusError {
    if is_final(error) {
        return refused(address, "connecting", error);
    }
    let (address, reason) = (address.to_string(), said("connecting", error));
    MilvusError::Down { address, seconds: timeout.as_secs(), reason }
}

fn refused(address: &MilvusAddress, what: &'static str, error: &Error) -> MilvusError {
    // 100: collection not found; 4 in older servers.
    if let Error::Server(server) = error
        && (server.code() == 100 || (server.code() == 0 && server.legacy_code() == 4))
    {
        return missing(address).into();
    }
    ServiceError::Refused { address: address.to_string(), what, reason: said(what, error) }.into()
}

/// Calls with a filter or with passages. The messages of their errors may quote them.
const WITH_VALUES: [&str; 4] = ["searching", "looking passages up", "deleting passages", "writing passages"];

/// Returns why a call failed: the message, or its codes alone where it may quote a passage or a filter.
fn said(what: &str, error: &Error) -> String {
    let is_quiet = WITH_VALUES.contains(&what);
    match error {
        Error::Grpc(status) if is_quiet => status.code().to_string(),
        Error::Grpc(status) => format!("{}: {}", status.code(), status.message()),
        Error::Server(server) if is_quiet => {
            let limited = if server.reason().contains("rate limit") { "rate limit exceeded, " } else { "" };
            format!("{limited}code {}, {}", server.code(), server.legacy_code())
        }
        Error::Server(server) => format!("{} (code {})", server.reason(), server.code()),
        Error::RetryExhausted { source, .. } => said(what, source),
        _ if is_quiet => "the client failed".to_owned(),
        other => other.to_string(),
    }
}

/// Returns `true` if another try cannot succeed.
fn is_final(error: &Error) -> bool {
    use tonic_code::{INVALID_ARGUMENT, PERMISSION_DENIED, UNAUTHENTICATED, UNIMPLEMENTED};
    match error {
        Error::Grpc(status) => [INVALID_ARGUMENT, PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED]
            .contains(&(status.code() as i32)),
        // Milvus's codes: 100 collection not found, 102 too many collections, 800 database not found, 1100 invalid
        // parameter, 1400 privileges.
        Error::Server(server) => {
            matches!(server.code(), 100 | 102 | 800..=899 | 1100..=1199 | 1400..=1499)
                || (server.code() == 0 && matches!(server.legacy_code(), 3 | 4 | 5 | 7 | 9 | 10))
        }
        Error::RetryExhausted { source, .. } => is_final(source),
        Error::Validation(_) | Error::Conversion(_) | Error::MalformedResponse(_) => true,
        _ => false,
    }
}

/// gRPC's status codes (<https://grpc.io/docs/guides/status-codes/>), by number: the client does not export them.
mod tonic_code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_was_not_made_is_told_with_its_cause() {
        let address: MilvusAddress = "milvus://db.example.org/wiki".parse().unwrap();
        let error = not_connected(&address, CONNECT, &Error::Unexpected("tls handshake eof".into()));
        assert!(matches!(error, MilvusError::Down { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("tls handshake eof") && text.contains("db.example.org"), "{text}");
        let error = not_connected(&address, CONNECT, &Error::MalformedResponse("not gRPC".into()));
        assert!(error.to_string().contains("refuses (connecting): "), "{error}");
    }

    #[test]
    fn errors_of_calls_with_values_are_told_without_their_messages() {
        let error = Error::MalformedResponse("title in [\"secret\"]".into());
        let retried = Error::RetryExhausted { attempts: 2, source: Box::new(error.clone()) };
        for what in WITH_VALUES {
            assert!(!said(what, &error).contains("secret") && !said(what, &retried).contains("secret"));
        }
        assert!(said("describing the collection", &error).contains("secret"));
    }
}
