//! Connections over TLS, with HTTP/1.1 and HTTP/2: what is answered, and clients that hold their connections.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::keys::{KeyBox, ROUTES, Verdict};
use super::overload::until_metric;
use super::socket::{impatient, start, with_large_file};
use super::*;
use crate::server::{Connections, Ended};
use crate::{Hosts, Origins, Scope, Tls, health_app};

/// A certificate for `localhost` in files, and what reads them.
struct Certificate {
    dir: tempfile::TempDir,
    tls: Arc<Tls>,
    pem: String,
}

impl Certificate {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pem = Self::write(dir.path());
        let tls = Arc::new(Tls::open(&dir.path().join("cert.pem"), &dir.path().join("key.pem")).unwrap());
        Self { dir, tls, pem }
    }

    fn write(dir: &Path) -> String {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs_err::write(dir.join("cert.pem"), made.cert.pem()).unwrap();
        fs_err::write(dir.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        made.cert.pem()
    }

    fn of(&self, connections: Connections) -> Connections {
        Connections { tls: Some(Arc::clone(&self.tls)), ..connections }
    }

    /// Connects with these protocols.
    async fn connect(&self, address: SocketAddr, protocols: &[&str]) -> TlsStream<TcpStream> {
        connect(&self.pem, address, protocols).await.unwrap()
    }

    /// A client that speaks HTTP/2; its connection is driven by a task of its own, which answers pings.
    async fn http_2(&self, address: SocketAddr) -> SendRequest<Body> {
        let socket = TokioIo::new(self.connect(address, &["h2"]).await);
        let (client, connection) = handshake(TokioExecutor::new(), socket).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

async fn connect(
    pem: &str,
    address: SocketAddr,
    protocols: &[&str],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let mut config = builder
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, TcpStream::connect(address).await?).await
}

/// One request over HTTP/1.1; the whole reply.
async fn exchange(mut socket: TlsStream<TcpStream>, head: &str, body: &str) -> String {
    let request = format!(
        "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut reply = String::new();
    let _ = socket.read_to_string(&mut reply).await;
    reply
}

/// One request over HTTP/2, read to its end.
async fn send_2(client: &mut SendRequest<Body>, request: Request<Body>) -> Reply {
    client.ready().await.unwrap();
    let response = client.send_request(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(Body::new(body), usize::MAX).await.unwrap().to_vec();
    Reply { status: parts.status, headers: parts.headers, body }
}

fn search_2() -> Request<Body> {
    let mut request = post(good().to_string());
    *request.uri_mut() = "https://localhost/v1/search".parse().unwrap();
    request
}

#[tokio::test]
async fn both_protocols_are_spoken_over_tls_and_neither_without() {
    let (app, _dir) = ready(Options::default());
    let certificate = Certificate::new();
    let (address, stop, running) = start(app, certificate.of(Connections::default())).await;
    for (protocols, agreed) in [(&["http/1.1"][..], Some(&b"http/1.1"[..])), (&[], None)] {
        let socket = certificate.connect(address, protocols).await;
        assert_eq!(socket.get_ref().1.alpn_protocol(), agreed);
        let reply = exchange(socket, "POST /v1/search", &good().to_string()).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }
    let mut client = certificate.http_2(address).await;
    for _ in 0..3 {
        let reply = send_2(&mut client, search_2()).await;
        assert_eq!(reply.json()["hits"][0]["id"], "p0", "{}", reply.text());
    }
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut reply = Vec::new();
    let _ = plain.read_to_end(&mut reply).await;
    assert!(!reply.starts_with(b"HTTP"), "{reply:?}");
    // An idle connection does not delay the end.
    stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), running).await;
    assert_eq!(ended.unwrap().unwrap(), Ended::Finished);
}

#[tokio::test]
async fn keys_and_hosts_are_checked_over_http_2_as_without_tls() {
    let keys = KeyBox::new();
    let hosts = Hosts::new("127.0.0.1:1".parse().unwrap(), &[]).unwrap();
    let origin = "https://page.example";
    let origins = Origins::parse(&[origin.to_owned()]).unwrap();
    let (app, _dir) = ready(Options { access: keys.access(false), hosts, origins, ..Options::default() });
    let certificate = Certificate::new();
    let (address, _stop, _running) = start(app, certificate.of(Connections::default())).await;
    let mut client = certificate.http_2(address).await;
    let keyed = [None, Some(Scope::Search), Some(Scope::Write), Some(Scope::Admin)];
    let cases = ROUTES.into_iter().flat_map(|route| keyed.map(|sent| (route, sent)));
    for ((method, path, needed), sent) in cases {
        let froms = [origin, "https://other.example", ""];
        for (from, header) in
            froms.into_iter().flat_map(|from| ["authorization", "x-api-key"].map(|h| (from, h)))
        {
            let mut request = Request::builder().method(method).uri(format!("https://localhost{path}"));
            if let Some(scope) = sent {
                let scheme = if header == "authorization" { "Bearer " } else { "" };
                request = request.header(header, format!("{scheme}{}", keys.of(scope)));
            }
            if !from.is_empty() {
                request = request.header("origin", from);
            }
            let reply = send_2(&mut client, request.body(Body::empty()).unwrap()).await;
            let challenge = reply.header("www-authenticate").to_owned();
            let body = if challenge.contains("scope") { "missing_scope".into() } else { reply.text() };
            let verdict = Verdict::of(reply.status.as_u16(), &body, &challenge);
            assert_eq!(verdict, Verdict::expected(needed, sent, false), "{method} {path} {sent:?} {from}");
            let is_readable = !reply.header("access-control-allow-origin").is_empty();
            assert_eq!(is_readable, from == origin && path != "/v1/passages", "{method} {path} {from}");
        }
    }
    let foreign = Request::get("https://evil.example/v1/index").body(Body::empty()).unwrap();
    assert_eq!(send_2(&mut client, foreign).await.error(), (421, "unknown_host".into()));
}

#[tokio::test]
async fn a_new_certificate_is_shown_to_the_next_client() {
    let (app, _dir) = ready(Options::default());
    let certificate = Certificate::new();
    let (address, _stop, _running) = start(app, certificate.of(Connections::default())).await;
    certificate.connect(address, &[]).await;
    let state = AppState::new(Options::default());
    let next = Certificate::write(certificate.dir.path());
    (0..2).for_each(|_| state.reload(Some(certificate.tls.as_ref())));
    connect(&next, address, &[]).await.unwrap();
    connect(&certificate.pem, address, &[]).await.unwrap_err();
    // A broken one is not shown, and counted.
    fs_err::write(certificate.dir.path().join("cert.pem"), "nothing").unwrap();
    (0..3).for_each(|_| state.reload(Some(certificate.tls.as_ref())));
    connect(&next, address, &[]).await.unwrap();
    let text = get(&app_of(state), "/metrics").await.text();
    assert!(text.contains(r#"dpr_reload_failures_total{file="certificate"} 1"#), "{text}");
}

fn app_of(state: AppState) -> Router {
    app(state)
}

/// Returns the answer of a server for two clients to another client beside the two that it holds.
async fn answer_beside<T>(app: Router, hold: impl AsyncFn(Arc<Certificate>, SocketAddr) -> T) -> String {
    let certificate = Arc::new(Certificate::new());
    let connections = certificate.of(Connections { max: 2, ..impatient() });
    let (address, _stop, _running) = start(app, connections).await;
    let held = [hold(certificate.clone(), address).await, hold(certificate.clone(), address).await];
    let ask = async {
        // A slow machine may need longer for a handshake than these clients get.
        loop {
            if let Ok(socket) = connect(&certificate.pem, address, &["http/1.1"]).await {
                let reply = exchange(socket, "POST /v1/search", &good().to_string()).await;
                if !reply.is_empty() {
                    break reply;
                }
            }
        }
    };
    let reply = tokio::time::timeout(Duration::from_secs(20), ask).await;
    drop(held);
    reply.expect("every connection is held by those who do nothing")
}

#[tokio::test]
async fn clients_that_say_nothing_are_let_go_at_every_step() {
    let (app, _dir) = ready(Options::default());
    let before_tls =
        async |_: Arc<Certificate>, address: SocketAddr| TcpStream::connect(address).await.unwrap();
    let reply = answer_beside(app.clone(), before_tls).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    for protocol in ["http/1.1", "h2"] {
        let after_tls = async |certificate: Arc<Certificate>, address: SocketAddr| {
            connect(&certificate.pem, address, &[protocol]).await.ok()
        };
        let reply = answer_beside(app.clone(), after_tls).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{protocol}: {reply}");
    }
    // A client of HTTP/2 that answers pings and asks for nothing.
    let alive = async |certificate: Arc<Certificate>, address: SocketAddr| {
        let socket = connect(&certificate.pem, address, &["h2"]).await.ok()?;
        let (client, connection) =
            handshake::<_, _, Body>(TokioExecutor::new(), TokioIo::new(socket)).await.ok()?;
        tokio::spawn(connection);
        Some(client)
    };
    let reply = answer_beside(app, alive).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

const LARGE: &str = "https://localhost/large.bin";

#[tokio::test]
async fn clients_that_ask_for_much_and_do_not_read_it_are_cut_off() {
    let (app, _dirs) = with_large_file();
    for pause in [Duration::from_millis(50), Duration::from_secs(3600)] {
        let slow = async |certificate: Arc<Certificate>, address: SocketAddr| {
            let mut socket = connect(&certificate.pem, address, &["http/1.1"]).await.ok()?;
            socket.write_all(b"GET /large.bin HTTP/1.1\r\nhost: localhost\r\n\r\n").await.ok()?;
            let mut reading = tokio::task::JoinSet::new();
            reading.spawn(async move {
                while let Ok(1..) = socket.read(&mut [0]).await {
                    tokio::time::sleep(pause).await;
                }
            });
            Some(reading)
        };
        let reply = answer_beside(app.clone(), slow).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }
    // Over HTTP/2 the socket is read and pings are answered, and the stream is not.
    let unread = async |certificate: Arc<Certificate>, address: SocketAddr| {
        let socket = connect(&certificate.pem, address, &["h2"]).await.ok()?;
        let (mut client, connection) = handshake(TokioExecutor::new(), TokioIo::new(socket)).await.ok()?;
        tokio::spawn(connection);
        let response = client.send_request(Request::get(LARGE).body(Body::empty()).unwrap()).await.ok()?;
        Some((client, response))
    };
    let reply = answer_beside(app, unread).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[tokio::test]
async fn a_client_of_http_2_that_reads_gets_all_of_a_large_file() {
    let (app, _dirs) = with_large_file();
    let certificate = Certificate::new();
    let (address, _stop, _running) = start(app, certificate.of(Connections::default())).await;
    let mut client = certificate.http_2(address).await;
    let reply = send_2(&mut client, Request::get(LARGE).body(Body::empty()).unwrap()).await;
    assert!(reply.body.len() == 64 << 20 && reply.body.iter().all(|byte| *byte == 7));
}

#[tokio::test]
async fn requests_of_one_connection_beside_each_other_take_places_of_connections() {
    let running = Arc::new(AtomicUsize::new(0));
    let (open, gate) = mpsc::channel::<()>();
    let (gate, begun) = (Mutex::new(gate), Arc::clone(&running));
    let state = AppState::new(Options::default());
    let before = move || {
        begun.fetch_add(1, Ordering::SeqCst);
        gate.lock().unwrap().recv().unwrap();
    };
    let dir = tempfile::tempdir().unwrap();
    state.publish(Arc::new(FakeSearch { before: Box::new(before) }), model(dir.path(), true));
    let certificate = Certificate::new();
    let health = Some(health_app(state.clone()));
    let connections = certificate.of(Connections { max: 2, health, ..Connections::default() });
    let (address, _stop, _running) = start(app(state), connections).await;
    let client = certificate.http_2(address).await;
    let ask = async |path: &str| {
        let socket = certificate.connect(address, &["http/1.1"]).await;
        exchange(socket, &format!("GET {path}"), "").await
    };
    let reply = ask("/v1/index").await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    let searches: Vec<_> = (0..2)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { send_2(&mut client, search_2()).await.status })
        })
        .collect();
    while running.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Two requests of one connection: both places are taken, whichever of the two is searched first.
    let full = async {
        while !ask("/v1/index").await.starts_with("HTTP/1.1 429") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(ask("/healthz").await.starts_with("HTTP/1.1 200"));
    };
    tokio::time::timeout(Duration::from_secs(20), full).await.unwrap();
    (0..2).for_each(|_| open.send(()).unwrap());
    for search in searches {
        assert_eq!(search.await.unwrap(), StatusCode::OK);
    }
    let free = async {
        while !ask("/v1/index").await.starts_with("HTTP/1.1 200") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), free).await.unwrap();
}

#[tokio::test]
async fn a_request_that_finds_no_place_beside_another_is_answered_429() {
    let (app, open, _dir) = gated(Options::default());
    let certificate = Certificate::new();
    let idle = Duration::from_secs(1);
    let connections = certificate.of(Connections { max: 1, idle, ..Connections::default() });
    let (address, _stop, _running) = start(app.clone(), connections).await;
    let mut client = certificate.http_2(address).await;
    let mut beside = client.clone();
    let first = tokio::spawn(async move { send_2(&mut client, search_2()).await });
    // The request for the metrics is in flight too.
    until_metric(&app, "dpr_http_requests_in_flight 2").await;
    let refused = send_2(&mut beside, search_2()).await;
    assert_eq!(refused.error(), (429, "overloaded".into()));
    assert!(!refused.header("x-request-id").is_empty());
    until_metric(&app, "dpr_requests_refused_total{limit=\"connections\"} 1").await;
    open.send(()).unwrap();
    assert_eq!(first.await.unwrap().status, StatusCode::OK);
}
