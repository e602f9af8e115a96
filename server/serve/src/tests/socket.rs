//! Tests that need a socket: a taken port, an orderly end, a client that sends too much.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;
use crate::server::{self, Connections, Ended};
use crate::{Limits, health_app};

pub(super) async fn start(
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
    assert!(error.contains(&address) && error.contains("in use") && error.contains("port 0"), "{error}");
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

/// Returns what a server for two clients answers to another beside the two that it holds.
async fn answer_beside<T>(
    app: Router,
    connections: Connections,
    hold: impl AsyncFn(SocketAddr) -> T,
) -> String {
    let (address, _stop, _running) = start(app, Connections { max: 2, ..connections }).await;
    let held = [hold(address).await, hold(address).await];
    let body = good().to_string().into_bytes();
    let reply = tokio::time::timeout(Duration::from_secs(20), exchange(address, body)).await;
    drop(held);
    reply.expect("every connection is held by those who do nothing")
}

/// Times so short that a test sees them pass.
pub(super) fn impatient() -> Connections {
    let short = Duration::from_millis(300);
    Connections { idle: short, patience: short, handshake: short, ..Connections::default() }
}

#[tokio::test]
async fn clients_that_send_nothing_are_let_go() {
    let beginnings: [&[u8]; 4] = [b"", b"P", b"PRI * HTT", b"\r\n"];
    for sent in beginnings {
        let (app, _dir) = ready(Options::default());
        let silent = async |address| {
            let mut socket = TcpStream::connect(address).await.unwrap();
            socket.write_all(sent).await.unwrap();
            socket
        };
        let reply = answer_beside(app, impatient(), silent).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{sent:?}: {reply}");
    }
}

#[tokio::test]
async fn http_2_is_not_spoken() {
    let (app, _dir) = ready(Options::default());
    let (address, _stop, _running) = start(app, impatient()).await;
    let mut socket = TcpStream::connect(address).await.unwrap();
    // The preface, and an empty frame of settings.
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut reply = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut reply)).await;
    // Closed, with or without a word; with bytes of the client unread that is a reset.
    let _ = ended.expect("the connection is closed");
    assert!(reply.is_empty() || reply.starts_with(b"HTTP/1.1 400"), "{reply:?}");
}

#[tokio::test]
async fn above_the_limit_health_checks_are_answered_and_others_told_to_come_back() {
    let state = AppState::new(Options::default());
    let dir = tempfile::tempdir().unwrap();
    state.publish(Arc::new(FakeSearch { before: Box::new(|| {}) }), model(dir.path(), true));
    let health = Some(health_app(state.clone()));
    let connections = Connections { max: 2, health, ..Connections::default() };
    let (address, _stop, _running) = start(app(state), connections).await;
    let silent = [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
    for path in ["/healthz", "/readyz", "/v1/index"] {
        let mut socket = TcpStream::connect(address).await.unwrap();
        // Without `connection: close`: it closes all the same.
        socket.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).await.unwrap();
        if path == "/v1/index" {
            assert!(reply.starts_with("HTTP/1.1 429") && reply.contains("\"overloaded\""), "{reply}");
        } else {
            assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        }
    }
    drop(silent);
    let search = async {
        while !exchange(address, good().to_string().into_bytes()).await.starts_with("HTTP/1.1 200") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), search).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_asks_now_and_then_makes_room_for_another_client() {
    let (app, _dir) = ready(Options::default());
    // An hour each, but that they are closed when others wait.
    let hour = Duration::from_secs(3600);
    let spare = Duration::from_millis(100);
    let connections = Connections { idle: hour, patience: hour, spare, ..Connections::default() };
    let keeps_alive = async |address| {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut start = [0; 15];
        socket.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        socket
    };
    let reply = answer_beside(app, connections, keeps_alive).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[tokio::test]
async fn a_connection_with_a_request_never_makes_room() {
    let (app, open, _dir) = gated(Options::default());
    let connections = Connections { max: 1, spare: Duration::from_millis(300), ..Connections::default() };
    let (address, _stop, _running) = start(app.clone(), connections).await;
    let client = tokio::spawn(exchange(address, good().to_string().into_bytes()));
    while !get(&app, "/metrics").await.text().contains("dpr_http_requests_in_flight 2") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let waiting = tokio::spawn(exchange(address, good().to_string().into_bytes()));
    tokio::time::sleep(Duration::from_millis(700)).await;
    open.send(()).unwrap();
    assert!(client.await.unwrap().starts_with("HTTP/1.1 200"));
    open.send(()).unwrap();
    assert!(waiting.await.unwrap().starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn answers_that_nobody_reads_take_room_from_others_until_their_clients_are_gone() {
    // One answer of 20 MB fits, which is more than the buffers of both ends hold.
    let (vectors, room) = (3000, 24 << 20);
    let limits = Limits {
        max_batch: vectors,
        max_k: vectors * 2,
        max_answer: room,
        max_answers: room,
        ..Limits::default()
    };
    let (app, _dir) = ready(Options { limits, ..Options::default() });
    let (address, _stop, _running) = start(app, Connections::default()).await;
    let vectors = vec![[1, 0, 0, 0]; vectors];
    let asked = json!({"vectors": vectors, "k": PASSAGES, "model": fingerprint()}).to_string().into_bytes();
    let head = format!(
        "POST /v1/search HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        asked.len()
    );
    let mut unread = TcpStream::connect(address).await.unwrap();
    unread.write_all(&[head.as_bytes(), &asked].concat()).await.unwrap();
    let mut start = [0; 15];
    unread.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    let refused = exchange(address, asked.clone()).await;
    assert!(refused.starts_with("HTTP/1.1 429") && refused.contains("have not read yet"), "{refused:.500}");
    assert!(refused.contains("retry-after"), "{refused:.500}");
    drop(unread);
    let answered = async {
        while !exchange(address, asked.clone()).await.starts_with("HTTP/1.1 200") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), answered).await.expect("the room comes back");
}

/// A server of a page with a file of more than the buffers of both ends hold.
pub(super) fn with_large_file() -> (Router, [tempfile::TempDir; 2]) {
    let web = tempfile::tempdir().unwrap();
    fs_err::write(web.path().join("large.bin"), vec![7; LARGE]).unwrap();
    let (app, dir) = ready(Options { web: Some(web.path().to_owned()), ..Options::default() });
    (app, [web, dir])
}

const LARGE: usize = 64 << 20;

/// A client that has asked for the large file and has read where its answer begins.
async fn ask_for_large(address: SocketAddr) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = b"GET /large.bin HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    socket.write_all(request).await.unwrap();
    let mut start = [0; 15];
    socket.read_exact(&mut start).await.unwrap();
    assert_eq!(&start, b"HTTP/1.1 200 OK");
    socket
}

#[tokio::test]
async fn clients_that_ask_for_much_and_read_nothing_are_cut_off() {
    let (app, _dirs) = with_large_file();
    let reply = answer_beside(app, impatient(), ask_for_large).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[tokio::test]
async fn clients_that_read_a_byte_now_and_then_are_cut_off() {
    let (app, _dirs) = with_large_file();
    let hold = async |address| {
        let mut socket = ask_for_large(address).await;
        let mut reading = tokio::task::JoinSet::new();
        reading.spawn(async move {
            while let Ok(1..) = socket.read(&mut [0]).await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        reading
    };
    let reply = answer_beside(app, impatient(), hold).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[tokio::test]
async fn a_client_that_reads_slowly_but_steadily_gets_all_of_it() {
    let (app, _dirs) = with_large_file();
    let patience = Duration::from_secs(1);
    let (address, _stop, _running) = start(app, Connections { patience, ..Connections::default() }).await;
    let mut socket = ask_for_large(address).await;
    let (started, mut got, mut part) = (std::time::Instant::now(), 0, vec![0; 1 << 20]);
    while let Ok(read @ 1..) = socket.read(&mut part).await {
        got += read;
        tokio::time::sleep(Duration::from_millis(40).mul_f64(read as f64 / part.len() as f64)).await;
    }
    assert!(got > LARGE, "{got} bytes");
    assert!(started.elapsed() > patience, "it took longer than a client may read nothing");
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
