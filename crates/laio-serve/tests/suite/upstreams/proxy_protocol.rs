//! The PROXY protocol towards upstreams.

use super::*;
use crate::common::until;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[test]
fn a_connection_is_that_of_one_client() {
    let backend = Backend::start(|peer| {
        let line = peer.line();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}",
            line.len()
        );
        while peer.request().is_some() {
            peer.send(&answer);
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.site.upstreams.proxy_protocol = vec!["/=v1".parse().unwrap()];
    });
    let mut clients = [server.connect(), server.connect()];
    let expected = clients.each_ref().map(|client| {
        let stream = client.0.get_ref();
        let ends = [stream.local_addr().unwrap(), stream.peer_addr().unwrap()];
        let [from, to] = ends;
        format!(
            "PROXY TCP4 {} {} {} {}",
            from.ip(),
            to.ip(),
            from.port(),
            to.port()
        )
    });
    for _ in 0..3 {
        for (client, expected) in clients.iter_mut().zip(&expected) {
            assert_eq!(client.get("/").text(), expected);
        }
    }
    assert_eq!(backend.connections(), 2);
}

#[test]
fn version_2_and_checks() {
    let backend = Backend::start(|peer| {
        let head = peer.read(16);
        assert_eq!(&head[..12], b"\r\n\r\n\0\r\nQUIT\n");
        let length = u16::from_be_bytes([head[14], head[15]]);
        peer.read(length.into());
        while let Some(request) = peer.request() {
            // A check is a connection of the server itself.
            let is_check = request.starts_with("GET /up ");
            assert_eq!(
                (head[12], head[13]),
                if is_check { (0x20, 0) } else { (0x21, 0x11) }
            );
            peer.send(OK);
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.site.upstreams.proxy_protocol = vec!["v2".parse().unwrap()];
        options.site.upstreams.health_paths = vec!["/up".parse().unwrap()];
        options.limits.upstream.health_interval = Duration::from_millis(10);
    });
    assert_eq!(server.get("/").text(), "ok");
    until("it is checked", || {
        backend
            .heads()
            .iter()
            .any(|head| head.starts_with("GET /up "))
    });
}

#[test]
fn idle_connections_of_other_clients_make_room() {
    let backend = Backend::start(|peer| {
        peer.line();
        while peer.request().is_some() {
            peer.send(OK);
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.site.upstreams.proxy_protocol = vec!["v1".parse().unwrap()];
        options.limits.upstream.idle = 1;
    });
    let mut clients = [server.connect(), server.connect()];
    assert_eq!(clients[0].get("/").text(), "ok");
    for _ in 0..3 {
        assert_eq!(clients[1].get("/").text(), "ok");
    }
    assert_eq!(backend.connections(), 2);
    assert_eq!(clients[0].get("/").text(), "ok");
    assert_eq!(backend.connections(), 3);
}

#[test]
fn a_client_behind_a_trusted_proxy() {
    let backend = Backend::start(|peer| {
        let line = peer.line();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{line}",
            line.len()
        );
        while peer.request().is_some() {
            peer.send(&answer);
        }
    });
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.site.upstreams.proxy_protocol = vec!["v1".parse().unwrap()];
        options.clients.proxies = vec!["127.0.0.0/8".parse().unwrap()];
    });
    let mut client = server.connect();
    let own = client.0.get_ref().peer_addr().unwrap().port();
    for address in ["192.0.2.1", "192.0.2.2", "192.0.2.1"] {
        let field = format!("X-Forwarded-For: {address}\r\n");
        let answer = client.request("GET", "/", &field);
        let expected = format!("PROXY TCP4 {address} 127.0.0.1 0 {own}");
        assert_eq!(answer.text(), expected);
    }
    assert_eq!(backend.connections(), 2);
}
