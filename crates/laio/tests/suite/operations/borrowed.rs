//! Reads into borrowed memory: made only if they do not block, and never before an earlier operation.

use crate::harness::*;
use laio::TryRead;
use laio::ops::Read;
use laio::{Errno, Outcome};
use laio_testing::temp::pipe;
use std::rc::Rc;

#[test]
fn an_empty_pipe_would_block() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let mut memory = [b'.'; 8];
        let empty = TryRead::WouldBlock { done: 0 };
        assert_eq!(context.try_read(&from, &mut memory), empty);
        assert_eq!(context.pending(), 0, "nothing is left in flight");
        rustix::io::write(&to, b"abc").expect("written");
        match context.try_read(&from, &mut memory) {
            TryRead::Done(result) => {
                assert_eq!(result, Ok(3));
                assert_eq!(&memory, b"abc.....");
            }
            // Not tried, or not supported: the data is still there.
            would_block => {
                assert_eq!(would_block, empty);
                assert_eq!(rustix::io::read(&from, &mut memory), Ok(3));
            }
        }
    });
}

#[test]
fn an_earlier_read_is_not_overtaken() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (from, to) = pipe();
        let from = Rc::new(from);
        let read = Read::new(from.clone(), Vec::with_capacity(8));
        let Outcome::Pending(ticket) = context.submit(read) else {
            panic!("nothing to read yet");
        };
        rustix::io::write(&to, b"first").expect("written");
        let tried = context.try_read(&from, &mut [0; 8]);
        assert_eq!(tried, TryRead::WouldBlock { done: 0 });
        wait_for(&mut context, ticket.handle());
        let Ok((result, bytes)) = context.take(ticket) else {
            panic!("delivered");
        };
        assert_eq!((result.expect("bytes"), &bytes[..]), (5, &b"first"[..]));
    });
}

#[test]
fn errors_are_those_of_the_read() {
    for_each_pending(|way| {
        let mut context = way.context();
        let (_from, to) = pipe();
        match context.try_read(&to, &mut [0; 8]) {
            TryRead::Done(result) => assert_eq!(result, Err(Errno::BADF), "the end for writing"),
            would_block => assert_eq!(would_block, TryRead::WouldBlock { done: 0 }),
        }
    });
}
