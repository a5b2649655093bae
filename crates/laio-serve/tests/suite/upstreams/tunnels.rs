//! WebSocket connections.

use super::*;

const UPGRADE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn sockets() -> Backend {
    Backend::start(|peer| {
        let Some(head) = peer.request() else { return };
        if !head.contains("Upgrade: websocket") {
            peer.send("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n");
            return;
        }
        assert!(head.contains("Connection: Upgrade") && head.contains("Sec-WebSocket-Key"));
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: x\r\n\r\nfirst\n",
        );
        loop {
            let line = peer.line();
            if line.is_empty() {
                return;
            }
            peer.send(format!("you said {line}\n"));
        }
    })
}

#[test]
fn bytes_go_both_ways_until_one_side_ends() {
    for kind in crate::common::asynchronous_backends() {
        let backend = sockets();
        let (server, _root) = serve_with(kind, vec![http("/", &backend)], |options| {
            // A tunnel does not count as a connection for requests.
            options.limits.upstream.connections = 1;
        });
        let mut first = connect(&server);
        let mut second = connect(&server);
        for client in [&mut first, &mut second] {
            client.write_all(UPGRADE.as_bytes()).unwrap();
            client.write_all(b"early\n").unwrap();
        }
        for mut client in [first, second] {
            client.write_all(b"late\n").unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
            let all = read_to_end(client);
            assert_eq!(status(&all), "101", "{kind}: {all}");
            assert_eq!(
                body(&all),
                "first\nyou said early\nyou said late\n",
                "{kind}"
            );
            assert!(all.contains("Sec-WebSocket-Accept: x\r\n"));
        }
    }
}

#[test]
fn tunnels_are_bounded_and_end_when_they_are_quiet() {
    let backend = sockets();
    let log = tempfile::NamedTempFile::new().unwrap();
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.log = LogTarget::File(log.path().to_owned());
        options.limits.upstream.tunnels = 1;
        options.limits.upstream.tunnel_time = Duration::from_millis(300);
    });
    let mut quiet = connect(&server);
    quiet.write_all(UPGRADE.as_bytes()).unwrap();
    crate::common::until("the tunnel is asked for", || !backend.heads().is_empty());
    let all = read_to_end(quiet);
    assert_eq!(body(&all), "first\n");
    assert_eq!(status(&exchange(&server, get("/"))), "426");
    server.stop();
    let lines = std::fs::read_to_string(log.path()).unwrap();
    let bytes = "first\n".len();
    assert!(lines.contains(&format!(" 101 {bytes} ")), "{lines}");
}

#[test]
fn with_too_many_tunnels_there_is_no_other() {
    let backend = sockets();
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.limits.upstream.tunnels = 0;
    });
    let mut client = connect(&server);
    client
        .write_all(
            UPGRADE
                .replace("Upgrade\r\n", "Upgrade, close\r\n")
                .as_bytes(),
        )
        .unwrap();
    assert_eq!(status(&read_to_end(client)), "503");
}
