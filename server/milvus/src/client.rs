//! Calls to a cluster, from threads that wait for them; one policy for what is tried again.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use milvus::v2::error::Error;
use milvus::v2::prelude::{ClientV2, ConnectConfig};
use milvus::v2::{RetryConfig, TelemetryConfig};
use tokio::runtime::{Builder, Runtime};

use super::{MilvusAddress, MilvusError};

/// How long a cluster gets to take a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// How long one call gets.
const CALL: Duration = Duration::from_secs(60);

/// How long a search gets, tries and all: what a request to this program's own server gets.
pub(super) const SEARCH: Duration = Duration::from_secs(10);

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A connection.
pub(super) struct Client {
    pub(super) address: MilvusAddress,
    sdk: ClientV2,
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
    /// Connects; `token` is `user:password` or an API key.
    pub(super) fn connect(address: &MilvusAddress, token: Option<&str>) -> Result<Arc<Self>, MilvusError> {
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name("milvus").enable_all().build()?;
        let mut config = ConnectConfig::new()
            .uri(address.uri())
            .connect_timeout(CONNECT)
            .rpc_timeout(CALL)
            // What is tried again, and for how long, is decided here.
            .retry(RetryConfig::new().max_attempts(1))
            .telemetry(TelemetryConfig::new().enabled(false));
        if let Some(database) = address.database() {
            config = config.database(database);
        }
        if let Some(token) = token {
            config = config.token(token);
        }
        let connected = runtime.block_on(ClientV2::new(&config));
        let sdk = connected.map_err(|error| match error {
            error if is_final(&error) => refused(address, "connecting", &error),
            _ => MilvusError::Down { address: address.to_string(), seconds: CONNECT.as_secs() },
        })?;
        Ok(Arc::new(Self { address: address.clone(), sdk, runtime: Some(runtime) }))
    }

    /// Waits for what only a thread outside of a runtime may wait for.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("a client is used before it is dropped"),
        }
    }

    /// One call, tried again for `patience` while the cluster is away, busy or asks to go slower.
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
            let left = patience.saturating_sub(started.elapsed());
            let reason = match tokio::time::timeout(left.min(CALL), ask(self.sdk.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) if is_final(&error) => return Err(refused(&self.address, what, &error)),
                Ok(Err(error)) => said(&error),
                Err(_) => "no answer".to_owned(),
            };
            if started.elapsed() + pause >= patience {
                let (address, seconds) = (self.address.to_string(), patience.as_secs());
                return Err(MilvusError::Slow { address, what, seconds, reason });
            }
            tracing::debug!("{}: {what}: {reason}; again in {pause:?}", self.address);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// An answer that makes no sense.
    pub(super) fn nonsense(&self, what: impl Into<String>) -> MilvusError {
        MilvusError::Answer { address: self.address.to_string(), what: what.into() }
    }
}

fn refused(address: &MilvusAddress, what: &'static str, error: &Error) -> MilvusError {
    // 100: there is no such collection; 4 is what older servers say.
    if let Error::Server(server) = error
        && (server.code() == 100 || (server.code() == 0 && server.legacy_code() == 4))
    {
        return MilvusError::NoCollection { address: address.to_string() };
    }
    MilvusError::Refused { address: address.to_string(), what, reason: said(error) }
}

/// Why a call failed, without what the client adds.
fn said(error: &Error) -> String {
    match error {
        Error::Grpc(status) => format!("{}: {}", status.code(), status.message()),
        Error::Server(server) => format!("{} (code {})", server.reason(), server.code()),
        Error::RetryExhausted { source, .. } => said(source),
        other => other.to_string(),
    }
}

/// Whether asking again is of no use.
fn is_final(error: &Error) -> bool {
    use tonic_code::{INVALID_ARGUMENT, PERMISSION_DENIED, UNAUTHENTICATED, UNIMPLEMENTED};
    match error {
        Error::Grpc(status) => [INVALID_ARGUMENT, PERMISSION_DENIED, UNIMPLEMENTED, UNAUTHENTICATED]
            .contains(&(status.code() as i32)),
        // Milvus's codes: 100 no such collection, 102 too many, 800 no such database, 1100 what is asked for is
        // wrong, 1400 not allowed.
        Error::Server(server) => {
            matches!(server.code(), 100 | 102 | 800..=899 | 1100..=1199 | 1400..=1499)
                || (server.code() == 0 && matches!(server.legacy_code(), 3 | 4 | 5 | 7 | 9 | 10))
        }
        Error::RetryExhausted { source, .. } => is_final(source),
        Error::Validation(_) | Error::Conversion(_) | Error::MalformedResponse(_) => true,
        _ => false,
    }
}

/// gRPC's status codes (<https://grpc.io/docs/guides/status-codes/>), by number: the client does not export its own.
mod tonic_code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const UNIMPLEMENTED: i32 = 12;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}
