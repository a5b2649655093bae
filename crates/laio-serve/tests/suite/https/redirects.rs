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
    for (request, to) in [
        ("GET /", "test:PORT/"),
        ("GET /", "test:PORT/"),
        ("HEAD /a/../b%41?x=/y&z", "test:PORT/bA?x=/y&z"),
        ("POST /missing", "test:PORT/missing"),
        ("DELETE /", "test:PORT/"),
        (
            "GET /.well-known/acme-challenge/x",
            "test:PORT/.well-known/acme-challenge/x",
        ),
        ("GET http://other:81/p", "other:PORT/p"),
    ] {
        let to = to.replace("PORT", &port.to_string());
        let others = "Strict-Transport-Security: - | Connection: -";
        client.answers(&format!(
            "{request} => 308 | Location: https://{to} | {others}"
        ));
    }
    // The body of a redirected request is skipped.
    client.answers("POST / | Host: a:80 | \"abc\" => 308\nGET / => 308");
}

#[test]
fn what_cannot_be_redirected_is_answered() {
    let site = site();
    let server = start(&site, |_| {});
    server.answers(
        r#"
        # No host, no URL.
        "GET / HTTP/1.0\r\n\r\n" => 400
        GET / | Host: a b => 400 | Location: -
        GET / | Host: a/b => 400 | Location: -
        GET / | Host: a@b => 400 | Location: -
        GET / | Host: "a" => 400 | Location: -
        GET / | Host: a:b => 400 | Location: -
        OPTIONS * => 204
        GET /%zz => 400
        # Anybody may say that https was used, and only a trusted proxy is believed.
        GET / | X-Forwarded-Proto: https => 308
        "#,
    );
    // A proxy in front has used https: a redirect would come back here for ever.
    let server = start(&site, |options| {
        options.clients.proxies = vec!["127.0.0.1".parse().unwrap()];
    });
    server.connect().answers(
        r#"
        GET / | X-Forwarded-Proto: https => 200 | "home"
        GET / | Forwarded: for=10.0.0.1;proto=https => 200 | "home"
        GET / | X-Forwarded-Proto: http => 308
        "#,
    );
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
