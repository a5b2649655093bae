//! Waits, by polling, for events that take a moment.
//!
//! Dropping a descriptor does not always close the file at once: a child that another test has just
//! forked has a copy of every descriptor until it calls `exec`. The other end gets its event only
//! then.

// Each test program that includes this file uses only a part of it.
#![allow(dead_code)]

use super::{Arg, LIMIT, own, plain, scaled};
use laio::Errno;
use rustix::event::{PollFd, PollFlags};
use std::ffi::CStr;
use std::os::fd::AsFd;

/// Waits until every copy of the other end of a pipe or local stream socket is closed.
#[track_caller]
pub(crate) fn wait_until_closed(fd: impl AsFd) {
    wait_until_ready(fd, PollFlags::empty());
}

/// Waits for an event of a descriptor or an error, with a plain `poll`.
#[track_caller]
pub(crate) fn wait_until_ready(fd: impl AsFd, wanted: PollFlags) {
    let limit = rustix::event::Timespec {
        tv_sec: scaled(LIMIT).as_secs() as i64,
        tv_nsec: 0,
    };
    let mut set = [PollFd::new(&fd, wanted)];
    let ready = loop {
        match rustix::event::poll(&mut set, Some(&limit)) {
            Err(rustix::io::Errno::INTR) => {}
            ready => break ready,
        }
    };
    assert_eq!(ready, Ok(1), "{wanted:?}");
}

/// Waits until this many bytes can be read from a stream: over TCP, sent bytes take time to arrive, and may arrive
/// in pieces.
#[track_caller]
pub(crate) fn wait_until_there(fd: &impl Arg, bytes: usize) {
    let mut count = 0i32;
    let there = laio_testing::limit::wait_until(LIMIT, || {
        let ask = [fd.arg(), libc::FIONREAD as usize, super::at_mut(&mut count)];
        plain(libc::SYS_ioctl, ask).expect("a stream");
        count as usize >= bytes
    });
    assert!(there, "{count} of {bytes} bytes have arrived");
}

/// Waits until no process listens at an address; see [`wait_until_closed`].
#[track_caller]
pub(crate) fn wait_until_refused(address: std::net::SocketAddr) {
    let refused = || std::net::TcpStream::connect(address).is_err();
    let refused = laio_testing::limit::wait_until(LIMIT, refused);
    assert!(refused, "a socket still listens at {address}");
}

/// Whether no process has the reading end of a FIFO open, or is about to open it.
pub(crate) fn has_no_reader(directory: usize, fifo: &CStr) -> bool {
    let flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let writing = [directory, fifo.arg(), flags.arg()];
    let alone = || {
        let end = plain(libc::SYS_openat, writing);
        end.map(|end| drop(own(Ok(end)))) == Err(Errno::NXIO)
    };
    laio_testing::limit::wait_until(LIMIT, alone)
}
