//! Tests: the load client with servers that answer well, badly and not at all.

use super::*;
use crate::trace::{Entry, Preset, Request};
use std::io::{Read, Write};
use std::net::TcpListener;

fn settings(server: SocketAddr, pace: Pace) -> Settings {
    Settings {
        server,
        host: "test".to_owned(),
        tls: None,
        pace,
        fetches: None,
        time: None,
        close: false,
        verify: true,
        warm_up: Duration::ZERO,
        timeout: Duration::from_secs(60),
        seed: 1,
    }
}

/// A server that sends the result of `answer` to each request, until the process ends.
fn server(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = std::sync::Arc::new(answer);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = answer.clone();
            std::thread::spawn(move || serve(stream, &*answer));
        }
    });
    address
}

fn serve(mut stream: std::net::TcpStream, answer: &dyn Fn(&str) -> Vec<u8>) {
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        while let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(text.drain(..end + 4).collect()).unwrap();
            let target = head.split(' ').nth(1).unwrap();
            let bytes = answer(target);
            if bytes.is_empty() || stream.write_all(&bytes).is_err() || head.contains("close") {
                return;
            }
        }
        match stream.read(&mut piece) {
            Ok(count) if count > 0 => text.extend(&piece[..count]),
            _ => return,
        }
    }
}

fn made(trace: &Trace) -> impl Fn(&str) -> Vec<u8> + Send + Sync + 'static {
    let files = trace.files.clone();
    move |target| {
        let name = crate::trace::file_of(target).unwrap();
        let file = files.iter().find(|file| file.name == name);
        let Some(size) = file.and_then(|file| file.size) else {
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
        };
        let mut bytes = format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n").into_bytes();
        let start = bytes.len();
        bytes.resize(start + size as usize, 0);
        Content::from_name(&name).fill(0, &mut bytes[start..]);
        bytes
    }
}

fn tree() -> Trace {
    let (depth, files, size) = (2, 3, 100_000);
    let mut trace = Preset::Tree { depth, files, size }.trace(1, 1.0);
    trace.files.push(Entry {
        name: "absent".to_owned(),
        size: None,
    });
    let file = trace.files.len() as u32 - 1;
    trace.requests.push(Request { file, at: None });
    for (number, request) in trace.requests.iter_mut().enumerate() {
        request.at = Some(Duration::from_millis(number as u64));
    }
    trace
}

fn load(settings: &Settings, trace: &Trace) -> LoadResult {
    run(
        settings,
        &What::Trace(trace.clone()),
        &Stop::new(),
        &mut |_| {},
    )
    .unwrap()
}

#[test]
fn every_pace_gets_every_byte() {
    let trace = tree();
    let address = server(made(&trace));
    for (pace, close) in [
        (Pace::Clients(1), false),
        (Pace::Clients(4), true),
        (Pace::Random(3), true),
        (Pace::Rate(2000.0), false),
        (Pace::Times(1.0), false),
    ] {
        let settings = Settings {
            close,
            ..settings(address, pace)
        };
        let outcome = load(&settings, &trace);
        assert_eq!(outcome.requests, trace.requests.len() as u64, "{outcome:?}");
        assert!(outcome.errors.is_empty(), "{outcome:?}");
        let open = matches!(pace, Pace::Rate(_) | Pace::Times(_));
        assert_eq!(outcome.response.is_some(), open);
        if !matches!(pace, Pace::Random(_)) {
            assert_eq!(outcome.bytes, trace.transferred());
        }
        let count: u64 = outcome.series.iter().map(|second| second.requests).sum();
        assert_eq!(count, outcome.requests);
        let busy = |second: &&Second| second.requests > 0;
        assert!(
            outcome
                .series
                .iter()
                .filter(busy)
                .all(|second| second.p99 > 0.001)
        );
        assert_eq!(outcome.csv().lines().count(), outcome.series.len() + 1);
        assert!(outcome.table().contains("own lag"), "{}", outcome.table());
    }
}

#[test]
fn first_requests_are_told_apart_and_a_warm_up_leaves_none() {
    let trace = tree();
    let address = server(made(&trace));
    let twice = Settings {
        fetches: Some(2 * trace.requests.len() as u64),
        ..settings(address, Pace::Rate(2000.0))
    };
    let outcome = load(&twice, &trace);
    let different: std::collections::HashSet<_> =
        trace.requests.iter().map(|request| request.file).collect();
    let count = |times: &Option<Percentiles>| times.as_ref().map_or(0, |times| times.count);
    assert_eq!(count(&outcome.first), different.len() as u64);
    assert_eq!(
        count(&outcome.first) + count(&outcome.again),
        outcome.requests
    );
    assert!(
        outcome.table().contains("asked again"),
        "{}",
        outcome.table()
    );
    let warm = Settings {
        warm_up: Duration::from_secs(3600),
        ..twice
    };
    let outcome = load(&warm, &trace);
    assert_eq!(outcome.requests, 2 * trace.requests.len() as u64);
    assert!(outcome.response.is_none() && outcome.first.is_none() && outcome.again.is_none());
}

#[test]
fn what_goes_wrong_is_told_by_kind() {
    let trace = tree();
    let good = made(&trace);
    let address = server(move |target| {
        let mut bytes = good(target);
        match target {
            "/f00000" => *bytes.last_mut().unwrap() ^= 1,
            "/f00001" => bytes = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "/f00002" => bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc".to_vec(),
            "/a/f00000" => bytes = b"nonsense\r\n\r\n".to_vec(),
            "/a/f00001" => bytes.clear(),
            _ => {}
        }
        bytes
    });
    let mut trace = trace;
    trace.requests = (0..5).map(|file| Request { file, at: None }).collect();
    let outcome = load(&settings(address, Pace::Clients(1)), &trace);
    let kinds: Vec<&str> = outcome.errors.keys().map(String::as_str).collect();
    assert_eq!(
        kinds,
        [
            "closed before the answer",
            "status 500, not 200",
            "the answer is not HTTP",
            "wrong bytes"
        ],
        "{outcome:?}"
    );
    // A short response already fails in its first bytes.
    assert_eq!((outcome.requests, outcome.errors["wrong bytes"]), (0, 2));
}

#[test]
fn ends_and_refusals() {
    let trace = tree();
    let address = server(made(&trace));
    let limited = Settings {
        fetches: Some(40),
        ..settings(address, Pace::Random(2))
    };
    assert_eq!(load(&limited, &trace).requests, 40);
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let outcome = load(&settings(closed, Pace::Clients(2)), &trace);
    assert_eq!(
        outcome.errors["connection refused"],
        trace.requests.len() as u64
    );
    let empty = What::Trace(Trace::default());
    let result = run(
        &settings(address, Pace::Clients(1)),
        &empty,
        &Stop::new(),
        &mut |_| {},
    );
    assert!(result.unwrap_err().to_string().contains("no requests"));
    let one = What::Target("/f00001".to_owned());
    let result = run(
        &settings(address, Pace::Clients(1)),
        &one,
        &Stop::new(),
        &mut |_| {},
    );
    assert_eq!(result.unwrap().requests, 1);
}
