//! More requests than an upstream has connections.

use super::*;
use std::sync::{Arc, Condvar, Mutex};

const CONNECTIONS: usize = 8;
const QUEUE: usize = 100;

/// A thousand, or as many as the descriptors allow: both ends of each connection are in this
/// process, and other tests need some.
fn clients() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
    let most = getrlimit(Resource::Nofile).current;
    let most = most.map_or(usize::MAX, |most| most as usize);
    (most / 4).clamp(2 * (CONNECTIONS + QUEUE), 1000)
}

#[test]
fn a_thousand_at_once_are_served_queued_or_refused() {
    let many = clients();
    let open = Arc::new((Mutex::new(false), Condvar::new()));
    let gate = open.clone();
    let backend = Backend::start(move |peer| {
        while peer.request().is_some() {
            let (open, changed) = &*gate;
            drop(
                changed
                    .wait_while(open.lock().unwrap(), |open| !*open)
                    .unwrap(),
            );
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let (server, root) = serve(vec![http("/api", &backend)], |options| {
        options.limits.upstream.connections = CONNECTIONS;
        options.limits.upstream.idle = CONNECTIONS;
        options.limits.upstream.queue = QUEUE;
        options.limits.upstream.queue_time = Duration::from_secs(300);
    });
    std::fs::write(root.path().join("file"), "a file").unwrap();
    let mut clients: Vec<_> = (0..many).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send("GET /api HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    // Requests for files do not wait behind them.
    assert_eq!(server.get("/file").text(), "a file");
    // Refused requests get their answer at once, while the others hang.
    let (answers, statuses) = std::sync::mpsc::channel();
    let readers: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let answers = answers.clone();
            let small = std::thread::Builder::new().stack_size(64 * 1024);
            let read = move || answers.send(client.answer(false).status).unwrap();
            small.spawn(read).unwrap()
        })
        .collect();
    for _ in 0..many - CONNECTIONS - QUEUE {
        assert_eq!(statuses.recv_timeout(Duration::from_secs(60)), Ok(503));
    }
    let (gate, changed) = &*open;
    *gate.lock().unwrap() = true;
    changed.notify_all();
    for _ in 0..CONNECTIONS + QUEUE {
        assert_eq!(statuses.recv_timeout(Duration::from_secs(60)), Ok(200));
    }
    readers
        .into_iter()
        .for_each(|reader| reader.join().unwrap());
    assert_eq!(backend.connections(), CONNECTIONS);
}

#[test]
fn a_request_that_waits_too_long_is_refused() {
    let backend = Backend::start(|peer| {
        peer.request();
        assert!(peer.is_closed());
    });
    let (server, _root) = serve(vec![http("/", &backend)], |options| {
        options.limits.upstream.connections = 1;
        options.limits.upstream.queue_time = Duration::from_millis(50);
    });
    let mut first = connect(&server);
    first.write_all(get("/").as_bytes()).unwrap();
    crate::common::until("the first is asked for", || !backend.heads().is_empty());
    let refused = exchange(&server, get("/"));
    assert!(
        status(&refused) == "503" && refused.contains("\r\nRetry-After: 1\r\n"),
        "{refused}"
    );
}
