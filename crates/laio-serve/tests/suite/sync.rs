//! The back end sync: each worker serves one connection at a time, with blocking calls.

use crate::common::Running;
use laio::BackendKind::Sync;
use laio_serve::{Limits, LogTarget};
use std::fs;
use std::io::{Read, Write};
use std::time::Duration;
use tempfile::TempDir;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("index.html"), "home").unwrap();
    fs::write(dir.path().join("large.bin"), vec![7; 3_000_000]).unwrap();
    dir
}

#[test]
fn serves_as_many_clients_as_it_has_workers_and_then_the_others() {
    let site = site();
    let log = tempfile::NamedTempFile::new().unwrap();
    let server = Running::on(Sync, site.path(), |options| {
        options.log = LogTarget::File(log.path().to_owned());
    });
    let mut clients: Vec<_> = (0..8).map(|_| server.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.get("/").body, b"home");
        assert_eq!(client.get("/large.bin").body.len(), 3_000_000);
    }
    let mut ninth = server.connect();
    ninth.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    drop(clients.pop());
    assert_eq!(ninth.answer(false).body, b"home");
    drop(ninth);
    assert_eq!(clients[0].get("/nothing").status, 404);
    drop(clients);
    let served = server.stop();
    assert_eq!((served.connections, served.requests), (9, 18));
    assert_eq!(fs::read_to_string(log.path()).unwrap().lines().count(), 18);
}

#[test]
fn stopping_ends_blocking_calls() {
    let site = site();
    let server = Running::on(Sync, site.path(), |_| {});
    let mut idle = server.connect();
    assert_eq!(idle.get("/").status, 200);
    let mut busy = server.connect();
    busy.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut start = [0; 100];
    busy.0.read_exact(&mut start).unwrap();
    let stopping = std::thread::spawn(move || server.stop());
    assert!(idle.is_closed());
    let mut rest = Vec::new();
    busy.0.read_to_end(&mut rest).unwrap();
    assert!(
        rest.len() + start.len() > 3_000_000,
        "the answer was finished"
    );
    assert_eq!(stopping.join().unwrap().requests, 2);
}

/// Each limit in turn, with the others too large to be reached on a busy machine.
#[test]
fn time_outs_are_those_of_the_socket() {
    const SOON: Duration = Duration::from_millis(200);
    let site = site();
    let one_worker = |change: &dyn Fn(&mut Limits)| {
        Running::on(Sync, site.path(), |options| {
            options.workers = Some(1);
            change(&mut options.limits);
        })
    };
    let server = one_worker(&|limits| limits.idle_time = SOON);
    assert!(server.connect().is_closed());

    let server = one_worker(&|limits| limits.head_time = SOON);
    // The only worker serves this connection first, so half of the next one's head is there when it
    // is accepted. The first client must send its request in time.
    let mut busy = None;
    crate::common::until("a client has asked in time", || {
        let mut client = server.connect();
        let request = b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n";
        let asked = client.0.get_mut().write_all(request);
        let answered = asked.and_then(|()| client.0.read_exact(&mut [0; 100]));
        busy = answered.is_ok().then_some(client);
        busy.is_some()
    });
    let mut slow = server.connect();
    slow.send("GET / HTTP/1.1\r\n");
    drop(busy);
    assert_eq!(slow.answer(false).status, 408);

    let server = one_worker(&|limits| limits.write_time = SOON);
    let mut deaf = server.connect();
    deaf.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10));
    // The only worker has left the client that does not read.
    assert_eq!(server.get("/").body, b"home");
}
