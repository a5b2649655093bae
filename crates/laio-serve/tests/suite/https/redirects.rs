//! Redirects from addresses without TLS.

use crate::common::certs::{Made, make};
use crate::common::program::Program;
use crate::common::{Running, until};
use crate::upstreams::backend::Backend;
use laio_serve::{Options, RedirectPort, Server, Upstream, UpstreamAddress};
use std::fs;
use std::io::{Read, Write};
use tempfile::TempDir;

fn site() -> (TempDir, Made) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("site");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("index.html"), "home").unwrap();
    let made = make(dir.path(), "localhost");
    (dir, made)
}

/// Starts a server with an address without TLS, and then one with it.
fn start((dir, made): &(TempDir, Made), change: impl FnOnce(&mut Options)) -> Running {
    Running::with(&dir.path().join("site"), |options| {
        options.listen = ["127.0.0.1:0", "tls:127.0.0.1:0"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        options.certificates = vec![made.files.clone()];
        options.tls.redirect_http = Some(RedirectPort::OfListener);
        change(options);
    })
}

fn https_port(server: &Running) -> u16 {
    server.places()[1].inet().unwrap().port()
}

#[test]
fn every_request_without_tls_is_sent_to_https() {
    let site = site();
    let server = start(&site, |_| {});
    let port = https_port(&server);
    let mut client = server.connect();
    for (method, target, to) in [
        ("GET", "/", "/"),
        ("GET", "/", "/"),
        ("HEAD", "/a/../b%41?x=/y&z", "/bA?x=/y&z"),
        ("POST", "/missing", "/missing"),
        ("DELETE", "/", "/"),
        (
            "GET",
            "/.well-known/acme-challenge/x",
            "/.well-known/acme-challenge/x",
        ),
        ("GET", "http://other:81/p", "/p"),
    ] {
        let answer = client.request(method, target, "");
        assert_eq!(answer.status, 308, "{method} {target}");
        let host = if target.starts_with('/') {
            "test"
        } else {
            "other"
        };
        let location = format!("https://{host}:{port}{to}");
        assert_eq!(answer.header("Location"), Some(&*location));
        answer.is("Strict-Transport-Security: - | Connection: -");
    }
    // The body of a redirected request is skipped.
    client.send("POST / HTTP/1.1\r\nHost: a:80\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(client.answer(false).status, 308);
    assert_eq!(client.get("/").status, 308);
}

#[test]
fn what_cannot_be_redirected_is_answered() {
    let site = site();
    let server = start(&site, |_| {});
    // No host, no URL.
    let mut client = server.connect();
    client.send("GET / HTTP/1.0\r\n\r\n");
    assert_eq!(client.answer(false).status, 400);
    for host in ["a b", "a/b", "a@b", "\"a\"", "a:b"] {
        let mut client = server.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = client.answer(false);
        assert_eq!(
            (answer.status, answer.header("Location")),
            (400, None),
            "{host}"
        );
    }
    assert_eq!(server.connect().request("OPTIONS", "*", "").status, 204);
    assert_eq!(server.get("/%zz").status, 400);
    // Anybody may say that https was used, and only a trusted proxy is believed.
    let answer = server
        .connect()
        .request("GET", "/", "X-Forwarded-Proto: https\r\n");
    assert_eq!(answer.status, 308);
    // A proxy in front has used https: a redirect would come back here for ever.
    let server = start(&site, |options| {
        options.clients.proxies = vec!["127.0.0.1".parse().unwrap()];
    });
    let mut client = server.connect();
    for field in [
        "X-Forwarded-Proto: https",
        "Forwarded: for=10.0.0.1;proto=https",
    ] {
        let answer = client.request("GET", "/", &format!("{field}\r\n"));
        assert_eq!((answer.status, answer.text()), (200, "home"));
    }
    let answer = client.request("GET", "/", "X-Forwarded-Proto: http\r\n");
    assert_eq!(answer.status, 308);
}

#[test]
fn upstreams_get_no_redirected_request() {
    let site = site();
    let backend = Backend::start(|_| panic!("a request without TLS has arrived"));
    let upstream = Upstream::http(&format!("/=http://{}", backend.address())).unwrap();
    let server = start(&site, |options| {
        options.site.upstreams.http = vec![upstream];
    });
    assert_eq!(server.get("/app").status, 308);
    assert_eq!(backend.connections(), 0);
}

#[test]
fn programs_get_no_redirected_request() {
    let (site, program) = (site(), Program::start());
    fs::write(site.0.path().join("site/a.php"), "<?php").unwrap();
    let address = program.address();
    let php = UpstreamAddress::Tcp(address.ip().to_string(), address.port());
    let server = start(&site, |options| {
        options.site.upstreams.php = Some(php);
    });
    assert_eq!(server.get("/a.php").status, 308);
    assert!(program.calls().is_empty());
}

#[test]
fn the_port_may_be_that_of_another_machine() {
    let site = site();
    let server = start(&site, |options| {
        options.tls.redirect_http = Some(RedirectPort::Number(443));
    });
    let answer = server.get("/a?b");
    assert_eq!(answer.header("Location"), Some("https://test/a?b"));
}

#[test]
fn unix_sockets_are_for_proxies_and_do_not_redirect() {
    let site = site();
    let path = site.0.path().join("socket");
    let server = start(&site, |options| {
        let listen = format!("unix:{}", path.display());
        options.listen.push(listen.parse().unwrap());
    });
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(server.get("/").status, 308);
}

#[test]
fn a_reload_turns_redirects_on_and_off() {
    let site = site();
    let mut options = Options::default();
    let server = start(&site, |own| {
        own.tls.redirect_http = None;
        options = own.clone();
    });
    assert_eq!(server.get("/").status, 200);
    for (redirect, status) in [(Some(RedirectPort::OfListener), 308), (None, 200)] {
        options.tls.redirect_http = redirect;
        server.control().reload(options.clone()).unwrap();
        // The workers of before still accept what the kernel has given them.
        until("the new options hold", || server.get("/").status == status);
    }
}

#[test]
fn without_an_address_with_tls_there_is_nowhere_to_go() {
    let mut options = Options {
        listen: crate::common::anywhere(),
        ..Options::default()
    };
    options.tls.redirect_http = Some(RedirectPort::OfListener);
    let text = Server::start(options).unwrap_err().to_string();
    assert!(
        text.contains("--redirect-http") && text.contains("tls:"),
        "{text}"
    );
}
