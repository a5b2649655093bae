//! Threads that start and end, programs that execute others, fork, or are killed, and many threads.

use crate::loops::{LoopThread, watch};
use laio_stalls::{Cause, Watch, WatchOptions};
use std::io::{Read, pipe};
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::Duration;

fn watch_child(pid: u32, thread: &str) -> Watch {
    let options = WatchOptions {
        over: Duration::from_millis(20),
        threads: vec![thread.to_owned()],
        with_perf: true,
    };
    Watch::new(pid, options).unwrap()
}

#[test]
fn a_process_that_does_not_exist_is_an_error() {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let options = WatchOptions {
        over: Duration::from_millis(1),
        threads: Vec::new(),
        with_perf: true,
    };
    Watch::new(child.id(), options).unwrap_err();
}

#[test]
fn the_watch_ends_with_a_program_that_is_killed() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut watch = watch_child(child.id(), "sleep");
    for _ in 0..50 {
        assert!(watch.turn());
    }
    child.kill().unwrap();
    while watch.turn() {}
    let report = watch.finish();
    assert!(
        report
            .entries
            .iter()
            .any(|(key, _)| key.call == "clock_nanosleep"),
        "{report:#?}"
    );
    child.wait().unwrap();
}

#[test]
fn a_program_that_executes_another_and_has_children() {
    let script = "read line; sh -c 'read line; :' & exec cat";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut watch = watch_child(child.id(), "cat");
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"line\n").unwrap();
    // Until the watch has found `cat`, which waits for its input.
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_millis(400) {
        assert!(watch.turn());
    }
    drop(input);
    child.wait().unwrap();
    while watch.turn() {}
    let report = watch.finish();
    let is_it = |(key, _): &&(laio_stalls::Key, _)| key.thread == "cat" && key.call == "read";
    let entry = report.entries.iter().find(is_it);
    assert_eq!(
        entry.map(|(key, _)| key.subject.as_str()),
        Some("a pipe"),
        "{report:#?}"
    );
}

/// A shell that forks, and opens a FIFO in the child.
#[test]
fn a_process_that_the_program_forks() {
    let directory = tempfile::tempdir().unwrap();
    let fifo = directory.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let mut child = Command::new("sh")
        .args(["-c", "read line; (: < \"$0\"); kill -TERM $$"])
        .arg(&fifo)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut watch = watch_child(child.id(), "sh");
    let mut input = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, b"line\n").unwrap();
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_millis(400) {
        assert!(watch.turn());
    }
    // Waits until the child is in its `open`.
    drop(std::fs::File::create(&fifo).unwrap());
    while watch.turn() {}
    assert!(!child.wait().unwrap().success());
    let report = watch.finish();
    let subject = fifo.to_str().unwrap();
    let is_it = |key: &laio_stalls::Key| key.thread == "sh" && key.subject == subject;
    assert!(
        report.entries.iter().any(|(key, _)| is_it(key)),
        "{report:#?}"
    );
}

/// A program of its own, because other tests would see its loops.
#[test]
fn more_loops_than_are_watched() {
    const MAX_THREADS: usize = 256;
    if Command::new("python3").arg("--version").output().is_err() {
        return laio_testing::skip("python3", "a program with 300 event loops");
    }
    let script = "import select, sys, threading\n\
        for _ in range(300): threading.Thread(target=select.epoll().poll, daemon=True).start()\n\
        sys.stdin.read()";
    let mut child = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut watch = watch_child(child.id(), "none");
    let count = |watch: &Watch| {
        watch
            .report()
            .loops
            .iter()
            .map(|(_, count)| count)
            .sum::<usize>()
    };
    while count(&watch) < MAX_THREADS || watch.report().means.unwatched == 0 {
        assert!(watch.turn());
    }
    for _ in 0..50 {
        watch.turn();
    }
    assert_eq!(count(&watch), MAX_THREADS);
    drop(child.stdin.take());
    while watch.turn() {}
    child.wait().unwrap();
}

#[test]
fn a_stopped_program_is_stopped() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut watch = watch_child(child.id(), "sleep");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_millis(300) {
        assert!(watch.turn());
    }
    let report = watch.finish();
    assert!(
        report
            .entries
            .iter()
            .any(|(key, _)| key.cause == Cause::Stopped),
        "{report:#?}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn one_loop_among_five_hundred_threads() {
    const THREADS: usize = 500;
    let end = Arc::new(Barrier::new(THREADS + 1));
    let start = |_| {
        let end = end.clone();
        let small = std::thread::Builder::new()
            .stack_size(64 << 10)
            .name("parked".to_owned());
        let body = move || {
            end.wait();
        };
        small.spawn(body).unwrap()
    };
    let threads: Vec<_> = (0..THREADS).map(start).collect();
    let thread = LoopThread::start("one-of-many");
    let mut watch = watch(true);
    let (mut reader, writer) = pipe().unwrap();
    thread.wait(
        &mut watch,
        move || assert_eq!(reader.read(&mut [0]).unwrap(), 0),
        move || drop(writer),
    );
    let report = watch.finish();
    thread.check(&report, Cause::Call, &["read"], "a pipe");
    assert!(!report.loops.iter().any(|(name, _)| name == "parked"));
    end.wait();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_wait_that_lasts_is_reported_as_unfinished() {
    let thread = LoopThread::start("unfinished");
    let mut first = watch(true);
    let mut second = watch(false);
    thread.idle(&mut second);
    let (mut reader, writer) = pipe().unwrap();
    let mut unfinished = 0;
    thread.wait(
        &mut first,
        move || assert_eq!(reader.read(&mut [0]).unwrap(), 0),
        || {
            for _ in 0..50 {
                second.turn();
            }
            let report = second.finish();
            let entries = thread.entries(&report);
            unfinished = entries.iter().map(|(_, entry)| entry.unfinished).sum();
            drop(writer);
        },
    );
    assert_eq!(unfinished, 1);
}
