//! Warnings about workers that do not turn. What holds a worker up ends only after the warning.

use crate::support::{directory, each_runtime};
use laio_tokio::stalls::{Cause, Stall, Watch, WatchGuard};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// A warning comes as early as it can.
const OVER: Duration = Duration::from_millis(20);

fn start() -> (WatchGuard, Receiver<Stall>) {
    let (say, stalls) = channel();
    let watch = Watch::new().over(OVER);
    let watch = watch.on_stall(move |stall| drop(say.send(stall.clone())));
    (watch.start().unwrap(), stalls)
}

/// Lets a task of each runtime wait, and ends that after a warning, until the warning is this one: on a
/// loaded machine it can be about a worker that has no processor, or about another call.
fn warns(
    is_it: impl Fn(&Stall) -> bool,
    wait: impl Fn(&Path) + Clone + Send + 'static,
    end: impl Fn(&Path) + Clone + Send + 'static,
) -> Vec<Stall> {
    let check = |runtime: Runtime| {
        runtime.block_on(async {
            loop {
                let (guard, stalls) = start();
                while guard.threads() < Handle::current().metrics().num_workers() as u64 {
                    tokio::time::sleep(OVER).await;
                }
                let (_kept, at) = directory();
                let path = at.join("file");
                let (wait, end, place) = (wait.clone(), end.clone(), path.clone());
                let task = tokio::spawn(async move { wait(&place) });
                let ending = std::thread::spawn(move || {
                    let stall = stalls.recv().unwrap();
                    end(&path);
                    stall
                });
                task.await.unwrap();
                let stall = ending.join().unwrap();
                assert!(guard.stalls() > 0 && stall.lasted >= OVER, "{stall}");
                if is_it(&stall) {
                    return stall;
                }
            }
        })
    };
    each_runtime().map(check).into()
}

#[test]
fn a_call_is_named_with_its_file() {
    let open = |path: &Path| {
        let mut text = String::new();
        fifo(path);
        File::open(path).unwrap().read_to_string(&mut text).unwrap();
    };
    let end = |path: &Path| {
        fifo(path);
        let mut writer = File::options().write(true).open(path).unwrap();
        writer.write_all(b"end").unwrap();
    };
    let is_it = |stall: &Stall| stall.call.starts_with("open") && stall.subject.ends_with("/file");
    for stall in warns(is_it, open, end) {
        assert_eq!(stall.cause, Cause::Call);
        assert!(stall.remedy.starts_with("laio attempts it"), "{stall}");
        assert!(!stall.stack.is_empty() && stall.thread_id > 0, "{stall}");
    }
}

/// Creates a FIFO, unless it is there.
fn fifo(path: &Path) {
    let made = mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0);
    assert!(matches!(made, Ok(()) | Err(rustix::io::Errno::EXIST)));
}

#[test]
fn a_lock_is_told_from_a_sleeping_worker() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let (waiting, ending) = (gate.clone(), gate);
    let wait = move |_: &Path| {
        let opened = waiting.0.lock().unwrap();
        *waiting.1.wait_while(opened, |opened| !*opened).unwrap() = false;
    };
    let end = move |_: &Path| {
        *ending.0.lock().unwrap() = true;
        ending.1.notify_all();
    };
    for stall in warns(|stall| stall.cause == Cause::Lock, wait, end) {
        assert!(stall.call.starts_with("futex"), "{stall}");
    }
}

#[test]
fn a_task_that_computes_is_running() {
    let file = |path: &Path| while !path.exists() {};
    let end = |path: &Path| drop(File::create(path).unwrap());
    let runs = |stall: &Stall| matches!(stall.cause, Cause::Running | Cause::Processor);
    for stall in warns(runs, file, end) {
        assert!(stall.stack.is_empty(), "{stall}");
        assert!(stall.remedy.starts_with("not a call"), "{stall}");
    }
}

/// However long a watch looks at a runtime without work, it reports no idle wait.
#[test]
fn sleeping_workers_are_not_reported() {
    for runtime in each_runtime() {
        let stalls = runtime.block_on(async {
            let (guard, stalls) = start();
            while guard.looks() < 50 {
                tokio::time::sleep(OVER / 4).await;
            }
            stalls
        });
        for stall in stalls {
            let is_idle = stall.call.contains("epoll") || stall.cause == Cause::Lock;
            assert!(!is_idle, "{stall}");
        }
    }
}

#[test]
fn a_watch_needs_a_runtime_and_can_end_itself() {
    assert!(Watch::new().start().is_err());
    let [runtime, _] = each_runtime();
    let held: Arc<Mutex<Option<WatchGuard>>> = Arc::default();
    let (say, ended) = channel();
    let (guard, dropped) = (held.clone(), held.clone());
    let watch = Watch::new()
        .over(OVER)
        .with_stack(false)
        .on_stall(move |stall| {
            drop(dropped.lock().unwrap().take());
            say.send(stall.stack.len()).unwrap();
        });
    runtime.block_on(async move {
        // A callback that comes early waits for the guard that it drops.
        let mut place = guard.lock().unwrap();
        *place = Some(watch.start().unwrap());
        drop(place);
        assert_eq!(ended.recv().unwrap(), 0);
        // The callback went with its thread.
        assert!(ended.recv().is_err());
    });
}
