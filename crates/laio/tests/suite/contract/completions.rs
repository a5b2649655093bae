//! Rule 3: each operation has exactly one completion, cancelled or not, and the contract says when the kernel may use
//! the buffer.

use crate::harness::{
    Arg, LIMIT, Way, at, at_mut, collect, for_each_pending, for_each_pending_backend, later, own,
    pending, pending_read, plain, start, timespec, wait_for,
};
use laio::{Completion, Context, Errno, Handle, Outcome, PollOptions};
use laio_testing::temp::{drain, fill, pattern, pipe, stream_pair};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Asserts that no further completion arrives.
fn nothing_more(context: &mut Context) {
    let mut completions = Vec::new();
    for wait in [Duration::ZERO, Duration::from_millis(1)] {
        assert_eq!(
            context.poll(&mut completions, Some(wait)),
            Ok(0),
            "{completions:?}"
        );
    }
    assert_eq!(context.pending(), 0);
}

#[test]
fn each_operation_completes_once() {
    for_each_pending(|way| {
        let mut context = way.context();
        let pipes: Vec<(OwnedFd, OwnedFd)> = (0..50).map(|_| pipe()).collect();
        let mut buffers = vec![[0u8; 2]; 50];
        let mut handles = HashMap::new();
        for (index, ((reader, _), buffer)) in pipes.iter().zip(&mut buffers).enumerate() {
            let handle = pending_read(&mut context, [reader.arg(), at_mut(buffer), 2]);
            assert!(
                handles.insert(handle, index).is_none(),
                "a handle given twice"
            );
        }
        assert_eq!(context.pending(), 50);
        for (index, (_, writer)) in pipes.iter().enumerate() {
            rustix::io::write(writer, &(index as u16).to_ne_bytes()).unwrap();
        }
        for completion in collect(&mut context, 50) {
            let index = handles
                .remove(&completion.handle)
                .expect("a handle of ours, once");
            assert_eq!(completion.result, Ok(2));
            assert_eq!(buffers[index], (index as u16).to_ne_bytes());
        }
        nothing_more(&mut context);
    });
}

#[test]
fn a_cancelled_operation_completes_once_too() {
    for_each_pending(|way| {
        let mut context = way.context();
        let pipes: Vec<(OwnedFd, OwnedFd)> = (0..40).map(|_| pipe()).collect();
        let mut buffers = vec![[0u8; 3]; 40];
        let mut handles: HashMap<Handle, usize> = HashMap::new();
        for (index, ((reader, _), buffer)) in pipes.iter().zip(&mut buffers).enumerate() {
            handles.insert(
                pending_read(&mut context, [reader.arg(), at_mut(buffer), 3]),
                index,
            );
        }
        for (&handle, &index) in &handles {
            if index % 2 == 0 {
                assert_eq!(context.cancel(handle), Ok(()));
            } else {
                rustix::io::write(&pipes[index].1, b"abc").unwrap();
            }
        }
        for completion in collect(&mut context, 40) {
            let index = handles
                .remove(&completion.handle)
                .expect("a handle of ours, once");
            let expected = if index.is_multiple_of(2) {
                Err(Errno::CANCELED)
            } else {
                Ok(3)
            };
            assert_eq!(completion.result, expected);
        }
        nothing_more(&mut context);
        // A cancelled read has taken no bytes.
        for (index, (reader, writer)) in pipes.iter().enumerate() {
            rustix::io::write(writer, b"later").unwrap();
            assert_eq!(drain(reader), b"later", "pipe {index}");
        }
    });
}

/// A cancellation races with the completion: either wins, and no byte is lost.
#[test]
fn a_race_of_cancel_and_completion_loses_nothing() {
    for_each_pending_backend(|way| {
        let (reader, writer) = pipe();
        let mut context = way.context();
        let (mut done, mut cancelled) = (0, 0);
        for round in 0..300u32 {
            let mut buffer = [0u8; 3];
            let handle = pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 3]);
            let copy = rustix::io::dup(&writer).unwrap();
            let peer = (round % 3 == 0)
                .then(|| std::thread::spawn(move || rustix::io::write(&copy, b"abc").unwrap()));
            if peer.is_none() {
                rustix::io::write(&writer, b"abc").unwrap();
            }
            match context.cancel(handle) {
                Ok(()) | Err(Errno::ALREADY) => {}
                error => panic!("{error:?}"),
            }
            let completion = wait_for(&mut context, handle);
            if let Some(peer) = peer {
                peer.join().unwrap();
            }
            match completion.result {
                Ok(3) => {
                    done += 1;
                    assert_eq!(&buffer, b"abc");
                }
                Err(Errno::CANCELED) => {
                    cancelled += 1;
                    assert_eq!(buffer, [0; 3], "a cancelled read has written to its buffer");
                    assert_eq!(drain(&reader), b"abc", "a cancelled read has taken bytes");
                }
                other => panic!("{other:?}"),
            }
        }
        nothing_more(&mut context);
        assert_eq!(done + cancelled, 300);
    });
}

#[test]
fn a_buffer_is_unused_after_delivery() {
    for_each_pending_backend(|way| {
        let mut context = way.context();
        let pipes: Vec<(OwnedFd, OwnedFd)> = (0..20).map(|_| pipe()).collect();
        let mut buffers = vec![[0u8; 64]; 20];
        let mut handles = Vec::new();
        for ((reader, _), buffer) in pipes.iter().zip(&mut buffers) {
            handles.push(pending_read(
                &mut context,
                [reader.arg(), at_mut(buffer), 64],
            ));
        }
        for &handle in &handles {
            context.cancel(handle).unwrap();
        }
        collect(&mut context, 20);
        buffers.iter_mut().for_each(|buffer| buffer.fill(0xee));
        for (_, writer) in &pipes {
            rustix::io::write(writer, b"no read takes these bytes").unwrap();
        }
        // Gives an operation that still uses a buffer the time to write to it.
        let mut completions = Vec::new();
        context
            .poll(&mut completions, Some(Duration::from_millis(5)))
            .unwrap();
        drop(context);
        assert!(completions.is_empty());
        assert!(
            buffers
                .iter()
                .all(|buffer| buffer.iter().all(|&byte| byte == 0xee))
        );
    });
}

#[test]
fn handles_go_stale() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut other = way.context();
        let (reader, writer) = pipe();
        let mut buffer = [0u8; 3];
        let args = [reader.arg(), at_mut(&mut buffer), 3];
        let first = pending(&mut context, libc::SYS_read, args);
        assert_eq!(context.cancel(first), Ok(()));
        // A second cancellation has no effect.
        let again = context.cancel(first);
        assert!(matches!(again, Ok(()) | Err(Errno::ALREADY)), "{again:?}");
        assert_eq!(other.cancel(first), Err(Errno::NOENT), "another context's");
        assert_eq!(wait_for(&mut context, first).result, Err(Errno::CANCELED));
        assert_eq!(context.cancel(first), Err(Errno::NOENT), "delivered");
        let second = pending(&mut context, libc::SYS_read, args);
        assert_ne!(first, second, "a handle is not used again");
        assert_eq!(
            context.cancel(first),
            Err(Errno::NOENT),
            "stale, though its slot is in use"
        );
        rustix::io::write(&writer, b"abc").unwrap();
        // Until the operation is known to be finished, cancelling is accepted; afterwards it fails.
        let end = Instant::now() + LIMIT;
        let flushed = context.flush();
        assert_eq!(flushed, Ok(()));
        let completion = wait_for(&mut context, second);
        assert_eq!(completion.result, Ok(3));
        assert!(Instant::now() < end);
        for word in [0, 1 << 32, u64::MAX, 12_345] {
            if let Some(handle) = Handle::from_raw(word) {
                assert_eq!(context.cancel(handle), Err(Errno::NOENT), "{word:#x}");
            }
        }
        assert_eq!(context.stats().cancelled, context.stats().cancelled.min(2));
    });
}

/// The operation is finished, but not delivered.
#[test]
fn a_finished_operation_can_no_longer_be_cancelled() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut handles = Vec::new();
        let pipes: Vec<(OwnedFd, OwnedFd)> = (0..2).map(|_| pipe()).collect();
        let mut buffers = [[0u8; 1]; 2];
        for ((reader, writer), buffer) in pipes.iter().zip(&mut buffers) {
            handles.push(pending_read(
                &mut context,
                [reader.arg(), at_mut(buffer), 1],
            ));
            rustix::io::write(writer, b"x").unwrap();
        }
        std::thread::sleep(Duration::from_millis(3));
        // Delivers one of them; by now the other has most likely finished too.
        let mut taken = None;
        let end = Instant::now() + LIMIT;
        while taken.is_none() && Instant::now() < end {
            context
                .poll_with(
                    PollOptions {
                        timeout: Some(LIMIT),
                        most: 1,
                        ..PollOptions::default()
                    },
                    |completion| taken = Some(completion),
                )
                .unwrap();
        }
        let taken = taken.expect("one of them");
        let other = handles
            .into_iter()
            .find(|&handle| handle != taken.handle)
            .unwrap();
        match context.cancel(other) {
            Err(Errno::ALREADY) => assert_eq!(wait_for(&mut context, other).result, Ok(1)),
            Ok(()) => {
                let result = wait_for(&mut context, other).result;
                assert!(matches!(result, Ok(1) | Err(Errno::CANCELED)), "{result:?}");
            }
            error => panic!("{error:?}"),
        }
    });
}

#[test]
fn user_data_comes_back() {
    for_each_pending(|way| {
        let mut context = way.context();
        let pipes: Vec<(OwnedFd, OwnedFd)> = (0..10).map(|_| pipe()).collect();
        let mut buffers = [[0u8; 1]; 10];
        let words = [0, 1, u64::MAX, 1 << 63, 42, 43, 44, 45, 46, 47];
        let mut expected = HashMap::new();
        for (((reader, writer), buffer), word) in pipes.iter().zip(&mut buffers).zip(words) {
            let call = laio::Call::new(libc::SYS_read, [reader.arg(), at_mut(buffer), 1]);
            // SAFETY: the buffers live until all completions are collected.
            match unsafe { context.call_with(call, word) } {
                Outcome::Pending(handle) => expected.insert(handle, word),
                done => panic!("{done:?}"),
            };
            rustix::io::write(writer, b"x").unwrap();
        }
        for Completion {
            handle, user_data, ..
        } in collect(&mut context, 10)
        {
            assert_eq!(expected.remove(&handle), Some(user_data));
        }
    });
}

/// A cancelled write reports the bytes that it wrote before.
#[test]
fn a_cancelled_write_reports_its_bytes() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (reader, writer) = pipe();
        let bytes = pattern(if way.is_short() { 66_000 } else { 200_000 }, 1);
        let handle = pending(
            &mut context,
            libc::SYS_write,
            [writer.arg(), at(&bytes[..]), bytes.len()],
        );
        // The write fills the pipe sooner or later; small pieces do not fill each page.
        let fits = rustix::pipe::fcntl_getpipe_size(&writer).unwrap();
        let end = Instant::now() + LIMIT;
        let mut completions = Vec::new();
        while rustix::io::ioctl_fionread(&reader).unwrap() < fits as u64 / 10 * 9 {
            context
                .poll(&mut completions, Some(Duration::from_millis(1)))
                .unwrap();
            assert!(
                Instant::now() < end,
                "{} bytes",
                rustix::io::ioctl_fionread(&reader).unwrap()
            );
        }
        assert!(completions.is_empty());
        context.cancel(handle).unwrap();
        let written = wait_for(&mut context, handle).result.expect("a part");
        let there = drain(&reader);
        assert_eq!(written, there.len());
        assert!(there == bytes[..written]);
    });
}

/// Operations of every kind can be cancelled.
#[test]
fn every_waiting_operation_can_be_cancelled() {
    for_each_pending(|way| {
        let (reader, writer) = pipe();
        let (a, b) = stream_pair();
        fill(&writer);
        fill(&a);
        let (empty, _empty_writer) = pipe();
        let (target, target_writer) = pipe();
        let listener = crate::harness::lonely_listener();
        let listener = OwnedFd::from(listener);
        let datagrams =
            OwnedFd::from(std::net::UdpSocket::bind((crate::harness::lonely_host(), 0)).unwrap());
        let epoll = own(plain(libc::SYS_epoll_create1, [0]));
        let timer = own(plain(libc::SYS_timerfd_create, [1, 0]));
        let event = own(plain(libc::SYS_eventfd2, [0, 0]));
        let directory = laio_testing::temp::scratch();
        let path = directory.path().join("lock");
        let (holder, locked) = (
            std::fs::File::create(&path).unwrap(),
            std::fs::File::open(&path).unwrap(),
        );
        plain(libc::SYS_flock, [holder.arg(), libc::LOCK_EX as usize]).unwrap();
        // Two pipes: a child of another test may keep an end of the first open for a moment.
        let [fifo, other_fifo] = ["fifo", "other"].map(|name| {
            let fifo = crate::harness::cstring(directory.path().join(name));
            let mode = libc::S_IFIFO as usize | 0o600;
            let args = [libc::AT_FDCWD.arg(), fifo.arg(), mode, 0];
            plain(libc::SYS_mknodat, args).unwrap();
            fifo
        });
        let queue = plain(libc::SYS_msgget, [libc::IPC_PRIVATE as usize, 0o600]).unwrap();
        let child = std::process::Command::new("/bin/sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let word = std::sync::atomic::AtomicU32::new(1);
        let (bytes, long) = (pattern(100_000, 1), timespec(1000, 0));
        let mut buffer = [0u64; 32];
        let space = at_mut(&mut buffer);
        let mut poll = libc::pollfd {
            fd: std::os::fd::AsRawFd::as_raw_fd(&empty),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut vector = [crate::harness::iovec(&bytes)];
        let mut header: libc::msghdr = crate::harness::zeroed();
        (header.msg_iov, header.msg_iovlen) = (vector.as_mut_ptr(), 1);
        let futex = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let pid = child.id() as usize;
        let exited = libc::WEXITED as usize;
        // A child of another test must not inherit an end of the FIFO.
        let here = libc::AT_FDCWD.arg();
        #[rustfmt::skip]
        let waiting: &[(&str, libc::c_long, [usize; 6])] = &[
            ("read of a pipe", libc::SYS_read, [empty.arg(), space, 8, 0, 0, 0]),
            ("write to a pipe", libc::SYS_write, [writer.arg(), at(&bytes[..]), 10, 0, 0, 0]),
            ("recv", libc::SYS_recvfrom, [a.arg(), space, 8, 0, 0, 0]),
            ("recv of all", libc::SYS_recvfrom, [a.arg(), space, 8, libc::MSG_WAITALL as usize, 0, 0]),
            ("send", libc::SYS_sendto, [a.arg(), at(&bytes[..]), 100_000, 0, 0, 0]),
            ("sendmsg", libc::SYS_sendmsg, [a.arg(), at(&header), 0, 0, 0, 0]),
            (
                "recv of a datagram",
                libc::SYS_recvfrom,
                [datagrams.arg(), space, 8, 0, space + 64, at(&16u32)],
            ),
            ("accept4", libc::SYS_accept4, [listener.arg(), 0, 0, 0, 0, 0]),
            ("read of a timer", libc::SYS_read, [timer.arg(), space, 8, 0, 0, 0]),
            ("read of an event", libc::SYS_read, [event.arg(), space, 8, 0, 0, 0]),
            ("splice", libc::SYS_splice, [empty.arg(), 0, target_writer.arg(), 0, 8, 0]),
            ("tee", libc::SYS_tee, [empty.arg(), target_writer.arg(), 8, 0, 0, 0]),
            ("epoll_pwait", libc::SYS_epoll_pwait, [epoll.arg(), space, 1, usize::MAX, 0, 8]),
            ("ppoll", libc::SYS_ppoll, [at_mut(&mut poll), 1, 0, 0, 8, 0]),
            ("flock", libc::SYS_flock, [locked.arg(), libc::LOCK_SH as usize, 0, 0, 0, 0]),
            ("nanosleep", libc::SYS_nanosleep, [at(&long), 0, 0, 0, 0, 0]),
            ("clock_nanosleep", libc::SYS_clock_nanosleep, [libc::CLOCK_TAI as usize, 0, at(&long), 0, 0, 0]),
            ("futex", libc::SYS_futex, [at(&word), futex, 1, 0, 0, 0]),
            ("wait4", libc::SYS_wait4, [pid, 0, 0, 0, 0, 0]),
            ("waitid", libc::SYS_waitid, [libc::P_PID as usize, pid, 0, exited, 0, 0]),
            ("msgrcv", libc::SYS_msgrcv, [queue, space, 8, 0, 0, 0]),
            ("open of a FIFO", libc::SYS_openat, [here, fifo.arg(), libc::O_CLOEXEC as usize, 0, 0, 0]),
            (
                "open of a FIFO to write",
                libc::SYS_openat,
                [here, other_fifo.arg(), (libc::O_WRONLY | libc::O_CLOEXEC) as usize, 0, 0, 0],
            ),
        ];
        let mut context = way.context();
        for &(what, number, args) in waiting {
            if way.is_short() && (what.ends_with("timer") || what.ends_with("event")) {
                continue;
            }
            for delay in [0, 2] {
                let outcome = start(&mut context, number, args);
                let Outcome::Pending(handle) = outcome else {
                    panic!("{what} has not become an operation: {outcome:?}")
                };
                if delay > 0 {
                    // Gives the operation the time to reach the kernel or a helper.
                    let mut completions = Vec::new();
                    context
                        .poll(&mut completions, Some(Duration::from_millis(delay)))
                        .unwrap();
                    assert!(
                        completions.is_empty(),
                        "{what} has not stayed in flight: {completions:?}"
                    );
                }
                let cancelled = context.cancel(handle);
                assert!(
                    matches!(cancelled, Ok(()) | Err(Errno::ALREADY)),
                    "{what}: {cancelled:?}"
                );
                let result = wait_for(&mut context, handle).result;
                assert_eq!(result, Err(Errno::CANCELED), "{what}");
            }
        }
        nothing_more(&mut context);
        let _ = plain(libc::SYS_msgctl, [queue, libc::IPC_RMID as usize, 0]);
        let mut child = child;
        child.kill().unwrap();
        child.wait().unwrap();
        drop((b, reader, target));
    });
}

/// Dropping a context ends its operations and releases their buffers.
#[test]
fn dropping_a_context_ends_its_operations() {
    for_each_pending(|way| {
        let (reader, writer) = pipe();
        let (other, _keep) = pipe();
        let mut buffer = [0u8; 16];
        let long = timespec(1000, 0);
        let mut context = way.context();
        pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 16]);
        pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 16]);
        pending_read(&mut context, [other.arg(), at_mut(&mut buffer), 16]);
        pending(&mut context, libc::SYS_nanosleep, [at(&long), 0]);
        pending(
            &mut context,
            libc::SYS_clock_nanosleep,
            [libc::CLOCK_TAI as usize, 0, at(&long), 0],
        );
        let begin = Instant::now();
        drop(context);
        assert!(begin.elapsed() < LIMIT);
        rustix::io::write(&writer, b"no read takes this").unwrap();
        assert_eq!(buffer, [0; 16]);
        assert_eq!(drain(&reader), b"no read takes this");
    });
}

/// Some operations are finished and some are not; `poll` was never called for some.
#[test]
fn dropping_a_context_with_completions_left() {
    for_each_pending(|way: &Way| {
        let pipes: Vec<(OwnedFd, OwnedFd)> = (0..20).map(|_| pipe()).collect();
        let mut buffers = [[0u8; 1]; 20];
        let mut context = way.context();
        for (index, ((reader, writer), buffer)) in pipes.iter().zip(&mut buffers).enumerate() {
            pending_read(&mut context, [reader.arg(), at_mut(buffer), 1]);
            if index % 2 == 0 {
                rustix::io::write(writer, b"x").unwrap();
            }
        }
        let peer = later(|| ());
        context
            .poll_with(
                PollOptions {
                    timeout: Some(LIMIT),
                    most: 1,
                    ..PollOptions::default()
                },
                |_| (),
            )
            .unwrap();
        drop(context);
        peer.join().unwrap();
    });
}
