//! What only a socket shows: a taken port, an orderly end, a client that sends too much.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;
use crate::Limits;
use crate::server::{self, Connections, Ended};

async fn start(
    app: Router,
    connections: Connections,
) -> (SocketAddr, oneshot::Sender<()>, tokio::task::JoinHandle<Ended>) {
    let listener = server::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let running = tokio::spawn(server::run(listener, app, async { drop(stopped.await) }, connections));
    (address, stop, running)
}

async fn exchange(address: SocketAddr, body: Vec<u8>) -> String {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/search HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(&body).await.unwrap();
    let mut reply = String::new();
    socket.read_to_string(&mut reply).await.unwrap();
    reply
}

#[tokio::test]
async fn a_taken_port_is_named_with_the_way_out() {
    let first = server::bind("127.0.0.1:0").await.unwrap();
    let address = first.local_addr().unwrap().to_string();
    let error = server::bind(&address).await.unwrap_err().to_string();
    assert!(error.contains(&address) && error.contains("in use") && error.contains("--listen"), "{error}");
    let error = server::bind("nowhere").await.unwrap_err().to_string();
    assert!(error.contains("nowhere") && error.contains("127.0.0.1:7878"), "{error}");
}

#[tokio::test]
async fn a_search_in_flight_is_answered_before_the_end() {
    let (app, open, _dir) = gated(Options::default());
    let (address, stop, running) = start(app.clone(), Connections::default()).await;
    let client = tokio::spawn(exchange(address, good().to_string().into_bytes()));
    while !get(&app, "/metrics").await.text().contains("dpr_http_requests_in_flight 2") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(TcpStream::connect(address).await.is_err(), "no new connections once it ends");
    open.send(()).unwrap();
    let reply = client.await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert_eq!(running.await.unwrap(), Ended::Finished);
}

#[tokio::test]
async fn the_end_does_not_wait_longer_than_its_grace() {
    let (app, open, _dir) = gated(Options::default());
    let (address, stop, running) =
        start(app.clone(), Connections { grace: Duration::from_millis(100), ..Connections::default() }).await;
    let client = tokio::spawn(exchange(address, good().to_string().into_bytes()));
    while !get(&app, "/metrics").await.text().contains("dpr_http_requests_in_flight 2") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.send(()).unwrap();
    assert_eq!(running.await.unwrap(), Ended::CutOff);
    open.send(()).unwrap();
    drop(client);
}

#[tokio::test]
async fn a_client_that_sends_too_much_reads_why() {
    let limits = Limits { max_body: 1000, ..Limits::default() };
    let (app, _dir) = ready(Options { limits, ..Options::default() });
    let (address, _stop, _running) = start(app, Connections::default()).await;
    let reply = exchange(address, vec![b' '; 4 << 20]).await;
    assert!(reply.starts_with("HTTP/1.1 413") && reply.contains("body_too_large"), "{reply}");
}

#[tokio::test]
async fn a_client_that_never_ends_its_request_is_let_go() {
    let (app, _dir) = ready(Options::default());
    let connections = Connections { max: 1, idle: Duration::from_millis(100), ..Connections::default() };
    let (address, _stop, _running) = start(app, connections).await;
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost:").await.unwrap();
    // It holds the only connection; the next client is answered once it is let go.
    let reply =
        tokio::time::timeout(Duration::from_secs(5), exchange(address, good().to_string().into_bytes()));
    assert!(reply.await.unwrap().starts_with("HTTP/1.1 200"));
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest).await;
    assert!(!String::from_utf8_lossy(&rest).starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_idle_connection_does_not_delay_the_end() {
    let (app, _dir) = ready(Options::default());
    let (address, stop, running) = start(app, Connections::default()).await;
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut start = [0; 15];
    idle.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(5), running).await;
    assert_eq!(ended.unwrap().unwrap(), Ended::Finished);
}
