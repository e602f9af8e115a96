//! A collector of OpenTelemetry that keeps what it gets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::protobuf::{Span, spans};

/// What a collector does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    Answers,
    /// Answers 500.
    Fails,
    /// Takes connections and never answers.
    Hangs,
    /// Has no socket.
    IsAway,
}

pub(crate) struct Collector {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    pub(crate) fn start(conduct: Conduct) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, bodies) = (listener.local_addr().unwrap(), Arc::default());
        let kept = Arc::clone(&bodies);
        if conduct != Conduct::IsAway {
            std::thread::spawn(move || {
                for socket in listener.incoming() {
                    let kept = Arc::clone(&kept);
                    std::thread::spawn(move || converse(socket.unwrap(), conduct, &kept));
                }
            });
        }
        Self { address, bodies }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All bodies, one after the other.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bodies.lock().unwrap().concat()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.bodies.lock().unwrap().iter().flat_map(|body| spans(body)).collect()
    }
}

fn converse(socket: TcpStream, conduct: Conduct, kept: &Mutex<Vec<Vec<u8>>>) {
    let mut reader = BufReader::new(socket);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces ") && head.contains("application/x-protobuf"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
        let mut body = vec![0; length.trim().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        kept.lock().unwrap().push(body);
        let status = match conduct {
            Conduct::Fails => "500 Internal Server Error",
            Conduct::Hangs => return std::thread::sleep(Duration::from_secs(600)),
            Conduct::Answers | Conduct::IsAway => "200 OK",
        };
        let answer =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
