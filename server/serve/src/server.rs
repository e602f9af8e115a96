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
use super::open::{ClosedConnections, OpenConnections, Opened};
use super::places::{Place, Places};
use super::tls::Tls;

/// The reason why the server cannot listen.
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

/// The way in which the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every request in flight was answered.
    Finished,
    /// Some were not within the time given.
    CutOff,
}

/// Options of connections.
#[derive(Debug, Clone)]
pub struct Connections {
    /// Connections open at once, and beside them requests that HTTP/2 connections send beside each other.
    pub max: usize,
    /// Connections that one client may have open: an address, or an IPv6 network of 64 bits. More are closed at once.
    /// HTTP/2 requests beside each other have as many places of their own, and wait for one. Clients on this machine
    /// may have any number, and so may all where there is no limit.
    pub max_of_client: Option<usize>,
    /// Counts those that are closed at once: [`AppState::closed_connections`](crate::AppState::closed_connections).
    pub closed: ClosedConnections,
    /// The time without a request after which the longest idle connection is closed, where `max` connections are open.
    pub spare: Duration,
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
    /// The routes by which a few connections above `max` are answered, one request each:
    /// [`health_app`](crate::health_app). Without it they wait.
    pub health: Option<Router>,
}

impl Default for Connections {
    fn default() -> Self {
        let (seconds, minute) = (Duration::from_secs(10), Duration::from_secs(60));
        Self {
            max: 1024,
            max_of_client: None,
            closed: ClosedConnections::default(),
            spare: Duration::from_secs(5),
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
    let (mut running, open) = (JoinSet::new(), OpenConnections::new(connections.closed.clone()));
    let mut shutdown = pin!(shutdown);
    loop {
        let are_full = places.are_full();
        if are_full {
            // So that the next client finds a place. One that was closed reconnects with its next request.
            open.close_longest_idle(connections.spare);
        }
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = running.join_next() => continue,
            () = tokio::time::sleep(LOOK_AGAIN), if are_full => continue,
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
        let Some(opened) = open.add(peer.ip(), connections.max_of_client) else {
            tracing::debug!(target: "dpr_serve", "a connection was closed: its client has too many");
            continue;
        };
        let connection = connections.of(peer, opened, &app, place.is_reserve, &places, &stopping);
        running.spawn(async move {
            connection.converse(socket).await;
            drop(place);
        });
    }
    drop(listener);
    let _ = stop.send(());
    let finished = async { while running.join_next().await.is_some() {} };
    match tokio::time::timeout(connections.grace, finished).await {
        Ok(()) => Ended::Finished,
        Err(_) => Ended::CutOff,
    }
}

/// Time after which a server whose places are all taken looks for an idle connection again.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Time that a connection of the reserve has for each of its steps.
const RESERVE_TIME: Duration = Duration::from_secs(5);

impl Connections {
    fn of(
        &self,
        peer: SocketAddr,
        opened: Opened,
        app: &Router,
        is_reserve: bool,
        places: &Places,
        stopping: &watch::Receiver<()>,
    ) -> Connection {
        let reserve = self.health.as_ref().filter(|_| is_reserve);
        let time = |time: Duration| if is_reserve { time.min(RESERVE_TIME) } else { time };
        Connection {
            peer,
            opened,
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
