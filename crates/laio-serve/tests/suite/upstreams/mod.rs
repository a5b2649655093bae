//! Requests answered by upstream servers and programs: correctly, slowly, wrongly, or not at all.

pub(crate) mod backend;
mod bodies;
mod cache;
mod compress;
mod encryption;
mod failures;
mod fastcgi;
mod forwarding;
mod groups;
mod hosts;
pub(crate) mod http2;
mod leaving;
mod php;
mod proxy_protocol;
mod queue;
mod sendfile;
mod tunnels;

use crate::common::Running;
use backend::Backend;
use laio::BackendKind;
use laio_serve::{LogTarget, Options, Upstream};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Starts a server with these upstreams, an empty directory, and one worker, so that it has one
/// pool.
fn serve(
    upstreams: Vec<Upstream>,
    change: impl FnOnce(&mut Options),
) -> (Running, tempfile::TempDir) {
    serve_with(BackendKind::Lazy, upstreams, change)
}

fn serve_with(
    backend: BackendKind,
    upstreams: Vec<Upstream>,
    change: impl FnOnce(&mut Options),
) -> (Running, tempfile::TempDir) {
    let root = tempfile::Builder::new().prefix("site").tempdir().unwrap();
    let server = Running::on(backend, root.path(), |options| {
        options.workers = Some(if backend == BackendKind::Sync { 4 } else { 1 });
        options.site.upstreams = upstreams.into();
        change(options);
    });
    (server, root)
}

pub(crate) fn http(prefix: &str, backend: &Backend) -> Upstream {
    Upstream::http(&format!("{prefix}=http://{}", backend.address())).unwrap()
}

/// Sequential requests need one connection to an upstream. Where helper threads make the calls, an
/// answer may arrive before the server knows that the request was sent completely; then it does not
/// reuse the connection.
fn assert_kept(kind: BackendKind, connections: usize, requests: usize) {
    let most = match kind {
        BackendKind::Threads | BackendKind::Activations => requests,
        _ => 1,
    };
    assert!((1..=most).contains(&connections), "{kind}: {connections}");
}

/// Sends bytes and reads until the server closes.
fn exchange(server: &Running, bytes: impl AsRef<[u8]>) -> String {
    let mut client = connect(server);
    client.write_all(bytes.as_ref()).unwrap();
    read_to_end(client)
}

fn connect(server: &Running) -> TcpStream {
    server.connect().0.into_inner()
}

fn read_to_end(mut client: TcpStream) -> String {
    let mut answer = Vec::new();
    let result = client.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
            panic!("the server neither answers nor closes, after {answer:?}")
        }
        _ => answer,
    }
}

/// Returns a GET whose answer ends the connection.
fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n")
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").map_or("", |(_, body)| body)
}
