//! Several upstreams for a prefix.

use super::*;
use crate::common::{LONG, every_backend, until};
use laio_serve::Observer;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Returns an upstream at an address that refuses connections, and what keeps it so.
fn refusing(prefix: &str) -> (Upstream, impl Drop) {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    let taken = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&taken, &std::net::SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address: std::net::SocketAddr = getsockname(&taken).unwrap().try_into().unwrap();
    let upstream = Upstream::http(&format!("{prefix}=http://{address}")).unwrap();
    (upstream, taken)
}

/// Returns an upstream that closes each connection after the head of a request.
fn closing() -> Backend {
    Backend::start(|peer| drop(peer.request()))
}

/// Judges nothing, unless a test changes it.
fn patient(options: &mut Options) {
    options.limits.upstream.failures = u32::MAX;
    options.limits.upstream.retry_time = LONG;
}

#[test]
fn requests_are_divided_by_weight() {
    let (one, other) = (Backend::answering(OK), Backend::answering(OK));
    let mut upstreams = vec![http("/", &one), http("/", &other)];
    upstreams[1].weight = 3;
    for balance in ["round-robin", "least-connections"] {
        let before = [one.heads().len(), other.heads().len()];
        let (server, _root) = serve(upstreams.clone(), |options| {
            options.site.upstreams.balance = vec![balance.parse().unwrap()];
        });
        let mut client = server.connect();
        for _ in 0..20 {
            assert_eq!(client.get("/").text(), "ok");
        }
        let counts = [
            one.heads().len() - before[0],
            other.heads().len() - before[1],
        ];
        assert_eq!(counts, [5, 15], "{balance}");
    }
}

#[test]
fn a_request_in_flight_counts() {
    // The first request stays unanswered until all others were answered by the other upstream.
    let open = Arc::new(AtomicBool::new(false));
    let backend = || {
        let open = open.clone();
        Backend::start(move |peer| {
            while let Some(head) = peer.request() {
                while head.contains("/slow") && !open.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                peer.send(OK);
            }
        })
    };
    let backends = [backend(), backend()];
    let upstreams = backends.iter().map(|backend| http("/", backend)).collect();
    let (server, _root) = serve(upstreams, |_| {});
    let mut slow = server.connect();
    slow.send(get("/slow"));
    let asked = |index: usize| backends[index].heads().len();
    until("the slow request has arrived", || asked(0) + asked(1) == 1);
    let busy = if asked(0) == 1 { 0 } else { 1 };
    let mut client = server.connect();
    for _ in 0..6 {
        assert_eq!(client.get("/").text(), "ok");
    }
    assert_eq!((asked(busy), asked(1 - busy)), (1, 6));
    open.store(true, Ordering::SeqCst);
    assert_eq!(slow.answer(false).text(), "ok");
}

#[test]
fn what_was_not_sent_goes_to_the_next_upstream() {
    let backend = Backend::start(|peer| {
        while let Some(head) = peer.request() {
            if head.contains("Content-Length: 3") {
                assert_eq!(peer.read(3), b"abc");
            }
            peer.send(OK);
        }
    });
    let (refused, _taken) = refusing("/");
    for kind in every_backend() {
        let before = backend.heads().len();
        let upstreams = vec![refused.clone(), http("/", &backend)];
        let (server, _root) = serve_with(kind, upstreams, |options| {
            options.workers = Some(1);
            patient(options);
        });
        let mut client = server.connect();
        client.answers(
            r#"
            GET / => 200
            POST / | "abc" => 200
            PATCH / | "abc" => 200
            GET / => 200
            POST / | "abc" => 200
            DELETE / => 200
            "#,
        );
        assert_eq!(backend.heads().len() - before, 6);
    }
}

#[test]
fn only_what_can_have_had_no_effect_is_repeated() {
    let (bad, good) = (closing(), Backend::answering(OK));
    let (server, _root) = serve(vec![http("/", &bad), http("/", &good)], |options| {
        patient(options);
        options.site.upstreams.balance = vec!["round-robin".parse().unwrap()];
    });
    let mut client = server.connect();
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"] {
        let before = bad.heads().len();
        for _ in 0..2 {
            client.answers(&format!("{method} / | Content-Length: 0 => 200"));
        }
        assert!(bad.heads().len() > before, "{method}");
    }
    // A POST, or a body that was partly sent, may have had its effect.
    for request in [r#"POST / | """#, r#"PUT / | "abc""#] {
        let mut statuses = [0, 1].map(|_| server.ask(request).status);
        statuses.sort();
        assert_eq!(statuses, [200, 502], "{request}");
    }
}

#[test]
fn an_answer_that_has_begun_is_not_repeated() {
    let half = Backend::start(|peer| {
        peer.request();
        peer.send("HTTP/1.1 200");
    });
    let good = Backend::answering(OK);
    let (server, _root) = serve(vec![http("/", &half), http("/", &good)], |options| {
        patient(options);
        options.site.upstreams.balance = vec!["round-robin".parse().unwrap()];
    });
    let mut client = server.connect();
    let mut statuses = [0, 1].map(|_| client.get("/").status);
    statuses.sort();
    assert_eq!(statuses, [200, 502]);
}

#[test]
fn a_request_is_tried_a_limited_number_of_times() {
    let backends = [closing(), closing(), closing()];
    let upstreams: Vec<_> = backends.iter().map(|backend| http("/", backend)).collect();
    for tries in [1, 2, 9] {
        let asked = || backends.iter().map(|it| it.heads().len()).sum::<usize>();
        let before = asked();
        let (server, _root) = serve(upstreams.clone(), |options| {
            patient(options);
            options.limits.upstream.tries = tries;
        });
        assert_eq!(server.get("/").status, 502);
        assert_eq!(asked() - before, tries.min(3));
    }
}

#[test]
fn an_upstream_that_fails_is_left_out() {
    let (bad, good) = (closing(), Backend::answering(OK));
    let observer = Observer::new(false);
    let seen = observer.clone();
    let (server, _root) = serve(vec![http("/", &bad), http("/", &good)], |options| {
        patient(options);
        options.limits.upstream.failures = 2;
        options.limits.upstream.failure_window = LONG;
        options.limits.upstream.out_time = LONG;
        options.observer = observer;
    });
    let mut client = server.connect();
    for _ in 0..20 {
        assert_eq!(client.get("/").text(), "ok");
    }
    assert_eq!((bad.heads().len(), good.heads().len()), (2, 20));
    let name = format!("http://{}", bad.address());
    until("the counts are published", || {
        let seen = seen.seen();
        let counts = seen.upstreams[&name];
        (counts.requests, counts.failures, counts.left_out) == (2, 2, true)
    });
    drop(client);
    server.stop();
    let counts = seen.seen().upstreams[&format!("http://{}", good.address())];
    let counts = [counts.requests, counts.failures, counts.in_flight];
    assert_eq!(counts, [20, 0, 0]);
}

#[test]
fn an_upstream_that_answers_again_comes_back() {
    let broken = Arc::new(AtomicBool::new(true));
    let flag = broken.clone();
    let bad = Backend::start(move |peer| {
        while peer.request().is_some() && !flag.load(Ordering::SeqCst) {
            peer.send(OK);
        }
    });
    let good = Backend::answering(OK);
    let (server, _root) = serve(vec![http("/", &bad), http("/", &good)], |options| {
        patient(options);
        options.limits.upstream.failures = 1;
        options.limits.upstream.out_time = Duration::from_millis(20);
        options.limits.upstream.slow_start = Duration::from_millis(20);
    });
    let mut client = server.connect();
    until("a trial has failed", || {
        assert_eq!(client.get("/").text(), "ok");
        bad.heads().len() >= 2
    });
    broken.store(false, Ordering::SeqCst);
    let before = bad.heads().len();
    until("it gets its share", || {
        assert_eq!(client.get("/").text(), "ok");
        bad.heads().len() >= before + 10
    });
}

#[test]
fn when_all_are_left_out_all_are_tried() {
    let broken = Arc::new(AtomicBool::new(true));
    let backend = || {
        let flag = broken.clone();
        Backend::start(move |peer| {
            while peer.request().is_some() && !flag.load(Ordering::SeqCst) {
                peer.send(OK);
            }
        })
    };
    let backends = [backend(), backend()];
    let upstreams = backends.iter().map(|backend| http("/", backend)).collect();
    let (server, _root) = serve(upstreams, |options| {
        patient(options);
        options.limits.upstream.failures = 1;
        options.limits.upstream.out_time = LONG;
    });
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/").status, 502);
    }
    broken.store(false, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(client.get("/").text(), "ok");
    }
}

#[test]
fn a_hash_keeps_a_key_with_its_upstream() {
    let backends = ["a", "b", "c"].map(|name| {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{name}");
        Backend::answering(answer.leak())
    });
    let upstreams: Vec<_> = backends.iter().map(|backend| http("/", backend)).collect();
    let with = |balance: &str| {
        serve(upstreams.clone(), |options| {
            options.site.upstreams.balance = vec![balance.parse().unwrap()];
        })
    };
    for (balance, request, without) in [
        ("hash=cookie:id", "GET / | Cookie: x=y; id=N", 3),
        ("hash=header:X-Id", "GET / | X-Id: N", 3),
        ("hash=uri", "GET /?N", 1),
    ] {
        let (server, _root) = with(balance);
        let (again, _root) = with(balance);
        let mut clients = [server.connect(), again.connect()];
        let mut seen = HashSet::new();
        for number in 0..30 {
            let number = number.to_string();
            let request = request.replace('N', &number);
            let mut ask = |index: usize| clients[index].ask(&request).text().to_owned();
            let first = ask(0);
            // Another server chooses the same.
            assert_eq!([ask(0), ask(1)], [&*first, &*first], "{balance}");
            seen.insert(first);
        }
        assert_eq!(seen.len(), 3, "{balance}");
        let others = (0..6).map(|_| clients[0].get("/").text().to_owned());
        assert_eq!(others.collect::<HashSet<_>>().len(), without, "{balance}");
    }
    let (server, _root) = with("hash=client");
    let answers = (0..6).map(|_| server.get("/").text().to_owned());
    assert_eq!(answers.collect::<HashSet<_>>().len(), 1);
}

#[test]
fn checks_decide_who_gets_requests() {
    let sick = Arc::new(AtomicBool::new(true));
    let flag = sick.clone();
    let checked = Backend::start(move |peer| {
        while let Some(head) = peer.request() {
            let answer = match head.starts_with("GET /up?a=b HTTP/1.1\r\n") {
                true if flag.load(Ordering::SeqCst) => {
                    "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"
                }
                true => "HTTP/1.1 204 No Content\r\n\r\n",
                false => "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nchecked",
            };
            peer.send(answer);
        }
    });
    let other = Backend::answering(OK);
    let (server, _root) = serve(vec![http("/a", &checked), http("/a", &other)], |options| {
        patient(options);
        options.site.upstreams.health_paths = vec!["/a=/up?a=b".parse().unwrap()];
        options.limits.upstream.health_interval = Duration::from_millis(10);
        options.limits.upstream.health_time = LONG;
        options.limits.upstream.slow_start = Duration::ZERO;
    });
    let mut client = server.connect();
    let mut answers = || {
        let mut answers = [0; 6].map(|_| client.get("/a").text().to_owned());
        answers.sort();
        answers
    };
    until("it is left out", || answers().iter().all(|it| it == "ok"));
    sick.store(false, Ordering::SeqCst);
    until("it comes back", || answers()[0] == "checked");
    let host = format!("Host: {}\r\n", checked.address());
    assert!(checked.heads().iter().any(|head| head.contains(&host)));
}

#[test]
fn a_full_queue_leads_to_another_upstream() {
    let open = Arc::new(AtomicBool::new(false));
    let flag = open.clone();
    let slow = Backend::start(move |peer| {
        while peer.request().is_some() {
            while !flag.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(5));
            }
            peer.send(OK);
        }
    });
    let fast = Backend::answering(OK);
    let (server, _root) = serve(vec![http("/", &slow), http("/", &fast)], |options| {
        patient(options);
        options.site.upstreams.balance = vec!["round-robin".parse().unwrap()];
        options.limits.upstream.connections = 1;
        options.limits.upstream.queue = 0;
        options.limits.upstream.failures = 1;
    });
    let mut first = server.connect();
    first.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut second = server.connect();
    // One of these two requests is the one that waits.
    second.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let asked = || slow.heads().len() + fast.heads().len();
    until("both were sent", || asked() == 2);
    let mut client = server.connect();
    for _ in 0..4 {
        client.answers(r#"POST / | "" => "ok""#);
    }
    assert_eq!(slow.heads().len(), 1);
    open.store(true, Ordering::SeqCst);
    for waiting in [&mut first, &mut second] {
        assert_eq!(waiting.answer(false).text(), "ok");
    }
}

#[test]
fn groups_that_cannot_be() {
    let root = tempfile::tempdir().unwrap();
    let (one, two) = ("/a=http://127.0.0.1:1", "/a=http://127.0.0.1:2");
    let other = "/a=https://127.0.0.1:2";
    for (upstreams, balance, part) in [
        (vec![one, two, one], "hash=uri", "twice for /a"),
        (vec![one, two], "/b=hash=uri", "--balance is for /b"),
        (vec![one, other], "hash=uri", "different protocols"),
    ] {
        let upstreams = upstreams.into_iter().map(|it| Upstream::http(it).unwrap());
        Running::refuses(root.path(), part, |options| {
            options.site.upstreams = upstreams.collect::<Vec<_>>().into();
            options.site.upstreams.balance = vec![balance.parse().unwrap()];
        });
    }
}

#[test]
fn websockets_count_as_requests_in_flight() {
    let backend = || {
        Backend::start(|peer| {
            while let Some(head) = peer.request() {
                if head.contains("Upgrade: websocket\r\n") {
                    peer.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhi");
                    peer.is_closed();
                    return;
                }
                peer.send(OK);
            }
        })
    };
    let backends = [backend(), backend()];
    let (refused, _taken) = refusing("/");
    let members = backends.iter().map(|backend| http("/", backend));
    let upstreams = [refused].into_iter().chain(members).collect();
    let (server, _root) = serve(upstreams, |options| {
        patient(options);
        // The one that refuses is out after its first request.
        options.limits.upstream.failures = 1;
        options.limits.upstream.out_time = LONG;
    });
    let mut sockets: Vec<_> = (0..4).map(|_| server.connect()).collect();
    for socket in &mut sockets {
        socket.answers("GET / | Connection: Upgrade | Upgrade: websocket => 101");
    }
    assert_eq!(backends.each_ref().map(|it| it.heads().len()), [2, 2]);
    // When those of one have ended, it gets what follows.
    let asked = |index: usize| backends[index].heads().len();
    drop(sockets);
    let mut client = server.connect();
    until("both get requests again", || {
        assert_eq!(client.get("/").text(), "ok");
        asked(0) > 3 && asked(1) > 3
    });
}
