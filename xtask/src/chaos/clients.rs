//! Clients that hold connections.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{Report, demo};
use crate::failure::{Failure, Outcome};
use crate::server::Server;

/// Connections that the server is told to keep at most.
const CONNECTIONS: usize = 8;
/// Time after which a client that does nothing must have lost its connection.
const LIMIT: Duration = Duration::from_secs(61);

/// Time after which a slow reader reads its next byte.
const BETWEEN_READS: Duration = Duration::from_secs(5);

/// Connections on which nothing is sent, or half of a head.
pub(super) fn silent(report: &mut Report) -> Outcome {
    let server = demo(&["--max-connections", "8"])?;
    for (name, sent) in [
        ("8 sockets that send nothing", ""),
        ("8 sockets that send half of a head", "POST /v1/search HTTP/1.1\r\nhost: x"),
        ("8 sockets that begin HTTP/2", "PRI * HT"),
    ] {
        let held = hold(&server, sent)?;
        report_release(report, &server, name, || ());
        drop(held);
    }
    let spoken = preface(&server)?;
    report.line("HTTP/2 without TLS", &spoken, "closed or HTTP/1.1", spoken != HTTP_2);
    Ok(())
}

/// The protocol named in the answer of a server that speaks HTTP/2 without TLS.
const HTTP_2: &str = "HTTP/2";

/// Sends the preface of HTTP/2 with its first frame, of settings, and returns what is spoken in the answer.
fn preface(server: &Server) -> Outcome<String> {
    let failed = |error: std::io::Error| Failure::new(format!("cannot ask for HTTP/2: {error}"));
    let mut socket = server.connect()?;
    socket.set_read_timeout(Some(Duration::from_secs(5))).map_err(failed)?;
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").map_err(failed)?;
    let mut answer = [0; 9];
    // A reset, where bytes were left unread, is as good as a close.
    let read = socket.read(&mut answer).unwrap_or(0);
    Ok(match &answer[..read] {
        [] => "closed".into(),
        text if text.starts_with(b"HTTP/1") => "HTTP/1.1".into(),
        // A frame: three bytes of its length, then the type of settings.
        [_, _, _, 4, ..] => HTTP_2.into(),
        other => format!("{other:?}"),
    })
}

/// Connections whose client reads a byte now and then.
pub(super) fn slow(report: &mut Report) -> Outcome {
    let server = demo(&["--max-connections", "8"])?;
    let model = server.json("/v1/model")?;
    let weights = &model["weights"];
    let path = ["q8", "f16", "f32"].iter().find_map(|name| weights[name]["url"].as_str());
    let path = path.ok_or_else(|| Failure::new("the demo's model has no weights for pages"))?;
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/v1/{path}") };
    let mut held = hold(&server, &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))?;
    for socket in &held {
        socket.set_read_timeout(Some(Duration::from_millis(10))).map_err(|e| Failure::new(e.to_string()))?;
    }
    let (mut next, mut read) = (Instant::now(), 0);
    report_release(report, &server, "8 readers of a byte in 5 seconds", || {
        if Instant::now() >= next {
            next += BETWEEN_READS;
            read += held.iter_mut().map(|socket| socket.read(&mut [0]).unwrap_or(0)).sum::<usize>();
        }
    });
    println!("{read} bytes were read meanwhile");
    match read {
        0 => Err(Failure::new("no byte was read, so that the readers were none")
            .fix("read what the server said above: it must answer them with the weights")),
        _ => Ok(()),
    }
}

fn hold(server: &Server, sent: &str) -> Outcome<Vec<TcpStream>> {
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut socket = server.connect()?;
        socket.write_all(sent.as_bytes()).map_err(|error| Failure::new(error.to_string()))?;
        held.push(socket);
    }
    sleep(Duration::from_millis(200));
    Ok(held)
}

/// Waits until a search route answers again, and calls `meanwhile` before each time that it asks.
fn report_release(report: &mut Report, server: &Server, name: &str, mut meanwhile: impl FnMut()) {
    let begin = Instant::now();
    let healthy = server.health();
    let mut status = 0;
    while begin.elapsed() < LIMIT && status != 200 {
        meanwhile();
        status = server.ask("GET", "/v1/index", &[], &[]).map_or(0, |answer| answer.status);
        sleep(Duration::from_millis(250));
    }
    let took = begin.elapsed();
    report.line(&format!("{name}: health meanwhile"), &healthy.to_string(), "200", healthy == 200);
    report.line(
        &format!("{name}: a connection is free after"),
        &format!("{:.1} s", took.as_secs_f64()),
        "at most 61 s",
        status == 200,
    );
}
