//! Connections to a server, for threads that wait for them, and one policy for what is tried again.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use dpr_index::search::ServiceError;
use tokio::runtime::Builder;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client as Connection, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::Tls;
use crate::failure::Failure;
use crate::table::quoted;
use crate::{PostgresAddress, PostgresError, password, tls};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The time limits of a call, and the behaviour when it fails.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    /// The time that one try may take.
    pub(crate) each: Duration,
    /// The time for which it is tried again while the server is away; 0 for not at all.
    pub(crate) patience: Duration,
    /// `true` if it may be done twice: when a connection breaks, nobody knows whether the server had done it.
    pub(crate) again: bool,
}

/// A pool of connections to the server of one table.
pub(crate) struct Client {
    pub(crate) address: PostgresAddress,
    pool: Pool,
    tls: Option<MakeRustlsConnect>,
    /// `None` only while it is dropped.
    runtime: Option<tokio::runtime::Runtime>,
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
    /// Makes a pool of up to `connections`; the first call connects.
    pub(crate) fn new(address: &PostgresAddress, connections: usize) -> Result<Arc<Self>, PostgresError> {
        let runtime =
            Builder::new_multi_thread().worker_threads(2).thread_name("postgres").enable_all().build();
        let runtime = runtime.map_err(ServiceError::Runtime)?;
        let tls = tls::connector(address)?;
        if tls.is_none() && !address.is_this_machine() {
            tracing::warn!(
                "{address}: questions and passages cross the network unencrypted (sslmode=disable)"
            );
        }
        let manager_config = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let config = config(address)?;
        let manager = match &tls {
            Some(tls) => Manager::from_config(config, tls.clone(), manager_config),
            None => Manager::from_config(config, NoTls, manager_config),
        };
        let pool = Pool::builder(manager)
            .max_size(connections)
            .runtime(Runtime::Tokio1)
            .create_timeout(Some(address.connect_timeout))
            .wait_timeout(Some(address.timeout))
            .recycle_timeout(Some(address.connect_timeout))
            .build()
            .map_err(|error| ServiceError::Runtime(std::io::Error::other(error.to_string())))?;
        Ok(Arc::new(Self { address: address.clone(), pool, tls, runtime: Some(runtime) }))
    }

    /// Waits for a future, on a thread outside of any runtime.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        match &self.runtime {
            Some(runtime) => runtime.block_on(future),
            None => unreachable!("a client is used before it is dropped"),
        }
    }

    /// Does some work on a connection, and does it again for `limit.patience` while the server is away. A connection on
    /// which it failed is closed, and with it the transaction that was open.
    pub(crate) async fn call<T>(
        &self,
        what: &'static str,
        limit: Limit,
        work: impl AsyncFn(&Connection) -> Result<T, Failure>,
    ) -> Result<T, PostgresError> {
        let (started, mut pause, mut broken) = (Instant::now(), FIRST_PAUSE, 0);
        loop {
            let (reason, is_done_again) = match self.once(limit, &work).await {
                Ok(done) => return Ok(done),
                Err(Failure::Own(error)) => return Err(error),
                Err(Failure::Refused(reason)) => {
                    return Err(
                        ServiceError::Refused { address: self.address.to_string(), what, reason }.into()
                    );
                }
                Err(Failure::Value(reason)) => {
                    return Err(PostgresError::Value { table: quoted(&self.address), what, reason });
                }
                Err(Failure::Stale(reason)) => (reason, true),
                Err(Failure::Broken(reason)) => (reason, limit.again),
                Err(Failure::Away(reason)) => (reason, false),
            };
            // All connections of the pool may be from before the server was started again.
            broken += 1;
            if is_done_again && broken <= self.pool.status().max_size {
                continue;
            }
            if !limit.again || started.elapsed() + pause >= limit.patience {
                let (address, seconds) = (self.address.to_string(), started.elapsed().as_secs());
                return Err(ServiceError::Unavailable { address, what, seconds, reason }.into());
            }
            tracing::debug!("{}: {what}: {reason}; again in {pause:?}", self.address);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn once<T>(
        &self,
        limit: Limit,
        work: &impl AsyncFn(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let connection = self.pool.get().await?;
        let whole = async {
            if !limit.again {
                let answer = connection.batch_execute("").await.map_err(Failure::from);
                answer.map_err(|failure| match failure {
                    Failure::Broken(reason) => Failure::Stale(reason),
                    other => other,
                })?;
            }
            work(&connection).await
        };
        let outcome = match tokio::time::timeout(limit.each, whole).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Failure::Away("no answer in time".into())),
        };
        if outcome.is_err() {
            drop(Object::take(connection));
        }
        outcome
    }

    /// Asks the server to end what a connection is doing.
    pub(crate) async fn cancel(&self, connection: &Connection) {
        let token = connection.cancel_token();
        let answer = match &self.tls {
            Some(tls) => token.cancel_query(tls.clone()).await,
            None => token.cancel_query(NoTls).await,
        };
        if let Err(error) = answer {
            tracing::warn!("{}: what is being done could not be cancelled: {error}", self.address);
        }
    }
}

fn config(address: &PostgresAddress) -> Result<Config, PostgresError> {
    let mut config = Config::new();
    config
        .user(&address.user)
        .dbname(&address.database)
        .host(&address.host)
        .port(address.port)
        .application_name("dpr")
        .connect_timeout(address.connect_timeout)
        .keepalives_idle(Duration::from_secs(60))
        .ssl_mode(if address.tls == Tls::Disable { SslMode::Disable } else { SslMode::Require });
    if let Some(password) = password::of(address)? {
        config.password(password.reveal());
    }
    Ok(config)
}
