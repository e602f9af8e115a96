//! One connection: from its first byte, over TLS where there is some, through its requests to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tower::ServiceExt as _;

use super::activity::Overdue;
use super::crowded::Crowded;
use super::open::Opened;
use super::patient::Patient;
use super::places::Places;
use super::tls::{HTTP_2, Tls};
use super::trace::Scheme;

/// Time between two questions to a client that has sent nothing for a while whether it is still there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Time for a connection that is to be closed to send what it has.
const CLOSING: Duration = Duration::from_secs(1);

/// Requests that one HTTP/2 connection may send beside each other.
const STREAMS: u32 = 16;

/// Bytes of the headers of one HTTP/2 request.
const HEADERS: u32 = 16 << 10;

/// Bytes of an HTTP/2 answer that wait for the client.
const SEND_BUFFER: usize = 128 << 10;

/// A connection that was accepted.
pub(super) struct Connection {
    pub(super) peer: SocketAddr,
    /// Its place among the open connections, one of which is closed where there are too many.
    pub(super) opened: Opened,
    /// Answers its requests.
    pub(super) app: Router,
    pub(super) tls: Option<Arc<Tls>>,
    /// Time without a request after which it is closed, also before the first one.
    pub(super) idle: Duration,
    /// Time that the client may take too little of an answer.
    pub(super) patience: Duration,
    /// Time for the handshake of TLS.
    pub(super) handshake: Duration,
    /// `true` if it answers one request alone.
    pub(super) is_single: bool,
    /// The places that requests beside each other take, one each.
    pub(super) places: Places,
    pub(super) stopping: watch::Receiver<()>,
}

impl Connection {
    /// Answers requests until the connection closes or the server stops.
    pub(super) async fn converse(self, socket: TcpStream) {
        // Small answers should not wait for more data to share a packet with.
        let _ = socket.set_nodelay(true);
        // A client that vanished is asked after, so that a handler need not find out by writing.
        let keepalive = TcpKeepalive::new().with_time(self.idle.max(KEEPALIVE)).with_interval(KEEPALIVE);
        let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
        let socket = Patient::new(socket, self.patience, Arc::clone(&self.opened.activity));
        let Some(tls) = self.tls.clone() else { return self.http_1(socket).await };
        let mut stopping = self.stopping.clone();
        let accepted = tokio::select! {
            accepted = timeout(self.handshake, tls.acceptor().accept(socket)) => accepted,
            _ = stopping.changed() => return,
        };
        match accepted {
            Ok(Ok(socket)) if socket.get_ref().1.alpn_protocol() == Some(HTTP_2) => self.http_2(socket).await,
            Ok(Ok(socket)) => self.http_1(socket).await,
            Ok(Err(error)) => tracing::debug!(target: "dpr_serve", "a TLS handshake failed: {error}"),
            Err(_) => tracing::debug!(target: "dpr_serve", "a TLS handshake took too long"),
        }
    }

    fn scheme(&self) -> Scheme {
        Scheme(if self.tls.is_some() { "https" } else { "http" })
    }

    async fn http_1(mut self, socket: impl AsyncRead + AsyncWrite + Unpin + Send) {
        let scheme = self.scheme();
        let (peer, app, activity) = (self.peer, self.app, Arc::clone(&self.opened.activity));
        let watched = Arc::clone(&activity);
        let service = service_fn(move |request| {
            let (app, (in_progress, _)) = (app.clone(), watched.begin());
            async move {
                let response = answer(app, peer, scheme, request).await?;
                Ok::<_, Infallible>(response.map(|body| in_progress.watch(body, ())))
            }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(self.idle).keep_alive(!self.is_single);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            _ = self.stopping.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = activity.closed() => {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(CLOSING, connection).await;
                return;
            }
        };
        report(ended);
    }

    async fn http_2(mut self, socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let activity = Arc::clone(&self.opened.activity);
        let (peer, app, places, wait) = (self.peer, self.app, self.places, self.idle);
        let (is_single, scheme, share) = (self.is_single, Scheme("https"), self.opened.share());
        let watched = Arc::clone(&activity);
        let service = service_fn(move |mut request: Request<Incoming>| {
            let (app, places, share) = (app.clone(), places.clone(), share.clone());
            let (in_progress, is_only) = watched.begin();
            if is_single {
                // No further stream is taken; this one is answered.
                watched.close();
            }
            async move {
                // A connection has one place. Requests that it sends beside each other take theirs as connections do, and
                // count in the share of their client.
                let mut place = None;
                if !is_only {
                    let take = async { (share.take_for_request().await, places.take_for_request().await) };
                    place = timeout(wait, take).await.ok();
                    if place.is_none() {
                        request.extensions_mut().insert(Crowded);
                    }
                }
                let response = answer(app, peer, scheme, request).await?;
                Ok::<_, Infallible>(response.map(|body| in_progress.watch(body, place)))
            }
        });
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .max_header_list_size(HEADERS)
            .max_send_buf_size(SEND_BUFFER)
            .keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE);
        let mut connection = pin!(builder.serve_connection(TokioIo::new(socket), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            _ = self.stopping.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = activity.closed() => {
                connection.as_mut().graceful_shutdown();
                let _ = timeout(CLOSING, connection).await;
                return;
            }
            overdue = activity.overdue(self.idle, self.patience) => {
                if overdue == Overdue::Idle {
                    // A client that listens hears that no further request is taken.
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout(CLOSING, connection).await;
                }
                tracing::debug!(target: "dpr_serve", "a connection was closed: {overdue:?}");
                return;
            }
        };
        report(ended);
    }
}

/// Hands a request to the routes, with the address and the scheme by which it came.
async fn answer(
    app: Router,
    peer: SocketAddr,
    scheme: Scheme,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    request.extensions_mut().insert(ConnectInfo(peer));
    request.extensions_mut().insert(scheme);
    app.oneshot(request).await
}

fn report(ended: Result<(), hyper::Error>) {
    if let Err(error) = ended {
        tracing::debug!(target: "dpr_serve", "a connection broke: {error}");
    }
}
