//! Requests that a server must refuse, with secrets where a careless log would show them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::ledger::Ledger;
use super::numbers::Numbers;
use super::server::{SECRET, SECRET_NUMBER};
use super::wire::Connection;

/// Sends one of them; returns the status, or what is wrong with the answer.
pub(super) fn send(numbers: &mut Numbers, ledger: &Ledger, address: &str) -> Result<u16, String> {
    let (model, dim) = (&ledger.model, ledger.dim);
    let zeros = |count: usize| format!("{SECRET_NUMBER}{}", ",0".repeat(count.saturating_sub(1)));
    let vector = zeros(dim);
    let right = format!(r#"{{"vector":[{vector}],"model":"{model}"}}"#);
    let requests = [
        ("POST", "/v1/search", format!(r#"{{"vector":[{}],"model":"{model}"}}"#, zeros(dim + 1))),
        ("POST", "/v1/search", format!(r#"{{"vector":[{vector}],"model":"{SECRET}"}}"#)),
        ("POST", "/v1/search", format!(r#"{{"vector":[{vector}],"k":0,"model":"{model}"}}"#)),
        ("POST", "/v1/search", format!(r#"{{"vector":[{vector}],"k":1000000000,"model":"{model}"}}"#)),
        ("POST", "/v1/search", format!(r#"{{"vector":[{vector}],"question":"{SECRET}","model":"{model}"}}"#)),
        ("POST", "/v1/search", format!(r#"{{"vector":"{SECRET}","model":"{model}"}}"#)),
        (
            "POST",
            "/v1/search",
            format!(r#"{{"vectors":[{}],"model":"{model}"}}"#, vec!["[]"; 100_000].join(",")),
        ),
        (
            "POST",
            "/v1/search",
            format!(r#"{{"vector":[{vector}],"filter":{{"titles":"{SECRET}"}},"model":"{model}"}}"#),
        ),
        (
            "POST",
            "/v1/search",
            format!(
                r#"{{"vector":[{vector}],"filter":{{"metadata":{{"field":"{SECRET}","like":"{SECRET}"}}}},"model":"{model}"}}"#
            ),
        ),
        ("POST", "/v1/search", format!("{{{SECRET}")),
        ("POST", "/v1/search", "[".repeat(100_000)),
        ("POST", "/v1/search", format!(r#""{SECRET}{}""#, "x".repeat(3 << 20))),
        ("POST", "/v1/search?q=SOAKSECRET-question", right.clone()),
        ("POST", "/v1/search/text", format!(r#"{{"question":"{SECRET}"}}"#)),
        (
            "POST",
            "/v1/passages",
            format!(r#"{{"model":"{model}","passages":[{{"id":"x","text":"{SECRET}"}}]}}"#),
        ),
        ("DELETE", "/v1/passages", format!(r#"{{"ids":["{SECRET}"]}}"#)),
        ("GET", "/v1/model/files/SOAKSECRET/../../../etc/passwd", String::new()),
        ("PUT", "/SOAKSECRET/%2e%2e/%2eenv", SECRET.to_owned()),
    ];
    let at = numbers.below(requests.len() + 2);
    let Some((method, path, body)) = requests.get(at) else {
        return match at - requests.len() {
            0 => leave(address, &right),
            _ => nonsense(address),
        };
    };
    // Keys that are guessed are soon refused before anything else is looked at, so that few requests have one.
    let key = match numbers.below(64) {
        0 => format!("authorization: Bearer {SECRET}-wrong\r\n"),
        _ => String::new(),
    };
    let mut connection = Connection::new(address, &key);
    match connection.ask(method, path, body) {
        Ok((status, _)) if (400..500).contains(&status) => Ok(status),
        // A body that is too long may be refused while it is still sent, and the connection closed.
        Err(_) if body.len() > 2 << 20 => Ok(413),
        Ok((503, _)) => Ok(503),
        Ok((status, said)) => Err(format!("{method} {path} was answered {status} {said}")),
        Err(error) => Err(format!("{method} {path}: no answer: {error}")),
    }
}

/// Sends a search in part, or whole, and is gone.
fn leave(address: &str, body: &str) -> Result<u16, String> {
    let mut socket = TcpStream::connect(address).map_err(|e| format!("cannot connect: {e}"))?;
    let head = format!(
        "POST /v1/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let _ =
        socket.write_all(head.as_bytes()).and_then(|()| socket.write_all(&body.as_bytes()[..body.len() / 2]));
    Ok(0)
}

/// Says what is not HTTP/1.1, and reads whatever the server answers.
fn nonsense(address: &str) -> Result<u16, String> {
    let mut socket = TcpStream::connect(address).map_err(|e| format!("cannot connect: {e}"))?;
    let _ = socket.set_read_timeout(Some(Duration::from_secs(5)));
    let _ = socket.write_all(format!("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n{SECRET}").as_bytes());
    let mut answer = [0; 1024];
    let read = socket.read(&mut answer).unwrap_or(0);
    match String::from_utf8_lossy(&answer[..read]) {
        said if said.is_empty() || said.starts_with("HTTP/1.1 4") || said.starts_with("HTTP/1.1 505") => {
            Ok(400)
        }
        said => Err(format!("HTTP/2 without TLS was answered {said}")),
    }
}
