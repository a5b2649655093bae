//! The engine's own descriptors have high numbers, and calls fail with an error after the program
//! has closed them.

use crate::harness::{
    Arg, LIMIT, Mode, Way, all_ways, at, at_mut, cstring, finish, pending, pending_read, plain,
    start, timespec, wait_for,
};
use laio::{BackendKind, Context, Errno, Outcome};
use laio_testing::temp::{pipe, scratch};
use laio_testing::{child, process, test_name};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

/// Each combination that sends calls to the background, each in a process of its own.
fn alone(test: &str, body: impl Fn(&Way)) {
    for way in all_ways() {
        if way.mode == Mode::Natural && way.goes_to_background() {
            child::check(LIMIT, test, &way.to_string(), || body(&way));
        }
    }
}

fn limit_descriptors(count: u64) {
    let limit = libc::rlimit {
        rlim_cur: count,
        rlim_max: count,
    };
    let descriptors = libc::RLIMIT_NOFILE as usize;
    plain(libc::SYS_setrlimit, [descriptors, at(&limit)]).unwrap();
}

/// Uses each feature that needs a descriptor: sleeps, helpers, streams, names, the pollable descriptor with a timer, a
/// signal.
fn use_much_of(context: &mut Context) {
    let time = timespec(0, 1_000);
    let outcome = start(context, libc::SYS_nanosleep, [at(&time), 0]);
    assert_eq!(finish(context, outcome), Ok(0));
    let here = libc::AT_FDCWD as usize;
    let mut target = [0u8; 64];
    let args = [here, c"/proc/self/exe".arg(), at_mut(&mut target), 64];
    let outcome = start(context, libc::SYS_readlinkat, args);
    assert!(finish(context, outcome).is_ok());
    context.descriptor().unwrap();
    context.set_signal(Some((libc::SIGURG, 0))).unwrap();
    let word = 0u32;
    let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let handle = pending(context, libc::SYS_futex, [at(&word), wait, 0, 0]);
    let soon = Some(Duration::from_millis(1));
    context.set_timeout(handle, soon).unwrap();
    assert_eq!(wait_for(context, handle).result, Err(Errno::TIME));
}

#[test]
fn they_leave_the_lowest_numbers_to_the_program() {
    alone(test_name!(), |way| {
        limit_descriptors(1024);
        let before = process::open_fds();
        let mut context = way.context();
        use_much_of(&mut context);
        let mut mine: Vec<RawFd> = process::open_fds();
        mine.retain(|fd| !before.contains(fd));
        assert!(mine.iter().all(|&fd| fd >= 512), "{mine:?}");
        drop(context);
        assert_eq!(process::open_fds(), before);
    });
}

/// With a low descriptor limit, the engine's descriptors still do not become standard streams.
#[test]
fn they_do_not_take_the_place_of_standard_streams() {
    alone(test_name!(), |way| {
        limit_descriptors(48);
        let saved = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3).unwrap();
        for fd in 0..2 {
            plain(libc::SYS_close, [fd]).unwrap();
        }
        let mut context = way.context();
        use_much_of(&mut context);
        let taken = process::open_fds().into_iter().filter(|&fd| fd < 2).count();
        drop(context);
        let next = rustix::io::dup(&saved).unwrap();
        assert_eq!((next.as_raw_fd(), taken), (0, 0));
        let again = rustix::io::dup(&saved).unwrap();
        assert_eq!(again.as_raw_fd(), 1);
        // Restores the standard streams of this process.
        std::mem::forget((next, again));
    });
}

/// The program closes all but its standard streams: the next call that needs a closed descriptor fails.
#[test]
fn calls_fail_after_the_program_closed_them() {
    alone(test_name!(), |way| {
        // Closed by number below.
        let (reader, writer) = pipe();
        let ends = [ManuallyDrop::new(reader), ManuallyDrop::new(writer)];
        let mut context = way.context();
        let mut buffer = [0u8; 1];
        let word = 0u32;
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let args = [ends[0].arg(), at_mut(&mut buffer), 1];
        let _ = pending(&mut context, libc::SYS_read, args);
        let _ = pending(&mut context, libc::SYS_futex, [at(&word), wait, 0, 0]);
        plain(libc::SYS_close_range, [3, u32::MAX as usize, 0]).unwrap();
        let begun = Instant::now();
        let mut found = Vec::new();
        let error = loop {
            match context.poll(&mut found, Some(LIMIT)) {
                // Completions of operations that have just ended come first.
                Ok(count) if count > 0 => {}
                other => break other,
            }
        };
        assert_eq!(error, Err(Errno::BADF));
        assert!(begun.elapsed() < LIMIT / 2, "an error, not the timeout");
        // Calls that need no closed descriptor still work; with `threads` all go to helpers.
        let plain = start(&mut context, libc::SYS_getppid, []);
        let threads = way.backend == BackendKind::Threads;
        assert!(threads || matches!(plain, Outcome::Done(Ok(_))));
        let time = timespec(0, 1_000);
        match start(&mut context, libc::SYS_nanosleep, [at(&time), 0]) {
            Outcome::Done(Ok(0) | Err(Errno::BADF)) | Outcome::Pending(_) => {}
            other => panic!("{other:?}"),
        }
        drop(context);
    });
}

/// The program closes one descriptor of the engine: `poll` fails or waits, and does not spin.
#[test]
fn a_poll_does_not_spin_after_one_was_closed() {
    alone(test_name!(), |way| {
        let before = process::open_fds();
        let mut all = way.context();
        use_much_of(&mut all);
        let count = process::open_fds().len() - before.len();
        drop(all);
        // With the pollable descriptor, the others are polled before they are closed.
        let cases = [false, true].into_iter();
        for (exposed, index) in cases.flat_map(|exposed| (0..count).map(move |at| (exposed, at))) {
            let (reader, writer) = pipe();
            let before = process::open_fds();
            let mut context = way.context();
            if exposed {
                context.descriptor().unwrap();
            }
            let mut buffer = [0u8; 1];
            let read = pending_read(&mut context, [reader.arg(), at_mut(&mut buffer), 1]);
            context.set_timeout(read, Some(LIMIT)).unwrap();
            let mut mine = process::open_fds();
            mine.retain(|fd| !before.contains(fd));
            let Some(&closed) = mine.get(index) else {
                continue;
            };
            plain(libc::SYS_close, [closed as usize]).unwrap();
            let spent = cpu_time();
            let wait = Duration::from_millis(50);
            let polled = context.poll(&mut Vec::new(), Some(wait));
            assert!(matches!(polled, Ok(0) | Err(Errno::BADF)), "{polled:?}");
            let spent = cpu_time() - spent;
            assert!(spent < wait / 2, "{closed}: {spent:?} of processor time");
            drop(writer);
            std::mem::forget(context);
        }
    });
}

/// The processor time of this thread.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The provisional descriptor of an attempt does not take the number that the program expects.
#[test]
fn a_fifo_gets_the_lowest_number() {
    alone(test_name!(), |way| {
        let directory = scratch();
        let mut context = way.context();
        use_much_of(&mut context);
        for flags in [libc::O_RDONLY, libc::O_WRONLY] {
            // Another name each time: a thread's descriptors are closed a moment after its end.
            let fifo = cstring(directory.path().join(flags.to_string()));
            // SAFETY: the name is a string.
            assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
            let peers = [libc::O_WRONLY, libc::O_RDONLY][usize::from(flags == libc::O_WRONLY)];
            let here = libc::AT_FDCWD as usize;
            let free = rustix::io::dup(std::io::stdout()).unwrap();
            let lowest = free.as_raw_fd() as usize;
            drop(free);
            let mode = flags as usize;
            let open = pending(&mut context, libc::SYS_openat, [here, fifo.arg(), mode]);
            // The operation is in flight, and its provisional descriptor is open.
            let soon = Some(Duration::from_millis(20));
            assert_eq!(context.poll(&mut Vec::new(), soon), Ok(0));
            // A peer in this table of descriptors would take the number, so its thread has a table of its own. The peer
            // stays open, because the waiting open could miss it otherwise.
            let (enough, until) = std::sync::mpsc::channel::<()>();
            let path = fifo.clone();
            let peer = std::thread::spawn(move || {
                // SAFETY: the thread has a table of descriptors of its own from here on.
                assert_eq!(unsafe { libc::unshare(libc::CLONE_FILES) }, 0);
                let opened = plain(libc::SYS_openat, [here, path.arg(), peers as usize]);
                let _ = until.recv();
                opened.unwrap();
            });
            let result = wait_for(&mut context, open).result;
            drop(enough);
            peer.join().unwrap();
            assert_eq!(result, Ok(lowest));
            plain(libc::SYS_close, [lowest]).unwrap();
            context.forget(lowest as RawFd);
        }
    });
}
