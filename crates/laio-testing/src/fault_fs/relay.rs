//! Relays messages between the kernel and the FUSE library.
//!
//! The library reads requests from a descriptor and writes replies to it. It does not handle interrupts (it
//! replies `ENOSYS`, after which the kernel never sends one again), and only unmounting can stop its reading
//! thread. So it gets one end of a socket pair that keeps message boundaries, as the device does. Two threads
//! relay the messages, handle interrupts, and stop on command.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType};

use super::rules::Rules;

/// The maximum of data in one request or reply. A message must fit into the socket's buffer, which is 208 KiB
/// by default.
pub(super) const DATA_MAX: u32 = 128 * 1024;

const MESSAGE_MAX: usize = DATA_MAX as usize + 4096;

/// `struct fuse_in_header`: length, opcode, number of the request, inode, uid, gid, pid, padding.
const HEADER: usize = 40;
const OPCODE: usize = 4;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;

/// The two threads.
#[derive(Debug)]
pub(super) struct Relay {
    stop: Arc<OwnedFd>,
    socket: Arc<OwnedFd>,
    requests: JoinHandle<()>,
    answers: JoinHandle<()>,
}

/// The relay's end and the library's end.
pub(super) fn sockets() -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = SocketType::SEQPACKET;
    Ok(rustix::net::socketpair(
        AddressFamily::UNIX,
        kind,
        SocketFlags::CLOEXEC,
        None,
    )?)
}

/// Sends the library the `FUSE_INIT` request that it expects first. The real one was answered when the file
/// system was mounted.
pub(super) fn greet(socket: &OwnedFd) -> io::Result<()> {
    const VERSION: [u32; 2] = [7, 40];
    let length = HEADER as u32 + 16;
    let mut message = Vec::with_capacity(length as usize);
    message.extend_from_slice(&length.to_ne_bytes());
    message.extend_from_slice(&INIT.to_ne_bytes());
    message.resize(HEADER, 0);
    // The version, the read-ahead size and the capabilities: nothing is negotiated here.
    for word in [VERSION[0], VERSION[1], 0, 0] {
        message.extend_from_slice(&word.to_ne_bytes());
    }
    rustix::net::send(socket, &message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Reads and discards the reply to [`greet`].
pub(super) fn take_greeting(socket: &OwnedFd) -> io::Result<()> {
    let mut answer = [0; 4096];
    rustix::net::recv(socket, &mut answer[..], RecvFlags::DONTWAIT)?;
    Ok(())
}

impl Relay {
    /// Starts the threads. The relay owns both descriptors.
    pub(super) fn start(
        device: OwnedFd,
        socket: OwnedFd,
        rules: Arc<Rules>,
        interruptible: bool,
    ) -> io::Result<Relay> {
        // The thread waits in poll, for the device or for the stop event.
        rustix::io::ioctl_fionbio(&device, true)?;
        let stop = Arc::new(rustix::event::eventfd(0, EventfdFlags::CLOEXEC)?);
        let (device, socket) = (Arc::new(device), Arc::new(socket));
        let requests = {
            let (device, socket, stop) =
                (Arc::clone(&device), Arc::clone(&socket), Arc::clone(&stop));
            let interrupt = move |request| {
                if interruptible {
                    rules.interrupt(request);
                }
            };
            spawn("faultfs-requests", move || {
                pass_requests(&device, &socket, &stop, &interrupt)
            })?
        };
        let answers = {
            let socket = Arc::clone(&socket);
            spawn("faultfs-answers", move || pass_answers(&socket, &device))?
        };
        Ok(Relay {
            stop,
            socket,
            requests,
            answers,
        })
    }

    /// Stops the threads, and closes the device.
    pub(super) fn stop(self) {
        // An eventfd accepts any number but the largest.
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        let _ = rustix::net::shutdown(&*self.socket, Shutdown::Both);
        // A thread that panicked has also ended.
        let _ = self.requests.join();
        let _ = self.answers.join();
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(body)
}

/// Relays from the kernel to the library, until the stop event or an unmount.
fn pass_requests(device: &OwnedFd, socket: &OwnedFd, stop: &OwnedFd, interrupt: &dyn Fn(u64)) {
    let mut buffer = vec![0; MESSAGE_MAX];
    loop {
        let mut ready = [
            PollFd::new(device, PollFlags::IN),
            PollFd::new(stop, PollFlags::IN),
        ];
        match rustix::event::poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break,
        }
        if !ready[1].revents().is_empty() {
            break;
        }
        let message = match rustix::io::read(device, &mut buffer) {
            Ok(length) => &buffer[..length],
            // ENOENT: the request was interrupted before it was read.
            Err(Errno::INTR | Errno::AGAIN | Errno::NOENT) => continue,
            // ENODEV: the file system was unmounted.
            Err(_) => break,
        };
        if word(message, OPCODE) == INTERRUPT {
            interrupt(long(message, HEADER));
        } else if rustix::net::send(socket, message, SendFlags::NOSIGNAL).is_err() {
            break;
        }
    }
    let _ = rustix::net::shutdown(socket, Shutdown::Both);
}

/// Relays from the library to the kernel, until the library or the other thread closes its end.
fn pass_answers(socket: &OwnedFd, device: &OwnedFd) {
    let mut buffer = vec![0; MESSAGE_MAX];
    loop {
        match rustix::net::recv(socket, &mut buffer[..], RecvFlags::empty()) {
            Ok((_, 0)) => return,
            // It fails if the request was interrupted.
            Ok((length, _)) => drop(rustix::io::write(device, &buffer[..length])),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

fn word(message: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(message[offset..offset + 4].try_into().expect("four bytes"))
}

fn long(message: &[u8], offset: usize) -> u64 {
    u64::from_ne_bytes(message[offset..offset + 8].try_into().expect("eight bytes"))
}
