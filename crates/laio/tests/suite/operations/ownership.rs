//! Typed operations: each owned buffer and descriptor is returned once, or dropped once.

use crate::harness::*;
use laio::ops::{Read, Sink, Sleep, Source, Write};
use laio::{Context, Errno, Outcome, PollOptions, Ticket};
use laio_testing::temp::{fill, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::time::Duration;

/// A buffer whose lifetime the test can observe.
struct Counted {
    bytes: Vec<u8>,
    _alive: Rc<()>,
}

impl Counted {
    fn new(alive: &Rc<()>, bytes: Vec<u8>) -> Counted {
        Counted {
            bytes,
            _alive: alive.clone(),
        }
    }
}

// SAFETY: as for the vector.
unsafe impl Source for Counted {
    fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

// SAFETY: as for the vector.
unsafe impl Sink for Counted {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        self.bytes.spare_capacity()
    }

    unsafe fn append(&mut self, count: usize) {
        // SAFETY: by the caller.
        unsafe { Sink::append(&mut self.bytes, count) }
    }
}

type Reading = Read<Rc<OwnedFd>, Counted>;

fn read(context: &mut Context, from: &Rc<OwnedFd>, alive: &Rc<()>) -> Ticket<Reading> {
    let buffer = Counted::new(alive, Vec::with_capacity(3));
    match context.submit(Read::new(from.clone(), buffer)) {
        Outcome::Pending(ticket) => ticket,
        Outcome::Done(_) => panic!("nothing to read yet"),
    }
}

fn shared_pipe() -> (Rc<OwnedFd>, OwnedFd) {
    let (from, to) = pipe();
    (Rc::new(from), to)
}

#[test]
fn taken_only_after_delivery() {
    for_each_pending(|way| {
        let alive = Rc::new(());
        let mut context = way.context();
        let (from, to) = shared_pipe();
        let ticket = read(&mut context, &from, &alive);
        let handle = ticket.handle();
        let ticket = context.take(ticket).err().expect("not over");
        rustix::io::write(&to, b"abc").expect("written");
        let ticket = context.take(ticket).err().expect("not delivered");
        let completion = wait_for(&mut context, handle);
        assert_eq!(completion.result, Ok(3));
        assert_eq!(Rc::strong_count(&alive), 2, "kept until it is taken");
        assert_eq!(context.cancel(handle), Err(Errno::NOENT));
        assert_eq!(
            context.poll(&mut Vec::new(), None),
            Ok(0),
            "nothing to wait for"
        );
        let Ok((result, buffer)) = context.take(ticket) else {
            panic!("delivered, and not given out");
        };
        assert_eq!(result.expect("bytes"), 3);
        assert_eq!(buffer.bytes, b"abc");
        assert_eq!(context.pending(), 0);
        drop(buffer);
        assert_eq!(Rc::strong_count(&alive), 1);
    });
}

#[test]
fn cancelled_and_taken() {
    for_each_pending(|way| {
        let alive = Rc::new(());
        let mut context = way.context();
        let (from, _to) = shared_pipe();
        let tickets = [0, 1, 2].map(|_| read(&mut context, &from, &alive));
        for ticket in &tickets {
            context.cancel(ticket.handle()).expect("in flight");
        }
        collect(&mut context, 3);
        for ticket in tickets {
            let (result, buffer) = context.take(ticket).expect("delivered");
            let error = result.expect_err("cancelled");
            assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
            assert!(buffer.bytes.is_empty());
        }
        assert_eq!(Rc::strong_count(&alive), 1);
        assert_eq!(Rc::strong_count(&from), 1);
    });
}

#[test]
fn abandoned_in_each_state() {
    for_each_pending(|way| {
        let alive = Rc::new(());
        let mut context = way.context();
        let (from, to) = shared_pipe();
        // In flight and queued: abandoned, so nothing is delivered.
        let tickets = [0, 1, 2].map(|_| read(&mut context, &from, &alive));
        for ticket in tickets {
            context.abandon(ticket);
        }
        poll_in_vain(&mut context);
        assert_eq!(
            Rc::strong_count(&alive),
            1,
            "not dropped after the kernel released it"
        );

        // Delivered, but not taken.
        let ticket = read(&mut context, &from, &alive);
        rustix::io::write(&to, b"abc").expect("written");
        wait_for(&mut context, ticket.handle());
        context.abandon(ticket);
        assert_eq!((context.pending(), Rc::strong_count(&alive)), (0, 1));

        // Finished or about to finish, but not delivered.
        let ticket = read(&mut context, &from, &alive);
        rustix::io::write(&to, b"abc").expect("written");
        std::thread::sleep(Duration::from_millis(1));
        context.abandon(ticket);
        poll_in_vain(&mut context);
        assert_eq!(Rc::strong_count(&alive), 1);
    });
}

/// Polls until nothing is in flight; nothing may be delivered.
fn poll_in_vain(context: &mut Context) {
    while context.pending() > 0 {
        let options = PollOptions {
            timeout: Some(LIMIT),
            ..PollOptions::default()
        };
        let none = context.poll_with(options, |completion| panic!("{completion:?}"));
        assert_eq!(none, Ok(0));
    }
}

#[test]
fn a_dropped_ticket_abandons_its_operation_in_each_state() {
    for_each_pending(|way| {
        let alive = Rc::new(());
        let mut context = way.context();
        let (from, to) = shared_pipe();
        // In flight and queued.
        drop([0, 1, 2].map(|_| read(&mut context, &from, &alive)));
        assert_eq!(context.pending(), 3, "cancelled by the next poll");
        poll_in_vain(&mut context);
        assert_eq!(Rc::strong_count(&alive), 1);

        // Delivered, but not taken.
        let ticket = read(&mut context, &from, &alive);
        rustix::io::write(&to, b"abc").expect("written");
        wait_for(&mut context, ticket.handle());
        drop(ticket);
        assert_eq!(Rc::strong_count(&alive), 2);
        poll_in_vain(&mut context);
        assert_eq!(Rc::strong_count(&alive), 1);

        // Finished or about to finish, but not delivered.
        let ticket = read(&mut context, &from, &alive);
        rustix::io::write(&to, b"abc").expect("written");
        std::thread::sleep(Duration::from_millis(1));
        drop(ticket);
        poll_in_vain(&mut context);
        assert_eq!((Rc::strong_count(&alive), Rc::strong_count(&from)), (1, 1));
    });
}

#[test]
fn tickets_are_dropped_after_their_context_and_by_a_panic() {
    for_each_pending_backend(|way| {
        let alive = Rc::new(());
        let (from, _to) = shared_pipe();
        let mut context = way.context();
        let ticket = read(&mut context, &from, &alive);
        drop(context);
        assert_eq!(Rc::strong_count(&alive), 1);
        drop(ticket);

        let mut context = way.context();
        let unwound = std::panic::catch_unwind(AssertUnwindSafe(|| {
            let _ticket = read(&mut context, &from, &alive);
            std::panic::resume_unwind(Box::new("as if something had failed"));
        }));
        assert!(unwound.is_err());
        poll_in_vain(&mut context);
        assert_eq!(Rc::strong_count(&alive), 1);

        // Both at once: the ticket is dropped by the panic that also ends the context.
        let mut context = way.context();
        let unwound = std::panic::catch_unwind(AssertUnwindSafe(move || {
            let _first = read(&mut context, &from, &alive);
            let context = context;
            std::panic::resume_unwind(Box::new(Rc::strong_count(&alive) + context.pending()));
        }));
        assert_eq!(*unwound.unwrap_err().downcast::<usize>().unwrap(), 3);
    });
}

#[test]
fn dropped_tickets_free_their_slots_at_the_limit() {
    for_each_pending_backend(|way| {
        let alive = Rc::new(());
        let (from, to) = shared_pipe();
        let mut context = Context::new(way.options().operations(2)).expect("a context");
        let tickets = [0, 1].map(|_| read(&mut context, &from, &alive));
        rustix::io::write(&to, b"abcabc").expect("written");
        collect(&mut context, 2);
        let refused = context.submit(Read::new(from.clone(), Vec::with_capacity(3)));
        let Outcome::Done((refused, _)) = refused else {
            panic!("beyond the limit");
        };
        let refused = refused.expect_err("no slot is free");
        assert_eq!(refused.raw_os_error(), Some(libc::EAGAIN));
        drop(tickets);
        drop(read(&mut context, &from, &alive));
        poll_in_vain(&mut context);
        assert_eq!(Rc::strong_count(&alive), 1);
    });
}

#[test]
fn an_abandoned_write_is_dropped_once() {
    for_each_pending(|way| {
        let alive = Rc::new(());
        let (from, to) = shared_pipe();
        fill(&to);
        let to = Rc::new(to);
        let mut context = way.context();
        for _ in 0..3 {
            let bytes = Counted::new(&alive, vec![1; 100_000]);
            if let Outcome::Pending(ticket) = context.submit(Write::new(to.clone(), bytes)) {
                context.abandon(ticket);
            }
        }
        drop(context);
        assert_eq!(Rc::strong_count(&alive), 1);
        drop(from);
    });
}

#[test]
fn a_dropped_context_frees_operations_in_flight() {
    for_each_pending(|way| {
        let alive = Rc::new(());
        let (from, to) = shared_pipe();
        let mut context = way.context();
        let mut tickets = Vec::new();
        for _ in 0..5 {
            tickets.push(read(&mut context, &from, &alive));
        }
        rustix::io::write(&to, b"abc").expect("written");
        let mut delivered = 0;
        while delivered == 0 {
            delivered = context
                .poll_with(
                    PollOptions {
                        timeout: Some(LIMIT),
                        most: 1,
                        ..PollOptions::default()
                    },
                    |_| (),
                )
                .expect("poll");
        }
        drop(context);
        assert_eq!(Rc::strong_count(&alive), 1, "with tickets still around");
        assert_eq!(Rc::strong_count(&from), 1);
        drop(tickets);
    });
}

#[test]
fn a_ticket_of_another_context_comes_back() {
    for_each_pending_backend(|way| {
        let alive = Rc::new(());
        let (mut ours, mut theirs) = (way.context(), way.context());
        let ((from, to), (other_from, other_to)) = (shared_pipe(), shared_pipe());
        let mine = read(&mut ours, &from, &alive);
        let foreign = read(&mut theirs, &other_from, &alive);
        rustix::io::write(&to, b"abc").expect("written");
        rustix::io::write(&other_to, b"xyz").expect("written");
        wait_for(&mut ours, mine.handle());
        wait_for(&mut theirs, foreign.handle());
        let foreign = ours.take(foreign).err().expect("not of this context");
        let (_, abc) = ours.take(mine).expect("delivered");
        let (_, xyz) = theirs.take(foreign).expect("delivered");
        assert_eq!([&abc.bytes[..], &xyz.bytes[..]], [b"abc", b"xyz"]);
        drop((abc, xyz));
        // Abandoning it in another context has no effect.
        let mine = read(&mut ours, &from, &alive);
        let foreign = read(&mut theirs, &other_from, &alive);
        ours.abandon(foreign);
        assert_eq!((ours.pending(), theirs.pending()), (1, 1));
        ours.abandon(mine);
        drop((ours, theirs));
        assert_eq!(Rc::strong_count(&alive), 1);
    });
}

#[test]
fn a_slot_is_used_again_for_another_type() {
    for_each_pending_backend(|way| {
        let alive = Rc::new(());
        let (from, _to) = shared_pipe();
        let mut context = way.context();
        for _ in 0..100 {
            let Outcome::Pending(sleep) = context.submit_with(Sleep::new(LIMIT * 100), 7) else {
                panic!("a sleep that finished at once");
            };
            let ticket = read(&mut context, &from, &alive);
            context.cancel(sleep.handle()).expect("in flight");
            context.abandon(ticket);
            let completion = wait_for(&mut context, sleep.handle());
            assert_eq!(completion.user_data, 7);
            assert!(context.take(sleep).is_ok());
        }
        drop(context);
        assert_eq!(Rc::strong_count(&alive), 1);
    });
}

/// A `sendto` that claims to be what only a receive can be.
struct Claims(OwnedFd, Box<[u8; 4]>);

// SAFETY: the operation owns the bytes, and nothing else uses them.
unsafe impl laio::Operation for Claims {
    type Output = (Result<usize, Errno>, Box<[u8; 4]>);

    fn call(&mut self) -> laio::Call {
        let address = self.1.as_ptr() as usize;
        laio::Call::new(libc::SYS_sendto, [self.0.arg(), address, 4, 0, 0, 0])
    }

    fn expects_to_block(&self) -> bool {
        true
    }

    fn finish(self, result: Result<usize, Errno>) -> Self::Output {
        (result, self.1)
    }
}

#[test]
fn a_send_that_is_expected_to_block_is_a_send() {
    for_each(|way| {
        let mut context = way.context();
        let (from, to) = UnixStream::pair().expect("sockets");
        let from = OwnedFd::from(from);
        // The bytes that a receive would take.
        plain(libc::SYS_write, [from.arg(), at(b"wrong"), 4]).expect("written");
        let submitted = context.submit(Claims(to.into(), Box::new(*b"sent")));
        let (result, bytes) = match submitted {
            Outcome::Done(output) => output,
            Outcome::Pending(ticket) => {
                wait_for(&mut context, ticket.handle());
                context.take(ticket).expect("delivered")
            }
        };
        assert_eq!((result, &*bytes), (Ok(4), b"sent"));
        let mut received = [0; 4];
        plain(libc::SYS_read, [from.arg(), at_mut(&mut received), 4]).expect("read");
        assert_eq!(&received, b"sent");
    });
}

/// The abandoned operation owns the descriptor whose end the other one waits for.
#[test]
fn an_abandoned_operation_ends_during_a_wait() {
    for_each_pending(|way| {
        let alive = Rc::new(());
        let mut context = way.context();
        let (own, other) = UnixStream::pair().expect("a pair of sockets");
        let own = Rc::new(OwnedFd::from(own));
        let abandoned = read(&mut context, &own, &alive);
        let other = Rc::new(OwnedFd::from(other));
        let ticket = read(&mut context, &other, &alive);
        context.abandon(abandoned);
        drop(own);
        let completion = wait_for(&mut context, ticket.handle());
        assert_eq!(completion.result, Ok(0), "the end of the stream");
        assert!(context.take(ticket).is_ok());
        assert_eq!(Rc::strong_count(&alive), 1);
    });
}

/// A buffer whose destructor panics.
struct Panicking(Vec<u8>);

impl Drop for Panicking {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new("a destructor"));
        }
    }
}

// SAFETY: as for the vector.
unsafe impl Sink for Panicking {
    fn spare_capacity(&mut self) -> (*mut u8, usize) {
        self.0.spare_capacity()
    }

    unsafe fn append(&mut self, count: usize) {
        // SAFETY: by the caller.
        unsafe { Sink::append(&mut self.0, count) }
    }
}

/// The results that arrive together with that of the abandoned operation are delivered all the same.
#[test]
fn a_destructor_that_panics_loses_no_completion() {
    for_each_pending_backend(|way| {
        let (from, to) = shared_pipe();
        let (other, other_to) = shared_pipe();
        let alive = Rc::new(());
        let mut context = way.context();
        let first = Read::new(other.clone(), Panicking(Vec::with_capacity(1)));
        let Outcome::Pending(first) = context.submit(first) else {
            panic!("nothing to read yet");
        };
        let second = read(&mut context, &from, &alive);
        context.flush().unwrap();
        rustix::io::write(&other_to, b"x").expect("written");
        rustix::io::write(&to, b"abc").expect("written");
        // The operation ends here or in `poll`.
        let abandoned = std::panic::catch_unwind(AssertUnwindSafe(|| context.abandon(first)));
        let mut panics = usize::from(abandoned.is_err());
        let mut found = Vec::new();
        while context.pending() > 1 || found.is_empty() {
            let polled = std::panic::catch_unwind(AssertUnwindSafe(|| {
                context.poll(&mut found, Some(LIMIT)).expect("a wait");
            }));
            panics += usize::from(polled.is_err());
            assert!(polled.is_err() || !found.is_empty(), "lost");
        }
        assert_eq!((found.len(), found[0].result), (1, Ok(3)));
        assert!(context.take(second).is_ok());
        assert_eq!((panics, context.pending()), (1, 0));
    });
}

/// The context waits for the end of all operations before it drops the first buffer.
#[test]
fn a_destructor_that_panics_while_its_context_ends_frees_the_others() {
    for_each_pending_backend(|way| {
        let (from, _to) = shared_pipe();
        let (other, _other_to) = shared_pipe();
        let alive = Rc::new(());
        let mut context = way.context();
        let _first = context.submit(Read::new(other.clone(), Panicking(Vec::with_capacity(1))));
        let _second = read(&mut context, &from, &alive);
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| drop(context)));
        assert!(ended.is_err());
        assert_eq!(Rc::strong_count(&alive), 1);
        assert_eq!((Rc::strong_count(&from), Rc::strong_count(&other)), (1, 1));
    });
}
