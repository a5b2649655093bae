//! Rules 1 and 2: a receive with `MSG_WAITALL` loses no byte, however it ends.

use crate::harness::{
    Arg, Sys, at_mut, for_each_pending, iovec_mut, pending, plain, start, wait_for, zeroed,
};
use laio::{Context, Errno, Handle, Outcome};
use laio_testing::temp::{drain, stream_pair};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

const ALL: usize = libc::MSG_WAITALL as usize;
const WANTED: usize = 10;

/// A receive of ten bytes, and its buffer.
struct Receive {
    buffer: Box<[u8; WANTED]>,
    vector: Box<libc::iovec>,
    header: Box<libc::msghdr>,
    by_message: bool,
}

impl Receive {
    fn new(by_message: bool) -> Receive {
        let mut buffer = Box::new([0; WANTED]);
        let mut vector = Box::new(iovec_mut(&mut buffer[..]));
        let mut header: Box<libc::msghdr> = Box::new(zeroed());
        header.msg_iov = &raw mut *vector;
        header.msg_iovlen = 1;
        Receive {
            buffer,
            vector,
            header,
            by_message,
        }
    }

    fn start(&mut self, context: &mut Context, from: &OwnedFd, flags: usize) -> Outcome {
        if self.by_message {
            assert_eq!(self.vector.iov_len, WANTED);
            let args = [from.arg(), at_mut(&mut *self.header), flags];
            start(context, libc::SYS_recvmsg, args)
        } else {
            let args = [from.arg(), at_mut(&mut *self.buffer), WANTED, flags, 0, 0];
            start(context, libc::SYS_recvfrom, args)
        }
    }
}

fn send(to: &OwnedFd, bytes: &[u8]) {
    assert_eq!(rustix::io::write(to, bytes), Ok(bytes.len()));
}

/// Polls once, so that operations in flight advance.
fn look(context: &mut Context) {
    let soon = Some(Duration::from_millis(5));
    assert_eq!(context.poll(&mut Vec::new(), soon), Ok(0));
}

/// A receive that has three of its ten bytes; they arrived before the call or during it.
fn begun(context: &mut Context, early: bool, by_message: bool) -> (Receive, Handle, [OwnedFd; 2]) {
    let (from, to) = stream_pair();
    let mut receive = Receive::new(by_message);
    if early {
        send(&to, b"abc");
    }
    let Outcome::Pending(handle) = receive.start(context, &from, ALL) else {
        panic!("seven bytes are missing");
    };
    look(context);
    if !early {
        send(&to, b"abc");
        look(context);
    }
    (receive, handle, [from, to])
}

fn for_each_case(body: impl Fn(&mut Context, bool, bool)) {
    for_each_pending(|way| {
        for (early, by_message) in [(true, false), (false, false), (true, true), (false, true)] {
            body(&mut way.context(), early, by_message);
        }
    });
}

#[test]
fn cancelled_it_keeps_its_bytes() {
    for_each_case(|context, early, by_message| {
        let (receive, handle, ends) = begun(context, early, by_message);
        context.cancel(handle).unwrap();
        let result = wait_for(context, handle).result;
        has_all_of_three(result, &receive, &ends);
    });
}

/// Asserts that the three bytes were received, or can still be read.
fn has_all_of_three(result: Result<usize, Errno>, receive: &Receive, [from, _]: &[OwnedFd; 2]) {
    match result {
        Ok(3) => assert_eq!(&receive.buffer[..4], b"abc\0"),
        Err(Errno::CANCELED | Errno::TIME) => assert_eq!(drain(from), b"abc"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn timed_out_it_keeps_its_bytes() {
    for_each_case(|context, early, by_message| {
        let (receive, handle, ends) = begun(context, early, by_message);
        let soon = Some(Duration::from_millis(1));
        context.set_timeout(handle, soon).unwrap();
        let result = wait_for(context, handle).result;
        has_all_of_three(result, &receive, &ends);
    });
}

#[test]
fn at_the_end_it_keeps_its_bytes() {
    for_each_case(|context, early, by_message| {
        let (receive, handle, [_from, to]) = begun(context, early, by_message);
        drop(to);
        assert_eq!(wait_for(context, handle).result, Ok(3));
        assert_eq!(&receive.buffer[..4], b"abc\0");
    });
}

#[test]
fn the_remaining_bytes_complete_it() {
    for_each_case(|context, early, by_message| {
        let (receive, handle, [from, to]) = begun(context, early, by_message);
        send(&to, b"def");
        look(context);
        send(&to, b"ghijkl");
        assert_eq!(wait_for(context, handle).result, Ok(10));
        assert_eq!(&receive.buffer[..], b"abcdefghij");
        assert_eq!(drain(&from), b"kl");
    });
}

/// Without a wait (non-blocking mode or `MSG_DONTWAIT`) the result is the three bytes.
#[test]
fn without_a_wait_it_has_the_available_bytes() {
    for_each_pending(|way| {
        for (by_message, mode) in [(false, true), (false, false), (true, true), (true, false)] {
            let mut context = way.context();
            let (from, to) = stream_pair();
            let mut receive = Receive::new(by_message);
            let mut flags = ALL;
            if mode {
                rustix::io::ioctl_fionbio(&from, true).unwrap();
            } else {
                flags |= libc::MSG_DONTWAIT as usize;
            }
            send(&to, b"abc");
            let outcome = receive.start(&mut context, &from, flags);
            let result = match outcome {
                Outcome::Done(result) => result,
                Outcome::Pending(handle) => wait_for(&mut context, handle).result,
            };
            assert_eq!(result, Ok(3));
            assert_eq!(&receive.buffer[..4], b"abc\0");
            let outcome = receive.start(&mut context, &from, flags);
            let result = match outcome {
                Outcome::Done(result) => result,
                Outcome::Pending(handle) => wait_for(&mut context, handle).result,
            };
            assert_eq!(result, Err(Errno::AGAIN));
        }
    });
}

/// A receive does not join two records.
#[test]
fn records_are_not_put_together() {
    for_each_pending(|way| {
        for kind in [libc::SOCK_SEQPACKET, libc::SOCK_DGRAM] {
            let mut context = way.context();
            let mut ends = [0i32; 2];
            let args = [libc::AF_UNIX as usize, kind as usize, 0, at_mut(&mut ends)];
            plain(libc::SYS_socketpair, args).unwrap();
            // SAFETY: the call above has just made it.
            let [from, to] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
            let mut buffer = [0u8; WANTED];
            let args = [from.arg(), at_mut(&mut buffer), WANTED, ALL, 0, 0];
            let handle = pending(&mut context, libc::SYS_recvfrom, args);
            look(&mut context);
            send(&to, b"abcd");
            send(&to, b"efghi");
            assert_eq!(wait_for(&mut context, handle).result, Ok(4));
            assert_eq!(drain(&from), b"efghi");
        }
    });
}

scenarios! {
    about_files: false;
    descriptors_come_with_any_piece,
}

/// The second piece carries a descriptor: the receive ends with this piece and returns the descriptor.
fn descriptors_come_with_any_piece(sys: &mut Sys<'_>) {
    let (from, to) = stream_pair();
    send(&to, b"abc");
    let mut receive = Receive::new(true);
    let mut control = [0u64; 8];
    receive.header.msg_control = control.as_mut_ptr().cast();
    receive.header.msg_controllen = size_of_val(&control) as _;
    send_with_descriptor(&to, b"def");
    send(&to, b"ghijkl");
    let args = [from.arg(), at_mut(&mut *receive.header), ALL];
    let _ = sys.check("receive", libc::SYS_recvmsg, args);
    sys.note("bytes", receive.buffer);
    sys.note("control", receive.header.msg_controllen);
    sys.note("flags", receive.header.msg_flags);
    // SAFETY: the kernel has filled in the control messages.
    unsafe {
        let first = libc::CMSG_FIRSTHDR(&*receive.header);
        if !first.is_null() && (*first).cmsg_type == libc::SCM_RIGHTS {
            let fd = libc::CMSG_DATA(first).cast::<i32>().read_unaligned();
            sys.note("a descriptor", fd > 2);
            drop(OwnedFd::from_raw_fd(fd));
        }
    }
    sys.note("left", drain(&from));
}

fn send_with_descriptor(to: &OwnedFd, bytes: &[u8]) {
    let mut buffer = bytes.to_vec();
    let mut vector = iovec_mut(&mut buffer);
    let mut control = [0u64; 8];
    let mut header: libc::msghdr = zeroed();
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    // SAFETY: the buffer is large enough for one descriptor.
    unsafe {
        header.msg_controllen = libc::CMSG_SPACE(4) as _;
        let message = libc::CMSG_FIRSTHDR(&header);
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        (*message).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(message)
            .cast::<i32>()
            .write_unaligned(to.as_raw_fd());
    }
    let args = [to.arg(), (&raw const header) as usize, 0];
    assert_eq!(plain(libc::SYS_sendmsg, args), Ok(bytes.len()));
}
