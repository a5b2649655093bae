//! Contexts beside the runtime's own: their operations wake tasks, whatever the back ends, and stall nobody.

use laio::ops::{Read, ReadAt, Recv, Write};
use laio::{BackendKind, Options};
use laio_rt::{Descriptor, Runtime, limits, submit, submit_to};
use laio_testing::watchdog;
use std::io;
use std::os::fd::OwnedFd;

/// Back ends for the runtime's own context and for one beside it. Of activations, see the engine's tests.
const KINDS: [BackendKind; 6] = [
    BackendKind::Threads,
    BackendKind::Hybrid,
    BackendKind::PosixAio,
    BackendKind::LinuxAio,
    BackendKind::Uring,
    BackendKind::Lazy,
];

/// Runs `body` with each pair that is to be had here.
fn for_each_pair(body: impl Fn(&Runtime, laio_rt::ContextId)) {
    let mut pairs = 0;
    for own in KINDS {
        for beside in KINDS {
            let options = |kind| Options::new().backend(kind);
            let Ok(runtime) = Runtime::new(options(own)) else {
                continue;
            };
            let Ok(beside) = runtime.add_context(options(beside)) else {
                continue;
            };
            pairs += 1;
            body(&runtime, beside);
        }
    }
    assert!(
        pairs >= 9,
        "the back ends without a ring are to be had everywhere"
    );
}

fn pipe() -> (Descriptor, OwnedFd) {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
    (from.into(), to)
}

#[test]
fn what_waits_beside_wakes_its_task() {
    watchdog::step("contexts beside");
    for_each_pair(|runtime, beside| {
        runtime.block_on(async {
            let mut readers = Vec::new();
            let mut writers = Vec::new();
            for _ in 0..10 {
                let (from, to) = pipe();
                writers.push(to);
                readers.push(laio_rt::spawn(async move {
                    submit_to(beside, Read::new(from, Vec::with_capacity(9))).await
                }));
            }
            // The readers wait now; the own context goes on.
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
    watchdog::step("contexts beside");
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..300_000u32).map(|n| (n / 7) as u8).collect();
    std::fs::write(file.path(), &bytes).unwrap();
    for_each_pair(|runtime, beside| {
        runtime.block_on(async {
            for context in [beside, laio_rt::ContextId::OWN, beside] {
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
fn what_is_given_up_beside_keeps_nobody() {
    watchdog::step("contexts beside");
    for_each_pair(|runtime, beside| {
        runtime.block_on(async {
            let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
            let socket = Descriptor::from(OwnedFd::from(one));
            let receive = Recv::new(socket, Vec::with_capacity(10));
            let waiting = submit_to(beside, receive);
            let turns = async {
                for _ in 0..5 {
                    laio_rt::yield_now().await;
                }
            };
            let first = laio_rt::future::race(waiting, turns).await;
            assert!(matches!(first, laio_rt::future::Either::Right(())));
            // The descriptor is closed once the operation has let go of it, which the peer sees.
            let other = Descriptor::from(OwnedFd::from(other));
            let receive = Recv::new(other, Vec::with_capacity(10));
            assert_eq!(submit_to(beside, receive).await.0.unwrap(), 0);
        });
    });
}

#[test]
fn plain_calls_beside_are_made_at_once() {
    watchdog::step("contexts beside");
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
    for _ in 0..limits::CONTEXTS_BESIDE {
        runtime.add_context(options.clone())?;
    }
    let error = runtime.add_context(options).unwrap_err();
    assert!(error.to_string().contains("at most"), "{error}");
    Ok(())
}
