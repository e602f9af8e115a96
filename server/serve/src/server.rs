//! From a socket to an orderly end.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1::Builder;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::patient::Patient;

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process has the port.
    #[error(
        "cannot listen on {listen}: the port is in use; stop the other server or choose another port with --listen (port 0 takes a free one)"
    )]
    InUse {
        /// Address as given.
        listen: String,
    },
    /// A low port without the right to it.
    #[error("cannot listen on {listen}: not permitted; choose a port from 1024 up with --listen")]
    NotPermitted {
        /// Address as given.
        listen: String,
    },
    /// Not an address of this machine, or not an address.
    #[error("cannot listen on {listen}: {source}; give --listen as address:port, such as 127.0.0.1:7878")]
    Other {
        /// Address as given.
        listen: String,
        /// The system's reason.
        source: io::Error,
    },
}

/// Binds `listen`, an `address:port` or `name:port`.
///
/// # Errors
/// [`ListenError`], which names the address and `--listen`.
pub async fn bind(listen: &str) -> Result<TcpListener, ListenError> {
    TcpListener::bind(listen).await.map_err(|source| {
        let listen = listen.to_owned();
        match source.kind() {
            ErrorKind::AddrInUse => ListenError::InUse { listen },
            ErrorKind::PermissionDenied => ListenError::NotPermitted { listen },
            _ => ListenError::Other { listen, source },
        }
    })
}

/// Time between two questions to a client that has sent nothing for a while whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// How the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every request in flight was answered.
    Finished,
    /// Some were not within the time given.
    CutOff,
}

/// How connections are kept.
#[derive(Debug, Clone)]
pub struct Connections {
    /// Connections open at once; the next one waits until one closes.
    pub max: usize,
    /// Time for a request's head, and time that an idle connection is kept, also one that has sent nothing yet.
    pub idle: Duration,
    /// Time that a client may take nothing of its answer.
    pub patience: Duration,
    /// Time that requests in flight get when the server ends.
    pub grace: Duration,
}

impl Default for Connections {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { max: 1024, idle: minute, patience: minute, grace: Duration::from_secs(10) }
    }
}

/// Serves `app` until `shutdown` ends; then takes no new connections, closes idle ones and lets the requests
/// in flight finish.
///
/// `axum::serve` would do but for two things: it lets a client hold a connection open for ever, by not sending its request
/// or not reading its answer, and it takes any number of them. Connections speak HTTP/1 alone: over HTTP/2 each
/// would bring hundreds of requests at once, and telling the two apart waits for a first byte without a limit.
pub async fn run(
    listener: TcpListener,
    app: Router,
    shutdown: impl Future<Output = ()>,
    connections: Connections,
) -> Ended {
    let Connections { max, idle, patience, grace } = connections;
    let places = Arc::new(Semaphore::new(max.clamp(1, Semaphore::MAX_PERMITS)));
    let (stop, stopping) = watch::channel(());
    let mut open = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = open.join_next() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let (socket, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or a client that left at once: neither is a reason to end, and the
                // first would come back at once.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (app, stopping) = (app.clone(), stopping.clone());
        open.spawn(async move {
            converse(socket, app, (idle, patience), stopping).await;
            drop(place);
        });
    }
    drop(listener);
    let _ = stop.send(());
    let finished = async { while open.join_next().await.is_some() {} };
    match tokio::time::timeout(grace, finished).await {
        Ok(()) => Ended::Finished,
        Err(_) => Ended::CutOff,
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> io::Result<(TcpStream, Option<OwnedSemaphorePermit>)> {
    // The semaphore is never closed, so that there always is a permit.
    let place = Arc::clone(places).acquire_owned().await.ok();
    let (socket, _) = listener.accept().await?;
    Ok((socket, place))
}

/// Answers the requests of one connection until it closes or the server stops.
async fn converse(
    socket: TcpStream,
    app: Router,
    (idle, patience): (Duration, Duration),
    mut stopping: watch::Receiver<()>,
) {
    // Small answers should not wait for more data to share a packet with.
    let _ = socket.set_nodelay(true);
    // A client that vanished is asked after, so that a handler need not find out by writing.
    let keepalive = TcpKeepalive::new().with_time(idle.max(KEEPALIVE)).with_interval(KEEPALIVE);
    let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
    let mut builder = Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(idle);
    let socket = TokioIo::new(Patient::new(socket, patience));
    let mut connection = pin!(builder.serve_connection(socket, TowerToHyperService::new(app)));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        _ = stopping.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(target: "dpr_serve", "a connection broke: {error}");
    }
}

/// Ends at the first SIGINT (Ctrl-C) or SIGTERM.
pub async fn shutdown_signal() {
    let interrupt = async {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending::<()>().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
}
