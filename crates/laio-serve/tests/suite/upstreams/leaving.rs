//! Clients that leave while the server waits for an upstream: the exchange ends, whatever it waits for.

use super::*;
use crate::common::certs;
use laio_http::fastcgi::{STDOUT, push_stream};
use rustix::net::sockopt::set_socket_linger;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Longer than a test waits.
const FOREVER: Duration = Duration::from_secs(3600);

fn patient(options: &mut Options) {
    let limits = &mut options.limits.upstream;
    (limits.first_byte_time, limits.between_time) = (FOREVER, FOREVER);
    (limits.queue_time, limits.connect_time) = (FOREVER, FOREVER);
}

/// An upstream that sends nothing, or the head of a response and some content, and then reports that its connection
/// has ended. A target says which.
fn upstream(fastcgi: bool) -> (Backend, Receiver<()>) {
    let (left, gone) = channel();
    let backend = Backend::start(move |peer| {
        let streams = if fastcgi {
            // The parameters and the end of the empty body are less than this.
            let asked = peer.try_read(300).unwrap();
            asked.windows(7).any(|it| it == b"/stream")
        } else {
            peer.request().is_some_and(|head| head.contains("/stream"))
        };
        if streams && fastcgi {
            let mut out = Vec::new();
            push_stream(&mut out, STDOUT, b"Content-Type: text/plain\n\nbegin");
            peer.send(out);
        } else if streams {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nbegin");
        }
        while peer.try_read(1).is_some() {}
        let _ = left.send(());
    });
    (backend, gone)
}

fn ended(gone: &Receiver<()>, what: &str) {
    gone.recv_timeout(Duration::from_secs(60))
        .unwrap_or_else(|_| panic!("{what}: the exchange goes on"));
}

/// Reads until the content has begun.
fn read_begin(client: &mut impl Read) {
    let mut answer = Vec::new();
    while !answer.windows(5).any(|it| it == b"begin") {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        answer.push(byte[0]);
    }
}

#[test]
fn clients_of_http_1_that_close_reset_or_end_their_side() {
    for fastcgi in [false, true] {
        let (backend, gone) = upstream(fastcgi);
        let to = if fastcgi {
            Upstream::fastcgi(&format!("/={}", backend.address())).unwrap()
        } else {
            http("/", &backend)
        };
        let (server, _root) = serve(vec![to], patient);
        for target in ["/wait", "/stream"] {
            for how in ["close", "reset", "half"] {
                let what = format!("{how} of {target}, FastCGI {fastcgi}");
                let mut client = connect(&server);
                let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
                client.write_all(request.as_bytes()).unwrap();
                match target {
                    "/stream" => read_begin(&mut client),
                    _ => crate::common::until("it is asked", || backend.connections() > 0),
                }
                match how {
                    "reset" => set_socket_linger(&client, Some(Duration::ZERO)).unwrap(),
                    "half" => client.shutdown(std::net::Shutdown::Write).unwrap(),
                    _ => {}
                }
                if how == "half" {
                    ended(&gone, &what);
                } else {
                    drop(client);
                    ended(&gone, &what);
                }
            }
        }
    }
}

#[test]
fn clients_over_tls_that_say_so() {
    let (backend, gone) = upstream(false);
    let dir = tempfile::tempdir().unwrap();
    let made = certs::make(dir.path(), "localhost");
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        patient(options);
        options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
        options.certificates = vec![made.files.clone()];
    });
    let config = Arc::new(certs::trusting(&[&made], &[]));
    let address = server.places()[0].inet().unwrap();
    for target in ["/wait", "/stream"] {
        let mut client = certs::connect(address, &config, "localhost");
        client.write_all(get(target).as_bytes()).unwrap();
        if target == "/stream" {
            read_begin(&mut client);
        }
        client.conn.send_close_notify();
        client.flush().unwrap();
        drop(client);
        ended(&gone, target);
    }
}

/// A client that asks for a connection which another one has, and leaves before it gets it, is forgotten.
#[test]
fn a_client_that_waits_for_a_connection_and_leaves() {
    let (backend, gone) = upstream(false);
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        patient(options);
        (
            options.limits.upstream.connections,
            options.limits.upstream.queue,
        ) = (1, 1);
    });
    let mut first = connect(&server);
    first.write_all(get("/stream").as_bytes()).unwrap();
    read_begin(&mut first);
    let mut second = connect(&server);
    second.write_all(get("/wait").as_bytes()).unwrap();
    // The queue has one place.
    crate::common::until("the second one waits", || {
        status(&exchange_within(&server, get("/wait"))) == "503"
    });
    drop(second);
    crate::common::until("its place is free", || {
        exchange_within(&server, get("/wait")).is_empty()
    });
    drop(first);
    ended(&gone, "the first one");
}

/// Sends a request, and returns the answer if it comes soon.
fn exchange_within(server: &Running, request: String) -> String {
    let mut client = connect(server);
    client
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = [0; 100];
    let count = client.read(&mut answer).unwrap_or(0);
    String::from_utf8_lossy(&answer[..count]).into_owned()
}

#[test]
fn a_client_that_leaves_while_an_auth_server_is_asked() {
    let (backend, gone) = upstream(false);
    let (server, root) = serve(Vec::new(), |options| {
        patient(options);
        let address = backend.address();
        let rules = &mut options.site.auth_requests;
        rules.time = FOREVER;
        rules.rules = vec![format!("/**=http://{address}/wait").parse().unwrap()];
    });
    std::fs::write(root.path().join("file"), "guarded").unwrap();
    let mut client = connect(&server);
    client.write_all(get("/file").as_bytes()).unwrap();
    crate::common::until("it is asked", || !backend.heads().is_empty());
    drop(client);
    ended(&gone, "auth server");
}
