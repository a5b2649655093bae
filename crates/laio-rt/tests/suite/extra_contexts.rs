//! Additional contexts of a runtime: their operations wake tasks, with any pair of back ends, and stall no other task.

use laio::ops::{Read, ReadAt, Recv, Write};
use laio::{BackendKind, Options};
use laio_rt::{Descriptor, Runtime, limits, submit, submit_to};
use laio_testing::watchdog;
use std::io;
use std::os::fd::OwnedFd;

/// The back ends of the runtime's own context and of an additional one. The engine's tests cover activations.
const KINDS: [BackendKind; 6] = [
    BackendKind::Threads,
    BackendKind::Hybrid,
    BackendKind::PosixAio,
    BackendKind::LinuxAio,
    BackendKind::Uring,
    BackendKind::Lazy,
];

/// Runs `body` with each pair of back ends that this machine supports.
fn for_each_pair(body: impl Fn(&Runtime, laio_rt::ContextId)) {
    let mut pairs = 0;
    for own in KINDS {
        for extra in KINDS {
            let options = |kind| Options::new().backend(kind);
            let Ok(runtime) = Runtime::new(options(own)) else {
                continue;
            };
            let Ok(extra) = runtime.add_context(options(extra)) else {
                continue;
            };
            pairs += 1;
            body(&runtime, extra);
        }
    }
    assert!(pairs >= 9, "the back ends without a ring work everywhere");
}

fn pipe() -> (Descriptor, OwnedFd) {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    (from.into(), to)
}

#[test]
fn an_operation_of_an_extra_context_wakes_its_task() {
    watchdog::step("extra contexts");
    for_each_pair(|runtime, extra| {
        runtime.block_on(async {
            let mut readers = Vec::new();
            let mut writers = Vec::new();
            for _ in 0..10 {
                let (from, to) = pipe();
                writers.push(to);
                readers.push(laio_rt::spawn(async move {
                    submit_to(extra, Read::new(from, Vec::with_capacity(9))).await
                }));
            }
            // The readers wait now; the runtime's own context still runs.
            laio_rt::yield_now().await;
            for (number, to) in writers.into_iter().enumerate() {
                let text = format!("number {number}");
                submit(Write::new(Descriptor::from(to), text))
                    .await
                    .0
                    .unwrap();
            }
            for (number, reader) in readers.into_iter().enumerate() {
                let (result, buffer) = reader.await.unwrap();
                result.unwrap();
                assert_eq!(buffer, format!("number {number}").as_bytes());
            }
        });
    });
}

#[test]
fn files_are_read_by_several_contexts_in_turn() {
    watchdog::step("extra contexts");
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
    std::fs::write(file.path(), &bytes).unwrap();
    for_each_pair(|runtime, extra| {
        runtime.block_on(async {
            for context in [extra, laio_rt::ContextId::OWN, extra] {
                let file = OwnedFd::from(std::fs::File::open(file.path()).unwrap());
                let file = Descriptor::from(file);
                let buffer = Vec::with_capacity(bytes.len());
                let read = ReadAt::new(file.clone(), buffer, 0);
                let (result, buffer) = submit_to(context, read).await;
                assert_eq!(result.unwrap(), bytes.len());
                assert!(buffer == bytes);
            }
        });
    });
}

#[test]
fn a_cancelled_operation_of_an_extra_context_releases_its_descriptor() {
    watchdog::step("extra contexts");
    for_each_pair(|runtime, extra| {
        runtime.block_on(async {
            let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
            let socket = Descriptor::from(OwnedFd::from(one));
            let receive = Recv::new(socket, Vec::with_capacity(10));
            let waiting = submit_to(extra, receive);
            let turns = async {
                for _ in 0..5 {
                    laio_rt::yield_now().await;
                }
            };
            let first = laio_rt::future::race(waiting, turns).await;
            assert!(matches!(first, laio_rt::future::Either::Right(())));
            // The descriptor is closed when the cancelled operation has ended; then the peer reads the end.
            let other = Descriptor::from(OwnedFd::from(other));
            let receive = Recv::new(other, Vec::with_capacity(10));
            assert_eq!(submit_to(extra, receive).await.0.unwrap(), 0);
        });
    });
}

#[test]
fn an_extra_context_with_sync_makes_plain_calls() {
    watchdog::step("extra contexts");
    let runtime = Runtime::new(Options::new()).unwrap();
    let options = Options::new().backend(BackendKind::Sync);
    let plain = runtime.add_context(options).unwrap();
    runtime.block_on(async {
        let (from, to) = pipe();
        rustix::io::write(&to, b"there").unwrap();
        let (result, buffer) = submit_to(plain, Read::new(from, Vec::with_capacity(9))).await;
        assert_eq!((result.unwrap(), &buffer[..]), (5, &b"there"[..]));
        let stats = laio_rt::with_context_of(plain, |context| context.stats());
        assert_eq!((stats.total().inline, stats.operations), (1, 0));
    });
}

#[test]
fn the_number_of_contexts_has_a_limit() -> io::Result<()> {
    let runtime = Runtime::new(Options::new())?;
    let options = Options::new().backend(BackendKind::Hybrid);
    for _ in 0..limits::EXTRA_CONTEXTS {
        runtime.add_context(options.clone())?;
    }
    let error = runtime.add_context(options).unwrap_err();
    assert!(error.to_string().contains("at most"), "{error}");
    Ok(())
}
