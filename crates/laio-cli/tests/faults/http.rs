//! One request on a connection of its own.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Far longer than any response takes.
const LIMIT: Duration = Duration::from_secs(60);

/// What a client received.
#[derive(Debug)]
pub(crate) enum Received {
    /// A complete response.
    Response { status: u16, body: Vec<u8> },
    /// The connection ended before the response did.
    Cut,
    /// Nothing for a long time.
    Hung,
}

/// Sends a request, after which the server closes the connection.
pub(crate) fn request(
    address: SocketAddr,
    line: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> Received {
    match exchange(address, line, fields, body) {
        Ok(bytes) => parse(&bytes).unwrap_or(Received::Cut),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
            ) =>
        {
            Received::Hung
        }
        Err(_) => Received::Cut,
    }
}

fn exchange(
    address: SocketAddr,
    line: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut head = format!("{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    for (name, value) in fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    // The server may answer and close before it has read the body.
    let _ = stream.write_all(&[head.as_bytes(), body].concat());
    let mut response = Vec::new();
    match stream.read_to_end(&mut response) {
        Err(error) if response.is_empty() => Err(error),
        _ => Ok(response),
    }
}

/// Returns the response, if it is complete.
fn parse(bytes: &[u8]) -> Option<Received> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let status: u16 = head.split(' ').nth(1)?.parse().ok()?;
    let rest = &bytes[end + 4..];
    let field = |name: &str| {
        let lines = head.lines().skip(1);
        let mut values = lines.filter_map(|line| line.split_once(": "));
        values
            .find(|(other, _)| *other == name)
            .map(|(_, value)| value.trim().to_owned())
    };
    if status < 200 {
        return parse(rest);
    }
    let body = match field("content-length") {
        Some(length) => rest.get(..length.parse().ok()?)?.to_vec(),
        None if field("transfer-encoding").as_deref() == Some("chunked") => joined(rest)?,
        None if status == 204 || status == 304 => Vec::new(),
        None => rest.to_vec(),
    };
    Some(Received::Response { status, body })
}

/// Returns the bytes of all chunks, if the last one is there.
fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = chunks.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).ok()?, 16).ok()?;
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(chunks.get(end + 2..end + 2 + size)?);
        chunks = chunks.get(end + 2 + size + 2..)?;
    }
}
