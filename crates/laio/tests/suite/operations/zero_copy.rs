//! Zero-copy sends: the operation owns the memory until the kernel has posted the notification.

use crate::harness::*;
use laio::ops::Send;
use laio::{BackendKind, Context, Options, Outcome, Ticket, ZeroCopyCounts};
use laio_testing::temp::{pattern, stream_pair, tcp_pair};
use rustix::net::sockopt;
use std::io::Read;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

type Sending = Send<Rc<OwnedFd>, Rc<[u8]>>;

/// More bytes than the peer's buffer holds, and fewer than the sender's.
const LENGTH: usize = 200_000;

/// A context that supports zero-copy sends, or `None`.
fn capable() -> Option<Context> {
    let context = Context::new(Options::new().backend(BackendKind::Lazy)).expect("a context");
    // Sends beyond the limit of locked memory are ordinary sends.
    let locked = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let may_lock =
        rustix::process::geteuid().is_root() || locked.is_none_or(|most| most >= 8 << 20);
    let capable = context.sends_without_copy() && may_lock;
    if !capable {
        laio_testing::skip(
            "zero-copy",
            "no ring that sends without a copy, or too little locked memory",
        );
    }
    capable.then_some(context)
}

/// A socket with a large send buffer, and a peer with a small buffer that does not read yet.
fn small_buffers() -> (Rc<OwnedFd>, TcpStream) {
    let (near, far) = tcp_pair();
    sockopt::set_socket_send_buffer_size(&near, 2 * LENGTH).unwrap();
    sockopt::set_socket_recv_buffer_size(&far, 40_000).unwrap();
    (Rc::new(near.into()), far)
}

fn bytes() -> Rc<[u8]> {
    pattern(LENGTH, 7).into()
}

fn send(context: &mut Context, socket: &Rc<OwnedFd>, bytes: &Rc<[u8]>) -> Ticket<Sending> {
    let send = Send::new(socket.clone(), bytes.clone()).zero_copy();
    match context.submit(send) {
        Outcome::Pending(ticket) => ticket,
        Outcome::Done(_) => panic!("the kernel has not been asked"),
    }
}

/// Sends a byte behind the bytes in flight, and waits until it is sent.
fn send_behind(context: &mut Context, socket: &Rc<OwnedFd>) {
    match context.submit(Send::new(socket.clone(), "!")) {
        Outcome::Done((result, _)) => assert_eq!(result.unwrap(), 1),
        Outcome::Pending(ticket) => {
            let handle = ticket.handle();
            assert_eq!(wait_for(context, handle).result, Ok(1));
            assert!(context.take(ticket).is_ok());
        }
    }
}

fn read_all(peer: &mut TcpStream, expected: &[u8]) {
    let mut found = vec![0; expected.len() + 1];
    peer.read_exact(&mut found).unwrap();
    assert!(found[..expected.len()] == *expected && found.ends_with(b"!"));
}

/// Polls until only the test refers to the bytes.
fn wait_until_released(context: &mut Context, bytes: &Rc<[u8]>) {
    let end = Instant::now() + LIMIT;
    while Rc::strong_count(bytes) > 1 {
        assert!(Instant::now() < end, "the memory is never released");
        let wait = Some(Duration::from_millis(20));
        context.poll(&mut Vec::new(), wait).unwrap();
    }
}

#[test]
fn the_same_bytes_in_every_way() {
    for_each(|way| {
        let mut context = way.context();
        let (near, mut far) = tcp_pair();
        let near = Rc::new(OwnedFd::from(near));
        let lengths = if way.is_short() {
            [1, 10, 100]
        } else {
            [1, 65_536, 3_000_001]
        };
        let total: usize = lengths.iter().sum();
        let reader = std::thread::spawn(move || {
            let mut found = vec![0; total];
            far.read_exact(&mut found).unwrap();
            found
        });
        for (seed, length) in lengths.into_iter().enumerate() {
            let send = Send::new(near.clone(), pattern(length, seed as u64)).zero_copy();
            let (result, buffer) = match context.submit(send) {
                Outcome::Done(output) => output,
                Outcome::Pending(ticket) => {
                    wait_for(&mut context, ticket.handle());
                    context.take(ticket).expect("delivered")
                }
            };
            assert_eq!(result.unwrap(), length);
            assert!(buffer == pattern(length, seed as u64));
        }
        let sent = lengths.into_iter().enumerate();
        let sent: Vec<u8> = sent
            .flat_map(|(seed, length)| pattern(length, seed as u64))
            .collect();
        assert!(reader.join().unwrap() == sent);
        let counts = context.stats().zero_copy;
        // In the back ends that make a plain call, the hint has no effect.
        let asked = way.backend != BackendKind::Activations;
        if context.sends_without_copy() {
            assert!(counts.sends + counts.ordinary >= 3, "{counts:?}")
        } else {
            assert_eq!(counts.ordinary, if asked { 3 } else { 0 })
        }
        assert!(counts.copied <= counts.sends, "{counts:?}");
    });
}

#[test]
fn memory_is_kept_until_the_peer_has_the_bytes() {
    let Some(mut context) = capable() else { return };
    let (socket, mut peer) = small_buffers();
    let bytes = bytes();
    let ticket = send(&mut context, &socket, &bytes);
    let handle = ticket.handle();
    send_behind(&mut context, &socket);
    let ticket = context.take(ticket).expect_err("not released yet");
    assert_eq!(context.cancel(handle), Ok(()), "cancelling has no effect");
    read_all(&mut peer, &bytes);
    assert_eq!(wait_for(&mut context, handle).result, Ok(LENGTH));
    let (result, _) = context.take(ticket).expect("delivered");
    assert_eq!(result.unwrap(), LENGTH);
    assert_eq!(Rc::strong_count(&bytes), 1);
}

#[test]
fn memory_of_abandoned_sends_is_kept_too() {
    let Some(mut context) = capable() else { return };
    let (socket, mut peer) = small_buffers();
    let bytes = bytes();
    let ticket = send(&mut context, &socket, &bytes);
    send_behind(&mut context, &socket);
    context.abandon(ticket);
    drop(socket);
    context.poll(&mut Vec::new(), Some(Duration::ZERO)).unwrap();
    assert_eq!(Rc::strong_count(&bytes), 2);
    read_all(&mut peer, &bytes);
    wait_until_released(&mut context, &bytes);
}

#[test]
fn a_closing_peer_releases_memory() {
    let Some(mut context) = capable() else { return };
    let (socket, peer) = small_buffers();
    let bytes = bytes();
    let ticket = send(&mut context, &socket, &bytes);
    let handle = ticket.handle();
    send_behind(&mut context, &socket);
    // Closed with unread bytes, which causes a reset.
    drop(peer);
    assert_eq!(wait_for(&mut context, handle).result, Ok(LENGTH));
    drop(context.take(ticket));
    wait_until_released(&mut context, &bytes);
}

#[test]
fn disconnecting_releases_memory() {
    let Some(mut context) = capable() else { return };
    let (socket, _peer) = small_buffers();
    let bytes = bytes();
    let ticket = send(&mut context, &socket, &bytes);
    send_behind(&mut context, &socket);
    context.abandon(ticket);
    rustix::net::connect_unspec(&socket).unwrap();
    wait_until_released(&mut context, &bytes);
}

#[test]
fn a_dropped_context_leaks_memory_that_the_kernel_uses() {
    let Some(mut context) = capable() else { return };
    let (socket, mut peer) = small_buffers();
    let bytes = bytes();
    let _ticket = send(&mut context, &socket, &bytes);
    send_behind(&mut context, &socket);
    drop(context);
    assert_eq!(
        Rc::strong_count(&bytes),
        2,
        "not leaked: the memory may be reused"
    );
    read_all(&mut peer, &bytes);
}

#[test]
fn waiting_sends_can_be_cancelled() {
    let Some(mut context) = capable() else { return };
    let (socket, peer) = small_buffers();
    let bytes: Rc<[u8]> = pattern(20 * LENGTH, 3).into();
    let ticket = send(&mut context, &socket, &bytes);
    let handle = ticket.handle();
    context.poll(&mut Vec::new(), Some(Duration::ZERO)).unwrap();
    assert_eq!(context.cancel(handle), Ok(()));
    // A part of the bytes is in the socket.
    drop(peer);
    let sent = wait_for(&mut context, handle).result;
    assert!(
        sent.is_ok_and(|sent| sent > 0 && sent < bytes.len()),
        "{sent:?}"
    );
    drop(context.take(ticket));
    wait_until_released(&mut context, &bytes);
}

#[test]
fn sockets_without_zero_copy_get_ordinary_sends() {
    let Some(mut context) = capable() else { return };
    let (near, far) = stream_pair();
    let near = Rc::new(near);
    let bytes: Rc<[u8]> = pattern(1000, 1).into();
    let ticket = send(&mut context, &near, &bytes);
    let handle = ticket.handle();
    assert_eq!(wait_for(&mut context, handle).result, Ok(1000));
    drop(context.take(ticket));
    let mut found = vec![0; 1000];
    assert_eq!(rustix::io::read(&far, &mut found).unwrap(), 1000);
    assert!(found == *bytes);
    let counts = ZeroCopyCounts {
        ordinary: 1,
        ..ZeroCopyCounts::default()
    };
    wait_until_released(&mut context, &bytes);
    assert_eq!(context.stats().zero_copy, counts);
}

#[test]
fn over_loopback_everything_is_copied() {
    let Some(mut context) = capable() else { return };
    let (socket, mut peer) = small_buffers();
    let bytes = bytes();
    let ticket = send(&mut context, &socket, &bytes);
    let handle = ticket.handle();
    send_behind(&mut context, &socket);
    read_all(&mut peer, &bytes);
    assert_eq!(wait_for(&mut context, handle).result, Ok(LENGTH));
    drop(context.take(ticket));
    let counts = context.stats().zero_copy;
    assert!(counts.sends >= 1 && counts.ordinary == 0, "{counts:?}");
    // Older kernels do not report it.
    assert!([0, counts.sends].contains(&counts.copied), "{counts:?}");
}
