//! The kernel has no memory for a wait of io_uring: a context tries again, and says so in the end.

use super::support::pipe;
use crate::harness::{Arg, LIMIT, at_mut, pending};
use laio::{BackendKind, Call, Context, Errno, Options, Outcome};
use laio_testing::{child, forbid, test_name};
use std::time::Duration;

#[test]
fn a_context_goes_on_when_io_uring_lacks_memory() {
    if laio_testing::lacks("io_uring") || laio_testing::lacks("seccomp") {
        return;
    }
    for errno in [Errno::NOMEM, Errno::AGAIN, Errno::BUSY] {
        child::check(LIMIT, test_name!(), &errno.to_string(), || {
            let options = Options::new().backend(BackendKind::Uring);
            // Or the filter below keeps operations from the ring.
            let mut context = Context::new(options.rights(laio::Rights::Settled)).expect("a ring");
            let (reader, _writer) = pipe();
            let mut bytes = [0u8; 8];
            let args = [reader.arg(), at_mut(&mut bytes), 8];
            for _ in 0..2 {
                pending(&mut context, libc::SYS_read, args);
            }
            forbid::forbid(&[libc::SYS_io_uring_enter], errno.raw());
            let mut completions = Vec::new();
            for wait in [Duration::ZERO, Duration::from_millis(1)] {
                assert_eq!(context.poll(&mut completions, Some(wait)), Ok(0));
                assert_eq!(context.flush(), Ok(()));
            }
            // More operations than the queue has room for: one fails, none panics.
            let time = [1_000_000i64, 0];
            let sleep = Call::new(libc::SYS_nanosleep, [time.as_ptr() as usize, 0]);
            // SAFETY: the time outlives the context.
            let mut outcomes = (0..10_000).map(|_| unsafe { context.call(sleep) });
            assert!(outcomes.any(|outcome| outcome == Outcome::Done(Err(Errno::AGAIN))));
            assert_eq!(context.poll(&mut completions, None), Err(errno));
            // It ends, although the kernel has none of the operations.
            drop(context);
        });
    }
}
