//! From a socket to an orderly end.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::places::{Place, Places};
use super::tls::Tls;

/// Why the server cannot listen.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process has the port.
    #[error(
        "cannot listen on {listen}: the port is in use; stop the other server or choose another port (port 0 takes a free one)"
    )]
    InUse {
        /// Address as given.
        listen: String,
    },
    /// A low port without the right to it.
    #[error("cannot listen on {listen}: not permitted; choose a port from 1024 up")]
    NotPermitted {
        /// Address as given.
        listen: String,
    },
    /// Not an address of this machine, or not an address.
    #[error("cannot listen on {listen}: {source}; give an address and a port, such as 127.0.0.1:7878")]
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
/// [`ListenError`], which names the address.
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
    /// Connections open at once, and beside them requests that HTTP/2 connections send beside each other.
    pub max: usize,
    /// Time for a request's head, and time that an idle connection is kept, also one that has sent nothing yet.
    pub idle: Duration,
    /// Time that a client may take too little of its answer.
    pub patience: Duration,
    /// Time for the handshake of TLS.
    pub handshake: Duration,
    /// Time that requests in flight get when the server ends.
    pub grace: Duration,
    /// Certificate and key: with them connections speak TLS, and HTTP/2 with clients that want it.
    pub tls: Option<Arc<Tls>>,
    /// What a few connections above `max` are answered by, one request each: [`health_app`](crate::health_app).
    /// Without it they wait.
    pub health: Option<Router>,
}

impl Default for Connections {
    fn default() -> Self {
        let (seconds, minute) = (Duration::from_secs(10), Duration::from_secs(60));
        Self {
            max: 1024,
            idle: minute,
            patience: minute,
            handshake: seconds,
            grace: seconds,
            tls: None,
            health: None,
        }
    }
}

/// Serves `app` until `shutdown` ends; then takes no new connections, closes idle ones and lets the requests
/// in flight finish. Requests have their sender's address in [`ConnectInfo`](axum::extract::ConnectInfo).
///
/// `axum::serve` would do but for two things: it lets a client hold a connection open for ever, by not sending its
/// request or not reading its answer, and it takes any number of them. Without TLS connections speak HTTP/1 alone:
/// telling the two apart by their first bytes would wait for those without a limit.
pub async fn run(
    listener: TcpListener,
    app: Router,
    shutdown: impl Future<Output = ()>,
    connections: Connections,
) -> Ended {
    let places = Places::new(connections.max, connections.health.is_some());
    let (stop, stopping) = watch::channel(());
    let mut open = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = open.join_next() => continue,
            accepted = accept(&listener, &places) => accepted,
        };
        let (socket, peer, place) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, or a client that left at once: neither is a reason to end, and the
                // first would come back at once.
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let connection = connections.of(peer, &app, place.is_reserve, &places, &stopping);
        open.spawn(async move {
            connection.converse(socket).await;
            drop(place);
        });
    }
    drop(listener);
    let _ = stop.send(());
    let finished = async { while open.join_next().await.is_some() {} };
    match tokio::time::timeout(connections.grace, finished).await {
        Ok(()) => Ended::Finished,
        Err(_) => Ended::CutOff,
    }
}

/// Time that a connection of the reserve has for each of its steps.
const RESERVE_TIME: Duration = Duration::from_secs(5);

impl Connections {
    fn of(
        &self,
        peer: SocketAddr,
        app: &Router,
        is_reserve: bool,
        places: &Places,
        stopping: &watch::Receiver<()>,
    ) -> Connection {
        let reserve = self.health.as_ref().filter(|_| is_reserve);
        let time = |time: Duration| if is_reserve { time.min(RESERVE_TIME) } else { time };
        Connection {
            peer,
            app: reserve.unwrap_or(app).clone(),
            tls: self.tls.clone(),
            idle: time(self.idle),
            patience: time(self.patience),
            handshake: time(self.handshake),
            is_single: is_reserve,
            places: places.clone(),
            stopping: stopping.clone(),
        }
    }
}

async fn accept(listener: &TcpListener, places: &Places) -> io::Result<(TcpStream, SocketAddr, Place)> {
    let place = places.take().await;
    let (socket, peer) = listener.accept().await?;
    // Another may have ended while this one was waited for.
    Ok((socket, peer, places.or_better(place)))
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
