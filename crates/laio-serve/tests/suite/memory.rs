//! The memory that clients make the server hold who do not read their responses.

use crate::common::{Running, until};
use laio_serve::{Http3, Limits, Memory, MemoryCounts, MemoryUse, Observer, Transfer};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const CONNECTIONS: u64 = 50;
const STREAMS: u64 = 100;
const LARGE: usize = 4 << 20;

fn site() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("large.bin"), vec![7; LARGE]).unwrap();
    dir
}

fn serve(site: &Path, memory: u64, transfer: Transfer) -> (Running, Observer) {
    let observer = Observer::new(false);
    let own = observer.clone();
    let server = Running::with(site, |options| {
        options.observer = own;
        options.limits.memory = memory;
        options.io.transfer = transfer;
    });
    (server, observer)
}

fn counts(observer: &Observer) -> MemoryCounts {
    observer.seen().memory
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u32;
    let head = [&length.to_be_bytes()[1..], &[kind, flags]].concat();
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// Begins requests for the large file on a connection of HTTP/2 whose streams have a window of `window` bytes.
fn request_all(server: &Running, window: u32) -> TcpStream {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let setting = [&4_u16.to_be_bytes()[..], &window.to_be_bytes()].concat();
    bytes.extend(frame(4, 0, 0, &setting));
    // The window of the connection.
    bytes.extend(frame(8, 0, 0, &(1_u32 << 30).to_be_bytes()));
    for stream in 0..STREAMS as u32 {
        let head = b"\x82\x86\x04\x0a/large.bin\x41\x01a";
        bytes.extend(frame(1, 5, 2 * stream + 1, head));
    }
    let mut client = server.connect().0.into_inner();
    client.write_all(&bytes).unwrap();
    client
}

/// Reads frames until each stream has the head of its response. Returns the bytes of content before that.
fn read_heads(client: &mut TcpStream) -> usize {
    let (mut heads, mut content) = (0, 0);
    while heads < STREAMS {
        let mut head = [0; 9];
        client.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        client.read_exact(&mut vec![0; length]).unwrap();
        heads += u64::from(head[3] == 1);
        content += if head[3] == 0 { length } else { 0 };
    }
    content
}

/// The most that a connection of HTTP/2 may hold beyond its reserves.
fn most_of_http2() -> u64 {
    let responses = [MemoryUse::Responses, MemoryUse::Frames].map(Memory::most);
    let requests = STREAMS * (Memory::REQUEST + 1024);
    requests + responses.iter().sum::<u64>() + 3 * Memory::GRAIN
}

#[test]
fn nothing_of_a_file_is_held_for_a_window_of_zero() {
    let site = site();
    let (server, observer) = serve(site.path(), Memory::PROCESS, Transfer::default());
    let mut clients: Vec<_> = (0..CONNECTIONS).map(|_| request_all(&server, 0)).collect();
    for client in &mut clients {
        assert_eq!(read_heads(client), 0);
    }
    let requests = STREAMS * (Memory::REQUEST + 1024) + 3 * Memory::GRAIN;
    let held = counts(&observer);
    assert!(
        held.held > 0 && held.held <= CONNECTIONS * requests,
        "{held:?}"
    );
    assert_eq!((held.refused, held.small_pieces), (0, 0));
    drop(clients);
    until("all is given back", || counts(&observer).held == 0);
}

#[test]
fn clients_that_do_not_read_get_no_more_than_their_share() {
    let site = site();
    let (server, observer) = serve(site.path(), Memory::PROCESS, Transfer::default());
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| request_all(&server, u32::MAX >> 1))
        .collect();
    let responses = CONNECTIONS * Memory::most(MemoryUse::Responses) / 2;
    until("responses wait", || {
        let held = counts(&observer).held;
        assert!(held <= CONNECTIONS * most_of_http2(), "{held}");
        held >= responses
    });
    drop(clients);
    until("all is given back", || counts(&observer).held == 0);
}

/// A client resets its requests in the middle of the responses. The server takes back what they hold, and goes on.
#[test]
fn reset_requests_give_back_what_they_hold() {
    let site = site();
    fs::write(site.path().join("small.bin"), "small").unwrap();
    let (server, observer) = serve(site.path(), Memory::PROCESS, Transfer::default());
    let mut client = request_all(&server, u32::MAX >> 1);
    let responses = Memory::most(MemoryUse::Responses) / 2;
    until("responses wait", || counts(&observer).held >= responses);
    let mut bytes = Vec::new();
    for stream in 0..STREAMS as u32 {
        bytes.extend(frame(3, 0, 2 * stream + 1, &8_u32.to_be_bytes()));
    }
    let last = 2 * STREAMS as u32 + 1;
    bytes.extend(frame(1, 5, last, b"\x82\x86\x04\x0a/small.bin\x41\x01a"));
    client.write_all(&bytes).unwrap();
    let mut content = Vec::new();
    while content != b"small" {
        let mut head = [0; 9];
        client.read_exact(&mut head).unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        client.read_exact(&mut payload).unwrap();
        assert_ne!(head[3], 7, "the connection ends");
        if head[3] == 0 && head[5..] == last.to_be_bytes() {
            content.extend(payload);
        }
    }
    until("all is given back", || counts(&observer).held == 0);
    drop(client);
}

/// HPACK repeats the fields of earlier responses by number. That holds no memory of their requests.
#[test]
fn an_idle_connection_holds_nothing_of_its_requests() {
    let site = site();
    let (server, observer) = serve(site.path(), Memory::PROCESS, Transfer::default());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    for number in 0..10 {
        let path = site.path().join(format!("number-{number}"));
        let file = fs::File::create(path).unwrap();
        // Each has another value of Last-Modified.
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(number * 1_000_000);
        file.set_modified(time).unwrap();
        let path = format!("/number-{number}");
        let head = [b"\x82\x86\x04\x09", path.as_bytes(), b"\x41\x01a"].concat();
        bytes.extend(frame(1, 5, 2 * number as u32 + 1, &head));
    }
    let mut client = server.connect().0.into_inner();
    client.write_all(&bytes).unwrap();
    let mut ended = 0;
    while ended < 10 {
        let mut head = [0; 9];
        client.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        client.read_exact(&mut vec![0; length]).unwrap();
        assert_ne!(head[3], 3, "a request is reset");
        ended += usize::from(head[3] <= 1 && head[4] & 1 == 1);
    }
    until("all is given back", || counts(&observer).held == 0);
    drop(client);
}

/// The budget is used up by clients of HTTP/2. Others get their responses, in smaller pieces.
#[test]
fn a_budget_that_is_used_up_stops_no_other_client() {
    const BUDGET: u64 = 2 << 20;
    let site = site();
    let (server, observer) = serve(site.path(), BUDGET, Transfer::Buffer);
    let clients: Vec<_> = (0..20)
        .map(|_| request_all(&server, u32::MAX >> 1))
        .collect();
    until("requests are refused", || counts(&observer).refused > 100);
    until("the budget is used up", || {
        let held = counts(&observer).held;
        assert!(held <= BUDGET, "{held}");
        BUDGET - held < Memory::GRAIN
    });
    let before = counts(&observer).small_pieces;
    for _ in 0..3 {
        assert_eq!(server.get("/large.bin").body, vec![7; LARGE]);
    }
    assert!(counts(&observer).small_pieces > before);
    let mut reads = server.connect().0.into_inner();
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, b"\0\x04\x7f\xff\xff\xff"));
    bytes.extend(frame(8, 0, 0, &(1_u32 << 30).to_be_bytes()));
    bytes.extend(frame(1, 5, 1, b"\x82\x86\x04\x0a/large.bin\x41\x01a"));
    reads.write_all(&bytes).unwrap();
    let mut content = 0;
    while content < LARGE {
        let mut head = [0; 9];
        reads.read_exact(&mut head).unwrap();
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        reads.read_exact(&mut vec![0; length]).unwrap();
        assert_ne!(head[3], 3, "the request is reset");
        content += if head[3] == 0 { length } else { 0 };
    }
    drop(clients);
    until("all is given back", || counts(&observer).held == 0);
}

/// Clients of HTTP/1.1 that do not read hold a piece each, and no more than the budget together.
#[test]
fn unread_responses_of_http_1_share_the_budget() {
    const BUDGET: u64 = 1 << 20;
    let site = site();
    fs::write(site.path().join("huge.bin"), vec![7; 4 * LARGE]).unwrap();
    let (server, observer) = serve(site.path(), BUDGET, Transfer::Buffer);
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let mut client = server.connect();
            client.send("GET /huge.bin HTTP/1.1\r\nHost: a\r\n\r\n");
            client
        })
        .collect();
    until("the budget is used up", || {
        let counts = counts(&observer);
        assert!(counts.held <= BUDGET, "{counts:?}");
        counts.small_pieces > 0
    });
    assert_eq!(server.get("/large.bin").body, vec![7; LARGE]);
    drop(clients);
    until("all is given back", || counts(&observer).held == 0);
}

/// A listing counts while it is sent; one for which there is no memory is 503.
#[test]
fn a_listing_without_memory_is_refused() {
    let site = site();
    for number in 0..500 {
        fs::write(site.path().join(format!("{number:0>50}")), "").unwrap();
    }
    for (memory, status) in [(Memory::PROCESS, 200), (0, 503)] {
        let observer = Observer::new(false);
        let own = observer.clone();
        let server = Running::with(site.path(), |options| {
            options.observer = own;
            options.limits.memory = memory;
            options.site.listing = true;
        });
        let listing = server.get("/");
        assert_eq!(listing.status, status);
        assert_eq!(counts(&observer).refused, u64::from(status == 503));
        until("it is given back", || counts(&observer).held == 0);
    }
}

/// The table of what many connections can hold has the sums of the constants.
#[test]
fn the_documented_bound_is_the_sum_of_the_constants() {
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve/limits.md");
    let text = fs::read_to_string(text).unwrap();
    let limits = Limits::default();
    let kib = |bytes: u64| format!("{} KiB", bytes / 1024);
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let reserve = |of| kib(Memory::reserve(of, limits.head_bytes));
    #[rustfmt::skip]
    let rows = [
        ("requests", reserve(MemoryUse::Requests), mib(Memory::most(MemoryUse::Requests))),
        (
            "pieces of responses",
            reserve(MemoryUse::Responses),
            format!(
                "{}, with HTTP/3 {}",
                mib(Memory::most(MemoryUse::Responses)),
                mib(Http3::SEND_BUFFER_MAX)
            ),
        ),
        ("frames of HTTP/2", reserve(MemoryUse::Frames), kib(Memory::most(MemoryUse::Frames))),
        ("pages", reserve(MemoryUse::Pages), mib(Memory::most(MemoryUse::Pages))),
    ];
    for (what, reserve, most) in rows {
        let row = format!("| {what} | {reserve} | {most} |");
        assert!(text.contains(&row), "limits.md lacks {row}");
    }
    let connections = limits.connections as u64;
    for row in [
        format!("| reserves of a connection | {} |", kib(Memory::reserves())),
        format!(
            "| reserves of {connections} connections | {} |",
            mib(connections * Memory::reserves())
        ),
        format!("| budget of the process | {} |", mib(Memory::PROCESS)),
        format!("| sum | {} |", mib(Memory::bound(connections))),
    ] {
        assert!(text.contains(&row), "limits.md lacks {row}");
    }
}
