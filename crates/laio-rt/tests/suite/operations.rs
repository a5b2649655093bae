//! Operations for which this crate has no method, through `submit`.

use crate::common::{all, each, waiting};
use laio::ops::{
    Address, Exit, Limit, Mkdir, Name, Open, Readiness, Recv, RecvFrom, Rename, SendTo, StatPath,
    Unlink, WaitProcess, Write, WriteVectored,
};
use laio::{Context, Errno, Options};
use laio_rt::net::UnixStream;
use laio_rt::pipe::pipe;
use laio_rt::{Descriptor, fs, future, spawn, submit, time};
use rustix::fs::OFlags;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

const DIRECTORY: i32 = (OFlags::DIRECTORY.bits() | OFlags::PATH.bits()) as i32;

#[test]
fn names_below_a_directory() {
    if laio_testing::lacks("openat2") {
        return;
    }
    each(all(), async |_| {
        let root = tempfile::tempdir().unwrap();
        let open = Open::new(Name::from_path(root.path()).unwrap(), DIRECTORY);
        let directory = Descriptor::from(submit(open).await.unwrap());
        let at = |path| Name::from_path_at(directory.clone(), path).unwrap();
        submit(Mkdir::new(at("d"), 0o700)).await.unwrap();
        let status = submit(StatPath::new(at("d"))).await.unwrap();
        assert!(status.is_dir());
        assert_eq!(status.mode() & 0o777, 0o700);
        let flags = (OFlags::CREATE | OFlags::WRONLY).bits() as i32;
        let file = submit(Open::new(at("d/f"), flags).mode(0o600).beneath())
            .await
            .unwrap();
        let (result, _) = submit(WriteVectored::new(
            file,
            ["one ", "two ", "three ", "four ", "5"],
        ))
        .await;
        assert_eq!(result.unwrap(), 20);
        assert_eq!(
            fs::read(root.path().join("d/f")).await.unwrap(),
            b"one two three four 5"
        );
        assert_eq!(
            submit(StatPath::new(at("d/f"))).await.unwrap().mode() & 0o777,
            0o600
        );
        let no_replace = rustix::fs::RenameFlags::NOREPLACE.bits();
        let rename = Rename::new(at("d/f"), at("d")).flags(no_replace);
        assert_eq!(
            submit(rename).await.unwrap_err().kind(),
            ErrorKind::AlreadyExists
        );
        submit(Rename::new(at("d/f"), at("f"))).await.unwrap();
        submit(Unlink::new(at("f"))).await.unwrap();
        submit(Unlink::directory(at("d"))).await.unwrap();
    });
}

#[test]
fn readiness_is_waited_for() {
    each(waiting(), async |_| {
        let (reader, writer) = pipe().unwrap();
        let ready = Readiness::writable(writer.descriptor().clone());
        let out = rustix::event::PollFlags::OUT.bits() as i16;
        assert_eq!(submit(ready).await.unwrap(), out);
        let waits = spawn(submit(Readiness::readable(reader.descriptor().clone())));
        time::sleep(Duration::from_millis(2)).await;
        assert!(!waits.is_finished());
        writer.write_all("x").await.0.unwrap();
        let input = rustix::event::PollFlags::IN.bits() as i16;
        assert_eq!(waits.await.unwrap().unwrap(), input);
    });
}

#[test]
fn a_cancelled_operation_completes() {
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let receive =
            || submit(Recv::new(other.descriptor().clone(), Vec::with_capacity(8)).expect_block());
        let mut receiving = receive();
        assert!(future::poll_once(&mut receiving).await.is_none());
        receiving.cancel();
        let (result, buffer) = receiving.await;
        let cancelled = Some(Errno::CANCELED.raw());
        assert_eq!(result.unwrap_err().raw_os_error(), cancelled);
        assert_eq!(buffer.capacity(), 8);
        // Whether or not the cancellation comes first, no byte is lost.
        let mut receiving = receive();
        assert!(future::poll_once(&mut receiving).await.is_none());
        one.write_all("x").await.0.unwrap();
        receiving.cancel();
        let (result, buffer) = receiving.await;
        let (_, buffer) = match result {
            Ok(_) => (Ok(1), buffer),
            Err(_) => receive().await,
        };
        assert_eq!(buffer, b"x");
        // Neither is the cancellation of what was not started, or is over, an error.
        let mut unstarted = receive();
        unstarted.cancel();
    });
}

#[test]
fn receiving_all_that_was_asked_for() {
    each(waiting(), async |_| {
        let (one, other) = UnixStream::pair().unwrap();
        let whole = rustix::net::RecvFlags::WAITALL.bits() as i32;
        let buffer = Limit::new(Vec::with_capacity(100_000), 100_000);
        let receive = spawn(submit(
            Recv::new(other.descriptor().clone(), buffer).flags(whole),
        ));
        for part in 0..10u8 {
            one.write_all(vec![part; 10_000]).await.0.unwrap();
            time::sleep(Duration::from_micros(200)).await;
        }
        let (result, buffer) = receive.await.unwrap();
        assert_eq!(result.unwrap(), 100_000);
        let buffer = buffer.into_inner();
        assert!(
            buffer
                .iter()
                .enumerate()
                .all(|(i, &byte)| usize::from(byte) == i / 10_000)
        );
    });
}

#[test]
fn flags_cannot_make_a_count_lie() {
    each(waiting(), async |_| {
        let (one, other) = UnixDatagram::pair().unwrap();
        one.send(&[7; 100]).unwrap();
        let other = Descriptor::from(OwnedFd::from(other));
        let truncate = rustix::net::RecvFlags::TRUNC.bits() as i32;
        let buffer = Limit::new(Vec::with_capacity(10), 10);
        let (result, buffer) = submit(Recv::new(other, buffer).flags(truncate)).await;
        assert_eq!((result.unwrap(), buffer.into_inner()), (10, vec![7; 10]));
    });
}

#[test]
fn datagrams_between_processes() {
    each(waiting(), async |_| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("socket");
        let receiver = Descriptor::from(OwnedFd::from(UnixDatagram::bind(&path).unwrap()));
        let unnamed = Descriptor::from(OwnedFd::from(UnixDatagram::unbound().unwrap()));
        let address = Address::unix(&path).unwrap();
        let receive = submit(RecvFrom::new(receiver.clone(), Vec::with_capacity(10)));
        let send = submit(SendTo::new(unnamed, "hello", address.clone()));
        let ((received, bytes), (sent, _)) = future::join(receive, send).await;
        assert_eq!(sent.unwrap(), 5);
        assert_eq!(bytes, b"hello");
        let received = received.unwrap();
        assert!(received.count == 5 && !received.truncated);
        let sent = submit(SendTo::new(receiver.clone(), "self", address.clone())).await;
        assert_eq!(sent.0.unwrap(), 4);
        let (received, _) = submit(RecvFrom::new(receiver, Vec::with_capacity(10))).await;
        assert_eq!(received.unwrap().from, Some(address));
    });
}

#[test]
fn children_by_descriptor() {
    each(all(), async |_| {
        let mut sleep = std::process::Command::new("sleep");
        let mut child = sleep.arg("0.01").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
        let exit = submit(WaitProcess::pidfd(pidfd)).await.unwrap();
        assert_eq!(exit, Exit::Code(0));
        // No exit status is left to collect.
        assert!(child.wait().is_err());
    });
}

#[test]
fn a_full_pipe_takes_a_write_in_parts() {
    each(waiting(), async |_| {
        let (reader, writer) = pipe().unwrap();
        let write = Write::new(writer.descriptor().clone(), vec![3u8; 200_000]);
        let mut total = 0;
        let read = async {
            while total < 200_000 {
                total += reader.read(Vec::with_capacity(3000)).await.0.unwrap();
            }
        };
        let ((result, _), ()) = future::join(submit(write), read).await;
        assert_eq!((result.unwrap(), total), (200_000, 200_000));
    });
}

#[test]
fn without_an_executor() {
    for (_, options) in all() {
        let mut context = Context::new(options).unwrap();
        let no_such = Open::new(Name::new(c"/no/such/file"), 0);
        let error = match context.submit_with(no_such, 1) {
            laio::Outcome::Done(output) => output.unwrap_err(),
            laio::Outcome::Pending(ticket) => {
                let mut completions = Vec::new();
                assert_eq!(context.poll(&mut completions, None), Ok(1));
                assert_eq!(completions[0].user_data, 1);
                assert_eq!(completions[0].result, Err(Errno::NOENT));
                context.take(ticket).unwrap().unwrap_err()
            }
        };
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(context.pending(), 0);
    }
    assert!(Context::new(Options::new()).is_ok());
}
