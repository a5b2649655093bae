//! Timeouts of single operations.

use super::parked::FRESH;
use crate::harness::*;
use laio::{BackPressure, Context, Errno, Handle};
use laio_testing::temp::pipe;
use laio_testing::{child, process, test_name};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

const SOON: Option<Duration> = Some(Duration::from_millis(3));
const NEVER: Option<Duration> = Some(Duration::MAX);

fn park(context: &mut Context, buffer: &mut [u8; 8]) -> (OwnedFd, OwnedFd, Handle) {
    let (from, to) = pipe();
    let handle = pending_read(context, [from.arg(), at_mut(buffer), 8]);
    (from, to, handle)
}

#[test]
fn an_operation_ends_at_its_timeout() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffer = [FRESH; 8];
        let (_from, _to, handle) = park(&mut context, &mut buffer);
        let since = Instant::now();
        assert_eq!(context.set_timeout(handle, SOON), Ok(()));
        assert_eq!(wait_for(&mut context, handle).result, Err(Errno::TIME));
        assert!(since.elapsed() >= SOON.unwrap());
        assert_eq!(buffer, [FRESH; 8]);
        assert_eq!(context.stats().timed_out, 1);
        assert_eq!(context.stats().cancelled, 0);
    });
}

#[test]
fn an_operation_that_ends_before_its_timeout_is_unaffected() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffer = [FRESH; 8];
        let (_from, to, handle) = park(&mut context, &mut buffer);
        assert_eq!(context.set_timeout(handle, NEVER), Ok(()));
        rustix::io::write(&to, b"abc").expect("written");
        assert_eq!(wait_for(&mut context, handle).result, Ok(3));
        assert_eq!(context.set_timeout(handle, SOON), Err(Errno::NOENT));
    });
}

#[test]
fn a_timeout_can_be_changed_and_removed() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffers = [[FRESH; 8]; 2];
        let [first, second] = &mut buffers;
        let (_from, to, kept) = park(&mut context, first);
        let (_from2, _to2, shortened) = park(&mut context, second);
        assert_eq!(context.set_timeout(kept, SOON), Ok(()));
        assert_eq!(context.set_timeout(kept, None), Ok(()));
        assert_eq!(context.set_timeout(shortened, NEVER), Ok(()));
        assert_eq!(
            context.set_timeout(shortened, Some(Duration::from_millis(20))),
            Ok(())
        );
        assert_eq!(wait_for(&mut context, shortened).result, Err(Errno::TIME));
        rustix::io::write(&to, b"abcd").expect("written");
        assert_eq!(wait_for(&mut context, kept).result, Ok(4));
    });
}

#[test]
fn a_cancelled_operation_stays_cancelled() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffer = [FRESH; 8];
        let (_from, _to, handle) = park(&mut context, &mut buffer);
        assert_eq!(context.set_timeout(handle, SOON), Ok(()));
        context.cancel(handle).expect("in flight");
        std::thread::sleep(SOON.unwrap());
        assert_eq!(wait_for(&mut context, handle).result, Err(Errno::CANCELED));
    });
}

#[test]
fn a_queued_operation_has_its_own_timeout() {
    for_each_pending(|way| {
        let mut context = way.context();
        let mut buffers = [[FRESH; 8]; 2];
        let [first, second] = &mut buffers;
        let (from, to, handle) = park(&mut context, first);
        let behind = pending_read(&mut context, [from.arg(), at_mut(second), 8]);
        assert_eq!(context.set_timeout(behind, SOON), Ok(()));
        assert_eq!(wait_for(&mut context, behind).result, Err(Errno::TIME));
        rustix::io::write(&to, b"abc").expect("written");
        assert_eq!(wait_for(&mut context, handle).result, Ok(3));
    });
}

#[test]
fn the_pollable_descriptor_reports_them() {
    for_each_pending(|way| {
        for exposed_first in [false, true] {
            let mut context = way.context();
            if exposed_first {
                context.descriptor().expect("a descriptor");
            }
            let mut buffer = [FRESH; 8];
            let (_from, _to, handle) = park(&mut context, &mut buffer);
            assert_eq!(context.set_timeout(handle, SOON), Ok(()));
            let end = Instant::now() + LIMIT;
            let mut completions = Vec::new();
            while completions.is_empty() {
                assert!(Instant::now() < end, "no completion");
                let descriptor = context.descriptor().expect("a descriptor");
                let mut set = [PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::IN)];
                let limit = rustix::time::Timespec {
                    tv_sec: LIMIT.as_secs() as i64,
                    tv_nsec: 0,
                };
                assert_eq!(poll(&mut set, Some(&limit)), Ok(1), "not readable");
                context
                    .poll(&mut completions, Some(Duration::ZERO))
                    .expect("poll");
            }
            assert_eq!(completions[0].handle, handle);
            assert_eq!(completions[0].result, Err(Errno::TIME));
        }
    });
}

/// Operations that end before their timeout leave no memory behind.
#[test]
fn thousands_of_timeouts_leave_no_memory() {
    for_each_pending_backend(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let mut buffer = [FRESH; 8];
        for _ in 0..2_000 {
            let handle = pending_read(&mut context, [from.arg(), at_mut(&mut buffer), 8]);
            assert_eq!(context.set_timeout(handle, Some(LIMIT)), Ok(()));
            rustix::io::write(&to, b"x").expect("written");
            assert_eq!(wait_for(&mut context, handle).result, Ok(1));
        }
        let many: Vec<_> = (0..200)
            .map(|number| {
                let mut buffer = Box::new([FRESH; 8]);
                let (from, to, handle) = park(&mut context, &mut buffer);
                let time = Duration::from_micros(number * 37 % 5_000);
                assert_eq!(context.set_timeout(handle, Some(time)), Ok(()));
                (from, to, buffer)
            })
            .collect();
        for completion in collect(&mut context, many.len()) {
            assert_eq!(completion.result, Err(Errno::TIME));
        }
        assert_eq!(context.pending(), 0);
    });
}

/// The timeout of another operation wakes a call that waits for a free slot.
#[test]
fn a_timeout_frees_a_slot_at_the_limit() {
    for_each_pending_backend(|way| {
        let mut context =
            way.with(|options| options.operations(1).back_pressure(BackPressure::Wait));
        let mut buffers = [[FRESH; 8]; 2];
        let [first, second] = &mut buffers;
        let (_from, _to, handle) = park(&mut context, first);
        assert_eq!(context.set_timeout(handle, SOON), Ok(()));
        let (_from2, to2, next) = park(&mut context, second);
        rustix::io::write(&to2, b"abc").expect("written");
        let done = collect(&mut context, 2);
        let result = |of| done.iter().find(|one| one.handle == of).unwrap().result;
        assert_eq!(result(handle), Err(Errno::TIME));
        assert_eq!(result(next), Ok(3));
    });
}

#[test]
fn foreign_and_finished_handles_are_refused() {
    for_each_pending_backend(|way| {
        let (mut context, mut other) = (way.context(), way.context());
        let mut buffer = [FRESH; 8];
        let (_from, to, handle) = park(&mut context, &mut buffer);
        assert_eq!(other.set_timeout(handle, SOON), Err(Errno::NOENT));
        assert_eq!(other.set_user_data(handle, 1), Err(Errno::NOENT));
        assert_eq!(other.poll_one(handle).map(|_| ()), Err(Errno::NOENT));
        assert_eq!(context.poll_one(handle).map(|_| ()), Err(Errno::INPROGRESS));
        assert_eq!(context.set_user_data(handle, 77), Ok(()));
        rustix::io::write(&to, b"abc").expect("written");
        let end = Instant::now() + LIMIT;
        let completion = loop {
            match context.poll_one(handle) {
                Err(Errno::INPROGRESS) => assert!(Instant::now() < end),
                result => break result.expect("it has finished"),
            }
        };
        assert_eq!((completion.result, completion.user_data), (Ok(3), 77));
        assert_eq!(context.poll_one(handle).map(|_| ()), Err(Errno::NOENT));
        assert_eq!(collect(&mut context, 0), []);
    });
}

/// The ring takes no entry while its descriptor is another file; the cancel request must not be lost.
#[test]
fn a_timeout_holds_although_the_ring_takes_no_cancel_request() {
    child::check(LIMIT, test_name!(), "", || {
        for_each_pending_backend(|way| {
            let mut context = way.with(|options| {
                options.limits(laio::Limits {
                    ring_entries: 8,
                    ..Default::default()
                })
            });
            let is_ring = |fd: &i32| {
                let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
                link.is_ok_and(|link| link.to_string_lossy().contains("io_uring"))
            };
            let Some(ring) = process::open_fds().into_iter().find(is_ring) else {
                return;
            };
            let null = std::fs::File::open("/dev/null").expect("there");
            let saved = own(plain(libc::SYS_dup, [ring as usize]));
            plain(libc::SYS_dup3, [null.arg(), ring as usize, 0]).expect("replaced");
            // As many as fill the submission queue.
            let mut buffers = [[FRESH; 8]; 8];
            let parked: Vec<_> = (buffers.iter_mut())
                .map(|buffer| park(&mut context, buffer))
                .collect();
            let handle = parked[0].2;
            assert_eq!(context.set_timeout(handle, SOON), Ok(()));
            std::thread::sleep(SOON.unwrap() * 2);
            let polled = context.poll(&mut Vec::new(), Some(Duration::ZERO));
            assert!(polled.is_err(), "{polled:?}");
            let cloexec = libc::O_CLOEXEC as usize;
            plain(libc::SYS_dup3, [saved.arg(), ring as usize, cloexec]).expect("restored");
            assert_eq!(wait_for(&mut context, handle).result, Err(Errno::TIME));
        });
    });
}
