//! A file that hangs in `open` or `read` delays its own request and no other.

use crate::common::{Client, LONG, Running, has};
use laio::BackendKind;
use laio_testing::fault_fs::{Fault, Kind, Released};
use laio_testing::forbid::Forbid;
use laio_testing::{FaultFs, forbid, or_skip};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Requests answered while another one hangs.
const OTHERS: usize = 1000;

laio_testing::each_test! {
    threads => other_requests_continue(BackendKind::Threads);
    hybrid => other_requests_continue(BackendKind::Hybrid);
    uring => other_requests_continue(BackendKind::Uring);
    lazy => other_requests_continue(BackendKind::Lazy);
}

#[test]
fn lazy_with_io_uring_forbidden() {
    for errno in [libc::EPERM, libc::ENOSYS] {
        let forbidden = Forbid::io_uring_and_perf(errno);
        forbid::child(laio_testing::test_name!(), &forbidden, || {
            other_requests_continue(BackendKind::Lazy);
        });
    }
}

fn other_requests_continue(backend: BackendKind) {
    if !has(backend) {
        return;
    }
    let Some(slow) = or_skip(FaultFs::mount()) else {
        return;
    };
    slow.add_file("slow.txt", b"at last");
    // Names with a leading dot are not served.
    let fast = tempfile::Builder::new().prefix("fast").tempdir().unwrap();
    fs::write(fast.path().join("fast.txt"), "at once").unwrap();
    // Both are below one root, so the name of the slow file crosses into its file system.
    let root = slow.path().parent().unwrap();
    let target = |path: std::path::PathBuf| {
        format!(
            "/{}",
            path.strip_prefix(root).expect("below the root").display()
        )
    };
    let slow_target = target(slow.join("slow.txt"));
    let fast_target = target(fast.path().join("fast.txt"));
    let server = Running::on(backend, root, |options| options.workers = Some(1));

    for kind in [Kind::Lookup, Kind::Open, Kind::Read] {
        let mut waiting = server.connect();
        slow.set_at("slow.txt", kind, Fault::Hang);
        waiting.send(format!("GET {slow_target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(slow.wait_hung(1, LONG), "{backend}: {kind:?} was asked for");

        let mut clients: Vec<_> = (0..4).map(|_| server.connect()).collect();
        let mut slowest = Duration::ZERO;
        for count in 0..OTHERS {
            let start = Instant::now();
            let client = &mut clients[count % 4];
            let answer = client.get(&fast_target);
            assert_eq!(
                (answer.status, answer.text()),
                (200, "at once"),
                "{backend}"
            );
            slowest = slowest.max(start.elapsed());
        }
        println!("{backend}: {OTHERS} answers while {kind:?} hung, the slowest in {slowest:?}");

        slow.clear_all();
        slow.release(Released::Served);
        let answer = waiting.answer(false);
        assert_eq!(
            (answer.status, answer.text()),
            (200, "at last"),
            "{backend}: {kind:?}"
        );
    }
}

#[test]
fn an_open_that_hangs_is_given_up() {
    let Some(slow) = or_skip(FaultFs::mount()) else {
        return;
    };
    slow.add_file("slow.txt", b"at last");
    slow.add_file("fast.txt", b"at once");
    for backend in crate::common::asynchronous_backends() {
        let server = Running::on(backend, slow.path(), |options| {
            options.workers = Some(1);
            options.limits.open_time = Duration::from_millis(200);
        });
        slow.set_at("slow.txt", Kind::Lookup, Fault::Hang);
        let answer = server.get("/slow.txt");
        assert_eq!(answer.status, 503, "{backend}");
        assert_eq!(answer.header("Retry-After"), Some("1"), "{backend}");
        // On a busy machine the server may answer 503; the client then retries, as the answer asks.
        let served = |target: &str, text: &str| {
            crate::common::until(target, || {
                let answer = server.get(target);
                assert!(answer.status == 503 || answer.text() == text, "{backend}");
                answer.status == 200
            });
        };
        served("/fast.txt", "at once");
        slow.clear_all();
        slow.release(Released::Served);
        served("/slow.txt", "at last");
    }
}

/// Whether bytes for a client arrive within this time.
fn arrives_within(client: &Client, time: Duration) -> bool {
    let stream = client.0.get_ref();
    let usual = stream.read_timeout().unwrap();
    stream.set_read_timeout(Some(time)).unwrap();
    let arrived = stream.peek(&mut [0]).is_ok();
    stream.set_read_timeout(usual).unwrap();
    arrived
}

/// One file may be opened at a time, and that one hangs. Other back ends
/// have a helper instead of a permit.
#[test]
fn a_cached_file_is_served_while_the_limit_of_opens_is_reached() {
    let Some(slow) = or_skip(FaultFs::mount()) else {
        return;
    };
    slow.add_file("slow.txt", b"at last");
    let fast = tempfile::Builder::new().prefix("fast").tempdir().unwrap();
    fs::write(fast.path().join("fast.txt"), "at once").unwrap();
    let root = slow.path().parent().unwrap();
    let target = |directory: &Path, name| {
        let directory = directory.strip_prefix(root).expect("below the root");
        format!("/{}/{name}", directory.display())
    };
    let slow_target = target(slow.path(), "slow.txt");
    let fast_target = target(fast.path(), "fast.txt");
    for backend in [BackendKind::Uring, BackendKind::Activations] {
        if !has(backend) {
            continue;
        }
        let server = Running::on(backend, root, |options| {
            options.workers = Some(1);
            options.io.class_limits.stat = Some(1);
        });
        let mut client = server.connect();
        let mut waiting = server.connect();
        let mut is_served_meanwhile = || {
            for _ in 0..3 {
                assert_eq!(client.get(&fast_target).text(), "at once", "{backend}");
            }
            slow.set_at("slow.txt", Kind::Open, Fault::Hang);
            waiting.send(format!("GET {slow_target} HTTP/1.1\r\nHost: a\r\n\r\n"));
            assert!(slow.wait_hung(1, LONG), "{backend}: the open was asked for");
            // The condition leads past the cache alone: the file is looked up as for any other request.
            let fields = "If-None-Match: \"other\"\r\n";
            client.send(format!(
                "GET {fast_target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"
            ));
            let is_served = arrives_within(&client, Duration::from_secs(2));
            slow.clear_all();
            slow.release(Released::Served);
            assert_eq!(client.answer(false).text(), "at once", "{backend}");
            assert_eq!(waiting.answer(false).text(), "at last", "{backend}");
            is_served
        };
        // The server opens a cached file again after a second or two, so an attempt that is interrupted for that long
        // shows nothing.
        let served = (0..20).any(|_| is_served_meanwhile());
        assert!(served, "{backend}");
        drop((client, waiting));
        assert!(server.stop().cache_hits > 0, "{backend}");
    }
}
