//! HTTP/1.1 over one connection that is kept, and made anew when the server has closed it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for an answer: longer than the server gives any request.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client's connection.
pub(super) struct Connection {
    address: String,
    /// Headers of every request, each with its line end.
    headers: String,
    socket: Option<BufReader<TcpStream>>,
}

impl Connection {
    pub(super) fn new(address: &str, headers: &str) -> Self {
        Self { address: address.to_owned(), headers: headers.to_owned(), socket: None }
    }

    /// Sends a request and returns its answer's status and body. One that a kept connection did not take is sent again.
    pub(super) fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
        let is_kept = self.socket.is_some();
        match self.once(method, path, body) {
            Err(error) if is_kept && is_closed(&error) => self.once(method, path, body),
            answered => answered,
        }
    }

    fn once(&mut self, method: &str, path: &str, body: &str) -> io::Result<(u16, String)> {
        // Taken out: after an error the connection is not used again.
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => connect(&self.address)?,
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{}content-length: {}\r\n\r\n{body}",
            self.headers,
            body.len()
        );
        socket.get_mut().write_all(request.as_bytes())?;
        let (status, length, is_kept) = head(&mut socket)?;
        let mut body = vec![0; length];
        socket.read_exact(&mut body)?;
        if is_kept {
            self.socket = Some(socket);
        }
        String::from_utf8(body).map(|body| (status, body)).map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

fn connect(address: &str) -> io::Result<BufReader<TcpStream>> {
    let socket = TcpStream::connect(address)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(BufReader::new(socket))
}

/// Reads an answer's head: status, length of the body, and whether the connection is kept.
fn head(socket: &mut impl BufRead) -> io::Result<(u16, usize, bool)> {
    let (mut status, mut length, mut is_kept) = (None, 0, true);
    loop {
        let mut line = String::new();
        if socket.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let Some(code) = status else {
            status = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
            if status.is_none() {
                return Err(io::ErrorKind::InvalidData.into());
            }
            continue;
        };
        if line.is_empty() {
            return Ok((code, length, is_kept));
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?,
            "connection" => is_kept = !value.trim().eq_ignore_ascii_case("close"),
            _ => {}
        }
    }
}

/// Returns whether the other side had closed the connection before it read the request.
fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_to_their_end() {
        let mut text = &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nconnection: close\r\n\r\n{}"[..];
        assert_eq!(head(&mut text).unwrap(), (200, 2, false));
        assert_eq!(text, b"{}");
        assert!(head(&mut &b"HTTP/1.1 200 OK\r\n"[..]).is_err());
        assert!(head(&mut &b"hello\r\n\r\n"[..]).is_err());
    }
}
