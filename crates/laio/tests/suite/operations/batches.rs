//! How many steps a ring takes with one submission.

use crate::harness::*;
use laio::{BackendKind, Context, Limits, Options};
use laio_testing::temp::stream_pair;
use std::os::fd::OwnedFd;

const SOCKETS: usize = Limits::BATCH_MAX as usize;

/// Receives a byte from each socket, all started together. Returns the number of submissions that the starts took.
fn receive_all(context: &mut Context, sockets: &[(OwnedFd, OwnedFd)], data_is_there: bool) -> u64 {
    let send_all = || {
        for (_, far) in sockets {
            assert_eq!(rustix::io::write(far, b"x"), Ok(1));
        }
    };
    if data_is_there {
        send_all();
    }
    let before = context.stats().submissions;
    let mut bytes = [0_u8; SOCKETS];
    for ((near, _), byte) in sockets.iter().zip(&mut bytes) {
        pending(
            context,
            libc::SYS_recvfrom,
            [near.arg(), at_mut(byte), 1, 0, 0, 0],
        );
    }
    let submissions = context.stats().submissions - before;
    if !data_is_there {
        context.flush().unwrap();
        send_all();
    }
    let completions = collect(context, SOCKETS);
    assert!(completions.iter().all(|one| one.result == Ok(1)));
    assert_eq!(bytes, [b'x'; SOCKETS]);
    submissions
}

#[test]
fn batches_grow_while_no_device_waits() {
    let options = Options::new().backend(BackendKind::Uring);
    // With settled rights no call goes to a one-shot thread.
    let mut context = match Context::new(options.rights(laio::Rights::Settled)) {
        Ok(context) => context,
        Err(errno) => return laio_testing::skip("io_uring", errno.to_string()),
    };
    let sockets: Vec<_> = (0..SOCKETS).map(|_| stream_pair()).collect();
    let small = u64::from(Limits::BATCH_MAX / Limits::BATCH);
    let growing = receive_all(&mut context, &sockets, true);
    assert!((2..small).contains(&growing), "{growing} submissions");
    assert_eq!(receive_all(&mut context, &sockets, true), 1);
    // The first of these batches is large, but what it starts has to wait.
    assert_eq!(receive_all(&mut context, &sockets, false), 1);
    assert_eq!(receive_all(&mut context, &sockets, false), small);
}
