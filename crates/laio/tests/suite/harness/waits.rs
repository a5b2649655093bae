//! Waits, by polling, for events that are not immediate.
//!
//! Dropping a descriptor does not always close the file at once: a child that another test has just
//! forked has a copy of every descriptor until it calls `exec`. The other end gets its event only
//! then.

// Not all of the test programs that share this file use all of them.
#![allow(dead_code)]

use super::{Arg, LIMIT, own, plain, scaled};
use laio::Errno;
use rustix::event::{PollFd, PollFlags};
use std::ffi::CStr;
use std::os::fd::AsFd;

/// Waits until the other end of a pipe or of a local stream socket is closed by all that have it.
#[track_caller]
pub(crate) fn wait_until_alone(fd: impl AsFd) {
    wait_until_ready(fd, PollFlags::empty());
}

/// Waits plainly for an event of a descriptor, or an error.
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

/// Waits until so many bytes can be read from a stream: over TCP, what one end has sent is not at once at the other, and may
/// come in pieces.
#[track_caller]
pub(crate) fn wait_until_there(fd: &impl Arg, bytes: usize) {
    let mut count = 0i32;
    let there = laio_testing::limit::wait_until(LIMIT, || {
        let ask = [fd.arg(), libc::FIONREAD as usize, super::at_mut(&mut count)];
        plain(libc::SYS_ioctl, ask).expect("a stream");
        count as usize >= bytes
    });
    assert!(there, "{count} of {bytes} bytes have come");
}

/// As [`wait_until_alone`], for a listener: until nobody listens there.
#[track_caller]
pub(crate) fn wait_until_refused(address: std::net::SocketAddr) {
    let refused = || std::net::TcpStream::connect(address).is_err();
    let refused = laio_testing::limit::wait_until(LIMIT, refused);
    assert!(refused, "somebody listens at {address}");
}

/// Whether nobody has the reading end of a FIFO open, or will have soon.
pub(crate) fn nobody_reads(directory: usize, fifo: &CStr) -> bool {
    let flags = libc::O_WRONLY | libc::O_NONBLOCK | libc::O_CLOEXEC;
    let writing = [directory, fifo.arg(), flags.arg()];
    let alone = || {
        let end = plain(libc::SYS_openat, writing);
        end.map(|end| drop(own(Ok(end)))) == Err(Errno::NXIO)
    };
    laio_testing::limit::wait_until(LIMIT, alone)
}
