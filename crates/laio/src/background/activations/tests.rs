//! The mechanism by itself, in one context after another.

use crate::{BackendKind, Call, Context, Options, Outcome};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

fn context() -> Option<Context> {
    match Context::new(Options::new().backend(BackendKind::Activations)) {
        Ok(context) => Some(context),
        Err(errno) => {
            laio_testing::skip("activations", format!("no context: {errno}"));
            None
        }
    }
}

/// A call that waits for a pipe.
struct Waiting {
    // poll(2): never left to the reactor.
    wanted: Box<libc::pollfd>,
    _reader: OwnedFd,
    writer: OwnedFd,
}

impl Waiting {
    fn new() -> Waiting {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let wanted = Box::new(libc::pollfd {
            fd: reader.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        Waiting {
            wanted,
            _reader: reader,
            writer,
        }
    }

    fn begin(&mut self, context: &mut Context) -> Outcome {
        let args = [(&raw mut *self.wanted) as usize, 1, usize::MAX];
        // SAFETY: the struct lives until the completion has come.
        unsafe { context.call(Call::new(libc::SYS_poll, args)) }
    }

    fn end(&self) {
        rustix::io::write(&self.writer, b"x").unwrap();
    }
}

#[test]
fn a_call_that_blocks_goes_on_without_the_program() {
    for round in 0..20 {
        let Some(mut context) = context() else { return };
        let mut waiting = Waiting::new();
        let home = rustix::thread::gettid();
        let outcome = waiting.begin(&mut context);
        let Outcome::Pending(handle) = outcome else {
            panic!("{outcome:?} in round {round}")
        };
        assert_ne!(rustix::thread::gettid(), home);
        let mut completions = Vec::new();
        context
            .poll(&mut completions, Some(Duration::ZERO))
            .unwrap();
        assert!(completions.is_empty());
        waiting.end();
        context.poll(&mut completions, None).unwrap();
        assert_eq!(
            (completions[0].handle, completions[0].result),
            (handle, Ok(1))
        );
        drop(context);
        assert_eq!(rustix::thread::gettid(), home);
    }
}

#[test]
fn a_forked_child_gets_a_new_context() {
    let Some(mut context) = context() else { return };
    let mut waiting = Waiting::new();
    let outcome = waiting.begin(&mut context);
    assert!(matches!(outcome, Outcome::Pending(_)), "{outcome:?}");
    // SAFETY: the child uses the context, and ends without unwinding.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    let mut completions = Vec::new();
    if child == 0 {
        let mut own = Waiting::new();
        let pending =
            context.pending() == 0 && matches!(own.begin(&mut context), Outcome::Pending(_));
        own.end();
        let fine = pending
            && context.poll(&mut completions, None) == Ok(1)
            && completions[0].result == Ok(1);
        drop(context);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if fine { 0 } else { 9 }) };
    }
    waiting.end();
    assert_eq!(context.poll(&mut completions, None), Ok(1));
    assert_eq!(completions[0].result, Ok(1));
    let mut status = 0;
    // SAFETY: writes the status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}
