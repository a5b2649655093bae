//! Presets, policies and transfers: all send the same bytes, and no client waits for a slow one.

use crate::common::{Running, anywhere, has};
use laio::BackendKind;
use laio_serve::{Io, IoStep, Options, PRESETS, Policies, Server, Transfer};
use laio_testing::extent;
use laio_testing::or_skip;
use laio_testing::temp::make_cold;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;
use tempfile::TempDir;

const LARGE: usize = 3_000_001;

/// Made once: an unoptimized loop over this many bytes takes longer than to serve them.
fn bytes(length: usize) -> &'static [u8] {
    static ALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let byte = |n: u32| (n.wrapping_mul(2_654_435_761) >> 11) as u8;
        (0..LARGE as u32).map(byte).collect()
    });
    &ALL[..length]
}

fn site() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let put = |name: &str, length| std::fs::write(root.path().join(name), bytes(length)).unwrap();
    put("empty.txt", 0);
    put("small.txt", 100);
    put("chunk.bin", 65536);
    put("large.bin", LARGE);
    root
}

/// Runs a body with a server that `change` configures.
fn with(root: &Path, change: impl FnOnce(&mut Options), body: impl FnOnce(&Running)) {
    // Options that `change` does not set are those of other tests.
    let server = Running::with(root, |options| {
        options.workers = Some(1);
        change(options);
    });
    body(&server);
    server.stop();
}

/// Sends a set of requests with known answers.
fn serves(server: &Running, what: &str) {
    println!("{what}");
    let large = bytes(LARGE);
    let mut client = server.connect();
    for (name, length) in [
        ("/small.txt", 100),
        ("/empty.txt", 0),
        ("/chunk.bin", 65536),
        ("/large.bin", LARGE),
    ] {
        let answer = client.get(name);
        assert_eq!(answer.status, 200, "{what} {name}");
        assert!(answer.body == bytes(length), "{what} {name}");
        client.answers(&format!("HEAD {name} => \"\" | Content-Length: {length}"));
    }
    for (range, from, to) in [
        ("bytes=5000-299999", 5000, 300_000),
        ("bytes=-70001", LARGE - 70_001, LARGE),
        ("bytes=2999999-", 2_999_999, LARGE),
    ] {
        let answer = client.ask(&format!("GET /large.bin | Range: {range}"));
        assert_eq!(answer.status, 206, "{what} {range}");
        assert!(answer.body == large[from..to], "{what} {range}");
    }
    let parts = client.ask("GET /large.bin | Range: bytes=7-9,100000-299999");
    parts.is("206");
    for part in [&large[7..10], &large[100_000..300_000]] {
        let mut windows = parts.body.windows(part.len());
        assert!(windows.any(|window| window == part), "{what}");
    }
    client.answers("GET /absent => 404");
    let one = |name: &str| format!("GET {name} HTTP/1.1\r\nHost: test\r\n\r\n");
    client.send(["/small.txt", "/large.bin", "/small.txt"].map(one).concat());
    for length in [100, LARGE, 100] {
        let found = client.answer(false).body;
        assert!(found == bytes(length), "{what}, pipelined");
    }
}

/// Returns a client that requests much and reads nothing.
fn greedy(server: &Running) -> TcpStream {
    let (family, kind) = (
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
    );
    let socket = rustix::net::socket(family, kind, None).unwrap();
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
    rustix::net::connect(&socket, &server.places()[0].inet().unwrap()).unwrap();
    let mut stream = TcpStream::from(socket);
    let request = b"GET /huge.bin HTTP/1.1\r\nHost: test\r\n\r\n";
    stream.write_all(request).unwrap();
    stream
}

/// Other clients are served while some read nothing, and one that disconnects in between does no
/// harm.
fn slow_clients_do_not_delay_others(server: &Running, what: &str) {
    let mut slow: Vec<_> = (0..12).map(|_| greedy(server)).collect();
    // Their heads have arrived, so their bodies are being sent.
    for stream in &mut slow {
        let mut head = [0; 4];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP", "{what}");
    }
    serves(server, what);
    drop(slow);
    assert!(server.get("/large.bin").body == bytes(LARGE), "{what}");
}

fn huge(root: &Path) {
    let file = std::fs::File::create(root.join("huge.bin")).unwrap();
    file.set_len(1 << 30).unwrap();
}

#[test]
fn every_preset_serves_the_same_bytes() {
    let root = site();
    huge(root.path());
    for preset in PRESETS {
        let steps = IoStep::ALL.into_iter();
        let steps = steps.filter_map(|step| preset.io.policies.of(step));
        if !steps.chain([preset.backend]).all(has) {
            continue;
        }
        let change = |options: &mut Options| preset.apply(options);
        with(root.path(), change, |server| {
            slow_clients_do_not_delay_others(server, preset.name)
        });
    }
}

#[test]
fn every_transfer_serves_the_same_bytes() {
    let root = site();
    huge(root.path());
    let ways = [
        (BackendKind::Lazy, false, None),
        (BackendKind::Lazy, true, Some(4096)),
        (BackendKind::Uring, false, None),
        (BackendKind::Hybrid, false, Some(1 << 20)),
        (BackendKind::Threads, true, None),
    ];
    let ways = ways.into_iter().filter(|&(backend, ..)| has(backend));
    for transfer in Transfer::ALL {
        if transfer == Transfer::ZeroCopy && laio_testing::lacks("zero-copy") {
            continue;
        }
        for (number, (backend, cork, chunk)) in ways.clone().enumerate() {
            if !extent::chooses(&transfer.to_string(), number, 2) {
                continue;
            }
            if transfer == Transfer::ZeroCopy
                && !matches!(backend, BackendKind::Lazy | BackendKind::Uring)
            {
                continue; // refused: see zero_copy.rs
            }
            let change = |options: &mut Options| {
                options.backend = Some(backend);
                options.io = Io {
                    transfer,
                    cork,
                    chunk,
                    ..Io::default()
                };
            };
            let what = format!("{transfer}, {backend}, cork {cork}, chunk {chunk:?}");
            with(root.path(), change, |server| {
                slow_clients_do_not_delay_others(server, &what)
            });
        }
    }
}

#[test]
fn every_transfer_can_be_made_plainly() {
    let root = site();
    for transfer in [Transfer::Sendfile, Transfer::ShmSendfile, Transfer::Splice] {
        let change = |options: &mut Options| {
            options.backend = Some(BackendKind::Sync);
            options.workers = Some(8);
            options.io.transfer = transfer;
        };
        with(root.path(), change, |server| {
            serves(server, &format!("{transfer}, sync"));
        });
    }
}

#[test]
fn every_step_can_have_its_own_back_end() {
    let root = site();
    for step in IoStep::ALL {
        for kind in BackendKind::ALL {
            let network = matches!(step, IoStep::Accept | IoStep::Receive | IoStep::Send);
            if kind == BackendKind::Sync && network || !has(kind) {
                continue;
            }
            let change = |options: &mut Options| {
                options.backend = Some(BackendKind::Hybrid);
                options.io.policies = Policies::NONE.with(step, kind);
                options.io.transfer = match step {
                    IoStep::Sendfile => Transfer::Sendfile,
                    _ => Transfer::Buffer,
                };
            };
            let what = format!("{step}={kind}");
            with(root.path(), change, |server| serves(server, &what));
        }
    }
}

#[test]
fn classes_have_limits_in_every_back_end() {
    let root = site();
    huge(root.path());
    for kind in BackendKind::ALL {
        if kind == BackendKind::Sync || !has(kind) {
            continue;
        }
        let change = |options: &mut Options| {
            options.backend = Some(kind);
            options.io.class_limits.stat = Some(1);
            options.io.class_limits.read = Some(1);
            options.io.class_limits.write = Some(2);
        };
        let what = format!("one of each class, {kind}");
        with(root.path(), change, |server| {
            slow_clients_do_not_delay_others(server, &what)
        });
    }
}

/// One helper for all clients, twelve of which read nothing: a send to them must not occupy it.
#[test]
fn slow_clients_keep_no_helper_whatever_the_transfer() {
    let root = site();
    huge(root.path());
    for transfer in [
        Transfer::PageCache,
        Transfer::Buffer,
        Transfer::Sendfile,
        Transfer::ShmSendfile,
        Transfer::Splice,
    ] {
        for kind in [BackendKind::Lazy, BackendKind::Hybrid, BackendKind::Threads] {
            let change = |options: &mut Options| {
                options.backend = Some(kind);
                options.io.transfer = transfer;
                options.io.class_limits.read = Some(1);
                options.io.class_limits.write = Some(1);
            };
            let what = format!("{transfer} by one helper, {kind}");
            with(root.path(), change, |server| {
                slow_clients_do_not_delay_others(server, &what)
            });
        }
    }
}

/// The disk is not waited for by the worker, whatever part of the file is in memory.
#[test]
fn files_that_are_not_in_memory_arrive_whole() {
    let root = site();
    let file = std::fs::File::open(root.path().join("large.bin")).unwrap();
    let expected = bytes(LARGE);
    for kind in [BackendKind::Lazy, BackendKind::Hybrid, BackendKind::Threads] {
        let change = |options: &mut Options| options.backend = Some(kind);
        with(root.path(), change, |server| {
            let mut client = server.connect();
            // The first request opens the file, later ones may get it from the cache of open files.
            for _ in 0..4 {
                if or_skip(make_cold(&file)).is_none() {
                    return;
                }
                let part = client.ask("GET /large.bin | Range: bytes=1500000-1900000");
                assert!(part.body == expected[1_500_000..=1_900_000], "{kind}");
                let whole = client.ask("GET /large.bin");
                assert!(whole.body == expected, "{kind}");
            }
        });
    }
}

#[test]
fn what_the_kernel_holds_for_a_client_can_be_bounded() {
    let root = site();
    huge(root.path());
    let server = Running::with(root.path(), |options| {
        options.workers = Some(1);
        options.limits.send_buffer = Some(16 * 1024);
        options.limits.write_time = Duration::from_millis(300);
        options.limits.write_rate = 1 << 30;
    });
    let mut slow = greedy(&server);
    let mut head = [0; 4];
    slow.read_exact(&mut head).unwrap();
    // By then the server has reset the connection.
    server.stop();
    let mut rest = Vec::new();
    let _ = slow.read_to_end(&mut rest);
    assert!(rest.len() <= 64 * 1024, "{}", rest.len());
}

#[test]
fn impossible_combinations_are_refused_with_a_hint() {
    let root = site();
    #[rustfmt::skip]
    let cases = [
        (BackendKind::Lazy, "read=sync", "only sendfile can be sync"),
        (BackendKind::Sync, "open=lazy", "choose another back end"),
        (BackendKind::Uring, "open=activations", "activations and uring"),
        (BackendKind::Hybrid, "open=sync,stat=sync", "a limit of stat threads"),
    ];
    for (backend, policies, part) in cases {
        Running::refuses(root.path(), part, |options| {
            options.backend = Some(backend);
            options.io.policies = policies.parse().unwrap();
            let is_hybrid = backend == BackendKind::Hybrid;
            options.io.class_limits.stat = is_hybrid.then_some(4);
        });
    }
    for chunk in [1, 1 << 30] {
        Running::refuses(root.path(), "4096 to 16777216", |options| {
            options.io.chunk = Some(chunk)
        });
    }
}

#[test]
fn calls_are_counted_by_operation_and_outcome() {
    // Without it, an open below the root is a call for each name of the path.
    if laio_testing::lacks("openat2") {
        return;
    }
    let root = site();
    let mut options = Options {
        listen: anywhere(),
        backend: Some(BackendKind::Hybrid),
        workers: Some(1),
        log: laio_serve::LogTarget::Off,
        ..Options::default()
    };
    options.site.root = Some(root.path().to_owned());
    options.cache = laio_serve::Cache::OFF;
    options.io.policies = "open=threads,stat=sync,file-read=lazy".parse().unwrap();
    let observer = laio_serve::Observer::new(false);
    options.observer = observer.clone();
    let server = Server::start(options).unwrap();
    let mut stream = TcpStream::connect(server.address().unwrap()).unwrap();
    stream
        .write_all(b"GET /small.txt HTTP/1.0\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(bytes(100)));
    server.control().stop();
    server.wait().unwrap();
    let counts = observer.seen().steps();
    let of = |step: IoStep| {
        let found = counts.iter().find(|counts| counts.step == step).unwrap();
        (found.inline, found.background + found.fallback)
    };
    assert_eq!(of(IoStep::Open), (0, 1), "{counts:?}");
    assert_eq!(of(IoStep::Stat), (1, 0), "{counts:?}");
    let (at_once, later) = of(IoStep::FileRead);
    assert_eq!(at_once + later, 1, "{counts:?}");
    assert_eq!(of(IoStep::Send), (1, 0), "{counts:?}");
    assert_eq!(of(IoStep::Sendfile), (0, 0), "{counts:?}");
}
