//! Rules 7 and 8: all resources are bounded, and completions arrive even if all calls finish inline.

use crate::harness::*;
use laio::{Context, Errno, Handle, Options, Outcome};
use laio_testing::temp::stream_pair;
use std::time::Instant;

#[test]
fn idle_contexts_are_small() {
    let context = Context::new(Options::new()).expect("a context");
    println!("an idle context: {} bytes", context.info().memory());
    assert!(context.info().memory() <= 256 * 1024);
}

#[test]
fn a_context_keeps_no_more_than_its_limit() {
    // Repeatedly fills the context up to the limit: its memory does not grow.
    for_each_pending_backend(|way| {
        let mut context = way.with(|options| options.operations(100));
        let (ours, _theirs) = stream_pair();
        let mut buffer = [0u8; 8];
        let read = [ours.arg(), at_mut(&mut buffer), 8];
        let mut memory = 0;
        let end = Instant::now() + LIMIT;
        for round in 0..30 {
            assert!(Instant::now() < end);
            let handles: Vec<Handle> = (0..100)
                .map(|_| pending(&mut context, libc::SYS_read, read))
                .collect();
            let outcome = start(&mut context, libc::SYS_read, read);
            assert_eq!(outcome, Outcome::Done(Err(Errno::AGAIN)));
            for handle in handles {
                context.cancel(handle).expect("in flight");
            }
            collect(&mut context, 100);
            if round == 2 {
                memory = context.info().memory();
            }
        }
        assert!(
            context.info().memory() <= memory + 4096,
            "{memory} {}",
            context.info().memory()
        );
    });
}
