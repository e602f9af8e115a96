//! Two servers behind a proxy are restarted one after the other, and no client notices.

use crate::support::{common, server};

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::Bench;
use serde_json::{Value, json};
use server::{Server, ask};

/// The name that clients call the proxy by.
const HOST: &str = "search.example.org";

/// A proxy that takes servers in turn, as long as their `/readyz` says that they are ready. A request that no byte of
/// an answer came for is sent to the other server, as nginx does with `proxy_next_upstream error timeout
/// non_idempotent`.
struct Proxy {
    address: String,
    servers: [String; 2],
    ready: [AtomicBool; 2],
    turn: AtomicUsize,
    /// Requests that each server answered.
    answered: [AtomicUsize; 2],
}

impl Proxy {
    /// Asks the servers for their state until told to stop.
    fn watch(&self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            for (server, ready) in self.servers.iter().zip(&self.ready) {
                let is_ready = ask(server, "GET", "/readyz", "").is_ok_and(|(status, _)| status == 200);
                ready.store(is_ready, Ordering::Relaxed);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Passes one request on with the name of the proxy (`proxy_set_header Host $host`), and its answer back.
    fn pass(&self, mut client: TcpStream) -> io::Result<()> {
        let request = String::from_utf8_lossy(&read_request(&mut client)?).into_owned();
        let request = request.replacen("host: localhost", &format!("host: {HOST}"), 1);
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        for turn in 0..100 {
            let at = (first + turn) % 2;
            if !self.ready[at].load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
                continue;
            }
            let answer = TcpStream::connect(&self.servers[at]).and_then(|mut server| {
                server.write_all(request.as_bytes())?;
                let mut answer = Vec::new();
                server.read_to_end(&mut answer).map(|_| answer)
            });
            if let Ok(answer) = answer
                && !answer.is_empty()
            {
                self.answered[at].fetch_add(1, Ordering::Relaxed);
                return client.write_all(&answer);
            }
        }
        client.write_all(b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n")
    }
}

/// Ends clients and proxy, also when an assertion has failed: the scope waits for their threads.
struct End<'a> {
    flags: [&'a AtomicBool; 2],
    proxy: &'a str,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.flags.iter().for_each(|flag| flag.store(true, Ordering::Relaxed));
        // Wakes the thread that takes connections.
        let _ = TcpStream::connect(self.proxy);
    }
}

/// A request with the body that its `content-length` promises.
fn read_request(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let (mut request, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&request);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse().unwrap() {
                return Ok(request);
            }
        }
        match client.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => request.extend_from_slice(&buffer[..read]),
        }
    }
}

#[test]
fn two_servers_behind_a_proxy_are_restarted_without_a_failed_search() {
    let bench = Bench::new();
    bench.corpus(300);
    bench.index();
    let serve = |listen: &str| {
        let arguments =
            ["serve", "--model", "model", "--index", "index", "--device", "cpu", "--listen", listen];
        Server::start(bench.dpr(&arguments).args(["--allow-host", HOST]))
    };
    let mut servers = [serve("127.0.0.1:0"), serve("127.0.0.1:0")];
    let (_, index) = ask(&servers[0].address, "GET", "/v1/index", "").unwrap();
    let index: Value = serde_json::from_str(&index).unwrap();
    let vector: Vec<f32> = (0..index["dim"].as_u64().unwrap()).map(|i| (i as f32).sin()).collect();
    let body = json!({"vector": vector, "k": 5, "model": index["model"]}).to_string();

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy {
        address: listener.local_addr().unwrap().to_string(),
        servers: servers.each_ref().map(|server| server.address.clone()),
        ready: [const { AtomicBool::new(true) }; 2],
        turn: AtomicUsize::new(0),
        answered: [const { AtomicUsize::new(0) }; 2],
    };
    let (stop, stop_proxy, searches) = (AtomicBool::new(false), AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let end = End { flags: [&stop, &stop_proxy], proxy: &proxy.address };
        scope.spawn(|| proxy.watch(&stop_proxy));
        scope.spawn(|| {
            for client in listener.incoming() {
                if stop_proxy.load(Ordering::Relaxed) {
                    break;
                }
                let client = client.unwrap();
                let proxy = &proxy;
                scope.spawn(move || proxy.pass(client));
            }
        });
        let clients: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut failed = Vec::new();
                    while !stop.load(Ordering::Relaxed) {
                        match ask(&proxy.address, "POST", "/v1/search", &body) {
                            Ok((200, found)) if found.matches("\"id\"").count() == 5 => {
                                searches.fetch_add(1, Ordering::Relaxed);
                            }
                            other => failed.push(format!("{other:?}")),
                        }
                    }
                    failed
                })
            })
            .collect();
        let wait_for = |count: &AtomicUsize, more: usize| {
            let wanted = count.load(Ordering::Relaxed) + more;
            let started = std::time::Instant::now();
            while count.load(Ordering::Relaxed) < wanted {
                assert!(started.elapsed() < Duration::from_secs(60), "searches have stopped");
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        wait_for(&searches, 50);
        for at in 0..2 {
            let address = servers[at].address.clone();
            // Takes the server out, without a place left for two of them.
            let [first, second] = servers;
            servers = match at {
                0 => {
                    first.stop();
                    wait_for(&searches, 50);
                    [serve(&address), second]
                }
                _ => {
                    second.stop();
                    wait_for(&searches, 50);
                    [first, serve(&address)]
                }
            };
            // It is in use again.
            wait_for(&proxy.answered[at], 20);
        }
        stop.store(true, Ordering::Relaxed);
        let failed: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        drop(end);
        assert!(
            failed.is_empty(),
            "{} of {} failed: {:?}",
            failed.len(),
            searches.load(Ordering::Relaxed),
            failed[0]
        );
    });
    println!("{} searches answered", searches.load(Ordering::Relaxed));
}
