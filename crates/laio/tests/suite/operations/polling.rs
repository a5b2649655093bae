//! `poll`, the notifier, and the pollable descriptor.

use super::parked::FRESH;
use crate::harness::*;
use laio::ops::Read;
use laio::{BackPressure, BackendKind, Context, Errno, Handle, Outcome, PollOptions};
use laio_testing::temp::{fill, pipe};
use rustix::event::epoll;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const NO_TIME: Option<Duration> = Some(Duration::ZERO);

fn park(context: &mut Context, buffer: &mut [u8; 8]) -> (OwnedFd, OwnedFd, Handle) {
    let (from, to) = pipe();
    let handle = pending_read(context, [from.arg(), at_mut(buffer), 8]);
    (from, to, handle)
}

fn end(context: &mut Context, handle: Handle) {
    context.cancel(handle).expect("in flight");
    assert_eq!(wait_for(context, handle).result, Err(Errno::CANCELED));
}

#[test]
fn with_nothing_in_flight_it_returns_at_once() {
    for_each(|way| {
        let mut context = way.context();
        let mut none = Vec::new();
        for timeout in [None, NO_TIME, Some(Duration::from_secs(1000))] {
            assert_eq!(context.poll(&mut none, timeout), Ok(0));
        }
        assert_eq!(none, []);
    });
}

#[test]
fn poll_waits_for_its_timeout() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffer = [FRESH; 8];
        let (_from, _to, handle) = park(&mut context, &mut buffer);
        let mut none = Vec::new();
        for _ in 0..3 {
            assert_eq!(context.poll(&mut none, NO_TIME), Ok(0));
        }
        for wait in [1, 7_300] {
            let wait = Duration::from_micros(wait);
            let since = Instant::now();
            assert_eq!(context.poll(&mut none, Some(wait)), Ok(0));
            assert!(since.elapsed() >= wait, "{:?}", since.elapsed());
        }
        assert_eq!(
            context.poll_with(
                PollOptions {
                    timeout: Some(LIMIT),
                    most: 0,
                    ..PollOptions::default()
                },
                |one| panic!("{one:?}")
            ),
            Ok(0)
        );
        end(&mut context, handle);
    });
}

#[test]
fn poll_delivers_at_most_the_given_number() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffers = [[FRESH; 8]; 10];
        let parked: Vec<_> = buffers
            .iter_mut()
            .map(|one| park(&mut context, one))
            .collect();
        for (_, to, _) in &parked {
            rustix::io::write(to, b"abc").expect("written");
        }
        let mut found = Vec::new();
        while found.len() < 10 {
            let before = found.len();
            let taken = context.poll_with(
                PollOptions {
                    timeout: Some(LIMIT),
                    most: 3,
                    ..PollOptions::default()
                },
                |one| found.push(one.handle),
            );
            let taken = taken.expect("poll");
            assert_eq!(taken, found.len() - before);
            assert!((1..=3).contains(&taken), "{taken}");
        }
        found.sort_unstable();
        let mut wanted: Vec<Handle> = parked.iter().map(|(_, _, handle)| *handle).collect();
        wanted.sort_unstable();
        assert_eq!(found, wanted);
        assert_eq!(context.pending(), 0);
    });
}

#[test]
fn flush_gives_operations_to_the_kernel() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffer = [FRESH; 8];
        let (from, to, handle) = park(&mut context, &mut buffer);
        context.flush().expect("flush");
        context.flush().expect("flush");
        rustix::io::write(&to, b"abc").expect("written");
        assert_eq!(wait_for(&mut context, handle).result, Ok(3));
        drop(from);
    });
}

#[test]
fn a_notifier_ends_a_poll() {
    for_each_backend(|way| {
        let mut context = way.context();
        let notifier = context.notifier();
        let mut none = Vec::new();
        // Notifications before the poll merge into one.
        notifier.notify();
        notifier.notify();
        assert_eq!(context.poll(&mut none, None), Ok(0));
        // With and without a timeout.
        let since = Instant::now();
        let wait = Duration::from_millis(2);
        assert_eq!(context.poll(&mut none, Some(wait)), Ok(0));
        assert!(since.elapsed() >= wait);
        let thread = later(move || notifier.notify());
        assert_eq!(context.poll(&mut none, None), Ok(0));
        thread.join().expect("no panic");
    });
}

/// A notification neither ends the wait for a slot nor keeps it from sleeping.
#[test]
fn a_wait_for_a_slot_sleeps_despite_a_notification() {
    for_each_pending_backend(|way| {
        // In this back end a call that finds no slot is made plainly.
        if way.backend == BackendKind::Activations {
            return;
        }
        let mut context =
            way.with(|options| options.operations(1).back_pressure(BackPressure::Wait));
        let notifier = context.notifier();
        let (mut first, mut second) = ([FRESH; 8], [FRESH; 8]);
        let (_from, to, handle) = park(&mut context, &mut first);
        let (other, _to_other) = pipe();
        let before = context.stats().sleeps;
        let thread = later(move || {
            notifier.notify();
            later(move || rustix::io::write(&to, b"abc").expect("written"))
                .join()
                .expect("no panic")
        });
        let waiting = pending_read(&mut context, [other.arg(), at_mut(&mut second), 8]);
        let sleeps = context.stats().sleeps - before;
        assert!(sleeps < 20, "{sleeps} waits for one slot");
        assert_eq!(wait_for(&mut context, handle).result, Ok(3));
        end(&mut context, waiting);
        assert_eq!(thread.join().expect("no panic"), 3);
    });
}

#[test]
fn no_notification_is_lost_in_a_storm() {
    const THREADS: usize = 3;
    const ROUNDS: usize = 1500;
    for_each_backend(|way| {
        let mut context = way.context();
        let mut buffer = [FRESH; 8];
        let background = way.goes_to_background();
        let parked = background.then(|| park(&mut context, &mut buffer));
        // Each thread waits until the context has seen its last word before it continues.
        let said: Arc<[AtomicUsize; THREADS]> = Arc::default();
        let seen: Arc<[AtomicUsize; THREADS]> = Arc::default();
        let threads: Vec<_> = (0..THREADS)
            .map(|index| {
                let (said, seen) = (said.clone(), seen.clone());
                let notifier = context.notifier();
                std::thread::spawn(move || {
                    for round in 1..=ROUNDS {
                        said[index].store(round, SeqCst);
                        notifier.notify();
                        let end = Instant::now() + LIMIT;
                        while seen[index].load(SeqCst) < round && round % 3 != 0 {
                            std::thread::yield_now();
                            assert!(Instant::now() < end, "not seen");
                        }
                    }
                })
            })
            .collect();
        let mut none = Vec::new();
        while (0..THREADS).any(|index| seen[index].load(SeqCst) < ROUNDS) {
            let since = Instant::now();
            assert_eq!(context.poll(&mut none, Some(LIMIT)), Ok(0));
            assert!(since.elapsed() < LIMIT, "a lost wake-up");
            for index in 0..THREADS {
                seen[index].store(said[index].load(SeqCst), SeqCst);
            }
        }
        for thread in threads {
            thread.join().expect("no panic");
        }
        if let Some((_, _, handle)) = parked {
            end(&mut context, handle);
        }
    });
}

/// An event loop, other than laio's, that watches the descriptor of a context.
struct Outer(OwnedFd);

impl Outer {
    fn around(context: &mut Context) -> Outer {
        let outer = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        let data = epoll::EventData::new_u64(0);
        let fd = context.descriptor().expect("a descriptor");
        epoll::add(&outer, fd.as_fd(), data, epoll::EventFlags::IN).expect("a pollable one");
        Outer(outer)
    }

    fn is_ready(&self, wait: Duration) -> bool {
        let mut events = Vec::with_capacity(1);
        let time = rustix::event::Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: wait.subsec_nanos().into(),
        };
        let buffer = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.0, buffer, Some(&time)) {
            Ok(count) => count > 0,
            // The kernel also interrupts this wait for the cleanup of a ring that this thread had before.
            Err(rustix::io::Errno::INTR) => self.is_ready(wait),
            Err(errno) => panic!("{errno}"),
        }
    }

    /// Collects this many completions, and sleeps only here.
    #[track_caller]
    fn collect(&self, context: &mut Context, count: usize) -> Vec<laio::Completion> {
        let mut completions = Vec::new();
        let end = Instant::now() + LIMIT;
        while completions.len() < count {
            let left = end.saturating_duration_since(Instant::now());
            assert!(
                self.is_ready(left),
                "{} of {count}: a lost wake-up",
                completions.len()
            );
            while context.poll(&mut completions, NO_TIME).expect("poll") > 0 {}
        }
        assert_eq!(completions.len(), count);
        completions
    }

    /// Asserts that the descriptor becomes quiet, after a few wakeups without a completion, which may come late.
    #[track_caller]
    fn is_quiet(&self, context: &mut Context) {
        let is_quiet = || {
            let quiet = !self.is_ready(Duration::from_millis(1));
            assert!(quiet || context.poll(&mut Vec::new(), NO_TIME) == Ok(0));
            quiet
        };
        let quiet = laio_testing::limit::wait_until(LIMIT, is_quiet);
        assert!(quiet, "the descriptor is readable for no reason");
    }
}

#[test]
fn the_descriptor_reports_completions() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffers = [[FRESH; 8]; 4];
        let [a, b, c, d] = &mut buffers;
        let before = park(&mut context, a);
        let outer = Outer::around(&mut context);
        outer.is_quiet(&mut context);
        let after = park(&mut context, b);
        outer.is_quiet(&mut context);
        for (_, to, handle) in [&before, &after] {
            rustix::io::write(to, b"abc").expect("written");
            let completions = outer.collect(&mut context, 1);
            assert_eq!(
                (completions[0].handle, completions[0].result),
                (*handle, Ok(3))
            );
            outer.is_quiet(&mut context);
        }
        // A call for a helper, and a cancellation.
        let sleep = timespec(0, 1_000_000);
        let word = 0u32;
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        let args = [at(&word), wait, 0, at(&sleep)];
        let outcomes = [
            start(&mut context, libc::SYS_futex, args),
            start(&mut context, libc::SYS_nanosleep, [at(&sleep), 0]),
        ];
        let waits = |outcome: &&Outcome| matches!(outcome, Outcome::Pending(_));
        let count = outcomes.iter().filter(waits).count();
        // In this back end a call may finish before the context notices that it blocks.
        assert!(count == 2 || way.backend == BackendKind::Activations);
        outer.collect(&mut context, count);
        let cancelled = park(&mut context, c);
        context.cancel(cancelled.2).expect("in flight");
        outer.collect(&mut context, 1);
        let later_one = park(&mut context, d);
        let feed = later_one.1.try_clone().expect("a descriptor");
        let thread = later(move || rustix::io::write(&feed, b"abc").expect("written"));
        outer.collect(&mut context, 1);
        thread.join().expect("no panic");
        outer.is_quiet(&mut context);
    });
}

/// While calls wait, neither the descriptor becomes readable nor does a sleep in `poll` end again and again.
#[test]
fn the_descriptor_is_quiet_while_calls_wait() {
    const ROUNDS: usize = 25;
    /// What began before, and an armed wakeup that comes late.
    const WAKEUPS_MAX: usize = 6;
    let round = Duration::from_millis(20);
    for_each_pending_backend(|way| {
        let directory = laio_testing::temp::scratch();
        let fifo = directory.path().join("fifo");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, mode, 0).expect("a FIFO");
        let fifo = cstring(fifo);
        let mut context = way.context();
        let open = [libc::AT_FDCWD as usize, at(fifo.as_bytes_with_nul()), 0];
        let open = pending(&mut context, libc::SYS_openat, open);
        let mut buffers = [[FRESH; 8]; 2];
        let [a, b] = &mut buffers;
        let (from, to, read) = park(&mut context, a);
        let outer = Outer::around(&mut context);
        let mounted = context.mount_changes();
        let wakeups = |context: &mut Context| {
            let readable = (0..ROUNDS).filter(|_| outer.is_ready(round));
            let polled = readable.map(|_| context.poll(&mut Vec::new(), NO_TIME));
            polled.inspect(|polled| assert_eq!(*polled, Ok(0))).count()
        };
        let before = wakeups(&mut context);
        rustix::io::write(&to, b"abc").expect("written");
        assert_eq!(outer.collect(&mut context, 1)[0].handle, read);
        let after = wakeups(&mut context);
        let (_from, _to, second) = park(&mut context, b);
        let sleeps = context.stats().sleeps;
        let time = Some(round * ROUNDS as u32);
        assert_eq!(context.poll(&mut Vec::new(), time), Ok(0));
        let sleeps = (context.stats().sleeps - sleeps) as usize;
        let counts = [before, after, sleeps];
        // Other tests mount file systems meanwhile, which ends waits too.
        let most = WAKEUPS_MAX + 2 * (context.mount_changes() - mounted) as usize;
        assert!(counts.iter().all(|count| *count <= most), "{counts:?}");
        for handle in [open, second] {
            context.cancel(handle).expect("in flight");
        }
        collect(&mut context, 2);
        drop(from);
    });
}

#[test]
fn the_descriptor_reports_operations_behind_an_abandoned_one() {
    for_each_pending(|way| {
        let mut context = way.context();
        let outer = Outer::around(&mut context);
        let (from, to) = pipe();
        let from = Rc::new(from);
        let read = |context: &mut Context| match context
            .submit(Read::new(from.clone(), Vec::with_capacity(3)))
        {
            Outcome::Pending(ticket) => ticket,
            Outcome::Done(_) => panic!("nothing to read yet"),
        };
        for _ in 0..20 {
            let [first, second] = [read(&mut context), read(&mut context)];
            // Enough bytes for both: the first read may finish before it is abandoned.
            rustix::io::write(&to, b"abcabc").expect("written");
            context.abandon(first);
            let completions = outer.collect(&mut context, 1);
            assert_eq!(completions[0].handle, second.handle());
            assert_eq!(
                context.take(second).expect("delivered").0.expect("bytes"),
                3
            );
            laio_testing::temp::drain(&from);
        }
    });
}

#[test]
fn the_descriptor_loses_nothing_in_a_storm() {
    const ROUNDS: usize = 300;
    for_each_pending_backend(|way| {
        let mut context = way.context();
        let outer = Outer::around(&mut context);
        let notifier = context.notifier();
        let (send, receive) = std::sync::mpsc::channel::<OwnedFd>();
        let writer = std::thread::spawn(move || {
            for (index, to) in receive.into_iter().enumerate() {
                if index % 3 == 0 {
                    notifier.notify();
                }
                for _ in 0..(index * 37) % 400 {
                    std::hint::spin_loop();
                }
                rustix::io::write(&to, b"abc").expect("written");
            }
        });
        let mut buffers = [[FRESH; 8]; 3];
        for _ in 0..ROUNDS {
            let parked: Vec<_> = buffers
                .iter_mut()
                .map(|buffer| {
                    let (from, to, handle) = park(&mut context, buffer);
                    send.send(to).expect("a writer");
                    (from, handle)
                })
                .collect();
            let completions = outer.collect(&mut context, 3);
            assert!(completions.iter().all(|one| one.result == Ok(3)));
            drop(parked);
        }
        drop(send);
        writer.join().expect("no panic");
    });
}

/// A write to an eventfd posts the CQE of a waiting read from within the write, and the kernel then delays the
/// notification of the ring's eventfd.
#[test]
fn the_descriptor_reports_eventfds_too() {
    use rustix::event::{EventfdFlags, eventfd};
    for_each_pending_backend(|way| {
        let mut context = way.context();
        let outer = Outer::around(&mut context);
        let counter = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        let mut value = [0u8; 8];
        for round in 0..20u64 {
            let read = [counter.arg(), at_mut(&mut value), 8];
            let handle = pending(&mut context, libc::SYS_read, read);
            std::thread::scope(|scope| {
                scope.spawn(|| rustix::io::write(&counter, &(round + 1).to_ne_bytes()));
            });
            let completions = outer.collect(&mut context, 1);
            assert_eq!(
                (completions[0].handle, completions[0].result),
                (handle, Ok(8))
            );
            assert_eq!(u64::from_ne_bytes(value), round + 1);
        }
    });
}

/// A `poll` of one descriptor, without a timeout.
fn poll_one(context: &mut Context, poll: &mut libc::pollfd) -> Outcome {
    start(context, libc::SYS_ppoll, [at_mut(poll), 1, 0, 0, 8])
}

#[test]
fn a_poll_of_one_descriptor_completes_and_can_be_cancelled() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let mut read = libc::pollfd {
            fd: from.arg() as i32,
            events: libc::POLLIN,
            revents: 0,
        };
        let waiting = poll_one(&mut context, &mut read);
        let Outcome::Pending(handle) = waiting else {
            panic!("nothing is there to be read: {waiting:?}");
        };
        assert_eq!(context.poll(&mut Vec::new(), NO_TIME), Ok(0));
        rustix::io::write(&to, b"x").unwrap();
        assert_eq!(wait_for(&mut context, handle).result, Ok(1));
        assert_eq!(read.revents, libc::POLLIN);
        // The byte can still be read.
        let again = poll_one(&mut context, &mut read);
        assert_eq!(finish(&mut context, again), Ok(1));

        let full = fill(&to);
        let mut write = libc::pollfd {
            fd: to.arg() as i32,
            events: libc::POLLOUT,
            revents: 0,
        };
        let Outcome::Pending(handle) = poll_one(&mut context, &mut write) else {
            panic!("the pipe is full");
        };
        context.cancel(handle).unwrap();
        let result = wait_for(&mut context, handle).result;
        assert_eq!(result, Err(Errno::CANCELED), "{full} bytes");
        let Outcome::Pending(handle) = poll_one(&mut context, &mut write) else {
            panic!("the pipe is full");
        };
        drop(from);
        assert_eq!(wait_for(&mut context, handle).result, Ok(1));
        assert!(write.revents & libc::POLLERR != 0);
    });
}

#[test]
fn many_may_poll_at_once_without_a_helper_each() {
    for_each_backend(|way| {
        let options = way.options().helpers(2);
        if !way.goes_to_background() || matches!(way.backend, BackendKind::Threads) {
            return;
        }
        let mut context = Context::new(options).unwrap();
        let pipes: Vec<_> = (0..50).map(|_| pipe()).collect();
        let poll = |(from, _): &(OwnedFd, OwnedFd)| libc::pollfd {
            fd: from.arg() as i32,
            events: libc::POLLIN | libc::POLLRDHUP,
            revents: 0,
        };
        let mut polls: Vec<_> = pipes.iter().map(poll).collect();
        let waiting: Vec<_> = polls
            .iter_mut()
            .map(|poll| poll_one(&mut context, poll))
            .collect();
        // With one helper each, most of these polls would not start.
        rustix::io::write(&pipes[49].1, b"x").unwrap();
        let Outcome::Pending(last) = waiting[49] else {
            panic!("nothing is there to be read");
        };
        assert_eq!(wait_for(&mut context, last).result, Ok(1));
        drop(context);
    });
}
