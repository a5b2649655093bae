//! Warnings about a runtime that does not turn. What holds it up ends only after the warning.

use crate::common::each;
use laio::{BackendKind, Options};
use laio_rt::stalls::{Cause, Stall, Watch, WatchGuard};
use laio_rt::{Runtime, spawn, time};
use std::io::{Read, Write, pipe};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A warning comes as early as it can.
const OVER: Duration = Duration::from_millis(20);

fn start() -> (WatchGuard, Receiver<Stall>) {
    let (say, stalls) = channel();
    let watch = Watch::new().over(OVER);
    let watch = watch.on_stall(move |stall| drop(say.send(stall.clone())));
    (watch.start().unwrap(), stalls)
}

/// Back ends that sleep on a ring, in epoll, and on a helper.
fn back_ends() -> Vec<(&'static str, Options)> {
    let names = ["lazy", "lazy without a ring", "threads"];
    let mut all = crate::common::waiting();
    all.retain(|(name, _)| names.contains(name));
    all
}

/// Lets a task wait, and ends that after a warning, until the warning is this one: on a loaded machine it can
/// be about a thread without a processor.
async fn warns<W: FnOnce() + 'static, E: FnOnce() + Send + 'static>(
    is_it: fn(&Stall) -> bool,
    prepare: impl Fn() -> (W, E),
) -> Stall {
    loop {
        let (guard, stalls) = start();
        let (wait, end) = prepare();
        let ending = std::thread::spawn(move || {
            let stall = stalls.recv().unwrap();
            end();
            stall
        });
        spawn(async move { wait() }).await.unwrap();
        let stall = ending.join().unwrap();
        assert!(guard.stalls() > 0 && stall.lasted >= OVER, "{stall}");
        if is_it(&stall) {
            return stall;
        }
    }
}

#[test]
fn a_call_is_named_with_its_file() {
    each(back_ends(), |_| async {
        let is_it = |stall: &Stall| stall.call == "read" && stall.subject == "a pipe";
        let prepare = || {
            let (mut reader, mut writer) = pipe().unwrap();
            let wait = move || reader.read_exact(&mut [0]).unwrap();
            (wait, move || writer.write_all(b"x").unwrap())
        };
        let stall = warns(is_it, prepare).await;
        assert_eq!((stall.cause, stall.thread_id > 0), (Cause::Call, true));
        assert!(stall.remedy.starts_with("laio attempts it"), "{stall}");
        assert!(!stall.stack.is_empty(), "{stall}");
    });
}

#[test]
fn a_lock_is_named() {
    each(back_ends(), |_| async {
        let prepare = || {
            let (say, said) = channel();
            (move || said.recv().unwrap(), move || say.send(()).unwrap())
        };
        let stall = warns(|stall| stall.cause == Cause::Lock, prepare).await;
        assert!(stall.call.starts_with("futex"), "{stall}");
    });
}

#[test]
fn a_task_that_computes_is_running() {
    each(back_ends(), |_| async {
        let runs = |stall: &Stall| matches!(stall.cause, Cause::Running | Cause::Processor);
        let prepare = || {
            let (say, said) = channel();
            (
                move || while said.try_recv().is_err() {},
                move || say.send(()).unwrap(),
            )
        };
        let stall = warns(runs, prepare).await;
        assert!(stall.stack.is_empty(), "{stall}");
        assert!(stall.remedy.starts_with("not a call"), "{stall}");
    });
}

/// However long a watch looks at a runtime that sleeps, or that is between two `block_on`, it reports nothing
/// but a thread without a processor.
#[test]
fn an_idle_runtime_is_not_reported() {
    for (_, options) in back_ends() {
        let runtime = Runtime::new(options).unwrap();
        let (guard, stalls) = runtime.block_on(async {
            let (guard, stalls) = start();
            while guard.looks() < 30 {
                time::sleep(OVER * 2).await;
            }
            (guard, stalls)
        });
        while guard.looks() < 60 {
            std::thread::sleep(OVER);
        }
        drop(guard);
        for stall in stalls {
            assert!(
                matches!(stall.cause, Cause::Processor | Cause::Running),
                "{stall}"
            );
        }
    }
}

#[test]
fn a_watch_needs_a_runtime() {
    assert!(Watch::new().start().is_err());
    let runtime = Runtime::new(Options::new().backend(BackendKind::Lazy)).unwrap();
    runtime.block_on(async { drop(laio_rt::stalls::watch().unwrap()) });
}
