//! What each version does when its archive is truncated while it is served.

use laio_example_tiles::archive;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

const SIGBUS: i32 = 7;
const SIGKILL: i32 = 9;
const TILE: &str = "/7/100/100";

/// Serves an archive, gets a tile, truncates the archive, and gets the tile again. Returns the first lines of
/// both replies and of one to a third request, and the signal that ended the server: `SIGKILL` if it still
/// ran.
fn truncate_while_served(version: &str) -> ([String; 3], i32) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("tiles");
    archive::write(&file, 7, 200).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_laio-example-tiles"))
        .args([version, file.to_str().unwrap(), "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = address(&mut server);

    let first = first_line(&address, TILE);
    // Behind the header and the root directory.
    File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(16384)
        .unwrap();
    let second = first_line(&address, TILE);
    let third = first_line(&address, "/0/0/0");
    // Does nothing to a server that another signal has ended.
    server.kill().unwrap();
    let signal = server.wait().unwrap().signal().unwrap();
    ([first, second, third], signal)
}

fn address(server: &mut Child) -> String {
    let mut line = String::new();
    let output = server.stdout.take().unwrap();
    BufReader::new(output).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap();
    address.trim_end_matches('/').to_owned()
}

/// The first line of a reply: empty if the connection fails or ends before it.
fn first_line(address: &str, path: &str) -> String {
    let Ok(mut connection) = TcpStream::connect(address) else {
        return String::new();
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    let mut reply = Vec::new();
    let sent = connection.write_all(request.as_bytes());
    // A reset connection keeps what had come.
    let _ = sent.and_then(|()| connection.read_to_end(&mut reply));
    let reply = String::from_utf8_lossy(&reply);
    reply.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn a_mapping_ends_the_server() {
    let (replies, signal) = truncate_while_served("before");
    assert_eq!(replies, ["HTTP/1.1 200 OK", "", ""]);
    assert_eq!(signal, SIGBUS);
}

#[test]
fn a_read_gives_an_error() {
    for version in ["after", "direct"] {
        let (replies, signal) = truncate_while_served(version);
        let expected = [
            "HTTP/1.1 200 OK",
            "HTTP/1.1 500 Internal Server Error",
            "HTTP/1.1 204 No Content",
        ];
        assert_eq!(replies, expected, "{version}");
        assert_eq!(signal, SIGKILL, "{version}");
    }
}
