//! The mechanism by itself, in one context after another.

use crate::{BackendKind, Call, Context, Options, Outcome};
use std::time::Duration;

fn context() -> Option<Context> {
    match Context::new(Options::new().backend(BackendKind::Activations)) {
        Ok(context) => Some(context),
        Err(errno) => {
            println!("skipped: no activations here: {errno}");
            None
        }
    }
}

#[test]
fn a_call_that_blocks_goes_on_without_the_program() {
    for round in 0..20 {
        let Some(mut context) = context() else { return };
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let home = rustix::thread::gettid();
        // poll(2): never left to the reactor.
        let mut wanted = libc::pollfd {
            fd: std::os::fd::AsRawFd::as_raw_fd(&reader),
            events: libc::POLLIN,
            revents: 0,
        };
        let args = [(&raw mut wanted) as usize, 1, usize::MAX];
        // SAFETY: the struct lives until the completion has come.
        let outcome = unsafe { context.call(Call::new(libc::SYS_poll, args)) };
        let Outcome::Pending(handle) = outcome else {
            panic!("{outcome:?} in round {round}")
        };
        assert_ne!(rustix::thread::gettid(), home);
        let mut completions = Vec::new();
        context
            .poll(&mut completions, Some(Duration::ZERO))
            .unwrap();
        assert!(completions.is_empty());
        rustix::io::write(&writer, b"x").unwrap();
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
fn a_forked_child_begins_anew() {
    let Some(mut context) = context() else { return };
    let time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 300_000_000,
    };
    let sleep = |context: &mut Context, time: &libc::timespec| {
        let args = [std::ptr::from_ref(time) as usize, 0];
        // SAFETY: the time outlives the contexts.
        unsafe { context.call(Call::new(libc::SYS_nanosleep, args)) }
    };
    assert!(matches!(sleep(&mut context, &time), Outcome::Pending(_)));
    // SAFETY: the child uses the context, and ends without unwinding.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    let mut completions = Vec::new();
    if child == 0 {
        let fine = context.pending() == 0
            && matches!(sleep(&mut context, &time), Outcome::Pending(_))
            && context.poll(&mut completions, None) == Ok(1)
            && completions[0].result == Ok(0);
        drop(context);
        // SAFETY: ends the child.
        unsafe { libc::_exit(if fine { 0 } else { 9 }) };
    }
    assert_eq!(context.poll(&mut completions, None), Ok(1));
    let mut status = 0;
    // SAFETY: writes the status.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
}
