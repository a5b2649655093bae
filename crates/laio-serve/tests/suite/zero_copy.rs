//! The transfer zerocopy: the kernel sends from the server's buffers, which are reused only after
//! it has released them.

use crate::common::Running;
use laio::BackendKind::{self, Hybrid, Lazy, Threads, Uring};
use laio::ZeroCopyCounts;
use laio_serve::{Limits, Observer, Options, Sandbox, Server, Transfer};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

const CHUNK: usize = 4096;

/// Contents that differ between files at every position.
fn bytes(file: usize, length: usize) -> Vec<u8> {
    let at = |place: usize| (place * 31 + place / 251 * 7 + file * 101) as u8;
    (0..length).map(at).collect()
}

/// Lengths around the ends of chunks, and of the number of chunks in flight.
fn lengths() -> Vec<usize> {
    let ends = [1, Limits::ZEROCOPY_CHUNKS, Limits::ZEROCOPY_CHUNKS + 1, 100];
    let around = |count: usize| [count * CHUNK - 1, count * CHUNK, count * CHUNK + 1];
    [1, 2]
        .into_iter()
        .chain(ends.into_iter().flat_map(around))
        .collect()
}

fn site() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    for (file, length) in lengths().into_iter().enumerate() {
        std::fs::write(root.path().join(format!("{file}.bin")), bytes(file, length)).unwrap();
    }
    root
}

/// Returns a server and its observer, or none where io_uring cannot send without a copy.
fn start(
    root: &Path,
    backend: BackendKind,
    change: impl FnOnce(&mut Options),
) -> Option<(Running, Observer)> {
    let context = laio::Context::new(laio::Options::new().backend(Lazy)).unwrap();
    if !context.sends_without_copy() {
        laio_testing::skip("zero-copy", "no ring that sends without a copy");
        return None;
    }
    let observer = Observer::new(false);
    let server = Running::on(backend, root, |options| {
        options.workers = Some(1);
        options.io.transfer = Transfer::ZeroCopy;
        options.io.chunk = Some(CHUNK);
        options.observer = observer.clone();
        if !matches!(backend, Lazy | Uring) {
            options.io.policies = "write=uring".parse().unwrap();
        }
        change(options);
    });
    Some((server, observer))
}

fn serves(server: &Running) {
    let mut client = server.connect();
    for (file, length) in lengths().into_iter().enumerate() {
        let expected = bytes(file, length);
        let answer = client.get(&format!("/{file}.bin"));
        assert!(answer.status == 200 && answer.body == expected, "{length}");
        let (from, to) = (length / 3, length - 1);
        let range = format!("Range: bytes={from}-{to}\r\n");
        let answer = client.request("GET", &format!("/{file}.bin"), &range);
        assert!(answer.body == expected[from..], "{length} from {from}");
    }
}

/// Stops a server and returns its counts.
fn counted(server: Running, observer: &Observer) -> ZeroCopyCounts {
    server.stop();
    observer.seen().zero_copy
}

#[test]
fn lengths_around_the_ends_of_chunks() {
    let root = site();
    for backend in [Lazy, Uring, Hybrid, Threads] {
        for cork in [false, true] {
            println!("{backend}, cork {cork}");
            let started = start(root.path(), backend, |options| options.io.cork = cork);
            let Some((server, observer)) = started else {
                return;
            };
            serves(&server);
            let counts = counted(server, &observer);
            assert!(counts.sends > 200 && counts.ordinary == 0, "{counts:?}");
            // On the loopback interface everything is copied; older kernels do not report it.
            assert!([0, counts.sends].contains(&counts.copied), "{counts:?}");
        }
    }
}

#[test]
fn inside_the_sandbox() {
    let root = site();
    let Some((server, _)) = start(root.path(), Lazy, |options| {
        options.safety.landlock = Sandbox::Auto;
        options.safety.seccomp = Sandbox::Auto;
    }) else {
        return;
    };
    serves(&server);
    let cut_off = greedy(&server, "/big.bin", root.path());
    drop(cut_off);
    serves(&server);
    server.stop();
}

/// Requests a large file, and reads only the first bytes of the head.
fn greedy(server: &Running, name: &str, root: &Path) -> TcpStream {
    let path = root.join(name.trim_start_matches('/'));
    if !path.exists() {
        std::fs::write(path, bytes(77, 8 << 20)).unwrap();
    }
    let mut stream = TcpStream::connect(server.places()[0].inet().unwrap()).unwrap();
    let time = Some(Duration::from_secs(60));
    stream.set_read_timeout(time).unwrap();
    let request = format!("GET {name} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = [0; 4];
    stream.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP");
    stream
}

/// Buffers are reused for later answers; a slow reader must still get its own bytes.
#[test]
fn slow_readers_get_their_bytes_though_buffers_are_reused() {
    let root = site();
    let Some((server, _)) = start(root.path(), Lazy, |_| {}) else {
        return;
    };
    let names = [("/big.bin", 77), ("/other.bin", 78)];
    std::fs::write(root.path().join("other.bin"), bytes(78, 8 << 20)).unwrap();
    let slow: Vec<_> = (0..8)
        .map(|number| {
            let (name, file) = names[number % 2];
            (greedy(&server, name, root.path()), file)
        })
        .collect();
    serves(&server);
    for (mut stream, file) in slow {
        serves(&server);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let body = answer
            .windows(4)
            .position(|end| end == b"\r\n\r\n")
            .unwrap()
            + 4;
        assert!(answer[body..] == bytes(file, 8 << 20), "{file}");
    }
    server.stop();
}

#[test]
fn clients_that_go_away_or_take_nothing_do_no_harm() {
    let root = site();
    let Some((server, observer)) = start(root.path(), Lazy, |_| {}) else {
        return;
    };
    let gone: Vec<_> = (0..8)
        .map(|_| greedy(&server, "/big.bin", root.path()))
        .collect();
    drop(gone);
    serves(&server);
    let counts = counted(server, &observer);
    assert!(counts.sends > 100, "{counts:?}");
    let Some((server, _)) = start(root.path(), Lazy, |options| {
        options.limits.write_time = Duration::from_millis(300);
        options.limits.write_rate = 1 << 30;
    }) else {
        return;
    };
    // Connections of clients that read nothing are reset, and the kernel releases their buffers.
    let slow: Vec<_> = (0..8)
        .map(|_| greedy(&server, "/big.bin", root.path()))
        .collect();
    for stream in slow {
        // A reset, which the kernel reports without a read.
        let mut polled = [PollFd::new(&stream, PollFlags::empty())];
        let time = Timespec::try_from(Duration::from_secs(60)).unwrap();
        assert_eq!(rustix::event::poll(&mut polled, Some(&time)), Ok(1));
    }
    // A small file, which is received at once even on a busy machine.
    assert_eq!(server.get("/0.bin").body, bytes(0, lengths()[0]));
    server.stop();
}

#[test]
fn a_stopping_server_does_not_wait_for_clients_that_do_not_read() {
    let root = site();
    let Some((server, _)) = start(root.path(), Lazy, |options| {
        options.limits.drain_time = Duration::from_millis(100);
    }) else {
        return;
    };
    let slow: Vec<_> = (0..4)
        .map(|_| greedy(&server, "/big.bin", root.path()))
        .collect();
    server.stop();
    for mut stream in slow {
        let mut rest = Vec::new();
        let cut_off = stream.read_to_end(&mut rest);
        assert!(cut_off.is_err() || rest.len() < 8 << 20);
    }
}

#[test]
fn unix_sockets_are_sent_to_ordinarily() {
    let root = site();
    let place = root.path().join("socket");
    let Some((server, observer)) = start(root.path(), Lazy, |options| {
        options.listen = vec![format!("unix:{}", place.display()).parse().unwrap()];
    }) else {
        return;
    };
    for (file, length) in lengths().into_iter().enumerate() {
        let mut stream = UnixStream::connect(&place).unwrap();
        let request = format!("GET /{file}.bin HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.ends_with(&bytes(file, length)), "{length}");
    }
    let counts = counted(server, &observer);
    assert!(counts.sends == 0 && counts.ordinary > 100, "{counts:?}");
}

#[test]
fn encrypted_connections_do_not_use_it() {
    let (root, keys) = (site(), tempfile::tempdir().unwrap());
    let made = crate::common::certs::make(keys.path(), "localhost");
    let Some((server, observer)) = start(root.path(), Lazy, |options| {
        options.listen = vec!["tls:127.0.0.1:0".parse().unwrap()];
        options.certificates = vec![made.files.clone()];
    }) else {
        return;
    };
    let config = std::sync::Arc::new(crate::common::certs::trusting(&[&made], &["http/1.1"]));
    let address = server.places()[0].inet().unwrap();
    let mut stream = crate::common::certs::connect(address, &config, "localhost");
    let last = lengths().len() - 1;
    let request = format!("GET /{last}.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&bytes(last, lengths()[last])));
    assert_eq!(counted(server, &observer), ZeroCopyCounts::default());
}

#[test]
fn without_io_uring_it_is_refused_with_a_hint() {
    let root = site();
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = Options {
            listen: crate::common::anywhere(),
            ..Options::default()
        };
        options.site.root = Some(root.path().to_owned());
        options.io.transfer = Transfer::ZeroCopy;
        change(&mut options);
        Server::start(options).unwrap_err().to_string()
    };
    for backend in [Hybrid, Threads, BackendKind::Sync] {
        let error = refused(&|options| options.backend = Some(backend));
        assert!(error.contains("choose write=uring"), "{error}");
    }
    let error = refused(&|options| options.io.class_limits.write = Some(2));
    assert!(error.contains("limit of write threads"), "{error}");
}
